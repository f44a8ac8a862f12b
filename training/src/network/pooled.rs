//! Vectors of whole texts: the mean of a sequence's normed rows, and the way back from a loss over such means. It refuses to know
//! what the loss is, and computes on one rank only.

use super::Network;
use super::layer::Pass;
use crate::error::TrainingError;
use crate::pack::Pack;
use legwork_kernels::Learn;

impl<B: Learn> Network<B> {
    /// The mean of the normed rows of each sample of a pack, in the pack's order; nothing changes.
    ///
    /// # Errors
    /// A pack that does not fit, a group of several ranks, or a device that failed.
    pub fn means(&mut self, pack: &Pack) -> Result<Vec<Vec<f32>>, TrainingError> {
        self.check_alone(pack)?;
        let Self { ops, params, arena, columns, .. } = self;
        let pass =
            Pass { ops: &*ops, heads: self.shard.heads(), rope: &self.rope, eps: self.config.rms_eps as f32, pack };
        pass.stream(params, columns.first, arena)?;
        let mut rows = Vec::new();
        ops.read(&arena.work.normed, &mut rows)?;
        Ok(means(&rows, self.config.hidden, pack))
    }

    /// As [`Network::means`]; adds to all gradients what `judge` gives for the means: the
    /// loss, and its gradient by each of them. Gives the loss.
    ///
    /// # Errors
    /// As [`Network::means`], or gradients that are not one for each mean, as wide as it; the gradients are then of no use.
    pub fn learn_means(
        &mut self,
        pack: &Pack,
        judge: impl FnOnce(&[Vec<f32>]) -> (f64, Vec<Vec<f32>>),
    ) -> Result<f64, TrainingError> {
        let hidden = self.config.hidden;
        let (loss, gradients) = judge(&self.means(pack)?);
        let fits = gradients.len() == pack.samples.len() && gradients.iter().all(|gradient| gradient.len() == hidden);
        if !fits {
            return Err(TrainingError::Setting {
                setting: "gradients of means",
                expected: format!("{} of {hidden} numbers", pack.samples.len()),
                got: format!("{} of {:?}", gradients.len(), gradients.iter().map(Vec::len).max()),
            });
        }
        // Every row of a sample has the same gradient: a table of them, and which entry is whose. Padding has one of zeros.
        let lengths = pack.starts.windows(2).map(|sequence| sequence[1] - sequence[0]);
        let (mut table, mut owners) = (Vec::new(), Vec::with_capacity(pack.ids.len()));
        for (place, length) in lengths.enumerate() {
            owners.extend(std::iter::repeat_n(place as u32, length as usize));
            match gradients.get(place) {
                Some(gradient) => table.extend(gradient.iter().map(|value| value / length as f32)),
                None => table.extend(std::iter::repeat_n(0.0, hidden)),
            }
        }
        let Self { ops, params, arena, columns, .. } = self;
        let table = ops.param([table.len() / hidden, hidden], &table)?;
        let pass =
            Pass { ops: &*ops, heads: self.shard.heads(), rope: &self.rope, eps: self.config.rms_eps as f32, pack };
        ops.embed_forward(&table, 0, &owners, &mut arena.work.branch)?;
        pass.back(params, columns.first, arena)?;
        Ok(loss)
    }

    fn check_alone(&self, pack: &Pack) -> Result<(), TrainingError> {
        let ranks = self.ops.ranks();
        if ranks != 1 {
            let (setting, expected) = ("ranks of an embedder", "one".to_owned());
            return Err(TrainingError::Setting { setting, expected, got: ranks.to_string() });
        }
        self.check(pack)
    }
}

/// The mean of each sample's rows.
fn means(rows: &[f32], hidden: usize, pack: &Pack) -> Vec<Vec<f32>> {
    let samples = pack.starts.windows(2).take(pack.samples.len());
    samples
        .map(|sample| {
            let (first, end) = (sample[0] as usize, sample[1] as usize);
            let mut sums = vec![0.0_f64; hidden];
            for row in rows[first * hidden..end * hidden].chunks_exact(hidden) {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
            }
            sums.into_iter().map(|sum| (sum / (end - first) as f64) as f32).collect()
        })
        .collect()
}
