//! Every planned episode ends exactly once: none is lost, none doubled, and the record says what the last event of the
//! episode says.

use super::Case;
use crate::universe::LifeEnd;
use legwork_protocol::id::EpisodeKey;
use std::collections::BTreeMap;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let planned = case.reader.planned().unwrap_or_default();
    let due = case.scenario.questions as usize * case.scenario.rounds as usize;
    if planned.len() != due {
        found.push(format!("{} episodes are planned, not {due}", planned.len()));
    }
    let mut ends: BTreeMap<&EpisodeKey, u32> = BTreeMap::new();
    for record in case.records {
        *ends.entry(&record.key).or_default() += 1;
    }
    for (key, times) in &ends {
        if *times != 1 {
            found.push(format!("episode {key} has {times} records"));
        }
        if !planned.contains(key) {
            found.push(format!("episode {key} ended and was never planned"));
        }
    }
    if case.lives.last() == Some(&LifeEnd::Complete) {
        for key in planned.iter().filter(|key| !ends.contains_key(key)) {
            found.push(format!("the run is complete, and episode {key} has no record"));
        }
    }
    found
}
