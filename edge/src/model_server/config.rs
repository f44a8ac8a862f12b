//! What a configuration says of the model server, and what it may not say: an address that others can reach needs a
//! token, and every limit has a most.

use crate::caller::{TOKEN_MIN_BYTES, Token};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The port where nothing else is said.
const PORT: u16 = 8001;
/// Answers at once at most.
const CONCURRENCY_MAX: usize = 65_536;
/// Requests that may wait at most.
const QUEUE_MAX: usize = 1 << 20;
/// Threads that read and write at most.
const THREADS_MAX: usize = 64;
/// The longest that anything may be allowed: a day, in milliseconds.
const TIMEOUT_MAX_MS: u64 = 86_400_000;
/// The largest request that may be allowed, in bytes. A body's JSON takes several times its room while it is read.
const BODY_MAX_BYTES: usize = 256 << 20;
/// The most that any list of a request may be allowed.
const LIST_MAX: usize = 1 << 20;
/// The most likeliest tokens in place of one that may be allowed.
const LOGPROBS_MAX: u32 = 1024;

/// How to serve.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelServerConfig {
    /// Where to listen; port 0 takes a free one. Others than this machine can ask only with `token`.
    pub listen: SocketAddr,
    /// The bearer token that requests must carry; none for an address of this machine.
    pub token: Option<Token>,
    /// Answers at once; each choice of a request is one.
    pub concurrency: usize,
    /// Requests that may wait for a place; the next is answered with 429.
    pub queue_max: usize,
    /// The longest that a request may take, waiting included, in milliseconds; then it is answered with 408, or its
    /// stream ends in an error.
    pub timeout_ms: u64,
    /// How long the head of a request may take to arrive, in milliseconds.
    pub head_timeout_ms: u64,
    /// How long its body may take, in milliseconds.
    pub body_timeout_ms: u64,
    /// The largest request body, in bytes.
    pub body_max_bytes: usize,
    /// Messages of a conversation at most, and parts of a message.
    pub messages_max: usize,
    /// Tools of a request at most.
    pub tools_max: usize,
    /// Stop strings, and stop ids, of a request at most.
    pub stop_max: usize,
    /// Answers of one request at most: prompts times `n`.
    pub choices_max: usize,
    /// Inputs of one request for embeddings at most.
    pub inputs_max: usize,
    /// The likeliest tokens told in place of one at most.
    pub logprobs_max: u32,
    /// Entries of `logit_bias` at most.
    pub logit_bias_max: usize,
    /// What becomes of thoughts in answers of the chat route, unless a request says `separate_reasoning`.
    pub reasoning: Reasoning,
    /// What an event of a streamed `/generate` holds.
    pub generate_events: GenerateEvents,
    /// Threads that read and write; answers are made elsewhere.
    pub threads: usize,
}

/// What becomes of the text up to `</think>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// It stays in `content`, tags included, as SGLang and vLLM do where no reasoning parser is set.
    #[default]
    Keep,
    /// It goes to `reasoning_content`, as with their `--reasoning-parser qwen3`.
    Split,
}

/// What an event of a streamed `/generate` holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GenerateEvents {
    /// All that was made so far, as SGLang does: the events of an answer grow with its square.
    #[default]
    Whole,
    /// What is new, as SGLang's `--incremental-streaming-output`.
    New,
}

impl Default for ModelServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
            token: None,
            concurrency: 1024,
            queue_max: 4096,
            timeout_ms: 600_000,
            head_timeout_ms: 10_000,
            body_timeout_ms: 60_000,
            body_max_bytes: 8 << 20,
            messages_max: 4096,
            tools_max: 256,
            stop_max: 16,
            choices_max: 128,
            inputs_max: 2048,
            logprobs_max: 20,
            logit_bias_max: 1024,
            reasoning: Reasoning::Keep,
            generate_events: GenerateEvents::Whole,
            threads: 2,
        }
    }
}

