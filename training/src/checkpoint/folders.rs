//! Folders of checkpoints: begun beside their place, moved there when whole, the newest found, the oldest removed. At no moment
//! is there less than there was before: a disk that is full, or a process that ends, costs the checkpoint that was being made.
//! It refuses to know what is in a rank's file.

use super::state::STATE;
use super::{Checkpoint, Facts, State, broken, io, open};
use crate::error::TrainingError;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a checkpoint's folder begins with.
const PREFIX: &str = "step-";
/// What follows the name of a folder that is being filled.
const PARTIAL: &str = "partial";
/// What follows the name of a folder that another of its step takes the place of.
const REPLACED: &str = "replaced";
/// What follows the name of a folder that is being removed.
const REMOVED: &str = "removed";

/// What [`latest`] found.
#[derive(Debug, Default)]
pub struct Latest {
    /// The newest that is whole.
    pub checkpoint: Option<Checkpoint>,
    /// Newer ones that are not, and what is wrong with them.
    pub damaged: Vec<(PathBuf, TrainingError)>,
}

/// Makes an empty folder for the ranks to save into; what was left of an earlier beginning is removed.
///
/// # Errors
/// A folder that cannot be made.
pub fn begin(root: &Path, step: u64) -> Result<PathBuf, TrainingError> {
    let partial = with_ending(&folder_of(root, step), PARTIAL);
    remove(&partial)?;
    std::fs::create_dir_all(&partial).map_err(io("make", &partial))?;
    Ok(partial)
}

/// Makes a folder that [`begin`] gave and all ranks saved into a checkpoint: writes its state, has all of it on disk, and moves
/// it to its name. One of the same step that was there before is replaced.
///
/// # Errors
/// A rank's part that is missing, a model that is none, or a disk that is full; what was there before is as it was.
pub fn commit(partial: &Path, facts: Facts) -> Result<PathBuf, TrainingError> {
    let place = partial.with_extension("");
    let begun = partial.extension().is_some_and(|ending| ending == PARTIAL);
    let Some(step) = step_of(&place).filter(|_| begun) else {
        let problem = format!("expected a folder `{PREFIX}<number>.{PARTIAL}`; commit what `begin` gave");
        return Err(broken(partial, problem));
    };
    let state = State::of(partial, step, facts)?;
    let path = partial.join(STATE);
    let text = serde_json::to_vec_pretty(&state).map_err(|error| {
        broken(&path, format!("expected a state that json can say, got {error}; mend the run's object"))
    })?;
    let mut file = File::create(&path).map_err(io("write", &path))?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(io("write", &path))?;
    sync(partial)?;

    let replaced = with_ending(&place, REPLACED);
    if place.exists() {
        remove(&replaced)?;
        std::fs::rename(&place, &replaced).map_err(io("move", &place))?;
    }
    std::fs::rename(partial, &place).map_err(io("move", partial))?;
    sync(place.parent().unwrap_or(Path::new(".")))?;
    remove(&replaced)?;
    Ok(place)
}

/// The newest checkpoint that is whole, every byte compared with its digest; and what newer ones lack. A folder that is being
/// filled is none.
///
/// # Errors
/// A folder that cannot be read. One that is not there holds no checkpoint.
pub fn latest(root: &Path) -> Result<Latest, TrainingError> {
    let mut found = Latest::default();
    for path in steps(root)?.into_values().rev() {
        match open(&path) {
            Ok(checkpoint) => {
                found.checkpoint = Some(checkpoint);
                break;
            }
            Err(why) => found.damaged.push((path, why)),
        }
    }
    Ok(found)
}

/// Removes all but the newest `count` checkpoints, and what was left of beginnings before these. At least one stays. Those
/// whose files are missing or cut do not count, and are removed when they are older than those that stay.
///
/// # Errors
/// A folder that cannot be read or removed.
pub fn keep_last(root: &Path, count: usize) -> Result<(), TrainingError> {
    let steps = steps(root)?;
    let whole: Vec<u64> =
        steps.iter().rev().filter(|(_, path)| Checkpoint::read(path).is_ok()).map(|(step, _)| *step).collect();
    let Some(oldest) = whole.iter().take(count.max(1)).next_back() else { return Ok(()) };
    for (_, path) in steps.range(..oldest) {
        // A folder without its name is no checkpoint, at whatever moment the removal ends.
        let removed = with_ending(path, REMOVED);
        remove(&removed)?;
        std::fs::rename(path, &removed).map_err(io("move", path))?;
    }
    for path in entries(root)? {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let begun_before = || step_of(&path.with_extension("")).is_some_and(|step| step < *oldest);
        match ending {
            Some(REMOVED) if step_of(&path.with_extension("")).is_some() => remove(&path)?,
            Some(PARTIAL) if begun_before() => remove(&path)?,
            _ => {}
        }
    }
    Ok(())
}

/// The folders of checkpoints by their steps. One that was being replaced stands in for its successor that never came.
fn steps(root: &Path) -> Result<BTreeMap<u64, PathBuf>, TrainingError> {
    let mut steps = BTreeMap::new();
    for path in entries(root)? {
        if let Some(step) = step_of(&path) {
            steps.insert(step, path);
        } else if path.extension().is_some_and(|ending| ending == REPLACED)
            && let Some(step) = step_of(&path.with_extension(""))
        {
            steps.entry(step).or_insert(path);
        }
    }
    Ok(steps)
}

/// What is in a folder, in the order of names: `step-00000001` comes before `step-00000001.replaced`.
fn entries(root: &Path) -> Result<Vec<PathBuf>, TrainingError> {
    if !root.exists() {
        return Ok(Vec::new());
    }
    let read = std::fs::read_dir(root).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<PathBuf>, std::io::Error>>()
    });
    let mut paths = read.map_err(io("read", root))?;
    paths.sort();
    Ok(paths)
}

fn folder_of(root: &Path, step: u64) -> PathBuf {
    root.join(format!("{PREFIX}{step:08}"))
}

/// The step of a folder that has exactly the name of one.
fn step_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let step = name.strip_prefix(PREFIX)?.parse().ok()?;
    (format!("{PREFIX}{step:08}") == name).then_some(step)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

fn remove(path: &Path) -> Result<(), TrainingError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Has a folder's names on disk. Systems that cannot open a folder keep them anyway.
fn sync(folder: &Path) -> Result<(), TrainingError> {
    match File::open(folder) {
        Ok(folder_file) => folder_file.sync_all().map_err(io("write", folder)),
        Err(_) => Ok(()),
    }
}
