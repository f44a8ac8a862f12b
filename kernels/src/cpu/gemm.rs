//! Products of whole matrices over the thread team: blocks of the result stay in a cache while both sides pass by, the right
//! side packed side by side, so that the small product reads it in one stream.
//!
//! It refuses to know what the matrices mean. Each value of the result is summed by one thread in the order of the depth, so
//! neither blocks nor the number of threads change a bit of it.

use super::panel::Level;
use super::product::{Strided, StridedMut, product};
use super::scratch::singles;
use super::team::{Parts, together};
use super::turn::turn;

/// Columns of the right side that are packed side by side: two registers of the widest level.
const LANES: usize = 32;
/// Depth of a packed panel: with its lanes 16 KiB, half of a first-level cache.
const DEPTH: usize = 128;
/// Rows and panels of one task, where the left side lies as it is: the packing of a panel is spread over many rows.
const AS_IT_IS: [usize; 2] = [512, 1];
/// The same where the left side must be turned too, which is spread over several panels.
const TURNED: [usize; 2] = [128, 8];

/// One side of a product within a slice.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The values.
    pub values: &'a [f32],
    /// From one stored row to the next.
    pub stride: usize,
    /// Stored as its transpose.
    pub turned: bool,
}

/// What the result begins with.
#[derive(Clone, Copy)]
pub enum Start<'a> {
    /// Zeros.
    Zero,
    /// These in every row.
    Bias(&'a [f32]),
    /// What it held.
    Kept,
}

impl<'a> Side<'a> {
    /// A matrix whose rows have `stride` values.
    pub fn rows(values: &'a [f32], stride: usize) -> Self {
        Self { values, stride, turned: false }
    }

    /// The transpose of such a matrix.
    pub fn turned(values: &'a [f32], stride: usize) -> Self {
        Self { values, stride, turned: true }
    }
}

/// `out[i][j] = start + Σ left[i][d] * right[d][j]` for `rows` rows `i`, `depth` values `d` and `lanes` columns `j`.
///
/// # Panics
/// If a slice is too short.
pub fn gemm(
    level: Level,
    [rows, depth, lanes]: [usize; 3],
    left: Side<'_>,
    right: Side<'_>,
    start: Start<'_>,
    out: &mut [f32],
) {
    assert!(out.len() == rows * lanes, "rows of the result");
    let [tall, panels] = if left.turned { TURNED } else { AS_IT_IS };
    let (down, across) = (rows.div_ceil(tall), lanes.div_ceil(panels * LANES));
    let outputs = Parts::new(out);
    together(down * across, &|number| {
        // Neighbours in number share the right side's panels.
        let (first_row, first_lane) = (number % down * tall, number / down * panels * LANES);
        let block = Block {
            row: first_row,
            rows: tall.min(rows - first_row),
            lane: first_lane,
            lanes: (panels * LANES).min(lanes - first_lane),
        };
        block.compute(level, [depth, lanes], left, right, start, &outputs);
    });
}

/// Some rows and columns of the result.
struct Block {
    row: usize,
    rows: usize,
    lane: usize,
    lanes: usize,
}

impl Block {
    fn compute(
        &self,
        level: Level,
        [depth, width]: [usize; 2],
        left: Side<'_>,
        right: Side<'_>,
        start: Start<'_>,
        out: &Parts<f32>,
    ) {
        let (panel, panels) = (self.rows * LANES, self.lanes.div_ceil(LANES));
        let turned = if left.turned { self.rows * DEPTH } else { 0 };
        singles(panels * panel + DEPTH * LANES + turned, |scratch| {
            let (sums, scratch) = scratch.split_at_mut(panels * panel);
            let (packed, turned) = scratch.split_at_mut(DEPTH * LANES);
            self.begin(width, start, out, sums);
            for first in (0..depth).step_by(DEPTH) {
                let now = DEPTH.min(depth - first);
                let left = self.left(level, left, [first, now], turned);
                for (p, sums) in sums.chunks_exact_mut(panel).enumerate() {
                    let lane = self.lane + p * LANES;
                    pack(level, right, [first, now], [lane, LANES.min(self.lane + self.lanes - lane)], packed);
                    let right = Strided { values: packed, stride: LANES };
                    product(level, [self.rows, now, LANES], left, right, StridedMut { values: sums, stride: LANES });
                }
            }
            self.each_row(width, out, sums, |sums, out| out.copy_from_slice(sums));
        });
    }

    /// Fills sums, panel by panel, with what the result begins with.
    fn begin(&self, width: usize, start: Start<'_>, out: &Parts<f32>, sums: &mut [f32]) {
        sums.fill(0.0);
        match start {
            Start::Zero => {}
            Start::Bias(bias) => {
                for (p, sums) in sums.chunks_exact_mut(self.rows * LANES).enumerate() {
                    let lane = self.lane + p * LANES;
                    let bias = &bias[lane..(lane + LANES).min(self.lane + self.lanes)];
                    sums.chunks_exact_mut(LANES).for_each(|sums| sums[..bias.len()].copy_from_slice(bias));
                }
            }
            Start::Kept => self.each_row(width, out, sums, |sums, out| sums.copy_from_slice(out)),
        }
    }

