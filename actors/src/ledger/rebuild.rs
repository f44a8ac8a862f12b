//! Replay: a run's events are fed to fresh machines, which must want the same effects. No model is called, nothing
//! is looked up. What a record says can be rebuilt from events alone; where it differs, the first difference is
//! named.

use super::History;
use legwork_protocol::coordinator::{Script, coordinator};
use legwork_protocol::episode::{Episode, EpisodeEffect};
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::machine::{Digest, effect_digest};
use legwork_protocol::profile::Profile;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use legwork_protocol::worker::Worker;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// An episode as its events tell it.
#[derive(Debug)]
pub struct ReplayedEpisode {
    /// Its record, if its events reach the end.
    pub record: Option<EpisodeRecord>,
    /// Events replayed.
    pub events: u64,
    /// The first effect that is not what was recorded.
    pub difference: Option<FirstDifference>,
}

/// The first effect of an episode that is not what was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstDifference {
    /// The episode.
    pub episode: EpisodeKey,
    /// The machine within it.
    pub scope: Scope,
    /// The event after which they part.
    pub seq: u32,
    /// The kind of that event.
    pub event: String,
    /// The effect's digest as recorded, or none.
    pub recorded: Option<Digest>,
    /// The effect's digest now, or none.
    pub now: Option<Digest>,
}

impl fmt::Display for FirstDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            |digest: &Option<Digest>| digest.map_or("nothing".to_owned(), |digest| digest.to_string()[..12].to_owned());
        write!(
            f,
            "{} {} event {} ({}): the recorded effect is {}, the machine now wants {}",
            self.episode,
            self.scope,
            self.seq,
            self.event,
            name(&self.recorded),
            name(&self.now)
        )
    }
}

/// Replays an episode.
pub fn replay_episode(
    profile: &Arc<Profile>,
    script: Option<&Script>,
    question: &Arc<Question>,
    key: &EpisodeKey,
    history: &History,
) -> ReplayedEpisode {
    let mut replayed = ReplayedEpisode { record: None, events: 0, difference: None };
    for (scope, events) in history {
        match scope {
            Scope::Episode => {
                let mut machine = Episode::new(key.clone(), Arc::clone(question));
                let mut record = None;
                replayed.feed(key, *scope, events, |event| match event {
                    Event::Episode(event) => Some(machine.apply(event).map(|effect| {
                        if let EpisodeEffect::End(end) = &effect {
                            record = Some((**end).clone());
                        }
                        effect_digest(&effect)
                    })),
                    _ => None,
                });
                replayed.record = record;
            }
            Scope::Coordinator => {
                let mut machine = coordinator(profile, question, script);
                replayed.feed(key, *scope, events, |event| match event {
                    Event::Coordinator(event) => Some(machine.apply(event).map(|effect| effect_digest(&effect))),
                    _ => None,
                });
            }
            Scope::Worker(_) => {
                let mut machine = Worker::new(Arc::clone(profile));
                replayed.feed(key, *scope, events, |event| match event {
                    Event::Worker(event) => Some(machine.apply(event).map(|effect| effect_digest(&effect))),
                    _ => None,
                });
            }
        }
    }
    replayed
}

impl ReplayedEpisode {
    fn feed(
        &mut self,
        key: &EpisodeKey,
        scope: Scope,
        events: &[RecordedEvent],
        mut apply: impl FnMut(&Event) -> Option<Option<Digest>>,
    ) {
        for (place, recorded) in events.iter().enumerate() {
            self.events += 1;
            let in_place = recorded.seq as usize == place;
            let now = apply(&recorded.event);
            if (!in_place || now != Some(recorded.effect)) && self.difference.is_none() {
                self.difference = Some(FirstDifference {
                    episode: key.clone(),
                    scope,
                    seq: recorded.seq,
                    event: kind_of(&recorded.event),
                    recorded: recorded.effect,
                    now: now.flatten(),
                });
            }
        }
    }
}

/// The kind of an event: the name of its variant.
fn kind_of(event: &Event) -> String {
    let inner = match serde_json::to_value(event) {
        Ok(serde_json::Value::Object(map)) => map.into_iter().next().map(|(_, inner)| inner),
        _ => None,
    };
    match inner {
        Some(serde_json::Value::Object(map)) => map.keys().next().cloned().unwrap_or_default(),
        Some(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}
