//! The STOP gate's pure half: what it is shown, how its decision is read, and what it was worth in hindsight. A gate is
//! a side call: it never enters the worker's conversation or budget, and what cannot be read is CONTINUE.

mod hindsight;
mod notes;
mod tally;
mod transcript;

pub use hindsight::Hindsight;
pub use notes::{GateMoment, GateNotes};
pub use tally::{GateTally, GateWorth};
pub use transcript::gate_messages;

use crate::call::Grammar;
use serde::{Deserialize, Serialize};

/// Stop or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateDecision {
    /// The candidate answer is supported: wrap up.
    Stop,
    /// Go on.
    Continue,
    /// Nothing that could be read, or no answer in time: go on.
    Unreadable,
}

/// What a gate said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateSaid {
    /// Stop or go on.
    pub decision: GateDecision,
    /// The candidate answer of a STOP.
    #[serde(default)]
    pub answer: Option<String>,
    /// The documents that support it, as written.
    #[serde(default)]
    pub evidence: Option<String>,
    /// A query or docid worth trying, of a CONTINUE.
    #[serde(default)]
    pub next: Option<String>,
    /// New tokens that the decision took.
    #[serde(default)]
    pub tokens: u64,
}

impl GateSaid {
    /// Nothing that could be read.
    pub fn unreadable() -> Self {
        Self { decision: GateDecision::Unreadable, answer: None, evidence: None, next: None, tokens: 0 }
    }

    /// Reads a decision from a model's text.
    pub fn read(text: &str, tokens: u64) -> Self {
        let reading = Grammar::Strict.read(text, &[]);
        let Some(call) = reading.calls.iter().rev().find(|call| call.name == "gate") else {
            return Self { tokens, ..Self::unreadable() };
        };
        let part = |name: &str| call.argument(name).map(str::trim).filter(|v| !v.is_empty()).map(str::to_owned);
        let decision = match part("decision").as_deref().map(str::to_ascii_uppercase).as_deref() {
            Some("STOP") => GateDecision::Stop,
            Some("CONTINUE") => GateDecision::Continue,
            _ => GateDecision::Unreadable,
        };
        Self { decision, answer: part("answer"), evidence: part("evidence"), next: part("next"), tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(decision: &str) -> GateDecision {
        let text =
            format!("<think>hm</think>\n<function=gate>\n<parameter=decision>{decision}</parameter>\n</function>");
        GateSaid::read(&text, 9).decision
    }

    #[test]
    fn what_cannot_be_read_is_not_a_stop() {
        assert_eq!(read(" stop "), GateDecision::Stop);
        assert_eq!(read("CONTINUE"), GateDecision::Continue);
        assert_eq!(read("STOP or CONTINUE"), GateDecision::Unreadable);
        assert_eq!(GateSaid::read("STOP", 1).decision, GateDecision::Unreadable);
    }
}
