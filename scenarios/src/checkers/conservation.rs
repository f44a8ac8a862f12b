//! Every planned episode ends exactly once: none is lost, none doubled, and the record says what the last event of the
//! episode says.

use super::Case;
use crate::universe::LifeEnd;
use legwork_protocol::episode::EpisodeEvent;
use legwork_protocol::event::Event;
use legwork_protocol::id::{EpisodeKey, Scope};
use std::collections::BTreeMap;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let planned = case.planned;
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
    for key in planned {
        found.extend(said_twice(case, key));
    }
    if case.lives.last() == Some(&LifeEnd::Complete) {
        for key in planned.iter().filter(|key| !ends.contains_key(key)) {
            found.push(format!("the run is complete, and episode {key} has no record"));
        }
    }
    found
}

/// Reports and answers that an episode took for more than one.
fn said_twice(case: &Case<'_>, key: &EpisodeKey) -> Vec<String> {
    let mut said: BTreeMap<String, u32> = BTreeMap::new();
    let events = case.histories.get(key).and_then(|history| history.get(&Scope::Episode));
    for recorded in events.into_iter().flatten() {
        let Event::Episode(event) = &recorded.event else { continue };
        let what = match event {
            EpisodeEvent::Admitted => "the admission".to_owned(),
            EpisodeEvent::Answered(_) => "the answer".to_owned(),
            EpisodeEvent::Reported { worker, .. } => format!("the report of worker {worker}"),
            EpisodeEvent::Graded(_) => "the verdict".to_owned(),
            EpisodeEvent::Delegated(_) | EpisodeEvent::ActorLost(_) | EpisodeEvent::Cancelled => continue,
        };
        *said.entry(what).or_default() += 1;
    }
    let twice = said.into_iter().filter(|(_, times)| *times > 1);
    twice.map(|(what, times)| format!("{key} took {what} {times} times")).collect()
}
