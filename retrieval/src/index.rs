//! An index folder: documents, words and, where given, vectors, under a manifest that names every file.
//!
//! It refuses to open what it cannot vouch for: another schema, another analysis, a changed corpus, a file of
//! another length. A folder appears under its name only when it is whole. Documents are numbered by the order
//! of their ids, so that smaller numbers win ties everywhere.

pub mod build;
mod embed;
pub mod manifest;

use crate::bm25::{Bm25, Bm25Params};
use crate::corpus::{Corpus, file_digest};
use crate::dense::Dense;
use crate::error::RetrievalError;
use crate::store::{Store, StoredDocument};
use manifest::{MANIFEST, Manifest};
use std::path::{Path, PathBuf};

pub use build::{BuildProgress, BuildSettings, Stage};
pub use embed::VectorWriter;

/// How to open an index.
#[derive(Clone, Debug, Default)]
pub struct OpenSettings {
    /// The corpus that the index must be of; its digest is compared.
    pub corpus: Option<Corpus>,
    /// Constants to search with, where they are not those of the build.
    pub bm25: Option<Bm25Params>,
}

/// An open index; any number of threads may search it.
pub struct Index {
    folder: PathBuf,
    manifest: Manifest,
    store: Store,
    bm25: Bm25,
    dense: Option<Dense>,
}

impl Index {
    /// Builds an index of `corpus` in `folder`, or finishes an interrupted build, and opens it.
    ///
    /// Memory is bounded by a few parts of text (see [`build`]), some 40 bytes a document and the order of ids.
    ///
    /// # Errors
    /// A bad corpus, a folder that is in use or has other content, or a failing disk. Work done is kept beside
    /// the folder and used by the next attempt.
    pub fn build(
        corpus: &Corpus,
        folder: &Path,
        settings: &BuildSettings,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<Self, RetrievalError> {
        build::build(corpus, folder, settings, progress)?;
        Self::open(folder, &OpenSettings::default())
    }

    /// Opens the index in `folder`.
    ///
    /// # Errors
    /// No manifest, another schema or analysis, a corpus of another digest, or files of other lengths.
    pub fn open(folder: &Path, settings: &OpenSettings) -> Result<Self, RetrievalError> {
        let manifest = Manifest::read(folder)?;
        if let Some(corpus) = &settings.corpus {
            let got = corpus.digest()?;
            if got != manifest.corpus.digest {
                let what = format!(
                    "expected the corpus with digest {}, got {} with digest {got}",
                    manifest.corpus.digest,
                    corpus.path().display()
                );
                let cure = "the corpus changed since the index was built: build the index anew or give the old corpus";
                return Err(RetrievalError::file(folder, what, cure));
            }
        }
        manifest.check_lengths(folder)?;
        let store = Store::open(folder)?;
        let bm25 = Bm25::open(folder, manifest.bm25, settings.bm25.unwrap_or(manifest.bm25))?;
        let documents = manifest.corpus.documents;
        if store.len() as u64 != documents || bm25.documents() as u64 != documents {
            let what =
                format!("expected {documents} documents, got {} texts and {} lengths", store.len(), bm25.documents());
            return Err(RetrievalError::file(folder, what, "the index is damaged: build it anew"));
        }
        let dense =
            manifest.vectors.as_ref().map(|v| Dense::open(&folder.join(&v.file), v.dim, store.len())).transpose()?;
        Ok(Self { folder: folder.to_owned(), manifest, store, bm25, dense })
    }

    /// Compares every file with its digest in the manifest; reads all of them.
    ///
    /// # Errors
    /// The first file that differs.
    pub fn verify(&self) -> Result<(), RetrievalError> {
        for (name, file) in &self.manifest.files {
            let path = self.folder.join(name);
            if file_digest(&path)? != file.blake3 {
                let what = format!("expected digest {}, got another", file.blake3);
                return Err(RetrievalError::file(&path, what, "the index is damaged: build it anew"));
            }
        }
        Ok(())
    }

    /// What the index is of.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are no documents; a built index always has some.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// The words.
    pub fn bm25(&self) -> &Bm25 {
        &self.bm25
    }

    /// The vectors, where the index has them.
    pub fn dense(&self) -> Option<&Dense> {
        self.dense.as_ref()
    }

    /// The document of a number: its position in the order of ids.
    ///
    /// # Errors
    /// No such number, or a damaged index.
    pub fn document(&self, number: u32) -> Result<StoredDocument<'_>, RetrievalError> {
        if number as usize >= self.len() {
            let what = format!("expected a document number below {}, got {number}", self.len());
            return Err(RetrievalError::file(&self.folder, what, "ask for numbers that a search gave"));
        }
        self.store.get(self.store.row_of_rank(number))
    }

    /// The number of the document with exactly this id.
    ///
    /// # Errors
    /// A damaged index.
    pub fn number_of_docid(&self, docid: &str) -> Result<Option<u32>, RetrievalError> {
        Ok(self.store.row_of_docid(docid)?.map(|row| self.store.docid_ranks()[row as usize]))
    }

    /// The number of the first document in corpus order with exactly this url.
    ///
    /// # Errors
    /// A damaged index.
    pub fn number_of_url(&self, url: &str) -> Result<Option<u32>, RetrievalError> {
        Ok(self.store.row_of_url(url)?.map(|row| self.store.docid_ranks()[row as usize]))
    }

    /// For each row of the words, the document's number.
    pub(crate) fn numbers(&self) -> &[u32] {
        self.store.docid_ranks()
    }
}

/// Whether a folder holds an index: a whole one, since it appears by renaming.
pub fn is_index(folder: &Path) -> bool {
    folder.join(MANIFEST).is_file()
}

#[cfg(test)]
mod tests;
