//! A decoder as a rank: what a trainer tells it becomes passes of a network, and files of a checkpoint. Of several replicas each
//! takes some of the packs, and the first writes.
//! It refuses to know who tells it, and other ranks but through the backend's group.

use crate::checkpoint::{Checkpoint, PARTS, RankFile, RankWriter, rank_file, tensor_name};
use crate::error::TrainingError;
use crate::network::{Network, NetworkSettings, step_flops, update};
use crate::pack::Pack;
use crate::rank::{Rank, StepDone, Update};
use crate::replicas::shared_out;
use crate::shard::{Fused, Shard};
use crate::tensor::NamedTensor;
use legwork_kernels::Learn;
use legwork_model::{DecoderConfig, Weights};
use std::collections::BTreeMap;
use std::path::Path;

/// A rank that trains its part of a decoder.
pub struct DecoderRank<B: Learn> {
    network: Network<B>,
    /// Whether gradients are left from a step that failed.
    spoiled: bool,
}

impl<B: Learn> DecoderRank<B> {
    /// Takes this rank's part of a model's weights, widened to `f32`.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape, a group that does not divide the model, or too little memory.
    pub fn open(
        ops: B,
        config: &DecoderConfig,
        weights: &mut Weights,
        settings: NetworkSettings,
    ) -> Result<Self, TrainingError> {
        let vocabulary = config.vocabulary;
        Self::of(ops, config, settings, |shard, fused| {
            let take = |piece: &crate::shard::Piece| -> Result<NamedTensor, TrainingError> {
                let rows = if fused.is_vocabulary { vocabulary } else { piece.shape[0] };
                let shape = [rows, piece.shape[1]];
                let values = weights.take(&piece.name, shape)?.to_f32();
                Ok(NamedTensor { name: piece.name.clone(), shape, is_vector: fused.is_vector, values })
            };
            let wholes = fused.pieces.iter().map(take).collect::<Result<Vec<_>, _>>()?;
            shard.cut(fused, &wholes)
        })
    }

    /// Takes this rank's part of tensors under their Hugging Face names; a vocabulary may be padded.
    ///
    /// # Errors
    /// As [`DecoderRank::open`].
    pub fn of_tensors(
        ops: B,
        config: &DecoderConfig,
        tensors: impl IntoIterator<Item = NamedTensor>,
        settings: NetworkSettings,
    ) -> Result<Self, TrainingError> {
        let mut tensors: BTreeMap<String, NamedTensor> =
            tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
        Self::of(ops, config, settings, |shard, fused| {
            let take = |piece: &crate::shard::Piece| {
                tensors.remove(&piece.name).ok_or_else(|| TrainingError::Setting {
                    setting: "tensors of the model",
                    expected: format!("{} of shape {:?}", piece.name, piece.shape),
                    got: "none of that name".to_owned(),
                })
            };
            let wholes = fused.pieces.iter().map(take).collect::<Result<Vec<_>, _>>()?;
            shard.cut(fused, &wholes)
        })
    }

    fn of(
        ops: B,
        config: &DecoderConfig,
        settings: NetworkSettings,
        values: impl FnMut(&Shard, &Fused) -> Result<Vec<f32>, TrainingError>,
    ) -> Result<Self, TrainingError> {
        Ok(Self { network: Network::new(ops, config, settings, values)?, spoiled: false })
    }

    /// Its network.
    pub fn network(&self) -> &Network<B> {
        &self.network
    }

    /// Its network, to be driven by hand.
    pub fn network_mut(&mut self) -> &mut Network<B> {
        &mut self.network
    }

    fn learn(&mut self, packs: &[Pack], update: &Update) -> Result<StepDone, TrainingError> {
        let mut loss = 0.0;
        for pack in self.mine(packs) {
            loss += self.network.learn(pack)?;
        }
        let loss = self.network.sum_over_replicas(loss)?;
        let (grad_norm, updated) = self.network.update(update)?;
        Ok(StepDone { loss, grad_norm, updated })
    }

