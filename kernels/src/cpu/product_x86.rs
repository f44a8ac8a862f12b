//! Small products for x86-64, in registers of 8 or 16 lanes.

use super::panel::Level;
use super::product::{PASS, Strided, StridedMut};
use std::arch::is_x86_feature_detected as has;
use std::arch::x86_64::*;

/// Dot products, or nothing where there is no vector form at this level. `others` holds `count` rows.
#[allow(unsafe_code)]
pub(super) fn dots(level: Level, row: &[f32], others: &[f32], count: usize) -> Option<[f32; PASS]> {
    match level {
        // SAFETY: the features were found in the condition.
        Level::Avx512 if has!("avx512f") && has!("avx2") && has!("fma") => {
            Some(unsafe { dots_512(row, others, count) })
        }
        // SAFETY: as above.
        Level::Avx2 if has!("avx2") && has!("fma") => Some(unsafe { dots_256(row, others, count) }),
        _ => None,
    }
}

/// The product, or a word that there is no vector form at this level. The caller has checked that all rows are inside.
#[allow(unsafe_code)]
pub(super) fn product(
    level: Level,
    [rows, depth, lanes]: [usize; 3],
    a: Strided<'_>,
    b: Strided<'_>,
    sums: &StridedMut<'_>,
) -> bool {
    // The slice is borrowed mutably by the caller for as long as this runs.
    let sums = (sums.values.as_ptr().cast_mut(), sums.stride);
    let sides = ([rows, depth, lanes], (a.values.as_ptr(), a.stride), (b.values.as_ptr(), b.stride), sums);
    match level {
        Level::Avx512 if has!("avx512f") && has!("avx2") && has!("fma") => {
            // SAFETY: the features were found in the condition; rows are inside, as the caller has checked.
            unsafe { product_512(sides.0, sides.1, sides.2, sides.3) };
        }
        Level::Avx2 if has!("avx2") && has!("fma") => {
            // SAFETY: as above.
            unsafe { product_256(sides.0, sides.1, sides.2, sides.3) };
        }
        _ => return false,
    }
    true
}

