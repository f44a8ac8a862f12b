//! The lower tail of a fair coin's binomial distribution, in log space so that a million tosses
//! neither overflow nor lose their digits.

use std::f64::consts::{LN_2, PI};

/// A term this much smaller than the sum so far cannot change it any more.
const NEGLIGIBLE: f64 = 1e-18;

/// `ln P(X <= k)` for `X ~ Binomial(n, 1/2)`; 0 when `k >= n`.
pub fn ln_lower_tail(k: u64, n: u64) -> f64 {
    if k >= n {
        return 0.0;
    }
    // From the largest term downwards: each is the one before times i / (n - i + 1).
    let (mut sum, mut term) = (1.0_f64, 1.0_f64);
    let mut i = k;
    while i > 0 {
        term *= i as f64 / (n - i + 1) as f64;
        if term < sum * NEGLIGIBLE {
            break;
        }
        sum += term;
        i -= 1;
    }
    (ln_mass(k, n) + sum.ln()).min(0.0)
}

/// `ln P(X = k)` by Loader's saddle-point expansion (Loader 2000), which keeps full precision where
/// differences of log-factorials would lose it.
pub fn ln_mass(k: u64, n: u64) -> f64 {
    if k > n {
        return f64::NEG_INFINITY;
    }
    if k == 0 || k == n {
        return -(n as f64) * LN_2;
    }
    let (kf, nf) = (k as f64, n as f64);
    let rest = nf - kf;
    let exponent = stirling_error(n) - stirling_error(k) - stirling_error(n - k);
    let deviance = deviance(kf, nf / 2.0) + self::deviance(rest, nf / 2.0);
    exponent - deviance - 0.5 * (2.0 * PI * kf * (rest / nf)).ln()
}

/// `ln n! - (n + 1/2) ln n + n - ln(2π)/2` for `n >= 1`.
fn stirling_error(n: u64) -> f64 {
    let x = n as f64;
    if n <= 15 {
        let factorial: f64 = (1..=n).map(|i| i as f64).product();
        return factorial.ln() - (x + 0.5) * x.ln() + x - 0.5 * (2.0 * PI).ln();
    }
    let x2 = x * x;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / x2) / x2) / x2) / x2) / x
}

/// `x ln(x/m) + m - x`, by its series where `x` is near `m`.
fn deviance(x: f64, m: f64) -> f64 {
    if (x - m).abs() >= 0.1 * (x + m) {
        return x * (x / m).ln() + m - x;
    }
    let v = (x - m) / (x + m);
    let mut sum = (x - m) * v;
    let mut term = 2.0 * x * v;
    // |v| < 0.1, so a term shrinks a hundredfold: ten of them exhaust a double.
    for j in 1..=10 {
        term *= v * v;
        sum += term / f64::from(2 * j + 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tails_are_the_sums_of_pascals_triangle() {
        // Of 2^10 = 1024 sequences, 1 + 10 + 45 have at most two heads.
        assert!((ln_lower_tail(2, 10).exp() - 56.0 / 1024.0).abs() < 1e-15);
        assert!((ln_mass(3, 7).exp() - 35.0 / 128.0).abs() < 1e-15);
        assert_eq!(ln_lower_tail(10, 10), 0.0);
        assert_eq!(ln_mass(3, 2), f64::NEG_INFINITY);
    }

    #[test]
    fn masses_sum_to_one() {
        for n in [1, 2, 15, 16, 33, 500] {
            let sum: f64 = (0..=n).map(|k| ln_mass(k, n).exp()).sum();
            assert!((sum - 1.0).abs() < 1e-12, "n = {n}: {sum}");
        }
    }
}
