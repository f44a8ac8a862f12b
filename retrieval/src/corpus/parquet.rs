//! A corpus as parquet: columns `docid` and `text`, optional `title` and `url`, all of them strings.
//!
//! Only these columns are read, a row group's pages at a time. It refuses numbers as ids, as the JSON reader does.

use super::pages::CheckedFile;
use super::{Document, DocumentReader};
use crate::error::RetrievalError;
use ::parquet::basic::{ConvertedType, Type as Physical};
use ::parquet::file::reader::FileReader;
use ::parquet::record::reader::RowIter;
use ::parquet::record::{Field, Row};
use ::parquet::schema::types::Type;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 256;

const COLUMNS: [&str; 4] = ["docid", "text", "title", "url"];
const REQUIRED: [&str; 2] = ["docid", "text"];

pub(super) struct ParquetReader {
    path: PathBuf,
    rows: RowIter<'static>,
    next_row: u64,
}

impl ParquetReader {
    pub(super) fn open(path: &Path) -> Result<Self, RetrievalError> {
        let file = File::open(path).map_err(RetrievalError::io("opening", path))?;
        let broken = |what: String| RetrievalError::file(path, what, "the file may be cut off: fetch it anew");
        let reader = guarded(|| CheckedFile::open(file)).map_err(broken)?;
        let root = reader.metadata().file_metadata().schema().clone();
        let projection = projection(path, &root)?;
        let rows = RowIter::from_file_into(Box::new(reader))
            .project(Some(projection))
            .map_err(|error| broken(error.to_string()))?
            .with_batch_size(BATCH_ROWS);
        Ok(Self { path: path.to_owned(), rows, next_row: 0 })
    }
}

impl DocumentReader for ParquetReader {
    fn next_document(&mut self) -> Result<Option<(u64, Document)>, RetrievalError> {
        let number = self.next_row;
        let row = match guarded(|| self.rows.next().transpose()) {
            Ok(None) => return Ok(None),
            Ok(Some(row)) => row,
            Err(what) => return Err(self.fault(number, what, "the file may be damaged: fetch it anew")),
        };
        self.next_row += 1;
        match document(&row) {
            Ok(document) => Ok(Some((number, document))),
            Err(what) => Err(self.fault(number, what, "give every document docid and text, as strings")),
        }
    }

    fn fault(&self, place: u64, what: String, cure: &'static str) -> RetrievalError {
        RetrievalError::Row { path: self.path.clone(), row: place, what, cure }
    }
}

/// The schema with only the columns read here, or what is wrong with the columns.
fn projection(path: &Path, root: &Type) -> Result<Type, RetrievalError> {
    let fields: Vec<_> = root.get_fields().iter().filter(|f| COLUMNS.contains(&f.name())).cloned().collect();
    let names: Vec<_> = root.get_fields().iter().map(|f| f.name()).collect();
    for required in REQUIRED {
        if !fields.iter().any(|f| f.name() == required) {
            let what = format!("expected a column {required:?}, got the columns {names:?}");
            return Err(RetrievalError::file(path, what, "rename the column that holds it"));
        }
    }
    for field in &fields {
        let text = field.is_primitive()
            && field.get_physical_type() == Physical::BYTE_ARRAY
            && matches!(field.get_basic_info().converted_type(), ConvertedType::UTF8 | ConvertedType::NONE);
        if !text {
            let what = format!("expected column {:?} to hold strings, got another type", field.name());
            return Err(RetrievalError::file(path, what, "ids are text: cast the column to strings"));
        }
    }
    Type::group_type_builder(root.name())
        .with_fields(fields)
        .build()
        .map_err(|error| RetrievalError::file(path, error.to_string(), "write the file anew"))
}

fn document(row: &Row) -> Result<Document, String> {
    let mut values: [Option<String>; 4] = [const { None }; 4];
    for (name, field) in row.get_column_iter() {
        let Some(slot) = COLUMNS.iter().position(|c| c == name) else { continue };
        values[slot] = match field {
            Field::Null => None,
            Field::Str(text) => Some(text.clone()),
            Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
                Ok(text) => Some(text.to_owned()),
                Err(_) => return Err(format!("expected UTF-8 in column {name:?}, got other bytes")),
            },
            other => return Err(format!("expected a string in column {name:?}, got {other}")),
        };
    }
    let [docid, text, title, url] = values;
    let missing = |name: &str| format!("expected a string in column {name:?}, got null");
    let docid = docid.ok_or_else(|| missing("docid"))?;
    let text = text.ok_or_else(|| missing("text"))?;
    Ok(Document { docid, text, title, url })
}

/// Runs the parquet library so that a panic over a damaged file becomes an error, as bad input must.
fn guarded<T>(read: impl FnOnce() -> ::parquet::errors::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the parquet library gave up on the file".to_owned()),
    }
}
