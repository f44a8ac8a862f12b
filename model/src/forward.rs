//! What an engine needs of a model: a step over a batch. It refuses to know how the step is computed, and which request a
//! sequence belongs to.

use crate::error::ModelError;
use legwork_kernels::{Batch, DrawRules, HostBytes, RowDraw};

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

/// What became of a wanted row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// A token, drawn where the logits are.
    Drawn(RowDraw),
    /// Its logits were brought to the host: the row of this number among those that were.
    Logits(usize),
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

    /// As [`Forward::forward`], and draws the next token of each wanted row that has rules, where the model can do that
    /// without bringing logits to the host; of all others, and of rows that cannot be drawn from, the logits are in `logits`
    /// one behind the other. `next` is one for each wanted row.
    ///
    /// # Errors
    /// As [`Forward::forward`]; rules that are not one for each wanted row.
    fn forward_and_draw(
        &mut self,
        batch: &Batch,
        rules: &[Option<DrawRules>],
        next: &mut Vec<Next>,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        self.forward(batch, logits)?;
        next.clear();
        next.extend((0..rules.len()).map(Next::Logits));
        Ok(())
    }

    /// Copies pages of the cache to host bytes, in the order given.
    ///
    /// # Errors
    /// As [`Forward::forward`].
    fn save_pages(&mut self, pages: &[u32]) -> Result<HostBytes, ModelError>;

    /// Writes what [`Forward::save_pages`] gave into pages, which may be others than before.
    ///
    /// # Errors
    /// As [`Forward::forward`]; bytes of another length.
    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError>;
}

impl<M: Forward + ?Sized> Forward for Box<M> {
    fn limits(&self) -> ModelLimits {
        (**self).limits()
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        (**self).forward(batch, logits)
    }

    fn forward_and_draw(
        &mut self,
        batch: &Batch,
        rules: &[Option<DrawRules>],
        next: &mut Vec<Next>,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        (**self).forward_and_draw(batch, rules, next, logits)
    }

    fn save_pages(&mut self, pages: &[u32]) -> Result<HostBytes, ModelError> {
        (**self).save_pages(pages)
    }

    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError> {
        (**self).load_pages(pages, bytes)
    }
}
