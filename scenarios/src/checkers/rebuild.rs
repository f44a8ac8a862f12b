//! The ledger is the truth: fed to fresh machines, its events lead to the same effects and to the same records that
//! the live run wrote.

use super::Case;
use legwork_actors::ledger::replay_episode;
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let profile = Arc::new(case.profile.clone());
    let questions: BTreeMap<_, Question> = case
        .reader
        .questions()
        .unwrap_or_default()
        .into_iter()
        .map(|question| (question.id.clone(), question))
        .collect();
    let records: BTreeMap<&EpisodeKey, &EpisodeRecord> =
        case.records.iter().map(|record| (&record.key, record)).collect();
    for key in case.reader.planned().unwrap_or_default() {
        let Some(question) = questions.get(&key.question) else { continue };
        let history = match case.reader.history(&key) {
            Ok(history) => history,
            Err(error) => {
                found.push(format!("{key} cannot be read: {error}"));
                continue;
            }
        };
        let replayed = replay_episode(&profile, case.script, &Arc::new(question.clone()), &key, &history);
        if let Some(difference) = &replayed.difference {
            found.push(format!("{key} replays otherwise: {difference}"));
        }
        if replayed.record.as_ref() != records.get(&key).copied() {
            found.push(format!(
                "{key}: the events end in {:?}, the record says {:?}",
                replayed.record.map(|record| record.outcome),
                records.get(&key).map(|record| record.outcome)
            ));
        }
    }
    found
}
