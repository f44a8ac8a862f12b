//! The digest of a model: BLAKE3 of each file, and one over their names, lengths and digests. It refuses to know what the
//! files are.

use super::file_name;
use crate::error::ModelError;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes that are read at once, and between two calls of `progress`.
const PIECE_BYTES: usize = 4 << 20;
/// Begins the digest of all files, so that it is no digest of anything else.
const DOMAIN: &str = "legwork model files, version 1";

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// Its name, with the folder before it where it is not in the model's own.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3, in hex.
    pub blake3: String,
}

/// All files of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelDigest {
    /// Each of them, by name.
    pub files: Vec<FileDigest>,
    /// BLAKE3 over them, in hex: two models with the same one are the same, wherever they lie.
    pub blake3: String,
}

pub(super) fn digest(files: &[PathBuf], progress: &mut dyn FnMut(u64, u64)) -> Result<ModelDigest, ModelError> {
    let length = |path: &PathBuf| std::fs::metadata(path).map(|found| found.len()).map_err(|error| wrong(path, &error));
    let total = files.iter().map(length).sum::<Result<u64, ModelError>>()?;
    let folder = files.iter().filter_map(|path| path.parent()).min_by_key(|folder| folder.components().count());
    let mut done = 0;
    let mut found = Vec::with_capacity(files.len());
    for path in files {
        let within = folder.and_then(|folder| path.strip_prefix(folder).ok());
        let parts = within.map(|path| path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"));
        let name = parts.unwrap_or_else(|| file_name(path));
        let mut advance = |bytes: u64| {
            done += bytes;
            progress(done, total);
        };
        let (bytes, blake3) = digest_of(path, &mut advance)?;
        found.push(FileDigest { name, bytes, blake3 });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let mut all = blake3::Hasher::new_derive_key(DOMAIN);
    for file in &found {
        all.update(&(file.name.len() as u64).to_le_bytes());
        all.update(file.name.as_bytes());
        all.update(&file.bytes.to_le_bytes());
        all.update(file.blake3.as_bytes());
    }
    Ok(ModelDigest { files: found, blake3: all.finalize().to_hex().to_string() })
}

fn digest_of(path: &Path, advance: &mut dyn FnMut(u64)) -> Result<(u64, String), ModelError> {
    let mut file = std::fs::File::open(path).map_err(|error| wrong(path, &error))?;
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut total = 0;
    loop {
        let read = file.read(&mut piece).map_err(|error| wrong(path, &error))?;
        if read == 0 {
            return Ok((total, hasher.finalize().to_hex().to_string()));
        }
        hasher.update(&piece[..read]);
        total += read as u64;
        advance(read as u64);
    }
}

fn wrong(path: &Path, error: &std::io::Error) -> ModelError {
    ModelError::File { path: path.to_path_buf(), detail: error.to_string() }
}
