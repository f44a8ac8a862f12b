//! The learning rate of a training whose length is known, or not: of a list, or a planned number of slots, it rises and falls
//! as the schedule says; of a run that is followed without such a number, it rises over the first slots and stays.
//! It refuses to know where the numbers come from.

use legwork_training::schedule::Schedule;

/// Slots over which the rate of a training of unknown length rises from 0: a share of an unknown number is none.
pub(super) const RISING_SLOTS: u64 = 10;

/// How the rate goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// Over a known number of samples; behind them it stays the least.
    Planned(Schedule),
    /// A straight line from 0 over so many samples, then the largest for ever.
    Open { max_rate: f64, rising_samples: u64 },
}

impl Pace {
    /// One of unknown length, with slots of so many samples.
    pub(super) fn open(max_rate: f64, batch: u64) -> Self {
        Self::Open { max_rate, rising_samples: RISING_SLOTS * batch }
    }

    /// The rate of the update that follows on so many samples.
    pub(super) fn rate(&self, samples: u64) -> f64 {
        match *self {
            Self::Planned(schedule) => schedule.rate(samples),
            Self::Open { max_rate, rising_samples } if samples < rising_samples => {
                max_rate * (samples as f64 / rising_samples as f64)
            }
            Self::Open { max_rate, .. } => max_rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_plan_the_rate_rises_over_the_first_slots_and_stays() {
        let pace = Pace::open(1e-3, 32);
        let of_update = |update: u64| pace.rate((update - 1) * 32);
        assert_eq!((of_update(1), of_update(6), of_update(11)), (0.0, 5e-4, 1e-3));
        assert_eq!(pace.rate(u64::MAX), 1e-3);
    }

    #[test]
    fn with_a_plan_it_falls_and_stays_the_least_behind_the_plan() {
        let schedule = Schedule { max_rate: 1e-3, min_rate: 1e-4, warmup_share: 0.1, total_samples: 320 };
        let pace = Pace::Planned(schedule);
        assert_eq!((pace.rate(0), pace.rate(32), pace.rate(320), pace.rate(100_000)), (0.0, 1e-3, 1e-4, 1e-4));
    }
}
