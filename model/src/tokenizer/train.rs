//! A byte-level tokenizer of one's own, built as Qwen's are: composed characters, Qwen's rule for words, all 256 bytes, merges
//! learnt from texts, and behind them the control tokens in Qwen3's order. The same texts give the same files, byte for byte.
//! It refuses to know where texts come from.

use super::bpe::PreTokenizer;
use super::{Tokenizer, guarded};
use crate::error::ModelError;
use crate::template::House;
use ahash::AHashMap;
use compact_str::CompactString;
use serde_json::{Value, json};
use std::path::Path;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    Model, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _, PreTokenizerWrapper,
};

/// Tokens of every byte.
const BYTES: usize = 256;
/// Tokens of a vocabulary at most.
pub const TRAINED_VOCABULARY_MAX: usize = 1 << 20;
/// Bytes of all texts at most: the library counts pairs in 31 bits.
pub const TRAINING_TEXT_BYTES_MAX: u64 = 1 << 30;
/// A pair that is seen less often is not merged: it would be a token of one place.
const PAIR_COUNT_MIN: u64 = 2;
/// What the trained tokenizer is called in messages.
const NAME: &str = "the training text";

/// Tokens behind the merges, in Qwen3's order, and whether they are control tokens: text never becomes one. The others are
/// markers that a model writes as text. Qwen3's tokens of images and of holes in code are left out.
pub const ADDED: [(&str, bool); 9] = [
    ("<|endoftext|>", true),
    ("<|im_start|>", true),
    ("<|im_end|>", true),
    ("<tool_call>", false),
    ("</tool_call>", false),
    ("<tool_response>", false),
    ("</tool_response>", false),
    ("<think>", false),
    ("</think>", false),
];

/// A tokenizer that was trained, as files.
#[derive(Clone, Debug)]
pub struct TrainedTokenizer {
    /// The same, read back from its file.
    pub tokenizer: Tokenizer,
    /// Texts that it was trained on.
    pub texts: u64,
    /// Bytes of them.
    pub text_bytes: u64,
    files: Vec<(&'static str, String)>,
}

impl TrainedTokenizer {
    /// `tokenizer.json`, `tokenizer_config.json` with the house's template that keeps thinking, `vocab.json` and `merges.txt`,
    /// by name with their text.
    pub fn files(&self) -> &[(&'static str, String)] {
        &self.files
    }

    /// Writes the files into a folder that is there.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), ModelError> {
        for (name, text) in &self.files {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|error| ModelError::File { path, detail: error.to_string() })?;
        }
        Ok(())
    }
}

/// Trains a tokenizer of `vocabulary` tokens in all, those of [`ADDED`] counted in. `context` is the longest text that it is
/// said to be for.
///
/// # Errors
/// A vocabulary that is too small or too large, texts of too many bytes or of too few pairs for so many tokens, or an error
/// of the texts.
pub fn train_tokenizer<E: From<ModelError>>(
    texts: impl IntoIterator<Item = Result<String, E>>,
    vocabulary: usize,
    context: usize,
) -> Result<TrainedTokenizer, E> {
    let least = BYTES + ADDED.len();
    if !(least..=TRAINED_VOCABULARY_MAX).contains(&vocabulary) {
        return Err(wrong(format!(
            "expected a size from {least} to {TRAINED_VOCABULARY_MAX} tokens, got {vocabulary}"
        ))
        .into());
    }
    let pre = PreTokenizer::Qwen2.build().map_err(|error| wrong(error.to_string()))?;
    let (mut words, mut count, mut bytes) = (AHashMap::new(), 0, 0);
    for text in texts {
        let text = text?;
        count += 1;
        bytes += text.len() as u64;
        if bytes > TRAINING_TEXT_BYTES_MAX {
            let detail =
                format!("expected at most {TRAINING_TEXT_BYTES_MAX} bytes of text, got more; give a sample of it");
            return Err(wrong(detail).into());
        }
        for part in outside_added(&text) {
            guarded(|| count_words(part, &pre, &mut words)).map_err(wrong)?;
        }
    }
    let model = learn(&words, vocabulary - ADDED.len())?;
    let json = assemble(model, pre).map_err(wrong)?;
    let tokenizer = Tokenizer::from_bytes(NAME, json.as_bytes())?;
    let mut files = vocabulary_files(&json)?;
    files.push(("tokenizer_config.json", configuration(&tokenizer, context)));
    files.insert(0, ("tokenizer.json", json));
    Ok(TrainedTokenizer { tokenizer, texts: count, text_bytes: bytes, files })
}

