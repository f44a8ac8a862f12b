//! The door in front of an endpoint: permits in the order of asking, whose number may adapt.
//!
//! It refuses to know what is done with a permit.

use crate::adaptive::Aimd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Permits, first come first served (tokio's semaphore is fair).
#[derive(Debug)]
pub(crate) struct Admission {
    semaphore: Semaphore,
    adaptive: Option<Mutex<Adaptive>>,
    epoch: Instant,
}

#[derive(Debug)]
struct Adaptive {
    aimd: Aimd,
    /// The limit that the semaphore stands for, permits still to be swallowed included.
    applied: usize,
    /// Permits that were out when the limit fell; they are swallowed on their return.
    owed: usize,
}

/// The right to have one request under way. Dropping it lets the next in line in.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Admission>);

impl Admission {
    pub(crate) fn new(concurrency: usize, adaptive: bool) -> Arc<Self> {
        let adaptive =
            adaptive.then(|| Mutex::new(Adaptive { aimd: Aimd::new(concurrency), applied: concurrency, owed: 0 }));
        Arc::new(Self { semaphore: Semaphore::new(concurrency), adaptive, epoch: Instant::now() })
    }

    pub(crate) async fn enter(self: &Arc<Self>) -> Permit {
        self.semaphore.acquire().await.expect("the semaphore is never closed").forget();
        Permit(self.clone())
    }

    pub(crate) fn succeeded(&self) {
        self.adapt(|aimd, _| aimd.succeeded());
    }

    pub(crate) fn overloaded(&self) {
        self.adapt(Aimd::overloaded);
    }

    /// Permits that are free now.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.semaphore.available_permits()
    }

    fn adapt(&self, act: impl FnOnce(&mut Aimd, u64)) {
        let Some(mut adaptive) = self.lock() else { return };
        let now_ms = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        act(&mut adaptive.aimd, now_ms);
        let wanted = adaptive.aimd.limit();
        if wanted < adaptive.applied {
            let surplus = adaptive.applied - wanted;
            adaptive.owed += surplus - self.semaphore.forget_permits(surplus);
        } else {
            let missing = wanted - adaptive.applied;
            let forgiven = missing.min(adaptive.owed);
            adaptive.owed -= forgiven;
            self.semaphore.add_permits(missing - forgiven);
        }
        adaptive.applied = wanted;
    }

    fn lock(&self) -> Option<MutexGuard<'_, Adaptive>> {
        Some(self.adaptive.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(mut adaptive) = self.0.lock()
            && adaptive.owed > 0
        {
            adaptive.owed -= 1;
            return;
        }
        self.0.semaphore.add_permits(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::CUT_PAUSE_MS;
    use futures::FutureExt;
    use std::time::Duration;

    fn try_enter(door: &Arc<Admission>) -> Option<Permit> {
        door.enter().now_or_never()
    }

    #[tokio::test]
    async fn the_door_lets_in_as_many_as_configured_and_in_order() {
        let door = Admission::new(2, false);
        let first = door.enter().await;
        let _second = door.enter().await;
        let mut third = Box::pin(door.enter());
        assert!(third.as_mut().now_or_never().is_none());
        let mut fourth = Box::pin(door.enter());
        assert!(fourth.as_mut().now_or_never().is_none());
        drop(first);
        assert!(fourth.as_mut().now_or_never().is_none(), "the third came first");
        assert!(third.now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_dropped_waiter_takes_nothing_with_it() {
        let door = Admission::new(1, false);
        let held = door.enter().await;
        let mut waiter = Box::pin(door.enter());
        assert!(waiter.as_mut().now_or_never().is_none());
        drop(held);
        drop(waiter);
        assert_eq!(door.free(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn overload_shrinks_the_door_also_while_permits_are_out() {
        let door = Admission::new(4, true);
        let out: Vec<_> = [try_enter(&door), try_enter(&door), try_enter(&door)].into_iter().flatten().collect();
        door.overloaded();
        assert!(try_enter(&door).is_none(), "three are out and two may be");
        drop(out);
        assert_eq!(door.free(), 2);
        tokio::time::advance(Duration::from_millis(CUT_PAUSE_MS)).await;
        door.overloaded();
        assert_eq!(door.free(), 1);
        for _ in 0..100 {
            door.succeeded();
        }
        assert_eq!(door.free(), 4);
    }
}
