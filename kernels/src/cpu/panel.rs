//! Inner products of many rows with up to sixteen queries, packed side by side into a panel.
//!
//! A product is defined once for all forms: fused multiply-adds in the order of the values, anew for every
//! [`DEPTH`] values, and these partial sums added in order. So a score depends neither on how queries were batched nor
//! on the processor, and every form gives the same bits.

/// Most queries of a panel.
pub const MAX_LANES: usize = 16;
/// Values summed before the sum is put aside: a panel of this depth and a few rows fit the first-level cache, and
/// rounding errors stay those of short sums.
pub const DEPTH: usize = 256;

/// A way of computing inner products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Plain Rust; the truth that the others are tested against.
    Scalar,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512F, besides AVX2.
    Avx512,
}

/// Queries side by side: value `d` of query `q` lies at `d * lanes + q`; lanes without a query hold zeros.
#[derive(Clone, Debug)]
pub struct Panel {
    values: Vec<f32>,
    dim: usize,
    lanes: usize,
    queries: usize,
}

impl Level {
    /// The widest level of this processor.
    pub fn detect() -> Self {
        Self::available().last().copied().unwrap_or(Level::Scalar)
    }

    /// Every level of this processor, narrowest first.
    pub fn available() -> Vec<Level> {
        let all = [Level::Scalar, Level::Avx2, Level::Avx512];
        all.into_iter().filter(|level| level.is_available()).collect()
    }

    #[cfg(target_arch = "x86_64")]
    fn is_available(self) -> bool {
        use std::arch::is_x86_feature_detected as has;
        match self {
            Level::Scalar => true,
            Level::Avx2 => has!("avx2") && has!("fma"),
            Level::Avx512 => Level::Avx2.is_available() && has!("avx512f"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_available(self) -> bool {
        self == Level::Scalar
    }
}

impl Panel {
    /// Packs row-major queries of `dim` values.
    ///
    /// # Panics
    /// If there are no whole rows of `dim`, none at all, or more than [`MAX_LANES`]: faults of the caller.
    pub fn pack(queries: &[f32], dim: usize) -> Self {
        assert!(dim > 0 && queries.len().is_multiple_of(dim), "whole rows of dim");
        let count = queries.len() / dim;
        assert!((1..=MAX_LANES).contains(&count), "one query to {MAX_LANES}");
        let lanes = count.next_power_of_two().max(4);
        let mut values = vec![0.0; dim * lanes];
        for (q, query) in queries.chunks_exact(dim).enumerate() {
            for (d, value) in query.iter().enumerate() {
                values[d * lanes + q] = *value;
            }
        }
        Self { values, dim, lanes, queries: count }
    }

    /// Number of queries.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// Products of one row: 4, 8 or 16, at least the number of queries.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Writes the product of `rows[r]` and query `q` to `out[r * lanes + q]`; other lanes get zeros.
    ///
    /// # Panics
    /// If `rows` are no whole rows of the panel's dimension, if `out` has another length than rows × lanes, or if
    /// this processor lacks `level`: all of them faults of the caller, never of the data.
    pub fn products(&self, level: Level, rows: &[f32], out: &mut [f32]) {
        let Self { dim, lanes, .. } = *self;
        assert!(rows.len().is_multiple_of(dim), "whole rows of dim");
        assert_eq!(out.len(), rows.len() / dim * lanes, "a product for each row and lane");
        assert!(level.is_available(), "a level of this processor");
        out.fill(0.0);
        for (i, panel) in self.values.chunks(DEPTH * lanes).enumerate() {
            let first = i * DEPTH;
            match level {
                Level::Scalar => scalar(rows, dim, first, panel, lanes, out),
                #[cfg(target_arch = "x86_64")]
                _ => super::panel_x86::add_products(level, rows, dim, first, panel, lanes, out),
                #[cfg(not(target_arch = "x86_64"))]
                _ => unreachable!("no other level is available"),
            }
        }
    }
}

/// Adds the products over the values from `first` on, as many as `panel` is deep.
fn scalar(rows: &[f32], dim: usize, first: usize, panel: &[f32], lanes: usize, out: &mut [f32]) {
    for (row, out) in rows.chunks_exact(dim).zip(out.chunks_exact_mut(lanes)) {
        for (lane, out) in out.iter_mut().enumerate() {
            let queries = panel.iter().skip(lane).step_by(lanes);
            *out += row[first..].iter().zip(queries).fold(0.0_f32, |sum, (a, b)| a.mul_add(*b, sum));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Dimension, rows and queries; some dimensions are deeper than one partial sum.
    fn shapes() -> impl Strategy<Value = (usize, Vec<f32>, Vec<f32>)> {
        let dim = prop_oneof![1_usize..40, 250_usize..264, 511_usize..515];
        (dim, 0_usize..20, 1_usize..=MAX_LANES).prop_flat_map(|(dim, rows, queries)| {
            let floats = |n| proptest::collection::vec(-4.0_f32..4.0, n);
            (Just(dim), floats(dim * rows), floats(dim * queries))
        })
    }

    fn products(level: Level, rows: &[f32], queries: &[f32], dim: usize) -> Vec<f32> {
        let panel = Panel::pack(queries, dim);
        let mut out = vec![f32::NAN; rows.len() / dim * panel.lanes()];
        panel.products(level, rows, &mut out);
        out.chunks(panel.lanes()).flat_map(|lanes| lanes[..panel.queries()].to_vec()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_level_gives_the_bits_of_the_scalar_truth((dim, rows, queries) in shapes()) {
            let truth = products(Level::Scalar, &rows, &queries, dim);
            for level in Level::available() {
                let got = products(level, &rows, &queries, dim);
                let same = truth.iter().zip(&got).all(|(t, g)| t.to_bits() == g.to_bits());
                prop_assert!(same && truth.len() == got.len(), "{level:?}: {got:?}, truth {truth:?}");
            }
        }

        #[test]
        fn the_scalar_truth_is_the_exact_product_within_rounding((dim, rows, queries) in shapes()) {
            let got = products(Level::Scalar, &rows, &queries, dim);
            let count = queries.len() / dim;
            for (i, got) in got.iter().enumerate() {
                let row = &rows[i / count * dim..][..dim];
                let query = &queries[i % count * dim..][..dim];
                let terms = || row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b));
                let (exact, size): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
                let bound = size * f64::from(f32::EPSILON) * DEPTH.min(dim) as f64;
                prop_assert!((f64::from(*got) - exact).abs() <= bound, "{got}, exactly {exact}");
            }
        }

        #[test]
        fn a_score_does_not_depend_on_its_batch((dim, rows, queries) in shapes()) {
            let count = queries.len() / dim;
            for level in Level::available() {
                let together = products(level, &rows, &queries, dim);
                for (q, query) in queries.chunks_exact(dim).enumerate() {
                    let alone = products(level, &rows, query, dim);
                    for (r, score) in alone.iter().enumerate() {
                        prop_assert_eq!(score.to_bits(), together[r * count + q].to_bits());
                    }
                }
            }
        }
    }
}
