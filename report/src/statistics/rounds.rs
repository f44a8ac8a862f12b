//! Several rounds over the same questions: pass@k without bias, and the spread between rounds.

use crate::number::Finite;
use serde::{Deserialize, Serialize};

/// The probability that at least one of `k` rounds drawn from `trials` is right, `correct` of them
/// being so: `1 − C(n − c, k) / C(n, k)` (Chen et al. 2021), as a product. None if `k` is 0 or more than
/// there are trials, or if more are right than were tried.
pub fn pass_at_k(trials: u32, correct: u32, k: u32) -> Option<Finite> {
    if k == 0 || k > trials || correct > trials {
        return None;
    }
    let wrong = trials - correct;
    if wrong < k {
        return Finite::new(1.0);
    }
    let none_right: f64 = (wrong + 1..=trials).map(|i| 1.0 - f64::from(k) / f64::from(i)).product();
    Finite::new(1.0 - none_right)
}

/// Mean and spread of one accuracy for each round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Rounds.
    pub rounds: u64,
    /// Mean.
    pub mean: Finite,
    /// Sample standard deviation (n − 1); absent for a single round, of which the spread is unknown.
    pub deviation: Option<Finite>,
    /// Lowest.
    pub low: Finite,
    /// Highest.
    pub high: Finite,
}

/// None without rounds.
pub fn spread(rates: &[Finite]) -> Option<Spread> {
    let values: Vec<f64> = rates.iter().map(|rate| rate.get()).collect();
    let mean = Finite::mean(&values)?;
    let squares: f64 = values.iter().map(|value| (value - mean.get()).powi(2)).sum();
    Some(Spread {
        rounds: values.len() as u64,
        mean,
        deviation: if values.len() > 1 { Finite::new((squares / (values.len() - 1) as f64).sqrt()) } else { None },
        low: Finite::new(values.iter().copied().fold(f64::INFINITY, f64::min))?,
        high: Finite::new(values.iter().copied().fold(f64::NEG_INFINITY, f64::max))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_one_is_the_share_and_pass_at_all_is_any() {
        assert!((pass_at_k(5, 2, 1).unwrap().get() - 0.4).abs() < 1e-15);
        assert_eq!(pass_at_k(5, 1, 5), Finite::new(1.0));
        assert_eq!(pass_at_k(5, 0, 5), Finite::new(0.0));
        assert_eq!(pass_at_k(5, 1, 6), None);
        assert_eq!(pass_at_k(5, 1, 0), None);
        assert_eq!(pass_at_k(5, 6, 1), None);
    }

    #[test]
    fn one_round_has_a_mean_and_no_spread() {
        let one = spread(&[Finite::new(0.5).unwrap()]).unwrap();
        assert_eq!(one.deviation, None);
        assert_eq!(spread(&[]), None);
        let two = spread(&[Finite::new(0.5).unwrap(), Finite::new(0.7).unwrap()]).unwrap();
        assert!((two.deviation.unwrap().get() - 0.02f64.sqrt()).abs() < 1e-12);
    }
}