/// A configuration that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelServerError {
    /// Others could ask without a token.
    #[error("{listen} can be reached from other machines, and no token is set: set one, or listen on 127.0.0.1")]
    Open {
        /// The address.
        listen: SocketAddr,
    },
    /// A token that can be guessed or not be sent.
    #[error("the token must be {TOKEN_MIN_BYTES} or more characters of printable ascii without spaces, got {got}")]
    Token {
        /// What is wrong with it; never the token.
        got: &'static str,
    },
    /// A number out of its range.
    #[error("`{field}` must be {least} to {most}, got {got}")]
    Field {
        /// The field.
        field: &'static str,
        /// The least that it may be.
        least: u64,
        /// The most that it may be.
        most: u64,
        /// What it is.
        got: u64,
    },
    /// No model to serve.
    #[error("at least one model was expected, none came: give the server one")]
    NoModel,
    /// Two models under one name.
    #[error("two models are called {name:?}: give each its own id and aliases")]
    SameName {
        /// The name.
        name: String,
    },
    /// A model without a name.
    #[error("a model's id is empty: requests could not name it")]
    NoName,
}

impl ModelServerConfig {
    /// Checks everything.
    ///
    /// # Errors
    /// The first thing that cannot be, with the cure.
    pub fn check(&self) -> Result<(), ModelServerError> {
        match &self.token {
            Some(token) => token.check().map_err(|got| ModelServerError::Token { got })?,
            None if self.listen.ip().is_loopback() => {}
            None => return Err(ModelServerError::Open { listen: self.listen }),
        }
        let numbers = [
            ("concurrency", 1, CONCURRENCY_MAX, self.concurrency),
            ("queue_max", 0, QUEUE_MAX, self.queue_max),
            ("body_max_bytes", 1024, BODY_MAX_BYTES, self.body_max_bytes),
            ("messages_max", 1, LIST_MAX, self.messages_max),
            ("tools_max", 0, LIST_MAX, self.tools_max),
            ("stop_max", 0, LIST_MAX, self.stop_max),
            ("choices_max", 1, LIST_MAX, self.choices_max),
            ("inputs_max", 1, LIST_MAX, self.inputs_max),
            ("logprobs_max", 0, LOGPROBS_MAX as usize, self.logprobs_max as usize),
            ("logit_bias_max", 0, LIST_MAX, self.logit_bias_max),
            ("threads", 1, THREADS_MAX, self.threads),
        ];
        for (field, least, most, got) in numbers {
            in_range(field, least as u64, most as u64, got as u64)?;
        }
        in_range("head_timeout_ms", 1, TIMEOUT_MAX_MS, self.head_timeout_ms)?;
        in_range("body_timeout_ms", 1, TIMEOUT_MAX_MS, self.body_timeout_ms)?;
        in_range("timeout_ms", 1, TIMEOUT_MAX_MS, self.timeout_ms)
    }

    pub(super) fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }
}

fn in_range(field: &'static str, least: u64, most: u64, got: u64) -> Result<(), ModelServerError> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(ModelServerError::Field { field, least, most, got })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_reach_needs_a_token() {
        let checked = |listen: &str, token: Option<&str>| {
            let listen = listen.parse().unwrap();
            ModelServerConfig { listen, token: token.map(Token::new), ..ModelServerConfig::default() }.check()
        };
        assert_eq!(checked("127.0.0.1:1", None), Ok(()));
        assert_eq!(checked("0.0.0.0:1", None), Err(ModelServerError::Open { listen: "0.0.0.0:1".parse().unwrap() }));
        assert_eq!(checked("0.0.0.0:1", Some("0123456789abcdef")), Ok(()));
        assert_eq!(checked("127.0.0.1:1", Some("short")), Err(ModelServerError::Token { got: "fewer" }));
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let config = ModelServerConfig { concurrency: 0, ..ModelServerConfig::default() };
        assert_eq!(config.check().unwrap_err().to_string(), "`concurrency` must be 1 to 65536, got 0");
        let config = ModelServerConfig { timeout_ms: 0, ..ModelServerConfig::default() };
        assert_eq!(config.check().unwrap_err().to_string(), "`timeout_ms` must be 1 to 86400000, got 0");
    }
}
