//! Whether test questions are in rows to train on: by the hashes that rows carry, and by traces of the questions' words in their
//! texts; and what neither of them can prove, in words.
//! It refuses to know how traces are found and where questions come from.

use crate::rows::{AnyRow, BadReport, RawRow};
use crate::trajectory::{ChatMessage, IdRow};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Overlaps that a report lists one by one; further ones are counted.
pub const LISTED_MAX: usize = 1000;
/// Hexadecimal digits of a question's hash, which is SHA-256.
const HASH_DIGITS: usize = 64;

/// The questions of a test, by hash and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestQuestions {
    names: BTreeMap<String, BTreeSet<String>>,
}

/// Finds the names of test questions of which a text holds words, and whether it quotes them.
pub type FindTraces<'a> = &'a dyn Fn(&str) -> BTreeMap<String, Words>;
/// The text of token ids, where a tokenizer is at hand and takes them.
pub type Decode<'a> = &'a dyn Fn(&[u32]) -> Option<String>;

/// An audit under way.
pub struct Audit<'a> {
    test: &'a TestQuestions,
    traces: FindTraces<'a>,
    decode: Decode<'a>,
    report: AuditReport,
    questions: BTreeSet<String>,
}

/// How many of a test question's words a text holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Words {
    /// Half of its traces or more.
    Quote,
    /// Fewer.
    Trace,
}

/// How a row and a test question are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverlapKind {
    /// The row carries the question's hash.
    QuestionHash,
    /// The row's text holds half of the question's traces or more.
    Quote,
    /// The row's text holds fewer: words in a row that questions made from patterns share too.
    Trace,
}

/// A row and a test question that overlap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    /// The file of the row.
    pub file: String,
    /// Its line, or in a table its row, from 1.
    pub line: u64,
    /// The test question.
    pub question: String,
    /// How they overlap.
    pub kind: OverlapKind,
    /// Where in the row, such as `messages[2]`.
    pub part: String,
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditReport {
    /// Different test questions by their hashes.
    pub test_questions: u64,
    /// Of which the text is known too, so that traces could be looked for.
    pub test_texts: u64,
    /// Rows looked at.
    pub rows: u64,
    /// Rows with a question's hash.
    pub rows_with_hash: u64,
    /// Rows without one.
    pub rows_without_hash: u64,
    /// Rows whose hash is no SHA-256 in hexadecimal, and cannot be compared.
    pub rows_with_other_hash: u64,
    /// Token rows whose text could not be made, so that no trace could be looked for.
    pub rows_without_text: u64,
    /// Overlaps by hash.
    pub by_hash: u64,
    /// Overlaps by quote: each question once for each part of a row.
    pub by_quote: u64,
    /// Overlaps by trace, likewise.
    pub by_trace: u64,
    /// Different test questions that are found by hash or quote.
    pub questions_found: u64,
    /// The first [`LISTED_MAX`] overlaps.
    pub listed: Vec<Overlap>,
    /// How many more there were.
    pub unlisted: u64,
    /// Rows that could not be read.
    pub bad: BadReport,
    /// What this audit cannot prove, in words.
    pub cannot_prove: Vec<String>,
}

impl AuditReport {
    /// Whether no test question was found by hash or quote. Traces are to be looked at.
    pub fn is_clean(&self) -> bool {
        self.by_hash == 0 && self.by_quote == 0
    }
}

impl TestQuestions {
    /// Adds a question by its hash.
    pub fn add(&mut self, hash: &str, name: impl Into<String>) {
        self.names.entry(comparable(hash)).or_default().insert(name.into());
    }

    /// How many different questions there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl<'a> Audit<'a> {
    /// Begins an audit against a test; `test_texts` says of how many of its questions the words are known.
    pub fn new(test: &'a TestQuestions, test_texts: usize, traces: FindTraces<'a>, decode: Decode<'a>) -> Self {
        let report =
            AuditReport { test_questions: test.len() as u64, test_texts: test_texts as u64, ..AuditReport::default() };
        Self { test, traces, decode, report, questions: BTreeSet::new() }
    }

