//! Where each planned episode is placed. The match over `Outcome` has no wildcard, so that a new way
//! for an episode to end cannot be forgotten by any table.

use legwork_protocol::failure::FailureKind;
use legwork_protocol::outcome::Outcome;
use legwork_protocol::record::EpisodeRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Planned episodes by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeCounts {
    /// Graded correct.
    pub correct: u64,
    /// Graded wrong.
    pub wrong: u64,
    /// Answered, but without a readable verdict.
    pub ungraded: u64,
    /// Ended without an answer.
    pub no_answer: u64,
    /// Ran out of budget.
    pub exhausted: u64,
    /// Output that could not be read.
    pub malformed: u64,
    /// Something outside the model failed, by cause.
    pub failed: BTreeMap<FailureKind, u64>,
    /// Stopped by somebody.
    pub cancelled: u64,
    /// Planned, but without a record.
    pub not_run: u64,
}

/// The kinds in the order in which tables and plots show them.
pub const KINDS: [&str; 9] =
    ["correct", "wrong", "ungraded", "no answer", "exhausted", "malformed", "failed", "cancelled", "not run"];

impl OutcomeCounts {
    /// Counts one planned episode; `None` was not run.
    pub fn place(&mut self, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else {
            self.not_run += 1;
            return;
        };
        match outcome {
            Outcome::Correct => self.correct += 1,
            Outcome::Wrong => self.wrong += 1,
            Outcome::NoAnswer => self.no_answer += 1,
            Outcome::Exhausted => self.exhausted += 1,
            Outcome::Malformed => self.malformed += 1,
            Outcome::Failed(kind) => *self.failed.entry(kind).or_default() += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Ungraded => self.ungraded += 1,
        }
    }

    /// The counts in the order of [`KINDS`], failures of all causes together.
    pub fn by_kind(&self) -> [u64; 9] {
        let OutcomeCounts { correct, wrong, ungraded, no_answer, exhausted, malformed, failed, cancelled, not_run } =
            self;
        let failed = failed.values().sum();
        [*correct, *wrong, *ungraded, *no_answer, *exhausted, *malformed, failed, *cancelled, *not_run]
    }

    /// All planned episodes: the first denominator.
    pub fn planned(&self) -> u64 {
        self.by_kind().iter().sum()
    }

    /// Those that a grader judged: the second denominator.
    pub fn graded(&self) -> u64 {
        self.correct + self.wrong
    }
}

/// One cause of failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCause {
    /// Which of the closed list.
    pub cause: FailureKind,
    /// Episodes that ended of it.
    pub episodes: u64,
    /// The first such episode's own words, if it left any: what was expected, what came, what to do.
    pub example: Option<String>,
}

/// Failures by cause, the most frequent first, then in the closed list's order.
pub(super) fn failures(ran: &[&EpisodeRecord]) -> Vec<FailureCause> {
    let mut causes: BTreeMap<FailureKind, FailureCause> = BTreeMap::new();
    for record in ran {
        let Outcome::Failed(cause) = record.outcome else { continue };
        let entry = causes.entry(cause).or_insert(FailureCause { cause, episodes: 0, example: None });
        entry.episodes += 1;
        if entry.example.is_none() {
            entry.example = record.failure.as_ref().map(|failure| failure.detail.clone());
        }
    }
    let mut causes: Vec<_> = causes.into_values().collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.episodes));
    causes
}
