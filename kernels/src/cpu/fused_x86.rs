//! Rows of stored weights times a few rows of `x` with 512-bit registers, without writing the unpacked weights anywhere: each
//! block becomes two registers, which are multiplied with every row of `x` while they are there.
//!
//! A product is one chain of sums over the blocks, so it has the same bits however many rows are computed beside it.

use super::panel::Level;
use super::product::PASS;
use crate::stored::{BLOCK, Dtype};
use half::{bf16, f16};
use std::arch::is_x86_feature_detected as has;
use std::arch::x86_64::*;

/// How far ahead weights are asked for, in bytes: they come from memory once and never again, in rows so short that the
/// processor's own prefetching hardly begins before they end.
const AHEAD: usize = 6 * 1024;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Writes `out[r * PASS + i] = w[r] · x[i]` for `rows` rows of weights, which lie one behind the other, or says that there is
/// no such form at this level.
#[allow(unsafe_code)]
pub(super) fn products(level: Level, dtype: Dtype, bytes: &[u8], inputs: usize, x: &[f32], out: &mut [f32]) -> bool {
    if level != Level::Avx512 || !(has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx2")) {
        return false;
    }
    if !(has!("fma") && has!("f16c")) {
        return false;
    }
    let (row, count, rows) = (dtype.row_bytes(inputs).expect("whole blocks"), x.len() / inputs, out.len() / PASS);
    assert!(count <= PASS && x.len() == count * inputs && bytes.len() == rows * row && out.len() == rows * PASS);
    // SAFETY: the features were found, and the lengths fit, by the lines above.
    unsafe {
        match dtype {
            Dtype::F32 => by_count::<F32>(bytes, row, inputs, x, count, out),
            Dtype::F16 => by_count::<F16>(bytes, row, inputs, x, count, out),
            Dtype::Bf16 => by_count::<Bf16>(bytes, row, inputs, x, count, out),
            Dtype::Q4_0 => by_count::<Q40>(bytes, row, inputs, x, count, out),
            Dtype::Q4_1 => by_count::<Q41>(bytes, row, inputs, x, count, out),
            Dtype::Q8_0 => by_count::<Q80>(bytes, row, inputs, x, count, out),
        }
    }
    true
}

/// How 32 values of a kind become two registers.
#[allow(unsafe_code)]
trait Unpack {
    /// Bytes of 32 values.
    const BYTES: usize;
    /// Bytes of one value, of kinds whose rows need not be whole blocks.
    const VALUE_BYTES: usize;

    /// # Safety
    /// So many bytes are there, and the processor has the features.
    unsafe fn registers(bytes: *const u8) -> (__m512, __m512);

    /// One value of an unquantised kind.
    fn value(_bytes: &[u8]) -> f32 {
        0.0
    }
}

struct F32;
struct F16;
struct Bf16;
struct Q40;
struct Q41;
struct Q80;

#[allow(unsafe_code)]
impl Unpack for F32 {
    const BYTES: usize = 128;
    const VALUE_BYTES: usize = 4;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    #[inline]
    unsafe fn registers(bytes: *const u8) -> (__m512, __m512) {
        // SAFETY: the promise of the trait.
        unsafe { (_mm512_loadu_ps(bytes.cast()), _mm512_loadu_ps(bytes.add(64).cast())) }
    }

    fn value(bytes: &[u8]) -> f32 {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

#[allow(unsafe_code)]
impl Unpack for F16 {
    const BYTES: usize = 64;
    const VALUE_BYTES: usize = 2;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    #[inline]
    unsafe fn registers(bytes: *const u8) -> (__m512, __m512) {
        // SAFETY: the promise of the trait.
        unsafe {
            let (left, right) = (_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast()));
            (_mm512_cvtph_ps(left), _mm512_cvtph_ps(right))
        }
    }

    fn value(bytes: &[u8]) -> f32 {
        f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
    }
}

#[allow(unsafe_code)]
impl Unpack for Bf16 {
    const BYTES: usize = 64;
    const VALUE_BYTES: usize = 2;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    #[inline]
    unsafe fn registers(bytes: *const u8) -> (__m512, __m512) {
        // SAFETY: the promise of the trait.
        unsafe {
            let (left, right) = (_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast()));
            let widen = |half| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)));
            (widen(left), widen(right))
        }
    }

    fn value(bytes: &[u8]) -> f32 {
        bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
    }
}

/// The sixteen values that four bits can mean, times the scale of the block that begins here.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
#[inline]
#[allow(unsafe_code)]
unsafe fn scale(bytes: *const u8) -> __m512 {
    // SAFETY: the caller's promise: a block begins with a half-precision number.
    let half = unsafe { bytes.cast::<u16>().read_unaligned() };
    _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(half))))
}

/// Looks sixteen bytes' lower and upper halves up.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
#[inline]
#[allow(unsafe_code)]
unsafe fn look_up(table: __m512, bytes: *const u8) -> (__m512, __m512) {
    // SAFETY: the caller's promise: sixteen bytes.
    let lanes = _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(bytes.cast()) });
    (_mm512_permutexvar_ps(lanes, table), _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(lanes), table))
}

#[allow(unsafe_code)]
impl Unpack for Q40 {
    const BYTES: usize = 18;
    const VALUE_BYTES: usize = 0;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    #[inline]
    unsafe fn registers(bytes: *const u8) -> (__m512, __m512) {
        let steps =
            _mm512_setr_ps(-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0);
        // SAFETY: the promise of the trait.
        unsafe { look_up(_mm512_mul_ps(scale(bytes), steps), bytes.add(2)) }
    }
}

