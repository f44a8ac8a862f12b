//! What was acknowledged as durable is in the ledger, word for word, whatever happened after.

use super::Case;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for append in case.probe.all_acknowledged() {
        let history = case.histories.get(&append.episode);
        let kept = history.and_then(|history| history.get(&append.scope)?.get(append.seq as usize));
        let which = || format!("event {} of {} {}", append.seq, append.episode, append.scope);
        match kept.map(|recorded| serde_json::to_vec(&recorded.event).unwrap_or_default()) {
            Some(body) if blake3::hash(&body).as_bytes() == &append.body => {}
            Some(_) => found.push(format!("{} is not the one that was acknowledged", which())),
            None => found.push(format!("{} was acknowledged and is gone", which())),
        }
    }
    found
}
