//! `legwork embed`: gives an index vectors from an embeddings endpoint, resumably, or from a file; and fills a Qdrant
//! collection with them.

use super::{ConfigFlags, Ended, VerbError, output, resolve};
use crate::assemble;
use crate::config::Settings;
use crate::terminal::progress;
use clap::Args;
use legwork_endpoints::Embedder;
use legwork_retrieval::Index;
use legwork_retrieval::index::OpenSettings;
use legwork_retrieval::qdrant::QdrantCollection;
use std::path::PathBuf;

/// Gives an index vectors.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork embed indexes/mine -c run.toml                       with the embedder under [embedder]
  legwork embed indexes/mine --model models/all-MiniLM-L6-v2   with a sentence encoder in this process
  legwork embed indexes/mine --from corpus.npy --docids ids.txt
  legwork embed indexes/mine -c run.toml --to-qdrant           also fill the collection under [index.qdrant]")]
pub struct EmbedArgs {
    /// The index's folder.
    index: PathBuf,
    /// A sentence encoder's folder, in place of [embedder].
    #[arg(long, value_name = "FOLDER", conflicts_with = "from")]
    model: Option<PathBuf>,
    /// Vectors of the documents: .npy or .safetensors.
    #[arg(long)]
    from: Option<PathBuf>,
    /// The docid of each row, one a line; corpus order if absent.
    #[arg(long, requires = "from")]
    docids: Option<PathBuf>,
    /// Put before each document's text; without it, what the model's own files say.
    #[arg(long)]
    prefix: Option<String>,
    /// Fill the Qdrant collection of the configuration from the index's vectors.
    #[arg(long)]
    to_qdrant: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

pub(super) fn run(args: &EmbedArgs) -> Result<Ended, VerbError> {
    let local = |path: &PathBuf| {
        let path = toml::Value::String(path.display().to_string());
        ("--model", "embedder", toml::Value::Table([("local".to_owned(), path)].into_iter().collect()))
    };
    let settings = Settings::read(&resolve(&args.config, args.model.iter().map(local).collect())?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut index = Index::open(&args.index, &OpenSettings::default())?;
    if let Some(file) = &args.from {
        index.import_vectors(file, None, args.docids.as_deref())?;
    } else if let Some(embedding) = assemble::embedder(&settings)? {
        let prefix = args.prefix.as_deref().unwrap_or(&embedding.document_prompt);
        runtime.block_on(embed(&mut index, &*embedding.embedder, &embedding.source, prefix, true))?;
    } else if !args.to_qdrant {
        return Err("nothing embeds: give --model, an embedder under [embedder], or a file with --from".into());
    }
    if args.to_qdrant {
        let collection = runtime.block_on(assemble::qdrant(&settings.index, &index))?;
        let collection = collection.ok_or("no collection is named: give one under [index.qdrant]")?;
        runtime.block_on(fill(&index, &collection))?;
    }
    if let Some(vectors) = &index.manifest().vectors {
        output::print(&format!(
            "{}: {} vectors of {} values from {}",
            args.index.display(),
            index.len(),
            vectors.dim,
            vectors.source
        ));
    }
    Ok(Ended::Done)
}

/// Gives an index vectors, from where an earlier call left off.
pub(super) async fn embed(
    index: &mut Index,
    embedder: &dyn Embedder,
    source: &str,
    prefix: &str,
    is_told: bool,
) -> Result<(), VerbError> {
    let bar = progress::documents_of("embedding", index.len() as u64, is_told);
    let embedded = assemble::embed(index, embedder, source, prefix, &mut |done| bar.set_position(done)).await;
    bar.finish_and_clear();
    Ok(embedded?)
}

async fn fill(index: &Index, collection: &QdrantCollection) -> Result<(), VerbError> {
    collection.ensure().await?;
    let bar = progress::documents_of("uploading", index.len() as u64, true);
    let done = collection.upsert(index, &mut |step| bar.set_position(step.present + step.written)).await?;
    bar.finish_and_clear();
    output::note(&format!(
        "the collection holds {} points: {} were there, {} written",
        collection.count().await?,
        done.present,
        done.written
    ));
    Ok(())
}
