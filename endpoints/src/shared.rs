//! What the endpoints of one run share: the purse of retries, the wall clock, the dice; and the tally
//! that each endpoint keeps of what happened to it.

use crate::retry::{PURSE_DEFAULT, RetryPurse};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Shared by all endpoints of a run; cloning shares.
#[derive(Clone)]
pub struct Shared {
    /// What retries are paid from.
    pub purse: Arc<RetryPurse>,
    wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    dice: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Shared {
    /// The system's clock and dice, and a purse of `retries`.
    pub fn new(retries: u64) -> Self {
        Self::with(retries, SystemTime::now, rand::random::<u64>)
    }

    /// As [`Shared::new`], with a wall clock and dice of the caller's. The wall clock is only read for a
    /// `Retry-After` date of a server that sends no `Date`.
    pub fn with(
        retries: u64,
        wall: impl Fn() -> SystemTime + Send + Sync + 'static,
        dice: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { purse: Arc::new(RetryPurse::new(retries)), wall: Arc::new(wall), dice: Arc::new(dice) }
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.wall)()
    }

    pub(crate) fn throw(&self) -> u64 {
        (self.dice)()
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self::new(PURSE_DEFAULT)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("purse", &self.purse).finish_non_exhaustive()
    }
}

/// What has happened to an endpoint so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Requests sent, retries included.
    pub requests: u64,
    /// Of these, second and later tries.
    pub retries: u64,
    /// Calls that ended in an answer.
    pub answered: u64,
    /// Calls that ended in a failure.
    pub failed: u64,
    /// Requests under way now.
    pub in_flight: u64,
    /// The most requests that were under way at once.
    pub in_flight_most: u64,
    /// Aborts that the server accepted.
    pub aborts_sent: u64,
    /// Aborts that met a server without the route: its orphaned work may have run on.
    pub aborts_unsupported: u64,
    /// Aborts that failed otherwise, or were not sent since too many were under way.
    pub aborts_failed: u64,
    /// Prompts whose earlier ids could not be reused and were encoded anew (SGLang).
    pub reencoded: u64,
}

/// The counters behind a [`Tally`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) failed: AtomicU64,
    in_flight: AtomicU64,
    in_flight_most: AtomicU64,
    pub(crate) aborts_sent: AtomicU64,
    pub(crate) aborts_unsupported: AtomicU64,
    pub(crate) aborts_failed: AtomicU64,
    pub(crate) reencoded: AtomicU64,
}

/// Counts a request as under way until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight<'a>(&'a Counters);

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn start(&self) -> InFlight<'_> {
        count(&self.requests);
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.in_flight_most.fetch_max(now, Ordering::Relaxed);
        InFlight(self)
    }

    pub(crate) fn tally(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            requests: read(&self.requests),
            retries: read(&self.retries),
            answered: read(&self.answered),
            failed: read(&self.failed),
            in_flight: read(&self.in_flight),
            in_flight_most: read(&self.in_flight_most),
            aborts_sent: read(&self.aborts_sent),
            aborts_unsupported: read(&self.aborts_unsupported),
            aborts_failed: read(&self.aborts_failed),
            reencoded: read(&self.reencoded),
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
