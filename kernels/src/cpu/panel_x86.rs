//! Panels for x86-64: tiles of a few rows by 4, 8 or 16 queries whose sums stay in registers.
//!
//! It refuses to know ranking. A value of a row is spread over a register and multiplied with one value of all
//! queries, so that each lane sums its own product in the order of the values, as the scalar form does.

use super::panel::Level;
use std::arch::x86_64::*;

/// Rows of a tile of one register a row: enough sums at a time to hide the latency of the multiply-add.
const NARROW_ROWS: usize = 8;
/// Rows of a tile of two registers a row: with the panel's two and one for the row, 15 of 16 registers.
const WIDE_ROWS: usize = 6;

/// Adds the products over the values from `first` on, as many as `panel` is deep.
///
/// # Panics
/// If the slices do not fit each other or this processor lacks the level; the caller has seen to both.
#[allow(unsafe_code)]
pub(super) fn add_products(
    level: Level,
    rows: &[f32],
    dim: usize,
    first: usize,
    panel: &[f32],
    lanes: usize,
    out: &mut [f32],
) {
    assert!(panel.len().is_multiple_of(lanes) && first + panel.len() / lanes <= dim, "the panel is part of a row");
    assert!(out.len() / lanes == rows.len() / dim, "a product for each row and lane");
    assert!(std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma"));
    match (lanes, level) {
        // SAFETY: the features of all three were found just above.
        (4, _) => unsafe { rows_by_4(rows, dim, first, panel, out) },
        // SAFETY: as above.
        (8, _) => unsafe { rows_by_8(rows, dim, first, panel, out) },
        (16, Level::Avx512) => {
            assert!(std::arch::is_x86_feature_detected!("avx512f"));
            // SAFETY: the feature was found just above.
            unsafe { rows_by_16(rows, dim, first, panel, out) }
        }
        // SAFETY: as for four lanes.
        (16, _) => unsafe { rows_by_two_8(rows, dim, first, panel, out) },
        _ => panic!("a panel of 4, 8 or 16 lanes, got {lanes}"),
    }
}

/// Writes a walk over the rows of a block and its tile; `$vectors` registers of `$width` lanes a row.
macro_rules! panel {
    ($walk:ident, $tile:ident, $feature:literal, $rows:expr, $vectors:literal, $width:literal,
     $zero:ident, $load:ident, $spread:ident, $fma:ident, $add:ident, $store:ident) => {
        #[target_feature(enable = $feature)]
        fn $walk(rows: &[f32], dim: usize, first: usize, panel: &[f32], out: &mut [f32]) {
            const LANES: usize = $vectors * $width;
            let mut tiles = rows.chunks_exact($rows * dim);
            let mut outs = out.chunks_exact_mut($rows * LANES);
            for (rows, out) in (&mut tiles).zip(&mut outs) {
                $tile::<{ $rows }>(rows, dim, first, panel, out);
            }
            for (row, out) in tiles.remainder().chunks_exact(dim).zip(outs.into_remainder().chunks_exact_mut(LANES)) {
                $tile::<1>(row, dim, first, panel, out);
            }
        }

        #[target_feature(enable = $feature)]
        #[inline]
        #[allow(unsafe_code)]
        fn $tile<const R: usize>(rows: &[f32], dim: usize, first: usize, panel: &[f32], out: &mut [f32]) {
            const LANES: usize = $vectors * $width;
            let depth = panel.len() / LANES;
            assert!(rows.len() == R * dim && first + depth <= dim && out.len() == R * LANES);
            let mut sums = [[$zero(); $vectors]; R];
            for d in 0..depth {
                let mut queries = [$zero(); $vectors];
                for (v, query) in queries.iter_mut().enumerate() {
                    // SAFETY: d < depth and v < vectors, so the load ends within depth * LANES values.
                    *query = unsafe { $load(panel.as_ptr().add(d * LANES + v * $width)) };
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: r < R and first + d < dim, so the index is below R * dim.
                    let value = $spread(unsafe { *rows.get_unchecked(r * dim + first + d) });
                    for (sum, query) in sums.iter_mut().zip(queries) {
                        *sum = $fma(value, query, *sum);
                    }
                }
            }
            for (sums, out) in sums.iter().zip(out.chunks_exact_mut(LANES)) {
                for (sum, out) in sums.iter().zip(out.chunks_exact_mut($width)) {
                    // SAFETY: the chunk is exactly as wide as the register.
                    unsafe { $store(out.as_mut_ptr(), $add($load(out.as_ptr()), *sum)) };
                }
            }
        }
    };
}

panel!(
    rows_by_4,
    tile_4,
    "avx2,fma",
    NARROW_ROWS,
    1,
    4,
    _mm_setzero_ps,
    _mm_loadu_ps,
    _mm_set1_ps,
    _mm_fmadd_ps,
    _mm_add_ps,
    _mm_storeu_ps
);
panel!(
    rows_by_8,
    tile_8,
    "avx2,fma",
    NARROW_ROWS,
    1,
    8,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_storeu_ps
);
panel!(
    rows_by_two_8,
    tile_two_8,
    "avx2,fma",
    WIDE_ROWS,
    2,
    8,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_storeu_ps
);
panel!(
    rows_by_16,
    tile_16,
    "avx512f",
    NARROW_ROWS,
    1,
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_storeu_ps
);
