//! Texts that servers and libraries write, cleaned of keys: the key is not in what comes out, plain or percent-encoded in
//! either case, whatever stands around it.

use super::{first_line, text};
use legwork_endpoints::{BaseUrl, Redactor, Secret, redact_urls};

/// A key that holds parts of the mask could arise anew from two masks.
const OF_THE_MASK: [char; 2] = ['[', ']'];
/// A shorter key is a placeholder and is left alone.
const KEY_MIN_BYTES: usize = 4;

/// The first line is a key, the rest a text around it.
pub fn redacted(bytes: &[u8]) {
    let text = text(bytes);
    let (key, around) = first_line(&text);
    assert_eq!(BaseUrl::new(around).to_string(), redact_urls(around));

    let can_be_sent = key.bytes().all(|byte| byte.is_ascii_graphic()) && key.len() >= KEY_MIN_BYTES;
    if !can_be_sent || key.contains(OF_THE_MASK) {
        return;
    }
    let redactor = Redactor::new([Secret::new(key)]);
    let mut middle = around.len() / 2;
    while !around.is_char_boundary(middle) {
        middle -= 1;
    }
    let (before, after) = around.split_at(middle);
    for form in [key.to_owned(), encoded(key, true), encoded(key, false)] {
        let clean = redactor.clean(&format!("{before}{form}{after}"));
        assert!(!clean.contains(&form), "{form:?} in {clean:?}");
    }
}

fn encoded(key: &str, upper: bool) -> String {
    let mut out = String::new();
    for byte in key.bytes() {
        match (byte.is_ascii_alphanumeric() || b"-._~".contains(&byte), upper) {
            (true, _) => out.push(char::from(byte)),
            (false, true) => out.push_str(&format!("%{byte:02X}")),
            (false, false) => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}
