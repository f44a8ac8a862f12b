//! A checkpoint as a Hugging Face folder: one tensor at a time, under the names and shapes that the pinned original's description
//! asks for, without the rows that training padded the vocabulary with, the original's tokenizer beside it byte for byte, and
//! a manifest with the digest of everything before and after.
//! It refuses to know how a checkpoint is kept: tensors come in.

mod checkpoint;
mod folder;
mod layout;
mod manifest;
mod number;
mod original;
mod verify;

pub use checkpoint::verify_against_checkpoint;
pub(crate) use folder::FolderMaking;
pub use layout::{Wanted, wanted};
pub use manifest::{BadLine, MANIFEST, Manifest, OriginalSaid, Removed, SUMS, Source, TensorSaid, read_sums};
pub use number::NumberKind;
pub use original::COPIED;
pub use verify::{Finding, Verified, is_export, verify, verify_against_original, verify_against_tensors};

use crate::error::TrainingError;
use crate::tensor::NamedTensor;
use folder::{hex, sha256, sha256_of, sums_text};
use layout::{INDEX, Layout, layout};
use legwork_model::Weights;
use original::{CONFIG, Original};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes of a shard's values at most unless told otherwise: what `transformers` shards by.
pub const SHARD_BYTES_MAX: u64 = 5_000_000_000;
/// Rows of padding at most: Megatron pads to a multiple of 128 times the tensor-parallel ranks, of which there are at most 64.
pub const PADDING_ROWS_MAX: usize = 128 * 64 - 1;
/// Files of weights at most, as readers here have it.
pub const SHARDS_MAX: usize = 1 << 10;
/// Values that are rounded at once, so that a tensor is not held twice.
const PIECE_VALUES: usize = 1 << 18;
/// Names that a message lists.
const LISTED_MAX: usize = 5;

/// What to export.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    /// The folder of the model that training began from.
    pub original: &'a Path,
    /// The folder to make.
    pub out: &'a Path,
    /// The kind of number; the original's, or else bfloat16, if none is given.
    pub kind: Option<NumberKind>,
    /// Bytes of a shard's values at most; see [`SHARD_BYTES_MAX`].
    pub shard_bytes_max: u64,
    /// What is exported.
    pub source: Source,
    /// What the trainer says of the run.
    pub run: Value,
}

/// What was exported.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// The folder.
    pub folder: PathBuf,
    /// Files of weights.
    pub shards: usize,
    /// Bytes of all weights' files.
    pub bytes: u64,
    /// What the folder says of itself.
    pub manifest: Manifest,
}

impl Export<'_> {
    /// Writes the folder. Tensors may come in any order; one is held at a time.
    ///
    /// # Errors
    /// A place that has something already; an original without a decoder's description; a tensor that is missing, given twice,
    /// not asked for or of another shape, or that holds what the kind of number cannot say; a disk that is full. Whatever
    /// goes wrong, nothing is left under the folder's name.
    pub fn write(
        &self,
        tensors: impl IntoIterator<Item = Result<NamedTensor, TrainingError>>,
    ) -> Result<Exported, TrainingError> {
        let original = Original::open(self.original)?;
        let kind = self.kind.or(original.kind()).unwrap_or_default();
        let making = FolderMaking::begin(self.out)?;
        let weights = WeightsMaking::begin(
            &making,
            &self.source.checkpoint,
            wanted(&original.config),
            kind,
            self.shard_bytes_max,
        )?;
        let said = weights.fill(tensors)?;
        let mut sums = BTreeMap::new();
        let mut add = |name: &str, bytes: &[u8]| -> Result<(), TrainingError> {
            making.write(name, bytes)?;
            sums.insert(name.to_owned(), sha256(bytes));
            Ok(())
        };
        add(CONFIG, &original.description(self.original, kind)?)?;
        for (name, bytes) in &original.copied {
            add(name, bytes)?;
        }
        let manifest = Manifest {
            format: manifest::FORMAT.to_owned(),
            version: manifest::VERSION,
            source: self.source.clone(),
            run: self.run.clone(),
            original: OriginalSaid {
                config_sha256: original.config_sha256(),
                copied: original.copied.iter().map(|(name, bytes)| (name.clone(), sha256(bytes))).collect(),
                name: original.name,
            },
            dtype: kind,
            vocabulary: original.config.vocabulary,
            tensors: said.tensors,
        };
        let text = serde_json::to_vec_pretty(&manifest).map_err(|error| TrainingError::Setting {
            setting: "run",
            expected: "a value that JSON can hold".to_owned(),
            got: error.to_string(),
        })?;
        add(MANIFEST, &text)?;
        sums.extend(said.sums);
        making.write(SUMS, sums_text(&sums).as_bytes())?;
        Ok(Exported { folder: making.finish()?, shards: said.shards, bytes: said.bytes, manifest })
    }
}

