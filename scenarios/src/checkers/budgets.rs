//! Nobody spends what was not lent: no worker more than its lease, no coordinator more than its own budget, all workers
//! of an episode together no more than theirs. Counted from the events, not from the meters that are checked.

use super::Case;
use legwork_protocol::coordinator::CoordinatorEvent;
use legwork_protocol::episode::EpisodeEvent;
use legwork_protocol::event::Event;
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::worker::WorkerEvent;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, history) in case.histories {
        for (scope, events) in history {
            let events: Vec<&Event> = events.iter().map(|recorded| &recorded.event).collect();
            match scope {
                Scope::Worker(_) => worker(case, key, *scope, &events, &mut found),
                Scope::Coordinator => coordinator(case, key, &events, &mut found),
                Scope::Episode => episode(case, key, &events, &mut found),
            }
        }
    }
    found
}

fn worker(case: &Case<'_>, key: &EpisodeKey, scope: Scope, events: &[&Event], found: &mut Vec<String>) {
    let mut lent = None;
    let (mut tokens, mut turns) = (0, 0);
    for event in events {
        let Event::Worker(event) = event else { continue };
        match event {
            WorkerEvent::Briefed { brief, .. } => lent = Some(brief.lease),
            WorkerEvent::Generated { tokens: new, .. } => {
                let Some(lent) = lent else { continue };
                if tokens >= lent.tokens {
                    found.push(format!(
                        "{key} {scope} had spent {tokens} of {} tokens and was given a turn",
                        lent.tokens
                    ));
                }
                // A server that takes more than it was given is charged what it was given.
                let given = case.probe.tokens_given(key, scope, turns).map_or(u64::MAX, u64::from);
                if tokens.saturating_add(given) > lent.tokens {
                    found.push(format!(
                        "{key} {scope} turn {turns} was given {given} tokens beside {tokens} of {}",
                        lent.tokens
                    ));
                }
                tokens += (*new).min(given);
                turns += 1;
            }
            WorkerEvent::Observed { tokens: new, .. } => tokens += new,
            _ => {}
        }
    }
    if let Some(lent) = lent.filter(|lent| turns > lent.turns) {
        found.push(format!("{key} {scope} was lent {} turns and took {turns}", lent.turns));
    }
}

fn coordinator(case: &Case<'_>, key: &EpisodeKey, events: &[&Event], found: &mut Vec<String>) {
    let settings = &case.profile.coordinator;
    let turns =
        events.iter().filter(|event| matches!(event, Event::Coordinator(CoordinatorEvent::Generated { .. }))).count();
    if turns > settings.turns_max as usize {
        found.push(format!("the coordinator of {key} may take {} turns and took {turns}", settings.turns_max));
    }
}

fn episode(case: &Case<'_>, key: &EpisodeKey, events: &[&Event], found: &mut Vec<String>) {
    let settings = &case.profile.coordinator;
    let (mut briefs, mut spent) = (0, 0);
    let mut leases = std::collections::BTreeMap::new();
    for event in events {
        let Event::Episode(event) = event else { continue };
        match event {
            EpisodeEvent::Delegated(delegated) => {
                for brief in delegated {
                    leases.insert(briefs, brief.lease);
                    briefs += 1;
                }
            }
            EpisodeEvent::Reported { worker, report } => {
                spent += report.spent.tokens;
                let lent = leases.get(worker).copied().unwrap_or_default();
                if !lent.covers(&report.spent) {
                    found.push(format!("{key} worker/{worker} was lent {lent:?} and spent {:?}", report.spent));
                }
            }
            EpisodeEvent::Answered(answer)
                if answer.spent.tokens > settings.budget_tokens || answer.spent.served_ms > settings.served_max_ms =>
            {
                found.push(format!("the coordinator of {key} spent {:?}", answer.spent));
            }
            _ => {}
        }
    }
    if briefs > settings.briefs_max {
        found.push(format!("{key} gave {briefs} briefs; {} are allowed", settings.briefs_max));
    }
    if spent > settings.workers_tokens_max {
        found.push(format!("the workers of {key} spent {spent} of {} tokens", settings.workers_tokens_max));
    }
}
