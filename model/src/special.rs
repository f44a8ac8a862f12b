//! Which ids begin and end a text, from the files beside a model's weights: `generation_config.json`, `config.json`,
//! `tokenizer_config.json` and `special_tokens_map.json`, in this order. It refuses ids and tokens that the vocabulary lacks.

use crate::error::ModelError;
use crate::tokenizer::Tokenizer;
use serde_json::{Map, Value};
use std::path::Path;

/// The largest of the files, in bytes.
const FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Ids that end a text at most.
const ENDS_MAX: usize = 64;

/// Which ids begin and end a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a text.
    pub bos: Option<u32>,
    /// Each of them ends a text; the first is the tokenizer's own where it names one.
    pub eos: Vec<u32>,
    /// Fills up a batch.
    pub pad: Option<u32>,
    /// Stands for what has no token.
    pub unk: Option<u32>,
    /// Whether a bare text begins with [`SpecialTokens::bos`]. Templates write it themselves.
    pub add_bos: bool,
}

impl SpecialTokens {
    /// Reads what a model's folder says. Files that are not there say nothing.
    ///
    /// # Errors
    /// A file that is no JSON mapping or is too large; an id or token that the vocabulary lacks.
    pub fn of_folder(folder: &Path, tokenizer: &Tokenizer) -> Result<Self, ModelError> {
        let mut files = Vec::new();
        for name in ["generation_config.json", "config.json", "tokenizer_config.json", "special_tokens_map.json"] {
            if let Some(text) = read_file(&folder.join(name))? {
                files.push((name, text));
            }
        }
        Self::of_texts(files.iter().map(|(name, text)| (*name, text.as_str())), tokenizer)
    }

    /// The same from the files' texts by their names, those that rank higher first.
    ///
    /// # Errors
    /// As [`SpecialTokens::of_folder`].
    pub fn of_texts<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
        tokenizer: &Tokenizer,
    ) -> Result<Self, ModelError> {
        let (mut found, mut own_end) = (Self::default(), None);
        for (name, text) in files {
            let fields = mapping(name, text)?;
            let facts = Facts { name, fields: &fields, tokenizer };
            found.bos = found.bos.or(facts.ids("bos")?.first().copied());
            found.pad = found.pad.or(facts.ids("pad")?.first().copied());
            found.unk = found.unk.or(facts.ids("unk")?.first().copied());
            own_end = own_end.or(facts.token("eos_token")?);
            for id in facts.ids("eos")? {
                if !found.eos.contains(&id) {
                    found.eos.push(id);
                }
            }
            found.add_bos |= fields.get("add_bos_token").and_then(Value::as_bool).unwrap_or(false);
            if found.eos.len() > ENDS_MAX {
                let detail = format!("expected at most {ENDS_MAX} ids in eos_token_id, got {}", found.eos.len());
                return Err(ModelError::Facts { name: name.to_owned(), detail });
            }
        }
        if let Some(own) = own_end {
            found.eos.sort_by_key(|id| *id != own);
        }
        Ok(found)
    }

    /// What templates call them: `bos_token`, `eos_token`, `pad_token`, `unk_token`.
    pub fn names(&self, tokenizer: &Tokenizer) -> Vec<(&'static str, String)> {
        let ids = [
            ("bos_token", self.bos),
            ("eos_token", self.eos.first().copied()),
            ("pad_token", self.pad),
            ("unk_token", self.unk),
        ];
        ids.into_iter().filter_map(|(name, id)| Some((name, tokenizer.token_of(id?)?))).collect()
    }
}

/// One file's facts.
struct Facts<'a> {
    name: &'a str,
    fields: &'a Map<String, Value>,
    tokenizer: &'a Tokenizer,
}

