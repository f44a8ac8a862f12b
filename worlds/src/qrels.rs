//! TREC judgements: which documents are relevant to which question. They attach gold or evidence to questions that
//! came without.

use crate::error::{Place, WorldError};
use crate::jsonl::Source;
use legwork_protocol::id::{DocId, QuestionId};
use legwork_protocol::question::Question;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Judgements with their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qrels {
    judged: BTreeMap<QuestionId, Vec<Judgement>>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The document.
    pub docid: DocId,
    /// Above 0 for relevant.
    pub relevance: i32,
    /// Where it stands.
    pub place: Place,
}

/// What the judgements say of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It holds the answer. Gold is evidence too.
    Gold,
    /// It is needed on the way.
    Evidence,
}

/// What attaching did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Relevant documents attached that were not there before.
    pub documents: usize,
    /// Questions without a relevant document in the judgements.
    pub unjudged: Vec<QuestionId>,
    /// Judged questions that are not in the set; listed only where they are allowed.
    pub unknown: Vec<QuestionId>,
}

/// What to do about judgements for questions outside the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Refuse them.
    Refuse,
    /// List them, as when the set is a part of the judged one.
    List,
}

impl Qrels {
    /// Reads a file of four columns: query, anything, docid, relevance.
    pub fn read(path: &Path) -> Result<Qrels, WorldError> {
        Self::gather(Source::open(path)?)
    }

    /// Reads judgements from bytes; `name` stands for the file in errors.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Qrels, WorldError> {
        Self::gather(Source::bytes(name, bytes))
    }

    /// The judged questions with their judgements in file order.
    pub fn judged(&self) -> impl Iterator<Item = (&QuestionId, &[Judgement])> {
        self.judged.iter().map(|(id, judgements)| (id, judgements.as_slice()))
    }

    /// How many judgements there are.
    pub fn len(&self) -> usize {
        self.judged.values().map(Vec::len).sum()
    }

    /// Whether there is none; a read file always has some.
    pub fn is_empty(&self) -> bool {
        self.judged.is_empty()
    }

    /// Adds the relevant documents to the questions' gold or evidence.
    pub fn attach(&self, questions: &mut [Question], as_: Judged, unknown: Unknown) -> Result<Attached, WorldError> {
        let known: BTreeSet<QuestionId> = questions.iter().map(|question| question.id.clone()).collect();
        let mut attached = Attached::default();
        for (id, judgements) in self.judged.iter().filter(|(id, _)| !known.contains(*id)) {
            match (judgements.first(), unknown) {
                (Some(first), Unknown::Refuse) => {
                    let place = first.place.clone();
                    return Err(WorldError::UnknownQuestion { place, what: "a judgement", id: id.to_string() });
                }
                _ => attached.unknown.push(id.clone()),
            }
        }
        for question in questions {
            let judgements = self.judged.get(&question.id).map_or(&[][..], Vec::as_slice);
            let relevant: Vec<&DocId> = judgements.iter().filter(|j| j.relevance > 0).map(|j| &j.docid).collect();
            if relevant.is_empty() {
                attached.unjudged.push(question.id.clone());
            }
            for docid in relevant {
                let new_gold = as_ == Judged::Gold && add(&mut question.gold, docid);
                let new_evidence = add(&mut question.evidence, docid);
                attached.documents += usize::from(new_gold || new_evidence);
            }
        }
        Ok(attached)
    }

    fn gather(source: Source<'_>) -> Result<Qrels, WorldError> {
        let file = source.name.clone();
        let mut qrels = Qrels::default();
        let mut seen: BTreeMap<(String, String), Place> = BTreeMap::new();
        source.lines(|line| {
            // A byte order mark before a question is left from a file that was joined on, also behind white space.
            let text = line.text.trim_start_matches(|c: char| c == '\u{feff}' || c.is_ascii_whitespace());
            let columns: Vec<&str> = text.split_ascii_whitespace().collect();
            let [query, _, docid, relevance] = columns.as_slice() else {
                let got = format!("{} columns", columns.len());
                return Err(WorldError::BadJudgement { place: line.place, got });
            };
            let Ok(relevance) = relevance.parse::<i32>() else {
                let got = format!("the relevance {relevance:?}, which is no whole number");
                return Err(WorldError::BadJudgement { place: line.place, got });
            };
            if line.text.contains('\0') {
                return Err(WorldError::BadJudgement { place: line.place, got: "a NUL character".to_owned() });
            }
            let pair = ((*query).to_owned(), (*docid).to_owned());
            if let Some(first) = seen.get(&pair) {
                let (first, id) = (first.clone(), format!("{query} {docid}"));
                return Err(WorldError::DuplicateId { place: line.place, first, what: "judgement", id });
            }
            seen.insert(pair, line.place.clone());
            let judgement = Judgement { docid: DocId::new(docid), relevance, place: line.place };
            qrels.judged.entry(QuestionId::new(query)).or_default().push(judgement);
            Ok(())
        })?;
        if qrels.is_empty() { Err(WorldError::Empty { file, what: "judgements" }) } else { Ok(qrels) }
    }
}

fn add(docids: &mut Vec<DocId>, docid: &DocId) -> bool {
    let new = !docids.contains(docid);
    if new {
        docids.push(docid.clone());
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn relevant_documents_are_attached_and_gold_is_evidence() {
        let qrels = Qrels::parse("q.txt", b"1 0 d1 1\r\n1 0 d2 0\n01 Q0 d3 2\n").unwrap();
        let mut questions = [question("1"), question("01"), question("2")];
        let attached = qrels.attach(&mut questions, Judged::Gold, Unknown::Refuse).unwrap();
        assert_eq!(questions[0].gold, ["d1".into()]);
        assert_eq!(questions[0].evidence, ["d1".into()]);
        assert_eq!(questions[1].gold, ["d3".into()]);
        assert_eq!(attached, Attached { documents: 2, unjudged: vec!["2".into()], unknown: vec![] });
    }

    #[test]
    fn a_byte_order_mark_before_a_question_is_no_part_of_it() {
        let judged = Qrels::parse("q.txt", "\u{feff}1 0 d1 1\n \u{feff}1 0 d2 1\n".as_bytes()).unwrap().judged;
        assert_eq!(judged.into_iter().map(|(id, judged)| (id, judged.len())).collect::<Vec<_>>(), [("1".into(), 2)]);
    }

    #[test]
    fn judgements_for_unknown_questions_are_refused_or_listed() {
        let qrels = Qrels::parse("q.txt", b"9 0 d1 1\n").unwrap();
        let refused = qrels.attach(&mut [question("1")], Judged::Evidence, Unknown::Refuse).unwrap_err().to_string();
        assert!(refused.contains("q.txt:1") && refused.contains("\"9\""), "{refused}");
        let listed = qrels.attach(&mut [question("1")], Judged::Evidence, Unknown::List).unwrap();
        assert_eq!(listed.unknown, ["9".into()]);
    }

    #[test]
    fn bad_lines_are_named() {
        let message = |bytes: &[u8]| Qrels::parse("q.txt", bytes).unwrap_err().to_string();
        assert!(message(b"1 0 d1 1\n1 0 d2\n").contains("q.txt:2: expected `query 0 docid relevance`, got 3 columns"));
        assert!(message(b"1 0 d1 yes\n").contains("no whole number"));
        assert!(
            message(b"1 0 d1 1\n1 0 d1 1\n").contains("q.txt:2: the judgement id \"1 d1\" stands already at q.txt:1")
        );
        assert!(message(b"").contains("expected judgements, got none"));
    }
}
