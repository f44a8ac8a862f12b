//! Fields of a JSON object, each with its bounds: what is missing or wrong is named with what was expected and what came.
//! A `null` counts as absent. It refuses to know what the fields mean.

use crate::error::ModelError;
use serde_json::{Map, Value};
use std::path::Path;

/// Characters of a wrong value that a message shows.
const SHOWN_MAX: usize = 80;
/// What to do about a description that is wrong in itself.
const MEND: &str = "mend the file, or fetch the model anew";

/// The fields of an object in a file.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    path: &'a Path,
    /// Before the names of fields in messages: empty, or as `rope_scaling.`.
    within: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(path: &'a Path, map: &'a Map<String, Value>) -> Self {
        Self { path, within: "", map }
    }

    /// A field that is there and not `null`.
    pub(crate) fn value(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    /// Whether a field is there, `null` or not.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.map.contains_key(field)
    }

    /// An object inside; `within` is its name and a full stop.
    pub(crate) fn inside(&self, within: &'a str) -> Result<Option<Fields<'a>>, ModelError> {
        let field = within.trim_end_matches('.');
        match self.value(field) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields { path: self.path, within, map })),
            Some(other) => Err(self.wrong(field, "an object", other)),
        }
    }

    /// The first field that is an object.
    pub(crate) fn first_object(&self) -> Option<&'a str> {
        self.map.iter().find(|(_, value)| value.is_object()).map(|(field, _)| field.as_str())
    }

    pub(crate) fn wrong(&self, field: &str, expected: impl Into<String>, got: &Value) -> ModelError {
        self.refused(field, expected, shown(got), MEND)
    }

    pub(crate) fn refused(
        &self,
        field: &str,
        expected: impl Into<String>,
        got: impl Into<String>,
        cure: &'static str,
    ) -> ModelError {
        let field = format!("{}{field}", self.within);
        ModelError::Field { path: self.path.to_path_buf(), field, expected: expected.into(), got: got.into(), cure }
    }

    fn missing(&self, field: &str, expected: String) -> ModelError {
        self.refused(field, expected, "nothing", MEND)
    }

    /// A whole number from 1 to `max`.
    pub(crate) fn count(&self, field: &str, max: usize) -> Result<usize, ModelError> {
        let found = self.count_if(field, max)?;
        found.ok_or_else(|| self.missing(field, format!("a number from 1 to {max}")))
    }

    /// As [`Fields::count`], where the field is there.
    pub(crate) fn count_if(&self, field: &str, max: usize) -> Result<Option<usize>, ModelError> {
        let Some(value) = self.value(field) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|count| (1..=max).contains(count));
        count.map(Some).ok_or_else(|| self.wrong(field, format!("a number from 1 to {max}"), value))
    }

    /// A finite number.
    pub(crate) fn number(&self, field: &str) -> Result<f64, ModelError> {
        self.number_if(field)?.ok_or_else(|| self.missing(field, "a number".to_owned()))
    }

    /// As [`Fields::number`], where the field is there.
    pub(crate) fn number_if(&self, field: &str) -> Result<Option<f64>, ModelError> {
        let Some(value) = self.value(field) else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| self.wrong(field, "a number", value))
    }

    /// `true` or `false`; where it is absent, `default`.
    pub(crate) fn flag(&self, field: &str, default: bool) -> Result<bool, ModelError> {
        let Some(value) = self.value(field) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(field, "true or false", value))
    }

    /// A text, where the field is there.
    pub(crate) fn text(&self, field: &str) -> Result<Option<&'a str>, ModelError> {
        let Some(value) = self.value(field) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(field, "a text", value))
    }

    /// A list of texts, where the field is there.
    pub(crate) fn texts(&self, field: &str) -> Result<Option<Vec<&'a str>>, ModelError> {
        let Some(value) = self.value(field) else { return Ok(None) };
        let texts = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        texts.map(Some).ok_or_else(|| self.wrong(field, "a list of texts", value))
    }
}

/// A value as a message shows it.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN_MAX {
        return text;
    }
    let start: String = text.chars().take(SHOWN_MAX).collect();
    format!("{start}…")
}
