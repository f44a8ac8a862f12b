//! What a gate was worth over a run: its STOPs against what turned out, what obeying it saves or saved, and what asking
//! it took. What is not known of an episode is in no denominator.

use super::spending::sum;
use crate::number::Finite;
use legwork_protocol::profile::GateMode;
use legwork_protocol::record::EpisodeRecord;
use serde::{Deserialize, Serialize};

/// What a gate was worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GateSummary {
    /// Whether it was obeyed, if whoever asked for the summary said so.
    pub mode: Option<GateMode>,
    /// Episodes in which it was asked.
    pub episodes: u64,
    /// Times asked.
    pub asked: u64,
    /// Of these, answers that could not be read or did not come in time.
    pub unreadable: u64,
    /// Times it said STOP.
    pub stops: u64,
    /// STOPs whose candidate was right; of one that names none, the answer that its worker came to.
    pub right_stops: u64,
    /// Right STOPs among STOPs.
    pub precision: Option<Finite>,
    /// STOPs of which it can be told whether they came too early.
    pub judged_stops: u64,
    /// Of these, those that did: the candidate was wrong, or nothing that supports it had been opened.
    pub premature_stops: u64,
    /// The share of those two.
    pub premature_rate: Option<Finite>,
    /// Workers that were asked about when STOP was due: their answer turned out right, and a document that supports it
    /// had been opened.
    pub due_workers: u64,
    /// Of these, those to whom it said STOP at such a moment.
    pub stopped_when_due: u64,
    /// The share of those two.
    pub recall: Option<Finite>,
    /// Of the episodes that asked it and ended correct, those with a right STOP, counted.
    pub found: u64,
    /// Episodes that asked it and ended correct.
    pub findable: u64,
    /// Tokens that workers spent after their first STOP: what obeying would have saved but for the wrap-ups, or where
    /// it was obeyed, what the wrap-ups took.
    pub tokens_after_stop: u64,
    /// These as a share of all that workers spent in these episodes.
    pub saved_share: Option<Finite>,
    /// Tokens that workers spent after STOP was first due: what a gate without fault would save.
    pub tokens_after_due: u64,
    /// These as a share of the same.
    pub due_share: Option<Finite>,
    /// Tokens of their leases that workers left unspent because they obeyed: the most that it can have saved.
    pub unspent_tokens: u64,
    /// New tokens that the gate itself took.
    pub tokens: u64,
    /// These as a share of all that workers spent in these episodes.
    pub cost_share: Option<Finite>,
}

impl GateSummary {
    /// The share of correct episodes that had a right STOP.
    pub fn found_share(&self) -> Option<Finite> {
        Finite::ratio(self.found, self.findable)
    }
}

pub(super) fn gate(ran: &[&EpisodeRecord], mode: Option<GateMode>) -> Option<GateSummary> {
    let asked: Vec<&EpisodeRecord> = ran.iter().copied().filter(|record| record.gate.asked > 0).collect();
    if asked.is_empty() && matches!(mode, None | Some(GateMode::Off)) {
        return None;
    }
    let count = |of: fn(&EpisodeRecord) -> u32| sum(&asked, of);
    let add = |of: fn(&EpisodeRecord) -> u64| asked.iter().fold(0u64, |sum, record| sum.saturating_add(of(record)));
    let correct = || asked.iter().filter(|record| record.outcome.is_correct());
    let spent = add(|record| record.workers_spent.tokens);
    let (stops, right_stops) = (count(|record| record.gate.stops), count(|record| record.gate.right_stops));
    let judged_stops = count(|record| record.gate.worth.judged_stops);
    let premature_stops = count(|record| record.gate.worth.premature_stops);
    let due_workers = count(|record| record.gate.worth.due_workers);
    let stopped_when_due = count(|record| record.gate.worth.stopped_when_due);
    let tokens_after_stop = add(|record| record.gate.tokens_after_stop);
    let tokens_after_due = add(|record| record.gate.worth.tokens_after_due);
    let tokens = add(|record| record.gate.worth.tokens);
    Some(GateSummary {
        mode,
        episodes: asked.len() as u64,
        asked: count(|record| record.gate.asked),
        unreadable: count(|record| record.gate.worth.unreadable),
        stops,
        right_stops,
        precision: Finite::ratio(right_stops, stops),
        judged_stops,
        premature_stops,
        premature_rate: Finite::ratio(premature_stops, judged_stops),
        due_workers,
        stopped_when_due,
        recall: Finite::ratio(stopped_when_due, due_workers),
        found: correct().filter(|record| record.gate.right_stops > 0).count() as u64,
        findable: correct().count() as u64,
        tokens_after_stop,
        saved_share: Finite::ratio(tokens_after_stop, spent),
        tokens_after_due,
        due_share: Finite::ratio(tokens_after_due, spent),
        unspent_tokens: add(|record| record.gate.worth.unspent_tokens),
        tokens,
        cost_share: Finite::ratio(tokens, spent),
    })
}
