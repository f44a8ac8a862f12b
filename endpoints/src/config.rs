//! What a configuration says of an endpoint, and the check that it can work. Keys are never in it: it
//! names an environment variable or a file.
//!
//! It refuses to know where the configuration was written.

use crate::error::EndpointError;
use crate::fault::{one_line, shorten};
use crate::rate::PER_MINUTE_LIMIT;
use crate::retry::{RetryPolicy, TRIES_LIMIT};
use crate::secret::{BaseUrl, Redactor, Secret};
use legwork_protocol::generation::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The most requests of one endpoint that may be under way at once.
pub const CONCURRENCY_LIMIT: usize = 8192;
/// The longest of any configured time, in milliseconds: a day.
pub const TIME_LIMIT_MS: u64 = 86_400_000;
/// The most texts of one embedding request.
pub const EMBED_BATCH_LIMIT: usize = 2048;
/// The largest answer that may be configured, in bytes.
pub const BODY_LIMIT_BYTES: usize = 1 << 30;
/// The largest key file, in bytes.
const KEY_FILE_MAX_BYTES: u64 = 64 * 1024;
/// Fields of a request that `extra` and `omit` must leave alone, since answers are read by them.
const OWN_FIELDS: [&str; 8] = ["messages", "prompt", "contents", "input_ids", "input", "stream", "rid", "n"];

/// Which protocol an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Chat completions as OpenAI, vLLM, SGLang, llama.cpp and most routers serve them.
    Openai,
    /// SGLang's own `/generate`: token ids in, token ids out.
    Sglang,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Kind {
    /// The name as the configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Openai => "openai",
            Kind::Sglang => "sglang",
            Kind::Gemini => "gemini",
        }
    }
}

/// Which route of an OpenAI-compatible server is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `/chat/completions`: the server renders the conversation.
    #[default]
    Chat,
    /// `/completions` with token ids as the prompt: the encoder renders it.
    Completions,
}

/// How reasoning that came apart from the text is sent back in later turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningBack {
    /// Not at all, as most hosted models want it.
    #[default]
    Dropped,
    /// As the field `reasoning_content`, for templates that place it themselves.
    Field,
    /// Within `<think>` tags before the content, for templates that keep what they are given.
    ThinkTags,
}

/// Prices in currency units per million tokens. Zero is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prices {
    /// Prompt tokens that were not cached.
    pub prompt: f64,
    /// Prompt tokens from the server's cache.
    pub cached: f64,
    /// New tokens.
    pub completion: f64,
}

impl Prices {
    /// What `usage` costs, in millionths of a currency unit, rounded up: a price per million tokens is as
    /// many millionths per token.
    pub fn micros(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let fresh = usage.prompt_tokens - cached;
        let exact = f64::from(fresh) * self.prompt
            + f64::from(cached) * self.cached
            + f64::from(usage.completion_tokens) * self.completion;
        exact.ceil() as u64
    }
}

/// One endpoint of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointConfig {
    /// The protocol.
    pub kind: Kind,
    /// The base URL, such as `http://127.0.0.1:8000/v1`; for `sglang` without `/v1`.
    pub url: BaseUrl,
    /// The model's name, as the server knows it.
    pub model: String,
    /// The route, for `openai`.
    #[serde(default)]
    pub api: Api,
    /// The environment variable that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// The file that holds the key and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Read only to be refused with a word on where keys belong: a reader of TOML that met an unknown
    /// field would quote its line, key and all.
    #[serde(default, skip_serializing, alias = "api_key", alias = "token")]
    pub key: Option<Secret>,
    /// Whether answers are streamed. A stream shows a hung server sooner.
    #[serde(default = "yes")]
    pub stream: bool,
    /// How reasoning is sent back.
    #[serde(default)]
    pub reasoning: ReasoningBack,
    /// The most requests under way at once.
    #[serde(default = "concurrency_default")]
    pub concurrency: usize,
    /// Whether the concurrency gives way when the server says that it is overloaded, and grows back.
    #[serde(default)]
    pub adaptive: bool,
    /// The most requests a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// The most tokens a minute, prompt and completion. Estimated before a call and corrected after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    /// To connect, in milliseconds.
    #[serde(default = "connect_timeout_default")]
    pub connect_timeout_ms: u64,
    /// For one request from start to end, in milliseconds.
    #[serde(default = "timeout_default")]
    pub timeout_ms: u64,
    /// Between two pieces of an answer, in milliseconds.
    #[serde(default = "idle_timeout_default")]
    pub idle_timeout_ms: u64,
    /// Tries and backoff.
    #[serde(default)]
    pub retries: RetryPolicy,
    /// Laid upon every request's body, objects merged: for example `chat_template_kwargs`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Fields left out of every request's body, for servers that refuse them (`temperature`, `top_k`,
    /// `stream_options`, …).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omit: Vec<String>,
    /// What the limit of new tokens is called: `max_tokens`, or `max_completion_tokens`.
    #[serde(default = "max_tokens_field_default")]
    pub max_tokens_field: String,
    /// Prices, for the cost of a call.
    #[serde(default)]
    pub prices: Prices,
    /// Whether requests may offer native tools.
    #[serde(default)]
    pub native_tools: bool,
    /// Whether log-probabilities of new tokens are asked for, for `sglang`.
    #[serde(default)]
    pub logprobs: bool,
    /// The largest answer that is read, in bytes.
    #[serde(default = "body_max_default")]
    pub body_max_bytes: usize,
    /// Texts a request, for an embedder.
    #[serde(default = "embed_batch_default")]
    pub embed_batch: usize,
    /// The length that an embedder's vectors must have; none takes the first vector's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
}

