//! What an episode that is over says of a worker's candidate: whether it was right, and which documents support it.
//! Reports and the rows that a gate is trained on judge by this one rule.

use crate::grading::exact_match;
use crate::id::DocId;
use crate::outcome::Outcome;
use crate::profile::ExactRule;
use crate::question::Question;

/// A question and what became of its episode.
#[derive(Clone, Copy, Debug)]
pub struct Hindsight<'a> {
    question: &'a Question,
    judged: Option<(&'a str, bool)>,
}

impl<'a> Hindsight<'a> {
    /// Of an episode that ended so, with this answer.
    pub fn new(question: &'a Question, outcome: Outcome, answer: Option<&'a str>) -> Self {
        let judged = answer.filter(|_| outcome.is_graded()).map(|answer| (answer, outcome.is_correct()));
        Self { question, judged }
    }

    /// Whether a worker's candidate was right: it equals an answer of the question, or the answer that was graded
    /// correct. None if it equals neither and no grader spoke in this episode: then nobody knows.
    pub fn is_right(&self, candidate: &str) -> Option<bool> {
        if exact_match(ExactRule::Strict, candidate, &self.question.answers) {
            return Some(true);
        }
        let (answer, correct) = self.judged?;
        let same =
            || candidate.trim() == answer.trim() || exact_match(ExactRule::Strict, candidate, &[answer.to_owned()]);
        Some(correct && !candidate.trim().is_empty() && same())
    }

    /// The documents of which one must have been opened before a candidate counts as supported: those that hold the
    /// answer, or where the question names none of these, all its evidence. May be empty: then support cannot be told.
    pub fn supporting(&self) -> &'a [DocId] {
        let question = self.question;
        if question.gold.is_empty() { &question.evidence } else { &question.gold }
    }

    /// Whether one of the documents supports the right answer.
    pub fn is_supported_by(&self, opened: &[DocId]) -> bool {
        opened.iter().any(|docid| self.supporting().contains(docid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(gold: &[&str], evidence: &[&str]) -> Question {
        let documents = |ids: &[&str]| ids.iter().map(|id| DocId::from(*id)).collect();
        Question {
            id: "q".into(),
            text: "?".into(),
            answers: vec!["Ada Lovelace".into()],
            tier: "easy".into(),
            gold: documents(gold),
            evidence: documents(evidence),
            decomposition: Vec::new(),
        }
    }

    #[test]
    fn a_candidate_is_right_by_the_key_or_by_the_verdict_over_the_same_answer() {
        let question = question(&[], &[]);
        let of = |outcome, answer| Hindsight::new(&question, outcome, answer);
        let correct = of(Outcome::Correct, Some("Countess of Lovelace"));
        assert_eq!(correct.is_right("ada lovelace"), Some(true));
        assert_eq!(correct.is_right("the countess of Lovelace"), Some(true));
        assert_eq!((correct.is_right("Bob"), correct.is_right(" ")), (Some(false), Some(false)));
        let wrong = of(Outcome::Wrong, Some("Bob"));
        assert_eq!((wrong.is_right("Bob"), wrong.is_right("Ada Lovelace")), (Some(false), Some(true)));
        for nobody in [of(Outcome::Ungraded, Some("Bob")), of(Outcome::Exhausted, None)] {
            assert_eq!((nobody.is_right("Bob"), nobody.is_right("Ada Lovelace")), (None, Some(true)));
        }
    }

    #[test]
    fn what_holds_the_answer_supports_it_and_evidence_on_the_way_only_where_nothing_else_is_named() {
        let opened = [DocId::from("d9")];
        let supported = |gold: &[&str], evidence: &[&str]| {
            let question = question(gold, evidence);
            Hindsight::new(&question, Outcome::Correct, None).is_supported_by(&opened)
        };
        assert!(!supported(&["d1"], &["d1", "d9"]));
        assert!(supported(&["d9"], &["d1", "d9"]) && supported(&[], &["d1", "d9"]));
        assert!(!supported(&[], &[]));
    }
}
