//! A training run's manifest: everything that its weights depend on, by value or by digest, and what of the data is used how
//! much. Written before the first step; a run that is resumed must have the same one.
//! It refuses to know how digests are taken.

use super::error::TrainerError;
use crate::ledger::Difference;
use crate::ledger::manifest::{differences, flatten};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// What kind of manifest it is, so that nothing else is taken for one.
const KIND: &str = "legwork training, version 1";

/// Everything that a training run depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingManifest {
    /// What it is.
    kind: String,
    /// The run's name.
    pub run: String,
    /// When it was begun, in milliseconds since the Unix epoch.
    pub began_epoch_ms: u64,
    /// The version of legwork that began it.
    pub legwork: String,
    /// Names of all inputs with their digests: rows, model, held-out rows.
    pub inputs: BTreeMap<String, String>,
    /// The settings, resolved.
    pub settings: serde_json::Value,
    /// What is trained on.
    pub data: TrainingData,
}

/// What of the data is used how much.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingData {
    /// Rows of the file that can be trained on.
    pub rows: u64,
    /// Rows that were skipped, by what was wrong with them.
    pub skipped: BTreeMap<String, u64>,
    /// Slots of the whole course.
    pub slots: u64,
    /// The first slot's id.
    pub first_slot: u64,
    /// Rows that are used, each time counted.
    pub rows_used: u64,
    /// Rows that are never used, since no slot has room for them.
    pub rows_never_used: u64,
    /// Rows that are held out.
    pub rows_held_out: u64,
    /// Each source of rows; those that say none are under an empty name.
    pub sources: BTreeMap<String, SourceShare>,
}

/// One source of rows, and how much it has to say in the gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceShare {
    /// Its rows, each counted once.
    pub rows: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Of these, those in the loss.
    pub supervised: u64,
    /// Its share of the weights of the loss over all slots, as the normalisation makes them.
    pub gradient_share: f64,
}

impl TrainingManifest {
    /// One for a run of this name.
    pub fn new(run: String, began_epoch_ms: u64, legwork: String) -> Self {
        Self {
            kind: KIND.to_owned(),
            run,
            began_epoch_ms,
            legwork,
            inputs: BTreeMap::new(),
            settings: serde_json::Value::Null,
            data: TrainingData::default(),
        }
    }

    /// The manifest as it is kept and chained to.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a manifest holds only what JSON can write")
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, TrainerError> {
        let wrong = |problem: String| TrainerError::Manifest { path: path.to_path_buf(), problem };
        let manifest: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if manifest.kind != KIND {
            return Err(wrong(format!("its kind is {:?}, this legwork reads {KIND:?}", manifest.kind)));
        }
        Ok(manifest)
    }

    /// Compares it with what another rank of the run was started with, which says nothing of what rows say, and knows no run that
    /// is followed.
    ///
    /// # Errors
    /// What differs, and the cure.
    pub fn agrees_with(&self, rank: usize, described: &str) -> Result<(), String> {
        let other: Self = serde_json::from_str(described)
            .map_err(|error| format!("expected what rank {rank} was started with, got something else: {error}"))?;
        let bare = |of: &Self| {
            let mut bare = Self { data: TrainingData::default(), ..of.clone() };
            bare.inputs.remove("run");
            bare
        };
        match bare(self).differences(&bare(&other)).as_slice() {
            [] => Ok(()),
            differences => {
                let listed: Vec<String> = differences.iter().map(ToString::to_string).collect();
                Err(format!(
                    "rank {rank} was started otherwise than rank 0: {}; give all processes the same flags and files",
                    listed.join("; ")
                ))
            }
        }
    }

    /// What differs, in a stable order, but for names and times that identify the run itself.
    pub fn differences(&self, is: &Self) -> Vec<Difference> {
        let flat = |of: &Self| {
            let mut value = serde_json::to_value(of).expect("a manifest holds only what JSON can write");
            if let Some(map) = value.as_object_mut() {
                ["run", "began_epoch_ms"].iter().for_each(|name| drop(map.remove(*name)));
            }
            let mut flat = BTreeMap::new();
            flatten("", &value, &mut flat);
            flat
        };
        differences(&flat(self), &flat(is))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_but_for_what_only_the_first_knows() {
        let mut first = TrainingManifest::new("a".to_owned(), 1, "1.0.0".to_owned());
        first.inputs = [("rows", "r"), ("run", "x")].map(|(name, digest)| (name.to_owned(), digest.to_owned())).into();
        first.settings = serde_json::json!({"seed": 42, "tp": 2});
        let mut other = TrainingManifest { run: "b".to_owned(), began_epoch_ms: 2, ..first.clone() };
        first.data.rows = 7;
        other.inputs.remove("run");
        assert_eq!(first.agrees_with(1, &other.to_json()), Ok(()));
        other.settings["seed"] = 7.into();
        other.inputs.insert("rows".to_owned(), "s".to_owned());
        let told = first.agrees_with(1, &other.to_json()).unwrap_err();
        for what in ["rank 1 was started otherwise", "settings.seed was 42, is 7", "inputs.rows was r, is s"] {
            assert!(told.contains(what), "{what:?} in {told:?}");
        }
        assert!(first.agrees_with(1, "{").unwrap_err().contains("expected what rank 1 was started with"));
    }
}
