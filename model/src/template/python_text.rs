//! Values as Python writes them: `str`, `repr` and `json.dumps`. Numbers, quotes and separators differ from Rust's and
//! from JSON's in small ways that a prompt must not. It refuses to know templates.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write;

/// How deep a value may be.
const DEPTH_MAX: usize = 200;

/// How `json.dumps` was asked to write.
#[derive(Clone, Debug, Default)]
pub(super) struct Json {
    /// Blanks a level, each item on its line.
    pub indent: Option<usize>,
    /// Between items, and between a key and its value.
    pub separators: Option<(String, String)>,
    /// Keys in order.
    pub sort_keys: bool,
    /// Everything beyond ASCII escaped.
    pub ascii: bool,
}

/// `str(value)`.
pub(super) fn str_of(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    repr(&mut out, value, 0)?;
    Ok(out)
}

/// `json.dumps(value)`.
pub(super) fn json_of(value: &Value, style: &Json) -> Result<String, Error> {
    let mut out = String::new();
    json(&mut out, value, style, 0)?;
    Ok(out)
}

fn refuse(detail: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail.to_owned())
}

/// A number or a constant, in the words of JSON or of Python.
fn scalar(value: &Value, words: [&str; 3]) -> Option<String> {
    match value.kind() {
        ValueKind::None => Some(words[0].to_owned()),
        ValueKind::Bool => Some(words[if value.is_true() { 1 } else { 2 }].to_owned()),
        ValueKind::Number if value.is_integer() => Some(value.to_string()),
        ValueKind::Number => Some(f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)),
        _ => None,
    }
}

/// `repr(float)`: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&power) {
        return format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs());
    }
    let plain = number.to_string();
    if plain.contains('.') { plain } else { plain + ".0" }
}

fn repr(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(refuse("a value is too deep to print"));
    }
    if let Some(scalar) = scalar(value, ["None", "True", "False"]) {
        out.push_str(&scalar);
    } else if let Some(text) = value.as_str() {
        quoted(out, text);
    } else {
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
                out.push(open);
                for (index, item) in value.try_iter()?.enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    repr(out, &item, depth + 1)?;
                }
                out.push_str(if value.is_tuple() && value.len() == Some(1) { "," } else { "" });
                out.push(close);
            }
            ValueKind::Map => {
                out.push('{');
                for (index, key) in value.try_iter()?.enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    repr(out, &key, depth + 1)?;
                    out.push_str(": ");
                    repr(out, &value.get_item(&key)?, depth + 1)?;
                }
                out.push('}');
            }
            _ => write!(out, "{value}").map_err(Error::from)?,
        }
    }
    Ok(())
}

/// `repr(str)`: single quotes unless only they stand in it.
fn quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for one in text.chars() {
        match one {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if one == quote => out.extend(['\\', one]),
            _ if one < ' ' || one == '\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(one))),
            '\u{80}'..='\u{a0}' | '\u{ad}' => out.push_str(&format!("\\x{:02x}", u32::from(one))),
            _ => out.push(one),
        }
    }
    out.push(quote);
}

fn json(out: &mut String, value: &Value, style: &Json, depth: usize) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(refuse("a value is too deep for JSON"));
    }
    if let Some(scalar) = scalar(value, ["null", "true", "false"]) {
        let scalar = match scalar.as_str() {
            "nan" => "NaN",
            "inf" => "Infinity",
            "-inf" => "-Infinity",
            other => other,
        };
        out.push_str(scalar);
        return Ok(());
    }
    if let Some(text) = value.as_str() {
        json_string(out, text, style.ascii);
        return Ok(());
    }
    let own = style.separators.as_ref();
    let between = own.map_or(if style.indent.is_some() { "," } else { ", " }, |(between, _)| between);
    let after_key = own.map_or(": ", |(_, after)| after);
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = style.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent.min(DEPTH_MAX) * depth));
        }
    };
    let (open, close, mut items) = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => ('[', ']', value.try_iter()?.collect::<Vec<_>>()),
        ValueKind::Map => ('{', '}', value.try_iter()?.collect()),
        ValueKind::Undefined => return Err(refuse("an undefined value is no JSON")),
        other => return Err(refuse(&format!("a value of type {other} is no JSON"))),
    };
    if open == '{' && style.sort_keys {
        items.sort();
    }
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { between });
        line(out, depth + 1);
        if open == '{' {
            let key = match scalar(item, ["null", "true", "false"]) {
                Some(scalar) => scalar,
                None => item.as_str().ok_or_else(|| refuse("a key of a mapping is no string"))?.to_owned(),
            };
            json_string(out, &key, style.ascii);
            out.push_str(after_key);
            json(out, &value.get_item(item)?, style, depth + 1)?;
        } else {
            json(out, item, style, depth + 1)?;
        }
    }
    if !items.is_empty() {
        line(out, depth);
    }
    out.push(close);
    Ok(())
}

fn json_string(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for one in text.chars() {
        match one {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            _ if one < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(one))),
            _ if ascii && one > '\u{7e}' => {
                // DEL is ASCII, and Python leaves it.
                if one == '\u{7f}' {
                    out.push(one);
                    continue;
                }
                let mut units = [0; 2];
                one.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            _ => out.push(one),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn is(value: serde_json::Value, style: Json, expected: &str) {
        assert_eq!(json_of(&Value::from(minijinja::value::Serde(value)), &style).unwrap(), expected);
    }

    /// Expected texts were printed by CPython 3.11.
    #[test]
    fn json_is_written_as_python_writes_it() {
        let plain = Json::default();
        is(json!({"b": [1, 2.0, null, true], "a": {}}), plain.clone(), r#"{"b": [1, 2.0, null, true], "a": {}}"#);
        is(json!("<b>&'é\u{1}\u{7f}\u{2028}\"\\\n"), plain.clone(), "\"<b>&'é\\u0001\u{7f}\u{2028}\\\"\\\\\\n\"");
        is(
            json!([1e16, 1e-5, 1.5e300, 123456789012345.0, 0.0001, -0.0]),
            plain,
            "[1e+16, 1e-05, 1.5e+300, 123456789012345.0, 0.0001, -0.0]",
        );
        let indent = Json { indent: Some(2), ..Json::default() };
        is(json!({"a": [1], "b": [], "c": {}}), indent, "{\n  \"a\": [\n    1\n  ],\n  \"b\": [],\n  \"c\": {}\n}");
        let tight = Json { separators: Some((",".into(), ":".into())), sort_keys: true, ..Json::default() };
        is(json!({"b": 1, "a": [1, 2]}), tight, r#"{"a":[1,2],"b":1}"#);
        is(json!("é😀\u{7f}"), Json { ascii: true, ..Json::default() }, "\"\\u00e9\\ud83d\\ude00\u{7f}\"");
    }

    #[test]
    fn values_are_printed_as_python_prints_them() {
        let value = json!({"a": [1, 2.5, null, true, "it's", "\"'", "a\n\t\\"], "b": {}});
        let expected = r#"{'a': [1, 2.5, None, True, "it's", '"\'', 'a\n\t\\'], 'b': {}}"#;
        assert_eq!(str_of(&Value::from(minijinja::value::Serde(value))).unwrap(), expected);
        assert_eq!(str_of(&Value::from("it's")).unwrap(), "it's");
    }
}
