//! What every backend of [`Ops`] must compute: each operation beside candle's tensors, on shapes that straddle tiles, pages
//! and passes. A backend calls [`conforms`] with its precision; the processor does at each of its levels, a card where there is
//! one, and the card's kernels on an emulator everywhere.

#![allow(clippy::unwrap_used, reason = "a test")]

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{D, DType, Device, Tensor};
use legwork_kernels::cpu::panel::Level;
use legwork_kernels::{Batch, CacheShape, Compared, Cpu, Dtype, Heads, Ops, PAGE_TOKENS, Rope, SharedBytes, Stored};
use std::sync::Arc;

#[cfg(feature = "cuda")]
#[path = "conformance/card.rs"]
mod card;
#[cfg(feature = "cuda")]
#[path = "conformance/draws.rs"]
mod draws;
#[cfg(feature = "cuda")]
#[path = "conformance/emulated.rs"]
mod emulated;
#[cfg(feature = "cuda")]
#[path = "conformance/few.rs"]
mod few;

/// What a backend computes with.
#[derive(Clone, Copy)]
struct Precision {
    /// To what its rows and weights are rounded: inputs are made so that they are what it holds.
    round: fn(f32) -> f32,
    /// How far products may be off, of their value or of 1.
    product: f32,
    /// And what is done to single rows, which may be rounded several times on the way.
    rows: f32,
    /// And attention, whose queries and keys are results already.
    attention: f32,
}

impl Precision {
    /// Of a backend that computes in `f32` throughout.
    fn single(tolerance: f32) -> Self {
        Self { round: |value| value, product: tolerance, rows: tolerance, attention: tolerance }
    }
}

/// Numbers that look like nothing in particular, from -1 to 1, rounded to what a backend holds.
struct Dice(u64, fn(f32) -> f32);

impl Dice {
    fn next(&mut self) -> f32 {
        // SplitMix64 (Steele, Lea and Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (self.1)(((z ^ (z >> 31)) >> 40) as f32 / (1_u64 << 23) as f32 - 1.0)
    }

    fn many(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }
}

fn tensor(values: &[f32], rows: usize) -> Tensor {
    Tensor::from_slice(values, (rows, values.len() / rows), &Device::Cpu).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Weights of a kind, and what they mean by candle.
fn weights(dtype: Dtype, rows: usize, cols: usize, dice: &mut Dice) -> (Stored, Tensor) {
    let plain = tensor(&dice.many(rows * cols), rows);
    let quantised = |kind| {
        let quantised = QTensor::quantize(&plain, kind).unwrap();
        let bytes = quantised.data().unwrap().to_vec();
        let meant: Vec<f32> = values(&quantised.dequantize(&Device::Cpu).unwrap()).into_iter().map(dice.1).collect();
        (bytes, tensor(&meant, rows))
    };
    let halved = |kind| plain.to_dtype(kind).unwrap().to_dtype(DType::F32).unwrap();
    let (bytes, meant) = match dtype {
        Dtype::F32 => (values(&plain).iter().flat_map(|x| x.to_le_bytes()).collect(), plain.clone()),
        Dtype::F16 => {
            let meant = halved(DType::F16);
            (values(&meant).iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(), meant)
        }
        Dtype::Bf16 => {
            let meant = halved(DType::BF16);
            (values(&meant).iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect(), meant)
        }
        Dtype::Q4_0 => quantised(GgmlDType::Q4_0),
        Dtype::Q4_1 => quantised(GgmlDType::Q4_1),
        Dtype::Q8_0 => quantised(GgmlDType::Q8_0),
    };
    (Stored::new(dtype, rows, cols, SharedBytes::new(Arc::new(bytes))).unwrap(), meant)
}

const KINDS: [Dtype; 6] = [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::Q4_0, Dtype::Q4_1, Dtype::Q8_0];

fn near(what: &str, got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        let off = (got - expected).abs();
        assert!(off <= tolerance * expected.abs().max(1.0), "{what}, value {at}: {got}, expected {expected}");
    }
}

/// That each head is near as a whole: where many tokens are mixed, values are small and a tolerance of 1 says little.
fn near_as_vectors(what: &str, got: &[f32], expected: &[f32], width: usize, tolerance: f32) {
    let length = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>().sqrt();
    for (at, (got, expected)) in got.chunks_exact(width).zip(expected.chunks_exact(width)).enumerate() {
        let off = length(&mut got.iter().zip(expected).map(|(got, expected)| got - expected));
        let all = length(&mut expected.iter().copied());
        assert!(off <= tolerance * all, "{what}, vector {at}: off by {off}, its length is {all}");
    }
}

