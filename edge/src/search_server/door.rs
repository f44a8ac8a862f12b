//! The door in front of the library: so many lookups at once, so many waiting, none longer than the limit. It counts
//! what went through and what was turned away.

use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// The door.
pub(super) struct Door {
    slots: Arc<Semaphore>,
    concurrency: usize,
    queue_max: usize,
    timeout: Duration,
    waiting: AtomicUsize,
    answered: AtomicU64,
    failed: AtomicU64,
    full: AtomicU64,
    late: AtomicU64,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TurnedAway {
    /// As many wait as may.
    Full,
    /// It took longer than it may.
    Late,
    /// The lookup panicked.
    Panicked,
}

/// What went through and what waits.
#[derive(Debug, Serialize)]
pub(super) struct DoorCounts {
    pub(super) in_flight: usize,
    pub(super) waiting: usize,
    pub(super) answered: u64,
    pub(super) failed: u64,
    pub(super) refused_full: u64,
    pub(super) timed_out: u64,
}

impl Door {
    pub(super) fn new(concurrency: usize, queue_max: usize, timeout: Duration) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            queue_max,
            timeout,
            waiting: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            full: AtomicU64::new(0),
            late: AtomicU64::new(0),
        }
    }

    /// Runs a lookup on `runtime` once there is a slot. Dropped, or when the time is over, it stops the lookup.
    pub(super) async fn pass<T, E>(
        &self,
        runtime: &Handle,
        lookup: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<Result<T, E>, TurnedAway>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let through = tokio::time::timeout(self.timeout, async {
            let slot = self.slot().await?;
            // The slot goes with the lookup, so that it is free when that has really ended.
            let mut lookup = Stopping(runtime.spawn(async move {
                let answer = lookup.await;
                drop(slot);
                answer
            }));
            (&mut lookup.0).await.map_err(|_| TurnedAway::Panicked)
        });
        let outcome = through.await.unwrap_or(Err(TurnedAway::Late));
        let counted = match &outcome {
            Ok(Ok(_)) => &self.answered,
            Ok(Err(_)) | Err(TurnedAway::Panicked) => &self.failed,
            Err(TurnedAway::Full) => &self.full,
            Err(TurnedAway::Late) => &self.late,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    pub(super) fn counts(&self) -> DoorCounts {
        DoorCounts {
            in_flight: self.concurrency - self.slots.available_permits(),
            waiting: self.waiting.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            refused_full: self.full.load(Ordering::Relaxed),
            timed_out: self.late.load(Ordering::Relaxed),
        }
    }

    async fn slot(&self) -> Result<OwnedSemaphorePermit, TurnedAway> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queue_max {
            return Err(TurnedAway::Full);
        }
        let slot = Arc::clone(&self.slots).acquire_owned().await.expect("the semaphore is never closed");
        drop(waiting);
        Ok(slot)
    }
}

/// One that waits, or was turned away at once; counted out when it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A task that is stopped when nobody waits for it any more.
struct Stopping<T>(JoinHandle<T>);

impl<T> Drop for Stopping<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    async fn pass<T: Send + 'static>(
        door: &Door,
        lookup: impl Future<Output = Result<T, ()>> + Send + 'static,
    ) -> Result<Result<T, ()>, TurnedAway> {
        door.pass(&Handle::current(), lookup).await
    }

    #[tokio::test]
    async fn a_lookup_that_takes_too_long_is_stopped_and_its_slot_returns() {
        let door = Door::new(1, 0, Duration::from_millis(1));
        assert_eq!(pass::<()>(&door, pending()).await, Err(TurnedAway::Late));
        while door.counts().in_flight > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!((door.counts().answered, door.counts().timed_out), (0, 1));
    }

    #[tokio::test]
    async fn those_beyond_the_queue_are_turned_away_at_once() {
        let door = Arc::new(Door::new(1, 1, Duration::from_secs(60)));
        let (open, opened) = tokio::sync::oneshot::channel::<()>();
        let enter = |door: &Arc<Door>, lookup: futures::future::BoxFuture<'static, Result<u32, ()>>| {
            let door = Arc::clone(door);
            tokio::spawn(async move { pass(&door, lookup).await })
        };
        let first = enter(&door, Box::pin(async { opened.await.map(|()| 1).map_err(|_| ()) }));
        while door.counts().in_flight < 1 {
            tokio::task::yield_now().await;
        }
        let second = enter(&door, Box::pin(async { Ok(2) }));
        while door.counts().waiting < 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pass(&door, async { Ok(3) }).await, Err(TurnedAway::Full));
        assert_eq!(door.counts().waiting, 1, "who was turned away does not count as waiting");
        open.send(()).unwrap();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(Ok(1)), Ok(Ok(2))));
        assert_eq!((door.counts().refused_full, door.counts().answered, door.counts().waiting), (1, 2, 0));
    }

    #[tokio::test]
    async fn a_panic_is_told_and_does_not_keep_its_slot() {
        let door = Door::new(1, 0, Duration::from_secs(60));
        assert_eq!(pass::<()>(&door, async { panic!("a test's panic") }).await, Err(TurnedAway::Panicked));
        assert_eq!(pass(&door, async { Ok(1) }).await, Ok(Ok(1)));
    }
}
