//! Soaking: drawn scenarios, one seed after another on several threads, until told to stop. Every so often one is
//! played twice, and must give the same events. It reads no clock: whoever soaks says when it is enough.

use crate::checkers::Finding;
use crate::draw;
use crate::fault::Harm;
use crate::scenario::{Scenario, ScenarioError};
use crate::universe::{Played, play};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One scenario in so many is played twice.
pub const TWICE_EVERY: u64 = 64;
/// Failing scenarios kept; more are counted.
pub const FAILING_KEPT: usize = 20;

/// A scenario that did what no run may do.
#[derive(Clone, Debug)]
pub struct Failing {
    /// The scenario.
    pub scenario: Scenario,
    /// What it did.
    pub findings: Vec<Finding>,
}

/// What a soak saw.
#[derive(Clone, Debug, Default)]
pub struct SoakReport {
    /// Scenarios played.
    pub scenarios: u64,
    /// Of these, played twice.
    pub twice: u64,
    /// Lives of all of them.
    pub lives: u64,
    /// Episodes that ended.
    pub episodes: u64,
    /// Events in their ledgers.
    pub events: u64,
    /// How often each harm struck.
    pub marks: BTreeMap<String, u64>,
    /// Scenarios that failed.
    pub failed: u64,
    /// The first of them.
    pub failing: Vec<Failing>,
}

impl SoakReport {
    /// Harms that never struck.
    pub fn never_struck(&self) -> Vec<String> {
        let all: std::collections::BTreeSet<String> = Harm::all().into_iter().map(Harm::mark).collect();
        all.into_iter().filter(|mark| !self.marks.contains_key(mark)).collect()
    }

    fn add(&mut self, scenario: &Scenario, played: Played, twice: bool) {
        self.scenarios += 1;
        self.twice += u64::from(twice);
        self.lives += played.lives.len() as u64;
        self.episodes += played.records.len() as u64;
        self.events += played.events;
        for (mark, times) in played.marks {
            *self.marks.entry(mark).or_default() += u64::from(times);
        }
        if !played.findings.is_empty() {
            self.failed += 1;
            if self.failing.len() < FAILING_KEPT {
                self.failing.push(Failing { scenario: scenario.clone(), findings: played.findings });
            }
        }
    }
}

/// Plays the scenarios of `first_seed` and after it on `threads` threads while `go_on` says so. Each is played in a
/// folder of its own under `folder`, which is removed after it.
///
/// # Errors
/// If a folder cannot be made or a runtime cannot be started.
pub fn soak(
    folder: &Path,
    first_seed: u64,
    threads: usize,
    go_on: impl Fn(&SoakReport) -> bool + Sync,
) -> Result<SoakReport, ScenarioError> {
    let next = AtomicU64::new(first_seed);
    let stop = AtomicBool::new(false);
    let report = Mutex::new(SoakReport::default());
    let worker = |number: usize| -> Result<(), ScenarioError> {
        let place = folder.join(format!("soak-{number}"));
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let scenario = draw::scenario(seed);
            let mut played = play_in(&scenario, &place)?;
            let twice = seed.is_multiple_of(TWICE_EVERY);
            if twice {
                let again = play_in(&scenario, &place)?;
                if again.hash != played.hash {
                    let says = format!("played twice it gave {} and {}", played.hash, again.hash);
                    played.findings.push(Finding::new("determinism", says));
                }
            }
            let mut report = report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            report.add(&scenario, played, twice);
            if !go_on(&report) {
                stop.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    let ended = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|number| scope.spawn(move || worker(number))).collect();
        let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        ended
    });
    for thread in ended {
        thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    Ok(report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Plays a scenario in a folder that is made for it and removed after it.
///
/// # Errors
/// As [`play`].
pub fn play_in(scenario: &Scenario, folder: &Path) -> Result<Played, ScenarioError> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let played = play(scenario, folder);
    std::fs::remove_dir_all(folder)?;
    played
}
