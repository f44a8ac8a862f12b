//! A universe: one run under a paused clock on a single thread, with nothing real in it but the actors and the ledger.
//! The same scenario gives the same events in any process. A universe may see several lives: after a power cut, a
//! drain, a stop or a broken disk the run is taken up again from its ledger, until it is complete; after the faults
//! it is healed, and then progress is demanded.

mod life;
mod recast;

use crate::checkers::{self, Case, Finding};
use crate::desk::Desk;
use crate::probe::Probe;
use crate::scenario::{Scenario, ScenarioError};
use legwork_actors::ledger::LedgerReader;
use legwork_protocol::record::EpisodeRecord;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use life::{LifeEnd, Seat};
pub use recast::Recast;

/// Lives of a universe at most; the last ones are healed.
pub const LIVES_MAX: u32 = 12;
/// A life that has not ended after so long by its own clock is stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(24 * 3600);
/// How many lives may end early before the universe is healed.
const LIVES_BEFORE_HEALING: u32 = 8;

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct Played {
    /// How each life ended.
    pub lives: Vec<LifeEnd>,
    /// The finished episodes, in planned order.
    pub records: Vec<EpisodeRecord>,
    /// The last link of the ledger's chain: equal universes have equal ones.
    pub hash: String,
    /// Events in the ledger.
    pub events: u64,
    /// Calls of models.
    pub calls: u64,
    /// How often each harm struck.
    pub marks: BTreeMap<String, u32>,
    /// What no run may do and this one did.
    pub findings: Vec<Finding>,
}

impl Played {
    /// Whether no checker found anything.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// Episodes graded correct.
    pub fn correct(&self) -> usize {
        self.records.iter().filter(|record| record.outcome.is_correct()).count()
    }
}

/// Plays a scenario in an empty folder with the real actors.
///
/// # Errors
/// If the scenario cannot be played at all. What a run does wrong is a finding, not an error.
pub fn play(scenario: &Scenario, folder: &Path) -> Result<Played, ScenarioError> {
    play_with(scenario, folder, &Recast::default())
}

/// As [`play`], with other actors in some of the roles.
///
/// # Errors
/// As [`play`].
pub fn play_with(scenario: &Scenario, folder: &Path, recast: &Recast) -> Result<Played, ScenarioError> {
    scenario.check()?;
    crate::quiet_planned_panics();
    let (desk, probe) = (Desk::new(scenario.faults.clone(), scenario.seed), Probe::new());
    let mut lives: Vec<LifeEnd> = Vec::new();
    let mut leaked = Vec::new();
    let mut elapsed_ms = 0;
    loop {
        let number = u32::try_from(lives.len()).unwrap_or(u32::MAX);
        if number >= LIVES_BEFORE_HEALING || lives.last().is_some_and(|end| matches!(end, LifeEnd::Failed(_))) {
            desk.heal();
        }
        let seat = Seat { scenario, folder, desk: Arc::clone(&desk), probe: Arc::clone(&probe), recast, elapsed_ms };
        let life = life::live(&seat, number)?;
        elapsed_ms += life.took_ms + 1000;
        leaked.extend(life.left_behind.map(|left| (number, left)));
        let over = matches!(life.end, LifeEnd::Complete | LifeEnd::Stuck);
        lives.push(life.end);
        if over || lives.len() >= LIVES_MAX as usize {
            break;
        }
    }
    let reader = LedgerReader::open(folder)?;
    let (planned, records) = (reader.planned()?, reader.records()?);
    let questions: Vec<_> = reader.questions()?.into_iter().map(Arc::new).collect();
    let histories = planned.iter().map(|key| Ok((key.clone(), reader.history(key)?)));
    let histories = histories.collect::<Result<BTreeMap<_, _>, ScenarioError>>()?;
    let chain = reader.verify_chain();
    let (events, hash) = chain.as_ref().map(Clone::clone).unwrap_or_default();
    let case = Case {
        scenario,
        profile: &life::profile(scenario),
        script: None,
        desk: &desk,
        probe: &probe,
        planned: &planned,
        questions: &questions,
        histories: &histories,
        lives: &lives,
        leaked: &leaked,
        records: &records,
    };
    let mut findings = checkers::check(&case);
    if let Err(error) = chain {
        findings.push(Finding::new("chain", error.to_string()));
    }
    Ok(Played { lives, records, hash, events, calls: probe.calls(), marks: desk.marks(), findings })
}
