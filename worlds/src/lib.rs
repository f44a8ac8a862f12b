//! Corpora with their questions: the generated archive and the readers of published sets. Pure but for reading the
//! files it is given.
//!
//! It refuses to know how documents are searched, how answers are graded and how anything runs. It skips nothing in
//! silence: whatever it does not take is an error that names file, line and cure, or a listed warning.

pub mod archive;
pub mod browsecomp_plus;
pub mod contamination;
pub mod errata;
pub mod error;
pub mod foldagent;
mod jsonl;
pub mod multihop;
pub mod obfuscation;
#[path = "../../retrieval/src/corpus/pages.rs"]
mod pages;
pub mod plain;
pub mod qrels;
pub mod telling;
pub mod world;

pub use error::WorldError;
pub use jsonl::LINE_BYTES_MAX;
pub use world::{Canary, Missing, MissingDocument, World, WorldDigests, WorldDocument};
