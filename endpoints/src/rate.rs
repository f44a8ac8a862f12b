//! Rates per minute: a token bucket as a pure state machine over milliseconds, and the line that waits
//! for it, first come first served.

use std::sync::{Mutex, PoisonError};
use tokio::time::{Duration, Instant};

/// A minute's allowance may be used in bursts of this part of it, so that no window of one minute sees
/// more than 1 + 1/10 of the rate.
pub const BURST_DIVISOR: u64 = 10;
/// The highest rate, per minute; beyond it a limit is pointless and the arithmetic would overflow.
pub const PER_MINUTE_LIMIT: u64 = 1_000_000_000;
/// One unit is kept as this many parts, so that a millisecond refills exactly `per_minute` parts.
const PARTS: i64 = 60_000;

/// A bucket that refills evenly. Times are milliseconds of any clock that does not run backwards; an
/// earlier time than the last is taken as the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    per_minute: i64,
    capacity: i64,
    level: i64,
    last_ms: u64,
}

impl TokenBucket {
    /// A full bucket at time `now_ms`; `per_minute` is put within 1 and [`PER_MINUTE_LIMIT`].
    pub fn new(per_minute: u64, now_ms: u64) -> Self {
        let rate = per_minute.clamp(1, PER_MINUTE_LIMIT);
        let per_minute = i64::try_from(rate).expect("clamped to a billion");
        let capacity = i64::try_from(rate.div_ceil(BURST_DIVISOR)).expect("smaller than the rate") * PARTS;
        Self { per_minute, capacity, level: capacity, last_ms: now_ms }
    }

    /// Takes `cost` units, or says in how many milliseconds to ask again. A cost above the burst is let
    /// through when the bucket is full and leaves a debt, so that it is late but never stuck.
    pub fn take(&mut self, cost: u64, now_ms: u64) -> Result<(), u64> {
        self.refill(now_ms);
        let cost = parts(cost);
        let missing = cost.min(self.capacity) - self.level;
        if missing > 0 {
            // Positive numbers: the division rounds up.
            let wait_ms = (missing + self.per_minute - 1) / self.per_minute;
            return Err(wait_ms.unsigned_abs());
        }
        self.level -= cost;
        Ok(())
    }

    /// Corrects an earlier `take` of `estimate` units to what it came to.
    pub fn settle(&mut self, estimate: u64, actual: u64, now_ms: u64) {
        self.refill(now_ms);
        self.level = (self.level + parts(estimate) - parts(actual)).min(self.capacity);
    }

    fn refill(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.last_ms);
        self.last_ms = self.last_ms.max(now_ms);
        let gained = i64::try_from(passed).unwrap_or(i64::MAX).saturating_mul(self.per_minute);
        self.level = self.level.saturating_add(gained).min(self.capacity);
    }
}

/// A cost in parts; costs beyond the highest rate count as that, which keeps sums far from overflow.
fn parts(cost: u64) -> i64 {
    i64::try_from(cost.min(PER_MINUTE_LIMIT)).expect("cut to a billion") * PARTS
}

/// A bucket with a line in front of it.
#[derive(Debug)]
pub struct RateLimiter {
    bucket: Mutex<TokenBucket>,
    /// Whoever holds it is first in line; tokio's mutex is fair.
    line: tokio::sync::Mutex<()>,
    epoch: Instant,
}

impl RateLimiter {
    /// A limiter of `per_minute` units. Its clock is tokio's, so a paused test can drive it.
    pub fn new(per_minute: u64) -> Self {
        Self {
            bucket: Mutex::new(TokenBucket::new(per_minute, 0)),
            line: tokio::sync::Mutex::new(()),
            epoch: Instant::now(),
        }
    }

