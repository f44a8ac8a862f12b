//! Citations by BrowseComp-Plus' published rule: every run of digits inside innermost `[ ]` or `【 】` is
//! a cited document. The rule takes years and line numbers for documents; it is kept for comparison.

use crate::number::Finite;
use legwork_protocol::id::DocId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Precision and recall of citations against evidence, averaged over citing answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Citations {
    /// Answers looked at.
    pub answers: u64,
    /// Answers that cite anything.
    pub citing: u64,
    /// Mean of `|cited ∩ evidence| / |cited|` over citing answers.
    pub precision: Option<Finite>,
    /// Mean of `|cited ∩ evidence| / |evidence|` over citing answers whose question has evidence.
    pub recall: Option<Finite>,
    /// Citing answers whose question has evidence.
    pub with_evidence: u64,
}

/// The distinct documents that an answer cites. Only ASCII digits count, and they are compared as they
/// stand: `[007]` is not document 7.
pub fn cited(answer: &str) -> BTreeSet<DocId> {
    let mut found = BTreeSet::new();
    for (open, close) in [('[', ']'), ('【', '】')] {
        let mut inside = None;
        for (at, character) in answer.char_indices() {
            if character == open {
                inside = Some(at + open.len_utf8());
            } else if character == close
                && let Some(start) = inside.take()
            {
                let runs = answer[start..at].split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
                found.extend(runs.map(DocId::new));
            }
        }
    }
    found
}

/// Scores answers against their questions' evidence.
pub fn citations<'a>(answers: impl IntoIterator<Item = (&'a str, &'a [DocId])>) -> Citations {
    let (mut seen, mut precisions, mut recalls) = (0, Vec::new(), Vec::new());
    for (answer, evidence) in answers {
        seen += 1;
        let cited = cited(answer);
        let evidence: BTreeSet<&DocId> = evidence.iter().collect();
        let right = cited.iter().filter(|doc| evidence.contains(doc)).count() as u64;
        let Some(precision) = Finite::ratio(right, cited.len() as u64) else { continue };
        precisions.push(precision.get());
        recalls.extend(Finite::ratio(right, evidence.len() as u64).map(Finite::get));
    }
    Citations {
        answers: seen,
        citing: precisions.len() as u64,
        precision: Finite::mean(&precisions),
        recall: Finite::mean(&recalls),
        with_evidence: recalls.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(answer: &str) -> Vec<String> {
        cited(answer).iter().map(DocId::to_string).collect()
    }

    #[test]
    fn any_digits_in_brackets_are_citations() {
        assert_eq!(ids("In [2019] … [12, see p. 3] 【45†L1-L3】"), ["1", "12", "2019", "3", "45"]);
        assert_eq!(ids("[7] [8, 9] 【10】 7"), ["10", "7", "8", "9"]);
    }

    #[test]
    fn only_innermost_closed_brackets_count() {
        assert_eq!(ids("[1 [2] 3] [4"), ["2"]);
        assert_eq!(ids("] 5 [] [six] [\n7\n]"), ["7"]);
        assert_eq!(ids("【1 [2】 3]"), ["1", "2", "3"]);
    }

    #[test]
    fn answers_that_cite_nothing_leave_the_averages_alone() {
        let evidence = [DocId::new("1"), DocId::new("2")];
        let scored = citations([("[1] [3]", &evidence[..]), ("none", &evidence[..]), ("[9]", &[])]);
        assert_eq!((scored.answers, scored.citing, scored.with_evidence), (3, 2, 1));
        assert_eq!(scored.precision.unwrap().get(), 0.25);
        assert_eq!(scored.recall.unwrap().get(), 0.5);
        assert_eq!(citations([("none", &evidence[..])]).precision, None);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_every_citation_is_digits(answer in "[\\[\\]【】0-9a ]{0,40}|.{0,40}") {
            prop_assert!(cited(&answer).iter().all(|doc| doc.as_str().bytes().all(|b| b.is_ascii_digit())));
        }
    }
}
