//! `y = x Wᵀ + b` over weights as they are stored, on all threads of the pool. Few rows of `x` (decoding) take a row of weights
//! at a time, unpack it into the first-level cache and multiply it with each of them: the weights are read once, which is
//! the floor. Many rows (prefill) are packed into panels, whose lanes are rows of `x`, and tiles of sums stay in registers.
//!
//! It refuses to know what the weights are for. With few rows a row's result does not depend on how many others there are.

use super::panel::Level;
use super::product::{PASS, Strided, StridedMut, TILE, dots, product};
use super::team::{Parts, threads, together};
use super::unpack::unpack;
use crate::stored::Stored;

/// Rows of `x` up to which weights are multiplied row by row.
pub const FEW_ROWS: usize = 16;
/// Rows of weights that one task unpacks at a time; with a panel of `x` they fit into a second-level cache.
const UNPACKED: usize = 32;
/// Multiply-adds of one task at least: starting one costs some microseconds.
const TASK_MIN: usize = 100_000;

/// `out[i] = x[i] Wᵀ + bias`, where `W` is `parts` one below the other.
///
/// # Panics
/// If lengths do not fit each other; the caller has seen to that.
pub fn linear(level: Level, parts: &[Stored], bias: Option<&[f32]>, x: &[f32], out: &mut [f32]) {
    let outputs: usize = parts.iter().map(Stored::rows).sum();
    let inputs = parts.first().map_or(0, Stored::cols);
    if inputs == 0 || outputs == 0 || x.is_empty() {
        return;
    }
    let rows = x.len() / inputs;
    assert!(x.len() == rows * inputs && out.len() == rows * outputs, "whole rows of inputs and of outputs");
    assert!(parts.iter().all(|part| part.cols() == inputs), "parts of one width");
    assert!(bias.is_none_or(|bias| bias.len() == outputs), "a bias of each output");
    let columns = Columns { values: Parts::new(out), outputs, bias };
    let work = rows.min(FEW_ROWS) * inputs;
    let least = (TASK_MIN / work.max(1)).next_multiple_of(TILE).max(TILE);
    let tasks = tasks(parts, if rows <= FEW_ROWS { least } else { least.clamp(TILE, UNPACKED) });
    if rows <= FEW_ROWS {
        let run = |task: &Task<'_>| few(level, task, x, &columns);
        return over(&tasks, run);
    }
    let panels = Panels::pack(level, x, inputs);
    over(&tasks, |task| many(level, task, &panels, &columns));
}

fn over<'a>(tasks: &[Task<'a>], run: impl Fn(&Task<'a>) + Sync) {
    together(tasks.len(), &|task| run(&tasks[task]));
}

/// Some rows of one part.
struct Task<'a> {
    part: &'a Stored,
    /// Of the part.
    first: usize,
    rows: usize,
    /// Of all outputs.
    output: usize,
}

fn tasks(parts: &[Stored], least: usize) -> Vec<Task<'_>> {
    let outputs: usize = parts.iter().map(Stored::rows).sum();
    // As many pieces as give each thread several, so that one that is late holds nobody up for long.
    let piece = outputs.div_ceil(threads() * 4).next_multiple_of(TILE).max(least);
    let mut tasks = Vec::new();
    let mut output = 0;
    for part in parts {
        for first in (0..part.rows()).step_by(piece) {
            let rows = piece.min(part.rows() - first);
            tasks.push(Task { part, first, rows, output: output + first });
        }
        output += part.rows();
    }
    tasks
}

impl Task<'_> {
    /// Unpacks `out.len() / cols` rows from `row` on, which counts within the task.
    fn unpack(&self, level: Level, row: usize, out: &mut [f32]) {
        let cols = self.part.cols();
        let bytes = self.part.dtype().row_bytes(cols).expect("whole blocks, as `Stored` checks");
        let first = (self.first + row) * bytes;
        for (i, out) in out.chunks_exact_mut(cols).enumerate() {
            unpack(level, self.part.dtype(), &self.part.bytes()[first + i * bytes..][..bytes], out);
        }
    }
}

/// The outputs, of which each task writes columns of its own.
struct Columns<'a> {
    values: Parts<f32>,
    outputs: usize,
    bias: Option<&'a [f32]>,
}

