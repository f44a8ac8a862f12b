//! The ledger's unit: one event of one scope, with the digest of the effect that it led to. A scope's events
//! in order are the whole state of its machine.

use crate::coordinator::CoordinatorEvent;
use crate::episode::EpisodeEvent;
use crate::machine::Digest;
use crate::worker::WorkerEvent;
use serde::{Deserialize, Serialize};

/// An event of any scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Of the episode's own machine.
    Episode(EpisodeEvent),
    /// Of the coordinator's machine.
    Coordinator(CoordinatorEvent),
    /// Of a worker's machine.
    Worker(WorkerEvent),
}

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// Place within its scope, from 0.
    pub seq: u32,
    /// What happened.
    pub event: Event,
    /// The digest of the effect that followed; none if nothing followed.
    pub effect: Option<Digest>,
}

macro_rules! into_event {
    ($variant:ident, $event:ty) => {
        impl From<$event> for Event {
            fn from(event: $event) -> Self {
                Event::$variant(event)
            }
        }

        impl TryFrom<Event> for $event {
            type Error = Event;

            fn try_from(event: Event) -> Result<Self, Event> {
                match event {
                    Event::$variant(event) => Ok(event),
                    other => Err(other),
                }
            }
        }
    };
}

into_event!(Episode, EpisodeEvent);
into_event!(Coordinator, CoordinatorEvent);
into_event!(Worker, WorkerEvent);
