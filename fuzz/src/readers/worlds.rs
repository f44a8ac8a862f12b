//! Readers of corpora with questions: what is taken is whole and unique, can be written in the house's own form and reads
//! the same from there; what is not taken is an error that names its file.

use super::{first_line, text};
use legwork_protocol::question::Question;
use legwork_worlds::errata::Errata;
use legwork_worlds::obfuscation::Cipher;
use legwork_worlds::qrels::{Judged, Qrels, Unknown};
use legwork_worlds::{Canary, WorldDocument, WorldError, browsecomp_plus as bcp, multihop as hops, plain};
use std::collections::BTreeSet;

/// What stands for a file in errors.
const NAME: &str = "input.jsonl";

pub fn plain_questions(bytes: &[u8]) {
    questions_hold(taken(plain::parse_questions(NAME, bytes)));
}

pub fn plain_corpus(bytes: &[u8]) {
    documents_hold(taken(plain::parse_corpus(NAME, bytes)));
}

pub fn multihop(bytes: &[u8]) {
    questions_hold(taken(hops::parse_questions(NAME, bytes)));
}

pub fn browsecomp_plus(bytes: &[u8]) {
    let Some(set) = taken(bcp::parse(NAME, bytes)) else { return };
    set_holds(&set);
    let canary = Canary::new("a canary of the fuzz targets");
    let mut closed = Vec::new();
    if bcp::write_obfuscated(&set, &canary, &mut closed).is_ok() {
        let again = taken(bcp::parse_obfuscated(NAME, &closed, &canary)).expect("what was closed opens again");
        assert_eq!(again.questions, set.questions);
        assert_eq!(again.negatives, set.negatives);
    }
}

/// The first line is the canary, the rest a file that was closed with it, or with another.
pub fn obfuscated(bytes: &[u8]) {
    let text = text(bytes);
    let (canary, file) = first_line(&text);
    let canary = Canary::new(canary);
    if let Some(set) = taken(bcp::parse_obfuscated(NAME, file.as_bytes(), &canary)) {
        set_holds(&set);
    }
    let cipher = Cipher::new(&canary);
    assert_eq!(cipher.open(&cipher.close(file)).as_deref(), Ok(file), "what is closed opens again");
    if let Ok(open) = cipher.open(file) {
        assert_eq!(cipher.close(&open), file, "one text has one closed form");
    }
}

pub fn foldagent(bytes: &[u8]) {
    let Some(table) = taken(legwork_worlds::foldagent::parse("input.parquet", bytes.to_vec())) else { return };
    questions_hold(Some(table.questions));
}

pub fn qrels(bytes: &[u8]) {
    let Some(qrels) = taken(Qrels::parse("input.txt", bytes)) else { return };
    assert!(!qrels.is_empty());
    assert_eq!(qrels.judged().map(|(_, judgements)| judgements.len()).sum::<usize>(), qrels.len());
    let mut questions: Vec<Question> = qrels.judged().map(|(id, _)| question(id.as_str())).collect();
    let attached = taken(qrels.attach(&mut questions, Judged::Gold, Unknown::Refuse)).expect("every question is known");
    assert!(attached.documents <= qrels.len() && attached.unknown.is_empty());
    assert!(questions.iter().all(|question| question.gold.iter().all(|gold| question.evidence.contains(gold))));
}

pub fn errata(bytes: &[u8]) {
    let text = text(bytes);
    let Ok(errata) = Errata::parse("input.toml", &text).inspect_err(names_its_file) else { return };
    let mut questions: Vec<Question> = errata.entries().iter().map(|erratum| question(&erratum.question)).collect();
    let before = questions.clone();
    match errata.apply(&mut questions) {
        Ok(corrected) => assert_eq!(corrected.len(), errata.entries().len()),
        Err(_) => assert_eq!(questions, before, "a list that is refused changes nothing"),
    }
}

fn question(id: &str) -> Question {
    Question {
        id: id.into(),
        text: "Which?".to_owned(),
        answers: vec!["this".to_owned()],
        tier: "all".to_owned(),
        gold: Vec::new(),
        evidence: Vec::new(),
        decomposition: Vec::new(),
    }
}

fn taken<T>(read: Result<T, WorldError>) -> Option<T> {
    read.inspect_err(names_its_file).ok()
}

fn names_its_file(error: &WorldError) {
    let told = error.to_string();
    assert!(told.contains("input."), "an error without its file: {told}");
}

fn set_holds(set: &bcp::BrowseCompPlus) {
    questions_hold(Some(set.questions.clone()));
    documents_hold(Some(set.documents.clone()));
    let known: BTreeSet<_> = set.documents.iter().map(|document| &document.docid).collect();
    for question in &set.questions {
        assert!(question.gold.iter().chain(&question.evidence).all(|docid| known.contains(docid)));
        assert!(set.negatives[&question.id].iter().all(|docid| known.contains(docid)));
    }
}

fn questions_hold(questions: Option<Vec<Question>>) {
    let Some(questions) = questions else { return };
    let ids: BTreeSet<_> = questions.iter().map(|question| &question.id).collect();
    assert!(!ids.is_empty() && ids.len() == questions.len(), "ids are unique, and there are some");
    assert!(questions.iter().all(|question| question.answers.iter().all(|answer| !answer.trim().is_empty())));
    let mut written = Vec::new();
    plain::write_questions(&questions, &mut written).expect("questions can be written to memory");
    let again = taken(plain::parse_questions(NAME, &written)).expect("what was written reads");
    assert_eq!(again, questions);
}

fn documents_hold(documents: Option<Vec<WorldDocument>>) {
    let Some(documents) = documents else { return };
    let ids: BTreeSet<_> = documents.iter().map(|document| &document.docid).collect();
    assert_eq!(ids.len(), documents.len(), "ids are unique");
    if documents.is_empty() {
        return;
    }
    let mut written = Vec::new();
    plain::write_corpus(&documents, &mut written).expect("documents can be written to memory");
    let again = taken(plain::parse_corpus(NAME, &written)).expect("what was written reads");
    assert_eq!(again, documents);
}
