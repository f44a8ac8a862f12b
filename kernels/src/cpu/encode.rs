//! What encoders like BERT need beside projections: LayerNorm, GELU, and attention of every token of a text to every other.
//! Texts lie one behind the other without padding; their lengths say where each begins.
//!
//! It refuses to know layers and what the texts say.

use super::backend::{Cpu, CpuRows, spread};
use super::panel::Level;
use super::product::{Strided, StridedMut, product};
use super::rowwise;
use super::team::{Parts, together};
use crate::ops::{Heads, OpsError, expect_equal};

/// Rows of a text that a task takes; they share the keys that it turns.
const ROWS: usize = 64;
/// Keys of a text are filled up to a multiple of it with zeros, so that products have no rest of single lanes.
const LANES: usize = 16;

impl Cpu {
    /// LayerNorm in place: `x = (x - mean) / sqrt(variance + eps) * weight + bias` (Ba, Kiros and Hinton 2016).
    ///
    /// # Errors
    /// A shape that does not fit.
    pub fn layer_norm(&self, x: &mut CpuRows, weight: &[f32], bias: &[f32], eps: f32) -> Result<(), OpsError> {
        expect_equal("layer_norm", "width", x.width(), weight.len())?;
        expect_equal("layer_norm", "biases", x.width(), bias.len())?;
        let (rows, width) = (x.rows(), x.width());
        spread(rows, x.values_mut(), width, |_, x| rowwise::layer_norm(self.level(), x, weight, bias, eps));
        Ok(())
    }

    /// `x += delta`, then as [`Cpu::layer_norm`].
    ///
    /// # Errors
    /// A shape that does not fit.
    pub fn add_layer_norm(
        &self,
        x: &mut CpuRows,
        delta: &CpuRows,
        weight: &[f32],
        bias: &[f32],
        eps: f32,
    ) -> Result<(), OpsError> {
        expect_equal("add_layer_norm", "width", x.width(), delta.width())?;
        expect_equal("add_layer_norm", "rows", x.rows(), delta.rows())?;
        expect_equal("add_layer_norm", "weights", x.width(), weight.len())?;
        expect_equal("add_layer_norm", "biases", x.width(), bias.len())?;
        let (rows, width) = (x.rows(), x.width());
        spread(rows, x.values_mut(), width, |row, x| {
            rowwise::add(self.level(), x, &delta.values()[row * width..][..width]);
            rowwise::layer_norm(self.level(), x, weight, bias, eps);
        });
        Ok(())
    }

    /// GELU in place (Hendrycks and Gimpel 2016), with the error function or its approximation by a hyperbolic tangent.
    pub fn gelu(&self, x: &mut CpuRows, by_tanh: bool) {
        let curve = if by_tanh { rowwise::gelu_tanh } else { rowwise::gelu };
        let (rows, width) = (x.rows(), x.width());
        spread(rows, x.values_mut(), width, |_, x| curve(self.level(), x));
    }

    /// Attention of each row over all rows of its text, scaled by `1 / sqrt(dim)`. `qkv` holds rows of [`Heads::fused`]
    /// values, `out` gets rows of [`Heads::width`]; texts of `lengths` rows lie one behind the other.
    ///
    /// # Errors
    /// A shape that does not fit.
    pub fn attend_both_ways(
        &self,
        qkv: &CpuRows,
        heads: Heads,
        lengths: &[usize],
        out: &mut CpuRows,
    ) -> Result<(), OpsError> {
        const OP: &str = "attend_both_ways";
        expect_equal(OP, "values of a row", heads.fused(), qkv.width())?;
        expect_equal(OP, "width", heads.width(), out.width())?;
        expect_equal(OP, "key heads", heads.query, heads.kv)?;
        expect_equal(OP, "rows of all texts", lengths.iter().sum(), qkv.rows())?;
        out.set_rows(qkv.rows())?;
        let (level, qkv) = (self.level(), qkv.values());
        let (width, tasks) = (heads.width(), tasks(lengths));
        let outputs = Parts::new(out.values_mut());
        together(tasks.len(), &|number| {
            let task = &tasks[number];
            // SAFETY: tasks are of different rows.
            #[allow(unsafe_code)]
            let out = unsafe { outputs.part((task.first + task.row) * width, task.rows * width) };
            attend(level, task, qkv, heads, out);
        });
        Ok(())
    }
}

/// Some rows of a text.
struct Task {
    /// The text's first row, and how many it has.
    first: usize,
    length: usize,
    /// From the text's first row.
    row: usize,
    rows: usize,
}

fn tasks(lengths: &[usize]) -> Vec<Task> {
    let (mut tasks, mut first) = (Vec::new(), 0);
    for length in lengths {
        let of_text = (0..*length).step_by(ROWS);
        tasks.extend(of_text.map(|row| Task { first, length: *length, row, rows: ROWS.min(length - row) }));
        first += length;
    }
    tasks
}

