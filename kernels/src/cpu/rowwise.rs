//! What is done to rows one by one: norms, SwiGLU, GELU, rotation, exponentials. Plain loops over lanes, compiled for each
//! level of the processor.
//!
//! It refuses to know threads and where rows come from.

use super::panel::Level;

/// Lanes that sums are kept in, so that they vectorise and are the same at every level.
const LANES: usize = 16;

/// Makes a function that runs a body compiled for the level at hand.
macro_rules! at_each_level {
    ($(#[$doc:meta])* $name:ident, $wide:ident, $wider:ident, $body:ident, ($($arg:ident: $type:ty),*) $(-> $out:ty)?) => {
        $(#[$doc])*
        pub fn $name(level: Level, $($arg: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::is_x86_feature_detected as has;
                #[target_feature(enable = "avx2,fma")]
                fn $wide($($arg: $type),*) $(-> $out)? { $body($($arg),*) }
                #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
                fn $wider($($arg: $type),*) $(-> $out)? { $body($($arg),*) }
                let avx2 = has!("avx2") && has!("fma");
                let avx512 = has!("avx512f") && has!("avx512dq") && has!("avx512bw") && has!("avx512vl");
                if level == Level::Avx512 && avx512 && avx2 {
                    #[allow(unsafe_code)]
                    // SAFETY: the features were found just above.
                    return unsafe { $wider($($arg),*) };
                }
                if level != Level::Scalar && avx2 {
                    #[allow(unsafe_code)]
                    // SAFETY: the features were found just above.
                    return unsafe { $wide($($arg),*) };
                }
            }
            let _ = level;
            $body($($arg),*)
        }
    };
}
pub(super) use at_each_level;

at_each_level!(
    /// `out = x / sqrt(mean(x²) + eps) * weight`.
    rms_norm, rms_norm_256, rms_norm_512, rms_norm_of, (x: &[f32], weight: &[f32], eps: f32, out: &mut [f32])
);
at_each_level!(
    /// As [`rms_norm`], in place.
    rms_norm_in_place, rms_in_place_256, rms_in_place_512, rms_in_place_of, (x: &mut [f32], weight: &[f32], eps: f32)
);
at_each_level!(
    /// LayerNorm: `out = (x - mean) / sqrt(variance + eps) * weight + bias`.
    layer_norm, layer_norm_256, layer_norm_512, layer_norm_of,
    (x: &mut [f32], weight: &[f32], bias: &[f32], eps: f32)
);
at_each_level!(
    /// `x += y`.
    add, add_256, add_512, add_of, (x: &mut [f32], y: &[f32])
);
at_each_level!(
    /// `x *= factor`.
    scale, scale_256, scale_512, scale_of, (x: &mut [f32], factor: f32)
);
at_each_level!(
    /// `Σ x²`.
    sum_of_squares, squares_256, squares_512, squares_of, (x: &[f32]) -> f32
);
at_each_level!(
    /// Of `[gate, up]`: `gate * sigmoid(gate) * up`.
    swiglu, swiglu_256, swiglu_512, swiglu_of, (gate_up: &[f32], out: &mut [f32])
);
at_each_level!(
    /// GELU with the error function (Hendrycks and Gimpel 2016): `x / 2 * (1 + erf(x / √2))`.
    gelu, gelu_256, gelu_512, gelu_of, (x: &mut [f32])
);
at_each_level!(
    /// Its approximation: `x / 2 * (1 + tanh(√(2 / π) * (x + 0.044715 x³)))`.
    gelu_tanh, gelu_tanh_256, gelu_tanh_512, gelu_tanh_of, (x: &mut [f32])
);
at_each_level!(
    /// `x = exp(x - most)`, and the sum of these.
    exp_and_sum, exp_and_sum_256, exp_and_sum_512, exp_and_sum_of, (x: &mut [f32], most: f32) -> f32
);
at_each_level!(
    /// The greatest of these, or `least`; what is no number does not count.
    greatest, greatest_256, greatest_512, greatest_of, (x: &[f32], least: f32) -> f32
);
at_each_level!(
    /// Turns a head by cosines and sines of its pairs, whose partners are half a head apart.
    rotate_halves, rotate_256, rotate_512, rotate_halves_of, (head: &mut [f32], cos: &[f32], sin: &[f32])
);

/// Turns a head by cosines and sines of its pairs, which are neighbours.
pub fn rotate_neighbours(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    for ((pair, cos), sin) in head.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
        *pair = [pair[0] * cos - pair[1] * sin, pair[1] * cos + pair[0] * sin];
    }
}

#[inline(always)]
fn rms_norm_of(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let factor = 1.0 / (squares_of(x) / x.len() as f32 + eps).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * factor * weight;
    }
}

