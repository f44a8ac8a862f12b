//! A learned tensor on the processor, and AdamW on it.
//!
//! It refuses to know which layer it belongs to. The update goes in torch's order of operations: its scalars in double
//! precision, its tensors in single.

use super::rows::squares;
use crate::cpu::panel::Level;
use crate::cpu::rowwise::at_each_level;
use crate::cpu::scratch::doubles;
use crate::cpu::team::{Parts, together};
use crate::learn::{AdamW, Part};

/// Values of one task. Sums of squares are made for each such piece and then added up in order, so that the number of threads
/// does not show.
const PIECE: usize = 1 << 14;

/// A learned tensor `[rows, cols]` with its gradient and moments.
#[derive(Clone, Debug)]
pub struct CpuParam {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) value: Vec<f32>,
    pub(super) gradient: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
}

impl CpuParam {
    /// A tensor without gradient and moments. The caller has checked that there are as many values.
    pub(super) fn new([rows, cols]: [usize; 2], values: &[f32]) -> Self {
        let zeros = || vec![0.0; values.len()];
        Self { rows, cols, value: values.to_vec(), gradient: zeros(), first: zeros(), second: zeros() }
    }

    pub(super) fn part(&self, part: Part) -> &[f32] {
        match part {
            Part::Value => &self.value,
            Part::Gradient => &self.gradient,
            Part::FirstMoment => &self.first,
            Part::SecondMoment => &self.second,
        }
    }

    pub(super) fn part_mut(&mut self, part: Part) -> &mut [f32] {
        match part {
            Part::Value => &mut self.value,
            Part::Gradient => &mut self.gradient,
            Part::FirstMoment => &mut self.first,
            Part::SecondMoment => &mut self.second,
        }
    }

    /// The sum of the squares of its gradient.
    pub(super) fn gradient_squares(&self, level: Level) -> f64 {
        let pieces = self.gradient.len().div_ceil(PIECE);
        doubles(pieces, |sums| {
            let parts = Parts::new(sums);
            together(pieces, &|piece| {
                // SAFETY: each task has a piece, and so a sum, of its own.
                #[allow(unsafe_code)]
                let sum = unsafe { parts.part(piece, 1) };
                sum[0] =
                    squares(level, &self.gradient[piece * PIECE..][..PIECE.min(self.gradient.len() - piece * PIECE)]);
            });
            sums.iter().sum()
        })
    }

    /// One update.
    pub(super) fn adamw(&mut self, level: Level, step: &AdamW) {
        let (scalars, len) = (Scalars::of(step), self.value.len());
        let parts =
            [&mut self.value, &mut self.gradient, &mut self.first, &mut self.second].map(|part| Parts::new(part));
        together(len.div_ceil(PIECE), &|piece| {
            let (first, count) = (piece * PIECE, PIECE.min(len - piece * PIECE));
            // SAFETY: each task has a piece of its own in each of the four.
            #[allow(unsafe_code)]
            let [value, gradient, mean, square] = parts.each_ref().map(|part| unsafe { part.part(first, count) });
            update(level, value, gradient, mean, square, &scalars);
        });
    }
}

/// What an update multiplies by, rounded once.
#[derive(Clone, Copy, Debug)]
pub struct Scalars {
    pub(crate) scale: f32,
    pub(crate) kept: f32,
    pub(crate) mean_share: f32,
    pub(crate) square_kept: f32,
    pub(crate) square_share: f32,
    pub(crate) root_correction: f32,
    pub(crate) eps: f32,
    pub(crate) minus_rate: f32,
}

impl Scalars {
    pub(crate) fn of(step: &AdamW) -> Self {
        // A step number that is too great for the power has no correction left, as one of that size.
        let power = |beta: f64| 1.0 - beta.powf(step.step as f64);
        Self {
            scale: step.scale as f32,
            kept: (1.0 - step.rate * step.decay) as f32,
            mean_share: (1.0 - step.beta1) as f32,
            square_kept: step.beta2 as f32,
            square_share: (1.0 - step.beta2) as f32,
            root_correction: power(step.beta2).sqrt() as f32,
            eps: step.eps as f32,
            minus_rate: (-step.rate / power(step.beta1)) as f32,
        }
    }
}

at_each_level!(
    /// Updates a piece; the gradient becomes 0.
    update, update_256, update_512, update_of,
    (value: &mut [f32], gradient: &mut [f32], mean: &mut [f32], square: &mut [f32], s: &Scalars)
);

#[inline(always)]
fn update_of(value: &mut [f32], gradient: &mut [f32], mean: &mut [f32], square: &mut [f32], s: &Scalars) {
    for (((value, gradient), mean), square) in value.iter_mut().zip(gradient).zip(mean).zip(square) {
        let g = *gradient * s.scale;
        *value *= s.kept;
        // torch's `lerp`, which goes from the nearer end.
        let way = g - *mean;
        *mean = if s.mean_share < 0.5 { *mean + s.mean_share * way } else { g - way * (1.0 - s.mean_share) };
        *square = *square * s.square_kept + s.square_share * g * g;
        *value += s.minus_rate * *mean / (square.sqrt() / s.root_correction + s.eps);
        *gradient = 0.0;
    }
}
