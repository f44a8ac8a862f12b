//! What a gate said over one episode, against what turned out: counts that add up over a run. The worth of its STOPs is
//! judged by [`Hindsight`], at the very moments at which it was asked.

use super::{GateDecision, GateNotes, Hindsight};
use crate::id::DocId;
use serde::{Deserialize, Serialize};

/// What a gate said over one episode, against what turned out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateTally {
    /// Times asked.
    pub asked: u32,
    /// Times it said STOP.
    pub stops: u32,
    /// STOPs whose candidate was right; of a STOP that names none, the answer that its worker came to.
    pub right_stops: u32,
    /// Tokens spent by workers after their first STOP; where STOP is obeyed, what their wrap-ups took.
    pub tokens_after_stop: u64,
    /// What the moments say at which it was asked. Ledgers of earlier versions have nothing here.
    #[serde(default, skip_serializing_if = "GateWorth::is_nothing")]
    pub worth: GateWorth,
}

/// What a gate was worth, moment by moment. A STOP is due at a moment if the worker's answer turned out right and a
/// document that supports it had been opened by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GateWorth {
    /// Answers that could not be read or did not come in time.
    pub unreadable: u32,
    /// New tokens that the gate itself took.
    pub tokens: u64,
    /// STOPs of which it can be told whether they came too early: the question names the documents that support its
    /// answer, and if one had been opened, it is known whether the candidate was right.
    pub judged_stops: u32,
    /// Of these, those that came too early: the candidate was wrong, or nothing that supports it had been opened.
    pub premature_stops: u32,
    /// Workers that were asked about at a moment at which STOP was due.
    pub due_workers: u32,
    /// Of these, those to whom it said STOP at such a moment.
    pub stopped_when_due: u32,
    /// Tokens that workers spent after the first moment at which STOP was due: what a gate without fault would save.
    pub tokens_after_due: u64,
    /// Tokens of their leases that workers left unspent because they obeyed a STOP.
    pub unspent_tokens: u64,
}

impl GateWorth {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl GateTally {
    /// Adds what was said over one worker, which came to `answer`, opened these documents in order and spent so many
    /// tokens.
    pub fn add(
        &mut self,
        notes: &GateNotes,
        answer: Option<&str>,
        opened: &[DocId],
        spent: u64,
        after: &Hindsight<'_>,
    ) {
        let right = |candidate: Option<&str>| candidate.or(answer).and_then(|answer| after.is_right(answer));
        let count = |counts: bool| u32::from(counts);
        self.asked = self.asked.saturating_add(notes.asked);
        self.tokens_after_stop = self.tokens_after_stop.saturating_add(notes.tokens_after_stop);
        for candidate in &notes.stops {
            self.stops = self.stops.saturating_add(1);
            self.right_stops = self.right_stops.saturating_add(count(right(candidate.as_deref()) == Some(true)));
        }
        let worth = &mut self.worth;
        worth.unspent_tokens = worth.unspent_tokens.saturating_add(notes.unspent_tokens);
        let is_known = !after.supporting().is_empty();
        let mut candidates = notes.stops.iter();
        let mut first_due: Option<u64> = None;
        let mut stopped_when_due = false;
        for moment in &notes.moments {
            let seen = opened.get(..moment.opened as usize).unwrap_or(opened);
            let supported = after.is_supported_by(seen);
            let due = supported && right(None) == Some(true);
            worth.tokens = worth.tokens.saturating_add(moment.gate_tokens);
            worth.unreadable = worth.unreadable.saturating_add(count(moment.decision == GateDecision::Unreadable));
            if due {
                first_due.get_or_insert(moment.spent_tokens);
            }
            if moment.decision == GateDecision::Stop {
                let candidate = candidates.next().and_then(Option::as_deref);
                // Without support it is too early whatever the candidate; with it, the candidate decides.
                let premature = if supported { right(candidate).map(|right| !right) } else { is_known.then_some(true) };
                worth.judged_stops = worth.judged_stops.saturating_add(count(premature.is_some()));
                worth.premature_stops = worth.premature_stops.saturating_add(count(premature == Some(true)));
                stopped_when_due |= due;
            }
        }
        if let Some(at) = first_due {
            worth.due_workers = worth.due_workers.saturating_add(1);
            worth.tokens_after_due = worth.tokens_after_due.saturating_add(spent.saturating_sub(at));
        }
        worth.stopped_when_due = worth.stopped_when_due.saturating_add(count(stopped_when_due));
    }
}
