//! The operations of a decoder as candle's tensors in double precision, so that candle's own way back gives their gradients.
//!
//! It refuses to know backends.

use candle_core::{D, Device, Tensor};
use legwork_kernels::{Heads, Rope};

fn constant(values: Vec<f64>, shape: impl Into<candle_core::Shape>) -> Tensor {
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// As the formula of this name, and so are the others.
pub(crate) fn linear(inputs: &[Tensor]) -> Tensor {
    inputs[0].matmul(&inputs[1].t().unwrap()).unwrap().broadcast_add(&inputs[2]).unwrap()
}

pub(crate) fn norm(inputs: &[Tensor], eps: f32) -> Tensor {
    let (x, weight) = (&inputs[0], &inputs[1]);
    let mean = (x.sqr().unwrap().mean_keepdim(D::Minus1).unwrap() + f64::from(eps)).unwrap();
    x.broadcast_div(&mean.sqrt().unwrap()).unwrap().broadcast_mul(&weight.flatten_all().unwrap()).unwrap()
}

pub(crate) fn swiglu(inputs: &[Tensor]) -> Tensor {
    let half = inputs[0].dim(1).unwrap() / 2;
    let (gate, up) = (inputs[0].narrow(1, 0, half).unwrap(), inputs[0].narrow(1, half, half).unwrap());
    let share = ((gate.neg().unwrap().exp().unwrap() + 1.0).unwrap()).recip().unwrap();
    (gate * share).unwrap().mul(&up).unwrap()
}

pub(crate) fn rotate(inputs: &[Tensor], heads: Heads, eps: f32, rope: &Rope, positions: &[u32]) -> Tensor {
    let rows = positions.len();
    let all = inputs[0].reshape((rows, heads.query + 2 * heads.kv, heads.dim)).unwrap();
    let part = |from, count| all.narrow(1, from, count).unwrap();
    let (mut query, mut key) = (part(0, heads.query), part(heads.query, heads.kv));
    let value = part(heads.query + heads.kv, heads.kv);
    if inputs.len() == 3 {
        query = norm(&[query, inputs[1].clone()], eps);
        key = norm(&[key, inputs[2].clone()], eps);
    }
    let turn = matrices(heads.dim, rope, positions);
    let turned = |x: Tensor| {
        let x = x.contiguous().unwrap();
        x.matmul(&turn).unwrap()
    };
    let out = Tensor::cat(&[turned(query), turned(key), value], 1).unwrap();
    out.reshape((rows, heads.fused())).unwrap()
}

/// `[rows, dim, dim]`: what a row of a head is multiplied by.
fn matrices(dim: usize, rope: &Rope, positions: &[u32]) -> Tensor {
    let mut all = vec![0.0; positions.len() * dim * dim];
    for (matrix, position) in all.chunks_exact_mut(dim * dim).zip(positions) {
        for (pair, frequency) in rope.frequencies.iter().enumerate() {
            let (left, right) = if rope.interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + dim / 2) };
            let (sin, cos) = f64::from(*position as f32 * frequency).sin_cos();
            let (sin, cos) = (sin * f64::from(rope.scale), cos * f64::from(rope.scale));
            (matrix[left * dim + left], matrix[right * dim + left]) = (cos, -sin);
            (matrix[right * dim + right], matrix[left * dim + right]) = (cos, sin);
        }
    }
    constant(all, (positions.len(), dim, dim))
}

pub(crate) fn attend(inputs: &[Tensor], heads: Heads, starts: &[u32]) -> Tensor {
    let sequences = starts.windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| {
        let (first, length) = (pair[0] as usize, (pair[1] - pair[0]) as usize);
        let all = inputs[0].narrow(0, first, length).unwrap();
        let head = |number: usize| all.narrow(1, number * heads.dim, heads.dim).unwrap().contiguous().unwrap();
        let hidden = |at: usize| if at % length > at / length { f64::NEG_INFINITY } else { 0.0 };
        let mask = constant((0..length * length).map(hidden).collect(), (length, length));
        let mixed: Vec<Tensor> = (0..heads.query)
            .map(|query| {
                let of = query / (heads.query / heads.kv);
                let scores = head(query).matmul(&head(heads.query + of).t().unwrap()).unwrap();
                let scores = ((scores / (heads.dim as f64).sqrt()).unwrap() + &mask).unwrap();
                let most = scores.max_keepdim(1).unwrap().detach();
                let shares = scores.broadcast_sub(&most).unwrap().exp().unwrap();
                let shares = shares.broadcast_div(&shares.sum_keepdim(1).unwrap()).unwrap();
                shares.matmul(&head(heads.query + heads.kv + of)).unwrap()
            })
            .collect();
        Tensor::cat(&mixed, 1).unwrap()
    });
    Tensor::cat(&sequences.collect::<Vec<_>>(), 0).unwrap()
}

pub(crate) fn cross_entropy(inputs: &[Tensor], columns: usize, targets: &[u32], weights: &[f32]) -> Tensor {
    let logits = inputs[0].narrow(1, 0, columns).unwrap().contiguous().unwrap();
    let most = logits.max_keepdim(1).unwrap().detach();
    let mass = logits.broadcast_sub(&most).unwrap().exp().unwrap().sum_keepdim(1).unwrap();
    let targets = Tensor::from_slice(targets, (targets.len(), 1), &Device::Cpu).unwrap();
    let loss = ((mass.log().unwrap() + most).unwrap() - logits.gather(&targets, 1).unwrap()).unwrap();
    let weights: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
    let rows = weights.len();
    (loss * constant(weights, (rows, 1))).unwrap()
}
