//! The cache on disk, in the layout of `huggingface_hub`: `blobs/DIGEST` are the bytes, `snapshots/COMMIT/PATH` link to them,
//! `refs/REVISION` holds the commit. A file is in place whole or not at all.
//!
//! It refuses to know the network.

use crate::error::FetchError;
use crate::hub::is_plain_path;
use crate::reference::Reference;
use crate::verify::{Expected, is_hex};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// Bytes of a ref at most.
const REF_MAX_BYTES: u64 = 256;
/// Bytes of an index of shards at most.
const INDEX_MAX_BYTES: u64 = 64 << 20;
/// Files of a snapshot that are looked at, and folders within one another.
const FILES_MAX: usize = 100_000;
const DEPTH_MAX: usize = 16;

/// The folder of one repository in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
    repository: PathBuf,
    name: String,
}

/// Bytes of a file that are being written, by nobody else.
pub(crate) struct Partial {
    pub(crate) path: PathBuf,
    _lock: File,
}

impl Cache {
    pub(crate) fn new(root: &Path, of: &Reference) -> Self {
        let name = of.folder();
        Self { root: root.to_path_buf(), repository: root.join(&name), name }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn blob(&self, expected: &Expected) -> PathBuf {
        self.repository.join("blobs").join(expected.hex())
    }

    fn partial_path(&self, expected: &Expected) -> PathBuf {
        self.repository.join("blobs").join(format!("{}.incomplete", expected.hex()))
    }

    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.repository.join("snapshots").join(commit)
    }

    /// Bytes of a file that were written already and not put in place.
    pub(crate) fn partial_bytes(&self, expected: &Expected) -> u64 {
        std::fs::metadata(self.partial_path(expected)).map_or(0, |found| found.len())
    }

    /// Whether the bytes of a file are there; they were checked when they were put in place.
    pub(crate) fn has(&self, expected: &Expected, bytes: u64) -> bool {
        std::fs::metadata(self.blob(expected)).is_ok_and(|found| found.is_file() && found.len() == bytes)
    }

