//! A training run's folder: its manifest, written before anything else, and `metrics.jsonl`, a line a record, each chained to
//! the one before and the first to the manifest. Going back to a checkpoint cuts off what came after it.
//! It refuses to know what trains, and when a record is due.

use super::error::TrainerError;
use super::manifest::TrainingManifest;
use super::record::Record;
use crate::ledger::Link;
use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The manifest's name in a run's folder.
pub const MANIFEST: &str = "manifest.json";
/// The records' name in a run's folder.
pub const METRICS: &str = "metrics.jsonl";
/// Held locked by the process that trains.
const LOCK: &str = "run.lock";
/// A line of records is never longer.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Nor is a manifest.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// A run's folder, open for writing by this process alone.
#[derive(Debug)]
pub struct TrainingFolder {
    folder: PathBuf,
    metrics: File,
    beginning: Link,
    marks: Vec<Mark>,
    _lock: File,
}

/// Where a record ends, and what is needed to go back there.
#[derive(Clone, Copy, Debug)]
struct Mark {
    step: u64,
    is_evaluation: bool,
    end: u64,
    link: Link,
}

impl TrainingFolder {
    /// Makes a run. The folder may be there if it is empty.
    ///
    /// # Errors
    /// A folder that holds something, or cannot be written.
    pub fn create(folder: &Path, manifest: &TrainingManifest) -> Result<Self, TrainerError> {
        if folder.join(MANIFEST).exists() {
            return Err(TrainerError::RunExists { path: folder.to_path_buf() });
        }
        let is_taken = std::fs::read_dir(folder).is_ok_and(|mut entries| {
            entries
                .any(|entry| entry.is_ok_and(|entry| ![LOCK, MAKING].contains(&&*entry.file_name().to_string_lossy())))
        });
        if is_taken {
            return Err(TrainerError::NotEmpty { path: folder.to_path_buf() });
        }
        std::fs::create_dir_all(folder).map_err(|source| TrainerError::io("make the folder", folder, source))?;
        let lock = lock(folder)?;
        let (making, path) = (folder.join(MAKING), folder.join(MANIFEST));
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&making)?;
            file.write_all(manifest.to_json().as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&making, &path)?;
            sync_folder(folder)
        };
        write().map_err(|source| TrainerError::io("write", &path, source))?;
        Self::open_locked(folder, lock)
    }

    /// Opens a run to go on with it. `now` is what it would be begun with today.
    ///
    /// # Errors
    /// No run, another process, other inputs than it was begun with, or damaged records.
    pub fn resume(folder: &Path, now: &TrainingManifest) -> Result<Self, TrainerError> {
        let was = TrainingManifest::parse(&folder.join(MANIFEST), &manifest_text(folder)?)?;
        let differences = was.differences(now);
        if !differences.is_empty() {
            return Err(TrainerError::Differs { path: folder.to_path_buf(), differences });
        }
        Self::open_locked(folder, lock(folder)?)
    }

    fn open_locked(folder: &Path, lock: File) -> Result<Self, TrainerError> {
        let manifest = manifest_text(folder)?;
        let beginning = *blake3::hash(manifest.as_bytes()).as_bytes();
        let path = folder.join(METRICS);
        let io = |source| TrainerError::io("open", &path, source);
        let mut metrics =
            File::options().create(true).truncate(false).read(true).write(true).open(&path).map_err(io)?;
        let mut marks = Vec::new();
        let whole = read_all(&path, &mut metrics, beginning, |record, mark| {
            marks.push(Mark {
                step: record.step(),
                is_evaluation: matches!(record, Record::Evaluation { .. }),
                ..mark
            });
        })?;
        // What a kill or a power cut left of a line is no record.
        metrics.set_len(whole).and_then(|()| metrics.seek(SeekFrom::End(0))).map_err(io)?;
        Ok(Self { folder: folder.to_path_buf(), metrics, beginning, marks, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The chain's last link.
    pub fn last(&self) -> Link {
        self.marks.last().map_or(self.beginning, |mark| mark.link)
    }

    /// Writes a record. It outlives the process on return, and a loss of power after [`TrainingFolder::sync`].
    ///
    /// # Errors
    /// A disk that is full or cannot be written; then nothing is kept of the record.
    pub fn append(&mut self, record: &Record) -> Result<(), TrainerError> {
        let body = serde_json::to_string(record).expect("records hold only what JSON can write");
        let link = next_link(&self.last(), body.as_bytes());
        let line = format!("{{\"link\":\"{}\",\"record\":{body}}}\n", blake3::Hash::from_bytes(link).to_hex());
        let start = self.end();
        if let Err(source) = self.metrics.write_all(line.as_bytes()) {
            let _half_a_line = self.metrics.set_len(start).and_then(|()| self.metrics.seek(SeekFrom::End(0)));
            return Err(TrainerError::io("append to", &self.folder.join(METRICS), source));
        }
        let is_evaluation = matches!(record, Record::Evaluation { .. });
        self.marks.push(Mark { step: record.step(), is_evaluation, end: start + line.len() as u64, link });
        Ok(())
    }

    /// Makes all records outlive a loss of power.
    ///
    /// # Errors
    /// A disk that fails.
    pub fn sync(&self) -> Result<(), TrainerError> {
        self.metrics.sync_all().map_err(|source| TrainerError::io("synchronise", &self.folder.join(METRICS), source))
    }

    /// Cuts off all records of steps after `step`. `link` is what the checkpoint says was the last link when it was written;
    /// it must be there. Returns whether the step was evaluated already.
    ///
    /// # Errors
    /// Records of another run than the checkpoint's, or a file that cannot be cut.
    pub fn rewind(&mut self, step: u64, link: Option<Link>) -> Result<bool, TrainerError> {
        let kept = self.marks.partition_point(|mark| mark.step <= step);
        if let Some(link) = link
            && link != self.beginning
            && !self.marks[..kept].iter().any(|mark| mark.link == link)
        {
            return Err(TrainerError::Torn {
                path: self.folder.clone(),
                problem: format!(
                    "{METRICS} lacks the record that the checkpoint of step {step} was written after; take both from one copy"
                ),
            });
        }
        let end = kept.checked_sub(1).map_or(0, |last| self.marks[last].end);
        let cut = |file: &mut File| file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0)));
        cut(&mut self.metrics)
            .map_err(|source| TrainerError::io("cut off records of", &self.folder.join(METRICS), source))?;
        self.marks.truncate(kept);
        Ok(self.marks.iter().rev().take_while(|mark| mark.step == step).any(|mark| mark.is_evaluation))
    }

    fn end(&self) -> u64 {
        self.marks.last().map_or(0, |mark| mark.end)
    }
}

