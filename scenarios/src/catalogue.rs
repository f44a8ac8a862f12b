//! The catalogue: named scenarios, one file each under `catalogue/`, each with a sentence on what it shows. A bug that
//! was found becomes one. In a named scenario every fault must strike; one that never does shows nothing.

use crate::checkers::Finding;
use crate::scenario::{Scenario, ScenarioError};
use crate::universe::{Played, play};
use std::path::Path;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../catalogue/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "board-dies",
    "board-hangs",
    "cancelled-episode",
    "completions-overtaken",
    "coordinator-killed",
    "coordinator-panics",
    "database-locked",
    "decision-told-twice",
    "disk-full",
    "disk-full-at-once",
    "disk-slow",
    "disk-slower-than-any-patience",
    "drained-then-resumed",
    "episode-killed",
    "episode-killed-at-its-end",
    "episode-killed-at-its-end-too-often",
    "everything-at-once",
    "gate-dies",
    "grader-dies",
    "inference-dies",
    "inference-dies-under-the-judge",
    "inference-hangs",
    "inference-panics",
    "judge-mute",
    "judge-mute-for-good",
    "late-reports-overtaken",
    "library-bidi",
    "library-binary",
    "library-degraded",
    "library-fails",
    "library-hang",
    "library-hostile",
    "library-huge",
    "library-nothing",
    "library-panic",
    "lost-acknowledgement",
    "lost-completion",
    "lost-decision",
    "lost-gate",
    "lost-last-answer",
    "lost-lookup",
    "lost-report",
    "lost-verdict",
    "machine-slept",
    "machine-slept-with-one-permit",
    "model-dead-for-good",
    "model-empty-text",
    "model-garbage",
    "model-half-call",
    "model-hang",
    "model-malformed",
    "model-malformed-for-good",
    "model-out-of-memory",
    "model-overruns",
    "model-panic",
    "model-rate-limited",
    "model-server-error",
    "model-slow",
    "model-timed-out",
    "model-truncated-stream",
    "model-unreachable",
    "nothing-goes-wrong",
    "one-permit",
    "power-cut-again-and-again",
    "power-cut-at-the-first-event",
    "power-cut-in-the-middle",
    "power-cut-with-a-reply-under-way",
    "report-told-twice",
    "retriever-dies",
    "retriever-dies-after-many-episodes",
    "retriever-dies-twice",
    "shared-actor-dies-too-often",
    "slow-durability",
    "slow-verdict",
    "stopped-then-resumed",
    "tokens-run-out",
    "turns-run-out",
    "worker-killed",
    "worker-killed-too-often",
    "worker-panics",
];

/// Every named scenario, in the order of its name.
///
/// # Panics
/// Never: a test reads each file.
pub fn all() -> Vec<Scenario> {
    FILES.iter().map(|(name, text)| read(name, text)).collect()
}

/// The scenario of this name.
pub fn named(name: &str) -> Option<Scenario> {
    let (name, text) = FILES.iter().find(|(listed, _)| *listed == name)?;
    Some(read(name, text))
}

/// The names that are nearest to one that is not there.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

fn read(name: &str, text: &str) -> Scenario {
    Scenario::from_toml(text).unwrap_or_else(|error| panic!("catalogue/{name}.toml: {error}"))
}

/// Plays a named scenario: beyond what holds of every run, each of its faults must strike.
///
/// # Errors
/// As [`play`].
pub fn play_named(scenario: &Scenario, folder: &Path) -> Result<Played, ScenarioError> {
    let mut played = play(scenario, folder)?;
    for fault in &scenario.faults {
        let mark = fault.harm.mark();
        if !played.marks.contains_key(&mark) {
            let says = format!("`{mark}` never struck, so this scenario shows nothing; what did: {:?}", played.marks);
            played.findings.push(Finding::new("marks", says));
        }
    }
    Ok(played)
}
