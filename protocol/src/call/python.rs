//! What Python calls a space and a literal, for the reader that reproduces a Python program. It knows
//! values only: names, calls and operators are refused, as `ast.literal_eval` refuses them.

use serde_json::{Map, Number, Value};

/// Brackets inside brackets at most; deeper text is no literal.
const DEPTH_MAX: usize = 64;

/// Whether `str.split`, `str.strip` and `\s` take the character for a space.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `str.strip`.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Reads a literal: a dict with string keys, a list, a tuple, strings, numbers, `True`, `False`, `None`.
pub(crate) fn literal(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text };
    let value = reader.value(0)?;
    reader.skip_spaces();
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_spaces();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_spaces();
        match self.rest.chars().next()? {
            '{' => self.dict(depth),
            '[' => self.sequence("[", "]", depth),
            '(' => self.sequence("(", ")", depth),
            c if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(),
            _ => self.word().or_else(|| self.strings()),
        }
    }

    fn dict(&mut self, depth: usize) -> Option<Value> {
        self.take("{");
        let mut map = Map::new();
        while !self.take("}") {
            self.skip_spaces();
            let Value::String(key) = self.strings()? else { return None };
            if !self.take(":") {
                return None;
            }
            map.insert(key, self.value(depth + 1)?);
            if !self.take(",") && !self.rest.starts_with('}') {
                return None;
            }
        }
        Some(Value::Object(map))
    }

    fn sequence(&mut self, open: &str, close: &str, depth: usize) -> Option<Value> {
        self.take(open);
        let mut items = Vec::new();
        let mut commas = 0;
        while !self.take(close) {
            items.push(self.value(depth + 1)?);
            if self.take(",") {
                commas += 1;
            } else if !self.rest.starts_with(close) {
                return None;
            }
        }
        // `(x)` is x itself, `(x,)` is a tuple.
        if open == "(" && commas == 0 && items.len() == 1 { items.pop() } else { Some(Value::Array(items)) }
    }

    fn number(&mut self) -> Option<Value> {
        let end = self
            .rest
            .char_indices()
            .find(|&(at, c)| {
                let exponent_sign = matches!(c, '+' | '-') && (at == 0 || self.rest[..at].ends_with(['e', 'E']));
                !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '_') || exponent_sign)
            })
            .map_or(self.rest.len(), |(at, _)| at);
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        let digits = digits.trim_start_matches('+').replace('_', "");
        if let Ok(whole) = digits.parse::<i64>() {
            return Some(Value::from(whole));
        }
        digits.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number)
    }

    fn word(&mut self) -> Option<Value> {
        for (word, value) in [("True", Value::Bool(true)), ("False", Value::Bool(false)), ("None", Value::Null)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                    return None;
                }
                self.rest = rest;
                return Some(value);
            }
        }
        None
    }

    /// One string or several side by side, which Python joins.
    fn strings(&mut self) -> Option<Value> {
        let mut joined = self.string()?;
        loop {
            self.skip_spaces();
            if !self.rest.starts_with(['\'', '"']) {
                return Some(Value::String(joined));
            }
            joined.push_str(&self.string()?);
        }
    }

    fn string(&mut self) -> Option<String> {
        let raw = self.rest.starts_with(['r', 'R']);
        let body = self.rest.trim_start_matches(['r', 'R', 'u', 'U']);
        if self.rest.len() - body.len() > 1 {
            return None;
        }
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote))?;
        let mut rest = &body[quote.len()..];
        let mut text = String::new();
        loop {
            if let Some(after) = rest.strip_prefix(quote) {
                self.rest = after;
                return Some(text);
            }
            let c = rest.chars().next()?;
            rest = &rest[c.len_utf8()..];
            match c {
                '\n' if quote.len() == 1 => return None,
                '\\' if raw => {
                    text.push('\\');
                    let next = rest.chars().next()?;
                    text.push(next);
                    rest = &rest[next.len_utf8()..];
                }
                '\\' => rest = escape(rest, &mut text)?,
                _ => text.push(c),
            }
        }
    }
}

/// Reads what follows a backslash into `text` and returns what is left.
fn escape<'a>(rest: &'a str, text: &mut String) -> Option<&'a str> {
    let c = rest.chars().next()?;
    let after = &rest[c.len_utf8()..];
    let digits = match c {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => 0,
    };
    if digits > 0 {
        let code = u32::from_str_radix(after.get(..digits)?, 16).ok()?;
        return Some(push_code(code, &after[digits..], text));
    }
    if c.is_digit(8) {
        let end = rest.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
        let code = u32::from_str_radix(&rest[..end], 8).ok()?;
        text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
        return Some(&rest[end..]);
    }
    match c {
        'n' => text.push('\n'),
        't' => text.push('\t'),
        'r' => text.push('\r'),
        'a' => text.push('\u{7}'),
        'b' => text.push('\u{8}'),
        'f' => text.push('\u{c}'),
        'v' => text.push('\u{b}'),
        '\n' => {}
        '\\' | '\'' | '"' => text.push(c),
        other => text.extend(['\\', other]),
    }
    Some(after)
}

/// Pushes a code point; two halves of a pair are joined, as JSON joins them, and a lone half is U+FFFD.
fn push_code<'a>(code: u32, rest: &'a str, text: &mut String) -> &'a str {
    if (0xd800..0xdc00).contains(&code) {
        let low =
            rest.strip_prefix("\\u").and_then(|rest| rest.get(..4)).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        if let Some(low) = low.filter(|low| (0xdc00..0xe000).contains(low)) {
            let joined = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            text.push(char::from_u32(joined).unwrap_or('\u{fffd}'));
            return &rest[6..];
        }
    }
    text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn literals_become_values() {
        let cases = [
            ("{'a': 1, \"b\": [True, None, -2.5]}", Some(json!({"a": 1, "b": [true, null, -2.5]}))),
            ("('x')", Some(json!("x"))),
            ("('x',)", Some(json!(["x"]))),
            ("'a' \"b\"", Some(json!("ab"))),
            ("'''two\nlines'''", Some(json!("two\nlines"))),
            ("r'\\n'", Some(json!("\\n"))),
            ("'\\x41\\u00e9\\101\\q'", Some(json!("AéA\\q"))),
            ("'\\ud83d\\ude00'", Some(json!("😀"))),
            ("'\\ud83d'", Some(json!("\u{fffd}"))),
            ("{'a': 1,}", Some(json!({"a": 1}))),
            ("{'a': 1, 'a': 2}", Some(json!({"a": 2}))),
            ("1_000", Some(json!(1000))),
            ("f('x')", None),
            ("{'a'}", None),
            ("{'a': }", None),
            ("'open", None),
            ("'line\nbreak'", None),
            ("Truely", None),
            ("[1, 2", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(literal(text), expected, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_not_followed() {
        assert_eq!(literal(&"[".repeat(100_000)), None);
        assert_eq!(literal(&"(".repeat(100_000)), None);
    }
}
