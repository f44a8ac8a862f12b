//! What a run trains on: rows encoded as samples, bad ones counted; each slot's samples in order; and what the manifest says of
//! all this.
//! It refuses to know the trainer.

use super::super::VerbError;
use super::follow::Follow;
use super::settings::TrainSettings;
use crate::terminal::progress;
use legwork_actors::trainer::{SampleLimits, SlotOrder, SourceShare, TrainingData};
use legwork_training::batch::weights;
use legwork_training::mask::{Encoder, EncoderSettings, TextDigests};
use legwork_training::pack::Normalisation;
use legwork_training::rows::{BadReport, RowSource, Rows, Sieve};
use legwork_training::shuffle::shuffled;
use legwork_training::slots::Slots;
use legwork_training::{Sample, TrainingError};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Where samples come from.
pub(super) enum Source {
    /// Out of a file, all of them, in slots.
    Rows {
        /// The samples.
        samples: Arc<Vec<Sample>>,
        /// How they are taken.
        slots: Slots,
    },
    /// Of a run, as its episodes end.
    Run {
        /// The run.
        follow: Box<Follow>,
        /// What the model can take.
        limits: SampleLimits,
    },
}

/// Samples of a run.
pub(super) struct TrainData {
    pub(super) source: Source,
    pub(super) held_out: Vec<Sample>,
    pub(super) bad: BadReport,
    /// Names of inputs with their digests.
    pub(super) inputs: BTreeMap<String, String>,
    /// Rows of the largest pack.
    pub(super) rows_max: usize,
}

/// Reads and encodes all rows.
pub(super) fn read(
    settings: &TrainSettings,
    model: &Path,
    length_max: usize,
    is_told: bool,
) -> Result<TrainData, VerbError> {
    let (encoder, mut inputs) = open(settings, model, length_max)?;
    let mut sieve = Sieve::new(settings.bad_rows());
    let mut held_out = Vec::new();
    if let Some(eval) = &settings.eval {
        let eval: RowSource = eval.parse()?;
        held_out = encode(&eval, &encoder, &mut sieve, "encoding held-out rows", is_told)?;
    }
    if let Some(run) = &settings.follow {
        let vocabulary = u32::try_from(encoder.limits().vocabulary).unwrap_or(u32::MAX);
        let limits = SampleLimits { tokens_max: length_max, vocabulary };
        let bad = sieve.report().clone();
        let rows_max = rows_max_of_any(settings, length_max, &held_out);
        let (follow, digest) = Follow::open(run, &settings.row_choice(), encoder, sieve)?;
        inputs.insert("run".to_owned(), digest);
        return Ok(TrainData {
            source: Source::Run { follow: Box::new(follow), limits },
            held_out,
            bad,
            inputs,
            rows_max,
        });
    }
    let rows: RowSource = settings.needed("--rows or --follow", &settings.rows)?.parse()?;
    let samples = encode(&rows, &encoder, &mut sieve, "encoding rows", is_told)?;
    let slots = Slots {
        rows: samples.len() as u64,
        batch: settings.batch,
        epochs: settings.epochs,
        first_slot: settings.first_slot,
        seed: settings.seed.into(),
    };
    slots.check()?;
    let rows_max = rows_max(settings, &slots, &samples, &held_out);
    let source = Source::Rows { samples: Arc::new(samples), slots };
    Ok(TrainData { source, held_out, bad: sieve.report().clone(), inputs, rows_max })
}

/// What makes rows samples, and the digests of all files.
fn open(
    settings: &TrainSettings,
    model: &Path,
    length_max: usize,
) -> Result<(Encoder, BTreeMap<String, String>), VerbError> {
    let how = EncoderSettings { template: settings.template(), kind: settings.mask(), length_max: Some(length_max) };
    let (encoder, TextDigests { tokenizer_sha256, template_sha256 }) = Encoder::open(model, how)?;
    let mut inputs = BTreeMap::from([
        ("tokenizer".to_owned(), format!("sha256 {tokenizer_sha256}")),
        ("template".to_owned(), format!("sha256 {template_sha256}")),
    ]);
    for (name, file) in [("eval", &settings.eval), ("rows", &settings.rows)] {
        if let Some(file) = file {
            inputs.insert(name.to_owned(), digest(&file.parse()?)?);
        }
    }
    Ok((encoder, inputs))
}

