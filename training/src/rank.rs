//! What one rank of a tensor-parallel group does when it is told: a step, an evaluation, its part of a checkpoint. Ranks of a
//! group, and of all replicas of it, are told the same and meet in the collectives within.
//! It refuses to know who tells it, and the order of steps.

use crate::error::TrainingError;
use crate::pack::Pack;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One update's settings; all ranks get the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// Updates so far, this one included: from 1.
    pub step: u64,
    /// The learning rate.
    pub rate: f64,
    /// The global gradient norm is clipped to this.
    pub clip: f64,
    /// AdamW's decay of the first moment.
    pub beta1: f64,
    /// AdamW's decay of the second moment.
    pub beta2: f64,
    /// AdamW's epsilon.
    pub eps: f64,
    /// Weight decay of tensors of more than one dimension.
    pub decay: f64,
}

/// What came of a step; the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepDone {
    /// The slot's loss before the update, as its weights make it.
    pub loss: f64,
    /// The global norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Whether the update was made: it is left out when the gradient is not finite.
    pub updated: bool,
}

/// A rank.
pub trait Rank: Send {
    /// Gradients of all packs, then one update.
    ///
    /// # Errors
    /// A pack that does not fit, a device that failed, or a peer that left.
    fn step(&mut self, packs: &[Pack], update: &Update) -> Result<StepDone, TrainingError>;

    /// The sum of `weight * nll` over all packs; nothing changes.
    ///
    /// # Errors
    /// As [`Rank::step`].
    fn evaluate(&mut self, packs: &[Pack]) -> Result<f64, TrainingError>;

    /// Writes its part of a checkpoint into a folder that is there.
    ///
    /// # Errors
    /// A file that cannot be written.
    fn save(&mut self, folder: &Path) -> Result<(), TrainingError>;

    /// Takes weights and moments of a checkpoint, of this or another number of ranks.
    ///
    /// # Errors
    /// A checkpoint of another model, or one that is not whole.
    fn restore(&mut self, folder: &Path) -> Result<(), TrainingError>;
}
