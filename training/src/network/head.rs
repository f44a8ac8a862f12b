//! The loss: logits of the rows whose next token is in it, some at a time, so that their room does not grow with the pack.
//! It refuses to know layers.

use super::arena::Work;
use super::layer::Pass;
use legwork_kernels::{Learn, OpsError};

/// Rows whose logits are there at once.
pub(super) const HEAD_ROWS: usize = 256;

/// Which of the logits count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// The first id that this rank has.
    pub(super) first: u32,
    /// Ids below this one are in the softmax.
    pub(super) counted: usize,
}

/// Rows of the loss that are computed together.
struct Chunk<'a> {
    rows: &'a [u32],
    targets: &'a [u32],
    weights: &'a [f32],
}

impl<B: Learn> Pass<'_, B> {
    /// The loss of the normed rows.
    pub(super) fn loss(&self, head: &B::Param, columns: Columns, w: &mut Work<B>) -> Result<f64, OpsError> {
        let mut loss = 0.0;
        for chunk in self.chunks() {
            loss += self.chunk_loss(head, columns, &chunk, w)?;
        }
        Ok(loss)
    }

    /// As [`Pass::loss`]; adds to the head's gradient, and `branch` becomes the gradient of the normed rows.
    pub(super) fn loss_backward(
        &self,
        head: &mut B::Param,
        columns: Columns,
        w: &mut Work<B>,
    ) -> Result<f64, OpsError> {
        self.ops.zero(&mut w.branch, self.pack.ids.len())?;
        let mut loss = 0.0;
        for chunk in self.chunks() {
            loss += self.chunk_loss(head, columns, &chunk, w)?;
            self.ops.linear_backward(&w.picked, head, None, &w.logits, Some(&mut w.d_picked))?;
            // Each rank has the part of the gradient that comes from its own ids.
            self.sum(&mut w.d_picked)?;
            self.ops.pick_backward(&w.d_picked, chunk.rows, &mut w.branch)?;
        }
        Ok(loss)
    }

    /// The loss of some rows; their logits become gradients.
    fn chunk_loss(
        &self,
        head: &B::Param,
        columns: Columns,
        chunk: &Chunk<'_>,
        w: &mut Work<B>,
    ) -> Result<f64, OpsError> {
        self.ops.pick(&w.normed, chunk.rows, &mut w.picked)?;
        self.ops.linear_forward(&w.picked, head, None, &mut w.logits)?;
        let Columns { first, counted } = columns;
        self.ops.cross_entropy(&mut w.logits, first, counted, chunk.targets, chunk.weights, &mut w.losses)?;
        Ok(w.losses.iter().zip(chunk.weights).map(|(loss, weight)| f64::from(*loss) * f64::from(*weight)).sum())
    }

    fn chunks(&self) -> impl Iterator<Item = Chunk<'_>> {
        let pack = self.pack;
        let parts = pack.rows.chunks(HEAD_ROWS).zip(pack.targets.chunks(HEAD_ROWS)).zip(pack.weights.chunks(HEAD_ROWS));
        parts.map(|((rows, targets), weights)| Chunk { rows, targets, weights })
    }
}
