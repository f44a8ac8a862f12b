//! Where rows come from: JSONL and parquet, of chat, of token ids or of plain text, whole files or slices of them. Which of them
//! a file holds, its first row says. What is wrong with a row is told with its place and its kind, and the next row is read.
//! It refuses to know tokenizers and templates.

mod bad;
mod jsonl;
mod parquet;
mod source;
#[cfg(test)]
mod tests;

pub use bad::{BadKind, BadReport, BadRow, BadRows, LISTED_MAX, REASON_CHARS_MAX, RowError, Sieve};
pub use parquet::{FILE_BYTES_MAX, IDS_PER_ROW_MAX, VALUES_PER_ROW_MAX};
pub use source::RowSource;

use crate::error::{Place, TrainingError, TrajectoryError};
use crate::mask::Encoder;
use crate::sample::Sample;
use crate::trajectory::{ChatRow, IdRow, Metadata, TextRow};
use std::path::Path;

/// A row of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyRow {
    /// Messages.
    Chat(Box<ChatRow>),
    /// Token ids.
    Ids(Box<IdRow>),
    /// Plain text.
    Text(Box<TextRow>),
}

impl AnyRow {
    /// Where the row comes from.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::Chat(row) => &row.metadata,
            Self::Ids(row) => &row.metadata,
            Self::Text(row) => &row.metadata,
        }
    }

    /// What such rows are called.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Chat(_) => "chat",
            Self::Ids(_) => "ids",
            Self::Text(_) => "text",
        }
    }
}

/// A row as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct RawRow {
    /// Its file, and its line or in a table its row, from 1.
    pub place: Place,
    /// What it says.
    pub row: AnyRow,
    /// Its JSON in one line: that of the file, or made of the table's columns.
    pub text: String,
}

/// Reads the rows of a source one by one. After a bad row it goes on; after [`RowError::Fatal`] it ends.
pub struct Rows {
    reader: Reader,
    ended: bool,
}

enum Reader {
    Jsonl(jsonl::JsonlRows),
    Parquet(Box<parquet::ParquetRows>),
}

impl Rows {
    /// Opens a source: parquet by its ending, everything else as JSONL.
    ///
    /// # Errors
    /// A file that cannot be opened; a table that is damaged or has no column of rows.
    pub fn open(source: &RowSource) -> Result<Self, TrainingError> {
        let reader = if is_parquet(&source.path) {
            Reader::Parquet(Box::new(parquet::ParquetRows::open(source)?))
        } else {
            Reader::Jsonl(jsonl::JsonlRows::open(source)?)
        };
        Ok(Self { reader, ended: false })
    }

    /// Reads JSONL from anything; `name` stands in messages.
    pub fn over(name: &str, reader: impl std::io::BufRead + 'static) -> Self {
        let rows = jsonl::JsonlRows::over(name, reader, 0..u64::MAX);
        Self { reader: Reader::Jsonl(rows), ended: false }
    }
}

impl Iterator for Rows {
    type Item = Result<RawRow, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = match &mut self.reader {
            Reader::Jsonl(rows) => rows.next_row(),
            Reader::Parquet(rows) => rows.next_row(),
        };
        self.ended = matches!(row, None | Some(Err(RowError::Fatal(_))));
        row
    }
}

/// All good rows of a source as samples, in order.
///
/// # Errors
/// A source that cannot be read, a bad row where the sieve refuses them, and a source without any good row.
pub fn samples(source: &RowSource, encoder: &Encoder, sieve: &mut Sieve) -> Result<Vec<Sample>, TrainingError> {
    let mut samples = Vec::new();
    for row in Rows::open(source)? {
        let encoded = row.and_then(|row| encoder.encode(&row.row, &row.place));
        samples.extend(sieve.pass(encoded)?);
    }
    if samples.is_empty() { Err(no_row(source, sieve)) } else { Ok(samples) }
}

/// What is said of a source of which nothing can be used.
pub(crate) fn no_row(source: &RowSource, sieve: &Sieve) -> TrainingError {
    let skipped = sieve.report().total();
    let got = match sieve.report().listed.last() {
        Some(last) => format!("none in {source}, {skipped} bad rows skipped, such as {}", last.reason),
        None => format!("none in {source}"),
    };
    TrainingError::Setting { setting: "rows", expected: "at least one row".to_owned(), got }
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"))
}

/// A row of a known kind from its JSON.
fn read(text: &str, whole: bool, kind: Kind, place: &Place) -> Result<AnyRow, TrajectoryError> {
    let place = || place.clone();
    Ok(match kind {
        Kind::Chat => AnyRow::Chat(Box::new(crate::jsonl::read_row(text, whole, place)?)),
        Kind::Ids => AnyRow::Ids(Box::new(crate::jsonl::read_row(text, whole, place)?)),
        Kind::Text => AnyRow::Text(Box::new(crate::jsonl::read_row(text, whole, place)?)),
    })
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Chat,
    Ids,
    Text,
}
