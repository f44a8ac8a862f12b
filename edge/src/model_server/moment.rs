//! The one place of the model server that reads a clock: when an answer was made, and how long it took.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub(super) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Nanoseconds since 1970, in which two starts of a server differ.
pub(super) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// A moment to measure from.
pub(super) fn now() -> Instant {
    Instant::now()
}