fn fill<B: Ops>(ops: &B, values: &[f32], rows: usize) -> B::Rows {
    let width = values.len() / rows;
    let table = ops.matrix(&[Stored::from_f32(rows, width, values).unwrap()]).unwrap();
    let mut filled = ops.rows(rows, width).unwrap();
    ops.embed(&table, &(0..rows as u32).collect::<Vec<_>>(), &mut filled).unwrap();
    filled
}

fn read<B: Ops>(ops: &B, rows: &B::Rows) -> Vec<f32> {
    let mut out = Vec::new();
    ops.read(rows, &mut out).unwrap();
    out
}

/// Every operation of a backend.
fn conforms<B: Ops>(ops: &B, precision: Precision) {
    let dice = &mut Dice(7, precision.round);
    products(ops, precision.product, dice);
    row_by_row(ops, precision.rows, dice);
    attention(ops, precision.attention, dice, Heads { query: 6, kv: 2, dim: 20 }, false, true, &SHORT);
    attention(ops, precision.attention, dice, Heads { query: 4, kv: 4, dim: 64 }, true, false, &SHORT);
}

fn products<B: Ops>(ops: &B, tolerance: f32, dice: &mut Dice) {
    for dtype in KINDS {
        // Rows are whole blocks for the quantised kinds and any number for the others.
        let cols = if dtype.block() == 1 { 75 } else { 96 };
        let (above, meant_above) = weights(dtype, 37, cols, dice);
        let (below, meant_below) = weights(dtype, 9, cols, dice);
        let meant = Tensor::cat(&[&meant_above, &meant_below], 0).unwrap();
        let matrix = ops.matrix(&[above, below]).unwrap();
        let bias = dice.many(46);
        let vector = ops.vector(&bias).unwrap();
        for rows in [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70] {
            let x = dice.many(rows * cols);
            let expected = tensor(&x, rows).matmul(&meant.t().unwrap()).unwrap();
            let expected = expected.broadcast_add(&tensor(&bias, 1)).unwrap();
            let (x, mut out) = (fill(ops, &x, rows), ops.rows(rows, 46).unwrap());
            ops.linear(&x, &matrix, Some(&vector), &mut out).unwrap();
            near(&format!("linear, {}, {rows} rows", dtype.name()), &read(ops, &out), &values(&expected), tolerance);
        }
        let ids = [45_u32, 0, 36, 37, 2];
        let mut out = ops.rows(5, cols).unwrap();
        ops.embed(&matrix, &ids, &mut out).unwrap();
        let expected = meant.index_select(&Tensor::new(&ids, &Device::Cpu).unwrap(), 0).unwrap();
        near(&format!("embed, {}", dtype.name()), &read(ops, &out), &values(&expected), 0.0);
        assert!(ops.embed(&matrix, &[46], &mut out).is_err(), "there are 46 rows");
    }
}

fn row_by_row<B: Ops>(ops: &B, tolerance: f32, dice: &mut Dice) {
    for (rows, width) in [(1, 48), (3, 77), (40, 130), (2, 8_300)] {
        let (x, delta, weight) = (dice.many(rows * width), dice.many(rows * width), dice.many(width));
        let norm = |x: &Tensor| {
            let mean = x.sqr().unwrap().mean_keepdim(D::Minus1).unwrap();
            let factor = (mean + 1e-5).unwrap().sqrt().unwrap();
            x.broadcast_div(&factor).unwrap().broadcast_mul(&tensor(&weight, 1)).unwrap()
        };
        let vector = ops.vector(&weight).unwrap();
        let (mut stream, added) = (fill(ops, &x, rows), fill(ops, &delta, rows));
        let mut out = ops.rows(rows, width).unwrap();
        ops.norm(&stream, &vector, 1e-5, &mut out).unwrap();
        near("norm", &read(ops, &out), &values(&norm(&tensor(&x, rows))), tolerance);
        ops.add_norm(&mut stream, &added, &vector, 1e-5, &mut out).unwrap();
        let sum = (tensor(&x, rows) + tensor(&delta, rows)).unwrap();
        near("add_norm, the stream", &read(ops, &stream), &values(&sum), tolerance);
        near("add_norm", &read(ops, &out), &values(&norm(&sum)), tolerance);

        let both = dice.many(rows * 2 * width);
        let split = tensor(&both, rows);
        let (gate, up) = (split.narrow(1, 0, width).unwrap(), split.narrow(1, width, width).unwrap());
        ops.swiglu(&fill(ops, &both, rows), &mut out).unwrap();
        near("swiglu", &read(ops, &out), &values(&(gate.silu().unwrap() * up).unwrap()), tolerance);

        let picked: Vec<u32> = [rows - 1, 0, rows / 2].iter().map(|row| *row as u32).collect();
        let mut few = ops.rows(3, width).unwrap();
        ops.pick(&stream, &picked, &mut few).unwrap();
        let expected = sum.index_select(&Tensor::new(picked.as_slice(), &Device::Cpu).unwrap(), 0).unwrap();
        near("pick", &read(ops, &few), &values(&expected), tolerance);
        assert!(ops.pick(&stream, &[rows as u32], &mut few).is_err(), "there is no such row");

        ops.normalize(&mut stream).unwrap();
        let length = sum.sqr().unwrap().sum_keepdim(1).unwrap().sqrt().unwrap();
        near("normalize", &read(ops, &stream), &values(&sum.broadcast_div(&length).unwrap()), tolerance);
    }
}

