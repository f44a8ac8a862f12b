//! Whether an exported folder is what it says: every file as listed and none beside them, every tensor with its digest, a
//! description that its weights fit; and if asked, the original's tokenizer byte for byte and the checkpoint's rows rounded.
//! It refuses to mend anything. What is wrong is a finding, so that one look names all of it.

use super::folder::{files, hex, sha256, sha256_of};
use super::layout::{Wanted, wanted};
use super::manifest::{FORMAT, MANIFEST, Manifest, Removed, SUMS, TensorSaid, VERSION, read_sums};
use super::number::NumberKind;
use super::original::{CONFIG, Original, copied_names, small_file};
use super::{PIECE_VALUES, digest_f32, split};
use crate::error::TrainingError;
use crate::tensor::NamedTensor;
use legwork_model::{DecoderConfig, ModelFiles, Weights};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Findings that are kept; the rest of a folder that is this wrong adds nothing.
const FINDINGS_MAX: usize = 1000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// The list of digests cannot be used.
    #[error("{SUMS}: {problem}; export the checkpoint anew")]
    Sums {
        /// What is wrong.
        problem: String,
    },
    /// A listed file is not there.
    #[error("{file} is listed in {SUMS} and not there; copy the folder anew")]
    Missing {
        /// The file.
        file: String,
    },
    /// A file that nothing lists.
    #[error("{file} is not listed in {SUMS}; remove it, since it is not of this export")]
    Stray {
        /// The file.
        file: String,
    },
    /// A file has other bytes.
    #[error("{file}: expected the digest {expected}, got {got}; copy the folder anew, or export the checkpoint anew")]
    Changed {
        /// The file.
        file: String,
        /// As listed.
        expected: String,
        /// Of its bytes.
        got: String,
    },
    /// The manifest cannot be used, or contradicts the folder.
    #[error("{MANIFEST}: {problem}; export the checkpoint anew")]
    Manifest {
        /// What is wrong.
        problem: String,
    },
    /// The folder is no model.
    #[error("the folder opens as no decoder: {problem}")]
    Model {
        /// What is wrong.
        problem: String,
    },
    /// A tensor is not what it should be.
    #[error("tensor `{name}`: {problem}")]
    Tensor {
        /// Its name.
        name: String,
        /// What was expected and what came.
        problem: String,
    },
    /// A file is not the original's.
    #[error("{file}: {problem}; export anew with this original, or give the one that was used")]
    Original {
        /// The file.
        file: String,
        /// What was expected and what came.
        problem: String,
    },
}

/// What was looked at and found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verified {
    /// The folder's manifest, where it can be read.
    pub manifest: Option<Manifest>,
    /// Files whose digest is as listed.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Tensors whose digest is as the manifest says.
    pub tensors: usize,
    /// What is wrong, none if all is well.
    pub findings: Vec<Finding>,
}

