//! What a configuration says of a search server. Keys come from the environment or a file, as for every endpoint.

use crate::config::{Checked, EndpointConfig, Kind};
use crate::error::EndpointError;
use crate::secret::{BaseUrl, Secret};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Tries of one request at most.
const ATTEMPTS_MAX: u32 = 20;
/// Requests under way at once at most.
const CONCURRENCY_MAX: usize = 4096;
/// The longest wait of any kind: a day, in milliseconds.
const WAIT_MAX_MS: u64 = 86_400_000;
/// The largest answer that may be allowed, in bytes.
const BODY_MAX_BYTES: usize = 1 << 30;

/// A search server of a configuration. The defaults for tries, waits and time are FoldAgent's own client's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchConfig {
    /// The server's root, such as `http://127.0.0.1:8000`.
    pub url: BaseUrl,
    /// The environment variable that holds the bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// The file that holds the bearer token and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Read only to be refused with a word on where keys belong.
    #[serde(default, skip_serializing, alias = "api_key", alias = "token")]
    pub key: Option<Secret>,
    /// The most requests under way at once.
    #[serde(default = "concurrency_default")]
    pub concurrency: usize,
    /// To connect, in milliseconds.
    #[serde(default = "connect_timeout_default")]
    pub connect_timeout_ms: u64,
    /// For one try from start to end, in milliseconds.
    #[serde(default = "timeout_default")]
    pub timeout_ms: u64,
    /// Tries of one request.
    #[serde(default = "attempts_default")]
    pub attempts_max: u32,
    /// After the n-th try n times this is waited, in milliseconds.
    #[serde(default = "backoff_default")]
    pub backoff_ms: u64,
    /// The largest answer that is read, in bytes.
    #[serde(default = "body_max_default")]
    pub body_max_bytes: usize,
}

fn concurrency_default() -> usize {
    128
}
fn connect_timeout_default() -> u64 {
    10_000
}
fn timeout_default() -> u64 {
    300_000
}
fn attempts_default() -> u32 {
    3
}
fn backoff_default() -> u64 {
    500
}
fn body_max_default() -> usize {
    64 * 1024 * 1024
}

impl SearchConfig {
    /// A server at `url` with every default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: BaseUrl::new(url),
            key_env: None,
            key_file: None,
            key: None,
            concurrency: concurrency_default(),
            connect_timeout_ms: connect_timeout_default(),
            timeout_ms: timeout_default(),
            attempts_max: attempts_default(),
            backoff_ms: backoff_default(),
            body_max_bytes: body_max_default(),
        }
    }

    /// Checks the numbers here and the rest by the rules of all endpoints.
    pub(super) fn check(&self, name: &str) -> Result<Checked, EndpointError> {
        let within = |field: &'static str, got: u64, least: u64, most: u64| {
            if (least..=most).contains(&got) {
                return Ok(());
            }
            let (name, expected) = (name.to_owned(), format!("{least} to {most}"));
            Err(EndpointError::Field { name, field, expected, got: got.to_string() })
        };
        within("concurrency", self.concurrency as u64, 1, CONCURRENCY_MAX as u64)?;
        within("connect_timeout_ms", self.connect_timeout_ms, 1, WAIT_MAX_MS)?;
        within("timeout_ms", self.timeout_ms, 1, WAIT_MAX_MS)?;
        within("attempts_max", u64::from(self.attempts_max), 1, u64::from(ATTEMPTS_MAX))?;
        within("backoff_ms", self.backoff_ms, 0, WAIT_MAX_MS)?;
        within("body_max_bytes", self.body_max_bytes as u64, 1, BODY_MAX_BYTES as u64)?;
        let mut endpoint = EndpointConfig::new(Kind::Openai, "", "search");
        endpoint.url = self.url.clone();
        endpoint.key_env.clone_from(&self.key_env);
        endpoint.key_file.clone_from(&self.key_file);
        endpoint.key.clone_from(&self.key);
        endpoint.check(name)
    }
}

pub(super) fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
