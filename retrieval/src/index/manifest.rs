//! The manifest of an index: what it is of, how it was made, and every file with its length and digest.
//!
//! It is JSON, written last and replaced by renaming. Another schema number is refused before anything else is read.

use crate::analyzer::ANALYZER;
use crate::bm25::Bm25Params;
use crate::corpus::file_digest;
use crate::error::RetrievalError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// The form of index folders that this version reads and writes.
pub const SCHEMA: u32 = 1;
/// The manifest's name in the folder.
pub const MANIFEST: &str = "manifest.json";

/// Largest manifest that is read, in bytes.
const MAX_MANIFEST_BYTES: u64 = 4 * 1024 * 1024;

/// What an index is of and how it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of the folder.
    pub schema: u32,
    /// The corpus.
    pub corpus: CorpusRecord,
    /// Name and version of the analysis of words.
    pub analyzer: String,
    /// The constants of BM25.
    pub bm25: Bm25Params,
    /// Every file but the vectors, by its path in the folder.
    pub files: BTreeMap<String, FileRecord>,
    /// The vectors, where there are any.
    #[serde(default)]
    pub vectors: Option<VectorRecord>,
}

/// The corpus of an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorpusRecord {
    /// BLAKE3 of the file.
    pub digest: String,
    /// Number of documents.
    pub documents: u64,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its length.
    pub bytes: u64,
    /// Its BLAKE3 digest.
    pub blake3: String,
}

/// The vectors of an index: one a document, in the order of ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorRecord {
    /// The file's name in the folder.
    pub file: String,
    /// Values of one vector.
    pub dim: usize,
    /// Where they come from, in the words of whoever gave them: a model and its revision, or a file.
    pub source: String,
    /// BLAKE3 of the file.
    pub digest: String,
}

impl Manifest {
    /// Reads and checks the manifest of a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, RetrievalError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let path = folder.join(MANIFEST);
        let length = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let what = format!("expected an index with a {MANIFEST}, got none");
                return Err(RetrievalError::file(folder, what, "build the index, or let an interrupted build finish"));
            }
            Err(error) => return Err(RetrievalError::io("reading", &path)(error)),
        };
        let malformed = |what: String| RetrievalError::file(&path, what, "the index is damaged: build it anew");
        if length > MAX_MANIFEST_BYTES {
            return Err(malformed(format!("expected at most {MAX_MANIFEST_BYTES} bytes, got {length}")));
        }
        let text = fs::read_to_string(&path).map_err(RetrievalError::io("reading", &path))?;
        let Schema { schema } = serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
        if schema != SCHEMA {
            let what = format!("expected index schema {SCHEMA}, got {schema}");
            let cure = "build the index anew with this version, or use the version that built it";
            return Err(RetrievalError::file(folder, what, cure));
        }
        let manifest: Self = serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
        if manifest.analyzer != ANALYZER {
            let what = format!("expected words analysed by {ANALYZER}, got {:?}", manifest.analyzer);
            return Err(RetrievalError::file(folder, what, "build the index anew with this version"));
        }
        let inside = |name: &str| !name.is_empty() && !name.split('/').any(|part| part == ".." || part.is_empty());
        let names = manifest.files.keys().map(String::as_str).chain(manifest.vectors.iter().map(|v| v.file.as_str()));
        if let Some(bad) = names.into_iter().find(|name| !inside(name)) {
            return Err(malformed(format!("expected file names inside the folder, got {bad:?}")));
        }
        Ok(manifest)
    }

    /// Writes the manifest so that it is either the old one or the new one, whole.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), RetrievalError> {
        let path = folder.join(MANIFEST);
        let passing = folder.join("manifest.passing");
        let mut text =
            serde_json::to_string_pretty(self).map_err(|e| RetrievalError::io("writing", &path)(e.into()))?;
        text.push('\n');
        let mut file = File::create(&passing).map_err(RetrievalError::io("creating", &passing))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(RetrievalError::io("writing", &passing))?;
        fs::rename(&passing, &path).map_err(RetrievalError::io("renaming", &passing))?;
        sync_folder(folder)
    }

    /// Compares the lengths of all files with those written down.
    pub(crate) fn check_lengths(&self, folder: &Path) -> Result<(), RetrievalError> {
        for (name, file) in &self.files {
            let path = folder.join(name);
            let got = fs::metadata(&path).map_err(RetrievalError::io("reading", &path))?.len();
            if got != file.bytes {
                let what = format!("expected {} bytes, got {got}", file.bytes);
                return Err(RetrievalError::file(&path, what, "the index is damaged: build it anew"));
            }
        }
        Ok(())
    }
}

impl FileRecord {
    /// Length and digest of a file as it lies there.
    pub(crate) fn of(path: &Path) -> Result<Self, RetrievalError> {
        let bytes = fs::metadata(path).map_err(RetrievalError::io("reading", path))?.len();
        Ok(Self { bytes, blake3: file_digest(path)? })
    }
}

/// Makes a rename in `folder` last.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), RetrievalError> {
    let synced = File::open(folder).and_then(|f| f.sync_all());
    synced.map_err(RetrievalError::io("syncing", folder))
}
