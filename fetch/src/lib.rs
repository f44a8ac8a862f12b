//! Models and data sets from the Hugging Face hub, into the cache that `huggingface_hub` uses too: what it fetched is found
//! here, and the other way round. Transfers resume, every file is checked against the hub's own digest before it is put in
//! place, and what is in the cache is used without a network.
//!
//! The crate `hf-hub` is not used: it neither resumes nor checks, passes over `Retry-After`, and brings 38 crates, two of
//! them under a licence that this house does not take. It refuses to know what is in a model.

mod cache;
mod error;
mod fetcher;
mod hub;
mod reference;
mod settings;
mod transfer;
mod verify;
mod wanted;

#[cfg(test)]
mod tests;

pub use error::FetchError;
pub use fetcher::{Fetched, FetchedFile, Fetcher, Progress};
pub use reference::{Reference, RepositoryKind};
pub use settings::{Patience, Settings, Token};
pub use wanted::Wanted;