/// Three sequences: how long they are, and how many of their tokens come in a second step.
struct Story {
    lengths: [usize; 3],
    new: [usize; 3],
}

const SHORT: Story = Story { lengths: [2 * PAGE_TOKENS + 9, 5, PAGE_TOKENS], new: [11, 5, 1] };

/// Three sequences of different pasts in one batch, whose pages lie criss-cross.
fn attention<B: Ops>(
    ops: &B,
    tolerance: f32,
    dice: &mut Dice,
    heads: Heads,
    interleaved: bool,
    normed: bool,
    story: &Story,
) {
    let frequencies: Vec<f32> = (0..heads.dim / 2).map(|i| 0.7_f32.powi(i as i32)).collect();
    let rope = Rope { frequencies, interleaved, scale: 1.0 };
    let Story { lengths, new } = *story;
    let most = lengths.map(|length| length.div_ceil(PAGE_TOKENS)).into_iter().max().unwrap_or(0);
    let pages: Vec<Vec<u32>> = (0..3)
        .map(|sequence| {
            let count = lengths[sequence].div_ceil(PAGE_TOKENS);
            (0..count).map(|page| (3 * (most - page) - 1 - sequence) as u32).collect()
        })
        .collect();
    let spare: Vec<u32> = (0..pages[0].len()).map(|page| (3 * most + page) as u32).collect();
    let total = 3 * most + spare.len();
    let shape = CacheShape { layers: 2, pages: total, kv_heads: heads.kv, head_dim: heads.dim };
    let mut cache = ops.cache(shape).unwrap();
    let norms = [dice.many(heads.dim), dice.many(heads.dim)];
    let vectors = norms.each_ref().map(|norm| ops.vector(norm).unwrap());
    let told: Vec<Vec<f32>> = lengths.iter().map(|length| dice.many(length * heads.fused())).collect();
    // All but the last tokens come first, in a step of their own.
    let mut outputs = vec![Vec::new(); 3];
    for second in [false, true] {
        let (mut batch, mut rows, mut of_row) = (Batch::default(), Vec::new(), Vec::new());
        for (sequence, length) in lengths.iter().enumerate() {
            let (from, to) = if second { (length - new[sequence], *length) } else { (0, length - new[sequence]) };
            if from == to {
                continue;
            }
            batch.push(&vec![0; to - from], from, &pages[sequence], false);
            rows.extend_from_slice(&told[sequence][from * heads.fused()..to * heads.fused()]);
            of_row.extend((from..to).map(|_| sequence));
        }
        let mut qkv = fill(ops, &rows, batch.rows());
        let mut out = ops.rows(batch.rows(), heads.width()).unwrap();
        let norms = normed.then_some((&vectors[0], &vectors[1], 1e-6));
        ops.rotate_and_keep(&mut qkv, heads, norms, &rope, &batch, 1, &mut cache).unwrap();
        ops.attend(&qkv, heads, &batch, 1, &cache, &mut out).unwrap();
        // The other layer gets what is turned once more, and must not be seen by the next step.
        ops.rotate_and_keep(&mut qkv, heads, norms, &rope, &batch, 0, &mut cache).unwrap();
        for (row, attended) in read(ops, &out).chunks_exact(heads.width()).enumerate() {
            outputs[of_row[row]].extend_from_slice(attended);
        }
    }
    for (sequence, length) in lengths.iter().enumerate() {
        let expected = attended(&told[sequence], *length, heads, &rope, normed.then_some(&norms));
        let what = format!("attend, {heads:?}, sequence {sequence}");
        near(&what, &outputs[sequence], &expected, tolerance);
        near_as_vectors(&what, &outputs[sequence], &expected, heads.dim, tolerance);
    }
    let saved = ops.save_pages(&cache, &pages[0]).unwrap();
    assert_eq!(saved.len(), spare.len() * ops.page_bytes(&cache));
    ops.load_pages(&mut cache, &spare, &saved).unwrap();
    assert_eq!(ops.save_pages(&cache, &spare).unwrap(), saved, "pages are the same wherever they lie");
    let outside = [total as u32];
    assert!(ops.save_pages(&cache, &outside).is_err() && ops.load_pages(&mut cache, &outside, &saved).is_err());
    assert!(ops.load_pages(&mut cache, &spare, &saved[1..]).is_err(), "not the bytes of so many pages");
}