    /// Waits in line for `cost` units. Nothing is taken if the wait is dropped.
    pub async fn acquire(&self, cost: u64) {
        let _first = self.line.lock().await;
        loop {
            let answer = self.with(|bucket, now_ms| bucket.take(cost, now_ms));
            match answer {
                Ok(()) => return,
                Err(wait_ms) => tokio::time::sleep(Duration::from_millis(wait_ms)).await,
            }
        }
    }

    /// Corrects an earlier acquisition of `estimate` units to what it came to.
    pub fn settle(&self, estimate: u64, actual: u64) {
        self.with(|bucket, now_ms| bucket.settle(estimate, actual, now_ms));
    }

    fn with<T>(&self, act: impl FnOnce(&mut TokenBucket, u64) -> T) -> T {
        let now_ms = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        act(&mut self.bucket.lock().unwrap_or_else(PoisonError::into_inner), now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_the_rate() {
        let mut bucket = TokenBucket::new(60, 0);
        for _ in 0..6 {
            assert_eq!(bucket.take(1, 0), Ok(()));
        }
        assert_eq!(bucket.take(1, 0), Err(1000));
        assert_eq!(bucket.take(1, 999), Err(1));
        assert_eq!(bucket.take(1, 1000), Ok(()));
    }

    #[test]
    fn a_cost_above_the_burst_waits_for_a_full_bucket_and_leaves_a_debt() {
        let mut bucket = TokenBucket::new(600, 0);
        assert_eq!(bucket.take(100, 0), Ok(()));
        assert_eq!(bucket.take(1, 0), Err(4_100), "40 units of debt and one more, at 10 a second");
        assert_eq!(bucket.take(1, 4_100), Ok(()));
    }

    #[test]
    fn settling_returns_what_was_not_used_and_charges_what_was_more() {
        let mut bucket = TokenBucket::new(600, 0);
        bucket.take(60, 0).unwrap();
        bucket.settle(60, 10, 0);
        assert_eq!(bucket.take(50, 0), Ok(()));
        bucket.settle(50, 70, 0);
        assert_eq!(bucket.take(1, 0), Err(2_100));
    }

    #[test]
    fn a_clock_that_jumps_does_no_harm() {
        let mut bucket = TokenBucket::new(60, 5_000);
        for _ in 0..6 {
            bucket.take(1, 5_000).unwrap();
        }
        assert_eq!(bucket.take(1, 0), Err(1000), "backwards adds nothing");
        assert_eq!(bucket.take(6, u64::MAX), Ok(()), "far ahead fills to the brim");
        assert!(bucket.take(1, u64::MAX).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_are_served_in_the_order_they_came() {
        let limiter = std::sync::Arc::new(RateLimiter::new(60));
        limiter.acquire(6).await;
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        for (number, cost) in [(1, 6), (2, 1), (3, 1)] {
            let (limiter, sender) = (limiter.clone(), sender.clone());
            tokio::spawn(async move {
                limiter.acquire(cost).await;
                sender.send(number).unwrap();
            });
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        let order = [receiver.recv().await, receiver.recv().await, receiver.recv().await];
        assert_eq!(order, [Some(1), Some(2), Some(3)]);
        assert_eq!(start.elapsed().as_secs(), 8);
    }

    proptest! {
        #[test]
        fn no_minute_sees_more_than_the_rate_and_a_burst(
            per_minute in 1_u64..500, steps in proptest::collection::vec((0_u64..3_000, 1_u64..4), 1..300),
        ) {
            let mut bucket = TokenBucket::new(per_minute, 0);
            let mut now_ms = 0;
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (pause_ms, cost) in steps {
                now_ms += pause_ms;
                if bucket.take(cost, now_ms).is_ok() {
                    taken.push((now_ms, cost));
                }
                let window: u64 = taken.iter().filter(|(at, _)| at + 60_000 > now_ms).map(|(_, cost)| cost).sum();
                // One cost may be above the burst, and then it is followed by its debt.
                prop_assert!(window <= per_minute + per_minute.div_ceil(BURST_DIVISOR) + 4);
            }
        }
    }
}