/// The manifest's name while it is made.
const MAKING: &str = "manifest.json.making";

/// A training run's records, read and checked, by whoever looks at it.
#[derive(Debug)]
pub struct TrainingRecords {
    /// What it was begun with.
    pub manifest: TrainingManifest,
    /// What happened, in order.
    pub records: Vec<Record>,
    /// The chain's last link, in hex.
    pub last_link: String,
}

/// Reads a run's records and checks their chain. A line that is being written just now is left out.
///
/// # Errors
/// No run, or records that are not what was written.
pub fn read_records(folder: &Path) -> Result<TrainingRecords, TrainerError> {
    let text = manifest_text(folder)?;
    let manifest = TrainingManifest::parse(&folder.join(MANIFEST), &text)?;
    let mut last = *blake3::hash(text.as_bytes()).as_bytes();
    let path = folder.join(METRICS);
    let mut records = Vec::new();
    match File::open(&path) {
        Ok(mut file) => {
            let _whole = read_all(&path, &mut file, last, |record, mark| {
                last = mark.link;
                records.push(record);
            })?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => return Err(TrainerError::io("read", &path, source)),
    }
    Ok(TrainingRecords { manifest, records, last_link: blake3::Hash::from_bytes(last).to_hex().to_string() })
}

/// Hands each whole record over; returns where the last of them ends.
fn read_all(
    path: &Path,
    file: &mut File,
    beginning: Link,
    mut take: impl FnMut(Record, Mark),
) -> Result<u64, TrainerError> {
    let mut reader = BufReader::new(file);
    let (mut link, mut end, mut step) = (beginning, 0, 0);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let bytes = read.map_err(|source| TrainerError::io("read", path, source))? as u64;
        let broken = |problem: &str| TrainerError::Broken {
            path: path.to_path_buf(),
            line: number,
            problem: problem.to_owned(),
        };
        let Some(text) = line.strip_suffix(b"\n") else {
            if bytes == LINE_BYTES_MAX {
                return Err(broken("expected a record, got a longer line than any record is"));
            }
            break;
        };
        let (told, body) = split(text).ok_or_else(|| broken("expected a record with its link, got something else"))?;
        link = next_link(&link, body.as_bytes());
        if told != blake3::Hash::from_bytes(link).to_hex().as_str() {
            return Err(broken("the chain breaks here: a record was changed, dropped or added"));
        }
        let record: Record = serde_json::from_str(body).map_err(|error| broken(&format!("not a record: {error}")))?;
        if record.step() < step {
            return Err(broken("expected a record of a later step, got one of an earlier step"));
        }
        step = record.step();
        end += bytes;
        take(record, Mark { step, is_evaluation: false, end, link });
    }
    Ok(end)
}

fn split(line: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix("{\"link\":\"")?;
    let (link, rest) = line.split_once("\",\"record\":")?;
    Some((link, rest.strip_suffix('}')?))
}

fn next_link(last: &Link, body: &[u8]) -> Link {
    let mut hasher = blake3::Hasher::new();
    hasher.update(last);
    hasher.update(body);
    *hasher.finalize().as_bytes()
}

fn manifest_text(folder: &Path) -> Result<String, TrainerError> {
    let path = folder.join(MANIFEST);
    let file = match File::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(TrainerError::NoRun { path: folder.to_path_buf() });
        }
        file => file.map_err(|source| TrainerError::io("read", &path, source))?,
    };
    let mut text = String::new();
    file.take(MANIFEST_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|source| TrainerError::io("read", &path, source))?;
    Ok(text)
}

fn lock(folder: &Path) -> Result<File, TrainerError> {
    let path = folder.join(LOCK);
    let file = File::options().create(true).append(true).open(&path);
    let file = file.map_err(|source| TrainerError::io("open the lock", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(TrainerError::Locked { path: folder.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(TrainerError::io("lock", &path, source)),
    }
}

/// A name in a folder outlives a loss of power only when the folder was written too.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    let _ = folder;
    Ok(())
}

#[cfg(test)]
mod tests;
