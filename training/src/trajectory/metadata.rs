//! Where a row comes from: question, run, episode, and what became of it. Lineage is what lets somebody prove that no
//! test question was trained on.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where a row comes from. Fields of other tools are kept as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// SHA-256 of the normalised question, in hexadecimal: the question's identity without its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_hash: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The question's id within the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode: Option<String>,
    /// The pass over the questions, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// The machine within the episode, such as `worker/0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Turns of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// How the episode ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The part of the question set, such as `train`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// What kind of row it is: `core`, `process`, `gate`, or another tool's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
