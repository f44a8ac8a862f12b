//! Files of rows, one JSON object a line, read and written strictly: what is not a whole and sensible row is an error
//! with its place, never skipped. A file appears under its name only when it is whole.

mod broken;
#[cfg(test)]
mod tests;
mod writer;

pub use writer::{JsonlWriter, Written};

use crate::error::{Place, TrajectoryError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Bytes of a line at most: a row of 40,960 tokens is about 0.2 MB, as ids about 0.3 MB.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

/// A row of some kind of file.
pub trait Row: Serialize + DeserializeOwned {
    /// What a row is, for messages: "a chat row with `messages`".
    const WHAT: &'static str;

    /// Finds what the types cannot rule out.
    ///
    /// # Errors
    /// The field, and what is wrong with it and the cure.
    fn check(&self) -> Result<(), Fault>;
}

/// What is wrong with a field of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field, such as `messages[3].step_loss_mask`.
    pub field: String,
    /// What is wrong and the cure.
    pub problem: String,
}

impl Fault {
    /// A fault of a field.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    fn at(self, place: Place) -> TrajectoryError {
        TrajectoryError::Contradiction { place, field: self.field, problem: self.problem }
    }
}

/// Reads rows one by one; memory does not grow with the file. After an error it ends.
pub struct JsonlReader<R> {
    name: String,
    reader: Box<dyn BufRead>,
    buffer: Vec<u8>,
    line: u64,
    ended: bool,
    row: PhantomData<fn() -> R>,
}

impl<R: Row> JsonlReader<R> {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, TrajectoryError> {
        let file =
            File::open(path).map_err(|source| TrajectoryError::Unreadable { file: path.to_path_buf(), source })?;
        Ok(Self::over(path.display().to_string(), BufReader::new(file)))
    }

    /// Reads from anything; `name` stands in messages.
    pub fn over(name: impl Into<String>, reader: impl BufRead + 'static) -> Self {
        let reader = Box::new(reader);
        Self { name: name.into(), reader, buffer: Vec::new(), line: 0, ended: false, row: PhantomData }
    }

    /// Where the row that was returned last stands.
    pub fn place(&self) -> Place {
        Place { file: self.name.clone(), line: self.line }
    }

    /// The next line into the buffer; false at the end.
    fn take_line(&mut self) -> Result<bool, TrajectoryError> {
        self.buffer.clear();
        let read = (&mut self.reader).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|source| TrajectoryError::Unreadable { file: PathBuf::from(&self.name), source })?;
        if read == 0 {
            return Ok(false);
        }
        self.line += 1;
        if read as u64 > LINE_BYTES_MAX {
            return Err(TrajectoryError::TooLong { place: self.place(), max_bytes: LINE_BYTES_MAX });
        }
        Ok(true)
    }

    /// The next row; blank lines are allowed at the end only.
    fn take_row(&mut self) -> Result<Option<R>, TrajectoryError> {
        let mut blank: Option<Place> = None;
        loop {
            if !self.take_line()? {
                return Ok(None);
            }
            let text =
                line_text(&self.buffer).map_err(|at_byte| TrajectoryError::NotUtf8 { place: self.place(), at_byte })?;
            if text.trim().is_empty() {
                blank.get_or_insert(self.place());
                continue;
            }
            if let Some(place) = blank {
                return Err(TrajectoryError::BlankLine { place });
            }
            let whole = self.buffer.last() == Some(&b'\n');
            return read_row(text, whole, || self.place()).map(Some);
        }
    }
}

impl<R: Row> Iterator for JsonlReader<R> {
    type Item = Result<R, TrajectoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.take_row().transpose();
        self.ended = !matches!(row, Some(Ok(_)));
        row
    }
}

fn read_row<R: Row>(text: &str, whole: bool, place: impl Fn() -> Place) -> Result<R, TrajectoryError> {
    let row: R = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string().replace(" at line 1 column ", " at column ");
        if let Some(escape) = broken::lone_surrogate(text) {
            return TrajectoryError::LoneSurrogate { place: place(), escape };
        }
        if let Some(token) = broken::not_finite(text) {
            return TrajectoryError::NotFinite { place: place(), token };
        }
        if error.is_eof() && !whole {
            return TrajectoryError::TornLine { place: place(), message };
        }
        TrajectoryError::BadRow { place: place(), expected: R::WHAT, message }
    })?;
    row.check().map_err(|fault| fault.at(place()))?;
    Ok(row)
}

/// The line without its end, and without the byte order marks that stand before a line where files were joined; else the first
/// byte that is not UTF-8.
fn line_text(buffer: &[u8]) -> Result<&str, usize> {
    let bytes = buffer.strip_suffix(b"\n").unwrap_or(buffer);
    let mut bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    while let Some(unmarked) = bytes.strip_prefix(b"\xEF\xBB\xBF") {
        bytes = unmarked;
    }
    std::str::from_utf8(bytes).map_err(|error| error.valid_up_to())
}
