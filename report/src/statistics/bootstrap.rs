//! The cluster bootstrap of a mean: whole questions are drawn again, with all their rounds, because
//! rounds of one question are not independent. Seeded, so that a report is reproducible.

use super::percentile::interpolated;
use super::proportion::Interval;
use crate::number::Finite;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Resamples unless told otherwise.
pub const RESAMPLES: u32 = 10_000;
/// The most resamples that are drawn, whatever is asked for: they are held in memory at once.
pub const RESAMPLES_MAX: u32 = 1_000_000;

/// One question's contribution: over its rounds, the sum of the values and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Sum of the values: for a difference of accuracies, right in the second minus right in the first.
    pub sum: i64,
    /// Values summed.
    pub size: u32,
}

/// A mean with its percentile interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// The mean over all values.
    pub estimate: Finite,
    /// 2.5 % and 97.5 % of the resampled means.
    pub interval: Interval,
    /// Clusters drawn from.
    pub clusters: u64,
    /// Resamples drawn.
    pub resamples: u32,
    /// The ChaCha8 seed.
    pub seed: u64,
}

/// Draws as many clusters as there are, with replacement, `resamples` times, and takes the mean of the
/// values each time. Clusters without values are left out. None if nothing is left or nothing is drawn.
pub fn bootstrap_mean(clusters: &[Cluster], seed: u64, resamples: u32) -> Option<Bootstrap> {
    let clusters: Vec<Cluster> = clusters.iter().copied().filter(|cluster| cluster.size > 0).collect();
    let resamples = resamples.min(RESAMPLES_MAX);
    if clusters.is_empty() || resamples == 0 {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| mean((0..clusters.len()).map(|_| clusters[random.random_range(0..clusters.len())])))
        .collect();
    means.sort_by(f64::total_cmp);
    Some(Bootstrap {
        estimate: Finite::new(mean(clusters.iter().copied()))?,
        interval: Interval { low: interpolated(&means, 0.025)?, high: interpolated(&means, 0.975)? },
        clusters: clusters.len() as u64,
        resamples,
        seed,
    })
}

fn mean(clusters: impl Iterator<Item = Cluster>) -> f64 {
    let (sum, size) = clusters.fold((0i64, 0u64), |(sum, size), cluster| {
        (sum.saturating_add(cluster.sum), size.saturating_add(u64::from(cluster.size)))
    });
    sum as f64 / size as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(improved: usize, regressed: usize, same: usize) -> Vec<Cluster> {
        let of = |count, sum| std::iter::repeat_n(Cluster { sum, size: 1 }, count);
        of(improved, 1).chain(of(regressed, -1)).chain(of(same, 0)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let clusters = clusters(31, 6, 113);
        let one = bootstrap_mean(&clusters, 7, 1_000).unwrap();
        assert_eq!(one, bootstrap_mean(&clusters, 7, 1_000).unwrap());
        assert_ne!(one.interval, bootstrap_mean(&clusters, 8, 50).unwrap().interval);
        assert!((one.estimate.get() - 25.0 / 150.0).abs() < 1e-15);
    }

    #[test]
    fn rounds_of_one_question_count_as_one_cluster() {
        // Four rounds that always agree carry no more than one round does.
        let once = clusters(12, 4, 34);
        let four: Vec<_> = once.iter().map(|cluster| Cluster { sum: cluster.sum * 4, size: 4 }).collect();
        let (once, four) = (bootstrap_mean(&once, 3, 2_000).unwrap(), bootstrap_mean(&four, 3, 2_000).unwrap());
        assert_eq!(once.interval, four.interval);
    }

    #[test]
    fn nothing_to_draw_from_has_no_interval() {
        assert_eq!(bootstrap_mean(&[], 1, 100), None);
        assert_eq!(bootstrap_mean(&[Cluster { sum: 0, size: 0 }], 1, 100), None);
        assert_eq!(bootstrap_mean(&clusters(1, 0, 0), 1, 0), None);
    }
}
