//! What an export takes from a checkpoint: that it is of the original's shape, what it is called, its digests and its run.
//! It refuses to know how its tensors are put together.

use super::manifest::Source;
use super::original::{Original, is_same_shape};
use super::verify::{Finding, read_manifest, verify_against_tensors};
use super::{Export, SHARD_BYTES_MAX};
use crate::checkpoint::Checkpoint;
use crate::error::TrainingError;
use legwork_model::DecoderConfig;
use std::path::Path;

impl<'a> Export<'a> {
    /// An export of a checkpoint, with all else as usual; [`Export::write`] takes [`Checkpoint::tensors`].
    ///
    /// # Errors
    /// An original that cannot be read, or a checkpoint of another shape than it.
    pub fn of_checkpoint(checkpoint: &Checkpoint, original: &'a Path, out: &'a Path) -> Result<Self, TrainingError> {
        let said = Original::open(original)?.config;
        if !is_same_shape(&said, checkpoint.config()) {
            let (expected, got) = difference(&said, checkpoint.config());
            let problem = format!(
                "expected the original's `{expected}`, got `{got}`; give the original that this was trained from"
            );
            return Err(TrainingError::Checkpoint { path: checkpoint.folder().to_path_buf(), problem });
        }
        let (source, run) = (source_of(checkpoint), checkpoint.state().run.clone());
        Ok(Self { original, out, kind: None, shard_bytes_max: SHARD_BYTES_MAX, source, run })
    }
}

/// Compares a folder with the checkpoint that it says it was made of: its digests, and every row rounded.
///
/// # Errors
/// As [`verify_against_tensors`].
pub fn verify_against_checkpoint(folder: &Path, checkpoint: &Checkpoint) -> Result<Vec<Finding>, TrainingError> {
    let mut findings = verify_against_tensors(folder, checkpoint.tensors()?)?;
    let expected = source_of(checkpoint);
    if let Ok(manifest) = read_manifest(folder)
        && (manifest.source.digests != expected.digests || manifest.source.step != expected.step)
    {
        let problem = format!(
            "expected the digests of {} at step {}, got those of {} at step {}",
            expected.checkpoint, expected.step, manifest.source.checkpoint, manifest.source.step
        );
        findings.push(Finding::Manifest { problem });
    }
    Ok(findings)
}

fn source_of(checkpoint: &Checkpoint) -> Source {
    let state = checkpoint.state();
    let name = checkpoint.folder().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let digests = state.files.iter().map(|(file, digest)| (file.clone(), format!("blake3:{}", digest.blake3)));
    Source { checkpoint: name, step: state.step, digests: digests.collect() }
}

/// The first field in which two descriptions differ.
fn difference(expected: &DecoderConfig, got: &DecoderConfig) -> (String, String) {
    let shown = |config: &DecoderConfig| format!("{:#?}", DecoderConfig { dtype: None, ..config.clone() });
    let plain = |line: &str| line.trim().trim_end_matches(',').to_owned();
    let (expected, got) = (shown(expected), shown(got));
    let found = expected.lines().zip(got.lines()).find(|(a, b)| a != b);
    found.map(|(a, b)| (plain(a), plain(b))).unwrap_or_default()
}
