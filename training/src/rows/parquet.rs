//! Rows of a parquet table as Hugging Face's `datasets` writes it: `messages` as a list of structures or as JSON text, `tools`
//! and `metadata` likewise, or the columns of a token row or of a text. Nothing is read before its bounds are known.
//! It refuses to know what the rows mean: each becomes the JSON that a line of JSONL would be.

mod bounds;
mod cells;
#[path = "../../../retrieval/src/corpus/pages.rs"]
mod pages;

pub use bounds::{FILE_BYTES_MAX, IDS_PER_ROW_MAX, VALUES_PER_ROW_MAX};

use super::{Kind, RawRow, RowError, RowSource, read};
use crate::error::{Place, TrajectoryError};
use ::parquet::file::reader::FileReader;
use ::parquet::record::reader::RowIter;
use pages::CheckedFile;
use std::fs::File;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 16;
/// What a table must have.
const COLUMNS: &str = "a parquet table with a column `messages`, or `prompt_ids` and `spans`, or `text`";

pub(super) struct ParquetRows {
    name: String,
    rows: RowIter<'static>,
    wanted: Range<u64>,
    /// Rows so far.
    row: u64,
    kind: Kind,
}

impl ParquetRows {
    pub(super) fn open(source: &RowSource) -> Result<Self, TrajectoryError> {
        let unreadable = |error| TrajectoryError::Unreadable { file: source.path.clone(), source: error };
        let name = source.path.display().to_string();
        let bad = |got: String| TrajectoryError::BadTable { file: name.clone(), expected: COLUMNS, got };
        let file = File::open(&source.path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        let table = guarded(|| CheckedFile::open(file)).map_err(bad)?;
        guarded(|| bounds::check(&table, bytes)).map_err(bad)?;
        let names: Vec<&str> =
            table.metadata().file_metadata().schema().get_fields().iter().map(|field| field.name()).collect();
        let kind = match (names.contains(&"messages"), names.contains(&"prompt_ids") && names.contains(&"spans")) {
            (true, _) => Kind::Chat,
            (false, true) => Kind::Ids,
            (false, false) if names.contains(&"text") => Kind::Text,
            (false, false) => return Err(bad(format!("the columns {}", names.join(", ").escape_debug()))),
        };
        let rows = RowIter::from_file_into(Box::new(table)).with_batch_size(BATCH_ROWS);
        Ok(Self { name, rows, wanted: source.rows.clone(), row: 0, kind })
    }

    pub(super) fn next_row(&mut self) -> Option<Result<RawRow, RowError>> {
        while self.row < self.wanted.end {
            let row = match guarded(|| self.rows.next().transpose()) {
                Ok(Some(row)) => row,
                Ok(None) => return None,
                Err(got) => {
                    let got = format!("row {}: {got}", self.row + 1);
                    let file = self.name.clone();
                    return Some(Err(RowError::Fatal(TrajectoryError::BadTable { file, expected: COLUMNS, got })));
                }
            };
            let is_wanted = self.wanted.contains(&self.row);
            self.row += 1;
            if is_wanted {
                let place = Place { file: self.name.clone(), line: self.row };
                return Some(self.taken(row, place));
            }
        }
        None
    }

    fn taken(&self, row: ::parquet::record::Row, place: Place) -> Result<RawRow, RowError> {
        let json = cells::row(&row, &place)?;
        let text = json.to_string();
        match read(&text, true, self.kind, &place) {
            Ok(row) => Ok(RawRow { place, row, text }),
            Err(error) => Err(RowError::of(error, &text)),
        }
    }
}

/// Runs the parquet library so that a panic over a damaged file becomes an error, as bad input must; the reader is not used
/// again behind one.
fn guarded<T>(read: impl FnOnce() -> ::parquet::errors::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("pages that contradict their own headers".to_owned()),
    }
}
