//! The weighted cross-entropy of rows of logits whose columns may lie with several ranks, and its gradient in their place.
//!
//! It refuses to know what the columns stand for. Ranks meet twice: for the greatest logit of each row, and for the sums.

use super::rows::greatest;
use crate::cpu::backend::{Cpu, CpuRows, spread};
use crate::cpu::group::Reduce;
use crate::cpu::rowwise::{exp_and_sum, scale};
use crate::cpu::scratch::doubles;
use crate::cpu::team::Parts;
use crate::ops::{OpsError, expect_equal};

const OP: &str = "cross_entropy";
/// Exponentials that are summed in single precision; these sums are added up in double precision.
const PIECE: usize = 1 << 10;

/// What is asked of the rows.
pub(super) struct Loss<'a> {
    /// The id of the first column here.
    pub(super) first: u32,
    /// Columns that count, over all ranks.
    pub(super) columns: usize,
    pub(super) targets: &'a [u32],
    pub(super) weights: &'a [f32],
}

impl Loss<'_> {
    /// The losses become the rows of `losses` from `at` on.
    pub(super) fn apply(
        &self,
        cpu: &Cpu,
        logits: &mut CpuRows,
        losses: &mut CpuRows,
        at: usize,
    ) -> Result<(), OpsError> {
        let (rows, width) = (logits.rows(), logits.width());
        expect_equal(OP, "targets", rows, self.targets.len())?;
        expect_equal(OP, "weights", rows, self.weights.len())?;
        expect_equal(OP, "width of losses", 1, losses.width())?;
        losses.set_rows(at + rows)?;
        let level = cpu.level();
        let counting = self.columns.saturating_sub(self.first as usize).min(width);
        doubles(4 * rows, |scratch| {
            let (most, sums) = scratch.split_at_mut(rows);
            let parts = Parts::new(most);
            spread(rows, logits.values_mut(), width, |row, logits| {
                // SAFETY: each row has a place of its own.
                #[allow(unsafe_code)]
                let most = unsafe { parts.part(row, 1) };
                most[0] = f64::from(greatest(level, &logits[..counting]));
            });
            cpu.meet(OP, Reduce::Max, most)?;
            // Of each row: the sum of exponentials, the target's logit, and how many ranks have the target.
            let parts = Parts::new(sums);
            spread(rows, logits.values_mut(), width, |row, logits| {
                // SAFETY: as above.
                #[allow(unsafe_code)]
                let sums = unsafe { parts.part(3 * row, 3) };
                let (logits, rest) = logits.split_at_mut(counting);
                let target = self.here(row, counting).map(|column| logits[column]);
                sums[1] = target.map_or(0.0, f64::from);
                sums[2] = if target.is_some() { 1.0 } else { 0.0 };
                let most = most[row] as f32;
                sums[0] = logits.chunks_mut(PIECE).map(|piece| f64::from(exp_and_sum(level, piece, most))).sum();
                rest.fill(0.0);
            });
            cpu.meet(OP, Reduce::Sum, sums)?;
            for (sums, target) in sums.chunks_exact(3).zip(self.targets) {
                if sums[2] != 1.0 {
                    let expected = format!("a target below {} that one rank has", self.columns);
                    let got = format!("{target}, which {} ranks have", sums[2]);
                    return Err(OpsError::Shape { op: OP, expected, got });
                }
            }
            let of_rows = most.iter().zip(sums.chunks_exact(3));
            for (loss, (most, sums)) in losses.values_mut()[at..].iter_mut().zip(of_rows) {
                *loss = (sums[0].ln() + (most - sums[1])) as f32;
            }
            spread(rows, logits.values_mut(), width, |row, logits| {
                let weight = self.weights[row];
                scale(level, &mut logits[..counting], (f64::from(weight) / sums[3 * row]) as f32);
                if let Some(column) = self.here(row, counting) {
                    logits[column] -= weight;
                }
            });
            Ok(())
        })
    }

    /// The column of a row's target, if it is here.
    fn here(&self, row: usize, counting: usize) -> Option<usize> {
        let column = self.targets[row].checked_sub(self.first)? as usize;
        (column < counting).then_some(column)
    }
}
