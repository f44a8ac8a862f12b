//! What a training run keeps of itself: one record a step, and one for everything else that happened. A record is a fact; the
//! terminal and TensorBoard show them and add nothing.
//! It refuses to know files.

use legwork_training::course::Progress;
use serde::{Deserialize, Serialize};

/// One step. Figures that are not finite are absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Slots that were stepped over, this one included.
    pub step: u64,
    /// Updates that were made, this one included.
    pub updates: u64,
    /// The slot's loss before the update.
    pub loss: Option<f64>,
    /// The learning rate.
    pub rate: f64,
    /// The global norm of the gradient before clipping.
    pub grad_norm: Option<f64>,
    /// Whether the update was made: it is left out when the gradient is not finite.
    pub updated: bool,
    /// Tokens of the slot, without padding.
    pub tokens: u64,
    /// Of these, those in the loss.
    pub supervised: u64,
    /// Tokens of padding.
    pub padding: u64,
    /// How long the step took, in milliseconds.
    pub took_ms: u64,
    /// Floating-point operations that the model needs for the step, without what is computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops: Option<f64>,
    /// Their share of what the machine could have done meanwhile, where its peak is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// When it ended, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

impl StepRecord {
    /// Tokens a second, if it took time at all.
    pub fn tokens_per_s(&self) -> Option<f64> {
        (self.took_ms > 0).then(|| self.tokens as f64 * 1_000.0 / self.took_ms as f64)
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A process began or went on with the run.
    Begun {
        /// Where it stood.
        at: Progress,
        /// When.
        at_ms: u64,
    },
    /// A step was made.
    Step(StepRecord),
    /// What is held out was evaluated.
    Evaluation {
        /// Where it stood.
        at: Progress,
        /// The loss, if it is finite.
        loss: Option<f64>,
        /// How long it took.
        took_ms: u64,
        /// When it ended.
        at_ms: u64,
    },
    /// A checkpoint was written, whole.
    Checkpoint {
        /// Where it stood.
        at: Progress,
        /// How long it took.
        took_ms: u64,
        /// When it ended.
        at_ms: u64,
    },
    /// Ranks died and were made anew from the last checkpoint. Records of steps after that are no more: the same steps are
    /// made again.
    Recovered {
        /// Where it stands now.
        at: Progress,
        /// Where it stood.
        lost_at: Progress,
        /// Why.
        why: String,
        /// When.
        at_ms: u64,
    },
}

impl Record {
    /// The step that it belongs to.
    pub fn step(&self) -> u64 {
        match self {
            Record::Step(step) => step.step,
            Record::Begun { at, .. }
            | Record::Evaluation { at, .. }
            | Record::Checkpoint { at, .. }
            | Record::Recovered { at, .. } => at.slots,
        }
    }

    /// When, in milliseconds since the Unix epoch.
    pub fn at_ms(&self) -> u64 {
        match self {
            Record::Step(step) => step.at_ms,
            Record::Begun { at_ms, .. }
            | Record::Evaluation { at_ms, .. }
            | Record::Checkpoint { at_ms, .. }
            | Record::Recovered { at_ms, .. } => *at_ms,
        }
    }
}

/// A figure as it is kept.
pub(super) fn finite(figure: f64) -> Option<f64> {
    figure.is_finite().then_some(figure)
}
