//! How an encoder's rows become one vector, as sentence-transformers writes it beside a model: `modules.json`, the pooling's
//! own `config.json`, `sentence_bert_config.json` and `config_sentence_transformers.json`.
//!
//! It refuses to know the encoder.

use super::{Fields, limits};
use crate::error::ModelError;
use crate::folder::{is_plain_name, json_object, json_value};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of one prompt at most.
const PROMPT_MAX_BYTES: usize = 64 * 1024;
/// What to do about a chain of modules that is not computed here.
const ANOTHER: &str = "use a sentence encoder of a transformer, a pooling and a normalisation";

/// Which rows are the vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all rows that are no padding.
    Mean,
    /// The first row.
    Cls,
    /// The last row that is no padding.
    LastToken,
}

/// How an encoder's rows become one vector.
#[derive(Clone, Debug, PartialEq)]
pub struct SentenceConfig {
    /// Which rows.
    pub pooling: Pooling,
    /// Whether the vector is divided by its length.
    pub normalise: bool,
    /// Whether the rows of a prompt are pooled with those of the text.
    pub include_prompt: bool,
    /// Tokens of a text at most, markers counted in; where absent, the encoder's own limit.
    pub tokens_max: Option<usize>,
    /// Texts to put before a text, by name: `query`, `document`.
    pub prompts: BTreeMap<String, String>,
    /// The prompt of a text for which none is named.
    pub default_prompt: Option<String>,
}

impl SentenceConfig {
    /// Reads what stands beside a model; none where the folder has no `modules.json`.
    ///
    /// # Errors
    /// A file that is wrong, a module or a pooling that is not computed here.
    pub fn open(folder: &Path) -> Result<Option<Self>, ModelError> {
        let path = folder.join("modules.json");
        if !path.exists() {
            return Ok(None);
        }
        let chain = modules(&path)?;
        let (pooling, include_prompt) = match &chain.pooling {
            Some(within) => pooling(&folder.join(within).join("config.json"))?,
            None => (Pooling::Mean, true),
        };
        let mut config = Self {
            pooling,
            normalise: chain.normalise,
            include_prompt,
            tokens_max: None,
            prompts: BTreeMap::new(),
            default_prompt: None,
        };
        let path = folder.join("sentence_bert_config.json");
        if path.exists() {
            let map = json_object(&path)?;
            config.tokens_max = Fields::new(&path, &map).count_if("max_seq_length", limits::CONTEXT_MAX)?;
        }
        let path = folder.join("config_sentence_transformers.json");
        if path.exists() {
            config.read_prompts(&path)?;
        }
        Ok(Some(config))
    }

    fn read_prompts(&mut self, path: &Path) -> Result<(), ModelError> {
        let map = json_object(path)?;
        let fields = Fields::new(path, &map);
        if let Some(value) = fields.value("prompts") {
            let prompts = value.as_object().ok_or_else(|| fields.wrong("prompts", "an object", value))?;
            for (name, text) in prompts {
                let text = text.as_str().filter(|text| text.len() <= PROMPT_MAX_BYTES);
                let expected = || format!("a text of at most {PROMPT_MAX_BYTES} bytes");
                let text = text.ok_or_else(|| fields.wrong(&format!("prompts.{name}"), expected(), &prompts[name]))?;
                self.prompts.insert(name.clone(), text.to_owned());
            }
        }
        if let Some(name) = fields.text("default_prompt_name")? {
            let known = || format!("one of the prompts {:?}", self.prompts.keys().collect::<Vec<_>>());
            if !self.prompts.contains_key(name) {
                return Err(fields.wrong("default_prompt_name", known(), &Value::from(name)));
            }
            self.default_prompt = Some(name.to_owned());
        }
        Ok(())
    }
}

struct Modules {
    /// The folder of the pooling's own description.
    pooling: Option<String>,
    normalise: bool,
}

/// The chain of modules: a transformer in the folder itself, a pooling in a folder of its own, perhaps a normalisation.
fn modules(path: &Path) -> Result<Modules, ModelError> {
    let wrong = |field: &str, expected: &str, got: &Value| ModelError::Field {
        path: path.to_path_buf(),
        field: field.to_owned(),
        expected: expected.to_owned(),
        got: super::fields::shown(got),
        cure: ANOTHER,
    };
    let list = json_value(path)?;
    let modules = list.as_array().ok_or_else(|| wrong("the file", "a list of modules", &list))?;
    let mut found = Modules { pooling: None, normalise: false };
    for (index, module) in modules.iter().enumerate() {
        let object = module.as_object().ok_or_else(|| wrong("a module", "an object", module))?;
        let fields = Fields::new(path, object);
        let kind = fields.text("type")?.unwrap_or_default();
        let within = fields.text("path")?.unwrap_or_default();
        // Classes moved between versions of the library; their last names stayed.
        match (index, kind.rsplit('.').next().unwrap_or_default()) {
            (0, "Transformer") if within.is_empty() => {}
            (1, "Pooling") if is_plain_name(within) => found.pooling = Some(within.to_owned()),
            (1, "Pooling") => return Err(wrong("path", "the name of a folder", &Value::from(within))),
            (2, "Normalize") => found.normalise = true,
            _ => return Err(wrong("modules", "Transformer, Pooling and perhaps Normalize, in this order", module)),
        }
    }
    if modules.is_empty() { Err(wrong("modules", "a Transformer", &list)) } else { Ok(found) }
}

fn pooling(path: &Path) -> Result<(Pooling, bool), ModelError> {
    let map = json_object(path)?;
    let fields = Fields::new(path, &map);
    let mut modes = Vec::new();
    for (field, on) in map.iter().filter(|(field, _)| field.starts_with("pooling_mode_")) {
        if on.as_bool().ok_or_else(|| fields.wrong(field, "true or false", on))? {
            modes.push(field.trim_start_matches("pooling_mode_").to_owned());
        }
    }
    // From version 5.3 on the library writes one word.
    if let Some(mode) = fields.text("pooling_mode")? {
        modes = vec![mode.to_owned()];
    }
    let pooling = match modes.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["mean_tokens" | "mean"] => Pooling::Mean,
        ["cls_token" | "cls"] => Pooling::Cls,
        ["lasttoken"] => Pooling::LastToken,
        _ => {
            let expected = "one of mean_tokens, cls_token, lasttoken";
            return Err(fields.refused("pooling_mode", expected, format!("{modes:?}"), ANOTHER));
        }
    };
    Ok((pooling, fields.flag("include_prompt", true)?))
}
