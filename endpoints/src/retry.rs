//! Whether to try again, and when: pure functions over what came, the time and a throw of dice; and the
//! purse from which all endpoints of a run pay their retries.
//!
//! It refuses to know HTTP clients and clocks.

use crate::fault::Fault;
use legwork_protocol::failure::{Failure, FailureKind};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The longest wait that a server's `Retry-After` can impose, in milliseconds; more is cut to it.
pub const RETRY_AFTER_MAX_MS: u64 = 120_000;
/// The most tries that a configuration may ask for.
pub const TRIES_LIMIT: u32 = 20;
/// Retries that a run may spend unless it says otherwise.
pub const PURSE_DEFAULT: u64 = 10_000;

/// How often and how patiently one call is tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// The most tries of one call, the first included.
    pub tries_max: u32,
    /// The backoff before the second try is drawn from 0 to this, and doubles with each try.
    pub base_ms: u64,
    /// No backoff is drawn from beyond this.
    pub cap_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { tries_max: 5, base_ms: 500, cap_ms: 30_000 }
    }
}

/// What to do after a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try again after a wait.
    Again {
        /// The wait, in milliseconds.
        after_ms: u64,
    },
    /// End the call with this failure.
    GiveUp(Failure),
}

/// Decides after the `attempt`-th try (from 1) has ended in `fault`.
///
/// A `Retry-After` in seconds or as an HTTP date is the least wait, with a jitter of up to `base_ms` on
/// top so that waiters do not return as a herd; without one the wait is full jitter: uniform between 0
/// and `min(cap_ms, base_ms · 2^(attempt-1))`, after Brooker, "Exponential Backoff And Jitter" (2015).
/// `now` is the server's time where it gave one, and `dice` any 64 random bits.
pub fn decide(
    policy: &RetryPolicy,
    attempt: u32,
    fault: &Fault,
    now: SystemTime,
    retry_after: Option<&str>,
    dice: u64,
) -> Decision {
    if !fault.again || attempt >= policy.tries_max {
        return Decision::GiveUp(Failure { kind: fault.kind, detail: fault.detail.clone(), attempts: attempt });
    }
    let after_ms = match retry_after.and_then(|text| retry_after_ms(text, now)) {
        Some(floor_ms) => floor_ms + up_to(policy.base_ms, dice),
        None => up_to(window_ms(policy, attempt), dice),
    };
    Decision::Again { after_ms }
}

/// Reads `Retry-After`: seconds (a fraction is accepted) or an HTTP date. A date in the past is 0, an
/// absurd value is cut to [`RETRY_AFTER_MAX_MS`], and what is neither is as if it were absent.
pub fn retry_after_ms(text: &str, now: SystemTime) -> Option<u64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        // Infinity saturates in the cast and is cut; a negative or NaN wait says nothing.
        return (seconds >= 0.0).then(|| ((seconds * 1000.0).ceil() as u64).min(RETRY_AFTER_MAX_MS));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let wait = date.duration_since(now).unwrap_or(Duration::ZERO);
    Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(RETRY_AFTER_MAX_MS))
}

/// How a status is to be taken: its kind, and whether another try can succeed.
///
/// 408, 409, 425, 429 and 5xx (529 too) are tried again; 501 and 505 are not, since the server says that
/// it never will; other 4xx and redirects are refusals.
pub fn classify(status: u16) -> (FailureKind, bool) {
    match status {
        408 => (FailureKind::TimedOut, true),
        409 | 425 => (FailureKind::ServerError, true),
        429 => (FailureKind::RateLimited, true),
        501 | 505 => (FailureKind::ServerError, false),
        500..=599 => (FailureKind::ServerError, true),
        _ => (FailureKind::Refused, false),
    }
}

fn window_ms(policy: &RetryPolicy, attempt: u32) -> u64 {
    let doubled = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
    policy.base_ms.saturating_mul(doubled).min(policy.cap_ms)
}

/// Uniform over `0..=most`, by the high half of a wide product, which has no bias that matters here.
fn up_to(most: u64, dice: u64) -> u64 {
    let wide = u128::from(dice) * (u128::from(most) + 1);
    u64::try_from(wide >> 64).expect("a 64-bit number times at most 2^64, shifted by 64, fits 64 bits")
}

/// The retries that one run may still spend, shared by all its endpoints. When a provider is down, the
/// run stops paying instead of multiplying its load.
#[derive(Debug)]
pub struct RetryPurse(AtomicU64);

