//! Secrets and the URLs that may hold one: types that print as `[key]`, and the cleaning of text that a
//! server or an HTTP library wrote.
//!
//! It refuses to know where a key came from.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// What stands where a key would.
const MASK: &str = "[key]";
/// A "key" shorter than this is a placeholder; masking it would riddle every text with masks.
const SECRET_MIN_BYTES: usize = 4;
/// How far a parameter's name is looked for; hostile text must not make the search quadratic.
const PARAMETER_MAX_BYTES: usize = 24;
/// Query parameters whose values are secrets, in lower case.
const SECRET_PARAMETERS: [&str; 10] =
    ["key", "api_key", "apikey", "api-key", "token", "access_token", "auth", "sig", "signature", "password"];

/// A key. It prints and serializes as `[key]`; only the HTTP module of this crate can read it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes a key.
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(Arc::from(key.as_ref()))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

/// A base URL as the configuration gives it. It prints and serializes with its secrets masked, so that
/// a manifest or a log can hold it.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl(String);

impl BaseUrl {
    /// Takes a URL as it is; it is parsed when the endpoint is built.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Every secret that the URL holds: a password, or the value of a parameter such as `key`.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let mut found = Vec::new();
        mask_urls(&self.0, &mut |secret| found.push(Secret::new(secret)));
        found
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", redact_urls(&self.0))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact_urls(&self.0))
    }
}

impl Serialize for BaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&redact_urls(&self.0))
    }
}

impl<'de> Deserialize<'de> for BaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(BaseUrl)
    }
}

/// Cleans texts of the keys that an endpoint knows, and of URLs' secrets.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    needles: Vec<Secret>,
}

impl Redactor {
    /// Watches for `secrets`, as they are and percent-encoded, in capital digits or small ones.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut needles = Vec::new();
        for secret in secrets {
            if secret.expose().len() < SECRET_MIN_BYTES {
                continue;
            }
            let encoded = percent_encoded(secret.expose(), Digits::Capital);
            if encoded != secret.expose() {
                needles.push(Secret::new(encoded));
                needles.push(Secret::new(percent_encoded(secret.expose(), Digits::Small)));
            }
            needles.push(secret);
        }
        // The longest first, so that a key that holds another is masked whole.
        needles.sort_by_key(|needle| std::cmp::Reverse(needle.expose().len()));
        Self { needles }
    }

    /// `text` without keys. Clean first and cut afterwards: a cut key is no longer recognised.
    pub fn clean(&self, text: &str) -> String {
        let mut clean = redact_urls(text);
        for needle in &self.needles {
            if clean.contains(needle.expose()) {
                clean = clean.replace(needle.expose(), MASK);
            }
        }
        clean
    }
}

/// `text` with the passwords and the secret parameters of every URL in it masked.
pub fn redact_urls(text: &str) -> String {
    mask_urls(text, &mut |_| ())
}

fn mask_urls(text: &str, found: &mut dyn FnMut(&str)) -> String {
    let without_passwords = mask_passwords(text, found);
    mask_parameters(&without_passwords, found)
}

/// Masks the `user:password` of `scheme://user:password@host`.
fn mask_passwords(text: &str, found: &mut dyn FnMut(&str)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        out.push_str(head);
        let authority = tail.find(|c: char| ends_url(c) || "/?#".contains(c)).unwrap_or(tail.len());
        rest = match tail[..authority].rfind('@') {
            Some(user_end) => {
                let user = &tail[..user_end];
                found(user.split_once(':').map_or(user, |(_, password)| password));
                out.push_str(MASK);
                &tail[user_end..]
            }
            None => tail,
        };
    }
    out.push_str(rest);
    out
}

/// Masks the value of `?key=…` and its like.
fn mask_parameters(text: &str, found: &mut dyn FnMut(&str)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['?', '&']) {
        let (head, tail) = rest.split_at(at + 1);
        out.push_str(head);
        rest = tail;
        let Some(equals) = tail.bytes().take(PARAMETER_MAX_BYTES).position(|byte| byte == b'=') else { continue };
        if !SECRET_PARAMETERS.iter().any(|name| tail[..equals].eq_ignore_ascii_case(name)) {
            continue;
        }
        let value = &tail[equals + 1..];
        let end = value.find(|c: char| ends_url(c) || c == '&' || c == '#').unwrap_or(value.len());
        if &value[..end] != MASK {
            found(&value[..end]);
        }
        out.push_str(&tail[..=equals]);
        out.push_str(MASK);
        rest = &value[end..];
    }
    out.push_str(rest);
    out
}

fn ends_url(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')' | '`')
}

/// How hexadecimal digits are written.
#[derive(Clone, Copy, PartialEq)]
enum Digits {
    /// As the standard recommends.
    Capital,
    /// As some servers write them.
    Small,
}

fn percent_encoded(text: &str, digits: Digits) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else if digits == Digits::Capital {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-a+b/c=0123456789";

    #[test]
    fn a_secret_prints_and_serializes_as_a_mask() {
        let secret = Secret::new(KEY);
        assert_eq!(format!("{secret} {secret:?}"), "[key] [key]");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"[key]\"");
    }

    #[test]
    fn urls_lose_their_passwords_and_key_parameters() {
        let text = "GET https://bob:hunter22@host:1/v1?alt=sse&key=abc&x=1 failed (see http://host/?Access_Token=zz)";
        assert_eq!(
            redact_urls(text),
            "GET https://[key]@host:1/v1?alt=sse&key=[key]&x=1 failed (see http://host/?Access_Token=[key])"
        );
        assert_eq!(redact_urls("no url, monkey=3?"), "no url, monkey=3?");
    }

    #[test]
    fn a_base_url_prints_masked_and_names_its_secrets() {
        let url = BaseUrl::new("https://u:pass-word@h/v1beta?key=AIza1234");
        assert_eq!(url.to_string(), "https://[key]@h/v1beta?key=[key]");
        assert!(!format!("{url:?}{}", serde_json::to_string(&url).unwrap()).contains("AIza"));
        let secrets: Vec<_> = url.secrets().iter().map(|s| s.expose().to_owned()).collect();
        assert_eq!(secrets, ["pass-word", "AIza1234"]);
    }

    #[test]
    fn a_redactor_masks_the_key_plain_and_percent_encoded() {
        let redactor = Redactor::new([Secret::new(KEY), Secret::new("abc")]);
        let clean = redactor.clean(&format!("wrong key {KEY}, as sk-a%2Bb%2Fc%3D0123456789, abc"));
        assert_eq!(clean, "wrong key [key], as [key], abc");
        assert_eq!(redactor.clean("?x=sk-a%2bb%2fc%3d0123456789"), "?x=[key]", "small digits are digits too");
    }

    proptest::proptest! {
        #[test]
        fn cleaning_never_panics_and_never_leaves_the_key(before in ".{0,40}", after in ".{0,40}") {
            let redactor = Redactor::new([Secret::new(KEY)]);
            let clean = redactor.clean(&format!("{before}{KEY}{after}"));
            proptest::prop_assert!(!clean.contains(KEY));
        }
    }
}
