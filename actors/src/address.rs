//! How actors speak: an address that survives the restart of the actor behind it, and replies that are owed.
//! A reply whose asker has gone is cancelled; an ask whose replier has died is a named failure, never a hang.

#[cfg(test)]
mod tests;

use arc_swap::ArcSwapOption;
use legwork_protocol::failure::{Failure, FailureKind};
use ractor::{ActorId, ActorRef, ActorStatus, Message};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// The successor of a dead actor is waited for at most so long. A supervisor needs microseconds, or has none to give.
pub const SUCCESSOR_WITHIN: Duration = Duration::from_secs(5);
/// A dying actor lets go of its debts and its mailbox a moment before its status says so: the status is waited for at
/// most so long. It takes microseconds unless the machine's cores are all elsewhere; only an actor that lives on, and
/// owes a reply that it will not give, makes its asker wait so long.
pub const DEATH_SEEN_WITHIN: Duration = Duration::from_secs(1);

/// Where an actor can be reached. Cloning shares it; a supervisor points it at the successor of a dead actor.
pub struct Address<M> {
    name: &'static str,
    actor: Arc<ArcSwapOption<ActorRef<M>>>,
    moved: Arc<Notify>,
    inherited: bool,
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            actor: Arc::clone(&self.actor),
            moved: Arc::clone(&self.moved),
            inherited: self.inherited,
        }
    }
}

impl<M: Message> Address<M> {
    /// An address at which nobody lives yet, and where a dead actor is followed by another.
    pub fn vacant(name: &'static str) -> Self {
        Self { name, actor: Arc::new(ArcSwapOption::empty()), moved: Arc::new(Notify::new()), inherited: true }
    }

    /// As [`Address::vacant`], for an actor whose successor no asker waits for: the run ends with the ledger, and who
    /// looks at the board does so after the end as well.
    pub fn not_waited_for(name: &'static str) -> Self {
        Self { inherited: false, ..Self::vacant(name) }
    }

    /// Points it at an actor.
    pub fn point_at(&self, actor: ActorRef<M>) {
        self.actor.store(Some(Arc::new(actor)));
        self.moved.notify_waiters();
    }

    /// Whether this actor lives here.
    pub fn is_at(&self, id: ActorId) -> bool {
        self.actor.load().as_ref().is_some_and(|actor| actor.get_id() == id)
    }

    /// The actor here, if there is one.
    pub fn actor(&self) -> Option<Arc<ActorRef<M>>> {
        self.actor.load_full()
    }

    /// Sends without waiting. A message to nobody is lost: only facts that may be lost are told this way.
    pub fn tell(&self, message: M) {
        if let Some(actor) = self.actor.load().as_ref() {
            let _lost_if_dead = actor.cast(message);
        }
    }

    /// Asks at once; the future waits for the reply, at most `lost_after`: a longer silence means that the reply
    /// was lost. Messages of one asker arrive in the order in which they were asked, awaited or not. If the actor has
    /// died, its successor is waited for before the failure comes back, so that whoever asks again asks somebody alive.
    pub fn ask<T: Send + 'static>(
        &self,
        lost_after: Duration,
        make: impl FnOnce(Reply<T>) -> M,
    ) -> impl Future<Output = Result<T, Failure>> + Send + 'static {
        let name = self.name;
        let died = move |what: &str| Failure::new(FailureKind::ActorDied, format!("{name} actor {what}"));
        let (reply, owed) = reply();
        let asked = self.actor.load_full();
        let sent = match &asked {
            Some(actor) => actor.cast(make(reply)).map_err(|_| died("is dead")),
            None => Err(died("is not running")),
        };
        let here = self.clone();
        async move {
            if let Err(failure) = sent {
                here.until_inherited(asked.as_deref()).await;
                return Err(failure);
            }
            match tokio::time::timeout(lost_after, owed).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(_dropped)) => {
                    here.until_inherited(asked.as_deref()).await;
                    Err(died("ended without a reply"))
                }
                Err(_elapsed) => Err(Failure::new(
                    FailureKind::TimedOut,
                    format!("{name} actor gave no reply within {} ms", lost_after.as_millis()),
                )),
            }
        }
    }
}

impl<M: Message> Address<M> {
    /// Returns when another than `asked` lives here, or after [`SUCCESSOR_WITHIN`]; at once where none will, and after
    /// [`DEATH_SEEN_WITHIN`] where `asked` lives on and only owed a reply that it did not give.
    async fn until_inherited(&self, asked: Option<&ActorRef<M>>) {
        let Some(asked) = asked.filter(|_| self.inherited) else { return };
        let seen = matches!(asked.get_status(), ActorStatus::Stopping | ActorStatus::Stopped)
            || asked.wait(Some(DEATH_SEEN_WITHIN)).await.is_ok();
        if !seen {
            return;
        }
        let moved = self.moved.notified();
        tokio::pin!(moved);
        // Enabled before looking, so that a move in between is not missed.
        moved.as_mut().enable();
        if self.is_at(asked.get_id()) {
            let _nobody_came = tokio::time::timeout(SUCCESSOR_WITHIN, moved).await;
        }
    }
}

/// The debt of a reply. Dropping it tells the asker that there will be none.
#[derive(Debug)]
pub struct Reply<T>(oneshot::Sender<T>);

/// A reply and the future of whoever waits for it.
pub fn reply<T>() -> (Reply<T>, oneshot::Receiver<T>) {
    let (sender, receiver) = oneshot::channel();
    (Reply(sender), receiver)
}

impl<T> Reply<T> {
    /// Pays the debt. An asker who has gone is no fault.
    pub fn send(self, answer: T) {
        let _asker_has_gone = self.0.send(answer);
    }

    /// Returns when the asker no longer waits.
    pub async fn abandoned(&mut self) {
        self.0.closed().await;
    }

    /// Whether the asker no longer waits.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}
