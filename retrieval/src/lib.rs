//! Corpus, BM25, dense search, fusion, passages and retrieval metrics.
//!
//! This crate knows documents, an index folder and how to rank: words by BM25, vectors by exact inner
//! product or by a Qdrant server, both by reciprocal rank fusion. It takes vectors and never a model, and
//! it refuses to know actors and HTTP servers of ours, clocks and the environment. All of it is
//! synchronous but [`qdrant`], whose functions are async and whose callers bring the runtime.

pub mod analyzer;
pub mod bm25;
pub mod corpus;
pub mod dense;
pub mod error;
pub mod fusion;
pub mod index;
pub mod metrics;
pub mod qdrant;
pub mod searcher;
pub mod snippet;
pub mod store;
pub mod vectors;

pub use corpus::{Corpus, Document};
pub use error::RetrievalError;
pub use index::Index;
pub use searcher::{Answer, Mode, Query, Searcher};
