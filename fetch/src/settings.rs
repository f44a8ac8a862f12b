//! Where the hub and the cache are, and how patient to be. The variables are those of `huggingface_hub`; whoever calls reads
//! the environment. A token prints as `[key]`.

use crate::error::FetchError;
use reqwest::Url;
use std::fmt;
use std::path::{Path, PathBuf};

/// The hub.
const ENDPOINT: &str = "https://huggingface.co";
/// Bytes of a file with a token at most.
const TOKEN_MAX_BYTES: u64 = 4096;

/// A token of the hub.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes a token; none where there is nothing but space.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// How often and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Tries of one request, or of one file without a byte in between.
    pub tries_max: u32,
    /// The first pause; each is twice the one before.
    pub first_wait_ms: u64,
    /// The longest pause, the hub's own wish counted in.
    pub wait_max_ms: u64,
    /// To be connected.
    pub connect_timeout_ms: u64,
    /// Between two pieces of an answer.
    pub idle_timeout_ms: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries_max: 5,
            first_wait_ms: 500,
            wait_max_ms: 120_000,
            connect_timeout_ms: 10_000,
            idle_timeout_ms: 30_000,
        }
    }
}

/// Where the hub and the cache are.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hub.
    pub endpoint: Url,
    /// The folder that holds `models--…` and `datasets--…`.
    pub cache: PathBuf,
    /// Who asks.
    pub token: Option<Token>,
    /// Never ask.
    pub offline: bool,
    /// How often and how long.
    pub patience: Patience,
}

impl Settings {
    /// Reads the variables `HF_ENDPOINT`, `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`, `HOME`, `HF_TOKEN`, `HF_TOKEN_PATH`,
    /// `HF_HUB_DISABLE_IMPLICIT_TOKEN` and `HF_HUB_OFFLINE` as `huggingface_hub` does, and the file with the token.
    ///
    /// # Errors
    /// An endpoint that is no address, a home that cannot be told, a file with a token that cannot be read.
    pub fn of_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, FetchError> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let on = |name: &str| {
            set(name).is_some_and(|v| matches!(v.to_ascii_lowercase().as_str(), "1" | "on" | "yes" | "true"))
        };
        let home = home(&set);
        let cache = match (set("HF_HUB_CACHE"), &home) {
            (Some(cache), _) => PathBuf::from(cache),
            (None, Some(home)) => home.join("hub"),
            (None, None) => {
                let expected = "a folder for the cache, or HOME";
                return Err(FetchError::Setting { name: "HF_HOME", expected, got: "nothing".to_owned() });
            }
        };
        let token = match set("HF_TOKEN") {
            Some(token) => Token::new(&token),
            None if on("HF_HUB_DISABLE_IMPLICIT_TOKEN") => None,
            None => {
                let path = set("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(home?.join("token")));
                path.map_or(Ok(None), |path| token_of_file(&path))?
            }
        };
        let endpoint = endpoint(set("HF_ENDPOINT").as_deref().unwrap_or(ENDPOINT))?;
        Ok(Self { endpoint, cache, token, offline: on("HF_HUB_OFFLINE"), patience: Patience::default() })
    }
}

/// An address of a hub.
pub(crate) fn endpoint(text: &str) -> Result<Url, FetchError> {
    let wrong = || FetchError::Setting {
        name: "HF_ENDPOINT",
        expected: "an address as https://huggingface.co, without a password",
        got: "something else".to_owned(),
    };
    let url = Url::parse(text.trim().trim_end_matches('/')).map_err(|_| wrong())?;
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if plain && url.has_host() && matches!(url.scheme(), "http" | "https") { Ok(url) } else { Err(wrong()) }
}

fn home(set: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if let Some(home) = set("HF_HOME") {
        return Some(PathBuf::from(home));
    }
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&set("HOME")?).join(".cache")))?;
    Some(cache.join("huggingface"))
}

fn token_of_file(path: &Path) -> Result<Option<Token>, FetchError> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FetchError::io("read the token in", path)(error)),
    };
    if !found.is_file() || found.len() > TOKEN_MAX_BYTES {
        let expected = "a file with a token and nothing else";
        return Err(FetchError::Setting { name: "HF_TOKEN_PATH", expected, got: path.display().to_string() });
    }
    let text = std::fs::read_to_string(path).map_err(FetchError::io("read the token in", path))?;
    Ok(Token::new(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, FetchError> {
        let found =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::of_variables(&found)
    }

    #[test]
    fn the_cache_is_where_huggingface_hub_has_it() {
        for (variables, expected) in [
            (&[("HOME", "/h")][..], "/h/.cache/huggingface/hub"),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (&[("HOME", "/h"), ("HF_HOME", "/hf")], "/hf/hub"),
            (&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/hf")], "/c"),
            (&[("HOME", "/h"), ("HF_HOME", " ")], "/h/.cache/huggingface/hub"),
        ] {
            assert_eq!(read(variables).unwrap().cache, PathBuf::from(expected));
        }
        assert!(read(&[]).unwrap_err().to_string().contains("`HF_HOME`"));
    }

    #[test]
    fn a_token_is_found_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        assert_eq!(read(&[("HF_HOME", home)]).unwrap().token, None);
        std::fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        assert_eq!(read(&[("HF_HOME", home)]).unwrap().token, Token::new("hf_file"));
        let settings = read(&[("HF_HOME", home), ("HF_TOKEN", "hf_secret")]).unwrap();
        assert_eq!(settings.token.as_ref().unwrap().expose(), "hf_secret");
        assert!(!format!("{settings:?}").contains("hf_secret"));
        let without = read(&[("HF_HOME", home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).unwrap();
        assert_eq!(without.token, None);
        std::fs::write(folder.path().join("token"), "x".repeat(5000)).unwrap();
        assert!(read(&[("HF_HOME", home)]).unwrap_err().to_string().contains("a file with a token"));
    }

    #[test]
    fn an_endpoint_is_an_address_without_a_password() {
        let with = |endpoint: &str| read(&[("HOME", "/h"), ("HF_ENDPOINT", endpoint)]);
        assert_eq!(with("https://hub.local/mirror/").unwrap().endpoint.as_str(), "https://hub.local/mirror");
        for wrong in ["hub.local", "ftp://hub.local", "https://u:hf_secret@hub.local", "https://hub.local?a=hf_secret"]
        {
            let error = with(wrong).unwrap_err().to_string();
            assert!(error.contains("`HF_ENDPOINT`") && !error.contains("hf_secret"), "{error}");
        }
    }
}
