//! An encoder for a model's folder: its tokenizer, a template of its own or of the house, and how many ids it knows; with the
//! digests that a manifest names them by. It refuses to read weights.

use super::{Encoder, MaskKind, RowLimits};
use crate::error::TrainingError;
use legwork_model::{House, ModelError, PromptTemplate, SpecialTokens, Template, Templates, Tokenizer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Bytes of a `config.json` at most.
const CONFIG_MAX_BYTES: u64 = 16 << 20;

/// Which template renders the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TemplateChoice {
    /// The model's own.
    #[default]
    Own,
    /// One of the house's.
    House(House),
}

impl TemplateChoice {
    /// What it is called in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::House(house) => house.name(),
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        if name == "own" { Some(Self::Own) } else { House::named(name).map(Self::House) }
    }
}

/// How rows become samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderSettings {
    /// Which template.
    pub template: TemplateChoice,
    /// How messages are rendered.
    pub kind: MaskKind,
    /// Tokens of a row at most; no limit but memory if absent.
    pub length_max: Option<usize>,
}

impl Default for EncoderSettings {
    fn default() -> Self {
        Self { template: TemplateChoice::Own, kind: MaskKind::Qwen3, length_max: None }
    }
}

/// What rows were encoded with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextDigests {
    /// SHA-256 of `tokenizer.json`, in hexadecimal.
    pub tokenizer_sha256: String,
    /// SHA-256 of the template's source, in hexadecimal.
    pub template_sha256: String,
}

impl Encoder {
    /// An encoder for a model's folder, as Hugging Face has it; a folder with a tokenizer and no weights will do.
    ///
    /// # Errors
    /// A folder without `tokenizer.json` or without the template that is asked for, or with one that cannot be read or used.
    pub fn open(folder: &Path, settings: EncoderSettings) -> Result<(Self, TextDigests), TrainingError> {
        let path = folder.join("tokenizer.json");
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |source| TrainingError::Io { what: "read", path, source }
        };
        // Whether it is too large, the tokenizer says; the bytes are read for their digest behind that.
        let tokenizer = Tokenizer::open(&path)?;
        let tokenizer_sha256 = sha256(&std::fs::read(&path).map_err(io(&path))?);
        let template = template(folder, settings.template)?;
        let template_sha256 = sha256(template.source().as_bytes());
        let special = SpecialTokens::of_folder(folder, &tokenizer)?;
        let vocabulary = match embedding_rows(&folder.join("config.json"))? {
            Some(rows) => rows,
            None => known_ids(&tokenizer),
        };
        let limits = RowLimits { length_max: settings.length_max.unwrap_or(usize::MAX), vocabulary };
        let prompts = PromptTemplate::new(template, tokenizer, &special)?;
        let encoder = Self::new(prompts, settings.kind, limits)?;
        Ok((encoder, TextDigests { tokenizer_sha256, template_sha256 }))
    }
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn template(folder: &Path, choice: TemplateChoice) -> Result<Template, TrainingError> {
    match choice {
        TemplateChoice::House(house) => Ok(house.template()?),
        TemplateChoice::Own => {
            let own = Templates::of_folder(folder)?;
            own.choose(false).cloned().ok_or_else(|| TrainingError::Setting {
                setting: "template",
                expected: "a model with a chat template, or one of keep_think, qwen3_fixed and qwen3".to_owned(),
                got: format!("{} without one", folder.display()),
            })
        }
    }
}

/// Rows of the embedding by a `config.json`, if it is there.
fn embedding_rows(path: &Path) -> Result<Option<usize>, TrainingError> {
    let wrong = |detail: String| ModelError::File { path: PathBuf::from(path), detail };
    let size = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string()).into()),
    };
    if size > CONFIG_MAX_BYTES {
        return Err(wrong(format!("expected at most {CONFIG_MAX_BYTES} bytes, got {size}; fetch the file anew")).into());
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let config: Value =
        serde_json::from_str(&text).map_err(|error| wrong(format!("expected JSON: {error}; fetch the file anew")))?;
    let rows = config.get("vocab_size").and_then(Value::as_u64).and_then(|rows| usize::try_from(rows).ok());
    let missing = || wrong("expected a whole number `vocab_size`, got none; fetch the file anew".to_owned());
    rows.filter(|rows| *rows > 0).map(Some).ok_or_else(|| missing().into())
}

/// One more than the greatest id that a tokenizer has.
fn known_ids(tokenizer: &Tokenizer) -> usize {
    let added = tokenizer.added().iter().map(|token| token.id as usize + 1).max().unwrap_or(0);
    added.max(tokenizer.vocabulary())
}
