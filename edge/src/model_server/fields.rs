//! Reads the fields of a JSON body one by one, so that whatever is wrong is told by its name, with what was expected and
//! what came. `null` is as if a field were absent.

use super::refused::Refused;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// Bytes of a text that are quoted in an error.
const SHOWN_MAX_BYTES: usize = 60;

/// The fields of an object that are still to be read.
pub(super) struct Fields {
    /// What stands before a field's name: empty, or `messages[3].`.
    before: String,
    left: Map<String, Value>,
}

impl Fields {
    /// The fields of a body.
    pub(super) fn of_body(value: Value) -> Result<Self, Refused> {
        match value {
            Value::Object(left) => Ok(Self { before: String::new(), left }),
            other => {
                let detail = format!("the body must be a JSON object, got {}", shown(&other));
                Err(Refused::Asked { param: None, detail })
            }
        }
    }

    /// The fields of an object within a body.
    pub(super) fn of(path: &str, value: Value) -> Result<Self, Refused> {
        match value {
            Value::Object(left) => Ok(Self { before: format!("{path}."), left }),
            other => Err(wrong(path, "an object", &other)),
        }
    }

    /// A field's whole name.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.before)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Refused> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.path(name), "a string", &other)),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, Refused> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(&self.path(name), "true or false", &other)),
        }
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, Refused> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(wrong(&self.path(name), "an object", &other)),
        }
    }

    /// A number of a closed range.
    pub(super) fn number(&mut self, name: &str, range: RangeInclusive<f32>) -> Result<Option<f32>, Refused> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.as_f64().map(|number| number as f32).filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let expected = format!("a number from {} to {}", range.start(), range.end());
                Err(wrong(&self.path(name), &expected, &value))
            }
        }
    }

    /// A number above 0 and at most `most`.
    pub(super) fn positive(&mut self, name: &str, most: f32) -> Result<Option<f32>, Refused> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.as_f64().map(|number| number as f32).filter(|number| *number > 0.0 && *number <= most) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(&self.path(name), &format!("a number above 0 and at most {most}"), &value)),
        }
    }

    /// A whole number of a closed range.
    pub(super) fn whole(&mut self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Refused> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match whole(&value).filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let expected = format!("a whole number from {} to {}", range.start(), range.end());
                Err(wrong(&self.path(name), &expected, &value))
            }
        }
    }

    /// A count of a closed range.
    pub(super) fn count(&mut self, name: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, Refused> {
        let wide = i64::from(*range.start())..=i64::from(*range.end());
        let number = self.whole(name, wide)?;
        Ok(number.map(|number| u32::try_from(number).expect("the range has only numbers of 32 bits")))
    }

    /// A list of at most `most`.
    pub(super) fn list(&mut self, name: &str, most: usize) -> Result<Option<Vec<Value>>, Refused> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => {
                at_most(&self.path(name), list.len(), most)?;
                Ok(Some(list))
            }
            Some(other) => Err(wrong(&self.path(name), "a list", &other)),
        }
    }

    /// Refuses a field that asks for something, told with the cure. `false`, 0 and what is empty ask for nothing.
    pub(super) fn not_offered(&mut self, name: &str, cure: &str) -> Result<(), Refused> {
        match self.take(name) {
            None | Some(Value::Bool(false)) => Ok(()),
            Some(Value::String(text)) if text.is_empty() => Ok(()),
            Some(Value::Array(list)) if list.is_empty() => Ok(()),
            Some(Value::Number(number)) if number.as_f64() == Some(0.0) => Ok(()),
            Some(_) => {
                let path = self.path(name);
                Err(Refused::Unsupported { detail: format!("`{path}` is not offered here: {cure}"), param: Some(path) })
            }
        }
    }

    /// Leaves what nobody read alone, and says so at debug level; only names are logged.
    pub(super) fn ignore_rest(self, harmless: &[&str]) {
        let ignored: Vec<String> =
            self.left.keys().filter(|name| !harmless.contains(&name.as_str())).map(|name| self.path(name)).collect();
        if !ignored.is_empty() {
            tracing::debug!(fields = ?ignored, "fields of a request were not understood and left alone");
        }
    }
}