/// Attention over one whole sequence, by tensors without pages.
fn attended(told: &[f32], length: usize, heads: Heads, rope: &Rope, norms: Option<&[Vec<f32>; 2]>) -> Vec<f32> {
    let all = tensor(told, length);
    let part = |from: usize, count: usize| {
        let part = all.narrow(1, from * heads.dim, count * heads.dim).unwrap();
        part.reshape((length, count, heads.dim)).unwrap().transpose(0, 1).unwrap().contiguous().unwrap()
    };
    let turned = |x: Tensor, norm: Option<&Vec<f32>>| {
        let x = match norm {
            None => x,
            Some(norm) => {
                let mean = x.sqr().unwrap().mean_keepdim(D::Minus1).unwrap();
                let factor = (mean + 1e-6).unwrap().sqrt().unwrap();
                let norm = Tensor::from_slice(norm, (1, 1, heads.dim), &Device::Cpu).unwrap();
                x.broadcast_div(&factor).unwrap().broadcast_mul(&norm).unwrap()
            }
        };
        turn(&x, rope)
    };
    let query = turned(part(0, heads.query), norms.map(|norms| &norms[0]));
    let key = turned(part(heads.query, heads.kv), norms.map(|norms| &norms[1]));
    let value = part(heads.query + heads.kv, heads.kv);
    let mut out = vec![0.0; length * heads.width()];
    for head in 0..heads.query {
        let of = head / (heads.query / heads.kv);
        let scores = query.get(head).unwrap().matmul(&key.get(of).unwrap().t().unwrap()).unwrap();
        let scores = (scores / (heads.dim as f64).sqrt()).unwrap();
        let hidden: Vec<f32> =
            (0..length * length).map(|at| if at % length > at / length { f32::NEG_INFINITY } else { 0.0 }).collect();
        let scores = (scores + tensor(&hidden, length)).unwrap();
        let most = scores.max_keepdim(1).unwrap();
        let shares = scores.broadcast_sub(&most).unwrap().exp().unwrap();
        let shares = shares.broadcast_div(&shares.sum_keepdim(1).unwrap()).unwrap();
        let mixed = values(&shares.matmul(&value.get(of).unwrap()).unwrap());
        for (row, mixed) in mixed.chunks_exact(heads.dim).enumerate() {
            out[row * heads.width() + head * heads.dim..][..heads.dim].copy_from_slice(mixed);
        }
    }
    out
}

/// Turns `[heads, length, dim]` by position, pair by pair, in double precision.
fn turn(x: &Tensor, rope: &Rope) -> Tensor {
    let (heads, length, dim) = x.dims3().unwrap();
    let mut all = values(x);
    for (row, head) in all.chunks_exact_mut(dim).enumerate() {
        for (pair, frequency) in rope.frequencies.iter().enumerate() {
            let (left, right) = if rope.interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + dim / 2) };
            let (sin, cos) = f64::from((row % length) as f32 * frequency).sin_cos();
            let (a, b) = (f64::from(head[left]), f64::from(head[right]));
            (head[left], head[right]) = ((a * cos - b * sin) as f32, (b * cos + a * sin) as f32);
        }
    }
    Tensor::from_vec(all, (heads, length, dim), &Device::Cpu).unwrap()
}

#[test]
fn the_processor_conforms_at_every_level() {
    for level in Level::available() {
        conforms(&Cpu::at(level), Precision::single(2e-5));
    }
}

#[test]
fn two_levels_of_the_processor_agree_operation_by_operation() {
    let level = Level::available().last().copied().unwrap();
    conforms(&Compared::new(Cpu::at(level), Cpu::at(Level::Scalar), 1e-5), Precision::single(2e-5));
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_both() {
    let ops = Cpu::new();
    let x = fill(&ops, &[0.5; 12], 3);
    let matrix = ops.matrix(&[Stored::from_f32(2, 5, &[0.0; 10]).unwrap()]).unwrap();
    let error = ops.linear(&x, &matrix, None, &mut ops.rows(3, 2).unwrap()).unwrap_err().to_string();
    assert!(error.contains("linear: expected inputs 5, got 4"), "{error}");
    assert!(ops.norm(&x, &vec![1.0; 3], 1e-5, &mut ops.rows(3, 4).unwrap()).is_err());
    assert!(ops.rows(usize::MAX, 8).is_err() && ops.swiglu(&x, &mut ops.rows(3, 3).unwrap()).is_err());
    let cache = CacheShape { layers: usize::MAX, pages: 2, kv_heads: 2, head_dim: 2 };
    assert!(ops.cache(cache).unwrap_err().to_string().contains("fewer pages"));
}
