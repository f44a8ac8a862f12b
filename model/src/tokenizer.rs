//! A tokenizer from a `tokenizer.json`, as Hugging Face writes it. Text is text here: a control token that stands in
//! it as text is encoded as text.

use crate::error::ModelError;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
        let mut inner = guarded(|| tokenizers::Tokenizer::from_file(path)).map_err(wrong)?;
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
        let encoded = guarded(|| self.inner.encode_fast(text, false));
        let encoded = encoded.map_err(|detail| ModelError::Encode { bytes: text.len(), detail })?;
        Ok(encoded.get_ids().to_vec())
    }

    /// The text of ids. Control tokens are left out if `skip_control`.
    ///
    /// # Errors
    /// If the tokenizer refuses the ids.
    pub fn decode(&self, ids: &[u32], skip_control: bool) -> Result<String, ModelError> {
        guarded(|| self.inner.decode(ids, skip_control))
            .map_err(|detail| ModelError::Decode { count: ids.len(), detail })
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

/// The library has assertions that damaged files trip, some when they are read and some when they are used. A damaged file
/// is the file's fault and not the program's, so such a panic ends here as an error.
fn guarded<T>(use_it: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(use_it)) {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("the tokenizer library gave up on the file; fetch it anew".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_makes_the_library_panic_is_refused_by_name() {
        let path = std::env::temp_dir().join(format!("legwork-tokenizer-{}.json", std::process::id()));
        let text = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":null,
            "post_processor":null,"decoder":{"type":"Sequence" "decoders":[]},"model":{"type":"BPE","vocab":{},"merges":[]}}"#;
        std::fs::write(&path, text).unwrap();
        let error = Tokenizer::open(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("legwork-tokenizer-") && error.contains("gave up on the file"), "{error}");
    }
}
