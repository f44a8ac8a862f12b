//! What bounds an engine. It refuses to know what runs within the bounds.

use crate::error::EngineError;
use legwork_model::ModelLimits;

/// Columns of logits at most: the sampler adds whole numbers of up to 2^44 for each column in 64 bits.
pub const VOCABULARY_MAX: usize = 1 << 19;

/// What bounds an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// Requests that run at once, at most. Below `step_rows`, so that each step has rows left for a prompt.
    pub running_max: usize,
    /// Requests that wait, at most; those that were set back come on top, no more than have run.
    pub waiting_max: usize,
    /// Rows of one step at most; never more than the model takes. It bounds how long a step keeps those that generate
    /// waiting for their next token.
    pub step_rows: usize,
    /// Tokens to come for which whoever begins has pages reserved, at most. `usize::MAX` reserves all of `max_new`: then
    /// nothing that runs is ever set back.
    pub reserve_tokens: usize,
    /// Whether full pages are shared between requests and kept after them.
    pub prefix_cache: bool,
    /// Pages that paused sessions keep, at most. They are given up before a request has to wait.
    pub pinned_pages_max: usize,
    /// Paused sessions that keep pages, at most.
    pub sessions_max: usize,
    /// Bytes of host memory for pages of paused sessions, at most; 0 for none.
    pub host_bytes_max: usize,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            running_max: 64,
            waiting_max: 1_024,
            step_rows: 2_048,
            reserve_tokens: usize::MAX,
            prefix_cache: true,
            pinned_pages_max: usize::MAX,
            sessions_max: 4_096,
            host_bytes_max: 0,
        }
    }
}

impl EngineLimits {
    /// Rows of a step, once these limits are found to go with a model.
    pub(crate) fn rows_with(&self, model: &ModelLimits) -> Result<usize, EngineError> {
        if model.pages == 0 || model.context == 0 || model.vocabulary == 0 {
            return Err(EngineError::NoRoom {
                pages: model.pages,
                context: model.context,
                vocabulary: model.vocabulary,
            });
        }
        if model.vocabulary > VOCABULARY_MAX {
            return Err(EngineError::Vocabulary { vocabulary: model.vocabulary, vocabulary_max: VOCABULARY_MAX });
        }
        let rows = self.step_rows.min(model.rows_max);
        if self.running_max == 0 || self.waiting_max == 0 || self.running_max >= rows {
            return Err(EngineError::Rows { running_max: self.running_max, waiting_max: self.waiting_max, rows });
        }
        Ok(rows)
    }
}
