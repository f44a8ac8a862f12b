//! Rows that cannot be trained on: of which kind they are, and what becomes of them by the caller's rule. Either the first one is
//! the end, or each is counted by its kind and listed with file, line and reason; none vanishes.
//! It refuses to know how rows are read.

use crate::error::{Place, TrainingError, TrajectoryError};
use legwork_protocol::untrusted::Untrusted;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Bad rows that a report lists one by one; further ones are counted.
pub const LISTED_MAX: usize = 1000;
/// Characters of a reason that a report keeps.
pub const REASON_CHARS_MAX: usize = 500;

/// What becomes of a bad row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadRows {
    /// The first one is an error.
    #[default]
    Refuse,
    /// Each is counted and listed, and the rest is read.
    Skip,
}

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadKind {
    /// It is no JSON.
    MalformedJson,
    /// The last line ends in the middle of a row.
    TornLine,
    /// A blank line with rows behind it.
    BlankLine,
    /// Bytes that are no UTF-8.
    NotUtf8,
    /// Half of a surrogate pair.
    LoneSurrogate,
    /// NaN or an infinity.
    NotFinite,
    /// A line longer than its limit.
    LongLine,
    /// A role that there is not.
    UnknownRole,
    /// A field that there is not, such as a misspelled mask.
    UnknownField,
    /// A field that must be there and is not.
    MissingField,
    /// A field twice.
    DuplicateField,
    /// A value of another type than its field has.
    WrongType,
    /// No messages.
    NoMessages,
    /// More messages than a row may have.
    TooManyMessages,
    /// A mask on a message that is not the model's, or neither 0 nor 1.
    Mask,
    /// A field that belongs to messages of another role.
    MisplacedField,
    /// A tool call that is no call of a function, or whose arguments are none.
    ToolCall,
    /// Nothing in the loss.
    NothingSupervised,
    /// A token row that contradicts itself.
    Contradiction,
    /// A conversation that the template refuses, or renders such that its parts cannot be told apart.
    Template,
    /// An id that the model has no row for.
    UnknownId,
    /// More tokens than a row may have.
    TooLong,
}

impl BadKind {
    /// In words, for a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::MalformedJson => "malformed json",
            Self::TornLine => "torn last line",
            Self::BlankLine => "blank line",
            Self::NotUtf8 => "not utf-8",
            Self::LoneSurrogate => "half of a surrogate pair",
            Self::NotFinite => "number that is none",
            Self::LongLine => "line too long",
            Self::UnknownRole => "unknown role",
            Self::UnknownField => "unknown field",
            Self::MissingField => "missing field",
            Self::DuplicateField => "field given twice",
            Self::WrongType => "wrong type",
            Self::NoMessages => "no messages",
            Self::TooManyMessages => "too many messages",
            Self::Mask => "wrong mask",
            Self::MisplacedField => "field of another role",
            Self::ToolCall => "wrong tool call",
            Self::NothingSupervised => "nothing in the loss",
            Self::Contradiction => "contradiction",
            Self::Template => "refused by the template",
            Self::UnknownId => "id outside the vocabulary",
            Self::TooLong => "too many tokens",
        }
    }
}

/// Why a row was not taken.
#[derive(Debug)]
pub enum RowError {
    /// It is bad; the next one may not be.
    Bad {
        /// Of which kind.
        kind: BadKind,
        /// What is wrong, with its place and the cure.
        error: TrajectoryError,
    },
    /// Nothing more can be read.
    Fatal(TrajectoryError),
}

impl RowError {
    /// What is wrong with a row in a field of it.
    pub fn of_field(kind: BadKind, place: &Place, field: &str, problem: String) -> Self {
        let (place, field) = (place.clone(), field.to_owned());
        Self::Bad { kind, error: TrajectoryError::Contradiction { place, field, problem } }
    }

    /// An error of a reader, by its kind; `text` is the row's, where it was read.
    pub(crate) fn of(error: TrajectoryError, text: &str) -> Self {
        match kind_of(&error, text) {
            Some(kind) => Self::Bad { kind, error },
            None => Self::Fatal(error),
        }
    }
}

impl From<RowError> for TrainingError {
    fn from(error: RowError) -> Self {
        match error {
            RowError::Bad { error, .. } | RowError::Fatal(error) => Self::Trajectory(error),
        }
    }
}

/// A row that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadRow {
    /// The file.
    pub file: String,
    /// The line, or in a table the row, from 1; 0 where it is not known.
    pub line: u64,
    /// What kind of wrong.
    pub kind: BadKind,
    /// What is wrong and the cure, with the place; control characters written out.
    pub reason: String,
}

/// All rows that were skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadReport {
    /// How many of each kind.
    pub counts: BTreeMap<BadKind, u64>,
    /// The first [`LISTED_MAX`] of them.
    pub listed: Vec<BadRow>,
    /// How many more there were.
    pub unlisted: u64,
}

impl BadReport {
    /// How many rows were skipped.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    fn add(&mut self, kind: BadKind, error: &TrajectoryError) {
        *self.counts.entry(kind).or_default() += 1;
        if self.listed.len() >= LISTED_MAX {
            self.unlisted += 1;
            return;
        }
        let (file, line) = error.place().map_or((String::new(), 0), |place| (place.file.clone(), place.line));
        let reason = Untrusted::from(error.to_string()).for_log(REASON_CHARS_MAX).into_owned();
        self.listed.push(BadRow { file, line, kind, reason });
    }
}

