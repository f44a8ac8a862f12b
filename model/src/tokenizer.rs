//! A tokenizer from a `tokenizer.json`, as Hugging Face writes it. Text is text here: a control token that stands in
//! it as text is encoded as text.

use crate::error::ModelError;
use std::path::Path;

/// The largest tokenizer file, in bytes.
const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// A tokenizer.
#[derive(Debug)]
pub struct Tokenizer {
    name: String,
    inner: tokenizers::Tokenizer,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// A file that cannot be read, is too large, or is no tokenizer.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let wrong = |detail: String| ModelError::Tokenizer { path: path.to_path_buf(), detail };
        let bytes = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if bytes > FILE_MAX_BYTES {
            return Err(wrong(format!("expected at most {FILE_MAX_BYTES} bytes, got {bytes}")));
        }
        let mut inner = tokenizers::Tokenizer::from_file(path).map_err(|error| wrong(error.to_string()))?;
        // Special tokens that stand in a text are text; the template adds the real ones by id.
        inner.set_encode_special_tokens(true);
        Ok(Self { name: path.display().to_string(), inner })
    }

    /// The file that it was read from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ids of a text, without any marker around it.
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let encoded = self.inner.encode_fast(text, false);
        let encoded = encoded.map_err(|error| ModelError::Encode { bytes: text.len(), detail: error.to_string() })?;
        Ok(encoded.get_ids().to_vec())
    }

    /// The text of ids. Control tokens are left out if `skip_control`.
    ///
    /// # Errors
    /// If the tokenizer refuses the ids.
    pub fn decode(&self, ids: &[u32], skip_control: bool) -> Result<String, ModelError> {
        self.inner
            .decode(ids, skip_control)
            .map_err(|error| ModelError::Decode { count: ids.len(), detail: error.to_string() })
    }

    /// Tokens of a text. A text that the tokenizer refuses counts a token a byte: never too few.
    pub fn count(&self, text: &str) -> u64 {
        self.encode(text).map_or(text.len() as u64, |ids| ids.len() as u64)
    }

    /// The id of a token, if the vocabulary has it.
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Every token that was added beside the vocabulary: control tokens and markers such as `<think>`.
    pub fn added_tokens(&self) -> Vec<String> {
        self.inner.get_added_tokens_decoder().into_values().map(|token| token.content).collect()
    }
}
