//! The ways back of what is done to rows one by one, compiled for each level of the processor like the ways forward.
//!
//! It refuses to know threads and where rows come from.

use crate::cpu::panel::Level;
use crate::cpu::rowwise::{at_each_level, exp, squares_of};

/// Lanes that sums are kept in, as on the way forward.
const LANES: usize = 16;

at_each_level!(
    /// RMSNorm's way back: adds to `dx`, and this row's share to `d_weight`.
    rms_norm_back, rms_back_256, rms_back_512, rms_back_of,
    (x: &[f32], weight: &[f32], eps: f32, d_out: &[f32], dx: &mut [f32], d_weight: &mut [f32])
);
at_each_level!(
    /// As [`rms_norm_back`], but `d`, the gradient of what came out, becomes that of what went in.
    rms_norm_back_in_place, rms_back_in_place_256, rms_back_in_place_512, rms_back_in_place_of,
    (x: &[f32], weight: &[f32], eps: f32, d: &mut [f32], d_weight: &mut [f32])
);
at_each_level!(
    /// SwiGLU's way back: `[gate, up]` and the gradient of what came out give that of `[gate, up]`.
    swiglu_back, swiglu_back_256, swiglu_back_512, swiglu_back_of,
    (gate_up: &[f32], d_out: &[f32], d_gate_up: &mut [f32])
);
at_each_level!(
    /// `Σ x y`.
    dot, dot_256, dot_512, dot_of, (x: &[f32], y: &[f32]) -> f32
);
at_each_level!(
    /// The greatest value, and minus infinity of none. NaN is passed over.
    greatest, greatest_256, greatest_512, greatest_of, (x: &[f32]) -> f32
);
at_each_level!(
    /// `Σ x²` in double precision.
    squares, squares_double_256, squares_double_512, squares_double_of, (x: &[f32]) -> f64
);

/// `Σ term(x, y, z)` in lanes, so that it vectorises and is the same at every level.
#[inline(always)]
fn sum_of(x: &[f32], y: &[f32], z: &[f32], term: impl Fn(f32, f32, f32) -> f32) -> f32 {
    let ((xs, x), (ys, y), (zs, z)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>(), z.as_chunks::<LANES>());
    let mut lanes = [0.0_f32; LANES];
    for ((x, y), z) in xs.iter().zip(ys).zip(zs) {
        for i in 0..LANES {
            lanes[i] += term(x[i], y[i], z[i]);
        }
    }
    let mut count = LANES;
    while count > 1 {
        count /= 2;
        for i in 0..count {
            lanes[i] += lanes[i + count];
        }
    }
    lanes[0] + x.iter().zip(y).zip(z).map(|((x, y), z)| term(*x, *y, *z)).sum::<f32>()
}

#[inline(always)]
fn rms_back_of(x: &[f32], weight: &[f32], eps: f32, d_out: &[f32], dx: &mut [f32], d_weight: &mut [f32]) {
    let [root, along] = rms_back_factors(x, weight, eps, d_out);
    for ((((dx, x), weight), d), d_weight) in dx.iter_mut().zip(x).zip(weight).zip(d_out).zip(d_weight) {
        *dx += d * weight * root - x * along;
        *d_weight += d * x * root;
    }
}

#[inline(always)]
fn rms_back_in_place_of(x: &[f32], weight: &[f32], eps: f32, d: &mut [f32], d_weight: &mut [f32]) {
    let [root, along] = rms_back_factors(x, weight, eps, d);
    for (((d, x), weight), d_weight) in d.iter_mut().zip(x).zip(weight).zip(d_weight) {
        *d_weight += *d * x * root;
        *d = *d * weight * root - x * along;
    }
}

/// `1 / sqrt(mean(x²) + eps)`, and what of `x` itself is to be taken away.
#[inline(always)]
fn rms_back_factors(x: &[f32], weight: &[f32], eps: f32, d_out: &[f32]) -> [f32; 2] {
    let count = x.len() as f32;
    let root = 1.0 / (squares_of(x) / count + eps).sqrt();
    let turned = sum_of(x, weight, d_out, |x, weight, d| x * weight * d);
    [root, root * root * root * turned / count]
}

#[inline(always)]
fn swiglu_back_of(gate_up: &[f32], d_out: &[f32], d_gate_up: &mut [f32]) {
    let (gate, up) = gate_up.split_at(d_out.len());
    let (d_gate, d_up) = d_gate_up.split_at_mut(d_out.len());
    for ((((gate, up), d), d_gate), d_up) in gate.iter().zip(up).zip(d_out).zip(d_gate).zip(d_up) {
        let share = 1.0 / (1.0 + exp(-gate));
        *d_up = d * gate * share;
        *d_gate = d * up * share * (1.0 + gate * (1.0 - share));
    }
}

#[inline(always)]
fn dot_of(x: &[f32], y: &[f32]) -> f32 {
    sum_of(x, y, y, |x, y, _| x * y)
}

#[inline(always)]
fn greatest_of(x: &[f32]) -> f32 {
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for x in whole {
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = lane.max(*x);
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |most, x| most.max(*x))
}

#[inline(always)]
fn squares_double_of(x: &[f32]) -> f64 {
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0_f64; LANES];
    for x in whole {
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane += f64::from(*x) * f64::from(*x);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>()
}
