//! The house's own format: a corpus and questions as JSON lines. It reads what it writes, and refuses fields that it
//! does not know, so that a misspelt one is not lost.

use crate::error::{Place, WorldError};
use crate::jsonl::{IdText, Seen, Source, some_text, without_nul};
use crate::world::{UNTIERED, WorldDocument};
use legwork_protocol::id::{DocId, QuestionId};
use legwork_protocol::question::{Question, Step};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

const QUESTION: &str = "a question {\"id\", \"question\", \"answers\", and optionally \"tier\", \"gold\", \"evidence\", \"decomposition\"}";
const DOCUMENT: &str = "a document {\"docid\", \"text\", and optionally \"title\", \"url\"}";

/// Reads the questions of a file.
pub fn read_questions(path: &Path) -> Result<Vec<Question>, WorldError> {
    questions(Source::open(path)?)
}

/// Reads questions from bytes; `name` stands for the file in errors.
pub fn parse_questions(name: &str, bytes: &[u8]) -> Result<Vec<Question>, WorldError> {
    questions(Source::bytes(name, bytes))
}

/// Reads the documents of a file.
pub fn read_corpus(path: &Path) -> Result<Vec<WorldDocument>, WorldError> {
    let mut corpus = Corpus::default();
    corpus.read(Source::open(path)?)?;
    Ok(corpus.documents)
}

/// Reads documents from bytes; `name` stands for the file in errors.
pub fn parse_corpus(name: &str, bytes: &[u8]) -> Result<Vec<WorldDocument>, WorldError> {
    let mut corpus = Corpus::default();
    corpus.read(Source::bytes(name, bytes))?;
    Ok(corpus.documents)
}

/// Writes questions, one a line.
pub fn write_questions(questions: &[Question], sink: &mut dyn Write) -> Result<(), WorldError> {
    questions.iter().try_for_each(|question| write_line(&Record::from(question), "questions", sink))
}

/// Writes documents, one a line.
pub fn write_corpus(documents: &[WorldDocument], sink: &mut dyn Write) -> Result<(), WorldError> {
    documents.iter().try_for_each(|document| write_line(document, "corpus", sink))
}

pub(crate) fn write_line<T: Serialize>(record: &T, what: &'static str, sink: &mut dyn Write) -> Result<(), WorldError> {
    let unwritable = |source| WorldError::Unwritable { what, source };
    let mut line = serde_json::to_vec(record).map_err(|error| unwritable(error.into()))?;
    line.push(b'\n');
    sink.write_all(&line).map_err(unwritable)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    #[serde(serialize_with = "plain_id")]
    id: IdText,
    question: String,
    answers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "plain_ids")]
    gold: Vec<IdText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "plain_ids")]
    evidence: Vec<IdText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    decomposition: Vec<StepRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepRecord {
    question: String,
    answer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gold: Option<DocId>,
}

fn plain_id<S: serde::Serializer>(id: &IdText, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&id.0)
}

fn plain_ids<S: serde::Serializer>(ids: &[IdText], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(|id| &id.0))
}

impl From<&Question> for Record {
    fn from(question: &Question) -> Self {
        let ids = |docids: &[DocId]| docids.iter().map(|docid| IdText(docid.to_string())).collect();
        let step = |step: &Step| StepRecord {
            question: step.question.clone(),
            answer: step.answer.clone(),
            gold: step.gold.clone(),
        };
        Record {
            id: IdText(question.id.to_string()),
            question: question.text.clone(),
            answers: question.answers.clone(),
            tier: Some(question.tier.clone()),
            gold: ids(&question.gold),
            evidence: ids(&question.evidence),
            decomposition: question.decomposition.iter().map(step).collect(),
        }
    }
}

