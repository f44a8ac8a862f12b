//! Rows of a JSONL file, of chat, of ids or of text as its first row says. It refuses to know what becomes of a bad one.

use super::{Kind, RawRow, RowError, RowSource, read};
use crate::error::TrajectoryError;
use crate::jsonl::Lines;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::io::BufRead;
use std::ops::Range;

pub(super) struct JsonlRows {
    lines: Lines,
    wanted: Range<u64>,
    /// Rows so far, bad ones included.
    row: u64,
    kind: Option<Kind>,
}

/// What tells the kinds apart; nothing else of the row is kept.
#[derive(Deserialize)]
struct Probe {
    messages: Option<IgnoredAny>,
    prompt_ids: Option<IgnoredAny>,
    spans: Option<IgnoredAny>,
    text: Option<IgnoredAny>,
}

impl JsonlRows {
    pub(super) fn open(source: &RowSource) -> Result<Self, TrajectoryError> {
        Ok(Self { lines: Lines::open(&source.path)?, wanted: source.rows.clone(), row: 0, kind: None })
    }

    pub(super) fn over(name: &str, reader: impl BufRead + 'static, wanted: Range<u64>) -> Self {
        Self { lines: Lines::over(name, reader), wanted, row: 0, kind: None }
    }

    pub(super) fn next_row(&mut self) -> Option<Result<RawRow, RowError>> {
        while self.row < self.wanted.end {
            let read = match self.lines.advance() {
                Ok(true) => Ok(()),
                Ok(false) => return None,
                // A blank line is no row, so it moves no slice; but within the slice it is told.
                Err(error @ TrajectoryError::BlankLine { .. }) => {
                    if self.wanted.contains(&self.row) {
                        return Some(Err(RowError::of(error, "")));
                    }
                    continue;
                }
                Err(error) => match RowError::of(error, "") {
                    fatal @ RowError::Fatal(_) => return Some(Err(fatal)),
                    bad => Err(bad),
                },
            };
            let is_wanted = self.wanted.contains(&self.row);
            self.row += 1;
            if let Err(bad) = read {
                if is_wanted {
                    return Some(Err(bad));
                }
                continue;
            }
            if self.kind.is_none() {
                self.kind = kind_of(self.lines.text());
            }
            if is_wanted {
                return Some(self.taken());
            }
        }
        None
    }

    fn taken(&self) -> Result<RawRow, RowError> {
        let (text, place) = (self.lines.text(), self.lines.place());
        match read(text, self.lines.is_whole(), self.kind.unwrap_or(Kind::Chat), &place) {
            Ok(row) => Ok(RawRow { place, row, text: text.to_owned() }),
            Err(error) => Err(RowError::of(error, text)),
        }
    }
}

/// Which kind of row a line is, if it says.
fn kind_of(text: &str) -> Option<Kind> {
    let probe: Probe = serde_json::from_str(text).ok()?;
    match probe {
        Probe { messages: Some(_), .. } => Some(Kind::Chat),
        Probe { prompt_ids: Some(_), .. } | Probe { spans: Some(_), .. } => Some(Kind::Ids),
        Probe { text: Some(_), .. } => Some(Kind::Text),
        _ => None,
    }
}