#[allow(unsafe_code)]
impl Unpack for Q41 {
    const BYTES: usize = 20;
    const VALUE_BYTES: usize = 0;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    #[inline]
    unsafe fn registers(bytes: *const u8) -> (__m512, __m512) {
        let steps =
            _mm512_setr_ps(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0);
        // SAFETY: the promise of the trait. Two roundings, as dequantisation has them.
        unsafe { look_up(_mm512_add_ps(_mm512_mul_ps(scale(bytes), steps), scale(bytes.add(2))), bytes.add(4)) }
    }
}

#[allow(unsafe_code)]
impl Unpack for Q80 {
    const BYTES: usize = 34;
    const VALUE_BYTES: usize = 0;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    #[inline]
    unsafe fn registers(bytes: *const u8) -> (__m512, __m512) {
        // SAFETY: the promise of the trait.
        unsafe {
            let d = scale(bytes);
            let widen = |at: usize| _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes.add(at).cast())));
            (_mm512_mul_ps(d, widen(2)), _mm512_mul_ps(d, widen(18)))
        }
    }
}

/// # Safety
/// The lengths fit, and the processor has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
#[allow(unsafe_code)]
unsafe fn by_count<U: Unpack>(bytes: &[u8], row: usize, inputs: usize, x: &[f32], count: usize, out: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe {
        match count {
            0 => {}
            1 => by_rows::<U, 4, 1>(bytes, row, inputs, x, out),
            2 => by_rows::<U, 4, 2>(bytes, row, inputs, x, out),
            3 => by_rows::<U, 4, 3>(bytes, row, inputs, x, out),
            4 => by_rows::<U, 4, 4>(bytes, row, inputs, x, out),
            5 => by_rows::<U, 2, 5>(bytes, row, inputs, x, out),
            6 => by_rows::<U, 2, 6>(bytes, row, inputs, x, out),
            7 => by_rows::<U, 2, 7>(bytes, row, inputs, x, out),
            _ => by_rows::<U, 2, 8>(bytes, row, inputs, x, out),
        }
    }
}

/// # Safety
/// As [`by_count`], for M rows of `x`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
#[inline]
#[allow(unsafe_code)]
unsafe fn by_rows<U: Unpack, const R: usize, const M: usize>(
    bytes: &[u8],
    row: usize,
    inputs: usize,
    x: &[f32],
    out: &mut [f32],
) {
    let rows = out.len() / PASS;
    let mut done = 0;
    // SAFETY: the caller's promise, for some of the rows.
    unsafe {
        while rows - done >= R {
            tile::<U, R, M>(&bytes[done * row..], row, inputs, x, &mut out[done * PASS..]);
            done += R;
        }
        while done < rows {
            tile::<U, 1, M>(&bytes[done * row..], row, inputs, x, &mut out[done * PASS..]);
            done += 1;
        }
    }
}

/// # Safety
/// As [`by_count`], for R rows of weights and M of `x`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
#[inline]
#[allow(unsafe_code)]
#[allow(
    clippy::needless_range_loop,
    reason = "one index goes over several arrays of a const length, which are registers"
)]
unsafe fn tile<U: Unpack, const R: usize, const M: usize>(
    bytes: &[u8],
    row: usize,
    inputs: usize,
    x: &[f32],
    out: &mut [f32],
) {
    let blocks = inputs / BLOCK;
    assert!(bytes.len() >= R * row && row >= blocks * U::BYTES && x.len() >= M * inputs && out.len() >= R * PASS);
    let mut sums = [[_mm512_setzero_ps(); M]; R];
    for block in 0..blocks {
        let mut weights = [(_mm512_setzero_ps(), _mm512_setzero_ps()); R];
        for line in 0..(R * U::BYTES).div_ceil(LINE) {
            // A hint: an address that is not there does nothing.
            let at = bytes.as_ptr().wrapping_add(AHEAD + block * R * U::BYTES + line * LINE);
            _mm_prefetch::<_MM_HINT_T0>(at.cast());
        }
        for (r, weights) in weights.iter_mut().enumerate() {
            // SAFETY: r < R and block < blocks, so the block is inside the row, by the assertion.
            *weights = unsafe { U::registers(bytes.as_ptr().add(r * row + block * U::BYTES)) };
        }
        for i in 0..M {
            // SAFETY: i < M, so 32 values from here on are inside the row of x.
            let (left, right) = unsafe {
                let at = x.as_ptr().add(i * inputs + block * BLOCK);
                (_mm512_loadu_ps(at), _mm512_loadu_ps(at.add(16)))
            };
            for r in 0..R {
                sums[r][i] = _mm512_fmadd_ps(weights[r].0, left, sums[r][i]);
                sums[r][i] = _mm512_fmadd_ps(weights[r].1, right, sums[r][i]);
            }
        }
    }
    for r in 0..R {
        for i in 0..M {
            let mut sum = _mm512_reduce_add_ps(sums[r][i]);
            for d in blocks * BLOCK..inputs {
                let weight = U::value(&bytes[r * row + d * U::VALUE_BYTES..]);
                sum = weight.mul_add(x[i * inputs + d], sum);
            }
            out[r * PASS + i] = sum;
        }
    }
}
