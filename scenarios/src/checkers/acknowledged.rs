//! What was acknowledged as durable is in the ledger, word for word, whatever happened after.

use super::Case;
use legwork_protocol::id::{EpisodeKey, Scope};
use std::collections::BTreeMap;

pub(super) fn check(case: &Case<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut kept: BTreeMap<EpisodeKey, BTreeMap<(Scope, u32), [u8; 32]>> = BTreeMap::new();
    for append in case.probe.all_acknowledged() {
        let events = kept.entry(append.episode.clone()).or_insert_with(|| match case.reader.events(&append.episode) {
            Ok(events) => events
                .into_iter()
                .map(|stored| {
                    let body = serde_json::to_vec(&stored.recorded.event).unwrap_or_default();
                    ((stored.scope, stored.recorded.seq), *blake3::hash(&body).as_bytes())
                })
                .collect(),
            Err(error) => {
                found.push(format!("the events of {} cannot be read: {error}", append.episode));
                BTreeMap::new()
            }
        });
        match events.get(&(append.scope, append.seq)) {
            Some(body) if *body == append.body => {}
            Some(_) => found.push(format!(
                "event {} of {} {} is not the one that was acknowledged",
                append.seq, append.episode, append.scope
            )),
            None => found.push(format!(
                "event {} of {} {} was acknowledged and is gone",
                append.seq, append.episode, append.scope
            )),
        }
    }
    found
}
