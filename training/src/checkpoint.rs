//! Checkpoints on disk: a folder `step-00000123` holds a file of every rank and a `state.json` that says what they are. It
//! appears under its name only when it is whole, and whoever opens it compares every file with its digest.
//!
//! It refuses to know how tensors are computed, and what the run's own object in its state means.

mod file;
mod folders;
mod merge;
mod state;
#[cfg(test)]
mod tests;

use crate::error::TrainingError;
pub(crate) use file::{RankFile, RankWriter};
pub use folders::{Latest, begin, commit, keep_last, latest};
use legwork_kernels::Part;
use legwork_model::DecoderConfig;
pub(crate) use merge::tensor_name;
pub use state::{Digest, FORMAT, Facts, State};
use std::path::{Path, PathBuf};

/// The parts of a tensor that a checkpoint holds, and what their names begin with there.
pub(crate) const PARTS: [(Part, &str); 3] =
    [(Part::Value, "value"), (Part::FirstMoment, "first"), (Part::SecondMoment, "second")];

/// A checkpoint whose state was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    folder: PathBuf,
    state: State,
    config: DecoderConfig,
}

/// Opens a checkpoint and compares all of its files with their digests.
///
/// # Errors
/// A file that is missing, torn or changed, or a state that is none.
pub fn open(folder: &Path) -> Result<Checkpoint, TrainingError> {
    let checkpoint = Checkpoint::read(folder)?;
    for name in checkpoint.state.files.keys() {
        checkpoint.verify(name)?;
    }
    Ok(checkpoint)
}

impl Checkpoint {
    /// Reads the state and looks whether its files are there and as long as it says, without reading these.
    pub(crate) fn read(folder: &Path) -> Result<Self, TrainingError> {
        let (state, config) = State::read(folder)?;
        for (name, digest) in &state.files {
            digest.expect_length(&folder.join(name))?;
        }
        Ok(Self { folder: folder.to_path_buf(), state, config })
    }

    /// Compares a file with its digest.
    pub(crate) fn verify(&self, name: &str) -> Result<(), TrainingError> {
        let path = self.folder.join(name);
        match self.state.files.get(name) {
            Some(digest) => digest.expect(&path),
            None => Err(broken(&path, "is not in the state of its checkpoint; use another checkpoint".to_owned())),
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it says of itself.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The model's shape.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }
}

/// The file of a rank.
pub(crate) fn rank_file(rank: usize, ranks: usize) -> String {
    format!("rank-{rank}-of-{ranks}.safetensors")
}

/// Something is wrong with a checkpoint.
fn broken(path: &Path, problem: String) -> TrainingError {
    TrainingError::Checkpoint { path: path.to_path_buf(), problem }
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> TrainingError {
    move |source| TrainingError::Io { what, path: path.to_path_buf(), source }
}