/// Writes both for one width of register. Of [`dots_of`], each product has two sums, whatever the count.
macro_rules! products {
    ($feature:literal, $width:literal, $vector:ty, $dots:ident, $dots_of:ident, $product:ident, $strip:ident, $tile:ident,
     $most:literal, $zero:ident, $load:ident, $spread:ident, $fma:ident, $add:ident, $store:ident) => {
        #[target_feature(enable = $feature)]
        fn $dots(row: &[f32], others: &[f32], count: usize) -> [f32; PASS] {
            let mut sums = [0.0; PASS];
            let (mut done, inputs) = (0, row.len());
            while count - done >= 4 {
                sums[done..done + 4].copy_from_slice(&$dots_of::<4>(row, &others[done * inputs..]));
                done += 4;
            }
            if count - done >= 2 {
                sums[done..done + 2].copy_from_slice(&$dots_of::<2>(row, &others[done * inputs..]));
                done += 2;
            }
            if count > done {
                sums[done] = $dots_of::<1>(row, &others[done * inputs..])[0];
            }
            sums
        }

        #[target_feature(enable = $feature)]
        #[inline]
        #[allow(unsafe_code)]
        fn $dots_of<const M: usize>(row: &[f32], others: &[f32]) -> [f32; M] {
            let inputs = row.len();
            assert!(others.len() >= M * inputs);
            let mut sums = [[$zero(); 2]; M];
            let whole = inputs - inputs % (2 * $width);
            for d in (0..whole).step_by(2 * $width) {
                for half in 0..2 {
                    let at = d + half * $width;
                    // SAFETY: at + width <= whole <= inputs, in `row` and in each of M rows of `others`.
                    unsafe {
                        let w = $load(row.as_ptr().add(at));
                        for (i, sums) in sums.iter_mut().enumerate() {
                            sums[half] = $fma(w, $load(others.as_ptr().add(i * inputs + at)), sums[half]);
                        }
                    }
                }
            }
            let mut out = [0.0; M];
            for (i, (out, sums)) in out.iter_mut().zip(sums).enumerate() {
                let mut lanes = [0.0_f32; $width];
                // SAFETY: a register's lanes have room in the array.
                unsafe { $store(lanes.as_mut_ptr(), $add(sums[0], sums[1])) };
                *out = pairwise(&mut lanes);
                for d in whole..inputs {
                    *out = row[d].mul_add(others[i * inputs + d], *out);
                }
            }
            out
        }

        /// # Safety
        /// All rows of the three sides are inside what the pointers point into, and nobody else uses the sums.
        #[target_feature(enable = $feature)]
        #[allow(unsafe_code)]
        unsafe fn $product(
            [mut rows, depth, lanes]: [usize; 3],
            mut a: (*const f32, usize),
            b: (*const f32, usize),
            mut sums: (*mut f32, usize),
        ) {
            while rows > 0 {
                let now = rows.min($most);
                // SAFETY: the promise of this function, for some of its rows.
                unsafe {
                    match now {
                        8.. => $strip::<8>(depth, lanes, a, b, sums),
                        7 => $strip::<7>(depth, lanes, a, b, sums),
                        6 => $strip::<6>(depth, lanes, a, b, sums),
                        5 => $strip::<5>(depth, lanes, a, b, sums),
                        4 => $strip::<4>(depth, lanes, a, b, sums),
                        3 => $strip::<3>(depth, lanes, a, b, sums),
                        2 => $strip::<2>(depth, lanes, a, b, sums),
                        _ => $strip::<1>(depth, lanes, a, b, sums),
                    }
                    rows -= now;
                    if rows > 0 {
                        a.0 = a.0.add(now * a.1);
                        sums.0 = sums.0.add(now * sums.1);
                    }
                }
            }
        }

        /// # Safety
        /// As the product, for R rows.
        #[target_feature(enable = $feature)]
        #[inline]
        #[allow(unsafe_code)]
        unsafe fn $strip<const R: usize>(
            depth: usize,
            lanes: usize,
            a: (*const f32, usize),
            b: (*const f32, usize),
            sums: (*mut f32, usize),
        ) {
            let mut lane = 0;
            // SAFETY: the promise of this function; each tile ends at or before `lanes`.
            unsafe {
                while lanes - lane >= 2 * $width {
                    $tile::<R, 2>(depth, a, (b.0.add(lane), b.1), (sums.0.add(lane), sums.1));
                    lane += 2 * $width;
                }
                while lanes - lane >= $width {
                    $tile::<R, 1>(depth, a, (b.0.add(lane), b.1), (sums.0.add(lane), sums.1));
                    lane += $width;
                }
                for lane in lane..lanes {
                    for i in 0..R {
                        let sum = sums.0.add(i * sums.1 + lane);
                        for d in 0..depth {
                            *sum = (*a.0.add(i * a.1 + d)).mul_add(*b.0.add(d * b.1 + lane), *sum);
                        }
                    }
                }
            }
        }

        /// # Safety
        /// As the product, for R rows and V registers of lanes.
        #[target_feature(enable = $feature)]
        #[inline]
        #[allow(unsafe_code)]
        unsafe fn $tile<const R: usize, const V: usize>(
            depth: usize,
            a: (*const f32, usize),
            b: (*const f32, usize),
            out: (*mut f32, usize),
        ) {
            let mut sums: [[$vector; V]; R] = [[$zero(); V]; R];
            // SAFETY: the promise of this function: depth values of R rows, V registers of each row of `b` and of the sums.
            unsafe {
                for (i, sums) in sums.iter_mut().enumerate() {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = $load(out.0.add(i * out.1 + v * $width));
                    }
                }
                for d in 0..depth {
                    let mut right = [$zero(); V];
                    for (v, right) in right.iter_mut().enumerate() {
                        *right = $load(b.0.add(d * b.1 + v * $width));
                    }
                    for (i, sums) in sums.iter_mut().enumerate() {
                        let left = $spread(*a.0.add(i * a.1 + d));
                        for (sum, right) in sums.iter_mut().zip(right) {
                            *sum = $fma(left, right, *sum);
                        }
                    }
                }
                for (i, sums) in sums.iter().enumerate() {
                    for (v, sum) in sums.iter().enumerate() {
                        $store(out.0.add(i * out.1 + v * $width), *sum);
                    }
                }
            }
        }
    };
}

products!(
    "avx512f,avx2,fma",
    16,
    __m512,
    dots_512,
    dots_512_of,
    product_512,
    strip_512,
    tile_512,
    8,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_storeu_ps
);
products!(
    "avx2,fma",
    8,
    __m256,
    dots_256,
    dots_256_of,
    product_256,
    strip_256,
    tile_256,
    4,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_storeu_ps
);

/// Sums lanes in halves.
#[inline(always)]
fn pairwise(lanes: &mut [f32]) -> f32 {
    let mut count = lanes.len();
    while count > 1 {
        count /= 2;
        for i in 0..count {
            lanes[i] += lanes[i + count];
        }
    }
    lanes[0]
}
