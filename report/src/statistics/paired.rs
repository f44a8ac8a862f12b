//! Paired yes-or-no answers: the exact McNemar test, and the smallest difference that a paired design
//! of this size could be expected to notice.

use super::binomial;
use super::proportion::Z_95;
use crate::number::Finite;
use serde::{Deserialize, Serialize};
use std::f64::consts::{LN_2, LN_10};

/// The 80 % point of the standard normal distribution: a power of 80 %.
pub const Z_80: f64 = 0.841_621_233_572_914_3;

/// The exact two-sided McNemar test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct McNemar {
    /// Pairs wrong in the first and right in the second.
    pub improved: u64,
    /// Pairs right in the first and wrong in the second.
    pub regressed: u64,
    /// The probability of a split at least as uneven if both ways are equally likely. 0 below the
    /// smallest double: see `log10_p`.
    pub p: Finite,
    /// Its decimal logarithm, exact also where `p` underflows.
    pub log10_p: Finite,
}

/// `p = min(1, 2 P(X <= min(b, c)))` for `X ~ Binomial(b + c, 1/2)`; 1 without discordant pairs.
pub fn mcnemar(improved: u64, regressed: u64) -> McNemar {
    let discordant = improved.saturating_add(regressed);
    let ln_p = if improved == regressed {
        0.0
    } else {
        (LN_2 + binomial::ln_lower_tail(improved.min(regressed), discordant)).min(0.0)
    };
    let finite = |value: f64| Finite::new(value).unwrap_or(Finite::ZERO);
    McNemar { improved, regressed, p: finite(ln_p.exp()), log10_p: finite(ln_p / LN_10) }
}

/// The smallest true difference of accuracy that would be found, two-sided at 5 %, four times in five.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetectableEffect {
    /// Pairs.
    pub pairs: u64,
    /// The share of discordant pairs that was assumed or observed.
    pub discordance: Finite,
    /// The difference of the two accuracies, 0 to 1.
    pub difference: Finite,
}

/// Solves `n δ² = (z₀.₉₇₅ √ψ + z₀.₈ √(ψ − δ²))²` for δ (Connor 1987), ψ being the discordance. None
/// if ψ is not in (0, 1], without pairs, or if not even δ = ψ, all changes one way, would be found.
pub fn detectable_effect(pairs: u64, discordance: f64) -> Option<DetectableEffect> {
    if pairs == 0 || !(discordance > 0.0 && discordance <= 1.0) {
        return None;
    }
    let n = pairs as f64;
    let inner = n + Z_80 * Z_80 - Z_95 * Z_95;
    if inner < 0.0 {
        return None;
    }
    // The larger root of (n + z₀.₈²) δ² − 2 z₀.₉₇₅ √(nψ) δ + ψ (z₀.₉₇₅² − z₀.₈²) = 0.
    let difference = discordance.sqrt() * (Z_95 * n.sqrt() + Z_80 * inner.sqrt()) / (n + Z_80 * Z_80);
    if difference > discordance {
        return None;
    }
    Some(DetectableEffect { pairs, discordance: Finite::new(discordance)?, difference: Finite::new(difference)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_cards_improvement_is_no_accident() {
        let test = mcnemar(31, 6);
        assert_eq!(crate::number::p_value(test.p, test.log10_p), "4.1e-5");
    }

    #[test]
    fn no_discordant_pair_says_nothing() {
        assert_eq!(mcnemar(0, 0).p.get(), 1.0);
        assert_eq!(mcnemar(5, 5).p.get(), 1.0);
        assert_eq!(mcnemar(1, 0).p.get(), 1.0);
    }

    #[test]
    fn a_million_pairs_underflow_only_the_plain_number() {
        let test = mcnemar(1_000_000, 0);
        assert_eq!(test.p.get(), 0.0);
        assert!((test.log10_p.get() + 999_999.0 * 2f64.log10()).abs() < 1e-6);
    }

    #[test]
    fn too_few_pairs_detect_nothing() {
        assert_eq!(detectable_effect(5, 0.5), None);
        assert_eq!(detectable_effect(0, 0.5), None);
        assert_eq!(detectable_effect(150, 0.0), None);
        assert_eq!(detectable_effect(150, f64::NAN), None);
        assert!(detectable_effect(150, 37.0 / 150.0).is_some());
    }

    proptest! {
        #[test]
        fn exchanging_the_runs_leaves_p_alone(b in 0u64..100_000, c in 0u64..100_000) {
            let (one, other) = (mcnemar(b, c), mcnemar(c, b));
            prop_assert_eq!(one.p, other.p);
            prop_assert!((0.0..=1.0).contains(&one.p.get()));
        }

        #[test]
        fn more_pairs_detect_smaller_effects(pairs in 50u64..10_000, discordance in 0.2f64..1.0) {
            let (few, many) = (detectable_effect(pairs, discordance), detectable_effect(pairs * 2, discordance));
            prop_assert!(many.unwrap().difference < few.unwrap().difference);
        }
    }
}