    /// Looks at a row.
    pub fn take(&mut self, row: &RawRow) {
        self.report.rows += 1;
        match row.row.metadata().question_hash.as_deref().map(comparable) {
            None => self.report.rows_without_hash += 1,
            Some(hash) if !is_sha256(&hash) => self.report.rows_with_other_hash += 1,
            Some(hash) => {
                self.report.rows_with_hash += 1;
                for name in self.test.names.get(&hash).into_iter().flatten() {
                    self.found(row, name, OverlapKind::QuestionHash, "metadata.question_hash".to_owned());
                }
            }
        }
        if self.report.test_texts == 0 {
            return;
        }
        match &row.row {
            AnyRow::Chat(chat) => {
                for (at, message) in chat.messages.iter().enumerate() {
                    self.text(row, &text_of(message), format!("messages[{at}]"));
                }
            }
            AnyRow::Text(text) => self.text(row, &text.learned(), "text".to_owned()),
            AnyRow::Ids(ids) => match (self.decode)(&all_ids(ids)) {
                Some(text) => self.text(row, &text, "ids".to_owned()),
                None => self.report.rows_without_text += 1,
            },
        }
    }

    /// What was found, with the rows that could not be read.
    pub fn finish(mut self, bad: BadReport) -> AuditReport {
        self.report.questions_found = self.questions.len() as u64;
        self.report.cannot_prove = cannot_prove(&self.report, bad.total());
        self.report.bad = bad;
        self.report
    }

    fn text(&mut self, row: &RawRow, text: &str, part: String) {
        for (name, words) in (self.traces)(text) {
            let kind = match words {
                Words::Quote => OverlapKind::Quote,
                Words::Trace => OverlapKind::Trace,
            };
            self.found(row, &name, kind, part.clone());
        }
    }

    fn found(&mut self, row: &RawRow, question: &str, kind: OverlapKind, part: String) {
        match kind {
            OverlapKind::QuestionHash => self.report.by_hash += 1,
            OverlapKind::Quote => self.report.by_quote += 1,
            OverlapKind::Trace => self.report.by_trace += 1,
        }
        if kind != OverlapKind::Trace {
            self.questions.insert(question.to_owned());
        }
        if self.report.listed.len() >= LISTED_MAX {
            self.report.unlisted += 1;
            return;
        }
        let (file, line) = (row.place.file.clone(), row.place.line);
        self.report.listed.push(Overlap { file, line, question: question.to_owned(), kind, part });
    }
}

/// What remains open, by what was there to look at.
fn cannot_prove(report: &AuditReport, bad: u64) -> Vec<String> {
    let mut open = Vec::new();
    let mut say = |text: String| open.push(text);
    let unknown = report.rows_without_hash + report.rows_with_other_hash;
    if unknown > 0 {
        say(format!(
            "{unknown} of {} rows carry no usable question hash: that they are of no test question is not shown",
            report.rows
        ));
    }
    if report.test_texts < report.test_questions {
        let texts = report.test_questions - report.test_texts;
        say(format!("of {texts} test questions only the hash is known: their words were not looked for"));
    }
    if report.rows_without_text > 0 {
        say(format!(
            "{} rows of ids could not be read as text: give the model that they are of",
            report.rows_without_text
        ));
    }
    if bad > 0 {
        say(format!("{bad} bad rows were not looked at"));
    }
    say("a question in other words, or in another language, leaves no trace that is looked for".to_owned());
    say("documents that answer test questions may be in the rows without the questions".to_owned());
    say("what the base model read before, in its own training, is not known".to_owned());
    open
}

/// All text of a message.
fn text_of(message: &ChatMessage) -> String {
    let mut text = message.content.clone();
    for more in message.reasoning_content.iter() {
        text.push('\n');
        text.push_str(more);
    }
    for call in &message.tool_calls {
        text.push('\n');
        text.push_str(&call.function.arguments.to_string());
    }
    text
}

fn all_ids(row: &IdRow) -> Vec<u32> {
    let spans = row.spans.iter().flat_map(|span| span.ids.iter());
    row.prompt_ids.iter().chain(spans).copied().collect()
}

fn comparable(hash: &str) -> String {
    hash.trim().to_ascii_lowercase()
}

