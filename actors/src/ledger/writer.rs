//! Who carries the scribe: a thread of its own, or, for runs under a paused clock that must repeat, a task. Appends
//! come through a bounded queue; whatever has queued up while one transaction was written becomes the next, so that
//! the cost of synchronising is shared.

use super::scribe::{Job, Scribe};
use super::{Append, History, LedgerMsg, Store};
use crate::address::Reply;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::{EpisodeKey, Scope};
use ractor::ActorRef;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

/// Appends of one transaction at most.
pub const BATCH_MAX: usize = 1024;
/// Appends that may wait for the writer.
pub const QUEUE_MAX: usize = 4096;

/// A transaction that would be smaller than this waits for company.
pub const BATCH_WORTH: usize = 256;
/// How long it waits: a commit costs a synchronisation however small it is, and a model's turn takes a thousand times
/// as long.
pub const LINGER: Duration = Duration::from_millis(1);

/// How one batch of a writer without a thread is written.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// How long its disk takes.
    pub takes: Duration,
    /// What its disk says instead of writing.
    pub refuses: Option<Failure>,
}

/// The writer and the queue to it.
pub struct WriterHandle {
    jobs: mpsc::Sender<Job>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriterHandle {
    /// Starts a thread over an open store.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(store: Store) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("ledger".into()).spawn(move || write(store, queue))?;
        Ok(Self { jobs, thread: Mutex::new(Some(thread)) })
    }

    /// Starts a task of the runtime that this is called in, for a run that must repeat under a paused clock. `pace`
    /// is asked before each batch, with its number from 0.
    pub fn start_unthreaded(store: Store, pace: impl FnMut(u64) -> Pace + Send + 'static) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(write_paced(store, queue, pace));
        Self { jobs, thread: Mutex::new(None) }
    }

    /// The actor to tell when writing fails.
    pub(crate) async fn report_to(&self, ledger: ActorRef<LedgerMsg>) {
        let _writer_has_ended = self.jobs.send(Job::Tell(ledger)).await;
    }

    pub(super) async fn append(&self, append: Box<Append>, reply: Reply<Result<(), Failure>>) {
        if let Err(refused) = self.jobs.send(Job::Append(append, reply)).await
            && let Job::Append(_, reply) = refused.0
        {
            reply.send(Err(ended()));
        }
    }

    pub(super) async fn recall(
        &self,
        episode: EpisodeKey,
        scope: Option<Scope>,
        reply: Reply<Result<History, Failure>>,
    ) {
        if let Err(refused) = self.jobs.send(Job::Recall(episode, scope, reply)).await
            && let Job::Recall(.., reply) = refused.0
        {
            reply.send(Err(ended()));
        }
    }

    pub(super) async fn close(&self) {
        let (reply, closed) = crate::address::reply();
        if self.jobs.send(Job::Close(reply)).await.is_ok() {
            let _writer_has_ended = closed.await;
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _joined = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

fn ended() -> Failure {
    Failure::new(FailureKind::Ledger, "the ledger's writer has ended; see the first ledger failure for why")
}

fn write(store: Store, mut queue: mpsc::Receiver<Job>) {
    let mut scribe = Scribe::new(store);
    let mut jobs = Vec::with_capacity(BATCH_MAX);
    while queue.blocking_recv_many(&mut jobs, BATCH_MAX) > 0 {
        if jobs.len() < BATCH_WORTH && jobs.iter().all(Job::is_append) {
            std::thread::sleep(LINGER);
            join_company(&mut jobs, &mut queue);
        }
        match catch_unwind(AssertUnwindSafe(|| scribe.carry_out(&mut jobs, None))) {
            Ok(None) => {}
            Ok(Some(closed)) => {
                scribe.close();
                return closed.send(());
            }
            // Whoever was in the batch gets no reply, and what comes after is refused by this.
            Err(_) => {
                jobs.clear();
                scribe.break_by(Failure::new(FailureKind::Ledger, "the ledger's writer panicked, as told before this"));
            }
        }
    }
    scribe.close();
}

async fn write_paced(store: Store, mut queue: mpsc::Receiver<Job>, mut pace: impl FnMut(u64) -> Pace) {
    let mut scribe = Scribe::new(store);
    let mut jobs = Vec::with_capacity(BATCH_MAX);
    let mut batch = 0;
    while queue.recv_many(&mut jobs, BATCH_MAX).await > 0 {
        let mut refused = None;
        if jobs.iter().any(Job::is_append) {
            let Pace { takes, refuses } = pace(batch);
            batch += 1;
            refused = refuses;
            tokio::time::sleep(LINGER.max(takes)).await;
            join_company(&mut jobs, &mut queue);
        }
        if let Some(closed) = scribe.carry_out(&mut jobs, refused) {
            scribe.close();
            return closed.send(());
        }
    }
    scribe.close();
}

/// What has come meanwhile is written along.
fn join_company(jobs: &mut Vec<Job>, queue: &mut mpsc::Receiver<Job>) {
    while jobs.len() < BATCH_MAX
        && let Ok(job) = queue.try_recv()
    {
        jobs.push(job);
    }
}
