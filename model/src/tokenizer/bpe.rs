//! A byte-level tokenizer of the parts that a GGUF file carries: tokens, merges, kinds of tokens, and the name of the
//! rule that cuts text into words. It refuses a rule that it does not know, since a wrong one gives other ids in silence.

use std::collections::HashSet;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

/// Tokens of a vocabulary at most.
const TOKENS_MAX: usize = 4_000_000;
/// Bytes of all tokens and merges at most.
const TEXT_MAX_BYTES: usize = 256 * 1024 * 1024;

/// What a GGUF file says of its tokenizer.
#[derive(Clone, Debug, Default)]
pub struct BpeParts {
    /// `tokenizer.ggml.tokens`, by id.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.merges`, each two tokens with a blank between.
    pub merges: Vec<String>,
    /// `tokenizer.ggml.token_type`, by id; empty if the file has none. 3 is a control token, 4 one that a user defined.
    pub kinds: Vec<i32>,
    /// How text is cut into words.
    pub pre: PreTokenizer,
}

/// How text is cut into words before it is merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreTokenizer {
    /// GPT-2: words with the blank before them, digits as they come.
    #[default]
    Gpt2,
    /// SmolLM and StarCoder: every digit by itself, then as GPT-2.
    Smollm,
    /// Qwen 2 and 3: composed characters first, every digit by itself, line ends kept together.
    Qwen2,
    /// Llama 3: digits by threes, and a word that is a token is not merged anew.
    Llama3,
}

impl PreTokenizer {
    /// The rule of a `tokenizer.ggml.pre`.
    ///
    /// # Errors
    /// A name that is none of the known.
    pub fn of_gguf(pre: &str) -> Result<Self, crate::ModelError> {
        Ok(match pre {
            "gpt-2" => Self::Gpt2,
            "smollm" | "starcoder" | "refact" | "command-r" => Self::Smollm,
            "qwen2" => Self::Qwen2,
            "llama3" | "llama-v3" | "llama-bpe" | "falcon3" => Self::Llama3,
            other => {
                let detail = format!(
                    "tokenizer.ggml.pre is `{other}`, expected gpt-2, smollm, starcoder, qwen2 or llama-bpe; put the model's tokenizer.json \
                     beside the file"
                );
                return Err(crate::ModelError::Vocabulary { name: "the GGUF file".to_owned(), detail });
            }
        })
    }

    pub(super) fn build(self) -> tokenizers::Result<PreTokenizerWrapper> {
        // Contractions, a word with one sign before it, digits, signs with their line ends, line ends, blanks. Qwen's and
        // Llama's rules differ in the digits alone.
        let by_regex = |digits: &str| -> tokenizers::Result<PreTokenizerWrapper> {
            let pattern = format!(
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            );
            let split = Split::new(SplitPattern::Regex(pattern), SplitDelimiterBehavior::Isolated, false)?;
            Ok(Sequence::new(vec![split.into(), ByteLevel::new(false, true, false).into()]).into())
        };
        match self {
            Self::Gpt2 => Ok(ByteLevel::new(false, true, true).into()),
            Self::Smollm => {
                Ok(Sequence::new(vec![Digits::new(true).into(), ByteLevel::new(false, true, true).into()]).into())
            }
            Self::Qwen2 => by_regex(r"\p{N}"),
            Self::Llama3 => by_regex(r"\p{N}{1,3}"),
        }
    }
}

