//! What a configuration says of the search server, and what it may not say: an address that others can reach needs a
//! token.

use crate::caller::{TOKEN_MIN_BYTES, Token};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The port where nothing else is said; FoldAgent's own.
const PORT: u16 = 8000;
/// Lookups at once at most.
const CONCURRENCY_MAX: usize = 65_536;
/// Lookups that may wait at most.
const QUEUE_MAX: usize = 1 << 20;
/// Threads that read and write at most.
const THREADS_MAX: usize = 64;
/// The longest that a lookup may be allowed: an hour, in milliseconds.
const TIMEOUT_MAX_MS: u64 = 3_600_000;
/// The largest request that may be allowed, in bytes.
const BODY_MAX_BYTES: usize = 64 << 20;

/// How to serve.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchServerConfig {
    /// Where to listen; port 0 takes a free one. Others than this machine can ask only with `token`.
    pub listen: SocketAddr,
    /// The bearer token that requests must carry; none for an address of this machine.
    pub token: Option<Token>,
    /// Lookups at once.
    pub concurrency: usize,
    /// Lookups that may wait for a place; the next is answered with 503.
    pub queue_max: usize,
    /// The longest that a lookup may take, waiting included, in milliseconds; then it is answered with 408.
    pub timeout_ms: u64,
    /// The largest request body, in bytes.
    pub body_max_bytes: usize,
    /// Documents of a search at most; more are not an error.
    pub k_max: u32,
    /// Words of each document of a search.
    pub search_words: usize,
    /// Words of an opened page.
    pub open_words: usize,
    /// Threads that read and write; lookups run elsewhere.
    pub threads: usize,
}

impl Default for SearchServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
            token: None,
            concurrency: 64,
            queue_max: 4096,
            timeout_ms: 60_000,
            body_max_bytes: 1 << 20,
            k_max: 1000,
            search_words: 1000,
            open_words: 15_000,
            threads: 2,
        }
    }
}

/// A configuration that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchServerError {
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
    #[error("`{field}` must be 1 to {most}, got {got}")]
    Field {
        /// The field.
        field: &'static str,
        /// The most that it may be.
        most: u64,
        /// What it is.
        got: u64,
    },
}

impl SearchServerConfig {
    /// Checks everything.
    ///
    /// # Errors
    /// The first thing that cannot be, with the cure.
    pub fn check(&self) -> Result<(), SearchServerError> {
        match &self.token {
            Some(token) => token.check().map_err(|got| SearchServerError::Token { got })?,
            None if self.listen.ip().is_loopback() => {}
            None => return Err(SearchServerError::Open { listen: self.listen }),
        }
        let numbers = [
            ("concurrency", self.concurrency as u64, CONCURRENCY_MAX as u64),
            ("timeout_ms", self.timeout_ms, TIMEOUT_MAX_MS),
            ("body_max_bytes", self.body_max_bytes as u64, BODY_MAX_BYTES as u64),
            ("k_max", u64::from(self.k_max), u64::from(u32::MAX)),
            ("search_words", self.search_words as u64, u64::MAX),
            ("open_words", self.open_words as u64, u64::MAX),
            ("threads", self.threads as u64, THREADS_MAX as u64),
        ];
        for (field, got, most) in numbers {
            if !(1..=most).contains(&got) {
                return Err(SearchServerError::Field { field, most, got });
            }
        }
        if self.queue_max > QUEUE_MAX {
            let (field, most, got) = ("queue_max", QUEUE_MAX as u64, self.queue_max as u64);
            return Err(SearchServerError::Field { field, most, got });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_reach_needs_a_token_that_cannot_be_guessed() {
        let checked = |listen: &str, token: Option<&str>| {
            let listen = listen.parse().unwrap();
            SearchServerConfig { listen, token: token.map(Token::new), ..SearchServerConfig::default() }.check()
        };
        assert_eq!(checked("127.0.0.1:1", None), Ok(()));
        assert_eq!(checked("[::1]:1", None), Ok(()));
        for open in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            assert_eq!(checked(open, None), Err(SearchServerError::Open { listen: open.parse().unwrap() }));
            assert_eq!(checked(open, Some("0123456789abcdef")), Ok(()));
        }
        assert_eq!(checked("0.0.0.0:1", Some("short")), Err(SearchServerError::Token { got: "fewer" }));
        assert_eq!(checked("0.0.0.0:1", Some("0123456789 abcdef")), Err(SearchServerError::Token { got: "others" }));
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let config = SearchServerConfig { concurrency: 0, ..SearchServerConfig::default() };
        assert_eq!(config.check().unwrap_err().to_string(), "`concurrency` must be 1 to 65536, got 0");
    }
}
