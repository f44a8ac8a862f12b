//! What can be wrong with a training run's folder, and what to do about it.

use crate::ledger::Difference;
use crate::local::{Device, LocalError};
use std::path::{Path, PathBuf};

/// What can be wrong with a training run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainerError {
    /// The folder or a file cannot be used.
    #[error("cannot {doing} {}: {source}; check that its folder exists, is writable and has room", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// There is a run in this folder already.
    #[error("{} holds a training run already; go on with it by --resume, or choose another folder with --out", path.display())]
    RunExists {
        /// The folder.
        path: PathBuf,
    },
    /// There is something else in this folder.
    #[error("{} is not empty and holds no training run; choose another folder with --out", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// There is no run in this folder.
    #[error("{} holds no training run: there is no manifest.json in it; begin one without --resume", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// Another process has it.
    #[error("{} is being trained by another process; wait for it, or end it first", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The manifest cannot be read.
    #[error("{}: expected a manifest of a training run, got something else: {problem}; take the folder from a copy", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The run was begun with other inputs.
    #[error("{} was begun with other inputs: {}; give the same, or begin a new run with --out", path.display(), listed(differences))]
    Differs {
        /// The folder.
        path: PathBuf,
        /// Each of them.
        differences: Vec<Difference>,
    },
    /// A record is not what was written.
    #[error("{}:{line}: {problem}; records after the last checkpoint may be cut off, those before it must be taken from a copy", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// Records and checkpoint are not of one run.
    #[error("{}: {problem}", path.display())]
    Torn {
        /// The folder.
        path: PathBuf,
        /// What does not fit, and the cure.
        problem: String,
    },
    /// A device that is not there.
    #[error(transparent)]
    Device(Box<LocalError>),
    /// More or fewer cards than ranks.
    #[error(
        "device is {device}, {cards} cards, and tp {tp} times dp {dp} are {} ranks, which need a card each; name {} card{}, \
         or other numbers of ranks", tp * dp, tp * dp, if tp * dp == 1 { "" } else { "s" }
    )]
    Cards {
        /// As configured.
        device: Device,
        /// How many cards that is.
        cards: usize,
        /// Ranks among which the model is cut.
        tp: usize,
        /// Replicas of the model.
        dp: usize,
    },
    /// Training itself.
    #[error(transparent)]
    Training(#[from] legwork_training::TrainingError),
}

impl From<LocalError> for TrainerError {
    fn from(error: LocalError) -> Self {
        Self::Device(Box::new(error))
    }
}

impl TrainerError {
    pub(super) fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { doing, path: path.to_path_buf(), source }
    }
}

fn listed(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
