//! Agreement between raters, and disagreement of repeated verdicts with themselves.

use crate::number::Finite;
use serde::{Deserialize, Serialize};

/// Cohen's kappa, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Kappa {
    /// `(observed − expected) / (1 − expected)`.
    Defined {
        /// Kappa, at most 1.
        kappa: Finite,
        /// Share of items on which both agree.
        observed: Finite,
        /// Agreement expected of independent raters with these margins.
        expected: Finite,
        /// Items rated.
        items: u64,
    },
    /// Not defined.
    Undefined {
        /// Why.
        reason: KappaUndefined,
        /// Items rated.
        items: u64,
    },
}

/// Why a kappa is not defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KappaUndefined {
    /// Nothing was rated by both.
    NoItems,
    /// Both put everything into the same one category: agreement by chance is already complete.
    OneCategory,
}

impl KappaUndefined {
    /// The reason as a sentence's end.
    pub fn text(self) -> &'static str {
        match self {
            KappaUndefined::NoItems => "nothing was rated by both",
            KappaUndefined::OneCategory => "both put everything into one category",
        }
    }
}

/// Cohen's kappa (Cohen 1960) of a confusion matrix: `matrix[a][b]` items that the first rater put into
/// `a` and the second into `b`.
pub fn kappa<const K: usize>(matrix: &[[u64; K]; K]) -> Kappa {
    let items = matrix.iter().flatten().fold(0u64, |sum, count| sum.saturating_add(*count));
    if items == 0 {
        return Kappa::Undefined { reason: KappaUndefined::NoItems, items };
    }
    let n = items as f64;
    let (mut observed, mut expected) = (0.0, 0.0);
    for category in 0..K {
        let row: f64 = matrix[category].iter().map(|count| *count as f64).sum();
        let column: f64 = matrix.iter().map(|row| row[category] as f64).sum();
        observed += matrix[category][category] as f64 / n;
        expected += (row / n) * (column / n);
    }
    // Chance agrees fully only if both used one and the same category: then this is 0/0.
    match (Finite::new((observed - expected) / (1.0 - expected)), Finite::new(observed), Finite::new(expected)) {
        (Some(kappa), Some(observed), Some(expected)) => Kappa::Defined { kappa, observed, expected, items },
        _ => Kappa::Undefined { reason: KappaUndefined::OneCategory, items },
    }
}

/// How far verdicts on the same item differ among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// Items with at least two verdicts.
    pub items: u64,
    /// Items left out for having fewer.
    pub too_few: u64,
    /// Items whose verdicts are all the same.
    pub unanimous: u64,
    /// The probability that two verdicts on one item differ, averaged over items.
    pub disagreement: Option<Finite>,
    /// What this alone adds to the standard deviation of one pass's accuracy over these items.
    pub accuracy_deviation: Option<Finite>,
}

/// For an item with `c` of `k` verdicts "right", `v = c (k − c) / (k (k − 1))` estimates the variance of
/// one verdict without bias and `2v` the disagreement of two; the accuracy over `m` items then has
/// a standard deviation of `sqrt(Σ v) / m`.
pub fn repeats<'a>(items: impl IntoIterator<Item = &'a [bool]>) -> Repeats {
    let (mut used, mut too_few, mut unanimous, mut variance) = (0u64, 0u64, 0u64, 0.0);
    for verdicts in items {
        let k = verdicts.len();
        if k < 2 {
            too_few += 1;
            continue;
        }
        let right = verdicts.iter().filter(|right| **right).count();
        used += 1;
        unanimous += u64::from(right == 0 || right == k);
        variance += right as f64 * (k - right) as f64 / (k as f64 * (k - 1) as f64);
    }
    let m = used as f64;
    Repeats {
        items: used,
        too_few,
        unanimous,
        disagreement: Finite::new(2.0 * variance / m),
        accuracy_deviation: Finite::new(variance.sqrt() / m),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_kappas_say_why() {
        let reason = |matrix: [[u64; 2]; 2]| match kappa(&matrix) {
            Kappa::Undefined { reason, .. } => Some(reason),
            Kappa::Defined { .. } => None,
        };
        assert_eq!(reason([[0, 0], [0, 0]]), Some(KappaUndefined::NoItems));
        assert_eq!(reason([[9, 0], [0, 0]]), Some(KappaUndefined::OneCategory));
        assert_eq!(reason([[9, 1], [0, 0]]), None);
    }

    #[test]
    fn a_rater_who_always_says_yes_agrees_by_chance_only() {
        let Kappa::Defined { kappa, observed, .. } = kappa(&[[8, 2], [0, 0]]) else { panic!("defined") };
        assert_eq!(kappa.get(), 0.0);
        assert_eq!(observed.get(), 0.8);
    }

    #[test]
    fn verdicts_that_never_waver_have_no_noise() {
        let steady = repeats([&[true, true][..], &[false, false, false], &[true]]);
        assert_eq!((steady.items, steady.too_few, steady.unanimous), (2, 1, 2));
        assert_eq!(steady.disagreement, Some(Finite::ZERO));
        assert_eq!(repeats([]).disagreement, None);
    }

    #[test]
    fn a_coin_disagrees_with_itself_half_the_time() {
        // All four outcomes of two fair tosses, once each.
        let coin = repeats([&[true, true][..], &[true, false], &[false, true], &[false, false]]);
        assert_eq!(coin.disagreement.unwrap().get(), 0.5);
    }
}
