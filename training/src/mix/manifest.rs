//! What a mixture was made of and how: enough to make it again and to compare the bytes. It refuses to read files.

use super::GradientShare;
use crate::mask::{MaskKind, TextDigests};
use crate::rows::BadReport;
use serde::{Deserialize, Serialize};

/// The manifest's form.
pub const FORMAT: &str = "legwork-mix/1";

/// How a mixture is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// How often each core row comes.
    pub repeat: u32,
    /// The seed of every shuffle.
    pub seed: u64,
    /// Rows of a slot, for the shares.
    pub batch: usize,
}

/// The page beside a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixManifest {
    /// [`FORMAT`].
    pub format: String,
    /// How it was made.
    pub recipe: Recipe,
    /// How tokens in the loss were counted.
    pub mask: MaskKind,
    /// The template's name.
    pub template: String,
    /// What the counts were made with.
    pub digests: TextDigests,
    /// Tokens of a row at most, if there was a limit.
    pub length_max: Option<usize>,
    /// Tokens in the loss that each part was to have.
    pub target_tokens: u64,
    /// How many the gate rows stay below that.
    pub gap_tokens: u64,
    /// Passes over the gate rows, the last and unfinished one included.
    pub passes: u64,
    /// The repeated part.
    pub core: PartManifest,
    /// The drawn part.
    pub gate: PartManifest,
    /// Whole slots.
    pub slots: u64,
    /// Rows behind the last whole slot, in the order that is written.
    pub rows_beyond_slots: u64,
    /// What was written.
    pub output: Output,
    /// Rows that were left out as bad.
    pub bad: BadReport,
}

/// One part of a mixture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartManifest {
    /// Its files.
    pub inputs: Vec<Input>,
    /// Good rows in them.
    pub source_rows: u64,
    /// Rows of it in the mixture.
    pub rows: u64,
    /// Different rows of it in the mixture.
    pub distinct_rows: u64,
    /// Tokens in the loss of the rows in the mixture.
    pub supervised_tokens: u64,
    /// All tokens of the rows in the mixture.
    pub tokens: u64,
    /// What it makes of the gradient, in the order that is written; another shuffle differs by chance.
    pub gradient: GradientShare,
}

/// A file that was mixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// As it was named, with its slice.
    pub source: String,
    /// SHA-256 of the whole file, in hexadecimal.
    pub sha256: String,
    /// Bytes of the whole file.
    pub bytes: u64,
    /// Good rows of the slice.
    pub rows: u64,
}

/// The file that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Its name beside the manifest.
    pub file: String,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
    /// Bytes.
    pub bytes: u64,
    /// Rows.
    pub rows: u64,
}