    /// The packs that this replica takes, by what they cost.
    fn mine<'p>(&self, packs: &'p [Pack]) -> impl Iterator<Item = &'p Pack> + use<'p, B> {
        let (replica, replicas) = self.network.replica();
        let lengths = |pack: &Pack| pack.starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect::<Vec<_>>();
        let cost = |pack: &Pack| step_flops(self.network.config(), &lengths(pack), pack.rows.len()) as u64;
        let owners = match replicas {
            1 => vec![0; packs.len()],
            _ => shared_out(&packs.iter().map(cost).collect::<Vec<_>>(), replicas),
        };
        packs.iter().zip(owners).filter(move |(_, owner)| *owner == replica).map(|(pack, _)| pack)
    }

    /// Takes the files of the rank that this one was, or cuts its part anew from those of all ranks.
    fn take(&mut self, checkpoint: &Checkpoint) -> Result<(), TrainingError> {
        let state = checkpoint.state();
        let shard = self.network.shard();
        if state.ranks == shard.ranks() {
            let name = rank_file(shard.rank(), shard.ranks());
            checkpoint.verify(&name)?;
            let mut file = RankFile::open(&checkpoint.folder().join(name))?;
            for (part, _) in PARTS {
                self.network.write(part, |shard, fused| file.tensor(&tensor_name(part, fused), shard.shape(fused)))?;
            }
            return Ok(());
        }
        for name in state.files.keys() {
            checkpoint.verify(name)?;
        }
        let mut reader = checkpoint.reader()?;
        for (part, _) in PARTS {
            // Both layouts are of one model, so that they differ in the padding of the vocabulary only.
            let stored: BTreeMap<String, Fused> =
                reader.layout().each().map(|fused| (fused.name.clone(), fused.clone())).collect();
            self.network.write(part, |shard, fused| {
                let wholes = reader.wholes(part, stored.get(&fused.name).unwrap_or(fused))?;
                shard.cut(fused, &wholes)
            })?;
        }
        Ok(())
    }
}

impl<B: Learn + Send> Rank for DecoderRank<B> {
    fn step(&mut self, packs: &[Pack], settings: &Update) -> Result<StepDone, TrainingError> {
        update::check(settings)?;
        packs.iter().try_for_each(|pack| self.network.check(pack))?;
        if self.spoiled {
            self.network.zero_gradients()?;
        }
        self.spoiled = true;
        let done = self.learn(packs, settings)?;
        self.spoiled = false;
        Ok(done)
    }

    fn evaluate(&mut self, packs: &[Pack]) -> Result<f64, TrainingError> {
        packs.iter().try_for_each(|pack| self.network.check(pack))?;
        let mut loss = 0.0;
        for pack in self.mine(packs) {
            loss += self.network.loss(pack)?;
        }
        self.network.sum_over_replicas(loss)
    }

    fn save(&mut self, folder: &Path) -> Result<(), TrainingError> {
        let (shard, layout) = (self.network.shard(), self.network.layout());
        let path = folder.join(rank_file(shard.rank(), shard.ranks()));
        let tensors: Vec<(String, [usize; 2])> = PARTS
            .iter()
            .flat_map(|(part, _)| layout.each().map(|fused| (tensor_name(*part, fused), shard.shape(fused))))
            .collect();
        // The first replica writes, and what it cannot write it gathers all the same: the others are not kept waiting.
        let mut writer = match self.network.replica() {
            (0, _) => Some(RankWriter::create(&path, tensors.iter().map(|(name, shape)| (name.as_str(), *shape)))),
            _ => None,
        };
        for (part, _) in PARTS {
            self.network.gather(part, |_, _, values| {
                if let Some(Ok(out)) = &mut writer
                    && let Err(error) = out.push(values)
                {
                    writer = Some(Err(error));
                }
                Ok(())
            })?;
        }
        writer.map_or(Ok(()), |writer| writer?.finish())
    }

    fn restore(&mut self, folder: &Path) -> Result<(), TrainingError> {
        let checkpoint = Checkpoint::read(folder)?;
        let alike = |config: &DecoderConfig| DecoderConfig { dtype: None, ..config.clone() };
        if alike(checkpoint.config()) != alike(self.network.config()) {
            return Err(TrainingError::Checkpoint {
                path: folder.to_path_buf(),
                problem: format!(
                    "expected a checkpoint of {:?}, got one of {:?}; give the model that it was made from",
                    self.network.config(),
                    checkpoint.config()
                ),
            });
        }
        self.spoiled = true;
        self.take(&checkpoint)?;
        self.network.zero_gradients()?;
        self.spoiled = false;
        Ok(())
    }
}
