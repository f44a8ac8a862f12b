//! Reading the JSON that servers really send: a byte-order mark, halves of surrogate pairs (one frame
//! each, where a server cuts text between them), text as a string or as a list of parts, odd numbers.

use serde_json::{Number, Value};
use std::borrow::Cow;

/// Stands before a private-use character that carries one half of a surrogate pair. It is a
/// noncharacter, which no text uses, and [`unite`] removes it again.
const HALF_MARK: char = '\u{fdd0}';
/// Half `0xd800 + n` is carried by this character plus `n`.
const HALF_BASE: u32 = 0xf_0000;

/// Parses a body. Escapes of lone surrogates, which are not JSON text, are carried through: whoever takes
/// a text out of the value passes it through [`unite`] once it is whole.
pub(crate) fn parse(body: &[u8]) -> Result<Value, String> {
    let text = String::from_utf8_lossy(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body));
    serde_json::from_str(&mend(&text)).map_err(|error| error.to_string())
}

/// Replaces each escaped half of a surrogate pair that has no other half by two ordinary characters.
fn mend(text: &str) -> Cow<'_, str> {
    if !text.contains("\\u") {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match escaped_unit(&bytes[at..]) {
            Some(high @ 0xd800..=0xdbff) if escaped_unit(&bytes[at + 6..]).is_some_and(is_low) => {
                let _ = high;
                at += 12;
            }
            Some(half @ 0xd800..=0xdfff) => {
                out.push_str(&text[copied..at]);
                out.push(HALF_MARK);
                out.extend(char::from_u32(HALF_BASE + half - 0xd800));
                at += 6;
                copied = at;
            }
            // Any escape: its second byte is skipped too, so that an escaped backslash escapes nothing.
            _ => at += 2,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Joins halves that ended up side by side into their character; a half that stayed alone becomes U+FFFD.
pub(crate) fn unite(text: String) -> String {
    if !text.contains(HALF_MARK) {
        return text;
    }
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut buffer = [0; 2];
    while let Some(c) = chars.next() {
        let half = (c == HALF_MARK).then(|| chars.next_if(|c| (HALF_BASE..HALF_BASE + 0x800).contains(&(*c as u32))));
        match half.flatten() {
            Some(half) => units.extend(u16::try_from(half as u32 - HALF_BASE + 0xd800)),
            None => units.extend_from_slice(c.encode_utf16(&mut buffer)),
        }
    }
    String::from_utf16_lossy(&units)
}

fn escaped_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
}

fn is_low(unit: u32) -> bool {
    (0xdc00..=0xdfff).contains(&unit)
}

/// Appends the text of a string, or of a list of parts, or of one part (`text`, `summary`, `thinking` or
/// `content`, which may be lists again); null and anything else add nothing. `between` separates parts.
pub(crate) fn push_text(value: &Value, between: &str, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Array(parts) => {
            for part in parts {
                let before = out.len();
                if !out.is_empty() && !out.ends_with(between) {
                    out.push_str(between);
                }
                let separated = out.len();
                push_text(part, between, out);
                if out.len() == separated {
                    out.truncate(before);
                }
            }
        }
        Value::Object(part) => {
            let inner = ["text", "summary", "thinking", "content"].iter().find_map(|key| part.get(*key));
            if let Some(inner) = inner {
                push_text(inner, between, out);
            }
        }
        _ => {}
    }
}

/// A count of tokens: null, negative or not a number is 0, a fraction is cut, too much is the largest.
pub(crate) fn count(value: Option<&Value>) -> u32 {
    let number = value.and_then(Value::as_f64).unwrap_or(0.0);
    number as u32
}

/// A number with the digits that a person wrote: 0.7, not 0.699999988.
pub(crate) fn number(value: f32) -> Value {
    let short: f64 = value.to_string().parse().unwrap_or(f64::from(value));
    Number::from_f64(short).map_or(Value::Null, Value::Number)
}

/// Lays `over` upon `under`: objects are merged key by key, anything else is replaced.
pub(crate) fn overlay(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                overlay(under.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn text(body: &str) -> String {
        unite(parse(body.as_bytes()).unwrap().as_str().unwrap().to_owned())
    }

    #[test]
    fn whole_pairs_pass_and_a_lone_half_becomes_the_replacement_character() {
        assert_eq!(text(r#""a\ud83d\ude00b""#), "a\u{1f600}b");
        assert_eq!(text(r#""a\ud83db""#), "a\u{fffd}b");
        assert_eq!(text(r#""\ude00\ud83d""#), "\u{fffd}\u{fffd}");
        assert_eq!(text(r#""\\ud83d""#), "\\ud83d", "an escaped backslash escapes nothing");
        assert_eq!(text("\"\u{fdd0}x\""), "\u{fdd0}x");
    }

    #[test]
    fn halves_of_two_frames_are_joined() {
        let mut joined = String::new();
        for frame in [r#"{"text":"hi \ud83d"}"#, r#"{"text":"\ude00!"}"#] {
            push_text(&parse(frame.as_bytes()).unwrap(), "", &mut joined);
        }
        assert_eq!(unite(joined), "hi \u{1f600}!");
    }

    #[test]
    fn text_is_read_from_strings_lists_and_parts() {
        let mut out = String::new();
        push_text(
            &json!([{"type": "a", "text": "one"}, null, {"summary": [{"text": "two"}]}, "three"]),
            "\n",
            &mut out,
        );
        assert_eq!(out, "one\ntwo\nthree");
    }

    #[test]
    fn counts_are_read_from_whatever_comes() {
        let read = |value: Value| count(Some(&value));
        assert_eq!(
            [read(json!(7)), read(json!(7.9)), read(json!(-1)), read(json!(null)), read(json!("9"))],
            [7, 7, 0, 0, 0]
        );
        assert_eq!((read(json!(1e30)), count(None)), (u32::MAX, 0));
    }

    #[test]
    fn numbers_keep_the_digits_that_were_written() {
        assert_eq!(number(0.7).to_string(), "0.7");
        assert_eq!(number(0.0).to_string(), "0.0");
    }

    #[test]
    fn an_overlay_merges_objects_and_replaces_the_rest() {
        let mut under = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        overlay(&mut under, &json!({"a": {"b": 9}, "d": [], "e": true}));
        assert_eq!(under, json!({"a": {"b": 9, "c": 2}, "d": [], "e": true}));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, text in r#"("|\\|u|d83d|de00|[a-f0-9{}:]|é){0,24}"#) {
            let _ = parse(&bytes);
            let _ = parse(text.as_bytes());
        }

        #[test]
        fn what_is_valid_json_reads_the_same(text: String) {
            let body = serde_json::to_vec(&json!(text.clone())).unwrap();
            prop_assert_eq!(unite(parse(&body).unwrap().as_str().unwrap().to_owned()), text);
        }
    }
}
