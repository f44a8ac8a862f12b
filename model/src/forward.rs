//! What an engine needs of a model: a step over a batch. It refuses to know how the step is computed, and which request a
//! sequence belongs to.

use crate::error::ModelError;
use legwork_kernels::Batch;

/// What bounds a model's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// Ids are below it; logits have so many columns.
    pub vocabulary: usize,
    /// Tokens of a sequence at most.
    pub context: usize,
    /// Pages of the key-value cache, of [`legwork_kernels::PAGE_TOKENS`] tokens each.
    pub pages: usize,
    /// Rows of one batch at most.
    pub rows_max: usize,
}

/// A model with its key-value cache.
pub trait Forward {
    /// What bounds it.
    fn limits(&self) -> ModelLimits;

    /// Computes one step: the keys and values of all rows go to their pages, and the logits of the wanted rows to `logits`,
    /// `[wanted, vocabulary]` in the order of [`Batch::wanted`].
    ///
    /// # Errors
    /// A batch that breaks a limit, or a device that failed. After a failure the cache's pages of this batch hold nothing
    /// that may be used.
    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError>;

    /// Copies pages of the cache to host bytes, in the order given.
    ///
    /// # Errors
    /// As [`Forward::forward`].
    fn save_pages(&mut self, pages: &[u32]) -> Result<Vec<u8>, ModelError>;

    /// Writes what [`Forward::save_pages`] gave into pages, which may be others than before.
    ///
    /// # Errors
    /// As [`Forward::forward`]; bytes of another length.
    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError>;
}
