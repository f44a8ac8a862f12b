//! From settings to what a run is made of: a world, a library over its corpus, models behind routes, counters of
//! tokens, and the cast. It builds things and runs nothing.

mod cast;
mod embedded;
mod library;
mod machine;
mod models;
mod served;
mod vectors;
mod world;

pub use cast::{assemble_cast, lines_digest, load_script};
pub use embedded::placed;
pub use library::{LibraryParts, assemble_library, build_world_index};
pub(crate) use library::{bm25_params, qdrant, query_prefix, search_settings};
pub use machine::for_machine;
pub use models::{
    Counters, Embedding, ModelParts, assemble_models, counters, embedder, local_embedding, prompt_encoder,
};
pub use served::{ServedEmbedder, ServedModel};
pub(crate) use vectors::embed;
pub use world::{LoadedWorld, load_world};

use std::path::PathBuf;

/// What can go wrong while a run is put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// The configuration asks for what there is not.
    #[error("{0}")]
    Setting(String),
    /// A world cannot be read.
    #[error(transparent)]
    World(#[from] legwork_worlds::WorldError),
    /// A corpus or index cannot be used.
    #[error(transparent)]
    Retrieval(#[from] legwork_retrieval::RetrievalError),
    /// An endpoint cannot be built.
    #[error(transparent)]
    Endpoint(#[from] legwork_endpoints::EndpointError),
    /// A tokenizer cannot be used.
    #[error(transparent)]
    Model(#[from] legwork_model::ModelError),
    /// A model in this process cannot be opened.
    #[error(transparent)]
    Local(#[from] legwork_actors::local::LocalError),
    /// A part could not be started, or failed.
    #[error(transparent)]
    Failure(#[from] legwork_protocol::failure::Failure),
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}
