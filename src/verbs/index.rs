//! `legwork index`: builds an index of a corpus, or finishes an interrupted build.

use super::embed::embed;
use super::{Ended, VerbError, output};
use crate::assemble;
use crate::terminal::progress;
use clap::Args;
use legwork_retrieval::bm25::Bm25Params;
use legwork_retrieval::index::BuildSettings;
use legwork_retrieval::{Corpus, Index};
use std::path::PathBuf;

/// Builds an index of a corpus.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork index corpus.jsonl --out indexes/mine
  legwork index corpus.jsonl --out indexes/mine --model models/all-MiniLM-L6-v2
  legwork index corpus.jsonl --out indexes/mine --vectors corpus.npy --docids docids.txt")]
pub struct IndexArgs {
    /// The corpus: JSONL, parquet or TREC text.
    corpus: PathBuf,
    /// The index's folder.
    #[arg(long)]
    out: PathBuf,
    /// BM25's term saturation.
    #[arg(long, default_value_t = 0.9)]
    k1: f64,
    /// BM25's length normalisation.
    #[arg(long, default_value_t = 0.4)]
    b: f64,
    /// Threads that index.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// A sentence encoder's folder: vectors of the documents are made in this process.
    #[arg(long, value_name = "FOLDER", conflicts_with = "vectors")]
    model: Option<PathBuf>,
    /// Vectors of the documents: .npy or .safetensors.
    #[arg(long)]
    vectors: Option<PathBuf>,
    /// The tensor's name, where a safetensors file has several.
    #[arg(long, requires = "vectors")]
    tensor: Option<String>,
    /// The docid of each row of the vectors, one a line; corpus order if absent.
    #[arg(long, requires = "vectors")]
    docids: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &IndexArgs) -> Result<Ended, VerbError> {
    let corpus = Corpus::open(&args.corpus)?;
    let bar = progress::documents("indexing", !args.json);
    let settings = BuildSettings::new(Bm25Params { k1: args.k1, b: args.b }, args.threads);
    let mut index = Index::build(&corpus, &args.out, &settings, &mut |step| progress::build_step(&bar, &step))?;
    bar.finish_and_clear();
    if let Some(vectors) = &args.vectors {
        index.import_vectors(vectors, args.tensor.as_deref(), args.docids.as_deref())?;
    }
    if let Some(model) = &args.model {
        let embedding = assemble::local_embedding(model)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let prefix = &embedding.document_prompt;
        runtime.block_on(embed(&mut index, &*embedding.embedder, &embedding.source, prefix, !args.json))?;
    }
    let manifest = index.manifest();
    if args.json {
        output::print_json(manifest);
    } else {
        let vectors =
            manifest.vectors.as_ref().map_or("no vectors".to_owned(), |v| format!("vectors of {} values", v.dim));
        output::print(&format!(
            "{}: {} documents, {}, k1 {}, b {}, {vectors}\ncorpus digest {}",
            args.out.display(),
            manifest.corpus.documents,
            manifest.analyzer,
            manifest.bm25.k1,
            manifest.bm25.b,
            manifest.corpus.digest
        ));
    }
    Ok(Ended::Done)
}