fn is_sha256(hash: &str) -> bool {
    hash.len() == HASH_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Rows;
    use std::io::Cursor;

    const HASH: &str = "d4ef8c90d0e3ced2e9021d27f193c45b376ba9372c3d64b46ba76f25ad027bba";

    fn rows(lines: &[String]) -> Vec<RawRow> {
        Rows::over("rows.jsonl", Cursor::new(lines.join("\n"))).map(Result::unwrap).collect()
    }

    fn row(hash: &str, said: &str) -> String {
        let metadata =
            if hash.is_empty() { String::new() } else { format!(r#","metadata":{{"question_hash":"{hash}"}}"#) };
        format!(
            r#"{{"messages":[{{"role":"user","content":"q"}},{{"role":"assistant","content":"a","reasoning_content":"{said}"}}]{metadata}}}"#
        )
    }

    fn audit(rows: &[RawRow], texts: usize, decode: Decode<'_>) -> AuditReport {
        let mut test = TestQuestions::default();
        test.add(HASH, "t1");
        let find = |text: &str| {
            let words = match text {
                text if text.contains("secret question") => Words::Quote,
                text if text.contains("secret") => Words::Trace,
                _ => return BTreeMap::new(),
            };
            BTreeMap::from([("t1".to_owned(), words)])
        };
        let mut audit = Audit::new(&test, texts, &find, decode);
        rows.iter().for_each(|row| audit.take(row));
        audit.finish(BadReport::default())
    }

    #[test]
    fn a_test_question_is_found_by_its_hash_and_by_its_words() {
        let lines =
            [row(&HASH.to_uppercase(), "x"), row("", "a secret question"), row(&"0".repeat(64), ""), row("ab", "")];
        let report = audit(&rows(&lines), 1, &|_| None);
        assert_eq!((report.rows, report.rows_with_hash, report.rows_without_hash), (4, 2, 1));
        assert_eq!((report.rows_with_other_hash, report.questions_found), (1, 1));
        let found: Vec<_> = report.listed.iter().map(|one| (one.line, one.kind, one.part.as_str())).collect();
        let expected =
            [(1, OverlapKind::QuestionHash, "metadata.question_hash"), (2, OverlapKind::Quote, "messages[1]")];
        assert_eq!(found, expected);
        assert!(!report.is_clean());
        assert!(report.cannot_prove[0].starts_with("2 of 4 rows carry no usable question hash"));
    }

    #[test]
    fn what_could_not_be_looked_at_is_said() {
        let ids = r#"{"prompt_ids":[1],"spans":[{"actor":"w","turn":0,"kind":"sampled","ids":[5],"masked":false,"why":"sampled"}]}"#;
        let ids = rows(&[ids.to_owned()]);
        let blind = audit(&ids, 1, &|_| None);
        assert!(blind.is_clean() && blind.rows_without_text == 1);
        assert!(blind.cannot_prove.iter().any(|open| open.contains("1 rows of ids could not be read")));
        let seen = audit(&ids, 1, &|ids| Some(format!("secret question {ids:?}")));
        assert_eq!((seen.by_quote, seen.listed[0].part.as_str()), (1, "ids"));
        let without_texts = audit(&rows(&[row("", "secret question")]), 0, &|_| None);
        assert!(without_texts.is_clean());
        assert!(without_texts.cannot_prove.iter().any(|open| open.contains("of 1 test questions only the hash")));
        assert!(without_texts.cannot_prove.last().unwrap().contains("base model"));
    }

    #[test]
    fn a_shared_turn_of_phrase_is_listed_and_no_finding() {
        let report = audit(&rows(&[row("", "a secret answer")]), 1, &|_| None);
        assert_eq!((report.by_trace, report.questions_found, report.listed[0].kind), (1, 0, OverlapKind::Trace));
        assert!(report.is_clean());
    }

    #[test]
    fn overlaps_beyond_the_list_are_counted() {
        let lines = vec![row(HASH, ""); LISTED_MAX + 3];
        let report = audit(&rows(&lines), 0, &|_| None);
        assert_eq!((report.listed.len(), report.unlisted, report.by_hash), (LISTED_MAX, 3, LISTED_MAX as u64 + 3));
    }
}
