//! The run's clock. It follows tokio's time, so that a paused runtime has a paused clock; only its beginning is
//! taken from the system. Actors read no other clock.

use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Milliseconds since the Unix epoch, by tokio's time from a fixed beginning.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
    began_epoch_ms: u64,
}

impl Clock {
    /// A clock that begins at the system's time.
    pub fn system() -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_epoch_ms(u64::try_from(epoch.as_millis()).unwrap_or(u64::MAX))
    }

    /// A clock that begins where it is told, for runs that must repeat.
    pub fn from_epoch_ms(began_epoch_ms: u64) -> Self {
        Self { began: Instant::now(), began_epoch_ms }
    }

    /// Now, in milliseconds since the Unix epoch.
    pub fn epoch_ms(&self) -> u64 {
        self.began_epoch_ms + self.elapsed_ms()
    }

    /// Milliseconds since the beginning.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
