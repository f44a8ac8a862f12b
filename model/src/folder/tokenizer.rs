//! Where a model's tokenizer is: a `tokenizer.json`, or the vocabulary and merges in a GGUF file as plain data. It refuses to
//! encode anything.

use super::generation::gguf_id;
use crate::error::ModelError;
use crate::gguf::{Gguf, Value};
use std::path::{Path, PathBuf};

/// What to do about a vocabulary that is wrong.
const ANEW: &str = "fetch the file anew";

/// Where a model's tokenizer is.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenizerSource {
    /// A `tokenizer.json`.
    Json(PathBuf),
    /// In the metadata of a GGUF file.
    Gguf(Box<GgufTokenizer>),
    /// Nowhere; whoever needs one says so.
    Absent,
}

/// A tokenizer as GGUF's metadata has it.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufTokenizer {
    /// `gpt2` for byte-level BPE, `llama` for SentencePiece, and others.
    pub model: String,
    /// How a text is cut before BPE, by llama.cpp's name: `qwen2`, `smollm`, `llama-bpe`.
    pub pre: Option<String>,
    /// The tokens by id; of byte-level BPE in the spelling of GPT-2.
    pub tokens: Vec<String>,
    /// Their kinds, by id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. Empty where the file has none.
    pub kinds: Vec<u32>,
    /// Their scores, by id. Empty where the file has none.
    pub scores: Vec<f32>,
    /// Two tokens and a space between them, the first merged first.
    pub merges: Vec<String>,
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn.
    pub eot: Option<u32>,
    /// Stands for what has no token.
    pub unknown: Option<u32>,
    /// Fills up.
    pub padding: Option<u32>,
    /// Whether `bos` is put before a text.
    pub add_bos: Option<bool>,
    /// Whether `eos` is put behind a text.
    pub add_eos: Option<bool>,
    /// Whether a space is put before a text.
    pub add_space_prefix: Option<bool>,
}

impl TokenizerSource {
    pub(super) fn of_folder(folder: &Path) -> Self {
        let path = folder.join("tokenizer.json");
        if path.is_file() { TokenizerSource::Json(path) } else { TokenizerSource::Absent }
    }

    pub(super) fn of_gguf(gguf: &Gguf, vocabulary: usize) -> Result<Self, ModelError> {
        let Some(model) = gguf.text("tokenizer.ggml.model")? else { return Ok(TokenizerSource::Absent) };
        let list = |name: &str| -> Result<&[Value], ModelError> {
            let key = format!("tokenizer.ggml.{name}");
            let Some(value) = gguf.value(&key) else { return Ok(&[]) };
            value.as_list().ok_or_else(|| gguf.wrong(&key, "a list".to_owned(), value.shown(), ANEW))
        };
        let tokens = texts(gguf, "tokens", list("tokens")?)?;
        if tokens.is_empty() || tokens.len() > vocabulary {
            let expected = format!("1 to {vocabulary} tokens, as the embedding has rows");
            return Err(gguf.wrong("tokenizer.ggml.tokens", expected, tokens.len().to_string(), ANEW));
        }
        let for_each = |name: &str, count: usize| {
            let fine = count == 0 || count == tokens.len();
            let expected = || format!("one value for each of the {} tokens", tokens.len());
            let key = format!("tokenizer.ggml.{name}");
            fine.then_some(()).ok_or_else(|| gguf.wrong(&key, expected(), count.to_string(), ANEW))
        };
        let kind = |value: &Value| value.as_u64().and_then(|kind| u32::try_from(kind).ok());
        let kinds: Vec<u32> = each(gguf, "token_type", list("token_type")?, "kinds of tokens", kind)?;
        for_each("token_type", kinds.len())?;
        let score = |value: &Value| value.as_f64().map(|score| score as f32);
        let scores: Vec<f32> = each(gguf, "scores", list("scores")?, "numbers", score)?;
        for_each("scores", scores.len())?;
        let id = |name: &str| gguf_id(gguf, &format!("tokenizer.ggml.{name}_token_id"), vocabulary);
        let flag = |name: &str| gguf.value(&format!("tokenizer.ggml.{name}")).and_then(Value::as_bool);
        Ok(TokenizerSource::Gguf(Box::new(GgufTokenizer {
            model: model.to_owned(),
            pre: gguf.text("tokenizer.ggml.pre")?.map(str::to_owned),
            merges: texts(gguf, "merges", list("merges")?)?,
            kinds,
            scores,
            bos: id("bos")?,
            eos: id("eos")?,
            eot: id("eot")?,
            unknown: id("unknown")?,
            padding: id("padding")?,
            add_bos: flag("add_bos_token"),
            add_eos: flag("add_eos_token"),
            add_space_prefix: flag("add_space_prefix"),
            tokens,
        })))
    }
}

fn texts(gguf: &Gguf, name: &str, list: &[Value]) -> Result<Vec<String>, ModelError> {
    each(gguf, name, list, "texts", |value| value.as_str().map(str::to_owned))
}

fn each<T>(
    gguf: &Gguf,
    name: &str,
    list: &[Value],
    expected: &str,
    take: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>, ModelError> {
    let wrong = |value: &Value| {
        gguf.wrong(&format!("tokenizer.ggml.{name}"), format!("a list of {expected}"), value.shown(), ANEW)
    };
    list.iter().map(|value| take(value).ok_or_else(|| wrong(value))).collect()
}