impl Columns<'_> {
    /// Writes what one row of `x` gives for some outputs, with their biases.
    fn write(&self, row: usize, output: usize, sums: impl ExactSizeIterator<Item = f32>) {
        let count = sums.len();
        assert!(output + count <= self.outputs);
        // SAFETY: every task writes only columns of its own outputs, and nobody reads before all have ended.
        #[allow(unsafe_code)]
        let out = unsafe { self.values.part(row * self.outputs + output, count) };
        match self.bias {
            None => out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum),
            Some(bias) => {
                let bias = &bias[output..output + count];
                out.iter_mut().zip(sums).zip(bias).for_each(|((out, sum), bias)| *out = sum + bias);
            }
        }
    }
}

fn few(level: Level, task: &Task<'_>, x: &[f32], columns: &Columns<'_>) {
    let inputs = task.part.cols();
    let mut sums = vec![0.0; task.rows * PASS];
    for (pass, x) in x.chunks(PASS * inputs).enumerate() {
        products(level, task, x, &mut sums);
        for i in 0..x.len() / inputs {
            columns.write(pass * PASS + i, task.output, sums.as_chunks::<PASS>().0.iter().map(|sums| sums[i]));
        }
    }
}

/// `sums[row][i]`: products of a task's rows of weights with up to [`PASS`] rows of `x`.
fn products(level: Level, task: &Task<'_>, x: &[f32], sums: &mut [f32]) {
    let inputs = task.part.cols();
    #[cfg(target_arch = "x86_64")]
    {
        let row = task.part.dtype().row_bytes(inputs).expect("whole blocks, as `Stored` checks");
        let bytes = &task.part.bytes()[task.first * row..][..task.rows * row];
        if super::fused_x86::products(level, task.part.dtype(), bytes, inputs, x, sums) {
            return;
        }
    }
    let mut weights = vec![0.0; inputs];
    for (row, sums) in sums.chunks_exact_mut(PASS).enumerate() {
        task.unpack(level, row, &mut weights);
        sums.copy_from_slice(&dots(level, &weights, x));
    }
}

/// Rows of `x` side by side: value `d` of all lanes, then value `d + 1`. Lanes beyond the last row are zero.
struct Panels {
    values: Vec<f32>,
    lanes: usize,
    inputs: usize,
    rows: usize,
}

impl Panels {
    fn pack(level: Level, x: &[f32], inputs: usize) -> Self {
        let lanes = if level == Level::Avx512 { 32 } else { 16 };
        let rows = x.len() / inputs;
        let mut values = vec![0.0; rows.div_ceil(lanes) * lanes * inputs];
        let parts = Parts::new(&mut values);
        together(rows.div_ceil(lanes), &|number| {
            // SAFETY: each panel is packed by one task.
            #[allow(unsafe_code)]
            let panel = unsafe { parts.part(number * lanes * inputs, lanes * inputs) };
            for (lane, row) in x.chunks_exact(inputs).skip(number * lanes).take(lanes).enumerate() {
                for (d, value) in row.iter().enumerate() {
                    panel[d * lanes + lane] = *value;
                }
            }
        });
        Self { values, lanes, inputs, rows }
    }
}

fn many(level: Level, task: &Task<'_>, panels: &Panels, columns: &Columns<'_>) {
    let (inputs, lanes) = (panels.inputs, panels.lanes);
    let mut weights = vec![0.0; UNPACKED.min(task.rows.next_multiple_of(TILE)) * inputs];
    let mut sums = vec![0.0; TILE * lanes];
    for row in (0..task.rows).step_by(UNPACKED) {
        let rows = UNPACKED.min(task.rows - row);
        task.unpack(level, row, &mut weights[..rows * inputs]);
        // Rows beyond the last are multiplied and dropped, whatever stands there.
        for (p, panel) in panels.values.chunks_exact(lanes * inputs).enumerate() {
            let filled = lanes.min(panels.rows - p * lanes);
            for first in (0..rows).step_by(TILE) {
                sums.fill(0.0);
                let left = Strided { values: &weights[first * inputs..], stride: inputs };
                let right = Strided { values: panel, stride: lanes };
                let into = StridedMut { values: &mut sums, stride: lanes };
                product(level, [TILE, inputs, lanes], left, right, into);
                let outputs = TILE.min(rows - first);
                for lane in 0..filled {
                    let of_lane = sums.chunks_exact(lanes).take(outputs).map(|sums| sums[lane]);
                    columns.write(p * lanes + lane, task.output + row + first, of_lane);
                }
            }
        }
    }
}
