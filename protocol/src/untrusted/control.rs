//! The strings that mean something to a model's tokenizer, to a chat template or to our own grammar, and
//! how to break them in somebody else's text. It knows strings only; which token id one has is not its
//! business.

use aho_corasick::{AhoCorasick, MatchKind};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use thiserror::Error;

/// Control strings at most, so that a hostile tokenizer file cannot make the automaton grow without end.
pub const CONTROL_TOKENS_MAX: usize = 20_000;

/// Markers of ChatML, Qwen, Llama, Gemma, Mistral, DeepSeek, GLM, MiniMax and gpt-oss, and the tags of our
/// own grammar. A model's own special tokens are added with [`ControlTokens::with`].
const STANDARD: &[&str] = &[
    // ChatML and Qwen.
    "<|im_start|>",
    "<|im_end|>",
    "<|im_sep|>",
    "<|endoftext|>",
    "<|endofprompt|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    // Llama.
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|python_tag|>",
    "<|eot|>",
    "<|header_start|>",
    "<|header_end|>",
    "<<SYS>>",
    "<</SYS>>",
    // Gemma, and the sentence marks of many.
    "<start_of_turn>",
    "<end_of_turn>",
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    // Mistral.
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CONTENT]",
    "[THINK]",
    "[/THINK]",
    // DeepSeek.
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    // GLM.
    "[gMASK]",
    "<sop>",
    "<eop>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
    // MiniMax.
    "]~!b[",
    "]~b]",
    "[e~[",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    // gpt-oss.
    "<|startoftext|>",
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|channel|>",
    "<|constrain|>",
    "<|call|>",
    "<|return|>",
    // Our own grammar and FoldAgent's.
    "<function=",
    "</function>",
    "<parameter=",
    "</parameter>",
    "<answer>",
    "</answer>",
];

static STANDARD_TOKENS: LazyLock<ControlTokens> = LazyLock::new(|| {
    ControlTokens::new(STANDARD.iter().copied()).expect("the list is a constant, and a test builds it")
});

/// Why a list of control strings was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ControlTokensError {
    /// A string of fewer than two characters has no inside to break it at.
    #[error("expected control strings of at least two characters, got {0:?}: leave it out")]
    TooShort(String),
    /// A backslash is what strings are broken with.
    #[error("expected control strings without a backslash, got {0:?}: leave it out")]
    Backslash(String),
    /// The list is too long.
    #[error(
        "expected at most {CONTROL_TOKENS_MAX} control strings, got more: pass special tokens only, not the vocabulary"
    )]
    TooMany,
    /// The automaton could not be built.
    #[error("the control strings do not fit into one automaton: {0}")]
    Automaton(String),
}

/// Strings that may not stand in somebody else's text within a prompt. Cloning costs a pointer. The
/// default is a list of what public models use.
#[derive(Clone, Debug)]
pub struct ControlTokens(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    strings: Vec<String>,
    automaton: AhoCorasick,
}

impl Default for ControlTokens {
    fn default() -> Self {
        STANDARD_TOKENS.clone()
    }
}

impl ControlTokens {
    /// Exactly these strings.
    pub fn new<S: Into<String>>(strings: impl IntoIterator<Item = S>) -> Result<Self, ControlTokensError> {
        let mut list: Vec<String> = Vec::new();
        for string in strings {
            let string = string.into();
            if string.chars().nth(1).is_none() {
                return Err(ControlTokensError::TooShort(string));
            }
            if string.contains('\\') {
                return Err(ControlTokensError::Backslash(string));
            }
            if list.len() == CONTROL_TOKENS_MAX {
                return Err(ControlTokensError::TooMany);
            }
            list.push(string);
        }
        list.sort_unstable();
        list.dedup();
        // All occurrences are wanted, overlapping ones too, which only the standard kind reports.
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(&list)
            .map_err(|error| ControlTokensError::Automaton(error.to_string()))?;
        Ok(Self(Arc::new(Inner { strings: list, automaton })))
    }

    /// These and more, such as the special tokens of a model's tokenizer.
    pub fn with<S: Into<String>>(&self, more: impl IntoIterator<Item = S>) -> Result<Self, ControlTokensError> {
        Self::new(self.0.strings.iter().cloned().chain(more.into_iter().map(Into::into)))
    }

    /// The strings, in order.
    pub fn strings(&self) -> &[String] {
        &self.0.strings
    }

    /// Whether one of the strings stands in the text.
    pub fn is_in(&self, text: &str) -> bool {
        self.0.automaton.is_match(text)
    }

    /// Puts a backslash behind the first character of each occurrence. No string holds a backslash, so
    /// each occurrence is broken, none can arise, and a second pass finds nothing to do.
    pub(super) fn break_in<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.is_in(text) {
            return Cow::Borrowed(text);
        }
        let first = |at: usize| at + text[at..].chars().next().map_or(1, char::len_utf8);
        let mut breaks: Vec<usize> =
            self.0.automaton.find_overlapping_iter(text).map(|found| first(found.start())).collect();
        breaks.sort_unstable();
        breaks.dedup();
        let mut broken = String::with_capacity(text.len() + breaks.len());
        let mut copied = 0;
        for at in breaks {
            broken.push_str(&text[copied..at]);
            broken.push('\\');
            copied = at;
        }
        broken.push_str(&text[copied..]);
        Cow::Owned(broken)
    }
}
