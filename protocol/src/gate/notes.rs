//! What a gate said over one worker, as the worker's report keeps it: enough to tell afterwards at which moments a STOP
//! was due. It refuses to know what the right answer is.

use super::{GateDecision, GateSaid};
use serde::{Deserialize, Serialize};

/// What a gate said over one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateNotes {
    /// Times asked.
    pub asked: u32,
    /// The candidate answer of each STOP.
    pub stops: Vec<Option<String>>,
    /// Tokens spent after the first STOP; where STOP is obeyed, what the wrap-up took.
    pub tokens_after_stop: u64,
    /// Each answer of the gate, in order. Ledgers of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<GateMoment>,
    /// Tokens of its lease that a worker left unspent because it obeyed a STOP.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unspent_tokens: u64,
}

/// One answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateMoment {
    /// Turns of the worker that were answered when it was asked.
    pub turn: u32,
    /// What it said.
    pub decision: GateDecision,
    /// How many of the report's opened documents, from the first, had been opened.
    pub opened: u32,
    /// Tokens that the worker had spent.
    pub spent_tokens: u64,
    /// New tokens that the gate took to say so.
    pub gate_tokens: u64,
}

impl GateNotes {
    /// Takes down what the gate said of a worker that has answered `turn` turns, opened so many documents and spent so
    /// many tokens.
    pub fn said(&mut self, said: &GateSaid, turn: u32, opened: usize, spent_tokens: u64) {
        if said.decision == GateDecision::Stop {
            self.stops.push(said.answer.clone());
        }
        self.moments.push(GateMoment {
            turn,
            decision: said.decision,
            opened: u32::try_from(opened).unwrap_or(u32::MAX),
            spent_tokens,
            gate_tokens: said.tokens,
        });
    }

    /// Tokens that the worker had spent at the first STOP.
    pub fn spent_at_stop(&self) -> Option<u64> {
        self.moments.iter().find(|moment| moment.decision == GateDecision::Stop).map(|moment| moment.spent_tokens)
    }
}

fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}
