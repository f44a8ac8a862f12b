//! Masses of tokens as whole numbers: the most probable token weighs 2^44, and sums fit 64 bits and are exact in any order.
//! Made of additions and multiplications only, so that it is the same on every machine and compilers can do several at
//! once. It refuses to know which tokens are kept.

/// What the most probable token weighs.
pub(super) const ONE: u64 = 1 << 44;

/// Buckets by how much less than the greatest a token weighs, for finding a cut without sorting.
pub(super) const BUCKETS: usize = 2_048;
const BUCKETS_A_HALVING: f64 = 34.0;
/// Halvings that are told apart: 2^(44 - 60) is no mass, and 60 * 34 is a bucket.
const HALVINGS_MAX: f64 = 60.0;
/// Adding this to a number below 2^51 leaves it, rounded to the nearest whole one, in the lowest bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// How much less than the greatest of a row a token weighs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scale {
    top: f64,
    halvings: f64,
}

impl Scale {
    /// For `exp((value - top) / temperature)`.
    pub(super) fn new(top: f32, temperature: f64) -> Self {
        // Kept finite, because 0 times infinity is no number.
        Self { top: top.into(), halvings: (std::f64::consts::LOG2_E / temperature).min(1e300) }
    }

    /// The mass of a token.
    pub(super) fn mass(self, value: f32) -> u64 {
        weight(self.halvings_of(value))
    }

    /// The bucket of a token; a greater logit is never in a later one.
    pub(super) fn bucket(self, value: f32) -> usize {
        ((self.halvings_of(value) * BUCKETS_A_HALVING + ROUNDER).to_bits() & 0xFFF) as usize
    }

    /// The value at which a token weighs this part of the greatest, or a little less: for leaving tokens out early, not for
    /// telling which are kept.
    pub(super) fn value_of(self, part: f64) -> f32 {
        ((self.top + (part.log2() - 0.001) / self.halvings).clamp(f32::MIN.into(), f32::MAX.into()) as f32).next_down()
    }

    fn halvings_of(self, value: f32) -> f64 {
        let halvings = (self.top - f64::from(value)) * self.halvings;
        if halvings < HALVINGS_MAX { halvings } else { HALVINGS_MAX }
    }

    /// The mass of a whole row.
    pub(super) fn sum(self, values: &[f32]) -> u64 {
        values.iter().map(|value| self.mass(*value)).sum()
    }
}

/// The mass of each token of one row; 0 for those that are not drawn.
#[derive(Debug, Default)]
pub(super) struct Weights {
    pub(super) scale: Scale,
    pub(super) mass: Vec<u64>,
}

impl Weights {
    /// Weighs all tokens of a row.
    pub(super) fn fill(&mut self, values: &[f32], scale: Scale) {
        self.scale = scale;
        self.mass.resize(values.len(), 0);
        for (mass, value) in self.mass.iter_mut().zip(values) {
            *mass = scale.mass(*value);
        }
    }

    /// The mass of all that may be drawn.
    pub(super) fn sum(&self) -> u64 {
        self.mass.iter().sum()
    }

    /// Takes the mass of tokens that weigh less.
    pub(super) fn drop_below(&mut self, least: u64) {
        self.mass.iter_mut().filter(|mass| **mass < least).for_each(|mass| *mass = 0);
    }

    /// The token at this point of the mass, tokens laid one behind the other by id.
    pub(super) fn at(&self, point: u64) -> u32 {
        // Sums of groups first: these need not be made one after the other.
        const GROUP: usize = 256;
        let mut before = 0;
        for (number, group) in self.mass.chunks(GROUP).enumerate() {
            let sum: u64 = group.iter().sum();
            if before + sum > point {
                let found = group.iter().position(|mass| {
                    before += mass;
                    before > point
                });
                let found = found.expect("the sum of the group lies beyond the point, so one of its tokens does");
                return (number * GROUP + found) as u32;
            }
            before += sum;
        }
        unreachable!("a point below the sum of all masses lies in one of them")
    }
}

/// `2^-halvings` in units of 2^-44, for 0 up to [`HALVINGS_MAX`].
fn weight(halvings: f64) -> u64 {
    // The series of e^x up to x^7 / 7!: off by less than 8e-9 of its value for |x| up to half of ln 2, less than what
    // the last bit of a logit near 1 makes.
    const SERIES: [f64; 8] = [1.0 / 5_040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let rounded = halvings + ROUNDER;
    let rest = ((rounded - ROUNDER) - halvings) * std::f64::consts::LN_2;
    let power = SERIES.iter().fold(0.0, |sum, term| sum * rest + term);
    // 2^(44 - whole), by its exponent.
    let unit = f64::from_bits((1_023 + 44 - (rounded.to_bits() & 0xFFF)) << 52);
    (power * unit + ROUNDER).to_bits() & ((1 << 51) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_the_exponential_to_within_8e_9_and_half_a_unit() {
        assert_eq!((weight(0.0), weight(1.0), weight(44.0)), (ONE, ONE / 2, 1));
        assert_eq!((weight(46.0), weight(HALVINGS_MAX)), (0, 0));
        for step in 0..60_000 {
            let halvings = f64::from(step) * 0.001;
            let expected = (-halvings).exp2() * ONE as f64;
            let off = (weight(halvings) as f64 - expected).abs();
            assert!(off <= 0.5 + expected * 8e-9, "{halvings}: {} for {expected}", weight(halvings));
        }
    }

    #[test]
    fn what_is_infinitely_less_weighs_nothing_and_the_top_weighs_one_at_any_temperature() {
        for (top, temperature) in [(0.0, 1.0), (f32::MAX, 1e-300), (-3.0, f64::MIN_POSITIVE), (5.0, 100.0)] {
            let scale = Scale::new(top, temperature);
            assert_eq!((scale.mass(top), scale.bucket(top)), (ONE, 0));
            assert_eq!((scale.mass(f32::NEG_INFINITY), scale.bucket(f32::NEG_INFINITY)), (0, 2_040));
        }
    }

    #[test]
    fn buckets_follow_the_logits() {
        let scale = Scale::new(0.0, 0.7);
        let buckets: Vec<usize> = (0..8_000).map(|step| scale.bucket(-(step as f32) * 0.01)).collect();
        assert!(buckets.is_sorted() && buckets[0] == 0 && buckets[7_999] < BUCKETS);
    }
}
