//! A question with what is known about its answer. Coordinators and workers see only `text`;
//! graders see `answers`; reports see the rest.

use crate::id::{DocId, QuestionId};
use serde::{Deserialize, Serialize};

/// One question of a world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Opaque and unique in its set.
    pub id: QuestionId,
    /// What is asked.
    pub text: String,
    /// The answer first, then its aliases. Never empty in a loaded set.
    pub answers: Vec<String>,
    /// The stratum of the table, such as `easy`, `medium`, `hard`.
    pub tier: String,
    /// Documents that hold the answer (BrowseComp-Plus: gold).
    #[serde(default)]
    pub gold: Vec<DocId>,
    /// Documents needed on the way, gold included (BrowseComp-Plus: evidence).
    #[serde(default)]
    pub evidence: Vec<DocId>,
    /// The steps that lead to the answer, where the world knows them.
    #[serde(default)]
    pub decomposition: Vec<Step>,
}

/// One step of a question's known solution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What this step asks; `#1` stands for the answer of the first step.
    pub question: String,
    /// Its answer.
    pub answer: String,
    /// The document that says so.
    #[serde(default)]
    pub gold: Option<DocId>,
    /// Every document that says so by itself, and in which words; empty where the world does not know the words. It is for teachers:
    /// no question set is written with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stated: Vec<Stated>,
    /// What a document on the thing sought would tell of it, by the world's names for that; empty where it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
}

/// A document that states a step's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stated {
    /// The document.
    pub docid: DocId,
    /// Its sentences that do, as they stand there, each once.
    pub sentences: Vec<String>,
}

impl Question {
    /// What a step asks, with the answers of earlier steps for `#1`, `#2`, …, so that it can be asked alone; `None` where there is
    /// no such step.
    pub fn step_alone(&self, step: usize) -> Option<String> {
        let mut text = self.decomposition.get(step)?.question.clone();
        // From the back, so that `#1` does not eat the start of `#10`.
        for (earlier, known) in self.decomposition[..step].iter().enumerate().rev() {
            text = text.replace(&format!("#{}", earlier + 1), &known.answer);
        }
        Some(text)
    }
}
