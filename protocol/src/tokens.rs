//! Counting tokens. A budget is as exact as its counter: with the worker's own tokenizer it is exact, with
//! the stand-in here it is a stated rule. Which one was used is part of a run's manifest.

/// Counts the tokens of a text.
pub trait TokenCounter: Send + Sync {
    /// What it is, for the manifest.
    fn name(&self) -> &str;
    /// Tokens of `text` as it would stand in a conversation, without any markers around it.
    fn count(&self, text: &str) -> u64;
}

/// The rule for models that bring no tokenizer (mocks): a token for every four bytes begun.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuarterBytes;

impl TokenCounter for QuarterBytes {
    fn name(&self) -> &str {
        "a token for every 4 bytes begun"
    }

    fn count(&self, text: &str) -> u64 {
        (text.len() as u64).div_ceil(4)
    }
}
