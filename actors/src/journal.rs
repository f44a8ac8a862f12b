//! One scope's pen: numbers its events, turns them into appends, and waits until they are durable. It replays a
//! history into a machine and notices when the machine no longer wants what was recorded.

use crate::ledger::{Append, LedgerMsg};
use crate::stage::Stage;
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::failure::Failure;
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::machine::effect_digest;
use serde::Serialize;
use std::future::Future;
use std::sync::Arc;

/// One scope's pen.
pub struct Journal {
    stage: Arc<Stage>,
    episode: EpisodeKey,
    scope: Scope,
    next_seq: u32,
}

impl Journal {
    /// A pen before its first event.
    pub fn new(stage: Arc<Stage>, episode: EpisodeKey, scope: Scope) -> Self {
        Self { stage, episode, scope, next_seq: 0 }
    }

    /// Feeds a history to a machine through `apply`. Returns the effect of its last event, which may not have
    /// been carried out. An effect that is not the recorded one is an error: code or profile changed under a run.
    pub fn replay<E, F>(
        &mut self,
        history: Vec<RecordedEvent>,
        mut apply: impl FnMut(&E) -> Option<F>,
    ) -> Result<Option<F>, Failure>
    where
        E: TryFrom<Event, Error = Event>,
        F: Serialize,
    {
        let mut pending = None;
        for recorded in history {
            let seq = recorded.seq;
            let effect_was = recorded.effect;
            let unfit = |what: &str| {
                let detail = format!(
                    "{} {} event {seq} {what}; resume with the legwork and profile that began the run",
                    self.episode, self.scope
                );
                Failure::new(legwork_protocol::failure::FailureKind::Ledger, detail)
            };
            if seq != self.next_seq {
                return Err(unfit("is out of order"));
            }
            let event = E::try_from(recorded.event).map_err(|_| unfit("is of another scope"))?;
            let effect = apply(&event);
            if effect.as_ref().map(effect_digest) != effect_was {
                return Err(unfit("leads to another effect than the recorded one"));
            }
            self.next_seq += 1;
            pending = effect;
        }
        Ok(pending)
    }

    /// Events so far.
    pub fn len(&self) -> u32 {
        self.next_seq
    }

    /// Whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.next_seq == 0
    }

    /// Makes the append of an event and the effect that it led to.
    pub fn record(&mut self, event: impl Into<Event>, effect: Option<&impl Serialize>) -> Append {
        let recorded = RecordedEvent { seq: self.next_seq, event: event.into(), effect: effect.map(effect_digest) };
        self.next_seq += 1;
        Append::new(self.episode.clone(), self.scope, self.stage.clock.epoch_ms(), &recorded)
    }

    /// Appends what no effect waits for.
    pub fn append_only(&self, append: Append) {
        // Sent already; nobody waits for the answer, and a ledger that cannot write ends the run by itself.
        drop(self.durable(Some(append)));
    }

    /// Sends an append off at once and returns what resolves when it is durable. Nothing to append is durable
    /// already.
    pub fn durable(&self, append: Option<Append>) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        let lost_after = self.stage.reply_lost_after();
        let asked =
            append.map(|append| self.stage.ledger.ask(lost_after, |reply| LedgerMsg::Append(Box::new(append), reply)));
        async move {
            match asked {
                Some(asked) => asked.await?,
                None => Ok(()),
            }
        }
    }
}
