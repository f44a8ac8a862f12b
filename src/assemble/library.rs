//! The library of a run: an index of ours over the world's corpus, or somebody's search server. An index that is not
//! there yet is built by the way and kept.

use super::vectors::{embed, vectors_source};
use super::{AssembleError, Embedding, LoadedWorld};
use crate::config::{IndexSettings, Settings};
use legwork_actors::retriever::{Library, LocalLibrary, ServerLibrary};
use legwork_endpoints::search::SearchClient;
use legwork_protocol::profile::{RetrievalMode, RetrievalSettings};
use legwork_retrieval::bm25::Bm25Params;
use legwork_retrieval::fusion::FusionSettings;
use legwork_retrieval::index::{BuildProgress, BuildSettings, OpenSettings, Stage, is_index};
use legwork_retrieval::qdrant::{ApiKey, QdrantCollection, QdrantSettings, ServerSearch};
use legwork_retrieval::searcher::SearchSettings;
use legwork_retrieval::{Corpus, Index, Mode, Searcher};
use legwork_worlds::plain;
use std::path::PathBuf;
use std::sync::Arc;

/// A library and what the manifest says of it.
pub struct LibraryParts {
    /// The library.
    pub library: Arc<dyn Library>,
    /// Names and digests: corpus, index, vectors.
    pub inputs: Vec<(String, String)>,
}

