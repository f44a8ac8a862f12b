//! The pinned original: the folder of the model that training began from. Its description and the small files beside its
//! weights are taken byte for byte, since training changes neither the tokenizer nor how the model is to be asked.
//! It refuses to know weights.

use super::folder::{failed, sha256};
use super::number::NumberKind;
use crate::error::TrainingError;
use legwork_model::DecoderConfig;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The description.
pub(super) const CONFIG: &str = "config.json";
/// The files that are copied, where they are there.
pub const COPIED: [&str; 11] = [
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
];
/// Templates for one purpose each, copied too.
const TEMPLATES: &str = "additional_chat_templates";
/// Templates for one purpose each at most.
const TEMPLATES_MAX: usize = 64;
/// Bytes of a copied file at most; a tokenizer of 250,000 tokens has about 35 MB.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Fields of a description that name the kind of its numbers: the newer, and the one that every version reads.
const KINDS: [&str; 2] = ["dtype", "torch_dtype"];

/// An original, read.
pub(super) struct Original {
    /// What it is called: the last part of its path, or of a hub's cache the model and its revision.
    pub(super) name: String,
    /// Its description's bytes.
    pub(super) config_bytes: Vec<u8>,
    /// The same, read.
    pub(super) config: DecoderConfig,
    /// The files to copy.
    pub(super) copied: BTreeMap<String, Vec<u8>>,
}

impl Original {
    /// Reads the small files of a folder.
    ///
    /// # Errors
    /// A description that is missing or not of a decoder, or a file that is too large.
    pub(super) fn open(folder: &Path) -> Result<Self, TrainingError> {
        let path = folder.join(CONFIG);
        let config_bytes = small_file(&path)?;
        let config = DecoderConfig::from_json(&path, &object(&path, &config_bytes)?)?;
        let mut copied = BTreeMap::new();
        for name in copied_names(folder)? {
            let bytes = small_file(&folder.join(&name))?;
            copied.insert(name, bytes);
        }
        Ok(Self { name: name_of(folder), config_bytes, config, copied })
    }

    /// The kind of number that it says it is of.
    pub(super) fn kind(&self) -> Option<NumberKind> {
        self.config.dtype.and_then(NumberKind::of)
    }

    /// The description with its kind of number made true; byte for byte as it was where it is true already.
    pub(super) fn description(&self, folder: &Path, kind: NumberKind) -> Result<Vec<u8>, TrainingError> {
        let path = folder.join(CONFIG);
        let mut fields = object(&path, &self.config_bytes)?;
        let said: Vec<&str> = KINDS.into_iter().filter(|field| fields.contains_key(*field)).collect();
        if !said.is_empty() && said.iter().all(|field| fields[*field] == kind.name()) {
            return Ok(self.config_bytes.clone());
        }
        let fields_of_kind = if said.is_empty() { vec![KINDS[1]] } else { said };
        for field in fields_of_kind {
            fields.insert(field.to_owned(), Value::from(kind.name()));
        }
        let mut text = serde_json::to_vec_pretty(&Value::Object(fields)).expect("a map of JSON values is JSON");
        text.push(b'\n');
        Ok(text)
    }

    /// The description but for the kind of number.
    pub(super) fn bare_description(&self) -> Map<String, Value> {
        let mut fields: Map<String, Value> = serde_json::from_slice(&self.config_bytes).unwrap_or_default();
        fields.retain(|field, _| !KINDS.contains(&field.as_str()));
        fields
    }

    /// The digest of its description.
    pub(super) fn config_sha256(&self) -> String {
        sha256(&self.config_bytes)
    }
}

/// The files of a folder that are copied, in order.
pub(super) fn copied_names(folder: &Path) -> Result<Vec<String>, TrainingError> {
    let mut found: Vec<String> =
        COPIED.iter().filter(|name| folder.join(name).is_file()).map(|name| (*name).to_owned()).collect();
    let templates = folder.join(TEMPLATES);
    if templates.is_dir() {
        for entry in std::fs::read_dir(&templates).map_err(failed("read", &templates))? {
            let path = entry.map_err(failed("read", &templates))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(name) = name.filter(|name| name.ends_with(".jinja") && path.is_file()) {
                found.push(format!("{TEMPLATES}/{name}"));
            }
            if found.len() > COPIED.len() + TEMPLATES_MAX {
                let problem = format!("expected at most {TEMPLATES_MAX} templates, got more; remove those not used");
                return Err(TrainingError::Checkpoint { path: templates, problem });
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A file that is not too large.
pub(super) fn small_file(path: &Path) -> Result<Vec<u8>, TrainingError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(failed("read", path))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("expected at most {FILE_BYTES_MAX} bytes, got more; give the model's own file");
        return Err(TrainingError::Checkpoint { path: path.to_path_buf(), problem });
    }
    Ok(bytes)
}

fn object(path: &Path, bytes: &[u8]) -> Result<Map<String, Value>, TrainingError> {
    serde_json::from_slice(bytes).map_err(|error| TrainingError::Checkpoint {
        path: path.to_path_buf(),
        problem: format!("expected a JSON object, got something else: {error}; give the model's own file"),
    })
}

/// A hub's cache holds a revision as `models--OWNER--NAME/snapshots/REVISION`; elsewhere a folder is called by its own name.
fn name_of(folder: &Path) -> String {
    let parts: Vec<String> = folder.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if let [.., model, snapshots, revision] = parts.as_slice()
        && let Some(model) = model.strip_prefix("models--")
        && snapshots == "snapshots"
    {
        return format!("{}@{revision}", model.replacen("--", "/", 1));
    }
    parts.last().cloned().unwrap_or_default()
}

/// Whether two descriptions are of one model, whatever kind of number they say.
pub(super) fn is_same_shape(a: &DecoderConfig, b: &DecoderConfig) -> bool {
    let bare = |config: &DecoderConfig| DecoderConfig { dtype: None, ..config.clone() };
    bare(a) == bare(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hubs_cache_names_model_and_revision() {
        assert_eq!(name_of(Path::new("/c/models--Qwen--Qwen3-4B/snapshots/1cfa9a7")), "Qwen/Qwen3-4B@1cfa9a7");
        assert_eq!(name_of(Path::new("models/tiny")), "tiny");
        assert_eq!(name_of(Path::new("/")), "/");
    }
}
