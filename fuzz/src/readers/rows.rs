//! Readers of rows to train on: a row that is taken has something to learn from, and is written and read back the same;
//! one that is not is an error with its file and line.

use super::files;
use legwork_training::rows::{RawRow, RowError, RowSource, Rows};
use legwork_training::trajectory::{ChatRow, IdRow};
use legwork_training::{JsonlReader, Row};
use std::fmt::Debug;
use std::io::Cursor;

pub fn chat(bytes: &[u8]) {
    rows::<ChatRow>(bytes, ChatRow::supervised);
}

pub fn ids(bytes: &[u8]) {
    rows::<IdRow>(bytes, IdRow::supervised);
}

/// Rows of either kind, of which bad ones are told and passed over.
pub fn any(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let told = all(Rows::over("input.jsonl", Cursor::new(bytes.to_vec())), "input.jsonl");
    assert!(told <= lines, "{told} rows, good and bad, of {lines} lines");
}

/// Rows of a table, of which bad ones are told and passed over.
pub fn parquet(bytes: &[u8]) {
    let path = files::file("input.parquet", bytes);
    match Rows::open(&RowSource::all(&path)) {
        Ok(rows) => {
            all(rows, "input.parquet");
        }
        Err(error) => assert!(error.to_string().contains("input.parquet"), "an error without its file: {error}"),
    }
}

/// Reads all rows; how many there were, bad ones included.
fn all(rows: Rows, name: &str) -> usize {
    let mut told = 0;
    for row in rows {
        told += 1;
        match row {
            Ok(row) => reads_again(row),
            Err(RowError::Bad { error, .. } | RowError::Fatal(error)) => {
                assert!(error.to_string().contains(name), "an error without its file: {error}");
            }
        }
    }
    told
}

/// The text that a row is kept as is the row.
fn reads_again(row: RawRow) {
    assert!(!row.text.contains('\n'), "a row is a line");
    match Rows::over("again.jsonl", Cursor::new(row.text.clone())).next() {
        Some(Ok(again)) => assert_eq!(again.row, row.row),
        other => panic!("{other:?} from the text of a row: {}", row.text),
    }
}

fn rows<R: Row + PartialEq + Debug>(bytes: &[u8], supervised: fn(&R) -> usize) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let mut reader = JsonlReader::<R>::over("input.jsonl", Cursor::new(bytes.to_vec()));
    let mut taken = 0;
    while let Some(row) = reader.next() {
        match row {
            Ok(row) => {
                taken += 1;
                assert!(supervised(&row) > 0, "nothing to learn from");
                comes_back(&row);
            }
            Err(error) => {
                assert!(error.to_string().contains("input.jsonl"), "an error without its file: {error}");
                assert!(reader.next().is_none(), "after an error it ends");
            }
        }
    }
    assert!(taken <= lines);
}

fn comes_back<R: Row + PartialEq + Debug>(row: &R) {
    let line = serde_json::to_string(row).expect("what was read from JSON can be written as JSON");
    assert!(!line.contains('\n'), "a row is a line");
    let mut again = JsonlReader::<R>::over("written.jsonl", Cursor::new(line.clone().into_bytes()));
    match again.next() {
        Some(Ok(read)) => assert_eq!(&read, row),
        other => panic!("{other:?} from what was just written: {line}"),
    }
}
