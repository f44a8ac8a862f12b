//! The ledger: the run's durable record. Every event is in it before its effects are carried out. The actor only
//! passes appends on; SQLite lives on its own named thread behind a bounded queue, and a batch is one
//! transaction. It knows bytes and order; it refuses to know what events mean.

mod chain;
mod error;
pub(crate) mod manifest;
mod reader;
mod rebuild;
mod scribe;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use chain::{Chain, Link};
pub use error::LedgerError;
pub use manifest::{Difference, Manifest};
pub use reader::{LedgerReader, StoredEvent};
pub use rebuild::{FirstDifference, ReplayedEpisode, replay_episode};
pub use store::{RUN_DB, SCHEMA_VERSION, Store};
pub use writer::{BATCH_MAX, BATCH_WORTH, LINGER, Pace, QUEUE_MAX, WriterHandle};

use crate::address::Reply;
use legwork_protocol::event::RecordedEvent;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::record::EpisodeRecord;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An event on its way into the ledger. The body is made by whoever appends, so that the writer's thread only
/// writes.
#[derive(Debug)]
pub struct Append {
    /// The episode.
    pub episode: EpisodeKey,
    /// The machine within it.
    pub scope: Scope,
    /// Place within the scope, from 0.
    pub seq: u32,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The event as JSON.
    pub body: Vec<u8>,
    /// The digest of the effect that followed.
    pub effect: Option<[u8; 32]>,
    /// The finished episode, with its last event.
    pub finished: Option<Box<EpisodeRecord>>,
}

impl Append {
    /// Makes the body of an event.
    pub fn new(episode: EpisodeKey, scope: Scope, at_ms: u64, recorded: &RecordedEvent) -> Self {
        let mut body = serde_json::to_vec(&recorded.event).expect("events hold only what JSON can write");
        // A run has as many bodies waiting as it has episodes: none keeps the room that it grew through.
        body.shrink_to_fit();
        let effect = recorded.effect.map(|digest| digest.0);
        Self { episode, scope, seq: recorded.seq, at_ms, body, effect, finished: None }
    }
}

/// All events of an episode, by scope, each in order.
pub type History = BTreeMap<Scope, Vec<RecordedEvent>>;

/// What a ledger is told and asked.
#[derive(Debug)]
pub enum LedgerMsg {
    /// Keep this event. Owes: once it is durable, or why it is not.
    Append(Box<Append>, Reply<Result<(), Failure>>),
    /// Owes: the events of an episode, or of one scope of it, that are durable.
    Recall(EpisodeKey, Option<Scope>, Reply<Result<History, Failure>>),
    /// The writer could not write; the ledger dies of it.
    Broken(Failure),
    /// Write what is queued and let go of the files. Owes: when that is done.
    Close(Reply<()>),
}

/// The ledger on SQLite.
pub struct Ledger;

impl Actor for Ledger {
    type Msg = LedgerMsg;
    type State = Arc<WriterHandle>;
    type Arguments = Arc<WriterHandle>;

    async fn pre_start(
        &self,
        myself: ActorRef<LedgerMsg>,
        writer: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        writer.report_to(myself).await;
        Ok(writer)
    }

    async fn handle(
        &self,
        myself: ActorRef<LedgerMsg>,
        message: LedgerMsg,
        writer: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LedgerMsg::Append(append, reply) => writer.append(append, reply).await,
            LedgerMsg::Recall(episode, scope, reply) => writer.recall(episode, scope, reply).await,
            // Only what happened: whoever hears of this death knows that it is the ledger's.
            LedgerMsg::Broken(failure) => return Err(failure.detail.into()),
            LedgerMsg::Close(reply) => {
                writer.close().await;
                reply.send(());
                myself.stop(None);
            }
        }
        Ok(())
    }
}

/// A ledger error as a failure of the run.
pub(crate) fn as_failure(error: &LedgerError) -> Failure {
    Failure::new(FailureKind::Ledger, error.to_string())
}