/// The tokenizer, or what is wrong with the parts.
pub(super) fn build(parts: BpeParts) -> Result<tokenizers::Tokenizer, String> {
    check(&parts)?;
    let vocabulary: Vocab = parts.tokens.iter().cloned().zip(0..).collect();
    let pairs: Vec<(String, String)> = parts
        .merges
        .iter()
        .enumerate()
        .map(|(index, merge)| {
            let pair = merge.split_once(' ').filter(|(a, b)| !a.is_empty() && !b.is_empty() && !b.contains(' '));
            let (a, b) =
                pair.ok_or_else(|| format!("merge {index} is `{merge}`, expected two tokens with a blank between"))?;
            // The library would not refuse a merge into no token, but give up.
            match [a, b, &format!("{a}{b}")].into_iter().find(|token| !vocabulary.contains_key(*token)) {
                Some(lost) => Err(format!("merge {index} is `{merge}`, and there is no token `{lost}`")),
                None => Ok((a.to_owned(), b.to_owned())),
            }
        })
        .collect::<Result<_, String>>()?;
    let model = BPE::builder().vocab_and_merges(vocabulary, pairs).ignore_merges(parts.pre == PreTokenizer::Llama3);
    let model = model.build().map_err(|error| error.to_string())?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    if parts.pre == PreTokenizer::Qwen2 {
        tokenizer.with_normalizer(Some(NFC)).map_err(|error| error.to_string())?;
    }
    tokenizer.with_pre_tokenizer(Some(parts.pre.build().map_err(|error| error.to_string())?));
    tokenizer.with_decoder(Some(ByteLevel::new(false, true, false)));
    let added = |special: bool| {
        let kind = if special { KIND_CONTROL } else { KIND_USER };
        let of_kind =
            parts.tokens.iter().zip(&parts.kinds).filter(move |(token, of)| **of == kind && !token.is_empty());
        of_kind.map(move |(token, _)| tokenizers::AddedToken::from(token.clone(), special).normalized(false))
    };
    tokenizer.add_special_tokens(added(true)).map_err(|error| error.to_string())?;
    tokenizer.add_tokens(added(false)).map_err(|error| error.to_string())?;
    Ok(tokenizer)
}

/// The kind of a control token.
const KIND_CONTROL: i32 = 3;
/// The kind of a marker that stands for itself.
const KIND_USER: i32 = 4;

fn check(parts: &BpeParts) -> Result<(), String> {
    let count = parts.tokens.len();
    if count == 0 || count > TOKENS_MAX {
        return Err(format!("expected 1 to {TOKENS_MAX} tokens, got {count}"));
    }
    if !parts.kinds.is_empty() && parts.kinds.len() != count {
        return Err(format!("expected a kind for each of {count} tokens, got {}", parts.kinds.len()));
    }
    let bytes: usize = parts.tokens.iter().chain(&parts.merges).map(String::len).sum();
    if bytes > TEXT_MAX_BYTES {
        return Err(format!("expected at most {TEXT_MAX_BYTES} bytes of tokens and merges, got {bytes}"));
    }
    let mut seen = HashSet::with_capacity(count);
    match parts.tokens.iter().enumerate().find(|(_, token)| !seen.insert(token.as_str())) {
        Some((id, token)) => Err(format!("token {id} is `{token}`, which stands before it already")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{BpeParts, PreTokenizer, Tokenizer};

    fn parts(tokens: &[&str], merges: &[&str]) -> BpeParts {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        BpeParts { tokens: own(tokens), merges: own(merges), ..BpeParts::default() }
    }

    #[track_caller]
    fn refused(parts: BpeParts, words: &str) {
        let error = Tokenizer::from_bpe_parts("x.gguf", parts).unwrap_err().to_string();
        assert!(error.contains("x.gguf") && error.contains(words), "{error}");
    }

    #[test]
    fn merges_and_kinds_make_a_tokenizer() {
        let kinds = vec![1, 1, 1, 3, 4];
        let whole = BpeParts { kinds, ..parts(&["a", "b", "ab", "<end>", "<think>"], &["a b"]) };
        let tokenizer = Tokenizer::from_bpe_parts("x.gguf", whole).unwrap();
        assert_eq!(tokenizer.encode("aab<think>").unwrap(), [0, 2, 4]);
        assert_eq!(tokenizer.encode_rendered("ab<end>").unwrap(), [2, 3]);
        assert_eq!(tokenizer.decode(&[2, 3], true).unwrap(), "ab");
    }

    #[test]
    fn parts_that_contradict_one_another_are_refused() {
        refused(parts(&[], &[]), "got 0");
        refused(parts(&["a", "a"], &[]), "token 1 is `a`");
        refused(parts(&["a"], &["ab"]), "merge 0 is `ab`");
        refused(parts(&["a", "b"], &["a b"]), "no token `ab`");
        refused(BpeParts { kinds: vec![1], ..parts(&["a", "b"], &[]) }, "got 1");
        assert!(PreTokenizer::of_gguf("tekken").unwrap_err().to_string().contains("`tekken`"));
    }
}
