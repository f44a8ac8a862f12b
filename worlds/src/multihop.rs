//! Reads the multihop folder's files: real questions over real passages. Fields that graders and reports do not use
//! (`dataset`, `type`, `hops`, …) are left where they are.

use crate::error::WorldError;
use crate::jsonl::{IdText, Seen, Source};
use crate::plain::{Corpus, not_empty, take_question};
use crate::world::{Missing, MissingDocument, UNTIERED, World};
use legwork_protocol::id::{DocId, QuestionId};
use legwork_protocol::question::{Question, Step};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The files of a world in this form.
#[derive(Clone, Debug)]
pub struct Files {
    /// The corpus; further files add distractors.
    pub corpus: Vec<PathBuf>,
    /// Questions to train on, if wanted.
    pub train: Option<PathBuf>,
    /// Questions to evaluate on.
    pub test: PathBuf,
}

impl Files {
    /// The files of a folder by their usual names, with or without the further distractors.
    pub fn of_folder(folder: &Path, with_extra: bool) -> Files {
        let mut corpus = vec![folder.join("corpus.jsonl")];
        if with_extra {
            corpus.push(folder.join("corpus_extra.jsonl"));
        }
        Files { corpus, train: Some(folder.join("train.jsonl")), test: folder.join("test.jsonl") }
    }
}

/// Reads the world and lists needed documents that it lacks, where `missing` allows them.
pub fn read(files: &Files, missing: Missing) -> Result<(World, Vec<MissingDocument>), WorldError> {
    let mut corpus = Corpus::default();
    for path in &files.corpus {
        corpus.read(Source::open(path)?)?;
    }
    // One set of ids for both splits: a test question that is also a training question is refused here.
    let mut seen = Seen::default();
    let train = match &files.train {
        Some(path) => questions(Source::open(path)?, &mut seen)?,
        None => Vec::new(),
    };
    let test = questions(Source::open(&files.test)?, &mut seen)?;
    let world = World {
        name: "multihop".to_owned(),
        documents: corpus.documents,
        train,
        test,
        canary: None,
        told: std::collections::BTreeMap::new(),
    };
    let lacking = world.check_documents(missing)?;
    Ok((world, lacking))
}

/// Reads questions from bytes; `name` stands for the file in errors.
pub fn parse_questions(name: &str, bytes: &[u8]) -> Result<Vec<Question>, WorldError> {
    questions(Source::bytes(name, bytes), &mut Seen::default())
}

#[derive(Deserialize)]
struct Record {
    id: IdText,
    question: String,
    answers: Vec<String>,
    tier: Option<String>,
    #[serde(default)]
    gold_docids: Vec<IdText>,
    decomposition: Option<Vec<StepRecord>>,
}

#[derive(Deserialize)]
struct StepRecord {
    question: String,
    answer: String,
    gold_docid: Option<IdText>,
}

const RECORD: &str =
    "a multihop question {\"id\", \"question\", \"answers\", \"tier\", \"gold_docids\", \"decomposition\"}";

fn questions(source: Source<'_>, seen: &mut Seen) -> Result<Vec<Question>, WorldError> {
    let file = source.name.clone();
    let mut questions = Vec::new();
    source.records(RECORD, |place, record: Record| take_question(&mut questions, seen, &place, question(record)))?;
    not_empty(questions, &file, "questions")
}

/// The set calls gold what is needed on the way. The document that holds the answer is the last step's where the
/// steps say so, else all of them.
fn question(record: Record) -> Question {
    let evidence: Vec<DocId> = record.gold_docids.into_iter().map(|id| DocId::from(id.0)).collect();
    let step = |step: StepRecord| Step {
        question: step.question,
        answer: step.answer,
        gold: step.gold_docid.map(|id| DocId::from(id.0)),
        stated: Vec::new(),
        topics: Vec::new(),
    };
    let decomposition: Vec<Step> = record.decomposition.into_iter().flatten().map(step).collect();
    let last = decomposition.last();
    let held_by_last = last.filter(|step| record.answers.contains(&step.answer)).and_then(|step| step.gold.clone());
    let gold = held_by_last.map_or_else(|| evidence.clone(), |docid| vec![docid]);
    Question {
        id: QuestionId::from(record.id.0),
        text: record.question,
        answers: record.answers,
        tier: record.tier.unwrap_or_else(|| UNTIERED.to_owned()),
        gold,
        evidence,
        decomposition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r##"{"id": "q", "question": "Who?", "answers": ["Ann"], "dataset": "musique", "tier": "hard", "gold_docids": ["w1", "w2"], "decomposition": [{"question": "a >> b", "answer": "Bob", "gold_docid": "w1"}, {"question": "#1 >> c", "answer": "Ann", "gold_docid": "w2"}]}"##;

    #[test]
    fn needed_documents_are_evidence_and_the_last_step_holds_the_answer() {
        let question = &parse_questions("t.jsonl", LINE.as_bytes()).unwrap()[0];
        assert_eq!(question.evidence, ["w1".into(), "w2".into()]);
        assert_eq!(question.gold, ["w2".into()]);
        assert_eq!(question.decomposition[1].question, "#1 >> c");
    }

    #[test]
    fn without_steps_every_needed_document_counts_as_gold() {
        let start = LINE.find(", \"decomposition\"").unwrap();
        let line = format!("{}, \"decomposition\": null}}", &LINE[..start]);
        assert_eq!(parse_questions("t.jsonl", line.as_bytes()).unwrap()[0].gold.len(), 2);
    }

    #[test]
    fn a_question_of_both_splits_is_refused_by_its_id() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("corpus.jsonl", "{\"docid\": \"w1\", \"text\": \"x\"}\n{\"docid\": \"w2\", \"text\": \"y\"}\n");
        write("train.jsonl", LINE);
        write("test.jsonl", LINE);
        let files = Files::of_folder(folder.path(), false);
        let error = read(&files, Missing::Refuse).unwrap_err().to_string();
        assert!(
            error.contains("test.jsonl:1: the question id \"q\" stands already at") && error.contains("train.jsonl:1"),
            "{error}"
        );
        write("train.jsonl", &LINE.replace("\"q\"", "\"p\""));
        assert!(read(&files, Missing::Refuse).is_ok());
        write("corpus.jsonl", "{\"docid\": \"w1\", \"text\": \"x\"}\n");
        let error = read(&files, Missing::Refuse).unwrap_err().to_string();
        assert!(error.contains("2 needed documents are not in the corpus, first \"w2\" of question \"p\""), "{error}");
        assert_eq!(read(&files, Missing::List).unwrap().1.len(), 2);
    }
}
