//! What can be wrong with a world, each with the place, what was expected, what came and the cure.

use std::fmt;
use std::path::PathBuf;

/// A line of a file, from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, as it was named to the reader.
    pub file: String,
    /// The line, from 1; in a parquet file the row, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A file cannot be opened or read.
    #[error("cannot read {}: {source}; check that it exists and may be read", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A writer refused.
    #[error("cannot write {what}: {source}; check the place and the space left")]
    Unwritable {
        /// What was being written.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A file or one of its lines is larger than its limit.
    #[error("{file} holds more than {max_bytes} bytes in {what}; split it, or check that it is the right file")]
    TooLarge {
        /// The file.
        file: String,
        /// The whole file or a line of it.
        what: String,
        /// The limit.
        max_bytes: u64,
    },
    /// A line is not UTF-8.
    #[error("{place}: expected UTF-8, got another encoding at byte {at_byte} of the line; convert the file to UTF-8")]
    NotUtf8 {
        /// Where.
        place: Place,
        /// The first bad byte of the line, from 0.
        at_byte: usize,
    },
    /// The last line ends in the middle of a record.
    #[error("{place}: the last line is torn: {message}; fetch or write the file again, it was cut short")]
    TornLine {
        /// Where.
        place: Place,
        /// What the parser missed.
        message: String,
    },
    /// A line is blank although records follow it.
    #[error("{place}: expected a record, got a blank line with more lines after it; delete it or restore the record")]
    BlankLine {
        /// Where.
        place: Place,
    },
    /// A line is not the JSON record that was expected.
    #[error("{place}: expected {expected}, got something else: {message}; correct that line")]
    BadRecord {
        /// Where.
        place: Place,
        /// The record's shape.
        expected: &'static str,
        /// The parser's message.
        message: String,
    },
    /// A text holds half of a surrogate pair.
    #[error(
        "{place}: expected text, got half of a surrogate pair ({escape}); the text was cut inside a character: restore it from its source"
    )]
    LoneSurrogate {
        /// Where.
        place: Place,
        /// The escape.
        escape: String,
    },
    /// A text that may not be empty or hold NUL is so.
    #[error("{place}: expected text in `{field}`, got {got}; {cure}")]
    BadText {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// What came.
        got: &'static str,
        /// What to do.
        cure: &'static str,
    },
    /// An id came before.
    #[error("{place}: the {what} id {id:?} stands already at {first}; ids are unique: rename or remove one of the two")]
    DuplicateId {
        /// The second place.
        place: Place,
        /// The first place.
        first: Place,
        /// A question's or a document's.
        what: &'static str,
        /// The id.
        id: String,
    },
    /// A document came twice with different contents.
    #[error(
        "{place}: document {docid:?} differs from the one of that id at {first}; one id is one text: correct one of the two"
    )]
    DocumentDiffers {
        /// The second place.
        place: Place,
        /// The first place.
        first: Place,
        /// The id.
        docid: String,
    },
    /// A file holds no record at all.
    #[error("{file}: expected {what}, got none; check that it is the right file and that it was written to the end")]
    Empty {
        /// The file.
        file: String,
        /// What was expected in it.
        what: &'static str,
    },
    /// A question has no answer that it could be graded by.
    #[error("{place}: question {id:?} has no answer; give it one or leave the question out")]
    NoAnswer {
        /// Where.
        place: Place,
        /// The question.
        id: String,
    },
    /// Questions need documents that the corpus lacks.
    #[error(
        "{count} needed documents are not in the corpus, first {docid:?} of question {question:?}; add the corpus file that holds them, or allow missing documents to have them listed"
    )]
    MissingDocuments {
        /// How many (question, document) pairs.
        count: usize,
        /// The first question.
        question: String,
        /// Its missing document.
        docid: String,
    },
    /// A judgement or an erratum names a question that is not in the set.
    #[error("{place}: {what} for question {id:?}, which is not in the set; check that the files belong together")]
    UnknownQuestion {
        /// Where.
        place: Place,
        /// What named it.
        what: &'static str,
        /// The question.
        id: String,
    },
    /// A qrels line is not four columns.
    #[error("{place}: expected `query 0 docid relevance`, got {got}; correct that line")]
    BadJudgement {
        /// Where.
        place: Place,
        /// What came.
        got: String,
    },
    /// A text of the obfuscated form does not open with this canary.
    #[error("{place}: `{field}` does not open: {why}; check the canary, and that the file is the obfuscated form")]
    DoesNotOpen {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// What failed.
        why: &'static str,
    },
    /// A question cannot be written in a form without losing something.
    #[error(
        "question {id:?} has {got}, and the form holds {expected}; write the plain form, or give it what the form holds"
    )]
    DoesNotFit {
        /// The question.
        id: String,
        /// What the form holds.
        expected: &'static str,
        /// What the question has.
        got: String,
    },
    /// A parquet file cannot be read as the expected table.
    #[error("{file}: expected a parquet table with {expected}, got {got}; fetch the file again or check its schema")]
    BadTable {
        /// The file.
        file: String,
        /// The columns.
        expected: &'static str,
        /// What came.
        got: String,
    },
    /// A row of a parquet file lacks or misfills a column.
    #[error("{place}: expected {expected} in column `{column}`, got {got}; correct that row")]
    BadCell {
        /// The file and the row.
        place: Place,
        /// The column's path.
        column: &'static str,
        /// What it holds.
        expected: &'static str,
        /// What came.
        got: String,
    },
    /// An errata list is not readable or not meaningful.
    #[error("{file}: {problem}; {cure}")]
    BadErratum {
        /// The file.
        file: String,
        /// What is wrong, with its place.
        problem: String,
        /// What to do.
        cure: &'static str,
    },
    /// A seed gives a fact base in which too few questions can be proven.
    #[error("wanted {wanted} {tier} questions for {split}, found {found}; choose another seed")]
    WorldTooPoor {
        /// The split.
        split: &'static str,
        /// The tier.
        tier: &'static str,
        /// How many were wanted.
        wanted: usize,
        /// How many were found.
        found: usize,
    },
}