/// Files of weights that are being filled.
pub(crate) struct WeightsMaking<'a> {
    making: &'a FolderMaking,
    /// What tensors come from, for messages.
    source: PathBuf,
    wanted: Vec<Wanted>,
    kind: NumberKind,
    layout: Layout,
}

/// What was filled in.
pub(crate) struct WeightsMade {
    pub(crate) tensors: Vec<TensorSaid>,
    pub(crate) sums: BTreeMap<String, String>,
    pub(crate) shards: usize,
    pub(crate) bytes: u64,
}

impl<'a> WeightsMaking<'a> {
    pub(crate) fn begin(
        making: &'a FolderMaking,
        source: &str,
        wanted: Vec<Wanted>,
        kind: NumberKind,
        shard_bytes_max: u64,
    ) -> Result<Self, TrainingError> {
        let layout = layout(&wanted, kind, shard_bytes_max);
        if layout.shards.len() > SHARDS_MAX {
            let expected = format!("a size that gives at most {SHARDS_MAX} files");
            let got = format!("{shard_bytes_max} bytes, which gives {}", layout.shards.len());
            return Err(TrainingError::Setting { setting: "shard_bytes_max", expected, got });
        }
        for shard in &layout.shards {
            making.begin_file(&shard.file, &shard.head, shard.bytes)?;
        }
        Ok(Self { making, source: PathBuf::from(source), wanted, kind, layout })
    }

    /// Writes every tensor at its place, then reads all of them back: what the files hold is what was written.
    pub(crate) fn fill(
        self,
        tensors: impl IntoIterator<Item = Result<NamedTensor, TrainingError>>,
    ) -> Result<WeightsMade, TrainingError> {
        let by_name: BTreeMap<&str, usize> =
            self.wanted.iter().enumerate().map(|(number, wanted)| (wanted.name.as_str(), number)).collect();
        let mut said: Vec<Option<TensorSaid>> = vec![None; self.wanted.len()];
        for tensor in tensors {
            let tensor = tensor?;
            let Some(number) = by_name.get(tensor.name.as_str()).copied() else {
                return Err(self.wrong(format!(
                    "expected the tensors that the original's {CONFIG} asks for, got `{}` also; give the original that this was trained from",
                    tensor.name
                )));
            };
            if said[number].is_some() {
                return Err(self.wrong(format!("expected each tensor once, got `{}` twice", tensor.name)));
            }
            said[number] = Some(self.put(number, &tensor)?);
        }
        let missing: Vec<&str> = self
            .wanted
            .iter()
            .zip(&said)
            .filter(|(_, said)| said.is_none())
            .map(|(wanted, _)| wanted.name.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(self.wrong(format!(
                "expected {} tensors, got {} of them and not {}{}; give the original that this was trained from, or a whole checkpoint",
                self.wanted.len(),
                self.wanted.len() - missing.len(),
                missing[..missing.len().min(LISTED_MAX)].join(", "),
                if missing.len() > LISTED_MAX { ", and others" } else { "" }
            )));
        }
        self.finish(said.into_iter().flatten().collect())
    }

