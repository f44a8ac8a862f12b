//! What is refused, and why: engines that cannot be, and requests that are not taken in.

use crate::request::RequestId;
use crate::sampling::SamplingError;

/// Why there can be no such engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The model has no room.
    #[error(
        "the model offers {pages} pages, a context of {context} and a vocabulary of {vocabulary}; all must be at least 1"
    )]
    NoRoom {
        /// Pages of its cache.
        pages: usize,
        /// Tokens of a sequence.
        context: usize,
        /// Columns of its logits.
        vocabulary: usize,
    },
    /// More columns than the sampler can add up.
    #[error("a vocabulary of {vocabulary} is beyond the sampler's {vocabulary_max}")]
    Vocabulary {
        /// The model's.
        vocabulary: usize,
        /// The most.
        vocabulary_max: usize,
    },
    /// Steps with no row for a prompt.
    #[error(
        "running_max {running_max} and waiting_max {waiting_max} with steps of {rows} rows: both must be at least 1, and running_max below the rows; \
         lower it or raise step_rows and the model's rows_max"
    )]
    Rows {
        /// What was asked for.
        running_max: usize,
        /// What was asked for.
        waiting_max: usize,
        /// Rows of a step, by the engine's limits and the model's.
        rows: usize,
    },
}

/// Why a request was not taken in.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Its id is that of a request which has not ended.
    #[error("request {0:?} is not done yet; give each its own id")]
    Duplicate(RequestId),
    /// There is nothing to go on from.
    #[error("the prompt is empty; give it at least one token")]
    EmptyPrompt,
    /// A token that the model does not have.
    #[error("token {id} at {position} of the prompt is not of a vocabulary of {vocabulary}; use the model's tokenizer")]
    UnknownToken {
        /// The token.
        id: u32,
        /// Where it stands.
        position: usize,
        /// Ids are below it.
        vocabulary: usize,
    },
    /// Prompt and answer are longer than the model's context. The last token drawn is never read, so it needs no place.
    #[error(
        "a prompt of {prompt} tokens and {max_new} to come are beyond a context of {context} (and one more, which is never read); shorten one"
    )]
    TooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens to come at most.
        max_new: usize,
        /// The model's.
        context: usize,
    },
    /// It would not fit if it were alone.
    #[error(
        "this needs {needed} pages and there are {pages}; shorten the prompt or max_new, or give the cache more pages"
    )]
    NeverFits {
        /// Pages for the prompt and all that may come.
        needed: usize,
        /// Pages in all.
        pages: usize,
    },
    /// Too many wait already.
    #[error("{waiting} requests wait, at most {waiting_max}; try again later")]
    QueueFull {
        /// How many wait.
        waiting: usize,
        /// The most.
        waiting_max: usize,
    },
    /// It came too late.
    #[error("the deadline {deadline_ms} ms has passed at {now_ms} ms; give more time")]
    DeadlinePassed {
        /// When it should have ended.
        deadline_ms: u64,
        /// When it came.
        now_ms: u64,
    },
    /// Stop strings, and nobody who turns tokens into text.
    #[error("stop strings were given to an engine without a decoder of text; give stop_ids")]
    NoSpeech,
    /// How to draw is not well said.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
}

impl Refusal {
    /// Whether the same request may be taken in later (HTTP 429), rather than never (HTTP 400).
    pub fn is_busy(&self) -> bool {
        matches!(self, Refusal::QueueFull { .. })
    }
}