impl Verified {
    fn find(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

/// Whether a folder looks like an export: it has a manifest.
pub fn is_export(folder: &Path) -> bool {
    folder.join(MANIFEST).is_file()
}

/// Verifies a folder by itself.
///
/// # Errors
/// A folder that cannot be read. What is wrong with it is no error but a finding.
pub fn verify(folder: &Path) -> Result<Verified, TrainingError> {
    let mut found = Verified::default();
    look_at_files(folder, &mut found)?;
    let manifest = match read_manifest(folder) {
        Ok(manifest) => manifest,
        Err(finding) => {
            found.find(finding);
            return Ok(found);
        }
    };
    look_at_tensors(folder, &manifest, &mut found);
    found.manifest = Some(manifest);
    Ok(found)
}

/// Compares a folder with the original that it was exported with: the same files beside the weights byte for byte, and the
/// same description but for its kind of number.
///
/// # Errors
/// An original that cannot be read.
pub fn verify_against_original(folder: &Path, original: &Path) -> Result<Vec<Finding>, TrainingError> {
    let original = Original::open(original)?;
    let mut findings = Vec::new();
    let mut differs = |file: &str, problem: &str| {
        findings.push(Finding::Original { file: file.to_owned(), problem: problem.to_owned() });
    };
    for (name, bytes) in &original.copied {
        match small_file(&folder.join(name)) {
            Ok(own) if own == *bytes => {}
            Ok(_) => differs(name, "expected the original's bytes, got others"),
            Err(_) => differs(name, "expected the original's file, got none that can be read"),
        }
    }
    for name in copied_names(folder)? {
        if !original.copied.contains_key(&name) {
            differs(&name, "expected no such file, as the original has none, got one");
        }
    }
    match Original::open(folder) {
        Ok(own) if own.bare_description() == original.bare_description() => {}
        Ok(_) => differs(CONFIG, "expected the original's description but for its kind of number, got another"),
        Err(error) => {
            differs(CONFIG, &format!("expected the original's description, got none that can be read: {error}"))
        }
    }
    Ok(findings)
}

/// Compares a folder with the checkpoint that it was made of: every row is the checkpoint's, rounded.
///
/// # Errors
/// Tensors that cannot be read, or a folder that holds no decoder.
pub fn verify_against_tensors(
    folder: &Path,
    tensors: impl IntoIterator<Item = Result<NamedTensor, TrainingError>>,
) -> Result<Vec<Finding>, TrainingError> {
    let config = Original::open(folder)?.config;
    let mut weights = Weights::open_safetensors(folder)?;
    let mut left: BTreeMap<String, Wanted> =
        wanted(&config).into_iter().map(|wanted| (wanted.name.clone(), wanted)).collect();
    let manifest = read_manifest(folder);
    let said: BTreeMap<&str, &TensorSaid> = match &manifest {
        Ok(manifest) => manifest.tensors.iter().map(|said| (said.name.as_str(), said)).collect(),
        Err(_) => BTreeMap::new(),
    };
    let mut findings: Vec<Finding> = manifest.as_ref().err().cloned().into_iter().collect();
    for tensor in tensors {
        let tensor = tensor?;
        let Some(wanted) = left.remove(&tensor.name) else {
            let problem = "expected none of the name in the checkpoint, got one".to_owned();
            findings.push(Finding::Tensor { name: tensor.name, problem });
            continue;
        };
        let found = difference(&mut weights, &wanted, &tensor)?;
        let found = found.or_else(|| other_source(said.get(tensor.name.as_str())?, &wanted, &tensor));
        if let Some(problem) = found {
            findings.push(Finding::Tensor { name: tensor.name, problem });
        }
    }
    for (name, _) in left {
        findings.push(Finding::Tensor { name, problem: "expected it in the checkpoint, got none".to_owned() });
    }
    Ok(findings)
}

/// How a tensor of a folder differs from the checkpoint's.
fn difference(weights: &mut Weights, wanted: &Wanted, tensor: &NamedTensor) -> Result<Option<String>, TrainingError> {
    let stored = weights.take(&wanted.name, wanted.shape)?;
    let Some(kind) = NumberKind::of(stored.dtype()) else {
        return Ok(Some(format!("expected floats, got {}", stored.dtype().name())));
    };
    let kept = match split(wanted, tensor) {
        Ok((kept, _padding)) => kept,
        Err(problem) => return Ok(Some(problem)),
    };
    let mut rounded = Vec::new();
    let pieces = stored.bytes().chunks(PIECE_VALUES * kind.bytes() as usize);
    for (piece, (values, bytes)) in kept.chunks(PIECE_VALUES).zip(pieces).enumerate() {
        rounded.clear();
        let at = match kind.write(values, &mut rounded) {
            Err(bad) => Some(bad.at),
            Ok(()) if rounded == bytes => None,
            Ok(()) => {
                let first = rounded.iter().zip(bytes).position(|(a, b)| a != b);
                first.map(|byte| byte / kind.bytes() as usize)
            }
        };
        if let Some(at) = at {
            let value = piece * PIECE_VALUES + at;
            return Ok(Some(format!(
                "expected the checkpoint's values as {}, got another in row {}, column {}; export the checkpoint anew",
                kind.name(),
                value / wanted.shape[1],
                value % wanted.shape[1]
            )));
        }
    }
    Ok(None)
}

/// How what the manifest says of a tensor before it was rounded differs from the checkpoint's.
fn other_source(said: &TensorSaid, wanted: &Wanted, tensor: &NamedTensor) -> Option<String> {
    let (kept, padding) = split(wanted, tensor).ok()?;
    let of = |values: &[f32]| {
        let (mut digest, mut bytes) = (Sha256::new(), Vec::new());
        values.chunks(PIECE_VALUES).for_each(|values| digest_f32(values, &mut bytes, &mut digest));
        hex(digest)
    };
    let removed = (!padding.is_empty()).then(|| Removed { rows: padding.len() / wanted.shape[1], sha256: of(padding) });
    if said.source_sha256 != of(kept) {
        return Some(format!("expected the digest of the checkpoint's rows in {MANIFEST}, got another; export anew"));
    }
    (said.removed != removed)
        .then(|| format!("expected the checkpoint's padding in {MANIFEST}, got other rows of it; export anew"))
}

/// Digests of all files, and none beside them.
fn look_at_files(folder: &Path, found: &mut Verified) -> Result<(), TrainingError> {
    let there = files(folder)?;
    let text = small_file(&folder.join(SUMS)).map_err(|error| error.to_string());
    let text =
        text.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "expected UTF-8, got another encoding".to_owned()));
    let sums = text.and_then(|text| read_sums(&text).map_err(|bad| format!("line {}: {}", bad.line, bad.problem)));
    let sums = match sums {
        Ok(sums) => sums,
        Err(problem) => {
            found.find(Finding::Sums { problem });
            return Ok(());
        }
    };
    let listed: BTreeSet<&str> = sums.keys().map(String::as_str).chain([SUMS]).collect();
    for file in there.into_iter().filter(|file| !listed.contains(file.as_str())) {
        found.find(Finding::Stray { file });
    }
    for needed in [MANIFEST, CONFIG] {
        if !sums.contains_key(needed) {
            found.find(Finding::Sums { problem: format!("expected a line for {needed}, got none") });
        }
    }
    for (file, expected) in &sums {
        let path = folder.join(file);
        if !path.is_file() {
            found.find(Finding::Missing { file: file.clone() });
            continue;
        }
        let (got, bytes) = sha256_of(&path)?;
        if got == *expected {
            found.files += 1;
            found.bytes += bytes;
        } else {
            found.find(Finding::Changed { file: file.clone(), expected: expected.clone(), got });
        }
    }
    Ok(())
}

