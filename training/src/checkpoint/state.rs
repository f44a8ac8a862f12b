//! `state.json`: the step, the ranks, the model, the digests of the other files, and an object of the run's own.
//! It refuses to know what the files hold.

use super::{broken, io, rank_file};
use crate::error::TrainingError;
use crate::shard::{RANKS_MAX, padded_vocabulary};
use legwork_model::DecoderConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The version of the format that is written and read.
pub const FORMAT: u32 = 1;
/// Bytes of a state at most.
const STATE_MAX_BYTES: u64 = 16 << 20;
/// Its name.
pub(super) const STATE: &str = "state.json";
/// What to do about a checkpoint that is not whole.
const ANOTHER: &str = "use an older checkpoint";

/// What a run says of a checkpoint that it commits.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Samples that were learned from.
    pub samples: u64,
    /// Ranks that saved their part.
    pub ranks: usize,
    /// The model's `config.json`.
    pub model: Map<String, Value>,
    /// Whatever the run needs to go on.
    pub run: Value,
}

/// What a checkpoint says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// [`FORMAT`].
    pub format: u32,
    /// Updates that were made.
    pub step: u64,
    /// Samples that were learned from.
    pub samples: u64,
    /// Ranks among which it is cut.
    pub ranks: usize,
    /// Rows of embedding and head, those that pad the vocabulary included.
    pub padded_vocabulary: usize,
    /// The model's `config.json`.
    pub model: Map<String, Value>,
    /// What the run put there.
    pub run: Value,
    /// Every other file, by its name.
    pub files: BTreeMap<String, Digest>,
}

/// What a file must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digest {
    /// Its length.
    pub bytes: u64,
    /// Its BLAKE3, in hexadecimal digits.
    pub blake3: String,
}

impl Digest {
    pub(super) fn of(path: &Path) -> Result<Self, TrainingError> {
        let mut file = File::open(path).map_err(io("read", path))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&mut file).map_err(io("read", path))?;
        Ok(Self { bytes: hasher.count(), blake3: hasher.finalize().to_hex().to_string() })
    }

    pub(super) fn expect_length(&self, path: &Path) -> Result<(), TrainingError> {
        let bytes = std::fs::metadata(path).map_err(io("read", path))?.len();
        match bytes == self.bytes {
            true => Ok(()),
            false => {
                let problem = format!("expected the {} bytes that {STATE} says, got {bytes}; {ANOTHER}", self.bytes);
                Err(broken(path, problem))
            }
        }
    }

    pub(super) fn expect(&self, path: &Path) -> Result<(), TrainingError> {
        self.expect_length(path)?;
        let got = Self::of(path)?;
        match got == *self {
            true => Ok(()),
            false => {
                let problem =
                    format!("expected the BLAKE3 {}, got {}; it was changed: {ANOTHER}", self.blake3, got.blake3);
                Err(broken(path, problem))
            }
        }
    }
}

impl State {
    /// Makes the state of ranks' files that lie in a folder.
    pub(super) fn of(folder: &Path, step: u64, facts: Facts) -> Result<Self, TrainingError> {
        let Facts { samples, ranks, model, run } = facts;
        let config = DecoderConfig::from_json(&folder.join(STATE), &model)?;
        let mut files = BTreeMap::new();
        for name in (0..ranks).map(|rank| rank_file(rank, ranks)) {
            let path = folder.join(&name);
            if !path.is_file() {
                let problem =
                    "expected the part of every rank, got none of this one; let all ranks save before committing";
                return Err(broken(&path, problem.to_owned()));
            }
            files.insert(name, Digest::of(&path)?);
        }
        let padded_vocabulary = padded_vocabulary(config.vocabulary, ranks);
        let state = Self { format: FORMAT, step, samples, ranks, padded_vocabulary, model, run, files };
        state.check(&folder.join(STATE), &config)?;
        Ok(state)
    }

    pub(super) fn read(folder: &Path) -> Result<(Self, DecoderConfig), TrainingError> {
        let path = folder.join(STATE);
        let mut text = String::new();
        let file = File::open(&path).map_err(io("read", &path))?;
        file.take(STATE_MAX_BYTES + 1).read_to_string(&mut text).map_err(io("read", &path))?;
        if text.len() as u64 > STATE_MAX_BYTES {
            let problem = format!("expected at most {STATE_MAX_BYTES} bytes, got more; {ANOTHER}");
            return Err(broken(&path, problem));
        }
        let state: Self = serde_json::from_str(&text)
            .map_err(|error| broken(&path, format!("expected the state of a checkpoint, got {error}; {ANOTHER}")))?;
        let config = DecoderConfig::from_json(&path, &state.model)?;
        state.check(&path, &config)?;
        Ok((state, config))
    }

    fn check(&self, path: &Path, config: &DecoderConfig) -> Result<(), TrainingError> {
        let wrong =
            |expected: String, got: String| Err(broken(path, format!("expected {expected}, got {got}; {ANOTHER}")));
        if self.format != FORMAT {
            return wrong(format!("format {FORMAT}"), self.format.to_string());
        }
        if !(1..=RANKS_MAX).contains(&self.ranks) {
            return wrong(format!("1 to {RANKS_MAX} ranks"), self.ranks.to_string());
        }
        let padded = padded_vocabulary(config.vocabulary, self.ranks);
        if self.padded_vocabulary != padded {
            return wrong(format!("a vocabulary padded to {padded}"), self.padded_vocabulary.to_string());
        }
        let mut names: Vec<String> = (0..self.ranks).map(|rank| rank_file(rank, self.ranks)).collect();
        names.sort();
        if !names.iter().eq(self.files.keys()) {
            let got = self.files.keys().cloned().collect::<Vec<_>>().join(", ");
            return wrong(format!("a file of each of {} ranks", self.ranks), got);
        }
        Ok(())
    }
}