fn attend(level: Level, task: &Task, qkv: &[f32], heads: Heads, out: &mut [f32]) {
    let (fused, width, dim) = (heads.fused(), heads.width(), heads.dim);
    let (rows, length, lanes) = (task.rows, task.length, task.length.next_multiple_of(LANES));
    let factor = 1.0 / (dim as f32).sqrt();
    let text = &qkv[task.first * fused..][..length * fused];
    out.fill(0.0);
    let mut turned = vec![0.0; dim * lanes];
    let mut all_scores = vec![0.0; rows * lanes];
    for head in 0..heads.query {
        for (token, row) in text.chunks_exact(fused).enumerate() {
            for (d, key) in row[width + head * dim..][..dim].iter().enumerate() {
                turned[d * lanes + token] = key * factor;
            }
        }
        all_scores.fill(0.0);
        let queries = Strided { values: &text[task.row * fused + head * dim..], stride: fused };
        let keys = Strided { values: &turned, stride: lanes };
        let scores = StridedMut { values: &mut all_scores, stride: lanes };
        product(level, [rows, dim, lanes], queries, keys, scores);
        let mut masses = [1.0; ROWS];
        for (scores, mass) in all_scores.chunks_exact_mut(lanes).zip(&mut masses) {
            let scores = &mut scores[..length];
            let most = scores.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score));
            *mass = rowwise::exp_and_sum(level, scores, most);
        }
        let scores = Strided { values: &all_scores, stride: lanes };
        let values = Strided { values: &text[2 * width + head * dim..], stride: fused };
        let sums = StridedMut { values: &mut out[head * dim..], stride: width };
        product(level, [rows, length, dim], scores, values, sums);
        for (out, mass) in out.chunks_exact_mut(width).zip(masses) {
            rowwise::scale(level, &mut out[head * dim..][..dim], 1.0 / mass);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Ops;

    fn filled(cpu: &Cpu, rows: usize, width: usize, value: impl Fn(usize) -> f32) -> CpuRows {
        let mut made = cpu.rows(rows, width).unwrap();
        made.set_rows(rows).unwrap();
        made.values_mut().iter_mut().enumerate().for_each(|(at, out)| *out = value(at));
        made
    }

    /// By the formula in `f64`.
    fn expected(qkv: &[f32], heads: Heads, first: usize, length: usize) -> Vec<f64> {
        let at = |row: usize, part: usize, head: usize, d: usize| {
            f64::from(qkv[(first + row) * heads.fused() + part * heads.width() + head * heads.dim + d])
        };
        let mut out = Vec::new();
        for row in 0..length {
            for head in 0..heads.query {
                let score = |other: usize| (0..heads.dim).map(|d| at(row, 0, head, d) * at(other, 1, head, d)).sum();
                let scores: Vec<f64> = (0..length).map(score).collect();
                let weights: Vec<f64> = scores.iter().map(|s: &f64| (s / (heads.dim as f64).sqrt()).exp()).collect();
                let mass: f64 = weights.iter().sum();
                out.extend(
                    (0..heads.dim).map(|d| (0..length).map(|o| weights[o] * at(o, 2, head, d)).sum::<f64>() / mass),
                );
            }
        }
        out
    }

    #[test]
    fn each_text_attends_to_itself_alone_and_as_the_formula_says_at_every_level() {
        for (heads, dim) in [(3, 12), (2, 32)] {
            let heads = Heads { query: heads, kv: heads, dim };
            let lengths = [1, 0, 5, 64, 130, 2];
            let rows = lengths.iter().sum();
            for level in Level::available() {
                let cpu = Cpu::at(level);
                let qkv = filled(&cpu, rows, heads.fused(), |at| ((at * 7919 % 1013) as f32 / 300.0).sin() * 2.0);
                // What is left in the output from before is overwritten.
                let mut out = filled(&cpu, rows, heads.width(), |_| f32::NAN);
                cpu.attend_both_ways(&qkv, heads, &lengths, &mut out).unwrap();
                let mut first = 0;
                for length in lengths {
                    let got = &out.values()[first * heads.width()..][..length * heads.width()];
                    for (got, expected) in got.iter().zip(expected(qkv.values(), heads, first, length)) {
                        assert!((f64::from(*got) - expected).abs() < 1e-5, "{level:?}, {length}: {got} {expected}");
                    }
                    first += length;
                }
            }
        }
    }

    #[test]
    fn sums_are_normed_by_mean_and_variance() {
        for level in Level::available() {
            let cpu = Cpu::at(level);
            let mut x = filled(&cpu, 3, 37, |at| (at as f32 * 0.7).sin() * 3.0 + 1.0);
            let delta = filled(&cpu, 3, 37, |at| (at as f32 * 0.3).cos());
            let (weight, bias): (Vec<f32>, Vec<f32>) = (0..37).map(|i| (1.0 + i as f32 * 0.01, i as f32 * 0.1)).unzip();
            let sums: Vec<f64> = x.values().iter().zip(delta.values()).map(|(x, d)| f64::from(x + d)).collect();
            cpu.add_layer_norm(&mut x, &delta, &weight, &bias, 1e-12).unwrap();
            for (got, sums) in x.values().chunks_exact(37).zip(sums.chunks_exact(37)) {
                let mean = sums.iter().sum::<f64>() / 37.0;
                let variance = sums.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 37.0;
                for i in 0..37 {
                    let expected = (sums[i] - mean) / variance.sqrt() * f64::from(weight[i]) + f64::from(bias[i]);
                    assert!((f64::from(got[i]) - expected).abs() < 5e-6, "{level:?}: {} {expected}", got[i]);
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let cpu = Cpu::new();
        let heads = Heads { query: 2, kv: 2, dim: 4 };
        let qkv = filled(&cpu, 3, heads.fused(), |_| 0.0);
        let mut out = filled(&cpu, 3, heads.width(), |_| 0.0);
        let refused = cpu.attend_both_ways(&qkv, heads, &[2, 2], &mut out).unwrap_err().to_string();
        assert!(refused.contains("rows of all texts 4, got 3"), "{refused}");
        let grouped = Heads { query: 2, kv: 1, dim: 4 };
        assert!(cpu.attend_both_ways(&qkv, grouped, &[3], &mut out).is_err());
        assert!(cpu.layer_norm(&mut out, &[1.0; 8], &[0.0; 7], 1e-5).is_err());
    }
}
