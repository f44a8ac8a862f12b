//! Inner products of a few rows with a few queries, in the widest form that this processor has.
//!
//! One level computes the product of a given row and query always in the same order, whatever else is
//! in the call, so a score does not depend on how queries were batched.

/// A way of computing inner products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Plain Rust; the truth that the others are tested against.
    Scalar,
    /// AVX2 with fused multiply-add: eight lanes.
    Avx2,
    /// AVX-512F: sixteen lanes.
    Avx512,
}

impl Level {
    /// The widest level of this processor.
    pub fn detect() -> Self {
        Self::available().last().copied().unwrap_or(Level::Scalar)
    }

    /// Every level of this processor, narrowest first.
    pub fn available() -> Vec<Level> {
        let mut levels = vec![Level::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                levels.push(Level::Avx2);
            }
            if std::arch::is_x86_feature_detected!("avx512f") {
                levels.push(Level::Avx512);
            }
        }
        levels
    }
}

/// Writes the inner product of `rows[r]` and `queries[q]` to `out[r * queries + q]`, both row-major of `dim`.
///
/// # Panics
/// If the slices are no whole rows of `dim`, if `out` has another length than rows × queries, or if this
/// processor lacks `level`: all of them faults of the caller, never of the data.
#[allow(unsafe_code)]
pub fn products(level: Level, rows: &[f32], queries: &[f32], dim: usize, out: &mut [f32]) {
    assert!(dim > 0 && rows.len().is_multiple_of(dim) && queries.len().is_multiple_of(dim), "whole rows of dim");
    assert_eq!(out.len(), rows.len() / dim * (queries.len() / dim), "one product for each pair");
    match level {
        Level::Scalar => scalar(rows, queries, dim, out),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            assert!(
                std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma"),
                "avx2 and fma present"
            );
            // SAFETY: the features were found just above, and the lengths were checked at the head.
            unsafe { super::dot_x86::avx2::products(rows, queries, dim, out) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            assert!(std::arch::is_x86_feature_detected!("avx512f"), "avx512f present");
            // SAFETY: the feature was found just above, and the lengths were checked at the head.
            unsafe { super::dot_x86::avx512::products(rows, queries, dim, out) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => panic!("this level exists on x86-64 only"),
    }
}

/// Sums in `f64`, so that it is nearer to the exact product than any vector form.
fn scalar(rows: &[f32], queries: &[f32], dim: usize, out: &mut [f32]) {
    let count = queries.len() / dim;
    for (row, out) in rows.chunks_exact(dim).zip(out.chunks_exact_mut(count.max(1))) {
        for (query, out) in queries.chunks_exact(dim).zip(out) {
            let sum: f64 = row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            *out = sum as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shapes() -> impl Strategy<Value = (usize, Vec<f32>, Vec<f32>)> {
        (1_usize..70, 0_usize..20, 0_usize..11).prop_flat_map(|(dim, rows, queries)| {
            let floats = |n| proptest::collection::vec(-4.0_f32..4.0, n);
            (Just(dim), floats(dim * rows), floats(dim * queries))
        })
    }

    proptest! {
        #[test]
        fn every_level_agrees_with_the_scalar_truth((dim, rows, queries) in shapes()) {
            let n = rows.len() / dim * (queries.len() / dim);
            let mut truth = vec![0.0; n];
            products(Level::Scalar, &rows, &queries, dim, &mut truth);
            for level in Level::available() {
                let mut got = vec![f32::NAN; n];
                products(level, &rows, &queries, dim, &mut got);
                for (t, g) in truth.iter().zip(&got) {
                    prop_assert!((t - g).abs() <= 1e-5 * 16.0 * dim as f32, "{level:?}: {g}, truth {t}");
                }
            }
        }

        #[test]
        fn a_score_does_not_depend_on_its_batch((dim, rows, queries) in shapes()) {
            let count = queries.len() / dim;
            for level in Level::available() {
                let mut together = vec![0.0; rows.len() / dim * count];
                products(level, &rows, &queries, dim, &mut together);
                for (r, row) in rows.chunks_exact(dim).enumerate() {
                    for (q, query) in queries.chunks_exact(dim).enumerate() {
                        let mut alone = [0.0];
                        products(level, row, query, dim, &mut alone);
                        prop_assert_eq!(alone[0].to_bits(), together[r * count + q].to_bits());
                    }
                }
            }
        }
    }
}
