//! The source of a chat template and the texts of the markers that it may name. It refuses to render it.

use super::{json_object, small_text};
use crate::error::ModelError;
use crate::gguf::{Gguf, Value as GgufValue};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of a template at most.
const TEMPLATE_MAX_BYTES: usize = 1 << 20;

/// A model's chat template, not yet read as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatTemplateSource {
    /// The template.
    pub source: String,
    /// Others beside it by name, as `tool_use`.
    pub named: BTreeMap<String, String>,
    /// What `bos_token` is in it.
    pub bos: Option<String>,
    /// What `eos_token` is in it.
    pub eos: Option<String>,
    /// What `pad_token` is in it.
    pub pad: Option<String>,
    /// What `unk_token` is in it.
    pub unk: Option<String>,
}

impl ChatTemplateSource {
    /// Reads `chat_template.jinja`, `chat_template.json` or the entry of `tokenizer_config.json`: the first that is there,
    /// as `transformers` does.
    pub(super) fn of_folder(folder: &Path) -> Result<Option<Self>, ModelError> {
        let path = folder.join("tokenizer_config.json");
        let config = if path.exists() { json_object(&path)? } else { Map::new() };
        let marker = |field: &str| marker(config.get(field)?);
        let mut found = Self {
            bos: marker("bos_token"),
            eos: marker("eos_token"),
            pad: marker("pad_token"),
            unk: marker("unk_token"),
            ..Self::default()
        };
        let jinja = folder.join("chat_template.jinja");
        let json = folder.join("chat_template.json");
        if jinja.exists() {
            found.source = small_text(&jinja, TEMPLATE_MAX_BYTES as u64)?;
        } else if json.exists() {
            let object = json_object(&json)?;
            found.take(&json, object.get("chat_template").unwrap_or(&Value::Null))?;
        } else if let Some(value) = config.get("chat_template").filter(|value| !value.is_null()) {
            found.take(&path, value)?;
        }
        Ok((!found.source.is_empty()).then_some(found))
    }

    /// Takes a text, or a list of objects with `name` and `template` of which one is named `default`.
    fn take(&mut self, path: &Path, value: &Value) -> Result<(), ModelError> {
        let wrong = |got: &Value| ModelError::Field {
            path: path.to_path_buf(),
            field: "chat_template".to_owned(),
            expected: format!("a text of at most {TEMPLATE_MAX_BYTES} bytes, or a list of named ones with a default"),
            got: crate::config::shown(got),
            cure: "fetch the file anew",
        };
        let text = |value: &Value| {
            let text = value.as_str().filter(|text| text.len() <= TEMPLATE_MAX_BYTES);
            text.map(str::to_owned).ok_or_else(|| wrong(value))
        };
        let Some(list) = value.as_array() else {
            self.source = text(value)?;
            return Ok(());
        };
        for entry in list {
            let name = text(entry.get("name").unwrap_or(&Value::Null))?;
            let template = text(entry.get("template").unwrap_or(&Value::Null))?;
            self.named.insert(name, template);
        }
        self.source = self.named.remove("default").ok_or_else(|| wrong(value))?;
        Ok(())
    }

    /// Reads GGUF's metadata.
    pub(super) fn of_gguf(gguf: &Gguf) -> Result<Option<Self>, ModelError> {
        const KEY: &str = "tokenizer.chat_template";
        let Some(source) = gguf.text(KEY)? else { return Ok(None) };
        let mut found = Self { source: source.to_owned(), ..Self::default() };
        let named = gguf.keys().filter_map(|key| Some((key, key.strip_prefix(KEY)?.strip_prefix('.')?)));
        for (key, name) in named {
            if let Some(template) = gguf.text(key)? {
                found.named.insert(name.to_owned(), template.to_owned());
            }
        }
        let tokens = gguf.value("tokenizer.ggml.tokens").and_then(GgufValue::as_list).unwrap_or_default();
        let marker = |name: &str| {
            let id = gguf.value(&format!("tokenizer.ggml.{name}_token_id"))?.as_u64()?;
            Some(tokens.get(usize::try_from(id).ok()?)?.as_str()?.to_owned())
        };
        found.bos = marker("bos");
        found.eos = marker("eos");
        found.pad = marker("padding");
        found.unk = marker("unknown");
        Ok(Some(found))
    }
}

/// A marker is a text, or an object with its `content`.
fn marker(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
}
