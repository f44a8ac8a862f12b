//! How an episode ends: one closed type. Every table places all of them, and the compiler sees to it.

use crate::failure::FailureKind;
use serde::{Deserialize, Serialize};

/// The end of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Graded correct.
    Correct,
    /// Graded wrong.
    Wrong,
    /// The coordinator ended without an answer.
    NoAnswer,
    /// A budget ran out before an answer.
    Exhausted,
    /// The model's output could not be read until its turns were used up.
    Malformed,
    /// Something outside the model failed.
    Failed(FailureKind),
    /// Somebody stopped it.
    Cancelled,
    /// Answered, but no grader gave a verdict that could be read. Counted wrong, shown apart.
    Ungraded,
}

impl Outcome {
    /// The outcome without its cause, as tables print it.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Correct => "correct",
            Outcome::Wrong => "wrong",
            Outcome::NoAnswer => "no answer",
            Outcome::Exhausted => "exhausted",
            Outcome::Malformed => "malformed",
            Outcome::Failed(_) => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Ungraded => "ungraded",
        }
    }

    /// Counts as a success. Everything else counts against.
    pub fn is_correct(self) -> bool {
        matches!(self, Outcome::Correct)
    }

    /// Whether a grader's verdict stands behind it: the second denominator.
    pub fn is_graded(self) -> bool {
        matches!(self, Outcome::Correct | Outcome::Wrong)
    }
}

/// What the grader says of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// None if no verdict could be read.
    pub correct: Option<bool>,
    /// The answer the judge saw in the response.
    #[serde(default)]
    pub extracted: Option<String>,
    /// 0 to 100, if the response or the judge gave one.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// Which way it was reached.
    pub how: GradedBy,
    /// The judge's own words, if a judge was asked.
    #[serde(default)]
    pub judge_text: Option<String>,
    /// Judge calls made.
    #[serde(default)]
    pub attempts: u32,
}

/// The way to a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GradedBy {
    /// The normalised answer equals a gold answer.
    ExactMatch,
    /// A judge model said so.
    Judge,
    /// There was nothing to grade.
    Blank,
    /// The judge could not be read or reached.
    Nobody,
}