/// Opens the library of a run.
///
/// # Errors
/// An index that does not fit the corpus or the profile, or a server that cannot be used.
pub async fn assemble_library(
    settings: &Settings,
    world: &LoadedWorld,
    embedding: Option<Embedding>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<LibraryParts, AssembleError> {
    let index = &settings.index;
    if let Some(server) = &index.server {
        let library = ServerLibrary::new(SearchClient::new("index.server", server)?);
        library.health().await?;
        let inputs = vec![("corpus".to_owned(), library.name().to_owned())];
        return Ok(LibraryParts { library: Arc::new(library), inputs });
    }
    let retrieval = &settings.profile.retrieval;
    let folder = match (&index.folder, &embedding) {
        (Some(folder), _) => folder.clone(),
        (None, Some(embedding)) if retrieval.mode != RetrievalMode::Bm25 => {
            build_embedded_index(index, retrieval, world, embedding, progress).await?
        }
        (None, _) => build_world_index(index, retrieval, world, progress)?,
    };
    let bm25 = Some(bm25_params(retrieval));
    let corpus = world.corpus.as_ref().filter(|_| index.folder.is_some()).map(|path| Corpus::open(path)).transpose()?;
    let opened = Index::open(&folder, &OpenSettings { corpus, bm25 })?;
    let manifest = opened.manifest().clone();
    let remote = qdrant(index, &opened).await?;
    let searcher = Searcher::new(Arc::new(opened), search_settings(retrieval), remote)?;
    let prefix = query_prefix(retrieval, embedding.as_ref());
    let asked = embedding.as_ref().filter(|_| searcher.settings().mode != Mode::Bm25);
    let embedder_input = asked.map(|embedding| format!("{}, query prefix {prefix:?}", embedding.source));
    let embedder = embedding.map(|embedding| embedding.embedder);
    let library = LocalLibrary::start(searcher, embedder, prefix, index.threads)?;
    let mut inputs =
        vec![("corpus".to_owned(), manifest.corpus.digest.clone()), ("analyzer".to_owned(), manifest.analyzer.clone())];
    inputs.extend(
        manifest.vectors.map(|vectors| ("vectors".to_owned(), format!("{} {}", vectors.source, vectors.digest))),
    );
    inputs.extend(embedder_input.map(|input| ("embedder".to_owned(), input)));
    inputs.extend(index.qdrant.as_ref().map(|qdrant| ("qdrant".to_owned(), qdrant.collection.clone())));
    Ok(LibraryParts { library: Arc::new(library), inputs })
}

/// What is put before a query for its embedding: as configured, or else what the model's files say.
pub(crate) fn query_prefix(retrieval: &RetrievalSettings, embedding: Option<&Embedding>) -> String {
    match (retrieval.query_prefix.as_str(), embedding) {
        ("", Some(embedding)) => embedding.query_prompt.clone(),
        (configured, _) => configured.to_owned(),
    }
}

/// Builds the index of a world's corpus into the cache, unless it is there. Returns its folder.
///
/// # Errors
/// A world without a corpus, a bad corpus, or a failing disk.
pub fn build_world_index(
    settings: &IndexSettings,
    retrieval: &RetrievalSettings,
    world: &LoadedWorld,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PathBuf, AssembleError> {
    let path = write_corpus(settings, world)?;
    let corpus = Corpus::open(&path)?;
    let folder = settings.cache.join(format!("{}-{}", world.name, &corpus.digest()?[..12]));
    if !is_index(&folder) {
        let build = BuildSettings::new(bm25_params(retrieval), settings.threads);
        Index::build(&corpus, &folder, &build, progress)?;
    }
    Ok(folder)
}

/// The file of a world's corpus, written into the cache where the world is no file.
fn write_corpus(settings: &IndexSettings, world: &LoadedWorld) -> Result<PathBuf, AssembleError> {
    let io = |path: &std::path::Path| {
        let path = path.to_path_buf();
        move |source| AssembleError::Io { path, source }
    };
    std::fs::create_dir_all(&settings.cache).map_err(io(&settings.cache))?;
    Ok(match &world.corpus {
        Some(path) => path.clone(),
        None if world.documents.is_empty() => {
            return Err(AssembleError::Setting(format!(
                "the world {} has no corpus here; name one under [world], or a search server under index.server",
                world.name
            )));
        }
        // The corpus is written down under its own digest, so that two runs at once write the same file.
        None => {
            let mut bytes = Vec::new();
            plain::write_corpus(&world.documents, &mut bytes)?;
            let digest = blake3::hash(&bytes).to_hex();
            let path = settings.cache.join(format!("{}-{}.jsonl", world.name, &digest[..12]));
            if !path.exists() {
                let making = path.with_extension(format!("making-{}", std::process::id()));
                std::fs::write(&making, &bytes).map_err(io(&making))?;
                std::fs::rename(&making, &path).map_err(io(&path))?;
            }
            path
        }
    })
}

/// Builds the index of a world's corpus with vectors of this embedder into the cache, unless it is there. Returns its folder.
async fn build_embedded_index(
    settings: &IndexSettings,
    retrieval: &RetrievalSettings,
    world: &LoadedWorld,
    embedding: &Embedding,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PathBuf, AssembleError> {
    let source = vectors_source(&embedding.source, &embedding.document_prompt);
    let name = blake3::hash(source.as_bytes()).to_hex();
    let path = write_corpus(settings, world)?;
    let corpus = Corpus::open(&path)?;
    let folder = settings.cache.join(format!("{}-{}-{}", world.name, &corpus.digest()?[..12], &name[..12]));
    if is_index(&folder) {
        return Ok(folder);
    }
    // Beside its place until it has its vectors, so that two runs at once never write the same file.
    let making = folder.with_extension(format!("making-{}", std::process::id()));
    let io = |path: &std::path::Path| {
        let path = path.to_path_buf();
        move |source| AssembleError::Io { path, source }
    };
    if making.exists() {
        std::fs::remove_dir_all(&making).map_err(io(&making))?;
    }
    let build = BuildSettings::new(bm25_params(retrieval), settings.threads);
    let mut index = Index::build(&corpus, &making, &build, progress)?;
    let mut embedded = |documents| {
        progress(BuildProgress { stage: Stage::Reading, documents, resumed_parts: 0 });
    };
    embed(&mut index, &*embedding.embedder, &embedding.source, &embedding.document_prompt, &mut embedded).await?;
    drop(index);
    if std::fs::rename(&making, &folder).is_err() {
        // Another run was faster, or the place is not to be had; opening it says which.
        std::fs::remove_dir_all(&making).map_err(io(&making))?;
    }
    Ok(folder)
}

/// BM25's constants by a profile.
pub(crate) fn bm25_params(retrieval: &RetrievalSettings) -> Bm25Params {
    // Through decimal text, so that 0.9 stays 0.9 and is not the nearest f32.
    let exact = |value: f32| value.to_string().parse().unwrap_or(f64::from(value));
    Bm25Params { k1: exact(retrieval.bm25_k1), b: exact(retrieval.bm25_b) }
}

/// How a profile searches.
pub(crate) fn search_settings(retrieval: &RetrievalSettings) -> SearchSettings {
    SearchSettings {
        mode: match retrieval.mode {
            RetrievalMode::Bm25 => Mode::Bm25,
            RetrievalMode::Dense => Mode::Dense,
            RetrievalMode::Hybrid => Mode::Hybrid,
        },
        fusion: FusionSettings {
            k: retrieval.rrf_k,
            bm25_depth: retrieval.bm25_depth as usize,
            dense_depth: retrieval.dense_depth as usize,
            bm25_weight: retrieval.bm25_weight,
            dense_weight: retrieval.dense_weight,
        },
        allow_degraded: retrieval.allow_degraded,
    }
}

/// The Qdrant collection of the settings, if there is one.
pub(crate) async fn qdrant(settings: &IndexSettings, index: &Index) -> Result<Option<QdrantCollection>, AssembleError> {
    let Some(server) = &settings.qdrant else { return Ok(None) };
    let Some(dense) = index.dense() else {
        let detail = "a Qdrant collection is filled from the index's vectors, and this index has none; give it some with `legwork embed`";
        return Err(AssembleError::Setting(detail.to_owned()));
    };
    let key = match &server.key_env {
        None => None,
        Some(name) => Some(std::env::var(name).map_err(|_| {
            AssembleError::Setting(format!("index.qdrant.key_env names {name}, which is not set in the environment"))
        })?),
    };
    let collection = QdrantCollection::new(
        &QdrantSettings {
            url: server.url.clone(),
            api_key: key.map(ApiKey::new),
            collection: server.collection.clone(),
            search: ServerSearch::Exact,
            connect_timeout_ms: 5_000,
            request_timeout_ms: 60_000,
        },
        dense.dim(),
    )?;
    Ok(Some(collection))
}
