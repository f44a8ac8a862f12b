//! A small decoder that learns to be an embedder: pairs of a query and the document that answers it, in batches in which every
//! document is another one, the mean of a text's rows as its vector, and the loss of `contrast`.
//! It refuses to know files of pairs.

mod folder;

pub use folder::EmbedderMade;

use crate::batch::pack;
use crate::contrast::info_nce;
use crate::decoder_rank::DecoderRank;
use crate::error::{Place, TrainingError};
use crate::network::NetworkSettings;
use crate::pack::{Normalisation, Pack};
use crate::rank::Update;
use crate::sample::Sample;
use crate::shuffle::shuffled;
use legwork_kernels::{Cpu, Learn};
use legwork_model::{DecoderConfig, ModelFiles, Weights};
use std::collections::BTreeSet;
use std::path::Path;

/// Rows are padded to a multiple of this.
const MULTIPLE: usize = 128;

/// A query and the document that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The query's ids.
    pub query: Vec<u32>,
    /// The document's ids.
    pub document: Vec<u32>,
    /// Which document it is: two pairs of one document never stand in one batch, where each would be the other's negative.
    pub docid: String,
    /// The collection that the document is of: a batch is of one, so that its negatives are what a search there would list.
    pub collection: usize,
}

/// What a step has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learned {
    /// The loss before the update.
    pub loss: f64,
    /// The share of queries whose own document was the nearest of the batch.
    pub first: f64,
    /// The global norm of the gradient.
    pub grad_norm: f64,
}

/// An embedder that learns.
pub struct LearningEmbedder<B: Learn> {
    rank: DecoderRank<B>,
    temperature: f64,
}

impl LearningEmbedder<Cpu> {
    /// Takes the decoder of a folder, to learn on the processor.
    ///
    /// # Errors
    /// As [`LearningEmbedder::open`]; a folder that holds no decoder.
    pub fn on_processor(model: &Path, rows_max: usize, temperature: f64) -> Result<Self, TrainingError> {
        let mut files = ModelFiles::open(model)?;
        let config = files.decoder()?.clone();
        Self::open(Cpu::new(), &config, &mut files.weights, rows_max, temperature)
    }
}

impl<B: Learn> LearningEmbedder<B> {
    /// Takes a decoder's weights; `rows_max` is the number of rows of all texts of a batch.
    ///
    /// # Errors
    /// As [`DecoderRank::open`]; a temperature that is not above 0.
    pub fn open(
        ops: B,
        config: &DecoderConfig,
        weights: &mut Weights,
        rows_max: usize,
        temperature: f64,
    ) -> Result<Self, TrainingError> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            let (expected, got) = ("a number above 0".to_owned(), temperature.to_string());
            return Err(TrainingError::Setting { setting: "temperature", expected, got });
        }
        let rows_max = rows_max.max(1).next_multiple_of(MULTIPLE);
        let settings =
            NetworkSettings { rows_max, keep_attention: false, keep_products: false, softmax_over_padding: false };
        Ok(Self { rank: DecoderRank::open(ops, config, weights, settings)?, temperature })
    }

    /// Learns from a batch of pairs.
    ///
    /// # Errors
    /// Texts that do not fit, or a device that failed.
    pub fn step(&mut self, pairs: &[&Pair], update: &Update) -> Result<Learned, TrainingError> {
        let mut first = 0;
        let temperature = self.temperature;
        let network = self.rank.network_mut();
        let loss = network.learn_means(&packed(pairs), |means| {
            let (queries, documents) = means.split_at(means.len() / 2);
            let made = info_nce(queries, documents, temperature);
            first = made.first;
            (made.loss, [made.d_queries, made.d_documents].concat())
        })?;
        let (grad_norm, _) = network.update(update)?;
        Ok(Learned { loss, first: first as f64 / pairs.len().max(1) as f64, grad_norm })
    }

    /// As [`LearningEmbedder::step`]; nothing changes, and the gradient's norm is 0.
    ///
    /// # Errors
    /// As [`LearningEmbedder::step`].
    pub fn look(&mut self, pairs: &[&Pair]) -> Result<Learned, TrainingError> {
        let means = self.rank.network_mut().means(&packed(pairs))?;
        let (queries, documents) = means.split_at(means.len() / 2);
        let made = info_nce(queries, documents, self.temperature);
        Ok(Learned { loss: made.loss, first: made.first as f64 / pairs.len().max(1) as f64, grad_norm: 0.0 })
    }

    /// The mean of [`LearningEmbedder::look`] over batches; none of none.
    ///
    /// # Errors
    /// As [`LearningEmbedder::look`].
    pub fn look_over(&mut self, pairs: &[Pair], batches: &[Vec<usize>]) -> Result<Option<Learned>, TrainingError> {
        let (mut loss, mut first) = (0.0, 0.0);
        for places in batches {
            let batch: Vec<&Pair> = places.iter().filter_map(|place| pairs.get(*place)).collect();
            let seen = self.look(&batch)?;
            (loss, first) = (loss + seen.loss, first + seen.first);
        }
        let count = batches.len() as f64;
        Ok((count > 0.0).then(|| Learned { loss: loss / count, first: first / count, grad_norm: 0.0 }))
    }
}

/// Rows of the largest batch of so many pairs.
pub fn rows_max(pairs: &[Pair], batch: usize) -> usize {
    let mut lengths: Vec<usize> = pairs.iter().map(|pair| pair.query.len() + pair.document.len()).collect();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    lengths.iter().take(batch).sum::<usize>() + MULTIPLE
}

/// The batches of one pass, each of `batch` places of pairs of one collection and of different documents, in an order that the
/// seed decides. What fills no batch any more is left out, as is a pair whose document is in the batch already.
pub fn batches(pairs: &[Pair], batch: usize, seed: u64) -> Vec<Vec<usize>> {
    let collections: BTreeSet<usize> = pairs.iter().map(|pair| pair.collection).collect();
    let mut made = Vec::new();
    for collection in collections {
        let order = shuffled(seed.wrapping_add(collection as u64), pairs.len());
        let mut open: Vec<usize> = Vec::new();
        let mut documents: BTreeSet<&str> = BTreeSet::new();
        for at in order.into_iter().map(|at| at as usize).filter(|at| pairs[*at].collection == collection) {
            if documents.insert(&pairs[at].docid) {
                open.push(at);
            }
            if open.len() == batch {
                made.push(std::mem::take(&mut open));
                documents.clear();
            }
        }
    }
    let order = shuffled(seed, made.len());
    order.into_iter().map(|at| std::mem::take(&mut made[at as usize])).collect()
}

/// Queries, then documents, in one pack.
fn packed(pairs: &[&Pair]) -> Pack {
    let texts = pairs.iter().map(|pair| &pair.query).chain(pairs.iter().map(|pair| &pair.document));
    let samples: Vec<Sample> = texts
        .map(|ids| Sample {
            supervised: vec![false; ids.len()],
            ids: ids.clone(),
            place: Place { file: String::new(), line: 0 },
            source: String::new(),
        })
        .collect();
    pack(&samples, usize::MAX, MULTIPLE, Normalisation::Sample).into_iter().next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