impl RetryPurse {
    /// A purse of `retries`.
    pub fn new(retries: u64) -> Self {
        Self(AtomicU64::new(retries))
    }

    /// Pays for one retry; false when the purse is empty.
    pub fn pay(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// What is left.
    pub fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: RetryPolicy = RetryPolicy { tries_max: 4, base_ms: 100, cap_ms: 250 };

    fn date(text: &str) -> SystemTime {
        httpdate::parse_http_date(text).unwrap()
    }

    fn now() -> SystemTime {
        date("Sun, 06 Nov 1994 08:49:37 GMT")
    }

    fn fault(status: u16) -> Fault {
        let (kind, again) = classify(status);
        Fault::new(kind, again, format!("status {status}"))
    }

    #[test]
    fn the_backoff_is_full_jitter_within_a_doubling_capped_window() {
        let wait = |attempt, dice| decide(&POLICY, attempt, &fault(503), now(), None, dice);
        assert_eq!(wait(1, 0), Decision::Again { after_ms: 0 });
        assert_eq!(wait(1, u64::MAX), Decision::Again { after_ms: 100 });
        assert_eq!(wait(2, u64::MAX), Decision::Again { after_ms: 200 });
        assert_eq!(wait(3, u64::MAX), Decision::Again { after_ms: 250 });
        assert_eq!(wait(2, u64::MAX / 2), Decision::Again { after_ms: 100 });
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date_and_is_the_least_wait() {
        let wait = |text| decide(&POLICY, 1, &fault(429), now(), Some(text), u64::MAX);
        assert_eq!(wait("7"), Decision::Again { after_ms: 7_100 });
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:07 GMT"), Decision::Again { after_ms: 30_100 });
        assert_eq!(wait("Sunday, 06-Nov-94 08:50:07 GMT"), Decision::Again { after_ms: 30_100 });
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Decision::Again { after_ms: 100 });
        assert_eq!(wait("soon"), Decision::Again { after_ms: 100 }, "not readable is as if absent");
    }

    #[test]
    fn an_absurd_retry_after_is_cut_to_the_limit() {
        for text in ["99999999999", "1e300", "inf", "Fri, 31 Dec 9999 23:59:59 GMT"] {
            assert_eq!(retry_after_ms(text, now()), Some(RETRY_AFTER_MAX_MS), "{text}");
        }
        for text in ["-5", "NaN", "", "12 parsecs"] {
            assert_eq!(retry_after_ms(text, now()), None, "{text}");
        }
        assert_eq!(retry_after_ms(" 0.25 ", now()), Some(250));
    }

    #[test]
    fn statuses_that_may_pass_are_tried_again_and_others_are_not() {
        for status in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
            assert!(matches!(decide(&POLICY, 1, &fault(status), now(), None, 0), Decision::Again { .. }), "{status}");
        }
        for status in [301, 400, 401, 403, 404, 413, 422, 501, 505] {
            let Decision::GiveUp(failure) = decide(&POLICY, 1, &fault(status), now(), Some("1"), 0) else {
                panic!("{status} was tried again");
            };
            assert_eq!(failure.attempts, 1);
        }
    }

    #[test]
    fn after_the_last_try_the_fault_becomes_the_failure_with_its_tries() {
        let Decision::GiveUp(failure) = decide(&POLICY, 4, &fault(429), now(), Some("1"), 0) else { panic!() };
        assert_eq!((failure.kind, failure.attempts), (FailureKind::RateLimited, 4));
    }

    #[test]
    fn a_purse_pays_exactly_what_it_holds() {
        let purse = RetryPurse::new(2);
        assert_eq!([purse.pay(), purse.pay(), purse.pay()], [true, true, false]);
        assert_eq!(purse.left(), 0);
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_the_limits(
            attempt in 1_u32..100, dice: u64, base_ms in 0_u64..1 << 40, cap_ms in 0_u64..1 << 40, text in ".{0,20}",
        ) {
            let policy = RetryPolicy { tries_max: 1000, base_ms, cap_ms };
            for retry_after in [None, Some(text.as_str())] {
                let Decision::Again { after_ms } = decide(&policy, attempt, &fault(503), now(), retry_after, dice) else {
                    return Err(TestCaseError::fail("gave up"));
                };
                prop_assert!(after_ms <= cap_ms.max(RETRY_AFTER_MAX_MS + base_ms));
            }
        }
    }
}
