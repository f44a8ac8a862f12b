//! What can be wrong with a ledger, and what to do about it.

use super::manifest::Difference;
use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

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
    #[error("cannot {doing} in {}: {source}; {}", path.display(), cure(source))]
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
    /// There is no room for the plan of a new run.
    #[error("the disk that should hold {} is full; make room and begin the run again, nothing was asked yet", path.display())]
    NoRoomToBegin {
        /// The database that could not be made.
        path: PathBuf,
    },
    /// The folder or the database cannot be written.
    #[error("cannot write {}: {detail}; make it writable, or use another folder: for a new run by --run, for one to go on with a copy of it by --resume", path.display())]
    ReadOnly {
        /// The folder or the file.
        path: PathBuf,
        /// What the system says.
        detail: String,
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
    #[error("another process is writing to the run in {} and holds its run.lock; wait for it to end or stop it", path.display())]
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
    /// Names a SQLite error; a full disk and a file that cannot be written get their own names.
    pub(super) fn sqlite(doing: &'static str, path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            _ if is_full(&source) && path.extension().is_some_and(|extension| extension == "making") => {
                LedgerError::NoRoomToBegin { path }
            }
            _ if is_full(&source) => LedgerError::DiskFull { path },
            Some(ErrorCode::ReadOnly) => LedgerError::ReadOnly { path, detail: source.to_string() },
            _ => LedgerError::Sqlite { doing, path, source },
        }
    }
}

/// Whether there is no room: for the file itself, or for the index of the write-ahead log beside it, whose own code
/// SQLite files under failures of the disk.
fn is_full(source: &rusqlite::Error) -> bool {
    source.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || source.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// What to do about an error of SQLite that has no name of its own here.
fn cure(source: &rusqlite::Error) -> &'static str {
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program holds the file; close it there and try again"
        }
        Some(ErrorCode::CannotOpen) => {
            "check that the folder can be read and written; a run that was killed in a folder that cannot be written is \
             read from a copy of the whole folder"
        }
        Some(ErrorCode::SystemIoFailure) => {
            "the disk failed or its quota is used up; see to that and continue with --resume, nothing acknowledged is lost"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "the file is damaged; restore it from a copy",
        _ => "`legwork verify` says whether the run is whole",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(code: i32, file: &str) -> LedgerError {
        let source = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        LedgerError::sqlite("append", Path::new(file), source)
    }

    #[test]
    fn a_full_disk_has_one_name_whatever_sqlite_calls_it_and_another_cure_before_the_run_is_there() {
        for code in [rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_IOERR_SHMSIZE] {
            let full = named(code, "runs/a/run.db");
            assert!(matches!(full, LedgerError::DiskFull { .. }), "{full}");
            assert!(full.to_string().contains("--resume"));
            let early = named(code, "runs/a/run.db.making").to_string();
            assert!(early.contains("is full") && !early.contains("--resume"), "no run is there yet: {early}");
        }
    }

    #[test]
    fn every_error_of_sqlite_says_what_to_do() {
        let cures = [
            (rusqlite::ffi::SQLITE_READONLY, "make it writable"),
            (rusqlite::ffi::SQLITE_BUSY, "close it there"),
            (rusqlite::ffi::SQLITE_CANTOPEN, "can be read and written"),
            (rusqlite::ffi::SQLITE_IOERR, "its quota is used up"),
            (rusqlite::ffi::SQLITE_CORRUPT, "restore it from a copy"),
            (rusqlite::ffi::SQLITE_NOTADB, "restore it from a copy"),
            (rusqlite::ffi::SQLITE_MISUSE, "`legwork verify`"),
        ];
        for (code, cure) in cures {
            let said = named(code, "runs/a/run.db").to_string();
            assert!(said.contains("runs/a/run.db") && said.contains(cure), "{said}");
        }
    }
}
