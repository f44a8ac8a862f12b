//! The operations of a decoder as formulas in double precision, each a function from its inputs to what comes out, so that its
//! gradients can be had by differences.
//!
//! It refuses to know backends.

use legwork_kernels::{Heads, Rope};

/// Inputs of an operation, each with its number of rows.
pub(crate) type Inputs = [(Vec<f64>, usize)];

/// `x Wᵀ + bias`, of `[x, W, bias]`.
pub(crate) fn linear(inputs: &Inputs) -> Vec<f64> {
    let [(x, _), (weight, outputs), (bias, _)] = inputs else { panic!("three inputs") };
    let width = weight.len() / outputs;
    let product = |x: &[f64], row: &[f64]| x.iter().zip(row).map(|(x, w)| x * w).sum::<f64>();
    x.chunks_exact(width)
        .flat_map(|x| weight.chunks_exact(width).zip(bias).map(move |(row, bias)| product(x, row) + bias))
        .collect()
}

/// RMSNorm, of `[x, weight]`.
pub(crate) fn norm(inputs: &Inputs, eps: f32) -> Vec<f64> {
    let [(x, _), (weight, _)] = inputs else { panic!("two inputs") };
    x.chunks_exact(weight.len()).flat_map(|x| normed(x, weight, eps)).collect()
}

fn normed(x: &[f64], weight: &[f64], eps: f32) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    x.iter().zip(weight).map(|(x, weight)| x / (mean + f64::from(eps)).sqrt() * weight).collect()
}

/// SwiGLU, of `[gate, up]` rows.
pub(crate) fn swiglu(inputs: &Inputs) -> Vec<f64> {
    let [(x, rows)] = inputs else { panic!("one input") };
    let width = x.len() / rows / 2;
    let of_row = |x: &[f64]| -> Vec<f64> { (0..width).map(|i| x[i] / (1.0 + (-x[i]).exp()) * x[width + i]).collect() };
    x.chunks_exact(2 * width).flat_map(of_row).collect()
}

/// Norm, where weights are given, and rotation: of `[qkv]` or `[qkv, query norm, key norm]`.
pub(crate) fn rotate(inputs: &Inputs, heads: Heads, eps: f32, rope: &Rope, positions: &[u32]) -> Vec<f64> {
    let mut out = inputs[0].0.clone();
    for (row, position) in out.chunks_exact_mut(heads.fused()).zip(positions) {
        for (head, values) in row.chunks_exact_mut(heads.dim).take(heads.query + heads.kv).enumerate() {
            if let [_, (query, _), (key, _)] = inputs {
                values.copy_from_slice(&normed(values, if head < heads.query { query } else { key }, eps));
            }
            for (pair, frequency) in rope.frequencies.iter().enumerate() {
                let (left, right) =
                    if rope.interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + heads.dim / 2) };
                // The angle is rounded to single precision, as in the models' own code.
                let (sin, cos) = f64::from(*position as f32 * frequency).sin_cos();
                let (a, b) = (values[left], values[right]);
                values[left] = (a * cos - b * sin) * f64::from(rope.scale);
                values[right] = (b * cos + a * sin) * f64::from(rope.scale);
            }
        }
    }
    out
}

/// Causal attention of packed sequences, of `[qkv]`; behind it the logarithms of the sums.
pub(crate) fn attend(inputs: &Inputs, heads: Heads, starts: &[u32]) -> (Vec<f64>, Vec<f64>) {
    let qkv = &inputs[0].0;
    let head = |row: usize, head: usize| &qkv[row * heads.fused() + head * heads.dim..][..heads.dim];
    let (mut out, mut lse) = (Vec::new(), Vec::new());
    for pair in starts.windows(2) {
        let (first, end) = (pair[0] as usize, pair[1] as usize);
        for row in first..end {
            for query in 0..heads.query {
                let of = query / (heads.query / heads.kv);
                let product = |key: usize| {
                    let both = head(row, query).iter().zip(head(key, heads.query + of));
                    both.map(|(q, k)| q * k).sum::<f64>() / (heads.dim as f64).sqrt()
                };
                let scores: Vec<f64> = (first..=row).map(product).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let mass: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                let mut mixed = vec![0.0; heads.dim];
                for (key, score) in scores.iter().enumerate() {
                    let share = (score - most).exp() / mass;
                    let value = head(first + key, heads.query + heads.kv + of);
                    mixed.iter_mut().zip(value).for_each(|(mixed, value)| *mixed += share * value);
                }
                out.extend(mixed);
                lse.push(most + mass.ln());
            }
        }
    }
    (out, lse)
}

/// Weighted cross-entropy of the first `columns` columns, of `[logits]`: a loss a row, times its weight.
pub(crate) fn cross_entropy(inputs: &Inputs, columns: usize, targets: &[u32], weights: &[f32]) -> Vec<f64> {
    let [(logits, rows)] = inputs else { panic!("one input") };
    let of_row = |(row, (target, weight)): (&[f64], (&u32, &f32))| {
        let most = row[..columns].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mass: f64 = row[..columns].iter().map(|x| (x - most).exp()).sum();
        (most + mass.ln() - row[*target as usize]) * f64::from(*weight)
    };
    logits.chunks_exact(logits.len() / rows).zip(targets.iter().zip(weights)).map(of_row).collect()
}
