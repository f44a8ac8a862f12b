//! What learning costs on the processor: products forward and back on a small model's layer, and attention over 1,024 tokens,
//! each beside what the small product reaches on data that stays in the first-level cache, measured in the same run.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

use legwork_kernels::cpu::backend::CpuRows;
use legwork_kernels::cpu::product::{Strided, StridedMut, product};
use legwork_kernels::cpu::team::{threads, together};
use legwork_kernels::{AdamW, Cpu, Heads, Learn, Ops, Rope};
use std::time::Instant;

/// Measurements of which the best counts.
const ROUNDS: usize = 15;

fn main() {
    let ops = Cpu::new();
    let peak = peak(&ops);
    println!("{} threads at {:?}; small products reach {:.1} GFLOP/s", threads(), ops.level(), peak / 1e9);
    println!("{:<44} {:>10} {:>9} {:>7}", "operation", "µs", "GFLOP/s", "share");
    for (rows, inputs, outputs) in [(512, 576, 1_536), (512, 1_536, 576), (2_048, 576, 960), (64, 576, 8_192)] {
        products(&ops, peak, [rows, inputs, outputs]);
    }
    attention(&ops, peak);
    rest(&ops);
}

/// The best of some rounds, in seconds.
fn best(mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        run();
        best = best.min(began.elapsed().as_secs_f64());
    }
    best
}

fn line(what: &str, seconds: f64, flops: f64, peak: f64) {
    let rate = flops / seconds;
    println!("{what:<44} {:>10.1} {:>9.1} {:>6.1}%", seconds * 1e6, rate / 1e9, 100.0 * rate / peak);
}

/// Multiplications and additions a second of all threads on eight rows and a panel.
fn peak(ops: &Cpu) -> f64 {
    let (shape, rounds, tasks) = ([8, 96, 32], 10_000, 8 * threads());
    let (left, right) = (vec![0.5_f32; 8 * 96], vec![0.25_f32; 96 * 32]);
    let seconds = best(|| {
        together(tasks, &|_| {
            let mut sums = [0.0_f32; 8 * 32];
            for _ in 0..rounds {
                let (a, b) = (Strided { values: &left, stride: 96 }, Strided { values: &right, stride: 32 });
                product(ops.level(), shape, a, b, StridedMut { values: &mut sums, stride: 32 });
            }
            assert!(std::hint::black_box(sums)[0] > 0.0);
        });
    });
    2.0 * (8 * 96 * 32 * rounds * tasks) as f64 / seconds
}

fn rows(ops: &Cpu, rows: usize, width: usize) -> CpuRows {
    let mut made = ops.rows(rows, width).unwrap();
    made.set_rows(rows).unwrap();
    made.values_mut().iter_mut().enumerate().for_each(|(at, x)| *x = (at * 7_919 % 1_013) as f32 / 1_013.0 - 0.5);
    made
}

fn products(ops: &Cpu, peak: f64, [count, inputs, outputs]: [usize; 3]) {
    let (x, d_out) = (rows(ops, count, inputs), rows(ops, count, outputs));
    let (mut out, mut dx) = (rows(ops, count, outputs), rows(ops, count, inputs));
    let mut weight = ops.param([outputs, inputs], rows(ops, outputs, inputs).values()).unwrap();
    let flops = 2.0 * (count * inputs * outputs) as f64;
    let name = |way: &str| format!("linear {count} x {inputs} to {outputs}, {way}");
    let seconds = best(|| ops.linear_forward(&x, &weight, None, &mut out).unwrap());
    line(&name("forward"), seconds, flops, peak);
    let of_weight = best(|| ops.linear_backward(&x, &mut weight, None, &d_out, None).unwrap());
    line(&name("weights back"), of_weight, flops, peak);
    let both = best(|| ops.linear_backward(&x, &mut weight, None, &d_out, Some(&mut dx)).unwrap());
    line(&name("both back"), both, 2.0 * flops, peak);
}

fn attention(ops: &Cpu, peak: f64) {
    let heads = Heads { query: 9, kv: 3, dim: 64 };
    for (tokens, sequences) in [(1_024, 1), (2_048, 8)] {
        let length = tokens / sequences;
        let starts: Vec<u32> = (0..=sequences).map(|i| (i * length) as u32).collect();
        let (qkv, d_out) = (rows(ops, tokens, heads.fused()), rows(ops, tokens, heads.width()));
        let (mut out, mut lse) = (rows(ops, tokens, heads.width()), rows(ops, tokens, heads.query));
        let mut d_qkv = rows(ops, tokens, heads.fused());
        // Half of all pairs are seen: two products forward, five back.
        let pairs = (sequences * length * (length + 1) / 2 * heads.query * heads.dim) as f64;
        let name = |way: &str| format!("attention, {sequences} of {length} tokens, {way}");
        let seconds = best(|| ops.attend_forward(&qkv, heads, &starts, &mut out, &mut lse).unwrap());
        line(&name("forward"), seconds, 4.0 * pairs, peak);
        let seconds = best(|| ops.attend_backward(&qkv, heads, &starts, &out, &lse, &d_out, &mut d_qkv).unwrap());
        line(&name("back"), seconds, 10.0 * pairs, peak);
    }
}

/// What multiplies no matrices: microseconds only.
fn rest(ops: &Cpu) {
    let (count, width, vocabulary) = (512, 576, 8_192);
    let x = rows(ops, count, width);
    let (mut out, mut dx) = (rows(ops, count, width), rows(ops, count, width));
    let mut weight = ops.param([1, width], rows(ops, 1, width).values()).unwrap();
    let told = |what: &str, seconds: f64| println!("{what:<44} {:>10.1}", seconds * 1e6);
    told("norm, 512 rows, forward", best(|| ops.norm_forward(&x, &weight, 1e-5, &mut out).unwrap()));
    told("norm, 512 rows, back", best(|| ops.norm_backward(&x, &mut weight, 1e-5, &out, &mut dx).unwrap()));
    let heads = Heads { query: 9, kv: 3, dim: 64 };
    let rope = Rope { frequencies: vec![0.1; 32], interleaved: false, scale: 1.0 };
    let positions: Vec<u32> = (0..count as u32).collect();
    let mut qkv = rows(ops, count, heads.fused());
    told("rotation, 512 rows", best(|| ops.rotate_forward(&mut qkv, heads, None, &rope, &positions).unwrap()));
    let (gate_up, d) = (rows(ops, count, 2 * 1_536), rows(ops, count, 1_536));
    let mut d_gate_up = rows(ops, count, 2 * 1_536);
    told("swiglu, 512 rows, back", best(|| ops.swiglu_backward(&gate_up, &d, &mut d_gate_up).unwrap()));
    let mut logits = rows(ops, count, vocabulary);
    let (targets, weights, mut losses) = (vec![3; count], vec![1.0; count], Vec::new());
    told(
        "cross-entropy, 512 rows of 8192",
        best(|| ops.cross_entropy(&mut logits, 0, vocabulary, &targets, &weights, &mut losses).unwrap()),
    );
    let mut tensor = ops.param([1_000, 4_000], rows(ops, 1_000, 4_000).values()).unwrap();
    let step = AdamW { rate: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1, step: 3, scale: 1.0 };
    told("adamw, 4 million values", best(|| ops.adamw(&mut tensor, &step).unwrap()));
}