impl Facts<'_> {
    /// The ids of `<what>_token_id`, one or a list, and of `<what>_token`, a text or a mapping with one.
    fn ids(&self, what: &str) -> Result<Vec<u32>, ModelError> {
        let field = format!("{what}_token_id");
        let mut ids = Vec::new();
        let listed = match self.fields.get(&field) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(ids)) => ids.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        for id in listed {
            let known =
                id.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| self.tokenizer.token_of(*id).is_some());
            ids.push(known.ok_or_else(|| self.wrong(&field, "an id of the vocabulary", id))?);
        }
        ids.extend(self.token(&format!("{what}_token"))?);
        Ok(ids)
    }

    fn token(&self, field: &str) -> Result<Option<u32>, ModelError> {
        let value = match self.fields.get(field) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(token)) => token.get("content").unwrap_or(&Value::Null),
            Some(value) => value,
        };
        let id = value.as_str().and_then(|token| self.tokenizer.id_of(token));
        id.map(Some).ok_or_else(|| self.wrong(field, "a token of the vocabulary", value))
    }

    fn wrong(&self, field: &str, expected: &str, got: &Value) -> ModelError {
        let got: String = got.to_string().chars().take(100).collect();
        ModelError::Facts { name: self.name.to_owned(), detail: format!("`{field}`: expected {expected}, got {got}") }
    }
}

/// A JSON mapping.
pub(crate) fn mapping(name: &str, text: &str) -> Result<Map<String, Value>, ModelError> {
    let wrong = |detail: String| ModelError::Facts { name: name.to_owned(), detail };
    match serde_json::from_str(text.trim_start_matches('\u{FEFF}')) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(wrong("expected a mapping".to_owned())),
        Err(error) => Err(wrong(format!("expected JSON: {error}"))),
    }
}

/// The text of a file, if it is there.
pub(crate) fn read_file(path: &Path) -> Result<Option<String>, ModelError> {
    let wrong = |detail: String| ModelError::Facts { name: path.display().to_string(), detail };
    let size = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    if size > FILE_MAX_BYTES {
        return Err(wrong(format!("expected at most {FILE_MAX_BYTES} bytes, got {size}")));
    }
    std::fs::read_to_string(path).map(Some).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BpeParts, Tokenizer};

    fn tokenizer() -> Tokenizer {
        let tokens = ["a", "<s>", "</s>", "<|end|>"].map(str::to_owned).to_vec();
        Tokenizer::from_bpe_parts("x", BpeParts { tokens, kinds: vec![1, 3, 3, 3], ..BpeParts::default() }).unwrap()
    }

    fn read(files: &[(&str, &str)]) -> Result<SpecialTokens, ModelError> {
        SpecialTokens::of_texts(files.iter().copied(), &tokenizer())
    }

    #[test]
    fn every_file_adds_ends_and_the_tokenizers_own_comes_first() {
        let found = read(&[
            ("generation_config.json", r#"{"eos_token_id": [3, 2], "bos_token_id": 1}"#),
            ("config.json", r#"{"eos_token_id": 3, "pad_token_id": null}"#),
            (
                "tokenizer_config.json",
                r#"{"eos_token": {"content": "</s>"}, "bos_token": null, "add_bos_token": true}"#,
            ),
            ("special_tokens_map.json", r#"{"pad_token": "<|end|>"}"#),
        ])
        .unwrap();
        let expected = SpecialTokens { bos: Some(1), eos: vec![2, 3], pad: Some(3), unk: None, add_bos: true };
        assert_eq!(found, expected);
        let names = found.names(&tokenizer());
        assert_eq!(names[..2], [("bos_token", "<s>".to_owned()), ("eos_token", "</s>".to_owned())]);
    }

    #[test]
    fn what_the_vocabulary_lacks_is_refused_by_file_and_field() {
        for (text, words) in [
            (r#"{"eos_token_id": [2, 9]}"#, "`eos_token_id`: expected an id of the vocabulary, got 9"),
            (r#"{"eos_token_id": -1}"#, "got -1"),
            (r#"{"eos_token_id": "2"}"#, "got \"2\""),
            (r#"{"bos_token": "<x>"}"#, "`bos_token`: expected a token of the vocabulary"),
            (r#"{"bos_token": {}}"#, "got null"),
            ("[]", "expected a mapping"),
            ("{", "expected JSON"),
        ] {
            let error = read(&[("f.json", text)]).unwrap_err().to_string();
            assert!(error.contains("f.json") && error.contains(words), "{error}");
        }
    }
}
