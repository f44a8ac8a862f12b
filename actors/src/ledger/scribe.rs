//! What the ledger's writer does, whatever carries it: a batch of appends becomes one transaction, each append is
//! acknowledged after it and none before, and after a failed write nothing more is acknowledged. An event whose place is taken is
//! refused alone: an actor that was killed may have said its last word after its successor was told what there is. It knows
//! neither threads nor clocks.

use super::{Append, History, LedgerMsg, Store, as_failure};
use crate::address::Reply;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::{EpisodeKey, Scope};
use ractor::ActorRef;

/// What a writer is asked.
pub(super) enum Job {
    Append(Box<Append>, Reply<Result<(), Failure>>),
    Recall(EpisodeKey, Option<Scope>, Reply<Result<History, Failure>>),
    Tell(ActorRef<LedgerMsg>),
    Close(Reply<()>),
}

impl Job {
    pub(super) fn is_append(&self) -> bool {
        matches!(self, Job::Append(..))
    }
}

/// A store and what has gone wrong with it.
pub(super) struct Scribe {
    store: Store,
    broken: Option<Failure>,
    actor: Option<ActorRef<LedgerMsg>>,
}

impl Scribe {
    pub(super) fn new(store: Store) -> Self {
        Self { store, broken: None, actor: None }
    }

    /// Carries jobs out: first all appends as one transaction, then the others in their order. `refused` stands for
    /// what a disk would say, if it is to refuse. Returns whom to tell that the files are let go of, if that was
    /// asked: nothing may follow.
    pub(super) fn carry_out(&mut self, jobs: &mut Vec<Job>, refused: Option<Failure>) -> Option<Reply<()>> {
        let mut batch = Vec::with_capacity(jobs.len());
        let mut replies = Vec::with_capacity(jobs.len());
        let mut after = Vec::new();
        for job in jobs.drain(..) {
            match job {
                Job::Append(append, reply) => {
                    batch.push(append);
                    replies.push(reply);
                }
                // Before anything is written: whoever is to hear of a failure is known then.
                Job::Tell(ledger) => self.report_to(ledger),
                other => after.push(other),
            }
        }
        match self.write(&batch, refused) {
            Ok(kept) => {
                for ((reply, append), kept) in replies.into_iter().zip(&batch).zip(kept) {
                    reply.send(if kept { Ok(()) } else { Err(taken(append)) });
                }
            }
            Err(failure) => replies.into_iter().for_each(|reply| reply.send(Err(failure.clone()))),
        }
        for job in after {
            match job {
                Job::Append(..) | Job::Tell(..) => {}
                Job::Recall(episode, scope, reply) => {
                    reply.send(self.store.recall(&episode, scope).map_err(|error| as_failure(&error)));
                }
                Job::Close(reply) => return Some(reply),
            }
        }
        None
    }

    /// Lets go of the files.
    pub(super) fn close(self) {
        self.store.checkpoint();
    }

    /// Nothing is written any more, and the actor hears why.
    pub(super) fn break_by(&mut self, failure: Failure) {
        tracing::error!(%failure, "the ledger cannot write");
        if let Some(actor) = &self.actor {
            let _dead = actor.cast(LedgerMsg::Broken(failure.clone()));
        }
        self.broken = Some(failure);
    }

    fn report_to(&mut self, ledger: ActorRef<LedgerMsg>) {
        if let Some(failure) = &self.broken {
            let _dead = ledger.cast(LedgerMsg::Broken(failure.clone()));
        }
        self.actor = Some(ledger);
    }

    /// Of each append whether it was kept.
    fn write(&mut self, batch: &[Box<Append>], refused: Option<Failure>) -> Result<Vec<bool>, Failure> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let written = match refused {
            Some(failure) => Err(failure),
            None => self.store.append(batch).map_err(|error| as_failure(&error)),
        };
        if let Err(failure) = &written {
            self.break_by(failure.clone());
        }
        written
    }
}

fn taken(append: &Append) -> Failure {
    let Append { episode, scope, seq, .. } = append;
    let detail = format!(
        "event {seq} of {scope} of {episode} is kept already, by an actor before this one; recall what there is"
    );
    Failure::new(FailureKind::Ledger, detail)
}
