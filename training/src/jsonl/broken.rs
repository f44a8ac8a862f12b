//! What other programs write into JSON that JSON does not have: halves of surrogate pairs, and numbers that are none.
//! It only looks for the cause of a line that could not be read.

/// The first `\ud800`–`\udfff` escape of the line that is not half of a pair.
pub(super) fn lone_surrogate(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let unit = |at: usize| -> Option<u16> {
        let hex = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], unit(at)) {
            (b'\\', Some(0xD800..=0xDBFF)) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            (b'\\', Some(0xD800..=0xDFFF)) => return Some(text[at..at + 6].to_owned()),
            (b'\\', Some(_)) => at += 6,
            (b'\\', None) => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// The first `NaN`, `Infinity` or `-Infinity` outside of quotes.
pub(super) fn not_finite(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let mut quoted = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'N' | b'I' | b'-' => {
                let found = ["NaN", "Infinity", "-Infinity"]
                    .into_iter()
                    .find(|token| bytes[at..].starts_with(token.as_bytes()));
                if found.is_some() {
                    return found;
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}
