//! Unpacking for x86-64: four bits look their value up in a register that holds all sixteen.

use super::panel::Level;
use crate::stored::{BLOCK, Dtype};
use std::arch::is_x86_feature_detected as has;
use std::arch::x86_64::*;

/// Unpacks, or says that there is no vector form for it.
#[allow(unsafe_code)]
pub(super) fn unpack(level: Level, dtype: Dtype, bytes: &[u8], out: &mut [f32]) -> bool {
    if level == Level::Avx512 && has!("avx512f") && has!("avx2") && has!("f16c") {
        // SAFETY: the features were found just above.
        unsafe { with_512(dtype, bytes, out) };
        return true;
    }
    if level != Level::Scalar && has!("avx2") && has!("f16c") {
        // SAFETY: as above.
        unsafe { with_256(dtype, bytes, out) };
        return true;
    }
    false
}

/// Half numbers by the processor's own conversion, which a compiler does not find; the rest in the scalar form, compiled for
/// wider registers.
#[target_feature(enable = "avx2,f16c")]
fn with_256(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F16 => halves(bytes, out),
        _ => super::unpack::scalar(dtype, bytes, out),
    }
}

/// Eight half numbers at a time.
#[target_feature(enable = "avx2,f16c")]
#[inline]
#[allow(unsafe_code)]
fn halves(bytes: &[u8], out: &mut [f32]) {
    let whole = out.len() - out.len() % 8;
    let (first, rest) = out.split_at_mut(whole);
    for (out, halves) in first.as_chunks_mut::<8>().0.iter_mut().zip(bytes.as_chunks::<16>().0) {
        // SAFETY: eight halves are there and eight values have room; neither needs alignment.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(halves.as_ptr().cast()))) };
    }
    super::unpack::scalar(Dtype::F16, &bytes[2 * whole..], rest);
}

#[target_feature(enable = "avx512f,avx2,f16c")]
fn with_512(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::Q4_0 => {
            let steps =
                _mm512_setr_ps(-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0);
            for (out, block) in out.as_chunks_mut::<BLOCK>().0.iter_mut().zip(bytes.as_chunks::<18>().0) {
                let table = _mm512_mul_ps(_mm512_set1_ps(half(block[0], block[1])), steps);
                nibbles(table, block[2..].as_chunks::<16>().0[0], out);
            }
        }
        Dtype::Q4_1 => {
            let steps =
                _mm512_setr_ps(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0);
            for (out, block) in out.as_chunks_mut::<BLOCK>().0.iter_mut().zip(bytes.as_chunks::<20>().0) {
                let scaled = _mm512_mul_ps(_mm512_set1_ps(half(block[0], block[1])), steps);
                let table = _mm512_add_ps(scaled, _mm512_set1_ps(half(block[2], block[3])));
                nibbles(table, block[4..].as_chunks::<16>().0[0], out);
            }
        }
        Dtype::Q8_0 => {
            for (out, block) in out.as_chunks_mut::<BLOCK>().0.iter_mut().zip(bytes.as_chunks::<34>().0) {
                let d = _mm512_set1_ps(half(block[0], block[1]));
                for (out, q) in out.as_chunks_mut::<16>().0.iter_mut().zip(block[2..].as_chunks::<16>().0) {
                    let values = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes_16(q)));
                    store(out, _mm512_mul_ps(d, values));
                }
            }
        }
        Dtype::F16 => halves(bytes, out),
        Dtype::F32 | Dtype::Bf16 => super::unpack::scalar(dtype, bytes, out),
    }
}

#[target_feature(enable = "avx512f,f16c")]
#[inline]
fn half(low: u8, high: u8) -> f32 {
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(u16::from_le_bytes([low, high])))))
}

/// The lower four bits of each lane pick from the table; what stands above them does not count.
#[target_feature(enable = "avx512f,f16c")]
#[inline]
fn nibbles(table: __m512, packed: [u8; 16], out: &mut [f32; BLOCK]) {
    let lanes = _mm512_cvtepu8_epi32(bytes_16(&packed));
    let (low, high) = out.split_at_mut(16);
    store(low.as_chunks_mut::<16>().0.first_mut().expect("sixteen"), _mm512_permutexvar_ps(lanes, table));
    let upper = _mm512_srli_epi32::<4>(lanes);
    store(high.as_chunks_mut::<16>().0.first_mut().expect("sixteen"), _mm512_permutexvar_ps(upper, table));
}

#[target_feature(enable = "avx512f")]
#[inline]
#[allow(unsafe_code)]
fn bytes_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: sixteen bytes are there, and the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
#[allow(unsafe_code)]
fn store(out: &mut [f32; 16], values: __m512) {
    // SAFETY: sixteen values have room, and the store needs no alignment.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), values) };
}
