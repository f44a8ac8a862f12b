//! What can be wrong with a ledger, and what to do about it.

use super::manifest::Difference;
use std::path::PathBuf;

/// What can be wrong with a ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The folder or file cannot be used.
    #[error("cannot {doing} {}: {source}; check that the folder exists, is writable and has room", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// SQLite refused.
    #[error("cannot {doing} in {}: {source}", path.display())]
    Sqlite {
        /// What was tried.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },
    /// There is no room for another record. What was acknowledged before is kept.
    #[error("the disk that holds {} is full; make room and continue with --resume, nothing acknowledged is lost", path.display())]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
    /// There is no run in this folder.
    #[error("{} holds no run: there is no run.db in it; name a folder that `legwork eval` made", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// There is a run in this folder already.
    #[error("{} holds a run already; continue it with --resume or choose another folder with --run", path.display())]
    RunExists {
        /// The folder.
        path: PathBuf,
    },
    /// Another process writes to this run.
    #[error("another process is writing to the run in {}; wait for it to end or stop it", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The run was written by another version of legwork.
    #[error("{} has ledger schema {found}, this legwork reads {expected}; use the legwork that wrote it", path.display())]
    OtherSchema {
        /// The database.
        path: PathBuf,
        /// The schema in the file.
        found: i64,
        /// The schema of this program.
        expected: i64,
    },
    /// A resumed run differs from its manifest.
    #[error("the run in {} was begun with other inputs: {}; restore them, or accept a difference by --accept NAME", path.display(), list(differences))]
    ManifestDiffers {
        /// The folder.
        path: PathBuf,
        /// What differs.
        differences: Vec<Difference>,
    },
    /// A record cannot be read.
    #[error("{}: event {id} ({episode}, {scope}, {seq}) cannot be read: {detail}; the file is damaged, restore it from a copy", path.display())]
    Unreadable {
        /// The database.
        path: PathBuf,
        /// The record's number.
        id: i64,
        /// Its episode.
        episode: String,
        /// Its scope.
        scope: String,
        /// Its place.
        seq: u32,
        /// What was wrong.
        detail: String,
    },
    /// The chain over the records does not hold.
    #[error("{}: the chain breaks at event {id}: expected {expected}, found {found}; a record was changed, removed or added after it was written", path.display())]
    ChainBroken {
        /// The database.
        path: PathBuf,
        /// The first record that does not fit.
        id: i64,
        /// The digest that the records before it give.
        expected: String,
        /// The digest that stands there.
        found: String,
    },
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl LedgerError {
    /// Names a SQLite error; a full disk gets its own name.
    pub(super) fn sqlite(doing: &'static str, path: &std::path::Path, source: rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => LedgerError::DiskFull { path },
            _ => LedgerError::Sqlite { doing, path, source },
        }
    }
}
