//! The loss: logits of the rows whose next token is in it, some at a time, so that their room does not grow with the pack.
//! It refuses to know layers.

use super::arena::Work;
use super::layer::Pass;
use legwork_kernels::{Learn, OpsError};

/// Rows whose logits are there at once, whatever the vocabulary.
const HEAD_ROWS_LEAST: usize = 256;
/// And at most, where the vocabulary is small.
const HEAD_ROWS_MOST: usize = 4_096;
/// Products are best of whole tiles.
const TILE: usize = 128;

/// Rows whose logits are there at once, of so many ids on this rank, where there is room for about so many logits. Each part of
/// the rows passes once over the head's gradient, so that small parts cost a large vocabulary much of a device's memory traffic.
pub(super) fn head_rows(ids: usize, logits: usize) -> usize {
    (logits / ids.max(1)).clamp(HEAD_ROWS_LEAST, HEAD_ROWS_MOST) / TILE * TILE
}

/// Which of the logits count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// The first id that this rank has.
    pub(super) first: u32,
    /// Ids below this one are in the softmax.
    pub(super) counted: usize,
    /// Rows that are computed together.
    pub(super) rows: usize,
}

/// Rows of the loss that are computed together.
struct Chunk<'a> {
    /// The first of them, among all rows of the loss.
    at: usize,
    rows: &'a [u32],
    targets: &'a [u32],
    weights: &'a [f32],
}

impl<B: Learn> Pass<'_, B> {
    /// The losses of the normed rows, which stay with the backend until [`Pass::weighted_loss`].
    pub(super) fn loss(&self, head: &B::Param, columns: Columns, w: &mut Work<B>) -> Result<(), OpsError> {
        self.chunks(columns.rows).try_for_each(|chunk| self.chunk_loss(head, columns, &chunk, w))
    }

    /// What the losses of the rows come to, once they are computed; a device is waited for.
    pub(super) fn weighted_loss(&self, w: &mut Work<B>) -> Result<f64, OpsError> {
        self.ops.read_sums(&w.losses, &mut w.read)?;
        Ok(w.read.iter().zip(&self.pack.weights).map(|(loss, weight)| f64::from(*loss) * f64::from(*weight)).sum())
    }

    /// As [`Pass::loss`]; adds to the head's gradient, and `branch` becomes the gradient of the normed rows.
    pub(super) fn loss_backward(&self, head: &mut B::Param, columns: Columns, w: &mut Work<B>) -> Result<(), OpsError> {
        self.ops.zero(&mut w.branch, self.pack.ids.len())?;
        for chunk in self.chunks(columns.rows) {
            self.chunk_loss(head, columns, &chunk, w)?;
            self.ops.linear_backward(&w.picked, head, None, &w.logits, Some(&mut w.d_picked))?;
            // Each rank has the part of the gradient that comes from its own ids.
            self.sum(&mut w.d_picked)?;
            self.ops.pick_backward(&w.d_picked, chunk.rows, &mut w.branch)?;
        }
        Ok(())
    }

    /// The loss of some rows; their logits become gradients.
    fn chunk_loss(
        &self,
        head: &B::Param,
        columns: Columns,
        chunk: &Chunk<'_>,
        w: &mut Work<B>,
    ) -> Result<(), OpsError> {
        self.ops.pick(&w.normed, chunk.rows, &mut w.picked)?;
        self.ops.linear_forward(&w.picked, head, None, &mut w.logits)?;
        let Columns { first, counted, .. } = columns;
        let Chunk { at, targets, weights, .. } = *chunk;
        self.ops.cross_entropy_into(&mut w.logits, first, counted, targets, weights, &mut w.losses, at)
    }

    fn chunks(&self, rows: usize) -> impl Iterator<Item = Chunk<'_>> {
        let pack = self.pack;
        let parts = pack.rows.chunks(rows).zip(pack.targets.chunks(rows)).zip(pack.weights.chunks(rows));
        parts.zip(0..).map(move |(((rows_of, targets), weights), number)| Chunk {
            at: number * rows,
            rows: rows_of,
            targets,
            weights,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_vocabulary_has_fewer_rows_at_once_and_more_on_more_ranks() {
        let rows = |logits: usize| [151_936, 152_064 / 4, 49_152, 384, 4 << 20].map(|ids| head_rows(ids, logits));
        assert_eq!(rows(1 << 27), [768, 3_456, 2_688, 4_096, 256]);
        assert_eq!(rows(1 << 29), [3_456, 4_096, 4_096, 4_096, 256]);
    }
}
