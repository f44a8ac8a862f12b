//! What keeps a card from being used, each with its cure.
//!
//! It refuses to know which operation was under way.

use crate::ops::OpsError;

/// Why a card cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// A library that is not there.
    #[error("{library} was not found; install {package}, or name its folder in LD_LIBRARY_PATH")]
    Library {
        /// The library.
        library: &'static str,
        /// What brings it.
        package: &'static str,
    },
    /// A card of a generation before the instructions that kernels use.
    #[error("expected a card of compute capability 8.0 (Ampere) or later, got {major}.{minor}; use the processor")]
    TooOld {
        /// Its capability.
        major: i32,
        /// Its capability.
        minor: i32,
    },
    /// A source that the compiler refuses.
    #[error("{file} does not compile for {arch}: {log}; this is a fault of the kernels, or of a compiler before 12.8")]
    Compile {
        /// The source.
        file: &'static str,
        /// For which cards.
        arch: String,
        /// The compiler's words.
        log: String,
    },
    /// Rows that the copy engine cannot take boxes of.
    #[error(
        "expected 1 to {rows_max} rows of at least 64 values for the copy engine, got {rows} of {width}; use a smaller cache"
    )]
    Boxes {
        /// Rows.
        rows: u64,
        /// Rows at most.
        rows_max: u64,
        /// Values of a row.
        width: usize,
    },
    /// A call that failed.
    #[error("{doing} failed: {error}")]
    Call {
        /// What was to be done.
        doing: &'static str,
        /// The driver's words.
        error: String,
    },
}

impl CardError {
    /// For a call that failed.
    pub(super) fn call(doing: &'static str) -> impl Fn(&dyn std::fmt::Debug) -> Self {
        move |error| Self::Call { doing, error: format!("{error:?}") }
    }
}

impl From<CardError> for OpsError {
    fn from(error: CardError) -> Self {
        OpsError::Device(error.to_string())
    }
}