/// The digests of all files but the model's weights and a run that is followed, without reading rows as such.
pub(super) fn inputs(
    settings: &TrainSettings,
    model: &Path,
    length_max: usize,
) -> Result<BTreeMap<String, String>, VerbError> {
    Ok(open(settings, model, length_max)?.1)
}

fn encode(
    source: &RowSource,
    encoder: &Encoder,
    sieve: &mut Sieve,
    what: &str,
    is_told: bool,
) -> Result<Vec<Sample>, VerbError> {
    let bar = progress::documents(what, is_told).with_message("rows");
    let mut samples = Vec::new();
    let mut rows = Rows::open(source)?;
    loop {
        let some = encoder.encode_some(&mut rows);
        if some.is_empty() {
            break;
        }
        bar.inc(some.len() as u64);
        for encoded in some {
            samples.extend(sieve.pass(encoded)?.map(|(_, sample)| sample));
        }
    }
    bar.finish_and_clear();
    if samples.is_empty() {
        let skipped = sieve.report().total();
        let last = sieve.report().listed.last().map(|bad| format!(", such as {}", bad.reason)).unwrap_or_default();
        return Err(format!("{source} has no row that can be trained on; {skipped} were skipped{last}").into());
    }
    Ok(samples)
}

/// A file and the slice of it.
fn digest(source: &RowSource) -> Result<String, VerbError> {
    let path = source.path();
    let read = || -> std::io::Result<String> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        Ok(hasher.finalize().to_hex().to_string())
    };
    let digest = read().map_err(|source| TrainingError::Io { what: "read", path: path.to_path_buf(), source })?;
    Ok(match (source.rows.start, source.rows.end) {
        (0, u64::MAX) => digest,
        (from, u64::MAX) => format!("{digest} from row {from}"),
        (from, to) => format!("{digest} rows {from} to {to}"),
    })
}

/// A bound on the rows of a pack: what a full one has, or all samples of the largest slot, or the longest sample.
fn rows_max(settings: &TrainSettings, slots: &Slots, samples: &[Sample], held_out: &[Sample]) -> usize {
    let order = order(*slots);
    let length = |place: &usize| samples.get(*place).map_or(0, |sample| sample.ids.len());
    let slot = |slot| order(slot).iter().map(length).sum::<usize>();
    let largest = (0..slots.updates()).map(slot).max().unwrap_or(0);
    let held_out_all = held_out.iter().map(|sample| sample.ids.len()).sum::<usize>();
    let longest = samples.iter().chain(held_out).map(|sample| sample.ids.len()).max().unwrap_or(0);
    let most = largest.max(held_out_all).min(settings.tokens_max.max(longest));
    most.next_multiple_of(settings.multiple())
}

/// The same bound where samples are not known yet: what a full pack has, or the longest sample that may come, and no more than
/// a slot of those.
fn rows_max_of_any(settings: &TrainSettings, length_max: usize, held_out: &[Sample]) -> usize {
    let batch = usize::try_from(settings.batch).unwrap_or(usize::MAX);
    let held_out_all = held_out.iter().map(|sample| sample.ids.len()).sum::<usize>();
    let most = batch.saturating_mul(length_max).max(held_out_all).min(settings.tokens_max.max(length_max));
    most.next_multiple_of(settings.multiple())
}

/// A slot's samples, slots counted from 0 in the order in which they are taken. The order of the epoch at hand is kept.
pub(super) fn order(slots: Slots) -> SlotOrder {
    let last: Mutex<Option<(u64, Vec<u32>)>> = Mutex::new(None);
    Arc::new(move |slot| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = slots.take(slots.first_slot + slot, |seed, rows| match &*last {
            Some((of, order)) if *of == seed => order.clone(),
            _ => last.insert((seed, shuffled(seed, rows))).1.clone(),
        });
        taken.into_iter().map(|place| place as usize).collect()
    })
}

