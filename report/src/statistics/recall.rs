//! Recall of documents: which share of the documents that matter was found.

use crate::number::Finite;
use legwork_protocol::id::DocId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Recall averaged over the questions that have any document to be found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanRecall {
    /// The mean of each question's recall; absent if no question has documents to be found.
    pub mean: Option<Finite>,
    /// Questions averaged over.
    pub questions: u64,
    /// Questions left out because nothing is known to be found.
    pub without: u64,
}

/// `|found ∩ wanted| / |wanted|` as sets; None if nothing is wanted.
pub fn recall(found: &BTreeSet<&DocId>, wanted: &[DocId]) -> Option<Finite> {
    let wanted: BTreeSet<&DocId> = wanted.iter().collect();
    Finite::ratio(wanted.intersection(found).count() as u64, wanted.len() as u64)
}

/// The mean of those that are defined, the others counted.
pub fn mean_recall(recalls: impl IntoIterator<Item = Option<Finite>>) -> MeanRecall {
    let (mut defined, mut without) = (Vec::new(), 0);
    for recall in recalls {
        match recall {
            Some(recall) => defined.push(recall.get()),
            None => without += 1,
        }
    }
    MeanRecall { mean: Finite::mean(&defined), questions: defined.len() as u64, without }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_without_evidence_is_left_out_and_counted() {
        let docs = |ids: &[&str]| ids.iter().map(DocId::new).collect::<Vec<_>>();
        let shown = docs(&["a", "b", "b", "x"]);
        let found: BTreeSet<&DocId> = shown.iter().collect();
        // A document that stands twice in the qrels is one document.
        let recalls = [recall(&found, &docs(&["a", "b", "c", "c"])), recall(&found, &[])];
        let mean = mean_recall(recalls);
        assert!((mean.mean.unwrap().get() - 2.0 / 3.0).abs() < 1e-15);
        assert_eq!((mean.questions, mean.without), (1, 1));
        assert_eq!(mean_recall([None]).mean, None);
    }

    #[test]
    fn document_ids_are_opaque() {
        let shown = [DocId::new("12")];
        let found: BTreeSet<&DocId> = shown.iter().collect();
        assert_eq!(recall(&found, &[DocId::new("00012")]), Some(Finite::ZERO));
    }
}