    /// Takes the lock of a file, under which its bytes may be written.
    pub(crate) fn lock(&self, expected: &Expected, file: &str) -> Result<Partial, FetchError> {
        let path = self.partial_path(expected);
        make_folder(self.repository.join("blobs").as_path())?;
        let locks = self.root.join(".locks").join(&self.name);
        make_folder(&locks)?;
        let lock_path = locks.join(format!("{}.lock", expected.hex()));
        let mut options = File::options();
        let lock = options.create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(FetchError::io("open the lock", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Partial { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(FetchError::Locked { file: file.to_owned(), lock: lock_path }),
            Err(TryLockError::Error(error)) => Err(FetchError::io("lock", &lock_path)(error)),
        }
    }

    /// Puts checked bytes in place.
    pub(crate) fn keep(&self, partial: &Partial, expected: &Expected) -> Result<(), FetchError> {
        let blob = self.blob(expected);
        let file = File::open(&partial.path).map_err(FetchError::io("open", &partial.path))?;
        file.sync_all().map_err(FetchError::io("write out", &partial.path))?;
        std::fs::rename(&partial.path, &blob).map_err(FetchError::io("put in place", &blob))
    }

    /// Lets a path of a commit lead to its bytes.
    pub(crate) fn link(&self, commit: &str, path: &str, expected: &Expected) -> Result<(), FetchError> {
        let pointer = self.snapshot(commit).join(path);
        let parent = pointer.parent().unwrap_or(&pointer);
        make_folder(parent)?;
        let up = "../".repeat(path.split('/').count() + 1);
        let target = PathBuf::from(format!("{up}blobs/{}", expected.hex()));
        if std::fs::read_link(&pointer).is_ok_and(|found| found == target) {
            return Ok(());
        }
        // Under another name first, so that a reader finds the old file or the new one.
        let fresh = parent.join(format!(".{}.new", expected.hex()));
        let _ = std::fs::remove_file(&fresh);
        place(&target, &self.blob(expected), &fresh).map_err(FetchError::io("link", &pointer))?;
        std::fs::rename(&fresh, &pointer).map_err(FetchError::io("link", &pointer))
    }

    /// Remembers which commit a revision was.
    pub(crate) fn remember(&self, revision: &str, commit: &str) -> Result<(), FetchError> {
        if revision == commit {
            return Ok(());
        }
        let path = self.repository.join("refs").join(revision);
        make_folder(path.parent().unwrap_or(&path))?;
        let fresh = path.with_file_name(format!(".{commit}.new"));
        std::fs::write(&fresh, commit).map_err(FetchError::io("write", &fresh))?;
        std::fs::rename(&fresh, &path).map_err(FetchError::io("put in place", &path))
    }

    /// The commit that a revision was when it was fetched last.
    pub(crate) fn commit(&self, revision: &str) -> Option<String> {
        if is_hex(revision, 40) {
            return self.snapshot(revision).is_dir().then(|| revision.to_owned());
        }
        let path = self.repository.join("refs").join(revision);
        let short = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= REF_MAX_BYTES);
        let commit = short.then(|| std::fs::read_to_string(&path).ok())??;
        let commit = commit.trim();
        is_hex(commit, 40).then(|| commit.to_owned())
    }

    /// The files of a commit that lead to bytes, with their lengths, and those that lead nowhere.
    pub(crate) fn found(&self, commit: &str) -> (Vec<(String, u64)>, Vec<String>) {
        let snapshot = self.snapshot(commit);
        let (mut whole, mut lost) = (Vec::new(), Vec::new());
        let mut folders = vec![(snapshot.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
                let path = entry.path();
                let within = path.strip_prefix(&snapshot).expect("the walk began there");
                let parts: Vec<_> = within.iter().map(|part| part.to_string_lossy()).collect();
                let name = parts.join("/");
                if !is_plain_path(&name) || whole.len() + lost.len() >= FILES_MAX {
                    continue;
                }
                match std::fs::metadata(&path) {
                    Ok(found) if found.is_dir() && depth < DEPTH_MAX => folders.push((path, depth + 1)),
                    Ok(found) if found.is_file() => whole.push((name, found.len())),
                    Ok(_) => {}
                    Err(_) => lost.push(name),
                }
            }
        }
        whole.sort();
        lost.sort();
        (whole, lost)
    }

    /// The shards that an index of a snapshot lists.
    pub(crate) fn shards(&self, commit: &str) -> Vec<String> {
        let path = self.snapshot(commit).join("model.safetensors.index.json");
        if !std::fs::metadata(&path).is_ok_and(|found| found.len() <= INDEX_MAX_BYTES) {
            return Vec::new();
        }
        let index =
            std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
        let map = index.as_ref().and_then(|index| index.get("weight_map")?.as_object());
        let mut shards: Vec<String> = map
            .into_iter()
            .flat_map(|map| map.values().filter_map(|shard| shard.as_str().map(str::to_owned)))
            .collect();
        shards.sort();
        shards.dedup();
        shards
    }
}

/// A link where the system has them, a copy elsewhere, as `huggingface_hub` does.
#[cfg(unix)]
fn place(target: &Path, _blob: &Path, pointer: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, pointer)
}

#[cfg(not(unix))]
fn place(_target: &Path, blob: &Path, pointer: &Path) -> std::io::Result<()> {
    std::fs::copy(blob, pointer).map(|_| ())
}

fn make_folder(path: &Path) -> Result<(), FetchError> {
    std::fs::create_dir_all(path).map_err(FetchError::io("make the folder", path))
}

/// Bytes that may still be written below a folder; of its nearest parent that is there.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.ancestors().find(|folder| folder.exists())?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let room = rustix::fs::statvfs(folder).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}
