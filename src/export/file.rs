//! Files and folders that appear when they are whole: written beside their place and moved there at the end. Dropped
//! before, they leave nothing behind.

use super::ExportError;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file being written.
pub(super) struct WholeFile {
    path: PathBuf,
    making: PathBuf,
    out: Option<BufWriter<File>>,
}

impl WholeFile {
    /// Begins a file.
    pub(super) fn create(path: &Path) -> Result<Self, ExportError> {
        let making = beside(path);
        match File::create(&making) {
            Ok(file) => Ok(Self { path: path.to_path_buf(), making, out: Some(BufWriter::new(file)) }),
            Err(source) => Err(ExportError::Unwritable { path: making, source }),
        }
    }

    /// Begins what will be poured into `path`, beside it and under a name of its own.
    pub(super) fn aside(path: &Path) -> Result<Self, ExportError> {
        let mut name = path.file_name().map(OsString::from).unwrap_or_default();
        name.push(".part");
        Self::create(&path.with_file_name(name))
    }

    /// Writes something.
    pub(super) fn put(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), ExportError> {
        let out = self.out.as_mut().expect("the file is there until it is finished, which consumes it");
        write(out).map_err(|source| ExportError::Unwritable { path: self.path.clone(), source })
    }

    /// Writes a value as JSON.
    pub(super) fn put_json(&mut self, value: &impl serde::Serialize) -> Result<(), ExportError> {
        self.put(|out| serde_json::to_writer(out, value).map_err(io::Error::from))
    }

    /// Writes a text.
    pub(super) fn put_text(&mut self, text: &str) -> Result<(), ExportError> {
        self.put(|out| out.write_all(text.as_bytes()))
    }

    /// Moves it to its place.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        let out = self.out.take().expect("the file is there until it is finished, which consumes it");
        let whole = out.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        whole.and_then(|()| std::fs::rename(&self.making, &self.path)).map_err(|source| {
            let _nothing_to_keep = std::fs::remove_file(&self.making);
            ExportError::Unwritable { path: self.path.clone(), source }
        })
    }

    /// Reads what was written so far into another file, and throws this one away.
    pub(super) fn pour_into(mut self, other: &mut WholeFile) -> Result<(), ExportError> {
        self.put(|out| out.flush())?;
        let failed = |source| ExportError::Unwritable { path: self.making.clone(), source };
        let mut written = File::open(&self.making).map_err(failed)?;
        other.put(|out| io::copy(&mut written, out).map(drop))
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.out.take().is_some() {
            let _nothing_to_keep = std::fs::remove_file(&self.making);
        }
    }
}

/// A folder being filled.
pub(super) struct WholeFolder {
    path: PathBuf,
    making: PathBuf,
    finished: bool,
}

impl WholeFolder {
    /// Begins a folder.
    pub(super) fn create(path: &Path) -> Result<Self, ExportError> {
        let making = beside(path);
        let _left_from_an_interrupted_try = std::fs::remove_dir_all(&making);
        match std::fs::create_dir(&making) {
            Ok(()) => Ok(Self { path: path.to_path_buf(), making, finished: false }),
            Err(source) => Err(ExportError::Unwritable { path: making, source }),
        }
    }

    /// Begins a file of it.
    pub(super) fn file(&self, place: &Path) -> Result<WholeFile, ExportError> {
        let path = self.making.join(place);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|source| ExportError::Unwritable { path: parent.to_path_buf(), source })?;
        }
        WholeFile::create(&path)
    }

    /// Moves it to its place.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        let _taken_only_if_empty = std::fs::remove_dir(&self.path);
        std::fs::rename(&self.making, &self.path)
            .map_err(|source| ExportError::Unwritable { path: self.path.clone(), source })?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for WholeFolder {
    fn drop(&mut self) {
        if !self.finished {
            let _nothing_to_keep = std::fs::remove_dir_all(&self.making);
        }
    }
}

/// Whether there is a folder with nothing in it.
pub(super) fn is_empty_folder(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(format!(".{}.making", std::process::id()));
    path.with_file_name(name)
}
