//! Reads BrowseComp-Plus, plain or obfuscated, and writes the obfuscated form, so that questions need never lie in
//! plain text where crawlers come. Documents are gathered from the records; the full corpus is read apart.

use crate::error::{Place, WorldError};
use crate::jsonl::{IdText, Seen, Source};
use crate::obfuscation::Cipher;
use crate::plain::{Corpus, not_empty, take_question, write_line};
use crate::world::{Canary, UNTIERED, WorldDocument};
use legwork_protocol::id::{DocId, QuestionId};
use legwork_protocol::question::Question;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// The set as read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrowseCompPlus {
    /// The questions, with gold and evidence documents.
    pub questions: Vec<Question>,
    /// Every document of the records, once: gold, evidence and negative.
    pub documents: Vec<WorldDocument>,
    /// For each question the documents that look right and are not.
    pub negatives: BTreeMap<QuestionId, Vec<DocId>>,
}

/// Reads a decrypted file.
pub fn read(path: &Path) -> Result<BrowseCompPlus, WorldError> {
    gather(Source::open(path)?, None)
}

/// Reads an obfuscated file with its canary.
pub fn read_obfuscated(path: &Path, canary: &Canary) -> Result<BrowseCompPlus, WorldError> {
    gather(Source::open(path)?, Some(canary))
}

/// Reads decrypted records from bytes; `name` stands for the file in errors.
pub fn parse(name: &str, bytes: &[u8]) -> Result<BrowseCompPlus, WorldError> {
    gather(Source::bytes(name, bytes), None)
}

/// Reads obfuscated records from bytes; `name` stands for the file in errors.
pub fn parse_obfuscated(name: &str, bytes: &[u8], canary: &Canary) -> Result<BrowseCompPlus, WorldError> {
    gather(Source::bytes(name, bytes), Some(canary))
}

/// Writes the obfuscated form: every text but `query_id` is closed with the canary. The form holds one answer and the
/// text of every document; a question that has more answers or lacks a text is refused. Tiers and steps have no
/// place in it.
pub fn write_obfuscated(set: &BrowseCompPlus, canary: &Canary, sink: &mut dyn Write) -> Result<(), WorldError> {
    let cipher = Cipher::new(canary);
    let texts: BTreeMap<&DocId, &WorldDocument> = set.documents.iter().map(|d| (&d.docid, d)).collect();
    for question in &set.questions {
        let documents = |docids: &[DocId]| -> Result<Vec<DocumentRecord>, WorldError> {
            let closed = |docid: &DocId| {
                let text = texts.get(docid).map(|document| DocumentRecord::closed(document, &cipher));
                text.ok_or_else(|| {
                    does_not_fit(question, "the text of every document", format!("{docid:?} without one"))
                })
            };
            docids.iter().map(closed).collect()
        };
        let [answer] = question.answers.as_slice() else {
            return Err(does_not_fit(question, "one answer", format!("{} answers", question.answers.len())));
        };
        let negative = set.negatives.get(&question.id).map_or(&[][..], Vec::as_slice);
        let record = Closed {
            query_id: question.id.as_str(),
            query: cipher.close(&question.text),
            answer: cipher.close(answer),
            gold_docs: documents(&question.gold)?,
            negative_docs: documents(negative)?,
            evidence_docs: documents(&question.evidence)?,
        };
        write_line(&record, "the obfuscated questions", sink)?;
    }
    Ok(())
}

fn does_not_fit(question: &Question, expected: &'static str, got: String) -> WorldError {
    WorldError::DoesNotFit { id: question.id.to_string(), expected, got }
}

#[derive(Serialize)]
struct Closed<'a> {
    query_id: &'a str,
    query: String,
    answer: String,
    gold_docs: Vec<DocumentRecord>,
    negative_docs: Vec<DocumentRecord>,
    evidence_docs: Vec<DocumentRecord>,
}

#[derive(Deserialize)]
struct Record {
    query_id: IdText,
    query: String,
    answer: String,
    gold_docs: Vec<DocumentRecord>,
    negative_docs: Vec<DocumentRecord>,
    evidence_docs: Vec<DocumentRecord>,
}

#[derive(Serialize, Deserialize)]
struct DocumentRecord {
    docid: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl DocumentRecord {
    fn closed(document: &WorldDocument, cipher: &Cipher) -> Self {
        DocumentRecord {
            docid: cipher.close(document.docid.as_str()),
            text: cipher.close(&document.text),
            url: Some(&document.url).filter(|url| !url.is_empty()).map(|url| cipher.close(url)),
        }
    }
}

const RECORD: &str = "a BrowseComp-Plus record {\"query_id\", \"query\", \"answer\", \"gold_docs\", \"negative_docs\", \"evidence_docs\"}";

fn gather(source: Source<'_>, canary: Option<&Canary>) -> Result<BrowseCompPlus, WorldError> {
    let cipher = canary.map(Cipher::new);
    let file = source.name.clone();
    let mut seen = Seen::default();
    let mut corpus = Corpus::default();
    let mut set = BrowseCompPlus::default();
    source.records(RECORD, |place, record: Record| {
        let opening = Opening { place: &place, cipher: cipher.as_ref() };
        let id = QuestionId::from(record.query_id.0);
        let gold = opening.documents("gold_docs", record.gold_docs, &mut corpus)?;
        let negative = opening.documents("negative_docs", record.negative_docs, &mut corpus)?;
        let mut evidence = opening.documents("evidence_docs", record.evidence_docs, &mut corpus)?;
        // Gold is part of the evidence in the published set; a record that leaves it out means it all the same.
        evidence.extend(gold.iter().filter(|docid| !evidence.contains(docid)).cloned().collect::<Vec<_>>());
        let question = Question {
            id: id.clone(),
            text: opening.text("query", record.query)?,
            answers: vec![opening.text("answer", record.answer)?],
            tier: UNTIERED.to_owned(),
            gold,
            evidence,
            decomposition: Vec::new(),
        };
        take_question(&mut set.questions, &mut seen, &place, question)?;
        set.negatives.insert(id, negative);
        Ok(())
    })?;
    set.questions = not_empty(set.questions, &file, "questions")?;
    set.documents = corpus.documents;
    Ok(set)
}

struct Opening<'a> {
    place: &'a Place,
    cipher: Option<&'a Cipher>,
}

impl Opening<'_> {
    fn text(&self, field: &str, text: String) -> Result<String, WorldError> {
        let Some(cipher) = self.cipher else { return Ok(text) };
        cipher.open(&text).map_err(|shut| WorldError::DoesNotOpen {
            place: self.place.clone(),
            field: field.to_owned(),
            why: shut.reason(),
        })
    }

    fn documents(
        &self,
        field: &str,
        records: Vec<DocumentRecord>,
        corpus: &mut Corpus,
    ) -> Result<Vec<DocId>, WorldError> {
        let mut docids: Vec<DocId> = Vec::new();
        for record in records {
            let docid = DocId::from(self.text(&format!("{field}.docid"), record.docid)?);
            let text = self.text(&format!("{field}.text"), record.text)?;
            let url = record.url.map(|url| self.text(&format!("{field}.url"), url)).transpose()?.unwrap_or_default();
            let document = WorldDocument { docid: docid.clone(), title: String::new(), url, text };
            corpus.merge(self.place, document)?;
            if !docids.contains(&docid) {
                docids.push(docid);
            }
        }
        Ok(docids)
    }
}

#[cfg(test)]
mod tests;
