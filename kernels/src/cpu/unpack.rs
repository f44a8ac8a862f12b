//! Rows of stored weights as `f32`. The scalar form is the truth; vector forms agree with it to the bit, since each value
//! is rounded as ggml's own dequantisation rounds it: `d * (q - 8)`, `d * q + m` with two roundings, `d * q`.
//!
//! It refuses to know what is done with a row.

use super::panel::Level;
use crate::stored::{BLOCK, Dtype};
use half::{bf16, f16};

/// Writes the values of whole blocks to `out`.
///
/// # Panics
/// If `bytes` are not those of `out.len()` values; whoever made a [`crate::Stored`] has seen to that.
pub fn unpack(level: Level, dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(dtype.row_bytes(out.len()), Some(bytes.len()), "bytes of {} values of {}", out.len(), dtype.name());
    #[cfg(target_arch = "x86_64")]
    if super::unpack_x86::unpack(level, dtype, bytes, out) {
        return;
    }
    let _ = level;
    scalar(dtype, bytes, out);
}

#[inline(always)]
pub(super) fn scalar(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F32 => each(bytes, out, |b: [u8; 4]| f32::from_le_bytes(b)),
        Dtype::F16 => each(bytes, out, |b: [u8; 2]| f16::from_le_bytes(b).to_f32()),
        Dtype::Bf16 => each(bytes, out, |b: [u8; 2]| bf16::from_le_bytes(b).to_f32()),
        Dtype::Q4_0 => blocks::<18>(bytes, out, |block, out| {
            let d = half_at(block, 0);
            nibbles(&block[2..], out, |q| d * (f32::from(q) - 8.0));
        }),
        Dtype::Q4_1 => blocks::<20>(bytes, out, |block, out| {
            let (d, m) = (half_at(block, 0), half_at(block, 2));
            nibbles(&block[4..], out, |q| d * f32::from(q) + m);
        }),
        Dtype::Q8_0 => blocks::<34>(bytes, out, |block, out| {
            let d = half_at(block, 0);
            for (out, q) in out.iter_mut().zip(&block[2..]) {
                *out = d * f32::from(*q as i8);
            }
        }),
    }
}

#[inline(always)]
fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *out = value(*bytes);
    }
}

#[inline(always)]
fn blocks<const N: usize>(bytes: &[u8], out: &mut [f32], block: impl Fn(&[u8; N], &mut [f32; BLOCK])) {
    for (out, bytes) in out.as_chunks_mut::<BLOCK>().0.iter_mut().zip(bytes.as_chunks::<N>().0) {
        block(bytes, out);
    }
}

#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Lower halves first, then upper halves.
#[inline(always)]
fn nibbles(packed: &[u8], out: &mut [f32; BLOCK], value: impl Fn(u8) -> f32) {
    let (low, high) = out.split_at_mut(BLOCK / 2);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(packed) {
        *low = value(byte & 15);
        *high = value(byte >> 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_number_is_the_same_at_every_level_wherever_a_row_ends() {
        let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for level in Level::available() {
            for values in [0_usize, 1, 7, 8, 9, 23, 65_536] {
                let mut out = vec![0.0; values];
                unpack(level, Dtype::F16, &all[..2 * values], &mut out);
                for (bits, value) in out.iter().enumerate() {
                    let expected = f16::from_bits(bits as u16).to_f32();
                    let same = value.to_bits() == expected.to_bits() || (value.is_nan() && expected.is_nan());
                    assert!(same, "{level:?}: {bits:#x} is {value}, expected {expected}");
                }
            }
        }
    }
}
