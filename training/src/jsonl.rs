//! Files of rows, one JSON object a line, read and written strictly: what is not a whole and sensible row is an error
//! with its place, never skipped. A file appears under its name only when it is whole.

mod broken;
mod lines;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use lines::Lines;
pub use writer::{JsonlWriter, Written};

use crate::error::{Place, TrajectoryError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::BufRead;
use std::marker::PhantomData;
use std::path::Path;

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

    pub(crate) fn at(self, place: Place) -> TrajectoryError {
        TrajectoryError::Contradiction { place, field: self.field, problem: self.problem }
    }
}

/// Reads rows one by one; memory does not grow with the file. After an error it ends.
pub struct JsonlReader<R> {
    lines: Lines,
    ended: bool,
    row: PhantomData<fn() -> R>,
}

impl<R: Row> JsonlReader<R> {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, TrajectoryError> {
        Ok(Self { lines: Lines::open(path)?, ended: false, row: PhantomData })
    }

    /// Reads from anything; `name` stands in messages.
    pub fn over(name: impl Into<String>, reader: impl BufRead + 'static) -> Self {
        Self { lines: Lines::over(name, reader), ended: false, row: PhantomData }
    }

    /// Where the row that was returned last stands.
    pub fn place(&self) -> Place {
        self.lines.place()
    }

    fn take_row(&mut self) -> Result<Option<R>, TrajectoryError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        read_row(self.lines.text(), self.lines.is_whole(), || self.place()).map(Some)
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

/// The row of a line; `whole` says whether the line has an end.
pub(crate) fn read_row<R: Row>(text: &str, whole: bool, place: impl Fn() -> Place) -> Result<R, TrajectoryError> {
    let row: R = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string().replace(" at line 1 column ", " at column ");
        if let Some(error) = not_json(text, &place()) {
            return error;
        }
        if error.is_eof() && !whole {
            return TrajectoryError::TornLine { place: place(), message };
        }
        TrajectoryError::BadRow { place: place(), expected: R::WHAT, message }
    })?;
    row.check().map_err(|fault| fault.at(place()))?;
    Ok(row)
}

/// What a text that could not be read has that JSON has not.
pub(crate) fn not_json(text: &str, place: &Place) -> Option<TrajectoryError> {
    let place = || place.clone();
    if let Some(escape) = broken::lone_surrogate(text) {
        return Some(TrajectoryError::LoneSurrogate { place: place(), escape });
    }
    broken::not_finite(text).map(|token| TrajectoryError::NotFinite { place: place(), token })
}
