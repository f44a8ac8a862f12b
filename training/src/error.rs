//! What can be wrong with a file of rows: each with file and line, what was expected, what came and the cure.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A line of a file, from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, as it was named to the reader or writer.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrajectoryError {
    /// A file cannot be opened or read.
    #[error("cannot read {}: {source}; check that it exists and may be read", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be made, written or put in its place.
    #[error("cannot write {}: {source}; check that its folder exists, may be written and has room", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is longer than its limit.
    #[error("{place}: the line is longer than {max_bytes} bytes; check that it is a file of rows, or split the row")]
    TooLong {
        /// Where.
        place: Place,
        /// The limit.
        max_bytes: u64,
    },
    /// A line is not UTF-8.
    #[error("{place}: expected UTF-8, got another encoding at byte {at_byte} of the line; convert the file to UTF-8")]
    NotUtf8 {
        /// Where.
        place: Place,
        /// The first bad byte of the line, from 0.
        at_byte: usize,
    },
    /// The last line ends in the middle of a row.
    #[error("{place}: the last line is torn ({message}); make the file again, it was cut short")]
    TornLine {
        /// Where.
        place: Place,
        /// What was missing.
        message: String,
    },
    /// A blank line with rows after it.
    #[error("{place}: expected a row, got a blank line; remove it, a blank line is often a row that was lost")]
    BlankLine {
        /// Where.
        place: Place,
    },
    /// Half of a surrogate pair.
    #[error(
        "{place}: `{escape}` is half of a surrogate pair and no character; write the row again from its source text"
    )]
    LoneSurrogate {
        /// Where.
        place: Place,
        /// The escape as it stands.
        escape: String,
    },
    /// A number that JSON does not have.
    #[error("{place}: `{token}` is not a number of json; leave the field out, or write the row with finite numbers")]
    NotFinite {
        /// Where.
        place: Place,
        /// What stands there: `NaN`, `Infinity` or `-Infinity`.
        token: &'static str,
    },
    /// A line is not the row that was expected.
    #[error("{place}: expected {expected}, got something else: {message}")]
    BadRow {
        /// Where.
        place: Place,
        /// What a row is.
        expected: &'static str,
        /// What is wrong.
        message: String,
    },
    /// A row can be read and says what cannot be.
    #[error("{place}: {field} {problem}")]
    Contradiction {
        /// Where.
        place: Place,
        /// The field, such as `messages[3].step_loss_mask`.
        field: String,
        /// What is wrong and the cure.
        problem: String,
    },
    /// A table that is damaged, or has other columns.
    #[error("{file}: expected {expected}, got {got}; write the table again, or give the file that was meant")]
    BadTable {
        /// The file.
        file: String,
        /// What a table is.
        expected: &'static str,
        /// What came.
        got: String,
    },
}

impl TrajectoryError {
    /// Where it is wrong, if a row is.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::TooLong { place, .. }
            | Self::NotUtf8 { place, .. }
            | Self::TornLine { place, .. }
            | Self::BlankLine { place }
            | Self::LoneSurrogate { place, .. }
            | Self::NotFinite { place, .. }
            | Self::BadRow { place, .. }
            | Self::Contradiction { place, .. } => Some(place),
            Self::Unreadable { .. } | Self::Unwritable { .. } | Self::BadTable { .. } => None,
        }
    }
}

/// What can go wrong with training itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// Rows to train on.
    #[error(transparent)]
    Trajectory(#[from] TrajectoryError),
    /// The backend.
    #[error(transparent)]
    Ops(#[from] legwork_kernels::OpsError),
    /// The model's files.
    #[error(transparent)]
    Model(#[from] legwork_model::ModelError),
    /// A setting that cannot be.
    #[error("{setting}: expected {expected}, got {got}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// What would do.
        expected: String,
        /// What came.
        got: String,
    },
    /// A file or folder that cannot be read or written.
    #[error("cannot {what} {}: {source}; check that its folder exists, may be used and has room", path.display())]
    Io {
        /// What was tried, such as `write`.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A checkpoint that is not whole, or of something else.
    #[error("{}: {problem}", path.display())]
    Checkpoint {
        /// Where.
        path: PathBuf,
        /// What is wrong and the cure.
        problem: String,
    },
    /// Another process of the run, or the way to it.
    #[error("{who}: {problem}")]
    Process {
        /// Its rank and address, or where the processes meet.
        who: String,
        /// What is wrong and the cure.
        problem: String,
    },
}