fn wrong(detail: String) -> ModelError {
    ModelError::Vocabulary { name: NAME.to_owned(), detail }
}

/// The pieces of a text that are no added token: what is one is never merged.
fn outside_added(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    let next = |text: &str| ADDED.iter().filter_map(|(token, _)| Some((text.find(token)?, token.len()))).min();
    while let Some((at, length)) = next(rest) {
        parts.push(&rest[..at]);
        rest = &rest[at + length..];
    }
    parts.push(rest);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Counts the words of a text, spelt as bytes.
fn count_words(
    text: &str,
    pre: &PreTokenizerWrapper,
    words: &mut AHashMap<CompactString, u64>,
) -> tokenizers::Result<()> {
    let mut pieces = PreTokenizedString::from(text);
    pieces.normalize(|text| NFC.normalize(text))?;
    pre.pre_tokenize(&mut pieces)?;
    for (word, _, _) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
        *words.entry(CompactString::from(word)).or_default() += 1;
    }
    Ok(())
}

/// Learns merges until there are `size` tokens.
fn learn(words: &AHashMap<CompactString, u64>, size: usize) -> Result<BPE, ModelError> {
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .min_frequency(PAIR_COUNT_MIN)
        .vocab_size(size)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let once = || -> Result<(BPE, Value), ModelError> {
        let mut model = BPE::default();
        guarded(|| trainer.do_train(words, &mut model)).map_err(wrong)?;
        let shown = serde_json::to_value(&model).map_err(|error| wrong(error.to_string()))?;
        Ok((model, shown))
    };
    // The trainer walks maps in an order that differs from one time to the next. Ties are broken by the tokens' ids, so that
    // should not show; where it does, no one could make the same tokenizer again.
    let ((model, shown), (_, again)) = (once()?, once()?);
    if shown != again {
        return Err(wrong(
            "expected the same merges from the same text, got others the second time; change the text or the size"
                .to_owned(),
        ));
    }
    let got = model.get_vocab_size();
    if got != size {
        let most = got + ADDED.len();
        return Err(wrong(format!(
            "expected pairs for {} tokens, got enough of them for {most}; give more text, or ask for at most {most} tokens",
            size + ADDED.len()
        )));
    }
    Ok(model)
}

/// The text of `tokenizer.json`.
fn assemble(model: BPE, pre: PreTokenizerWrapper) -> Result<String, String> {
    let build = || -> tokenizers::Result<String> {
        let mut tokenizer = tokenizers::Tokenizer::new(model);
        tokenizer.with_normalizer(Some(NFC))?;
        tokenizer.with_pre_tokenizer(Some(pre));
        tokenizer.with_post_processor(Some(ByteLevel::new(false, false, false)));
        tokenizer.with_decoder(Some(ByteLevel::new(false, false, false)));
        for (token, special) in ADDED {
            tokenizer.add_tokens([tokenizers::AddedToken::from(token, special).normalized(false)])?;
        }
        tokenizer.to_string(true)
    };
    guarded(build)
}

/// `vocab.json` and `merges.txt`, which tools that do not read `tokenizer.json` take.
fn vocabulary_files(json: &str) -> Result<Vec<(&'static str, String)>, ModelError> {
    let whole: Value = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
    let model = &whole["model"];
    let mut merges = "#version: 0.2\n".to_owned();
    for merge in model["merges"].as_array().into_iter().flatten() {
        let (Some(a), Some(b)) = (merge[0].as_str(), merge[1].as_str()) else {
            return Err(wrong(format!("expected merges of two tokens, got {merge}")));
        };
        merges.push_str(&format!("{a} {b}\n"));
    }
    Ok(vec![("vocab.json", format!("{}\n", model["vocab"])), ("merges.txt", merges)])
}

/// The text of `tokenizer_config.json`.
fn configuration(tokenizer: &Tokenizer, context: usize) -> String {
    let flags = |(token, special): &(&str, bool)| {
        let id = tokenizer.id_of(token).expect("every added token was added above");
        let flags = json!({
            "content": token, "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": special,
        });
        (id.to_string(), flags)
    };
    let added: serde_json::Map<String, Value> = ADDED.iter().map(flags).collect();
    let config = json!({
        "add_bos_token": false,
        "add_prefix_space": false,
        "added_tokens_decoder": added,
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": null,
        "chat_template": House::KeepThink.source(),
        "clean_up_tokenization_spaces": false,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": context,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": false,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": null,
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests;