fn questions(source: Source<'_>) -> Result<Vec<Question>, WorldError> {
    let file = source.name.clone();
    let mut seen = Seen::default();
    let mut questions = Vec::new();
    source.records(QUESTION, |place, record: Record| {
        let docids = |ids: Vec<IdText>| ids.into_iter().map(|id| DocId::from(id.0)).collect();
        let step = |step: StepRecord| Step {
            question: step.question,
            answer: step.answer,
            gold: step.gold,
            stated: Vec::new(),
            topics: Vec::new(),
        };
        let question = Question {
            id: QuestionId::from(record.id.0),
            text: record.question,
            answers: record.answers,
            tier: record.tier.unwrap_or_else(|| UNTIERED.to_owned()),
            gold: docids(record.gold),
            evidence: docids(record.evidence),
            decomposition: record.decomposition.into_iter().map(step).collect(),
        };
        take_question(&mut questions, &mut seen, &place, question)
    })?;
    not_empty(questions, &file, "questions")
}

/// Adds a question after the checks that every set has to pass.
pub(crate) fn take_question(
    questions: &mut Vec<Question>,
    seen: &mut Seen,
    place: &Place,
    question: Question,
) -> Result<(), WorldError> {
    check_id(place, "id", question.id.as_str())?;
    some_text(place, "question", &question.text)?;
    some_text(place, "tier", &question.tier)?;
    if question.answers.first().is_none_or(|answer| answer.trim().is_empty()) {
        return Err(WorldError::NoAnswer { place: place.clone(), id: question.id.to_string() });
    }
    question.answers.iter().try_for_each(|answer| some_text(place, "answers", answer))?;
    for docid in question.gold.iter().chain(&question.evidence) {
        check_id(place, "gold or evidence", docid.as_str())?;
    }
    for step in &question.decomposition {
        some_text(place, "decomposition.question", &step.question)?;
        without_nul(place, "decomposition.answer", &step.answer)?;
    }
    seen.insert("question", question.id.as_str(), place)?;
    questions.push(question);
    Ok(())
}

fn check_id(place: &Place, field: &str, id: &str) -> Result<(), WorldError> {
    some_text(place, field, id)
}

pub(crate) fn not_empty<T>(items: Vec<T>, file: &str, what: &'static str) -> Result<Vec<T>, WorldError> {
    if items.is_empty() { Err(WorldError::Empty { file: file.to_owned(), what }) } else { Ok(items) }
}

/// Documents gathered from one or more files.
#[derive(Default)]
pub(crate) struct Corpus {
    pub(crate) documents: Vec<WorldDocument>,
    seen: Seen,
    at: std::collections::BTreeMap<String, usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentRecord {
    docid: IdText,
    #[serde(default)]
    title: String,
    #[serde(default)]
    url: String,
    text: String,
}

impl Corpus {
    /// Adds the documents of a file; an id may not come twice, in one file or in several.
    pub(crate) fn read(&mut self, source: Source<'_>) -> Result<(), WorldError> {
        let file = source.name.clone();
        let before = self.documents.len();
        source.records(DOCUMENT, |place, record: DocumentRecord| {
            let docid = DocId::from(record.docid.0);
            self.seen.insert("document", docid.as_str(), &place)?;
            self.push(&place, WorldDocument { docid, title: record.title, url: record.url, text: record.text })
        })?;
        if self.documents.len() == before {
            return Err(WorldError::Empty { file, what: "documents" });
        }
        Ok(())
    }

    /// Adds a document that may have come before; then it has to be the same.
    pub(crate) fn merge(&mut self, place: &Place, document: WorldDocument) -> Result<(), WorldError> {
        let Some(first) = self.seen.first(document.docid.as_str()) else {
            self.seen.insert("document", document.docid.as_str(), place)?;
            return self.push(place, document);
        };
        if self.documents[self.at[document.docid.as_str()]] != document {
            let (place, first) = (place.clone(), first.clone());
            return Err(WorldError::DocumentDiffers { place, first, docid: document.docid.to_string() });
        }
        Ok(())
    }

    fn push(&mut self, place: &Place, document: WorldDocument) -> Result<(), WorldError> {
        check_id(place, "docid", document.docid.as_str())?;
        some_text(place, "text", &document.text)?;
        without_nul(place, "title", &document.title)?;
        without_nul(place, "url", &document.url)?;
        self.at.insert(document.docid.to_string(), self.documents.len());
        self.documents.push(document);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
