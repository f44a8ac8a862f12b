//! Percentiles, by two stated definitions: the nearest rank for what was measured (the answer is a
//! value that occurred), linear interpolation for resampled statistics.

use crate::number::Finite;

/// How [`nearest_rank`] defines a percentile, for reports to print.
pub const DEFINITION: &str = "nearest rank: the smallest measured value that at least p % of all values do not exceed";

/// The smallest value of an ascending slice that at least the share `p` (0 to 1) of all values do not
/// exceed (Hyndman and Fan's type 1). None for an empty slice.
pub fn nearest_rank<T: Copy>(ascending: &[T], p: f64) -> Option<T> {
    let rank = (p.clamp(0.0, 1.0) * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.max(1) - 1).copied()
}

/// The value at position `p (n − 1)` of an ascending slice, between two neighbours in proportion
/// (Hyndman and Fan's type 7, NumPy's default). None for an empty slice.
pub fn interpolated(ascending: &[f64], p: f64) -> Option<Finite> {
    let position = p.clamp(0.0, 1.0) * ascending.len().checked_sub(1)? as f64;
    let below = position.floor() as usize;
    let low = *ascending.get(below)?;
    let high = *ascending.get(below + 1).unwrap_or(&low);
    Finite::new(low + (high - low) * (position - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rank_is_a_value_that_occurred() {
        let values = [10, 20, 30, 40];
        assert_eq!(nearest_rank(&values, 0.5), Some(20));
        assert_eq!(nearest_rank(&values, 0.51), Some(30));
        assert_eq!(nearest_rank(&values, 0.0), Some(10));
        assert_eq!(nearest_rank(&values, 1.0), Some(40));
        assert_eq!(nearest_rank::<u64>(&[], 0.5), None);
    }

    #[test]
    fn interpolation_meets_the_ends_and_the_middle() {
        assert_eq!(interpolated(&[1.0, 2.0], 0.5), Finite::new(1.5));
        assert_eq!(interpolated(&[1.0, 2.0], 1.0), Finite::new(2.0));
        assert_eq!(interpolated(&[3.0], 0.9), Finite::new(3.0));
        assert_eq!(interpolated(&[], 0.5), None);
    }
}
