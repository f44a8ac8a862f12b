//! Where a run is kept: whether it can be, which is looked at before a corpus is indexed or a model is asked, and how
//! its ledger is opened there. It refuses to know how a run is carried out.

use super::super::VerbError;
use super::super::fork::Cut;
use crate::assemble::LoadedWorld;
use legwork_actors::ledger::{Append, LedgerError, Manifest, RUN_DB, Store};
use legwork_protocol::question::Question;
use std::path::{Path, PathBuf};

/// The file in a run's folder that its writer holds locked.
const RUN_LOCK: &str = "run.lock";

/// Where a run is kept.
pub(in crate::verbs) enum Place {
    /// In a new folder.
    New(PathBuf),
    /// In one that holds it already.
    Resume(PathBuf),
    /// In a new folder that takes over a part of another run.
    Fork(PathBuf, Cut),
}

impl Place {
    /// The run's folder.
    pub(in crate::verbs) fn folder(&self) -> &Path {
        match self {
            Place::New(folder) | Place::Resume(folder) | Place::Fork(folder, _) => folder,
        }
    }

    /// Whether the run can be kept here, as far as can be seen without writing. What changes afterwards is found by
    /// the ledger itself, only later.
    pub(super) fn check(&self) -> Result<(), LedgerError> {
        let folder = self.folder();
        let database = folder.join(RUN_DB);
        match self {
            Place::New(_) | Place::Fork(..) => {
                if database.exists() {
                    return Err(LedgerError::RunExists { path: folder.to_path_buf() });
                }
                let here = Path::new(".");
                let nearest = folder.ancestors().find(|path| path.exists()).unwrap_or(here);
                can_be_written(nearest)
            }
            Place::Resume(_) => {
                if !database.exists() {
                    return Err(LedgerError::NoRun { path: folder.to_path_buf() });
                }
                can_be_written(folder)?;
                can_be_written(&database)
            }
        }
    }

    /// Opens the run for writing: makes it, goes on with it, or makes it with what a fork takes over.
    pub(super) fn open(
        &self,
        manifest: &Manifest,
        world: &LoadedWorld,
        accept: &[String],
        at_ms: u64,
    ) -> Result<Store, VerbError> {
        let questions = || -> Vec<Question> { world.questions.iter().map(|question| (**question).clone()).collect() };
        let opened = match self {
            Place::New(folder) => Store::create(folder, manifest, &questions()),
            Place::Resume(folder) => Store::resume(folder, manifest, accept, at_ms),
            Place::Fork(folder, cut) => fork(folder, cut, manifest, &questions(), at_ms),
        };
        opened.map_err(name_holder)
    }
}

/// Makes a run with what it takes over. It is made beside its place and moved there whole: a fork that was killed half
/// way would be resumed as if nothing had been kept of the episodes that are missing.
fn fork(
    folder: &Path,
    cut: &Cut,
    manifest: &Manifest,
    questions: &[Question],
    at_ms: u64,
) -> Result<Store, LedgerError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    // A name with a dot sorts before every run, and two processes never make the same folder.
    let making = folder.with_file_name(format!(".forking-{name}-{}", std::process::id()));
    let made = fill(&making, cut, manifest, questions, at_ms).and_then(|()| {
        std::fs::rename(&making, folder).map_err(|source| LedgerError::Io {
            doing: "move the fork to",
            path: folder.to_path_buf(),
            source,
        })
    });
    if made.is_err() {
        let _is_of_no_use = std::fs::remove_dir_all(&making);
    }
    made.and_then(|()| Store::open(folder))
}

fn fill(folder: &Path, cut: &Cut, manifest: &Manifest, questions: &[Question], at_ms: u64) -> Result<(), LedgerError> {
    let mut store = Store::create(folder, manifest, questions)?;
    for (key, history) in &cut.kept {
        let events = history.iter().flat_map(|(scope, events)| events.iter().map(move |recorded| (*scope, recorded)));
        let batch: Vec<Box<Append>> =
            events.map(|(scope, recorded)| Box::new(Append::new(key.clone(), scope, at_ms, recorded))).collect();
        store.append(&batch)?;
    }
    Ok(())
}

#[cfg(unix)]
fn can_be_written(path: &Path) -> Result<(), LedgerError> {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|error| LedgerError::ReadOnly {
        path: path.to_path_buf(),
        detail: std::io::Error::from(error).to_string(),
    })
}

#[cfg(not(unix))]
fn can_be_written(_path: &Path) -> Result<(), LedgerError> {
    Ok(())
}

/// A ledger's error as a verb fails with it: of a run that another process holds it says which process, where the
/// system tells.
fn name_holder(error: LedgerError) -> VerbError {
    match &error {
        LedgerError::Locked { path } => match holder(path) {
            Some(process) => format!("{error} (process {process})").into(),
            None => error.into(),
        },
        _ => error.into(),
    }
}

/// The process that holds a run's lock. Linux lists locks with their holders.
#[cfg(target_os = "linux")]
fn holder(folder: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(folder.join(RUN_LOCK)).ok()?.ino();
    holder_in(&std::fs::read_to_string("/proc/locks").ok()?, inode)
}

#[cfg(not(target_os = "linux"))]
fn holder(_folder: &Path) -> Option<u32> {
    None
}

/// Finds the only process that holds a whole-file lock on an inode in a text of the form of `/proc/locks`:
/// `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`. The device is not compared, since some file systems list another
/// one than they show; so where two hold locks on this number, neither is named. A process of another namespace
/// has the number 0.
#[cfg(any(target_os = "linux", test))]
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    let mut holders = locks.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", process, file, ..] = fields[..] else { return None };
        let (_, number) = file.rsplit_once(':')?;
        (number.parse() == Ok(inode)).then(|| process.parse::<u32>().ok())?
    });
    let first = holders.next()?;
    (first > 0 && holders.next().is_none()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "1: POSIX  ADVISORY  READ  11 fe:00:100 128 128
2: FLOCK  ADVISORY  WRITE 22 fe:00:100 0 EOF
2: -> FLOCK  ADVISORY  WRITE 33 fe:00:100 0 EOF
3: FLOCK  ADVISORY  WRITE 44 fe:00:200 0 EOF
4: FLOCK  ADVISORY  WRITE 55 00:2d:200 0 EOF
5: FLOCK  ADVISORY  WRITE 0 fe:00:300 0 EOF
6: FLOCK  ADVISORY  READ  66 fe:00:400 0 EOF
half a line";

    #[test]
    fn the_holder_of_a_lock_is_told_only_where_there_is_no_doubt() {
        assert_eq!(holder_in(LOCKS, 100), Some(22), "neither readers nor those who wait");
        assert_eq!(holder_in(LOCKS, 200), None, "two file systems have such a number");
        assert_eq!(holder_in(LOCKS, 300), None, "a process that cannot be seen from here");
        assert_eq!(holder_in(LOCKS, 400), None);
        assert_eq!(holder_in("", 100), None);
    }

    #[test]
    fn a_place_that_cannot_be_is_refused_and_looking_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("deep/er/run");
        Place::New(run.clone()).check().unwrap();
        assert!(!folder.path().join("deep").exists());
        assert!(matches!(Place::Resume(run.clone()).check(), Err(LedgerError::NoRun { .. })));
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join(RUN_DB), "").unwrap();
        assert!(matches!(Place::New(run.clone()).check(), Err(LedgerError::RunExists { .. })));
        Place::Resume(run).check().unwrap();
    }
}
