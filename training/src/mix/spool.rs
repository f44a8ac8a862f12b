//! Rows in a file of their own for as long as a mixture is made, so that memory holds their places only; and files that appear
//! under their name when they are whole. It refuses to know what the bytes mean.

use crate::error::TrainingError;
use crate::mask::hex;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes read at a time.
const STEP_BYTES: usize = 1 << 16;

/// Where a row lies in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lying {
    at: u64,
    bytes: u64,
}

/// Rows one behind the other. Dropped, the file is gone.
pub(super) struct Spool {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
}

impl Spool {
    pub(super) fn create(folder: &Path) -> Result<Self, TrainingError> {
        let path = making(&folder.join("rows"));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        Ok(Self { out: BufWriter::new(file.map_err(io("write", &path))?), path, bytes: 0 })
    }

    pub(super) fn put(&mut self, text: &str) -> Result<Lying, TrainingError> {
        self.out.write_all(text.as_bytes()).map_err(io("write", &self.path))?;
        let lying = Lying { at: self.bytes, bytes: text.len() as u64 };
        self.bytes += lying.bytes;
        Ok(lying)
    }

    /// Reads a row into a buffer, whose contents are replaced.
    pub(super) fn get(&mut self, lying: Lying, into: &mut Vec<u8>) -> Result<(), TrainingError> {
        let failed = io("read", &self.path);
        let mut read = || {
            self.out.flush()?;
            into.clear();
            let file = self.out.get_mut();
            file.seek(SeekFrom::Start(lying.at))?;
            if file.take(lying.bytes).read_to_end(into)? as u64 == lying.bytes {
                Ok(())
            } else {
                Err(std::io::Error::other("the spooled rows were cut short by another program"))
            }
        };
        read().map_err(failed)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _nothing_to_keep = std::fs::remove_file(&self.path);
    }
}

/// A file that is written beside its place, with its digest. Dropped before [`WholeFile::finish`], it leaves nothing.
pub(super) struct WholeFile {
    file: PathBuf,
    making: PathBuf,
    out: Option<BufWriter<File>>,
    digest: Sha256,
    bytes: u64,
}

impl WholeFile {
    pub(super) fn create(file: &Path) -> Result<Self, TrainingError> {
        let making = making(file);
        let out = File::create(&making).map_err(io("write", &making))?;
        let file = file.to_path_buf();
        Ok(Self { file, making, out: Some(BufWriter::new(out)), digest: Sha256::new(), bytes: 0 })
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), TrainingError> {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
        let Some(out) = &mut self.out else { return Ok(()) };
        out.write_all(bytes).map_err(io("write", &self.making))
    }

    /// Puts the file in its place; its digest and length.
    pub(super) fn finish(mut self) -> Result<(String, u64), TrainingError> {
        if let Some(out) = self.out.take() {
            let whole = out.into_inner().map_err(std::io::IntoInnerError::into_error);
            let placed =
                whole.and_then(|file| file.sync_all()).and_then(|()| std::fs::rename(&self.making, &self.file));
            if let Err(source) = placed {
                let _nothing_to_keep = std::fs::remove_file(&self.making);
                return Err(io("write", &self.file)(source));
            }
        }
        Ok((hex(&self.digest.clone().finalize()), self.bytes))
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.out.take().is_some() {
            let _nothing_to_keep = std::fs::remove_file(&self.making);
        }
    }
}

/// SHA-256 of a file, and its length.
pub(super) fn digest_of(path: &Path) -> Result<(String, u64), TrainingError> {
    let failed = || io("read", path);
    let mut file = File::open(path).map_err(failed())?;
    let (mut digest, mut bytes, mut step) = (Sha256::new(), 0, vec![0; STEP_BYTES]);
    loop {
        let read = match file.read(&mut step) {
            Ok(0) => return Ok((hex(&digest.finalize()), bytes)),
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed()(error)),
        };
        digest.update(&step[..read]);
        bytes += read as u64;
    }
}

fn making(file: &Path) -> PathBuf {
    let mut name = file.file_name().map(OsString::from).unwrap_or_default();
    name.push(format!(".{}.making", std::process::id()));
    file.with_file_name(name)
}

/// An error of a file.
pub(super) fn io(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> TrainingError + use<> {
    let path = path.to_path_buf();
    move |source| TrainingError::Io { what, path: path.clone(), source }
}