impl TrainData {
    /// What the manifest says of the data. Of a run that is followed nothing is known before, and `followed.jsonl` says it.
    pub(super) fn described(&self, normalisation: Normalisation) -> TrainingData {
        let rows_held_out = self.held_out.len() as u64;
        let skipped = self.bad.counts.iter().map(|(kind, count)| (kind.words().to_owned(), *count)).collect();
        let Source::Rows { samples, slots } = &self.source else {
            return TrainingData { skipped, rows_held_out, ..TrainingData::default() };
        };
        let mut sources: BTreeMap<String, SourceShare> = BTreeMap::new();
        let in_loss = |sample: &Sample| sample.supervised.iter().skip(1).filter(|supervised| **supervised).count();
        for sample in samples.iter() {
            let share = sources.entry(sample.source.clone()).or_default();
            share.rows += 1;
            share.tokens += sample.ids.len() as u64;
            share.supervised += in_loss(sample) as u64;
        }
        let (order, updates) = (order(*slots), slots.updates());
        let mut total = 0.0;
        for slot in 0..updates {
            let taken: Vec<&Sample> = order(slot).into_iter().filter_map(|place| samples.get(place)).collect();
            let counts: Vec<usize> = taken.iter().map(|sample| in_loss(sample)).collect();
            for ((sample, weight), count) in taken.iter().zip(weights(&counts, normalisation)).zip(&counts) {
                let weight = f64::from(weight) * *count as f64;
                total += weight;
                if let Some(share) = sources.get_mut(&sample.source) {
                    share.gradient_share += weight;
                }
            }
        }
        if total > 0.0 {
            sources.values_mut().for_each(|share| share.gradient_share /= total);
        }
        let rows_used = updates * slots.batch;
        TrainingData {
            rows: slots.rows,
            skipped,
            slots: updates,
            first_slot: slots.first_slot,
            rows_used,
            rows_never_used: slots.rows_never_taken(),
            rows_held_out,
            sources,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_training::Place;

    fn sample(source: &str, supervised: usize) -> Sample {
        let place = Place { file: "a".to_owned(), line: 1 };
        let mut marks = vec![false];
        marks.extend(vec![true; supervised]);
        Sample { ids: vec![1; marks.len()], supervised: marks, place, source: source.to_owned() }
    }

    fn data(slots: Slots) -> TrainData {
        let samples = (0..slots.rows).map(|row| if row % 4 == 0 { sample("core", 9) } else { sample("gate", 1) });
        let samples = Arc::new(samples.collect::<Vec<_>>());
        let (bad, inputs) = (BadReport::default(), BTreeMap::new());
        TrainData { source: Source::Rows { samples, slots }, held_out: Vec::new(), bad, inputs, rows_max: 0 }
    }

    #[test]
    fn the_order_of_slots_is_that_of_the_epochs_whether_kept_or_not() {
        let slots = Slots { rows: 10, batch: 4, epochs: 3, first_slot: 1, seed: 42 };
        let (kept, mut all) = (order(slots), Vec::new());
        for slot in (0..slots.updates()).rev() {
            let taken: Vec<usize> = slots.take(slot + 1, shuffled).into_iter().map(|place| place as usize).collect();
            assert_eq!(kept(slot), taken);
            all.push(taken);
        }
        assert_eq!(all.len(), 5, "two slots an epoch, and the first is left out");
    }

    #[test]
    fn the_manifest_says_what_is_used_and_how_much_each_source_weighs() {
        let slots = Slots { rows: 41, batch: 8, epochs: 1, first_slot: 0, seed: 1 };
        let by_sample = data(slots).described(Normalisation::Sample);
        assert_eq!((by_sample.slots, by_sample.rows_used, by_sample.rows_never_used), (5, 40, 1));
        assert_eq!(by_sample.sources["core"].rows, 11);
        let core = by_sample.sources["core"].gradient_share;
        assert!((0.2..=0.3).contains(&core), "one sample as much as another: {core}");
        let by_token = data(slots).described(Normalisation::Token);
        assert!(by_token.sources["core"].gradient_share > 0.6, "nine tokens against one");
        let all: f64 = by_token.sources.values().map(|share| share.gradient_share).sum();
        assert!((all - 1.0).abs() < 1e-9);
    }
}
