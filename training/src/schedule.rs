//! The learning rate of an update from the samples that were consumed before it: a straight line up, then half a cosine down,
//! as Megatron computes it under Miles.
//! It refuses to know slots and steps.

use crate::error::TrainingError;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// The largest rate that is taken: several hundred times what fine-tuning uses.
pub const RATE_MAX: f64 = 1.0;

/// How the rate goes over a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The rate at the end of the warm-up.
    pub max_rate: f64,
    /// The rate at the end.
    pub min_rate: f64,
    /// The share of all samples over which the rate rises from 0; from 0 to below 1.
    pub warmup_share: f64,
    /// Samples of the run, those of a slot that is left out included.
    pub total_samples: u64,
}

impl Schedule {
    /// Finds what a schedule cannot be.
    ///
    /// # Errors
    /// [`TrainingError::Setting`].
    pub fn check(&self) -> Result<(), TrainingError> {
        let wrong = |setting, expected: String, got: f64| {
            Err(TrainingError::Setting { setting, expected, got: got.to_string() })
        };
        if !(self.max_rate >= 0.0 && self.max_rate <= RATE_MAX) {
            return wrong("learning rate", format!("a number from 0 to {RATE_MAX}"), self.max_rate);
        }
        if !(self.min_rate >= 0.0 && self.min_rate <= self.max_rate) {
            return wrong("least learning rate", format!("a number from 0 to {}", self.max_rate), self.min_rate);
        }
        if !(self.warmup_share >= 0.0 && self.warmup_share < 1.0) {
            return wrong("warm-up", "a share from 0 to below 1".to_owned(), self.warmup_share);
        }
        Ok(())
    }

    /// The rate of the update that follows on so many samples. The warm-up is a share and not a whole number of samples, so
    /// its end mostly falls between two updates; the first update's rate is 0 where there is a warm-up.
    pub fn rate(&self, samples_consumed: u64) -> f64 {
        let (samples, total) = (samples_consumed as f64, self.total_samples as f64);
        let warmup = self.warmup_share * total;
        if samples < warmup || (samples == warmup && warmup > 0.0) {
            return self.max_rate * samples / warmup;
        }
        if samples >= total {
            return self.min_rate;
        }
        let done = (samples - warmup) / (total - warmup);
        self.min_rate + 0.5 * (1.0 + (PI * done).cos()) * (self.max_rate - self.min_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card() -> Schedule {
        Schedule { max_rate: 1e-5, min_rate: 1e-6, warmup_share: 0.1, total_samples: 1_367 * 32 }
    }

    #[track_caller]
    fn near(got: f64, expected: f64, digits: f64) {
        assert!((got - expected).abs() <= digits, "expected {expected:e}, got {got:e}");
    }

    #[test]
    fn the_rates_of_the_card_come_out() {
        let rate = |update: u64| card().rate((update - 1) * 32);
        assert_eq!(rate(1), 0.0);
        near(rate(2), 7.3153e-8, 5e-13);
        near(rate(138), 9.99999868e-6, 5e-15);
        near(rate(684), 6.28707e-6, 5e-12);
        near(rate(1_366), 1.0000587e-6, 5e-14);
    }

    #[test]
    fn without_a_warm_up_the_first_rate_is_the_largest_and_after_the_end_it_stays_the_least() {
        let schedule = Schedule { warmup_share: 0.0, ..card() };
        assert_eq!(schedule.rate(0), 1e-5);
        assert_eq!((schedule.rate(43_744), schedule.rate(u64::MAX)), (1e-6, 1e-6));
        assert_eq!(Schedule { total_samples: 0, ..card() }.rate(0), 1e-6);
    }

    #[test]
    fn schedules_that_cannot_be_are_refused_by_name() {
        let refused = |schedule: Schedule| schedule.check().unwrap_err().to_string();
        assert!(refused(Schedule { max_rate: f64::NAN, ..card() }).starts_with("learning rate"));
        assert!(refused(Schedule { min_rate: 2e-5, ..card() }).contains("0.00001"));
        assert!(refused(Schedule { warmup_share: 1.0, ..card() }).starts_with("warm-up"));
        assert!(card().check().is_ok());
    }

    proptest! {
        #[test]
        fn every_rate_is_a_number_between_0_and_the_largest(
            total in 0_u64..100_000, share in 0.0..0.999_f64, samples in 0_u64..200_000,
        ) {
            let rate = Schedule { warmup_share: share, total_samples: total, ..card() }.rate(samples);
            prop_assert!((0.0..=1e-5).contains(&rate), "{rate}");
        }
    }
}