fn yes() -> bool {
    true
}
fn concurrency_default() -> usize {
    64
}
fn connect_timeout_default() -> u64 {
    10_000
}
fn timeout_default() -> u64 {
    600_000
}
fn idle_timeout_default() -> u64 {
    120_000
}
fn max_tokens_field_default() -> String {
    "max_tokens".to_owned()
}
fn body_max_default() -> usize {
    64 * 1024 * 1024
}
fn embed_batch_default() -> usize {
    64
}

/// What the check found out.
pub(crate) struct Checked {
    pub(crate) url: reqwest::Url,
    pub(crate) key: Option<Secret>,
    pub(crate) redactor: Redactor,
}

impl EndpointConfig {
    /// A configuration of `kind` with every default.
    pub fn new(kind: Kind, url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            kind,
            url: BaseUrl::new(url),
            model: model.into(),
            api: Api::Chat,
            key_env: None,
            key_file: None,
            key: None,
            stream: true,
            reasoning: ReasoningBack::default(),
            concurrency: concurrency_default(),
            adaptive: false,
            requests_per_minute: None,
            tokens_per_minute: None,
            connect_timeout_ms: connect_timeout_default(),
            timeout_ms: timeout_default(),
            idle_timeout_ms: idle_timeout_default(),
            retries: RetryPolicy::default(),
            extra: Map::new(),
            omit: Vec::new(),
            max_tokens_field: max_tokens_field_default(),
            prices: Prices::default(),
            native_tools: false,
            logprobs: false,
            body_max_bytes: body_max_default(),
            embed_batch: embed_batch_default(),
            dimensions: None,
        }
    }

    /// Checks everything that can be checked without a request. Keys are read when an endpoint is built.
    ///
    /// # Errors
    /// The first field that cannot be, with what it may be.
    pub fn validate(&self, name: &str) -> Result<(), EndpointError> {
        if self.key.is_some() {
            return Err(EndpointError::InlineKey { name: name.to_owned() });
        }
        if self.key_env.is_some() && self.key_file.is_some() {
            return Err(EndpointError::TwoKeys { name: name.to_owned() });
        }
        self.parse_url(name)?;
        self.check_numbers(name)?;
        self.check_fields(name)?;
        self.check_features(name)
    }

    pub(crate) fn check(&self, name: &str) -> Result<Checked, EndpointError> {
        self.validate(name)?;
        let key = self.read_key(name, |variable| std::env::var(variable).ok())?;
        let redactor = Redactor::new(key.iter().cloned().chain(self.url.secrets()));
        Ok(Checked { url: self.parse_url(name)?, key, redactor })
    }

    fn parse_url(&self, name: &str) -> Result<reqwest::Url, EndpointError> {
        let wrong = |problem: &str| EndpointError::Url {
            name: name.to_owned(),
            url: self.url.to_string(),
            problem: problem.to_owned(),
        };
        let url = reqwest::Url::parse(self.url.expose())
            .map_err(|error| wrong(&format!("cannot be read ({error}): write it as http://host:port/path")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("must start with http:// or https:// and name a host"));
        }
        if self.kind == Kind::Sglang && url.path().trim_end_matches('/').ends_with("/v1") {
            return Err(wrong("ends in /v1, which is the server's OpenAI route: give its root for kind `sglang`"));
        }
        Ok(url)
    }

    fn check_numbers(&self, name: &str) -> Result<(), EndpointError> {
        let range = |field: &'static str, got: u64, least: u64, most: u64| {
            if (least..=most).contains(&got) {
                return Ok(());
            }
            Err(EndpointError::Field {
                name: name.to_owned(),
                field,
                expected: format!("{least} to {most}"),
                got: got.to_string(),
            })
        };
        range("concurrency", self.concurrency as u64, 1, CONCURRENCY_LIMIT as u64)?;
        range("connect_timeout_ms", self.connect_timeout_ms, 1, TIME_LIMIT_MS)?;
        range("timeout_ms", self.timeout_ms, 1, TIME_LIMIT_MS)?;
        range("idle_timeout_ms", self.idle_timeout_ms, 1, TIME_LIMIT_MS)?;
        range("retries.tries_max", u64::from(self.retries.tries_max), 1, u64::from(TRIES_LIMIT))?;
        range("retries.cap_ms", self.retries.cap_ms, 0, TIME_LIMIT_MS)?;
        range("retries.base_ms", self.retries.base_ms, 0, self.retries.cap_ms)?;
        range("requests_per_minute", self.requests_per_minute.unwrap_or(1), 1, PER_MINUTE_LIMIT)?;
        range("tokens_per_minute", self.tokens_per_minute.unwrap_or(1), 1, PER_MINUTE_LIMIT)?;
        range("body_max_bytes", self.body_max_bytes as u64, 1024, BODY_LIMIT_BYTES as u64)?;
        range("embed_batch", self.embed_batch as u64, 1, EMBED_BATCH_LIMIT as u64)?;
        for (field, price) in [
            ("prices.prompt", self.prices.prompt),
            ("prices.cached", self.prices.cached),
            ("prices.completion", self.prices.completion),
        ] {
            if !(price.is_finite() && price >= 0.0) {
                let expected = "a number from 0".to_owned();
                return Err(EndpointError::Field { name: name.to_owned(), field, expected, got: price.to_string() });
            }
        }
        Ok(())
    }

    fn check_fields(&self, name: &str) -> Result<(), EndpointError> {
        let wrong = |field, expected: &str, got: &str| {
            Err(EndpointError::Field {
                name: name.to_owned(),
                field,
                expected: expected.to_owned(),
                got: shorten(&one_line(got)),
            })
        };
        if self.model.trim().is_empty() {
            return wrong("model", "the name that the server knows the model by", "an empty text");
        }
        if !matches!(self.max_tokens_field.as_str(), "max_tokens" | "max_completion_tokens") {
            return wrong("max_tokens_field", "`max_tokens` or `max_completion_tokens`", &self.max_tokens_field);
        }
        if let Some(own) = self.extra.keys().find(|field| OWN_FIELDS.contains(&field.as_str())) {
            return wrong("extra", "fields other than those of the request itself", own);
        }
        if let Some(own) = self.omit.iter().find(|field| OWN_FIELDS.contains(&field.as_str())) {
            return wrong("omit", "fields other than those of the request itself", own);
        }
        Ok(())
    }

    fn check_features(&self, name: &str) -> Result<(), EndpointError> {
        let unsupported = |feature, cure| {
            Err(EndpointError::Unsupported { name: name.to_owned(), kind: self.kind.name(), feature, cure })
        };
        let token_prompt = self.kind == Kind::Sglang || self.api == Api::Completions;
        if self.native_tools && (token_prompt || self.kind == Kind::Gemini) {
            return unsupported("native_tools", "use the XML-style grammar, or kind `openai` with the chat route");
        }
        if self.api == Api::Completions && self.kind != Kind::Openai {
            return unsupported("api = \"completions\"", "leave `api` out");
        }
        if self.logprobs && self.kind != Kind::Sglang {
            return unsupported("logprobs", "use kind `sglang`");
        }
        Ok(())
    }

    fn read_key(
        &self,
        name: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Secret>, EndpointError> {
        let (text, origin) = match (&self.key_env, &self.key_file) {
            (None, None) => return Ok(None),
            (Some(variable), _) => {
                let unset = || EndpointError::KeyUnset { name: name.to_owned(), variable: variable.clone() };
                (environment(variable).ok_or_else(unset)?, format!("`{variable}`"))
            }
            (None, Some(path)) => (read_key_file(name, path)?, path.display().to_string()),
        };
        let key = text.trim();
        let problem = match key {
            "" => "empty",
            key if !key.bytes().all(|byte| byte.is_ascii_graphic()) => "not printable ascii on one line",
            key => return Ok(Some(Secret::new(key))),
        };
        Err(EndpointError::KeyUnfit { name: name.to_owned(), origin, problem })
    }
}

