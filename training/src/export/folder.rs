//! A folder that appears under its name only when all of it is written: made beside its place under another name, every file
//! brought to the disk, then renamed. Dropped before that, it leaves nothing behind.
//! It refuses to know what its files are.

use crate::error::TrainingError;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// A folder in the making.
pub(crate) struct FolderMaking {
    place: PathBuf,
    making: PathBuf,
    is_placed: bool,
}

impl FolderMaking {
    /// Begins one.
    ///
    /// # Errors
    /// Something that has the name already, or a place that cannot be written.
    pub(crate) fn begin(place: &Path) -> Result<Self, TrainingError> {
        let mut name = place.file_name().map(OsString::from).ok_or_else(|| {
            let got = place.display().to_string();
            TrainingError::Setting { setting: "out", expected: "the name of a folder to make".to_owned(), got }
        })?;
        if place.symlink_metadata().is_ok() {
            let source =
                io::Error::new(io::ErrorKind::AlreadyExists, "it is there already; remove it or give another name");
            return Err(TrainingError::Io { what: "make", path: place.to_path_buf(), source });
        }
        name.push(format!(".{}.partial", std::process::id()));
        let making = place.with_file_name(name);
        let parent = parent(place);
        std::fs::create_dir_all(parent).map_err(failed("make", parent))?;
        if making.exists() {
            // Left by a process that had this one's number and was killed.
            std::fs::remove_dir_all(&making).map_err(failed("remove", &making))?;
        }
        std::fs::create_dir(&making).map_err(failed("make", &making))?;
        Ok(Self { place: place.to_path_buf(), making, is_placed: false })
    }

    /// Where it is while it is made.
    pub(crate) fn path(&self) -> &Path {
        &self.making
    }

    /// Writes a whole file; `name` may have one folder before it.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), TrainingError> {
        let path = self.making.join(name);
        let write = || -> io::Result<()> {
            std::fs::create_dir_all(parent(&path))?;
            let mut file = File::create_new(&path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(failed("write", &path))
    }

    /// Makes a file of a size, with its beginning; the rest is put by [`FolderMaking::put`].
    pub(crate) fn begin_file(&self, name: &str, head: &[u8], bytes: u64) -> Result<(), TrainingError> {
        let path = self.making.join(name);
        let write = || -> io::Result<()> {
            let mut file = File::create_new(&path)?;
            file.write_all(head)?;
            file.set_len(bytes)
        };
        write().map_err(failed("write", &path))
    }

    /// Opens a file that was begun, at a byte of it.
    pub(crate) fn at(&self, name: &str, at: u64) -> Result<Placed, TrainingError> {
        let path = self.making.join(name);
        let open = || -> io::Result<File> {
            let mut file = OpenOptions::new().write(true).open(&path)?;
            file.seek(SeekFrom::Start(at))?;
            Ok(file)
        };
        Ok(Placed { file: open().map_err(failed("write", &path))?, path })
    }

    /// Brings a file to the disk.
    pub(crate) fn sync(&self, name: &str) -> Result<(), TrainingError> {
        let path = self.making.join(name);
        let sync = || OpenOptions::new().write(true).open(&path)?.sync_all();
        sync().map_err(failed("write", &path))
    }

    /// Puts the folder in its place.
    pub(crate) fn finish(mut self) -> Result<PathBuf, TrainingError> {
        let place = self.place.clone();
        let placing = || -> io::Result<()> {
            for folder in folders(&self.making)? {
                File::open(folder)?.sync_all()?;
            }
            std::fs::rename(&self.making, &place)?;
            File::open(parent(&place))?.sync_all()
        };
        placing().map_err(failed("make", &place))?;
        self.is_placed = true;
        Ok(place)
    }
}

impl Drop for FolderMaking {
    fn drop(&mut self) {
        if !self.is_placed {
            let _nothing_to_keep = std::fs::remove_dir_all(&self.making);
        }
    }
}

/// A file that was opened at one of its bytes.
pub(crate) struct Placed {
    file: File,
    path: PathBuf,
}

impl Placed {
    /// Writes on.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), TrainingError> {
        self.file.write_all(bytes).map_err(failed("write", &self.path))
    }
}

/// Every file of a folder and its folders of one level, by name with `/`.
pub(crate) fn files(folder: &Path) -> Result<Vec<String>, TrainingError> {
    let mut found = Vec::new();
    let list = |found: &mut Vec<String>| -> io::Result<()> {
        for inside in folders(folder)? {
            let before = if inside == folder { String::new() } else { format!("{}/", name(&inside)) };
            for entry in std::fs::read_dir(&inside)? {
                let path = entry?.path();
                if inside != folder || !path.is_dir() {
                    found.push(format!("{before}{}", name(&path)));
                }
            }
        }
        Ok(())
    };
    list(&mut found).map_err(failed("read", folder))?;
    found.sort();
    Ok(found)
}

/// The SHA-256 of a file in hex, and its length.
pub(crate) fn sha256_of(path: &Path) -> Result<(String, u64), TrainingError> {
    let read = || -> io::Result<(String, u64)> {
        let mut file = File::open(path)?;
        let (mut hasher, mut piece, mut bytes) = (Sha256::new(), vec![0; PIECE_BYTES], 0);
        loop {
            match file.read(&mut piece)? {
                0 => return Ok((hex(hasher), bytes)),
                read => {
                    hasher.update(&piece[..read]);
                    bytes += read as u64;
                }
            }
        }
    };
    read().map_err(failed("read", path))
}

/// A digest in hex.
pub(crate) fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of bytes in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::new().chain_update(bytes))
}

/// The text of `SHA256SUMS`, as `sha256sum -c` reads it.
pub(crate) fn sums_text(sums: &BTreeMap<String, String>) -> String {
    sums.iter().map(|(file, digest)| format!("{digest}  {file}\n")).collect()
}

pub(crate) fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> TrainingError + 'a {
    move |source| TrainingError::Io { what, path: path.to_path_buf(), source }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A folder and those directly in it.
fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![folder.to_path_buf()];
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}
