//! Writes rows beside the file's place and moves them there when all are written, so that a file under its name is
//! always whole. A row that a reader would refuse is refused here.

use super::{LINE_BYTES_MAX, Row};
use crate::error::{Place, TrajectoryError};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub file: PathBuf,
    /// Rows in it.
    pub rows: u64,
    /// Bytes in it.
    pub bytes: u64,
}

/// Writes the rows of one file. Dropped before [`JsonlWriter::finish`], it leaves nothing behind and whatever had the
/// name before as it was.
pub struct JsonlWriter<R> {
    file: PathBuf,
    making: PathBuf,
    out: Option<BufWriter<File>>,
    line: Vec<u8>,
    rows: u64,
    bytes: u64,
    row: PhantomData<fn(&R)>,
}

impl<R: Row> JsonlWriter<R> {
    /// Begins a file.
    ///
    /// # Errors
    /// If nothing can be written beside it.
    pub fn create(file: &Path) -> Result<Self, TrajectoryError> {
        let mut name = file.file_name().map(OsString::from).unwrap_or_default();
        name.push(format!(".{}.making", std::process::id()));
        let making = file.with_file_name(name);
        let out = File::create(&making)
            .map_err(|source| TrajectoryError::Unwritable { file: making.clone(), source })
            .map(BufWriter::new)?;
        let file = file.to_path_buf();
        Ok(Self { file, making, out: Some(out), line: Vec::new(), rows: 0, bytes: 0, row: PhantomData })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// If the row says what cannot be, is longer than [`LINE_BYTES_MAX`], or cannot be written.
    pub fn write(&mut self, row: &R) -> Result<(), TrajectoryError> {
        let place = || Place { file: self.file.display().to_string(), line: self.rows + 1 };
        row.check().map_err(|fault| fault.at(place()))?;
        self.line.clear();
        serde_json::to_writer(&mut self.line, row).map_err(|error| TrajectoryError::BadRow {
            place: place(),
            expected: R::WHAT,
            message: error.to_string(),
        })?;
        self.line.push(b'\n');
        let bytes = self.line.len() as u64;
        if bytes > LINE_BYTES_MAX {
            return Err(TrajectoryError::TooLong { place: place(), max_bytes: LINE_BYTES_MAX });
        }
        let written = match &mut self.out {
            Some(out) => out.write_all(&self.line),
            None => Err(io::Error::other("an earlier row could not be written")),
        };
        self.rows += 1;
        self.bytes += bytes;
        written.map_err(|source| self.failed(source))
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// If it cannot be written whole or moved.
    pub fn finish(mut self) -> Result<Written, TrajectoryError> {
        let Some(out) = self.out.take() else {
            return Err(self.failed(io::Error::other("an earlier row could not be written")));
        };
        let whole = out.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        match whole.and_then(|()| std::fs::rename(&self.making, &self.file)) {
            Ok(()) => Ok(Written { file: self.file.clone(), rows: self.rows, bytes: self.bytes }),
            Err(source) => {
                let _nothing_to_keep = std::fs::remove_file(&self.making);
                Err(TrajectoryError::Unwritable { file: self.file.clone(), source })
            }
        }
    }

    fn failed(&mut self, source: io::Error) -> TrajectoryError {
        if self.out.take().is_some() {
            let _nothing_to_keep = std::fs::remove_file(&self.making);
        }
        TrajectoryError::Unwritable { file: self.file.clone(), source }
    }
}

impl<R> Drop for JsonlWriter<R> {
    fn drop(&mut self) {
        if self.out.take().is_some() {
            let _nothing_to_keep = std::fs::remove_file(&self.making);
        }
    }
}