fn read_key_file(name: &str, path: &Path) -> Result<String, EndpointError> {
    let fail = |reason: String| EndpointError::KeyFile { name: name.to_owned(), path: path.to_owned(), reason };
    let file = std::fs::File::open(path).map_err(|error| fail(error.to_string()))?;
    let mut text = String::new();
    file.take(KEY_FILE_MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > KEY_FILE_MAX_BYTES {
        return Err(fail(format!("it is larger than {KEY_FILE_MAX_BYTES} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "kind = \"openai\"\nurl = \"http://127.0.0.1:8000/v1\"\nmodel = \"m\"\n";

    fn read(more: &str) -> EndpointConfig {
        toml::from_str(&format!("{MINIMAL}{more}")).unwrap()
    }

    fn refusal(more: &str) -> String {
        read(more).validate("w").unwrap_err().to_string()
    }

    #[test]
    fn three_lines_are_enough_and_are_the_defaults() {
        assert_eq!(read(""), EndpointConfig::new(Kind::Openai, "http://127.0.0.1:8000/v1", "m"));
        read("").validate("w").unwrap();
    }

    #[test]
    fn an_inline_key_is_refused_without_being_repeated() {
        for field in ["key", "api_key", "token"] {
            let config = read(&format!("{field} = \"sk-very-secret\"\n"));
            let told =
                format!("{} {config:?} {}", config.validate("w").unwrap_err(), serde_json::to_string(&config).unwrap());
            assert!(told.contains("key_env") && !told.contains("very-secret"), "{told}");
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(toml::from_str::<EndpointConfig>(&format!("{MINIMAL}temprature = 1\n")).is_err());
        assert!(toml::from_str::<EndpointConfig>(&format!("{MINIMAL}[retries]\ntries = 1\n")).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_may_be() {
        assert!(refusal("concurrency = 0").contains("`concurrency` must be 1 to 8192, got 0"));
        assert!(refusal("[retries]\nbase_ms = 9\ncap_ms = 3").contains("`retries.base_ms` must be 0 to 3"));
        assert!(refusal("[prices]\nprompt = -1.0").contains("prices.prompt"));
        assert!(refusal("[extra]\nstream = false").contains("`extra`"));
        assert!(refusal("logprobs = true").contains("use kind `sglang`"));
        assert!(refusal("key_env = \"A\"\nkey_file = \"b\"").contains("keep one"));
        let mut config = read("");
        config.url = BaseUrl::new("ftp://u:pass-word@h/?key=abcdef");
        let told = config.validate("w").unwrap_err().to_string();
        assert!(told.contains("http://") && !told.contains("pass-word") && !told.contains("abcdef"), "{told}");
        config.kind = Kind::Sglang;
        config.url = BaseUrl::new("http://h:30000/v1/");
        assert!(config.validate("w").unwrap_err().to_string().contains("root"));
    }

    #[test]
    fn keys_come_from_the_environment_or_a_file_and_are_trimmed() {
        let config = read("key_env = \"K\"");
        let key = config.read_key("w", |name| (name == "K").then(|| " sk-1234\n".to_owned())).unwrap().unwrap();
        assert_eq!(key.expose(), "sk-1234");
        assert!(config.read_key("w", |_| None).unwrap_err().to_string().contains("export it"));
        let told = config.read_key("w", |_| Some("sk 12\n34".to_owned())).unwrap_err().to_string();
        assert!(told.contains("printable ascii") && !told.contains("34"), "{told}");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let mut config = read("");
        config.key_file = Some(path.clone());
        assert!(config.read_key("w", |_| None).unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(&path, "sk-5678\r\n").unwrap();
        assert_eq!(config.read_key("w", |_| None).unwrap().unwrap().expose(), "sk-5678");
        std::fs::write(&path, vec![b'x'; 70_000]).unwrap();
        assert!(config.read_key("w", |_| None).unwrap_err().to_string().contains("larger"));
    }

    #[test]
    fn a_call_costs_its_tokens_at_their_prices_rounded_up() {
        let prices = Prices { prompt: 0.15, cached: 0.075, completion: 0.6 };
        let usage = Usage { prompt_tokens: 1000, cached_tokens: 400, completion_tokens: 101 };
        assert_eq!(prices.micros(&usage), 181, "90 + 30 + 60.6");
        assert_eq!(Prices::default().micros(&usage), 0);
    }
}