    /// Runs over the sums of each row and panel beside their place in the result.
    fn each_row(&self, width: usize, out: &Parts<f32>, sums: &mut [f32], run: impl Fn(&mut [f32], &mut [f32])) {
        for (p, sums) in sums.chunks_exact_mut(self.rows * LANES).enumerate() {
            let lane = p * LANES;
            let lanes = LANES.min(self.lanes - lane);
            for (row, sums) in sums.chunks_exact_mut(LANES).enumerate() {
                // SAFETY: blocks do not overlap, each is one task's, and its rows are taken one after the other.
                #[allow(unsafe_code)]
                let out = unsafe { out.part((self.row + row) * width + self.lane + lane, lanes) };
                run(&mut sums[..lanes], out);
            }
        }
    }

    /// The left side's rows of this block, `now` values from `first` on.
    fn left<'a>(&self, level: Level, left: Side<'a>, [first, now]: [usize; 2], turned: &'a mut [f32]) -> Strided<'a> {
        if !left.turned {
            return Strided { values: &left.values[self.row * left.stride + first..], stride: left.stride };
        }
        let from = Strided { values: &left.values[first * left.stride + self.row..], stride: left.stride };
        turn(level, [now, self.rows], from, 1.0, StridedMut { values: turned, stride: DEPTH });
        Strided { values: turned, stride: DEPTH }
    }
}

/// Packs `now` values from `first` on of some lanes of the right side; lanes beyond them become 0.
fn pack(level: Level, right: Side<'_>, [first, now]: [usize; 2], [lane, lanes]: [usize; 2], packed: &mut [f32]) {
    if lanes < LANES {
        packed.fill(0.0);
    }
    if right.turned {
        let from = Strided { values: &right.values[lane * right.stride + first..], stride: right.stride };
        return turn(level, [lanes, now], from, 1.0, StridedMut { values: packed, stride: LANES });
    }
    for (d, packed) in packed.chunks_exact_mut(LANES).take(now).enumerate() {
        let from = &right.values[(first + d) * right.stride + lane..][..lanes];
        // Of a length that the compiler knows, a copy is two registers and no call.
        match (packed.first_chunk_mut::<LANES>(), from.first_chunk::<LANES>()) {
            (Some(packed), Some(from)) => *packed = *from,
            _ => packed[..lanes].copy_from_slice(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 2_003) as f32 / 1_001.0 - 1.0).collect()
    }

    fn turned(values: &[f32], rows: usize) -> Vec<f32> {
        let cols = values.len() / rows;
        (0..values.len()).map(|at| values[at % rows * cols + at / rows]).collect()
    }

    #[test]
    fn every_way_of_lying_gives_what_the_formula_says() {
        for [rows, depth, lanes] in [[1, 1, 1], [7, 33, 5], [33, 130, 65], [130, 7, 300], [515, 129, 33]] {
            let (left, right) = (numbers(rows * depth, 1), numbers(depth * lanes, 2));
            let (bias, kept) = (numbers(lanes, 3), numbers(rows * lanes, 4));
            let (left_turned, right_turned) = (turned(&left, rows), turned(&right, depth));
            let expected = |i: usize, j: usize| -> f64 {
                (0..depth).map(|d| f64::from(left[i * depth + d]) * f64::from(right[d * lanes + j])).sum()
            };
            for level in Level::available() {
                let mut first: Option<Vec<f32>> = None;
                for left in [Side::rows(&left, depth), Side::turned(&left_turned, rows)] {
                    for right in [Side::rows(&right, lanes), Side::turned(&right_turned, depth)] {
                        for (start, begin) in
                            [(Start::Zero, None), (Start::Bias(&bias), Some(&bias)), (Start::Kept, Some(&kept))]
                        {
                            let mut out = kept.clone();
                            gemm(level, [rows, depth, lanes], left, right, start, &mut out);
                            for (at, got) in out.iter().enumerate() {
                                let begin = begin.map_or(0.0, |begin| f64::from(begin[at % begin.len()]));
                                let expected = begin + expected(at / lanes, at % lanes);
                                assert!((f64::from(*got) - expected).abs() < 2e-5, "{level:?}: {got} {expected}");
                            }
                            if matches!(start, Start::Zero) {
                                assert_eq!(*first.get_or_insert(out.clone()), out, "all ways give the same bits");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn one_thread_gives_the_bits_that_several_give() {
        let shape = [150, 300, 200];
        let (left, right) = (numbers(150 * 300, 5), numbers(300 * 200, 6));
        let run = || {
            let mut out = vec![0.0; 150 * 200];
            gemm(Level::detect(), shape, Side::rows(&left, 300), Side::rows(&right, 200), Start::Zero, &mut out);
            out
        };
        let several = run();
        // Whoever asks from within a task computes alone.
        together(2, &|_| assert_eq!(run(), several));
    }
}
