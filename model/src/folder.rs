//! A model on disk: a folder as Hugging Face has it, or a GGUF file. What it says of itself, its weights, and where its
//! tokenizer and template are, read together and compared with one another.
//!
//! It refuses to know how a model is computed, and to fetch anything.

mod digest;
mod generation;
mod template;
mod tokenizer;

#[cfg(test)]
mod tests;

use crate::config::{DecoderConfig, EncoderConfig, SentenceConfig};
use crate::error::ModelError;
use crate::gguf::Gguf;
use crate::weights::Weights;
pub use digest::{FileDigest, ModelDigest};
pub use generation::GenerationDefaults;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
pub use template::ChatTemplateSource;
pub use tokenizer::{GgufTokenizer, TokenizerSource};

/// Bytes of a JSON description at most; an index of shards has a line for each tensor.
const JSON_MAX_BYTES: u64 = 64 << 20;
/// Names of files that a message lists.
const LISTED_MAX: usize = 5;
/// What a model cannot be told apart from others without.
const CONFIG: &str = "config.json";

/// What a model is.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelShape {
    /// It continues texts.
    Decoder(DecoderConfig),
    /// It makes vectors of texts.
    Encoder(EncoderConfig),
}

/// A model on disk.
#[derive(Debug)]
pub struct ModelFiles {
    /// The folder, or the GGUF file.
    pub path: PathBuf,
    /// What it is.
    pub shape: ModelShape,
    /// Its weights; of a decoder whose head is its embedding, tied already.
    pub weights: Weights,
    /// Where its tokenizer is.
    pub tokenizer: TokenizerSource,
    /// Its chat template, where it has one.
    pub chat_template: Option<ChatTemplateSource>,
    /// How it wants to be sampled.
    pub generation: GenerationDefaults,
    /// How its rows become a vector, where it was made for that; decoders that embed have it too.
    pub sentence: Option<SentenceConfig>,
    files: Vec<PathBuf>,
}

impl ModelFiles {
    /// Opens a folder, a GGUF file, or a folder that holds one GGUF file and no `config.json`. Weights are mapped, so this
    /// reads headers only.
    ///
    /// # Errors
    /// Anything that is missing, damaged, contradicts something else, or is not computed here.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let wrong = |detail: String| ModelError::File { path: path.to_path_buf(), detail };
        let kind = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        if kind.is_file() {
            return match path.extension() {
                Some(ending) if ending.eq_ignore_ascii_case("gguf") => Self::open_gguf(path),
                _ => Err(wrong("expected a folder or a .gguf file; give the folder that holds the model".to_owned())),
            };
        }
        if path.join(CONFIG).exists() {
            return Self::open_folder(path);
        }
        let found = with_ending(path, "gguf")?;
        match found.as_slice() {
            [one] => Self::open_gguf(one),
            [] => Err(wrong(format!(
                "expected {CONFIG} or a .gguf file, got neither; give the folder that holds the model"
            ))),
            several => {
                let names: Vec<String> = several.iter().take(LISTED_MAX).map(|path| file_name(path)).collect();
                let count = several.len();
                Err(wrong(format!("expected one .gguf file, got {count} ({}); give one of them", names.join(", "))))
            }
        }
    }

    fn open_folder(path: &Path) -> Result<Self, ModelError> {
        let config_path = path.join(CONFIG);
        let config = json_object(&config_path)?;
        let mut weights = Weights::open_safetensors(path)?;
        let encoder = config.get("model_type").and_then(Value::as_str) == Some("bert");
        let shape = if encoder {
            ModelShape::Encoder(EncoderConfig::from_json(&config_path, &config)?)
        } else {
            ModelShape::Decoder(DecoderConfig::from_json(&config_path, &config)?)
        };
        let vocabulary = tie(&shape, &mut weights);
        let mut files = vec![config_path.clone()];
        files.extend(weights.files().iter().cloned());
        files.extend(beside(path));
        Ok(Self {
            path: path.to_path_buf(),
            tokenizer: TokenizerSource::of_folder(path),
            chat_template: ChatTemplateSource::of_folder(path)?,
            generation: GenerationDefaults::of_folder(path, &config, vocabulary)?,
            sentence: SentenceConfig::open(path)?,
            shape,
            weights,
            files,
        })
    }

    fn open_gguf(path: &Path) -> Result<Self, ModelError> {
        let gguf = Gguf::open(path)?;
        if let Some(parts) = gguf.value("split.count").and_then(|parts| parts.as_u64()).filter(|parts| *parts > 1) {
            const CURE: &str = "merge the parts with llama.cpp's gguf-split";
            return Err(gguf.wrong("split.count", "a model in one file".to_owned(), format!("{parts} parts"), CURE));
        }
        let config = DecoderConfig::from_gguf(&gguf)?;
        let mut weights = Weights::of_gguf(&gguf)?;
        let shape = ModelShape::Decoder(config);
        let vocabulary = tie(&shape, &mut weights);
        Ok(Self {
            path: path.to_path_buf(),
            tokenizer: TokenizerSource::of_gguf(&gguf, vocabulary)?,
            chat_template: ChatTemplateSource::of_gguf(&gguf)?,
            generation: GenerationDefaults::of_gguf(&gguf, vocabulary)?,
            sentence: None,
            shape,
            weights,
            files: vec![path.to_path_buf()],
        })
    }

    /// A decoder's shape.
    ///
    /// # Errors
    /// A model that is none.
    pub fn decoder(&self) -> Result<&DecoderConfig, ModelError> {
        match &self.shape {
            ModelShape::Decoder(config) => Ok(config),
            ModelShape::Encoder(_) => Err(self.other("a decoder", "a sentence encoder")),
        }
    }

    /// An encoder's shape.
    ///
    /// # Errors
    /// A model that is none.
    pub fn encoder(&self) -> Result<&EncoderConfig, ModelError> {
        match &self.shape {
            ModelShape::Encoder(config) => Ok(config),
            ModelShape::Decoder(_) => Err(self.other("a sentence encoder", "a decoder")),
        }
    }

    fn other(&self, expected: &str, got: &str) -> ModelError {
        let detail = format!("expected {expected}, got {got}; give another model");
        ModelError::File { path: self.path.clone(), detail }
    }

    /// Every file that was read or belongs to what was read, in the order of their names.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The BLAKE3 of every file, and one of all of them, for a manifest. It reads every byte; `progress` is called with the
    /// bytes done and the bytes of all.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn digest(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ModelDigest, ModelError> {
        digest::digest(&self.files, progress)
    }
}

