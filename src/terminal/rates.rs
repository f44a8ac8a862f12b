//! How fast a run goes: rates over the last minute, from a small ring of past snapshots. It reads no clock: a
//! snapshot says how old its run is.

use legwork_actors::board::Snapshot;
use std::collections::VecDeque;

/// Rates are taken over this much of the past, in milliseconds.
pub(crate) const WINDOW_MS: u64 = 60_000;
/// Snapshots closer together than this share a place in the ring, in milliseconds.
const SAMPLE_EVERY_MS: u64 = 500;
/// Over less than this no rate is told, in milliseconds.
const SPAN_MIN_MS: u64 = 1_000;
/// With fewer ends than this within the window, the estimate is taken over the whole run.
const ETA_ENDS_MIN: u64 = 5;
/// A longer estimate is not told: it would be no better than a guess.
const ETA_MAX_MS: u64 = 100 * 24 * 3_600_000;

/// How fast a run goes, as far as it can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Ended episodes a minute.
    pub(crate) episodes_per_min: Option<f64>,
    /// Model calls answered a second.
    pub(crate) turns_per_s: Option<f64>,
    /// New tokens a second.
    pub(crate) tokens_per_s: Option<f64>,
    /// Until the last episode has ended, in milliseconds.
    pub(crate) eta_ms: Option<u64>,
}

/// Past counts of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    first: Option<Sample>,
    ring: VecDeque<Sample>,
    latest: Option<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    at_ms: u64,
    ended: u64,
    turns: u64,
    tokens: u64,
}

impl Pace {
    /// Takes a snapshot in and tells the rates with it. Counts that fell, as after a restart of the board, begin anew.
    pub(crate) fn take(&mut self, snapshot: &Snapshot) -> Rates {
        let sample = Sample {
            at_ms: snapshot.elapsed_ms,
            ended: snapshot.ended,
            turns: snapshot.turns,
            tokens: snapshot.tokens.values().sum(),
        };
        if self.latest.is_some_and(|latest| sample.is_behind(&latest)) {
            *self = Self::default();
        }
        // Episodes of an earlier process are no work of this one: a run has no ends before its first snapshot.
        self.first.get_or_insert(sample);
        self.latest = Some(sample);
        if self.ring.back().is_none_or(|last| sample.at_ms >= last.at_ms + SAMPLE_EVERY_MS) {
            self.ring.push_back(sample);
        }
        while self.ring.len() > 1 && self.ring[1].at_ms + WINDOW_MS <= sample.at_ms {
            self.ring.pop_front();
        }
        self.rates(&sample, snapshot)
    }

    fn rates(&self, now: &Sample, snapshot: &Snapshot) -> Rates {
        let since = self.ring.front().unwrap_or(now);
        let per_ms = |new: u64, span_ms: u64| (span_ms >= SPAN_MIN_MS).then(|| new as f64 / span_ms as f64);
        let span_ms = now.at_ms - since.at_ms;
        Rates {
            episodes_per_min: per_ms(now.ended - since.ended, span_ms).map(|rate| rate * 60_000.0),
            turns_per_s: per_ms(now.turns - since.turns, span_ms).map(|rate| rate * 1_000.0),
            tokens_per_s: per_ms(now.tokens - since.tokens, span_ms).map(|rate| rate * 1_000.0),
            eta_ms: self.eta_ms(now, since, snapshot),
        }
    }

    fn eta_ms(&self, now: &Sample, since: &Sample, snapshot: &Snapshot) -> Option<u64> {
        let left = if snapshot.draining { snapshot.running_count } else { snapshot.planned.saturating_sub(now.ended) };
        if left == 0 {
            return (snapshot.planned > 0).then_some(0);
        }
        let from = if now.ended - since.ended >= ETA_ENDS_MIN { since } else { self.first.as_ref()? };
        let (ends, span_ms) = (now.ended - from.ended, now.at_ms - from.at_ms);
        if ends == 0 || span_ms < SPAN_MIN_MS {
            return None;
        }
        let eta_ms = left as f64 / ends as f64 * span_ms as f64;
        (eta_ms <= ETA_MAX_MS as f64).then_some(eta_ms as u64)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.ring.len()
    }
}