/// A refusal of one field.
pub(super) fn wrong(path: &str, expected: &str, got: &Value) -> Refused {
    Refused::asked(path, format!("`{path}` must be {expected}, got {}", shown(got)))
}

/// Refuses a list that is too long.
pub(super) fn at_most(path: &str, got: usize, most: usize) -> Result<(), Refused> {
    if got <= most {
        return Ok(());
    }
    Err(Refused::asked(path, format!("`{path}` may have at most {most} entries, got {got}")))
}

/// A whole number, also where it was written as `16.0`.
pub(super) fn whole(value: &Value) -> Option<i64> {
    let float =
        || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15).map(|number| number as i64);
    value.as_i64().or_else(float)
}

/// Token ids, each below `vocabulary`.
pub(super) fn ids(path: &str, list: &[Value], vocabulary: u32) -> Result<Vec<u32>, Refused> {
    let id = |(place, value): (usize, &Value)| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| *id < vocabulary);
        id.ok_or_else(|| wrong(&format!("{path}[{place}]"), &format!("a token id below {vocabulary}"), value))
    };
    list.iter().enumerate().map(id).collect()
}

/// What came, short.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let end = text.floor_char_boundary(SHOWN_MAX_BYTES);
            let more = if end < text.len() { "…" } else { "" };
            format!("{:?}{more}", &text[..end])
        }
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told<T>(read: Result<T, Refused>) -> String {
        read.err().unwrap().to_string()
    }

    #[test]
    fn what_is_wrong_is_told_with_its_name_and_what_came() {
        let mut fields =
            Fields::of("a[1]", json!({"t": "x".repeat(99), "n": 3, "c": -1, "l": [1, 2, 3], "p": 0})).unwrap();
        assert!(told(fields.flag("t")).starts_with("`a[1].t` must be true or false, got \"xxx"));
        assert_eq!(told(fields.number("n", 0.0..=2.0)), "`a[1].n` must be a number from 0 to 2, got 3");
        assert_eq!(told(fields.count("c", 0..=9)), "`a[1].c` must be a whole number from 0 to 9, got -1");
        assert_eq!(told(fields.list("l", 2)), "`a[1].l` may have at most 2 entries, got 3");
        assert_eq!(told(fields.positive("p", 1.0)), "`a[1].p` must be a number above 0 and at most 1, got 0");
        assert!(told(Fields::of_body(json!([]))).contains("must be a JSON object, got a list of 0"));
    }

    #[test]
    fn null_is_absent_and_whole_numbers_may_be_written_with_a_point() {
        let mut fields = Fields::of_body(json!({"a": null, "b": 16.0, "c": 16.5})).unwrap();
        assert_eq!(fields.text("a").unwrap(), None);
        assert_eq!(fields.count("b", 1..=20).unwrap(), Some(16));
        assert!(fields.count("c", 1..=20).is_err());
    }

    #[test]
    fn what_is_not_offered_may_be_switched_off() {
        let mut fields = Fields::of_body(json!({"a": false, "b": 0, "c": [], "d": 1})).unwrap();
        for name in ["a", "b", "c", "absent"] {
            assert_eq!(fields.not_offered(name, "x"), Ok(()));
        }
        assert_eq!(told(fields.not_offered("d", "leave it out")), "`d` is not offered here: leave it out");
    }

    #[test]
    fn ids_beyond_the_vocabulary_are_refused_by_their_place() {
        let list = [json!(1), json!(7)];
        assert_eq!(told(ids("p", &list, 7)), "`p[1]` must be a token id below 7, got 7");
        assert_eq!(ids("p", &list, 8), Ok(vec![1, 7]));
    }
}