#[inline(always)]
fn rms_in_place_of(x: &mut [f32], weight: &[f32], eps: f32) {
    let factor = 1.0 / (squares_of(x) / x.len() as f32 + eps).sqrt();
    for (x, weight) in x.iter_mut().zip(weight) {
        *x = *x * factor * weight;
    }
}

#[inline(always)]
fn layer_norm_of(x: &mut [f32], weight: &[f32], bias: &[f32], eps: f32) {
    let mean = sum_of(x, |x| x) / x.len() as f32;
    let variance = sum_of(x, |x| (x - mean) * (x - mean)) / x.len() as f32;
    let factor = 1.0 / (variance + eps).sqrt();
    for ((x, weight), bias) in x.iter_mut().zip(weight).zip(bias) {
        *x = (*x - mean) * factor * weight + bias;
    }
}

#[inline(always)]
fn add_of(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

#[inline(always)]
fn scale_of(x: &mut [f32], factor: f32) {
    for x in x {
        *x *= factor;
    }
}

#[inline(always)]
pub(super) fn squares_of(x: &[f32]) -> f32 {
    sum_of(x, |x| x * x)
}

#[inline(always)]
fn sum_of(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for x in whole {
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane += term(*x);
        }
    }
    let mut count = LANES;
    while count > 1 {
        count /= 2;
        for i in 0..count {
            lanes[i] += lanes[i + count];
        }
    }
    lanes[0] + rest.iter().map(|x| term(*x)).sum::<f32>()
}

#[inline(always)]
fn swiglu_of(gate_up: &[f32], out: &mut [f32]) {
    let (gate, up) = gate_up.split_at(out.len());
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        *out = gate / (1.0 + exp(-gate)) * up;
    }
}

#[inline(always)]
fn gelu_of(x: &mut [f32]) {
    for x in x {
        *x *= 0.5 * erfc(-*x * std::f32::consts::FRAC_1_SQRT_2);
    }
}

#[inline(always)]
fn gelu_tanh_of(x: &mut [f32]) {
    const TWICE_ROOT: f32 = 1.595_769; // 2 √(2 / π)
    for x in x {
        // (1 + tanh(u)) / 2 is the logistic function of 2 u.
        *x /= 1.0 + exp(-TWICE_ROOT * (*x + 0.044_715 * *x * *x * *x));
    }
}

/// The complementary error function without branches: the Chebyshev fit of fractional error below 1.2e-7 everywhere (Press
/// et al., 6.2), and the rounding of `f32`.
#[inline(always)]
fn erfc(x: f32) -> f32 {
    const FIT: [f32; 10] = [
        -1.265_512_2,
        1.000_023_7,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_204,
        1.488_515_9,
        -0.822_152_23,
        0.170_872_77,
    ];
    let z = x.abs();
    let t = 1.0 / (1.0 + 0.5 * z);
    let mut fit = 0.0;
    for c in FIT.iter().rev() {
        fit = fit * t + c;
    }
    let tail = t * exp(fit - z * z);
    if x >= 0.0 { tail } else { 2.0 - tail }
}

#[inline(always)]
fn exp_and_sum_of(x: &mut [f32], most: f32) -> f32 {
    for x in x.iter_mut() {
        *x = exp(*x - most);
    }
    sum_of(x, |x| x)
}

#[inline(always)]
fn greatest_of(x: &[f32], least: f32) -> f32 {
    let greater = |one: f32, other: f32| if other > one { other } else { one };
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut lanes = [least; LANES];
    for x in whole {
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = greater(*lane, *x);
        }
    }
    lanes.into_iter().chain(rest.iter().copied()).fold(least, greater)
}

#[inline(always)]
fn rotate_halves_of(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (left, right) = head.split_at_mut(head.len() / 2);
    for (((left, right), cos), sin) in left.iter_mut().zip(right).zip(cos).zip(sin) {
        (*left, *right) = (*left * cos - *right * sin, *right * cos + *left * sin);
    }
}