impl Sample {
    fn is_behind(&self, earlier: &Sample) -> bool {
        self.at_ms < earlier.at_ms
            || self.ended < earlier.ended
            || self.turns < earlier.turns
            || self.tokens < earlier.tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_protocol::generation::Route;
    use proptest::prelude::*;

    fn at(elapsed_ms: u64, ended: u64, turns: u64, tokens: u64) -> Snapshot {
        let tokens = [(Route::Worker, tokens)].into();
        Snapshot { planned: 100, elapsed_ms, ended, turns, tokens, ..Snapshot::default() }
    }

    #[test]
    fn a_steady_run_has_its_steady_rates_and_estimate() {
        let mut pace = Pace::default();
        let last = (0..=60).map(|s| pace.take(&at(s * 1_000, s / 2, s * 3, s * 500))).last().unwrap();
        assert_eq!(last.episodes_per_min, Some(30.0));
        assert_eq!(last.turns_per_s, Some(3.0));
        assert_eq!(last.tokens_per_s, Some(500.0));
        assert_eq!(last.eta_ms, Some(140_000), "70 are left, one each 2 s");
    }

    #[test]
    fn what_lies_behind_the_window_is_forgotten() {
        let mut pace = Pace::default();
        pace.take(&at(0, 0, 0, 0));
        pace.take(&at(10_000, 50, 0, 0));
        let rates = (11..=80).map(|s| pace.take(&at(s * 1_000, 50, 0, 0))).last().unwrap();
        assert_eq!(rates.episodes_per_min, Some(0.0), "nothing ended in the last minute");
        assert_eq!(rates.eta_ms, Some(80_000), "the whole run: 50 ends in 80 s, 50 left");
    }

    #[test]
    fn the_first_second_has_no_rates() {
        let mut pace = Pace::default();
        assert_eq!(pace.take(&at(0, 0, 0, 0)), Rates::default());
        assert_eq!(pace.take(&at(900, 9, 9, 9)).turns_per_s, None);
    }

    #[test]
    fn episodes_that_had_ended_before_a_resume_are_no_pace() {
        let mut pace = Pace::default();
        pace.take(&at(0, 90, 0, 0));
        let rates = pace.take(&at(10_000, 91, 5, 0));
        assert_eq!(rates.episodes_per_min, Some(6.0));
        assert_eq!(rates.eta_ms, Some(90_000));
    }

    #[test]
    fn a_restarted_board_begins_anew() {
        let mut pace = Pace::default();
        pace.take(&at(0, 0, 0, 0));
        pace.take(&at(5_000, 10, 50, 0));
        assert_eq!(pace.take(&at(6_000, 0, 1, 0)).turns_per_s, None);
        assert_eq!(pace.take(&at(8_000, 0, 5, 0)).turns_per_s, Some(2.0));
    }

    #[test]
    fn a_draining_run_waits_only_for_those_inside() {
        let mut pace = Pace::default();
        pace.take(&at(0, 0, 0, 0));
        let draining = Snapshot { draining: true, running_count: 2, ..at(10_000, 10, 0, 0) };
        assert_eq!(pace.take(&draining).eta_ms, Some(2_000));
        let done = Snapshot { draining: true, running_count: 0, ..at(11_000, 12, 0, 0) };
        assert_eq!(pace.take(&done).eta_ms, Some(0));
    }

    proptest! {
        #[test]
        fn any_counts_give_finite_rates_from_a_bounded_ring(
            samples in prop::collection::vec((0u64..400_000, 0u64..50, 0u64..90, 0u64..9_000), 1..400)
        ) {
            let mut pace = Pace::default();
            for (at_ms, ended, turns, tokens) in samples {
                let rates = pace.take(&at(at_ms, ended, turns, tokens));
                for rate in [rates.episodes_per_min, rates.turns_per_s, rates.tokens_per_s].into_iter().flatten() {
                    prop_assert!(rate.is_finite() && rate >= 0.0);
                }
                prop_assert!(pace.len() as u64 <= WINDOW_MS / SAMPLE_EVERY_MS + 2);
            }
        }
    }
}
