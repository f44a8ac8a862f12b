//! `y = x Wᵀ` for each kind of stored number: microseconds, bytes of weights a second and multiply-adds a second, beside what
//! reading memory gives. Shapes are a small model's layer and its head.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

use legwork_kernels::cpu::linear::linear;
use legwork_kernels::cpu::panel::Level;
use legwork_kernels::cpu::team::threads;
use legwork_kernels::{Dtype, SharedBytes, Stored};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    println!("{} threads at {:?}", threads(), Level::detect());
    println!("{:<6} {:>14} {:>5} {:>10} {:>8} {:>9}", "kind", "shape", "rows", "µs", "GB/s", "GFLOP/s");
    for dtype in [Dtype::Q4_0, Dtype::Q4_1, Dtype::Q8_0, Dtype::Bf16, Dtype::F16, Dtype::F32] {
        for (outputs, inputs) in [(960, 576), (576, 1536), (49_152, 576)] {
            let bytes = dtype.row_bytes(inputs).unwrap() * outputs;
            let values: Vec<u8> = (0..bytes).map(|i| (i * 37 % 61) as u8).collect();
            let weights = Stored::new(dtype, outputs, inputs, SharedBytes::new(Arc::new(values))).unwrap();
            for rows in [1, 2, 4, 8, 16, 32, 128, 512] {
                if outputs > 10_000 && rows > 32 {
                    continue;
                }
                let x: Vec<f32> = (0..rows * inputs).map(|i| (i % 17) as f32 * 0.1).collect();
                let mut out = vec![0.0; rows * outputs];
                let rounds = (50_000_000 / (rows.min(8) * outputs * inputs)).clamp(3, 200);
                let mut best = f64::INFINITY;
                for _ in 0..rounds {
                    let began = Instant::now();
                    linear(Level::detect(), std::slice::from_ref(&weights), None, &x, &mut out);
                    best = best.min(began.elapsed().as_secs_f64());
                }
                let flops = 2.0 * (rows * outputs * inputs) as f64;
                println!(
                    "{:<6} {:>14} {:>5} {:>10.1} {:>8.2} {:>9.1}",
                    dtype.name(),
                    format!("{outputs}x{inputs}"),
                    rows,
                    best * 1e6,
                    bytes as f64 / best / 1e9,
                    flops / best / 1e9
                );
            }
        }
    }
}
