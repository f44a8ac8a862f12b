//! What a decoder needs to be trained on the processor: the makers of a group of ranks over one model's files, and its
//! checkpoints. What is made for another device stands beside this.
//! It refuses to know when it is used.

use super::ranks::{MakeGroup, MakeRank};
use super::shelf::{KeptCheckpoint, KeptState, Shelf};
use legwork_kernels::Cpu;
use legwork_kernels::cpu::group::Group;
use legwork_model::ModelFiles;
use legwork_training::TrainingError;
use legwork_training::checkpoint::{self, Facts};
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::network::NetworkSettings;
use legwork_training::rank::Rank;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes groups of so many ranks over a model's folder. Each rank reads its part of the weights by itself.
pub fn decoder_group(model: &Path, ranks: usize, settings: NetworkSettings) -> MakeGroup {
    let model = model.to_path_buf();
    Arc::new(move || {
        let members = Group::of(ranks);
        let maker = |member| -> MakeRank {
            let model = model.clone();
            Box::new(move || {
                let mut files = ModelFiles::open(&model)?;
                let config = files.decoder()?.clone();
                let ops = Cpu::new().with_member(member);
                let rank = DecoderRank::open(ops, &config, &mut files.weights, settings)?;
                Ok(Box::new(rank) as Box<dyn Rank>)
            })
        };
        Ok(members.into_iter().map(maker).collect())
    })
}

/// A run's checkpoints on disk.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// Where they are.
    pub root: PathBuf,
    /// The model's `config.json`.
    pub model: Map<String, Value>,
    /// Ranks that save their part.
    pub ranks: usize,
    /// Samples of a slot.
    pub batch: u64,
    /// So many are kept; the last one in any case.
    pub keep_last: usize,
    /// What else a checkpoint says of the run it is of, such as the digest of its manifest.
    pub run: Map<String, Value>,
}

/// The name under which a checkpoint keeps what the trainer says.
const TRAINER: &str = "trainer";

impl Shelf for Checkpoints {
    fn begin(&mut self, step: u64) -> Result<PathBuf, TrainingError> {
        checkpoint::begin(&self.root, step)
    }

    fn commit(&mut self, partial: &Path, state: &KeptState) -> Result<(), TrainingError> {
        let mut run = self.run.clone();
        run.insert(TRAINER.to_owned(), serde_json::to_value(state).expect("a state holds only what JSON can write"));
        let samples = state.at.slots.saturating_mul(self.batch);
        let facts = Facts { samples, ranks: self.ranks, model: self.model.clone(), run: Value::Object(run) };
        checkpoint::commit(partial, facts)?;
        checkpoint::keep_last(&self.root, self.keep_last)
    }

    fn latest(&mut self) -> Result<Option<KeptCheckpoint>, TrainingError> {
        let found = checkpoint::latest(&self.root)?;
        for (_, why) in &found.damaged {
            tracing::warn!("a checkpoint is damaged and an older one is taken: {why}");
        }
        let Some(checkpoint) = found.checkpoint else {
            return match found.damaged.into_iter().next() {
                // Beginning anew over what is damaged would be no resuming.
                Some((_, why)) => Err(why),
                None => Ok(None),
            };
        };
        let folder = checkpoint.folder().to_path_buf();
        let said = checkpoint.state().run.get(TRAINER).cloned().unwrap_or(Value::Null);
        let state: KeptState = serde_json::from_value(said).map_err(|error| TrainingError::Checkpoint {
            path: folder.clone(),
            problem: format!(
                "expected a checkpoint of `legwork train`, got one that does not say where it stood: {error}"
            ),
        })?;
        Ok(Some(KeptCheckpoint { folder, state }))
    }
}
