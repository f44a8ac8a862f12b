//! Where checkpoints are kept, as the trainer uses it: begun, filled by the ranks, put in their place whole; and what the
//! trainer writes into each of them about itself.
//! It refuses to know what a checkpoint holds of a model.

use crate::ledger::Link;
use legwork_training::TrainingError;
use legwork_training::course::Progress;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What the trainer keeps in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptState {
    /// How far the run had come.
    pub at: Progress,
    /// The last link of the run's records then, in hex.
    pub link: String,
}

impl KeptState {
    pub(super) fn new(at: Progress, link: Link) -> Self {
        Self { at, link: blake3::Hash::from_bytes(link).to_hex().to_string() }
    }

    /// The link, if it is one.
    pub(super) fn link(&self) -> Option<Link> {
        blake3::Hash::from_hex(&self.link).ok().map(|hash| *hash.as_bytes())
    }
}

/// A checkpoint that is there, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCheckpoint {
    /// Its folder.
    pub folder: PathBuf,
    /// What the trainer wrote into it.
    pub state: KeptState,
}

/// A place for checkpoints.
pub trait Shelf: Send {
    /// Makes the folder that the ranks write a checkpoint into.
    ///
    /// # Errors
    /// A disk that is full or cannot be written.
    fn begin(&mut self, step: u64) -> Result<PathBuf, TrainingError>;

    /// Puts what was written into a folder that was begun into its place, and lets go of old ones. What was there before is whole in any case.
    ///
    /// # Errors
    /// As [`Shelf::begin`], or a part that is missing.
    fn commit(&mut self, begun: &Path, state: &KeptState) -> Result<(), TrainingError>;

    /// The last one that is whole, if there is one.
    ///
    /// # Errors
    /// One that cannot be read.
    fn latest(&mut self) -> Result<Option<KeptCheckpoint>, TrainingError>;
}
