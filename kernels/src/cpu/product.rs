//! Small products, the inner loops of everything: a few rows with one row, and a few rows with a matrix whose columns are
//! lanes. The scalar form says what is computed; vector forms agree within rounding.
//!
//! It refuses to know threads, storage and meaning.

use super::panel::Level;

/// Rows that [`dots`] takes at once.
pub const PASS: usize = 8;
/// Rows of one tile: with two registers a row, and these of the other side, what a processor with 32 registers holds.
pub const TILE: usize = 8;

/// Products of one row with up to [`PASS`] others, which lie one behind the other. A product does not depend on how many
/// others there are.
///
/// # Panics
/// If `others` is not whole rows, or more than [`PASS`].
pub fn dots(level: Level, row: &[f32], others: &[f32]) -> [f32; PASS] {
    let count = others.len() / row.len();
    assert!(count <= PASS && others.len() == count * row.len(), "up to {PASS} whole rows");
    #[cfg(target_arch = "x86_64")]
    if let Some(sums) = super::product_x86::dots(level, row, others, count) {
        return sums;
    }
    let _ = level;
    let mut sums = [0.0; PASS];
    for (sum, other) in sums.iter_mut().zip(others.chunks_exact(row.len())) {
        *sum = row.iter().zip(other).map(|(w, x)| w * x).sum();
    }
    sums
}

/// A matrix within a slice: row `i` begins at `i * stride`.
#[derive(Clone, Copy)]
pub struct Strided<'a> {
    /// The values.
    pub values: &'a [f32],
    /// From one row to the next.
    pub stride: usize,
}

/// The sums of [`product`], within a slice.
pub struct StridedMut<'a> {
    /// The values.
    pub values: &'a mut [f32],
    /// From one row to the next.
    pub stride: usize,
}

/// `sums[i][j] += Σ a[i][d] * b[d][j]` for `rows` rows `i`, `depth` values `d` and `lanes` columns `j`.
///
/// # Panics
/// If a slice is too short.
pub fn product(level: Level, [rows, depth, lanes]: [usize; 3], a: Strided<'_>, b: Strided<'_>, sums: StridedMut<'_>) {
    if rows == 0 || depth == 0 || lanes == 0 {
        return;
    }
    assert!(a.stride >= depth && a.values.len() >= (rows - 1) * a.stride + depth, "rows of the left side");
    assert!(b.stride >= lanes && b.values.len() >= (depth - 1) * b.stride + lanes, "rows of the right side");
    assert!(sums.stride >= lanes && sums.values.len() >= (rows - 1) * sums.stride + lanes, "rows of the sums");
    #[cfg(target_arch = "x86_64")]
    if super::product_x86::product(level, [rows, depth, lanes], a, b, &sums) {
        return;
    }
    let _ = level;
    for (i, sums) in sums.values.chunks_mut(sums.stride).take(rows).enumerate() {
        for d in 0..depth {
            let left = a.values[i * a.stride + d];
            for (sum, right) in sums[..lanes].iter_mut().zip(&b.values[d * b.stride..][..lanes]) {
                *sum += left * right;
            }
        }
    }
}