/// The exponential without branches, to two units in the last place: `2^n * exp(r)` with `|r| <= ln 2 / 2` and the fit of
/// Cephes' `expf`. What would be less than the least normal number is zero; NaN stays NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let bounded = x.clamp(-88.0, 88.7);
    let n = (bounded * std::f32::consts::LOG2_E).round_ties_even();
    let r = (bounded - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut fit = 1.987_569_1e-4_f32;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1] {
        fit = fit * r + c;
    }
    let mantissa = fit * r * r + r + 1.0;
    // |n| <= 128: as two factors, of which neither overflows.
    let half = (n * 0.5).floor();
    let value = mantissa * power_of_two(half) * power_of_two(n - half);
    let value = if x < -87.3 { 0.0 } else { value };
    if x.is_nan() { x } else { value }
}

/// Two to a whole power from -126 to 127. Added to 1.5 * 2^23 a whole number stands in the lowest bits, where a conversion to an
/// integer, which Rust bounds, would be made lane by lane.
#[inline(always)]
fn power_of_two(n: f32) -> f32 {
    const WHOLE: f32 = 12_582_912.0;
    f32::from_bits((n + (WHOLE + 127.0)).to_bits() << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_is_found_wherever_it_stands_and_what_is_no_number_is_passed_over() {
        let mut x: Vec<f32> = (0..39).map(|i| -(i as f32) - 1.0).collect();
        for level in Level::available() {
            assert_eq!(greatest(level, &[], -3.0), -3.0);
            assert_eq!(greatest(level, &x, 5.0), 5.0);
            for at in 0..x.len() {
                let before = std::mem::replace(&mut x[at], 7.5);
                assert_eq!(greatest(level, &x, f32::NEG_INFINITY), 7.5, "{level:?} {at}");
                x[at] = f32::NAN;
                let expected = if at == 0 { -2.0 } else { -1.0 };
                assert_eq!(greatest(level, &x, f32::NEG_INFINITY), expected, "{level:?} {at}");
                x[at] = before;
            }
        }
    }

    #[test]
    fn every_whole_power_of_two_is_exact() {
        for n in -126..=127 {
            assert_eq!(power_of_two(n as f32), 2.0_f32.powi(n), "{n}");
        }
    }

    #[test]
    fn exponentials_are_right_to_two_units_and_have_right_ends() {
        for i in -873..=887 {
            let x = i as f32 / 10.0;
            let (got, expected) = (exp(x), f64::from(x).exp());
            assert!((f64::from(got) - expected).abs() <= expected * 2.4e-7, "exp({x}) = {got}, expected {expected}");
        }
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert!(exp(f32::INFINITY) > 3e38 && exp(f32::NAN).is_nan());
    }

    #[test]
    fn gelu_is_that_of_the_error_function_and_of_the_hyperbolic_tangent() {
        // From scipy.special.erf, and from torch's `gelu` in double precision.
        let x = [-9.0, -3.0, -1.0, -0.1, 0.0, 0.5, 2.0, 12.0];
        let exact =
            [-1.015_729_3e-18, -0.004_049_694, -0.158_655_25, -0.046_017_22, 0.0, 0.345_731_23, 1.954_499_7, 12.0];
        let tanh = [-0.0, -0.003_637_392, -0.158_808, -0.046_017_25, 0.0, 0.345_714, 1.954_597_7, 12.0];
        for level in Level::available() {
            let (mut by_erf, mut by_tanh) = (x, x);
            gelu(level, &mut by_erf);
            gelu_tanh(level, &mut by_tanh);
            for (got, expected) in by_erf.iter().zip(exact).chain(by_tanh.iter().zip(tanh)) {
                assert!((got - expected).abs() < 6e-7, "{level:?}: {got} {expected}");
            }
        }
    }

    #[test]
    fn every_level_gives_what_the_formula_says() {
        let x: Vec<f32> = (0..37).map(|i| (i as f32 * 0.7).sin()).collect();
        let weight: Vec<f32> = (0..37).map(|i| 1.0 + i as f32 * 0.01).collect();
        let mean: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 37.0;
        for level in Level::available() {
            let mut out = vec![0.0; 37];
            rms_norm(level, &x, &weight, 1e-5, &mut out);
            for ((out, x), weight) in out.iter().zip(&x).zip(&weight) {
                let expected = f64::from(*x) / (mean + 1e-5).sqrt() * f64::from(*weight);
                assert!((f64::from(*out) - expected).abs() < 1e-6);
            }
            let mut out = vec![0.0; 18];
            swiglu(level, &x[..36], &mut out);
            for (i, out) in out.iter().enumerate() {
                let (gate, up) = (f64::from(x[i]), f64::from(x[18 + i]));
                assert!((f64::from(*out) - gate / (1.0 + (-gate).exp()) * up).abs() < 1e-6);
            }
        }
    }
}