/// Ties the head where it is the embedding; gives the size of the vocabulary.
fn tie(shape: &ModelShape, weights: &mut Weights) -> usize {
    match shape {
        ModelShape::Decoder(config) => {
            if config.tied {
                weights.tie_head();
            }
            config.vocabulary
        }
        ModelShape::Encoder(config) => config.vocabulary,
    }
}

/// The small files beside weights that say how a model is used.
fn beside(folder: &Path) -> Vec<PathBuf> {
    let names = [
        "chat_template.jinja",
        "chat_template.json",
        "config_sentence_transformers.json",
        "generation_config.json",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "1_Pooling/config.json",
    ];
    names.iter().map(|name| folder.join(name)).filter(|path| path.is_file()).collect()
}

/// Files of a folder with an ending, in order.
fn with_ending(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, ModelError> {
    let wrong = |error: std::io::Error| ModelError::File { path: folder.to_path_buf(), detail: error.to_string() };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending)) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a name stands for something directly in a folder, and nowhere else.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let hostile = |c: char| matches!(c, '/' | '\\' | ':') || c.is_control();
    !name.is_empty() && name != "." && name != ".." && !name.contains(hostile)
}

/// A JSON file that is not too large.
pub(crate) fn json_value(path: &Path) -> Result<Value, ModelError> {
    let text = small_text(path, JSON_MAX_BYTES)?;
    let wrong = |detail: String| ModelError::File { path: path.to_path_buf(), detail };
    serde_json::from_str(&text).map_err(|error| wrong(format!("expected JSON: {error}; fetch the file anew")))
}

/// As [`json_value`], of an object.
pub(crate) fn json_object(path: &Path) -> Result<Map<String, Value>, ModelError> {
    match json_value(path)? {
        Value::Object(map) => Ok(map),
        other => {
            let detail = format!("expected a JSON object, got {}; fetch the file anew", crate::config::shown(&other));
            Err(ModelError::File { path: path.to_path_buf(), detail })
        }
    }
}

/// A text file that is not too large.
pub(crate) fn small_text(path: &Path, max_bytes: u64) -> Result<String, ModelError> {
    let wrong = |detail: String| ModelError::File { path: path.to_path_buf(), detail };
    let bytes = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if bytes > max_bytes {
        return Err(wrong(format!("expected at most {max_bytes} bytes, got {bytes}; give the model's own file")));
    }
    std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))
}
