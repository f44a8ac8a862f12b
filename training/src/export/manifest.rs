//! What an exported folder says of itself: `legwork.json`, where its numbers come from and the digest of each tensor before and
//! after; and `SHA256SUMS`, the digest of every file, as `sha256sum -c` reads it.
//! It refuses to know whether it is true; that is for whoever verifies it.

use super::number::NumberKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The manifest's file.
pub const MANIFEST: &str = "legwork.json";
/// The list of digests.
pub const SUMS: &str = "SHA256SUMS";
/// Says that a file is a manifest of this kind.
pub(super) const FORMAT: &str = "legwork export";
/// The version that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;
/// Characters of a SHA-256 in hex.
const DIGEST_CHARS: usize = 64;

/// What an exported folder says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `legwork export`.
    pub format: String,
    /// Of this form.
    pub version: u32,
    /// What was exported.
    pub source: Source,
    /// What the trainer says of the run: settings, and digests of its inputs.
    pub run: Value,
    /// The model that training began from.
    pub original: OriginalSaid,
    /// The kind of number of every tensor.
    pub dtype: NumberKind,
    /// Rows of the embedding, without padding.
    pub vocabulary: usize,
    /// Every tensor, in the order of computation.
    pub tensors: Vec<TensorSaid>,
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The checkpoint's name.
    pub checkpoint: String,
    /// Updates that it has seen.
    pub step: u64,
    /// Digests of its files, as the checkpoint states them.
    pub digests: BTreeMap<String, String>,
}

/// The model that training began from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginalSaid {
    /// What it is called.
    pub name: String,
    /// SHA-256 of its `config.json`.
    pub config_sha256: String,
    /// SHA-256 of the files that were copied from it byte for byte.
    pub copied: BTreeMap<String, String>,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSaid {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The file that it is in.
    pub file: String,
    /// SHA-256 of its bytes in the file.
    pub sha256: String,
    /// SHA-256 of the same rows in the checkpoint, as little-endian `f32`: for a folder of `float32` the same.
    pub source_sha256: String,
    /// What stood behind these rows in the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removed>,
}

/// Rows of padding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// How many.
    pub rows: usize,
    /// SHA-256 of their values as little-endian `f32`.
    pub sha256: String,
}

/// A line of `SHA256SUMS` that is none, from 1, with what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line.
    pub line: usize,
    /// What was expected and what came.
    pub problem: String,
}

/// Reads `SHA256SUMS`: a digest, two blanks (or a blank and a star), and the name of a file in the folder or one level below.
///
/// # Errors
/// The first line that is not so, or that names a file a second time.
pub fn read_sums(text: &str) -> Result<BTreeMap<String, String>, BadLine> {
    let mut sums = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let bad = |problem: String| BadLine { line: number + 1, problem };
        let (digest, file) = line
            .split_once("  ")
            .or_else(|| line.split_once(" *"))
            .ok_or_else(|| bad("expected a digest, two blanks and a name".to_owned()))?;
        let is_digest =
            digest.len() == DIGEST_CHARS && digest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !is_digest {
            return Err(bad(format!("expected {DIGEST_CHARS} digits of lowercase hex before the name")));
        }
        if !stays_inside(file) {
            return Err(bad("expected the name of a file in this folder".to_owned()));
        }
        if sums.insert(file.to_owned(), digest.to_owned()).is_some() {
            return Err(bad(format!("expected each file once, got `{file}` again")));
        }
    }
    Ok(sums)
}

/// Whether a name is of a file in the folder or one level below it.
fn stays_inside(name: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && !part.contains(|c: char| c == '\\' || c == ':' || c.is_control())
    };
    name.split('/').count() <= 2 && name.split('/').all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::folder::{sha256, sums_text};
    use proptest::prelude::*;

    #[test]
    fn lines_that_lead_out_or_repeat_are_refused_by_their_number() {
        let digest = sha256(b"x");
        for (line, words) in [
            (format!("{digest}  ../x"), "in this folder"),
            (format!("{digest}  /x"), "in this folder"),
            (format!("{digest}  a/b/c"), "in this folder"),
            (format!("{digest}  a"), "`a` again"),
            (format!("{digest} x"), "two blanks"),
            (format!("{}  x", digest.to_uppercase()), "lowercase hex"),
            (format!("{}  x", &digest[1..]), "64 digits"),
        ] {
            let bad = read_sums(&format!("{digest}  a\n{line}\n")).unwrap_err();
            assert_eq!(bad.line, 2);
            assert!(bad.problem.contains(words), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let _read_or_refused = read_sums(&text);
        }

        #[test]
        fn what_is_written_reads_back(names in prop::collection::btree_set("[a-z]{1,9}(/[a-z]{1,9})?", 0..9)) {
            let sums: BTreeMap<String, String> = names.into_iter().map(|name| (name.clone(), sha256(name.as_bytes()))).collect();
            prop_assert_eq!(read_sums(&sums_text(&sums)).unwrap(), sums);
        }
    }
}