/// Lets good rows through and does with bad ones what the rule says.
#[derive(Debug, Default)]
pub struct Sieve {
    rule: BadRows,
    report: BadReport,
}

impl Sieve {
    /// A sieve of a rule.
    pub fn new(rule: BadRows) -> Self {
        Self { rule, report: BadReport::default() }
    }

    /// What was skipped so far.
    pub fn report(&self) -> &BadReport {
        &self.report
    }

    /// The row, or nothing if it was bad and is skipped.
    ///
    /// # Errors
    /// A bad row where bad rows are refused; a source of which nothing more can be read.
    pub fn pass<T>(&mut self, outcome: Result<T, RowError>) -> Result<Option<T>, TrainingError> {
        match outcome {
            Ok(row) => Ok(Some(row)),
            Err(RowError::Bad { kind, error }) if self.rule == BadRows::Skip => {
                self.report.add(kind, &error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The kind of a reader's error; none where nothing more can be read.
fn kind_of(error: &TrajectoryError, text: &str) -> Option<BadKind> {
    Some(match error {
        TrajectoryError::TooLong { .. } => BadKind::LongLine,
        TrajectoryError::NotUtf8 { .. } => BadKind::NotUtf8,
        TrajectoryError::TornLine { .. } => BadKind::TornLine,
        TrajectoryError::BlankLine { .. } => BadKind::BlankLine,
        TrajectoryError::LoneSurrogate { .. } => BadKind::LoneSurrogate,
        TrajectoryError::NotFinite { .. } => BadKind::NotFinite,
        TrajectoryError::BadRow { message, .. } => unread(message, text),
        TrajectoryError::Contradiction { field, problem, .. } => contradiction(field, problem),
        TrajectoryError::Unreadable { .. } | TrajectoryError::Unwritable { .. } | TrajectoryError::BadTable { .. } => {
            return None;
        }
    })
}

/// What kept a row from being read, by serde's words; of what is JSON and fits none of them, a type is wrong.
fn unread(message: &str, text: &str) -> BadKind {
    if message.starts_with("unknown field") {
        BadKind::UnknownField
    } else if message.starts_with("missing field") {
        BadKind::MissingField
    } else if message.starts_with("duplicate field") {
        BadKind::DuplicateField
    } else if message.starts_with("unknown variant") && message.contains("`assistant`") {
        BadKind::UnknownRole
    } else if serde_json::from_str::<Value>(text).is_ok() {
        BadKind::WrongType
    } else {
        BadKind::MalformedJson
    }
}

/// What a row says that cannot be.
fn contradiction(field: &str, problem: &str) -> BadKind {
    let last = field.rsplit('.').next().unwrap_or(field);
    match field {
        "messages" | "spans" if problem.starts_with("hold no") => BadKind::NothingSupervised,
        "messages" if problem.ends_with("got 0") => BadKind::NoMessages,
        "messages" => BadKind::TooManyMessages,
        _ if last == "step_loss_mask" => BadKind::Mask,
        _ if field.contains(".tool_calls[") => BadKind::ToolCall,
        _ if field.starts_with("messages[") => BadKind::MisplacedField,
        _ => BadKind::Contradiction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(line: u64) -> RowError {
        let place = Place { file: "rows.jsonl".to_owned(), line };
        RowError::of_field(BadKind::TooLong, &place, "tokens", "are \u{1b}[31m many".to_owned())
    }

    #[test]
    fn refused_the_first_bad_row_is_the_end_and_skipped_it_is_listed() {
        let mut refuse = Sieve::new(BadRows::Refuse);
        assert_eq!(refuse.pass(Ok(7)).unwrap(), Some(7));
        assert!(refuse.pass::<()>(Err(bad(3))).unwrap_err().to_string().starts_with("rows.jsonl:3: tokens are"));
        let mut skip = Sieve::new(BadRows::Skip);
        assert_eq!(skip.pass::<()>(Err(bad(3))).unwrap(), None);
        let report = skip.report();
        assert_eq!((report.total(), report.counts[&BadKind::TooLong]), (1, 1));
        let listed = &report.listed[0];
        assert_eq!((listed.file.as_str(), listed.line), ("rows.jsonl", 3));
        assert_eq!(listed.reason, "rows.jsonl:3: tokens are \\x1b[31m many");
    }

    #[test]
    fn what_cannot_be_read_at_all_is_an_error_under_either_rule() {
        let gone = || TrajectoryError::Unreadable { file: "x".into(), source: std::io::Error::other("gone") };
        for rule in [BadRows::Refuse, BadRows::Skip] {
            assert!(Sieve::new(rule).pass::<()>(Err(RowError::of(gone(), ""))).is_err());
        }
    }

    #[test]
    fn a_report_lists_so_many_and_counts_the_rest() {
        let mut sieve = Sieve::new(BadRows::Skip);
        for line in 0..LISTED_MAX as u64 + 5 {
            sieve.pass::<()>(Err(bad(line))).unwrap();
        }
        let report = sieve.report();
        assert_eq!((report.listed.len(), report.unlisted, report.total()), (LISTED_MAX, 5, LISTED_MAX as u64 + 5));
    }
}
