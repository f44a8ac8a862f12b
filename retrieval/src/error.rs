//! What retrieval refuses and why; each text says what to do.

use legwork_kernels::KernelError;
use std::path::{Path, PathBuf};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum RetrievalError {
    /// The operating system refused something.
    #[error("{}: {action} failed: {source}", path.display())]
    Io {
        /// What was attempted, as a noun: "reading", "renaming".
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A line of a text file is not what it must be.
    #[error("{}, line {line}: {what}; {cure}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from one.
        line: u64,
        /// What was expected and what came.
        what: String,
        /// What to do.
        cure: &'static str,
    },
    /// A row of a binary file is not what it must be.
    #[error("{}, row {row}: {what}; {cure}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Row number, from zero.
        row: u64,
        /// What was expected and what came.
        what: String,
        /// What to do.
        cure: &'static str,
    },
    /// A file as a whole is not what it must be.
    #[error("{}: {what}; {cure}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was expected and what came.
        what: String,
        /// What to do.
        cure: &'static str,
    },
    /// A setting lies outside its range.
    #[error("{name}: expected {expected}, got {got}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its range.
        expected: &'static str,
        /// What was given.
        got: String,
    },
    /// A query cannot be answered as it is.
    #[error("query {number}: {what}; {cure}")]
    Query {
        /// Which of the batch, from zero.
        number: usize,
        /// What was expected and what came.
        what: String,
        /// What to do.
        cure: &'static str,
    },
    /// Vectors that the numeric operations refuse.
    #[error("vectors: {0}")]
    Vectors(#[from] KernelError),
    /// The inverted index failed.
    #[error("the bm25 index failed: {0}; rebuild the index if this lasts")]
    Bm25(#[from] tantivy::TantivyError),
    /// The Qdrant server cannot be reached or is failing; another attempt may succeed.
    #[error("qdrant at {url} is unavailable: {what}; check that the server runs and can be reached")]
    QdrantUnavailable {
        /// The server's address.
        url: String,
        /// What the client said.
        what: String,
    },
    /// The Qdrant server refuses this, and would again.
    #[error("qdrant at {url}, collection {collection}: {what}; {cure}")]
    Qdrant {
        /// The server's address.
        url: String,
        /// The collection.
        collection: String,
        /// What was expected and what came.
        what: String,
        /// What to do.
        cure: &'static str,
    },
    /// A run or a relevance judgement is inconsistent.
    #[error("topic {topic}: {what}; {cure}")]
    Topic {
        /// The topic.
        topic: String,
        /// What was expected and what came.
        what: String,
        /// What to do.
        cure: &'static str,
    },
}

impl RetrievalError {
    /// An operating system's failure with the path it concerns; for `map_err`.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// A fault of a whole file.
    pub(crate) fn file(path: &Path, what: impl Into<String>, cure: &'static str) -> Self {
        Self::File { path: path.to_owned(), what: what.into(), cure }
    }

    /// Whether the dense half of a hybrid search is down, so that words alone may answer where allowed.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::QdrantUnavailable { .. })
    }
}
