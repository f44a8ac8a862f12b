//! The door in front of the models: so many answers at once, so many requests waiting, the next turned away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The door.
pub(super) struct Door {
    slots: Arc<Semaphore>,
    concurrency: usize,
    queue_max: usize,
    waiting: AtomicUsize,
}

/// As many wait as may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Door {
    pub(super) fn new(concurrency: usize, queue_max: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(concurrency)), concurrency, queue_max, waiting: AtomicUsize::new(0) }
    }

    /// Takes slots for so many answers, or all that there are where it wants more; they return when what it gives is
    /// dropped. Those who wait are let in in the order in which they came.
    pub(super) async fn enter(&self, answers: usize) -> Result<OwnedSemaphorePermit, Full> {
        let wanted = u32::try_from(answers.clamp(1, self.concurrency)).unwrap_or(u32::MAX);
        if let Ok(slots) = Arc::clone(&self.slots).try_acquire_many_owned(wanted) {
            return Ok(slots);
        }
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queue_max {
            return Err(Full);
        }
        let slots = Arc::clone(&self.slots).acquire_many_owned(wanted).await.expect("the semaphore is never closed");
        drop(waiting);
        Ok(slots)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.concurrency - self.slots.available_permits()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// One that waits, or was turned away at once; counted out when it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn those_beyond_the_queue_are_turned_away_and_slots_return() {
        let door = Door::new(2, 1);
        let inside = door.enter(2).now_or_never().unwrap().unwrap();
        let mut second = Box::pin(door.enter(1));
        assert!(second.as_mut().now_or_never().is_none(), "it waits");
        assert_eq!((door.waiting(), door.in_flight()), (1, 2));
        assert_eq!(door.enter(1).now_or_never().unwrap().err(), Some(Full));
        drop(inside);
        let second = second.now_or_never().unwrap().unwrap();
        assert_eq!((door.waiting(), door.in_flight()), (0, 1));
        drop(second);
        assert_eq!(door.in_flight(), 0);
    }

    #[test]
    fn who_wants_more_than_there_are_gets_all_and_who_gives_up_no_longer_waits() {
        let door = Door::new(2, 5);
        let all = door.enter(99).now_or_never().unwrap().unwrap();
        let mut waiting = Box::pin(door.enter(1));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        assert_eq!(door.waiting(), 0);
        drop(all);
        assert!(door.enter(2).now_or_never().unwrap().is_ok());
    }
}
