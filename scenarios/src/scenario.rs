//! A scenario: a small run, what goes wrong in it, and what must come of it all the same. It is data, written in TOML
//! or drawn from a seed, and it is all that is needed to see the same again.

use crate::fault::Fault;
use legwork_protocol::profile::{CoordinatorKind, GateMode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Questions of a scenario at most.
pub const QUESTIONS_MAX: u32 = 200;

/// A small run and what goes wrong in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, in a sentence.
    #[serde(default)]
    pub shows: String,
    /// Where every draw of the run comes from.
    #[serde(default = "one_seed")]
    pub seed: u64,
    /// Questions, 1 to [`QUESTIONS_MAX`].
    #[serde(default = "three")]
    pub questions: u32,
    /// Passes over them.
    #[serde(default = "one")]
    pub rounds: u32,
    /// Episodes at once.
    #[serde(default = "two")]
    pub concurrency: usize,
    /// Which mind coordinates: scripted, direct or model.
    #[serde(default = "scripted")]
    pub coordinator: CoordinatorKind,
    /// Whether a gate is asked, and obeyed.
    #[serde(default = "no_gate")]
    pub gate: GateMode,
    /// Whether a judge grades instead of exact match.
    #[serde(default)]
    pub judge: bool,
    /// What a model's turn takes at most, in milliseconds of the run's clock; how long it does take is drawn.
    #[serde(default = "five")]
    pub latency_ms: u64,
    /// A worker's turns, if not the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_turns_max: Option<u32>,
    /// A worker's tokens, if not the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_budget_tokens: Option<u64>,
    /// Restarts of an episode's children, if not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode_restarts_max: Option<u32>,
    /// What goes wrong.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    /// What must come of it, beyond what must hold always.
    #[serde(default, skip_serializing_if = "Expect::is_nothing")]
    pub expect: Expect,
}

/// What must come of a scenario, beyond what every checker demands of every run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Every answer is right, as without any fault.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_correct: bool,
    /// How many episodes end how, by the names that tables print.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outcomes: BTreeMap<String, u32>,
    /// How often the run was taken up again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes: Option<u32>,
    /// How often each fault struck at least, if more than once is due.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub strikes: BTreeMap<String, u32>,
}

fn one_seed() -> u64 {
    1
}
fn one() -> u32 {
    1
}
fn three() -> u32 {
    3
}
fn two() -> usize {
    2
}
fn five() -> u64 {
    5
}
fn scripted() -> CoordinatorKind {
    CoordinatorKind::Scripted
}
fn no_gate() -> GateMode {
    GateMode::Off
}

impl Expect {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Scenario {
    /// A scenario of three questions, two at once, in which nothing goes wrong.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            shows: String::new(),
            seed: 1,
            questions: 3,
            rounds: 1,
            concurrency: 2,
            coordinator: CoordinatorKind::Scripted,
            gate: GateMode::Off,
            judge: false,
            latency_ms: 5,
            worker_turns_max: None,
            worker_budget_tokens: None,
            episode_restarts_max: None,
            faults: Vec::new(),
            expect: Expect::default(),
        }
    }

    /// With so many questions.
    #[must_use]
    pub fn questions(self, questions: u32) -> Self {
        Self { questions, ..self }
    }

    /// With so many episodes at once.
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self { concurrency, ..self }
    }

    /// With this fault as well.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Reads a scenario.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Scenario = toml::from_str(text).map_err(|error| ScenarioError::Unreadable(error.to_string()))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Writes it so that [`Scenario::from_toml`] reads it back.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("scenarios hold only what TOML can write")
    }

    /// Whether it can be played.
    ///
    /// # Errors
    /// The first value that is out of its bounds.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let bounds = |what: &'static str, is: u64, least: u64, most: u64| {
            let fits = (least..=most).contains(&is);
            fits.then_some(()).ok_or(ScenarioError::OutOfBounds { what, is, least, most })
        };
        bounds("questions", u64::from(self.questions), 1, u64::from(QUESTIONS_MAX))?;
        bounds("rounds", u64::from(self.rounds), 1, 10)?;
        bounds("concurrency", self.concurrency as u64, 1, 10_000)?;
        bounds("faults", self.faults.len() as u64, 0, 64)?;
        if self.coordinator == CoordinatorKind::Fold {
            return Err(ScenarioError::NoFold);
        }
        self.faults.iter().try_for_each(|fault| bounds("times of a fault", u64::from(fault.times), 1, 1_000_000))
    }
}

/// Why a scenario cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The text is no scenario.
    #[error("this is no scenario: {0}")]
    Unreadable(String),
    /// A number is out of its bounds.
    #[error("`{what}` is {is}; give it {least} to {most}")]
    OutOfBounds {
        /// The value.
        what: &'static str,
        /// What it is.
        is: u64,
        /// The least that it may be.
        least: u64,
        /// The most that it may be.
        most: u64,
    },
    /// There is no mock for the folding mind's model.
    #[error("coordinator `fold` searches by itself, and no mock plays its model; take scripted, direct or model")]
    NoFold,
    /// The folder or the ledger in it cannot be used.
    #[error(transparent)]
    Ledger(#[from] legwork_actors::ledger::LedgerError),
    /// The system refuses what a universe needs.
    #[error("the system refuses a runtime or a folder: {0}")]
    Io(#[from] std::io::Error),
}
