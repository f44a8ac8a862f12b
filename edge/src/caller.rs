//! Who may ask a server of the edge: with a token, whoever has it; without one, programs of this machine, which rules
//! out a web page that had a foreign name resolve to it. It refuses to know what is asked.

use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, HOST, HeaderMap};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A token shorter than this can be guessed.
pub(crate) const TOKEN_MIN_BYTES: usize = 16;

/// A bearer token. It prints as `[key]`.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// Takes a token.
    pub fn new(token: impl AsRef<str>) -> Self {
        Self(Arc::from(token.as_ref()))
    }

    /// Whether it cannot be guessed and can be sent; what is wrong with it otherwise, never the token.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.0.len() < TOKEN_MIN_BYTES {
            return Err("fewer");
        }
        if !self.0.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("others");
        }
        Ok(())
    }

    /// Whether this is what a client sent; how long it takes says nothing about where they differ.
    fn is(&self, sent: &[u8]) -> bool {
        let token = self.0.as_bytes();
        token.len() == sent.len() && token.iter().zip(sent).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Token::new)
    }
}

/// Why a request with these headers is not answered, with the cure; none where it is.
pub(crate) fn why_not(token: &Option<Token>, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    match token {
        Some(token) => {
            let sent = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
            let is_right = sent
                .split_at_checked(7)
                .is_some_and(|(scheme, sent)| scheme.eq_ignore_ascii_case(b"bearer ") && token.is(sent));
            (!is_right).then_some((
                StatusCode::UNAUTHORIZED,
                "a bearer token is needed: send `Authorization: Bearer …` with the server's token",
            ))
        }
        None => {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
            (!is_this_machine(host)).then_some((StatusCode::FORBIDDEN, "without a token only 127.0.0.1, [::1] and localhost are answered: use one of these names, or set a token"))
        }
    }
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => name,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_whole_and_never_printed() {
        let token = Token::new("0123456789abcdef");
        assert!(token.is(b"0123456789abcdef"));
        assert!(!token.is(b"0123456789abcdeg") && !token.is(b"0123456789abcde") && !token.is(b""));
        assert_eq!(format!("{token:?}"), "[key]");
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:8000", true),
            ("127.0.0.1:8000", true),
            ("[::1]:8000", true),
            ("127.0.0.1.example.org", false),
            ("evil.example:8000", false),
            ("[2001:db8::1]:80", false),
            ("", false),
        ] {
            assert_eq!(is_this_machine(host), expected, "{host}");
        }
    }
}