pub(super) fn read_manifest(folder: &Path) -> Result<Manifest, Finding> {
    let wrong = |problem: String| Finding::Manifest { problem };
    let bytes = small_file(&folder.join(MANIFEST)).map_err(|error| wrong(error.to_string()))?;
    let manifest: Manifest = serde_json::from_slice(&bytes)
        .map_err(|error| wrong(format!("expected a manifest, got something else: {error}")))?;
    if manifest.format != FORMAT || manifest.version != VERSION {
        let got: String = manifest.format.chars().take(100).collect();
        return Err(wrong(format!(
            "expected {FORMAT:?} of version {VERSION}, got {got:?} of version {}",
            manifest.version
        )));
    }
    Ok(manifest)
}

/// The folder opens, has the tensors that its description asks for and no other, and each has its digest.
fn look_at_tensors(folder: &Path, manifest: &Manifest, found: &mut Verified) {
    let opened = ModelFiles::open(folder).and_then(|files| files.decoder().cloned());
    let (config, mut weights) = match opened.and_then(|config| Ok((config, Weights::open_safetensors(folder)?))) {
        Ok(both) => both,
        Err(error) => return found.find(Finding::Model { problem: error.to_string() }),
    };
    compare_said(folder, &config, manifest, found);
    let mut said: BTreeMap<&str, _> = manifest.tensors.iter().map(|said| (said.name.as_str(), said)).collect();
    if said.len() != manifest.tensors.len() {
        found.find(Finding::Manifest { problem: "expected each tensor once, got one twice".to_owned() });
    }
    for wanted in wanted(&config) {
        let name = wanted.name.clone();
        let Some(said) = said.remove(name.as_str()) else {
            found.find(Finding::Tensor { name, problem: format!("expected it in {MANIFEST}, got none of the name") });
            continue;
        };
        let stored = match weights.take(&name, wanted.shape) {
            Ok(stored) => stored,
            Err(error) => {
                found.find(Finding::Tensor { name, problem: error.to_string() });
                continue;
            }
        };
        let got = sha256(stored.bytes());
        let problem = if NumberKind::of(stored.dtype()) != Some(manifest.dtype) {
            Some(format!("expected {} as {MANIFEST} says, got {}", manifest.dtype.name(), stored.dtype().name()))
        } else if said.shape != wanted.dimensions() {
            Some(format!("expected the shape {:?}, got {:?} in {MANIFEST}", wanted.dimensions(), said.shape))
        } else if got != said.sha256 {
            Some(format!("expected the digest {} of {MANIFEST}, got {got}; copy the folder anew", said.sha256))
        } else if manifest.dtype == NumberKind::F32 && said.sha256 != said.source_sha256 {
            Some("expected float32 to have the digest of the checkpoint's rows, got another; export anew".to_owned())
        } else {
            None
        };
        match problem {
            Some(problem) => found.find(Finding::Tensor { name, problem }),
            None => found.tensors += 1,
        }
    }
    let unused =
        weights.rest().into_iter().map(|name| (name, "expected no such tensor, as the description has none, got one"));
    let unheld = said.into_keys().map(|name| (name, "expected no such tensor in the manifest, got one"));
    for (name, problem) in unused.chain(unheld) {
        found.find(Finding::Tensor { name: name.to_owned(), problem: problem.to_owned() });
    }
}

/// What the manifest says of the description and of the files that were copied.
fn compare_said(folder: &Path, config: &DecoderConfig, manifest: &Manifest, found: &mut Verified) {
    let copied = copied_names(folder).unwrap_or_default();
    let mut wrong = |problem: String| found.find(Finding::Manifest { problem });
    if config.vocabulary != manifest.vocabulary {
        wrong(format!("expected the {} rows that {CONFIG} says, got {}", config.vocabulary, manifest.vocabulary));
    }
    if config.dtype.and_then(NumberKind::of) != Some(manifest.dtype) {
        let got = config.dtype.map_or("nothing", legwork_kernels::Dtype::name);
        wrong(format!("expected {CONFIG} to say {}, got {got}", manifest.dtype.name()));
    }
    for (name, expected) in &manifest.original.copied {
        // A name that leads out of the folder is listed nowhere, so it is not read here either.
        let is_copied = copied.contains(name);
        let got = is_copied.then(|| small_file(&folder.join(name)).ok()).flatten().map(|bytes| sha256(&bytes));
        if got.as_ref() != Some(expected) {
            let got = got.unwrap_or_else(|| "no such file".to_owned());
            found.find(Finding::Changed { file: name.clone(), expected: expected.clone(), got });
        }
    }
    for name in copied.iter().filter(|name| !manifest.original.copied.contains_key(*name)) {
        let problem = format!("expected it to name {name} as copied, got nothing of it");
        found.find(Finding::Manifest { problem });
    }
}
