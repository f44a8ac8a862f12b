//! JSON as servers and models send it: arguments that ought to be an object and are sometimes cut, sent
//! twice encoded, or hold half a surrogate pair. Values become the text that arguments are made of.

use serde_json::Value;
use std::borrow::Cow;

/// Elements of one list argument at most.
pub(super) const LIST_MAX: usize = 256;

/// Characters of the offending text that an error shows.
const SHOWN_MAX: usize = 40;

/// Reads JSON; half of a surrogate pair is read as U+FFFD.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(&mend_surrogates(text)).map_err(|error| {
        let shown: String = text.chars().take(SHOWN_MAX).collect();
        if error.is_eof() {
            format!("expected a JSON object, and the JSON ends too early after {:?}", tail(text))
        } else {
            format!("expected a JSON object, got {shown:?} ({error})")
        }
    })
}

/// Reads a call's arguments: an object, nothing at all, or an object encoded twice.
pub(super) fn arguments(text: &str) -> Result<Vec<(String, String)>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let value = match parse(text)? {
        Value::String(inner) => parse(&inner)?,
        value => value,
    };
    match value {
        Value::Object(map) => pairs(map),
        Value::Null => Ok(Vec::new()),
        other => Err(format!("expected a JSON object, got {}", kind(&other))),
    }
}

/// An object's members as arguments. A list becomes one argument an element, null none at all.
pub(super) fn pairs(map: serde_json::Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::with_capacity(map.len());
    for (key, value) in map {
        match value {
            Value::Array(items) if items.len() > LIST_MAX => {
                return Err(format!("expected at most {LIST_MAX} elements in `{key}`, got {}", items.len()));
            }
            Value::Array(items) => {
                pairs.extend(items.iter().filter_map(text_of).map(|item| (key.clone(), item)));
            }
            value => pairs.extend(text_of(&value).map(|text| (key, text))),
        }
    }
    Ok(pairs)
}

/// A value as text: strings as they are, null as nothing, anything else as JSON.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn tail(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(SHOWN_MAX);
    text.chars().skip(skip).collect()
}

/// Rewrites the escape of a lone surrogate half as that of U+FFFD: serde_json refuses it, other parsers
/// do not, and models write it.
fn mend_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        mended.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                mended.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        mended.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    mended.push_str(rest);
    Cow::Owned(mended)
}

/// The code unit of the `\uXXXX` that the text begins with.
fn unit(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(hex, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_halves_are_mended_and_pairs_stay() {
        let cases = [
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ude00x""#, "\u{fffd}x"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\n\u00e9\ud83d""#, "\né\u{fffd}"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(Value::from(expected)), "{text}");
        }
    }

    #[test]
    fn cut_json_says_where_it_ends() {
        let message = arguments(r#"{"q": "a"#).unwrap_err();
        assert!(message.contains("ends too early"), "{message}");
        assert!(message.contains(r#"{\"q\": \"a"#), "{message}");
    }
}
