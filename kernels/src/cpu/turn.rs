//! The transpose of a matrix within a slice, by squares, and its vector form for x86-64.
//!
//! It refuses to know what lies there. Values are only moved and multiplied once, so every form gives the same bits.

use super::panel::Level;
use super::product::{Strided, StridedMut};

/// Side of a square: a register of eight lanes.
const SQUARE: usize = 8;

/// `to[j][i] = from[i][j] * factor` for `rows` rows `i` and `cols` columns `j`.
///
/// # Panics
/// If a slice is too short.
pub fn turn(level: Level, [rows, cols]: [usize; 2], from: Strided<'_>, factor: f32, to: StridedMut<'_>) {
    if rows == 0 || cols == 0 {
        return;
    }
    assert!(from.stride >= cols && from.values.len() >= (rows - 1) * from.stride + cols, "rows of what is turned");
    assert!(to.stride >= rows && to.values.len() >= (cols - 1) * to.stride + rows, "rows of what it becomes");
    #[cfg(target_arch = "x86_64")]
    let [tall, wide] = squares(level, [rows, cols], from, factor, StridedMut { values: &mut *to.values, ..to });
    #[cfg(not(target_arch = "x86_64"))]
    let [tall, wide] = [0, 0];
    let _ = level;
    for row in 0..rows {
        let first = if row < tall { wide } else { 0 };
        for col in first..cols {
            to.values[col * to.stride + row] = from.values[row * from.stride + col] * factor;
        }
    }
}

/// Turns whole squares, and tells how far they went. The caller has checked that all rows are inside.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn squares(level: Level, [rows, cols]: [usize; 2], from: Strided<'_>, factor: f32, to: StridedMut<'_>) -> [usize; 2] {
    if level == Level::Scalar || !std::arch::is_x86_feature_detected!("avx2") {
        return [0, 0];
    }
    let [tall, wide] = [rows - rows % SQUARE, cols - cols % SQUARE];
    for row in (0..tall).step_by(SQUARE) {
        for col in (0..wide).step_by(SQUARE) {
            // SAFETY: the feature was found above, and the square is inside both.
            unsafe {
                let first = from.values.as_ptr().add(row * from.stride + col);
                let into = to.values.as_mut_ptr().add(col * to.stride + row);
                square((first, from.stride), factor, (into, to.stride));
            }
        }
    }
    [tall, wide]
}

/// Turns a square.
///
/// # Safety
/// Eight rows of eight values are inside what each pointer points into.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[allow(unsafe_code)]
unsafe fn square(from: (*const f32, usize), factor: f32, to: (*mut f32, usize)) {
    use std::arch::x86_64::*;
    let factor = _mm256_set1_ps(factor);
    // SAFETY: the promise of this function.
    let rows: [__m256; SQUARE] =
        std::array::from_fn(|i| unsafe { _mm256_mul_ps(_mm256_loadu_ps(from.0.add(i * from.1)), factor) });
    // Pairs of rows, then fours, then halves.
    let mut pairs = rows;
    for i in (0..SQUARE).step_by(2) {
        pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    let mut fours = pairs;
    for i in [0, 4] {
        for half in 0..2 {
            let (low, high) = (pairs[i + half], pairs[i + 2 + half]);
            fours[i + 2 * half] = _mm256_shuffle_ps::<0x44>(low, high);
            fours[i + 2 * half + 1] = _mm256_shuffle_ps::<0xee>(low, high);
        }
    }
    for i in 0..4 {
        let (low, high) = (fours[i], fours[i + 4]);
        // SAFETY: as above.
        unsafe {
            _mm256_storeu_ps(to.0.add(i * to.1), _mm256_permute2f128_ps::<0x20>(low, high));
            _mm256_storeu_ps(to.0.add((i + 4) * to.1), _mm256_permute2f128_ps::<0x31>(low, high));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_moves_every_value_and_touches_nothing_else() {
        for [rows, cols] in [[1, 1], [8, 8], [7, 9], [16, 24], [33, 20], [64, 130]] {
            let (from_stride, to_stride) = (cols + 3, rows + 5);
            let values: Vec<f32> = (0..rows * from_stride).map(|i| i as f32 + 1.0).collect();
            for level in Level::available() {
                let mut turned = vec![-1.0; cols * to_stride];
                let from = Strided { values: &values, stride: from_stride };
                turn(level, [rows, cols], from, 0.5, StridedMut { values: &mut turned, stride: to_stride });
                for (at, got) in turned.iter().enumerate() {
                    let (col, row) = (at / to_stride, at % to_stride);
                    let expected = if row < rows { values[row * from_stride + col] * 0.5 } else { -1.0 };
                    assert_eq!(*got, expected, "{level:?}, {rows} x {cols}");
                }
            }
        }
    }
}
