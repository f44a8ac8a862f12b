//! A rank's part of a decoder, after Megatron-LM: heads, and the feed-forward's width, by ranks; what leaves each of both is
//! a sum over all. Embedding, head and norms are on every rank whole, so that each knows all logits.
//!
//! It refuses to know how ranks meet.

use crate::config::DecoderConfig;
use crate::error::ModelError;
use legwork_kernels::{Heads, OpsError, Stored};
use std::ops::Range;

/// Which part of a decoder one of several ranks has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The rank, from 0.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
}

impl Default for Share {
    /// All of it.
    fn default() -> Self {
        Self { rank: 0, ranks: 1 }
    }
}

impl Share {
    /// That a model can be cut so.
    pub(super) fn check(&self, config: &DecoderConfig) -> Result<(), ModelError> {
        let Self { rank, ranks } = *self;
        let cut = [config.heads, config.kv_heads, config.ffn];
        if ranks > 0 && rank < ranks && cut.iter().all(|size| size.is_multiple_of(ranks)) {
            return Ok(());
        }
        let expected = format!(
            "a rank below a number of ranks that divides {} heads, {} key-value heads and the feed-forward width {}",
            config.heads, config.kv_heads, config.ffn
        );
        Err(OpsError::Shape { op: "share", expected, got: format!("rank {rank} of {ranks}") }.into())
    }

    /// The shape of what a rank holds, which is the same for all: fewer heads and a narrower feed-forward part.
    ///
    /// # Errors
    /// A model that cannot be cut so.
    pub fn config(&self, whole: &DecoderConfig) -> Result<DecoderConfig, ModelError> {
        self.check(whole)?;
        let (heads, kv_heads) = (whole.heads / self.ranks, whole.kv_heads / self.ranks);
        Ok(DecoderConfig { heads, kv_heads, ffn: whole.ffn / self.ranks, ..whole.clone() })
    }

    /// Its heads.
    pub(super) fn heads(&self, config: &DecoderConfig) -> Heads {
        Heads { query: config.heads / self.ranks, kv: config.kv_heads / self.ranks, dim: config.head_dim }
    }

    /// Its part of so many.
    pub(super) fn of(&self, all: usize) -> Range<usize> {
        let part = all / self.ranks;
        self.rank * part..(self.rank + 1) * part
    }

    /// Its outputs of a matrix, and its values of what is stored as one row.
    pub(super) fn outputs(&self, whole: &Stored) -> Result<Stored, ModelError> {
        self.cut(whole, whole.rows() == 1 && self.ranks > 1)
    }

    /// Its inputs of a matrix.
    pub(super) fn inputs(&self, whole: &Stored) -> Result<Stored, ModelError> {
        self.cut(whole, true)
    }

    fn cut(&self, whole: &Stored, by_columns: bool) -> Result<Stored, ModelError> {
        if self.ranks == 1 {
            return Ok(whole.clone());
        }
        let part = match by_columns {
            true => whole.col_range(self.of(whole.cols())),
            false => whole.row_range(self.of(whole.rows())),
        };
        part.ok_or_else(|| {
            let expected = format!("whole blocks of {} for each of {} ranks", whole.dtype().name(), self.ranks);
            OpsError::Shape { op: "share", expected, got: format!("[{}, {}]", whole.rows(), whole.cols()) }.into()
        })
    }
}
