//! The ledger's own thread. Appends come through a bounded queue; whatever has queued up while one transaction
//! was written becomes the next, so that the cost of synchronising is shared. After a failed write nothing more
//! is acknowledged.

use super::{Append, History, LedgerMsg, Store, as_failure};
use crate::address::Reply;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::EpisodeKey;
use ractor::ActorRef;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

/// Appends of one transaction at most.
pub const BATCH_MAX: usize = 1024;
/// Appends that may wait for the thread.
pub const QUEUE_MAX: usize = 4096;

/// A transaction that would be smaller than this waits for company.
pub const BATCH_WORTH: usize = 256;
/// How long it waits: a commit costs a synchronisation however small it is, and a model's turn takes a thousand times
/// as long.
pub const LINGER: Duration = Duration::from_millis(1);

enum Job {
    Append(Box<Append>, Reply<Result<(), Failure>>),
    Recall(EpisodeKey, Reply<Result<History, Failure>>),
    Tell(ActorRef<LedgerMsg>),
    Close(Reply<()>),
}

/// The thread and the queue to it.
pub struct WriterHandle {
    jobs: mpsc::Sender<Job>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriterHandle {
    /// Starts the thread over an open store.
    pub fn start(store: Store) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("ledger".into()).spawn(move || write(store, queue))?;
        Ok(Self { jobs, thread: Mutex::new(Some(thread)) })
    }

    /// The actor to tell when writing fails.
    pub(crate) async fn report_to(&self, ledger: ActorRef<LedgerMsg>) {
        let _thread_has_ended = self.jobs.send(Job::Tell(ledger)).await;
    }

    pub(super) async fn append(&self, append: Box<Append>, reply: Reply<Result<(), Failure>>) {
        if let Err(refused) = self.jobs.send(Job::Append(append, reply)).await
            && let Job::Append(_, reply) = refused.0
        {
            reply.send(Err(ended()));
        }
    }

    pub(super) async fn recall(&self, episode: EpisodeKey, reply: Reply<Result<History, Failure>>) {
        if let Err(refused) = self.jobs.send(Job::Recall(episode, reply)).await
            && let Job::Recall(_, reply) = refused.0
        {
            reply.send(Err(ended()));
        }
    }

    pub(super) async fn close(&self) {
        let (reply, closed) = crate::address::reply();
        if self.jobs.send(Job::Close(reply)).await.is_ok() {
            let _thread_has_ended = closed.await;
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _joined = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

fn ended() -> Failure {
    Failure::new(FailureKind::Ledger, "the ledger's thread has ended; see the first ledger failure for why")
}

fn write(mut store: Store, mut queue: mpsc::Receiver<Job>) {
    let mut broken: Option<Failure> = None;
    let mut actor: Option<ActorRef<LedgerMsg>> = None;
    let mut jobs = Vec::with_capacity(BATCH_MAX);
    loop {
        jobs.clear();
        if queue.blocking_recv_many(&mut jobs, BATCH_MAX) == 0 {
            break;
        }
        if jobs.len() < BATCH_WORTH && jobs.iter().all(|job| matches!(job, Job::Append(..))) {
            std::thread::sleep(LINGER);
            while jobs.len() < BATCH_MAX
                && let Ok(job) = queue.try_recv()
            {
                jobs.push(job);
            }
        }
        let mut batch = Vec::with_capacity(jobs.len());
        let mut replies = Vec::with_capacity(jobs.len());
        let mut after = Vec::new();
        for job in jobs.drain(..) {
            match job {
                Job::Append(append, reply) => {
                    batch.push(append);
                    replies.push(reply);
                }
                other => after.push(other),
            }
        }
        let written = match &broken {
            Some(failure) => Err(failure.clone()),
            None if batch.is_empty() => Ok(()),
            None => store.append(&batch).map_err(|error| as_failure(&error)),
        };
        if let (Err(failure), None) = (&written, &broken) {
            broken = Some(failure.clone());
            tracing::error!(%failure, "the ledger cannot write");
            if let Some(actor) = &actor {
                let _dead = actor.cast(LedgerMsg::Broken(failure.clone()));
            }
        }
        replies.into_iter().for_each(|reply| reply.send(written.clone()));
        for job in after {
            match job {
                Job::Append(..) => {}
                Job::Recall(episode, reply) => reply.send(store.recall(&episode).map_err(|error| as_failure(&error))),
                Job::Tell(ledger) => actor = Some(ledger),
                Job::Close(reply) => {
                    store.checkpoint();
                    drop(store);
                    return reply.send(());
                }
            }
        }
    }
    store.checkpoint();
}
