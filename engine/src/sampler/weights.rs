//! Masses of tokens as whole numbers: the most probable token weighs 2^44, and sums fit 64 bits and are exact in any order.
//! It refuses to know which tokens are kept.

/// What the most probable token weighs.
pub(super) const ONE: u64 = 1 << 44;

/// Buckets by how much less than the greatest a token weighs, for finding a cut without sorting: 44 for each halving.
pub(super) const BUCKETS: usize = 2_048;
const BUCKETS_A_HALVING: f64 = 44.0;
/// The bucket of tokens that are not drawn.
pub(super) const NOWHERE: u16 = u16::MAX;
/// Halvings after which nothing is left: 2^(44 - 45.5) rounds to 0.
const HALVINGS_MAX: f64 = 45.5;

/// The mass of each token of one row.
#[derive(Debug, Default)]
pub(super) struct Weights {
    pub(super) mass: Vec<u64>,
    pub(super) bucket: Vec<u16>,
}

impl Weights {
    /// Weighs `exp((value - top) / temperature)`.
    pub(super) fn fill(&mut self, values: &[f32], top: f32, temperature: f64) {
        self.mass.clear();
        self.bucket.clear();
        let scale = std::f64::consts::LOG2_E / temperature;
        let halvings = values.iter().map(|value| match value - top {
            // At a temperature near 0 the scale is infinite, and 0 times that would be no number.
            0.0 => 0.0,
            _ => (f64::from(top) - f64::from(*value)) * scale,
        });
        for halvings in halvings {
            let mass = weight(halvings);
            self.mass.push(mass);
            self.bucket.push(if mass == 0 { NOWHERE } else { (halvings * BUCKETS_A_HALVING) as u16 });
        }
    }

    /// The mass of all that may be drawn.
    pub(super) fn sum(&self) -> u64 {
        self.mass.iter().sum()
    }

    /// Takes the mass of tokens that weigh less.
    pub(super) fn drop_below(&mut self, least: u64) {
        for (mass, bucket) in self.mass.iter_mut().zip(&mut self.bucket) {
            if *mass < least {
                (*mass, *bucket) = (0, NOWHERE);
            }
        }
    }

    /// The token at this point of the mass, tokens laid one behind the other by id.
    pub(super) fn at(&self, point: u64) -> u32 {
        let mut before = 0;
        let found = self.mass.iter().position(|mass| {
            before += mass;
            before > point
        });
        found.expect("a point below the sum of all masses lies in one of them") as u32
    }
}

/// `2^-halvings` in units of 2^-44, to the nearest. Made of additions and multiplications only, so that it is the same on
/// every machine.
fn weight(halvings: f64) -> u64 {
    if halvings.is_nan() || halvings >= HALVINGS_MAX {
        return 0;
    }
    // Adding and subtracting 1.5 * 2^52 rounds to the nearest whole number.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    let whole = (halvings + ROUNDER) - ROUNDER;
    let rest = (whole - halvings) * std::f64::consts::LN_2;
    // The series of e^x up to x^11 / 11!: off by less than 7e-15 for |x| up to half of ln 2, a tenth of the unit.
    const SERIES: [f64; 12] = [
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    let power = SERIES.iter().fold(0.0, |sum, term| sum * rest + term);
    let unit = f64::from_bits(((1_023 + 44 - whole as i64) as u64) << 52);
    (power * unit + 0.5) as i64 as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_the_nearest_whole_number_to_the_exponential() {
        assert_eq!((weight(0.0), weight(1.0), weight(44.0)), (ONE, ONE / 2, 1));
        assert_eq!((weight(46.0), weight(f64::INFINITY), weight(f64::NAN)), (0, 0, 0));
        for step in 0..46_000 {
            let halvings = f64::from(step) * 0.001;
            let expected = (-halvings).exp2() * ONE as f64;
            let off = (weight(halvings) as f64 - expected).abs();
            assert!(off <= 0.5 + expected * 1e-14, "{halvings}: {} for {expected}", weight(halvings));
        }
    }

    #[test]
    fn every_weight_that_is_left_has_a_bucket_and_buckets_follow_the_logits() {
        let values: Vec<f32> = (0..4_000).map(|step| -(step as f32) * 0.01).collect();
        let mut weights = Weights::default();
        weights.fill(&values, 0.0, 1.0);
        for pair in weights.bucket.windows(2) {
            assert!(pair[0] <= pair[1]);
        }
        let last = weights.mass.iter().rposition(|mass| *mass > 0).unwrap();
        assert!(usize::from(weights.bucket[last]) < BUCKETS && weights.bucket[last + 1] == NOWHERE);
    }
}
