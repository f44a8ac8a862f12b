//! One finished episode as reports read it: everything a table, a statistic or an export needs,
//! rebuilt from the ledger's events and never the other way round.

use crate::budget::Amount;
use crate::failure::Failure;
use crate::gate::GateTally;
use crate::id::{DocId, EpisodeKey};
use crate::outcome::{Outcome, Verdict};
use serde::{Deserialize, Serialize};

/// One finished episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpisodeRecord {
    /// Question and round.
    pub key: EpisodeKey,
    /// The question's stratum.
    pub tier: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The final answer, if there was one.
    pub answer: Option<String>,
    /// The grader's verdict, if there was something to grade.
    pub verdict: Option<Verdict>,
    /// What failed, if something did.
    pub failure: Option<Failure>,
    /// What the coordinator spent on itself.
    pub coordinator_spent: Amount,
    /// What all workers spent together.
    pub workers_spent: Amount,
    /// Workers asked.
    pub workers: u32,
    /// Of these, how many ran out of budget.
    pub workers_exhausted: u32,
    /// Searches made.
    pub searches: u32,
    /// Pages opened.
    pub opens: u32,
    /// Turns without a call that could be read.
    pub malformed_turns: u32,
    /// Calls that repeated an earlier one word for word.
    pub repeated_calls: u32,
    /// Search answers given by a part of the retriever only.
    pub degraded_searches: u32,
    /// All documents that any search showed, in order of first sight.
    pub retrieved: Vec<DocId>,
    /// Documents opened, in order.
    pub opened: Vec<DocId>,
    /// The question's gold documents.
    pub gold: Vec<DocId>,
    /// The question's evidence documents.
    pub evidence: Vec<DocId>,
    /// Gate decisions, if a gate was asked.
    #[serde(default)]
    pub gate: GateTally,
    /// Serving time of each turn in milliseconds, for percentiles.
    #[serde(default)]
    pub turn_served_ms: Vec<u64>,
}
