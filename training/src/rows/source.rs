//! Which rows of which file: a path, and behind it `@[a:b]` for the rows from `a` up to `b`, counted from 0 as Miles counts them.
//! It refuses to open anything.

use crate::error::TrainingError;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Rows of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSource {
    /// The file.
    pub path: PathBuf,
    /// The rows, from 0; bad ones count too, so that a slice does not move when one is mended.
    pub rows: Range<u64>,
}

impl RowSource {
    /// All rows of a file.
    pub fn all(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), rows: 0..u64::MAX }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl FromStr for RowSource {
    type Err = TrainingError;

    /// Reads `path` or `path@[a:b]`; either number may be left out.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || TrainingError::Setting {
            setting: "rows",
            expected: "a file, or file@[a:b] with a no greater than b, both counted from the first row".to_owned(),
            got: text.to_owned(),
        };
        let Some((path, slice)) = text.strip_suffix(']').and_then(|text| text.rsplit_once("@[")) else {
            return if text.is_empty() { Err(wrong()) } else { Ok(Self::all(text)) };
        };
        let (from, to) = slice.split_once(':').ok_or_else(wrong)?;
        let number = |text: &str, otherwise: u64| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            if text.is_empty() { Some(otherwise) } else { text.parse().ok().filter(|_| digits) }
        };
        let (from, to) = (number(from, 0).ok_or_else(wrong)?, number(to, u64::MAX).ok_or_else(wrong)?);
        if path.is_empty() || from > to {
            return Err(wrong());
        }
        Ok(Self { path: path.into(), rows: from..to })
    }
}

impl fmt::Display for RowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match (self.rows.start, self.rows.end) {
            (0, u64::MAX) => write!(f, "{path}"),
            (from, u64::MAX) => write!(f, "{path}@[{from}:]"),
            (from, to) => write!(f, "{path}@[{from}:{to}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_stands_behind_its_path() {
        for (text, path, rows) in [
            ("a.jsonl", "a.jsonl", 0..u64::MAX),
            ("a.jsonl@[2:5]", "a.jsonl", 2..5),
            ("a@[1:2]/b.parquet@[:7]", "a@[1:2]/b.parquet", 0..7),
            ("x@[3:]", "x", 3..u64::MAX),
            ("x@[:]", "x", 0..u64::MAX),
            ("x@[4:4]", "x", 4..4),
            ("mail@home", "mail@home", 0..u64::MAX),
        ] {
            let source: RowSource = text.parse().unwrap();
            assert_eq!((source.path.to_str().unwrap(), source.rows.clone()), (path, rows), "{text}");
            assert_eq!(source.to_string().parse::<RowSource>().unwrap(), source);
        }
    }

    #[test]
    fn what_is_no_slice_is_refused() {
        for text in ["", "@[1:2]", "x@[5:4]", "x@[-3:]", "x@[1]", "x@[a:b]", "x@[1:+2]", "x@[1:99999999999999999999]"] {
            let refused = text.parse::<RowSource>().unwrap_err().to_string();
            assert!(refused.starts_with("rows: expected a file"), "{text}: {refused}");
        }
    }
}
