//! The ledger is the truth: fed to fresh machines, its events lead to the same effects and to the same records that
//! the live run wrote.

use super::Case;
use legwork_actors::ledger::replay_episode;
use std::sync::Arc;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let profile = Arc::new(case.profile.clone());
    for (key, history) in case.histories {
        let Some(question) = case.questions.iter().find(|question| question.id == key.question) else { continue };
        let record = case.records.iter().find(|record| record.key == *key);
        let replayed = replay_episode(&profile, case.script, question, key, history);
        if let Some(difference) = &replayed.difference {
            found.push(format!("{key} replays otherwise: {difference}"));
        }
        if replayed.record.as_ref() != record {
            found.push(format!(
                "{key}: the events end in {:?}, the record says {:?}",
                replayed.record.map(|record| record.outcome),
                record.map(|record| record.outcome)
            ));
        }
    }
    found
}
