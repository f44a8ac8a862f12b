//! A proportion and its Wilson score interval.

use crate::number::Finite;
use serde::{Deserialize, Serialize};

/// The 97.5 % point of the standard normal distribution: two-sided 95 %.
pub const Z_95: f64 = 1.959_963_984_540_054;

/// A closed interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: Finite,
    /// Upper end.
    pub high: Finite,
}

/// Successes of trials with the Wilson 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Successes.
    pub correct: u64,
    /// Trials: the denominator.
    pub of: u64,
    /// The share, 0 to 1; absent without trials.
    pub rate: Option<Finite>,
    /// Wilson 95 %; absent without trials.
    pub wilson: Option<Interval>,
}

impl Rate {
    /// The rate of `correct` among `of`; more successes than trials are cut to the trials.
    pub fn new(correct: u64, of: u64) -> Rate {
        let correct = correct.min(of);
        Rate { correct, of, rate: Finite::ratio(correct, of), wilson: wilson(correct, of) }
    }
}

/// Wilson's score interval at 95 %, without continuity correction (Wilson 1927):
/// `(p + z²/2n ± z·sqrt(p(1−p)/n + z²/4n²)) / (1 + z²/n)`. None without trials or with more
/// successes than trials.
pub fn wilson(successes: u64, trials: u64) -> Option<Interval> {
    if trials == 0 || successes > trials {
        return None;
    }
    let n = trials as f64;
    let p = successes as f64 / n;
    let z2 = Z_95 * Z_95;
    let scale = 1.0 + z2 / n;
    let centre = (p + z2 / (2.0 * n)) / scale;
    let half = Z_95 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt() / scale;
    // At the ends the formula is exactly 0 and 1; rounding must not say otherwise.
    let low = if successes == 0 { 0.0 } else { (centre - half).clamp(0.0, 1.0) };
    let high = if successes == trials { 1.0 } else { (centre + half).clamp(0.0, 1.0) };
    Some(Interval { low: Finite::new(low)?, high: Finite::new(high)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_cards_interval_comes_out() {
        let interval = wilson(108, 150).unwrap();
        assert_eq!(crate::number::percent_range(interval.low, interval.high), "64.33–78.57 %");
    }

    #[test]
    fn no_trials_have_no_rate() {
        assert_eq!(wilson(0, 0), None);
        assert_eq!(wilson(2, 1), None);
        assert_eq!(Rate::new(0, 0).rate, None);
    }

    proptest! {
        #[test]
        fn the_interval_lies_in_0_to_1_and_around_the_share(trials in 1u64..1_000_000, share in 0.0f64..=1.0) {
            let successes = (trials as f64 * share) as u64;
            let interval = wilson(successes, trials).unwrap();
            let p = successes as f64 / trials as f64;
            prop_assert!(0.0 <= interval.low.get() && interval.high.get() <= 1.0);
            prop_assert!(interval.low.get() <= p + 1e-12 && p <= interval.high.get() + 1e-12);
        }

        #[test]
        fn one_success_more_never_lowers_either_end(trials in 1u64..5_000, share in 0.0f64..1.0) {
            let successes = ((trials as f64 * share) as u64).min(trials - 1);
            let (less, more) = (wilson(successes, trials).unwrap(), wilson(successes + 1, trials).unwrap());
            prop_assert!(less.low <= more.low && less.high <= more.high);
        }
    }
}
