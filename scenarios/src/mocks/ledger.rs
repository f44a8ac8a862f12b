//! A ledger in memory, in the place of the real actor: it acknowledges at once, recalls what it was told, and forgets
//! everything with the process. For tests that need no file.

use legwork_actors::cast::{SharedRole, role};
use legwork_actors::ledger::{Append, History, LedgerMsg};
use legwork_actors::stage::Stage;
use legwork_protocol::event::RecordedEvent;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::machine::Digest;
use legwork_protocol::record::EpisodeRecord;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Kept {
    events: BTreeMap<EpisodeKey, History>,
    records: BTreeMap<EpisodeKey, EpisodeRecord>,
}

/// A ledger in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryLedger {
    kept: Arc<Mutex<Kept>>,
}

impl MemoryLedger {
    /// The finished episodes, in the order of their keys.
    pub fn records(&self) -> Vec<EpisodeRecord> {
        self.kept().records.values().cloned().collect()
    }

    /// All events of an episode.
    pub fn history(&self, episode: &EpisodeKey) -> History {
        self.kept().events.get(episode).cloned().unwrap_or_default()
    }

    /// The role that it plays: `cast.ledger = ledger.role()`.
    pub fn role(&self) -> SharedRole<LedgerMsg> {
        let mock = self.clone();
        role("mock: ledger in memory", move |_stage: Arc<Stage>| (mock.clone(), ()))
    }

    fn keep(&self, append: Append) -> Result<(), Failure> {
        let event = serde_json::from_slice(&append.body)
            .map_err(|error| Failure::new(FailureKind::Ledger, format!("an event cannot be read back: {error}")))?;
        let recorded = RecordedEvent { seq: append.seq, event, effect: append.effect.map(Digest) };
        let mut kept = self.kept();
        let scope = kept.events.entry(append.episode.clone()).or_default().entry(append.scope).or_default();
        if scope.len() != append.seq as usize {
            let detail = format!("event {} of {} {} came twice or too early", append.seq, append.episode, append.scope);
            return Err(Failure::new(FailureKind::Ledger, detail));
        }
        scope.push(recorded);
        kept.records.extend(append.finished.map(|record| (append.episode, *record)));
        Ok(())
    }

    fn recall(&self, episode: &EpisodeKey, only: Option<Scope>) -> History {
        let mut history = self.history(episode);
        history.retain(|scope, _| only.is_none_or(|only| only == *scope));
        history
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Actor for MemoryLedger {
    type Msg = LedgerMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<LedgerMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<LedgerMsg>,
        message: LedgerMsg,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LedgerMsg::Append(append, reply) => reply.send(self.keep(*append)),
            LedgerMsg::Recall(episode, scope, reply) => reply.send(Ok(self.recall(&episode, scope))),
            LedgerMsg::Broken(failure) => return Err(failure.into()),
            LedgerMsg::Close(reply) => {
                reply.send(());
                myself.stop(None);
            }
        }
        Ok(())
    }
}
