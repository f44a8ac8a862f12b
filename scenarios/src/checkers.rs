//! What must hold of every run, whatever went wrong in it. Each checker is a room of its own: it reads the ledger, the
//! records and the probe, and says what it finds. None of them changes anything.

mod acknowledged;
mod budgets;
mod conservation;
mod expectations;
mod leaks;
mod liveness;
mod permits;
mod rebuild;
mod repeats;

use crate::desk::Desk;
use crate::probe::Probe;
use crate::scenario::Scenario;
use crate::universe::LifeEnd;
use legwork_actors::ledger::History;
use legwork_protocol::coordinator::Script;
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::profile::Profile;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Something that no run may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which checker found it.
    pub checker: &'static str,
    /// What it found.
    pub says: String,
}

impl Finding {
    /// A finding of this checker.
    pub fn new(checker: &'static str, says: impl Into<String>) -> Self {
        Self { checker, says: says.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.says)
    }
}

/// What the checkers look at.
pub struct Case<'a> {
    /// What was played.
    pub scenario: &'a Scenario,
    /// Its profile.
    pub profile: &'a Profile,
    /// Its coordinator's lines, if it had any.
    pub script: Option<&'a Script>,
    /// What struck.
    pub desk: &'a Arc<Desk>,
    /// What was seen.
    pub probe: &'a Arc<Probe>,
    /// Every planned episode.
    pub planned: &'a [EpisodeKey],
    /// The questions.
    pub questions: &'a [Arc<Question>],
    /// What the ledger holds of each planned episode after it all.
    pub histories: &'a BTreeMap<EpisodeKey, History>,
    /// How each life ended.
    pub lives: &'a [LifeEnd],
    /// Lives after which tasks were still alive, and how many.
    pub leaked: &'a [(u32, usize)],
    /// The finished episodes.
    pub records: &'a [EpisodeRecord],
}

/// Lets every checker look.
pub fn check(case: &Case<'_>) -> Vec<Finding> {
    let all: [fn(&Case<'_>) -> Vec<String>; 9] = [
        liveness::check,
        conservation::check,
        acknowledged::check,
        rebuild::check,
        budgets::check,
        permits::check,
        leaks::check,
        repeats::check,
        expectations::check,
    ];
    let names = [
        "liveness",
        "conservation",
        "acknowledged",
        "rebuild",
        "budgets",
        "permits",
        "leaks",
        "repeats",
        "expectations",
    ];
    let found = names
        .into_iter()
        .zip(all)
        .flat_map(|(name, check)| check(case).into_iter().map(move |says| Finding::new(name, says)));
    found.collect()
}