    fn put(&self, number: usize, tensor: &NamedTensor) -> Result<TensorSaid, TrainingError> {
        let (wanted, spot) = (&self.wanted[number], self.layout.spots[number]);
        let (kept, padding) = split(wanted, tensor).map_err(|problem| self.wrong(problem))?;
        let shard = &self.layout.shards[spot.shard];
        let mut file = self.making.at(&shard.file, spot.at)?;
        let (mut before, mut after, mut bytes) = (Sha256::new(), Sha256::new(), Vec::new());
        for (piece, values) in kept.chunks(PIECE_VALUES).enumerate() {
            bytes.clear();
            self.kind.write(values, &mut bytes).map_err(|bad| {
                self.wrong(format!(
                    "expected numbers up to {:e} for {}, got {} at value {} of `{}`; export an earlier checkpoint, or as another kind of number",
                    self.kind.max(),
                    self.kind.name(),
                    bad.value,
                    piece * PIECE_VALUES + bad.at,
                    tensor.name
                ))
            })?;
            after.update(&bytes);
            file.write(&bytes)?;
            digest_f32(values, &mut bytes, &mut before);
        }
        let removed = (!padding.is_empty()).then(|| Removed {
            rows: padding.len() / wanted.shape[1],
            sha256: {
                let mut digest = Sha256::new();
                padding.chunks(PIECE_VALUES).for_each(|values| digest_f32(values, &mut bytes, &mut digest));
                hex(digest)
            },
        });
        Ok(TensorSaid {
            name: wanted.name.clone(),
            shape: wanted.dimensions(),
            file: shard.file.clone(),
            sha256: hex(after),
            source_sha256: hex(before),
            removed,
        })
    }

    fn finish(self, tensors: Vec<TensorSaid>) -> Result<WeightsMade, TrainingError> {
        let mut sums = BTreeMap::new();
        for shard in &self.layout.shards {
            self.making.sync(&shard.file)?;
            sums.insert(shard.file.clone(), sha256_of(&self.making.path().join(&shard.file))?.0);
        }
        if let Some(index) = &self.layout.index {
            let text = format!("{index:#}\n");
            self.making.write(INDEX, text.as_bytes())?;
            sums.insert(INDEX.to_owned(), sha256(text.as_bytes()));
        }
        // The reader is another one's work than the layout above: what it finds is what others will find.
        let mut written = Weights::open_safetensors(self.making.path())?;
        for (wanted, said) in self.wanted.iter().zip(&tensors) {
            let found = sha256(written.take(&wanted.name, wanted.shape)?.bytes());
            if found != said.sha256 {
                return Err(self.wrong(format!(
                    "expected `{}` to read back with the digest {}, got {found}; the disk does not keep what is written",
                    wanted.name, said.sha256
                )));
            }
        }
        let bytes = self.layout.shards.iter().map(|shard| shard.bytes).sum();
        Ok(WeightsMade { tensors, sums, shards: self.layout.shards.len(), bytes })
    }

    fn wrong(&self, problem: String) -> TrainingError {
        TrainingError::Checkpoint { path: self.source.clone(), problem }
    }
}

/// The values that are kept, and those of padding.
pub(crate) fn split<'t>(wanted: &Wanted, tensor: &'t NamedTensor) -> Result<(&'t [f32], &'t [f32]), String> {
    let ([rows, cols], [got_rows, got_cols]) = (wanted.shape, tensor.shape);
    let fits = got_cols == cols
        && tensor.is_vector == wanted.is_vector
        && if wanted.of_vocabulary { (rows..=rows + PADDING_ROWS_MAX).contains(&got_rows) } else { got_rows == rows };
    if !fits {
        let padding =
            if wanted.of_vocabulary { format!(" and up to {PADDING_ROWS_MAX} rows of padding") } else { String::new() };
        return Err(format!(
            "expected the shape {:?}{padding} for the tensor `{}`, got {:?}; give the original that this was trained from",
            wanted.shape, wanted.name, tensor.shape
        ));
    }
    if got_rows.checked_mul(got_cols) != Some(tensor.values.len()) {
        let values = tensor.values.len();
        return Err(format!(
            "expected the values of {:?} for the tensor `{}`, got {values} of them",
            tensor.shape, wanted.name
        ));
    }
    Ok(tensor.values.split_at(rows * cols))
}

/// Adds the bytes of values to a digest; `bytes` is only room.
pub(crate) fn digest_f32(values: &[f32], bytes: &mut Vec<u8>, digest: &mut Sha256) {
    bytes.clear();
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    digest.update(bytes.as_slice());
}
