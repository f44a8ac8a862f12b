//! `legwork retrieve`: one query to look at, or a file of queries into a TREC run with measures.

use super::{ConfigFlags, Ended, VerbError, output, resolve};
use crate::assemble;
use crate::config::Settings;
use crate::runs::RunError;
use clap::Args;
use legwork_endpoints::Embedder;
use legwork_protocol::untrusted::Untrusted;
use legwork_retrieval::index::OpenSettings;
use legwork_retrieval::metrics::{Averaging, Measure, Run, evaluate, read_qrels, write_run};
use legwork_retrieval::searcher::SearchSettings;
use legwork_retrieval::{Index, Mode, Query, Searcher};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Queries searched as one batch.
const BATCH: usize = 64;

/// Searches an index.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork retrieve indexes/mine \"founder of the observatory\"
  legwork retrieve indexes/mine --queries queries.jsonl --qrels qrels.tsv --out run.trec")]
pub struct RetrieveArgs {
    /// The index's folder.
    index: PathBuf,
    /// One query.
    #[arg(required_unless_present = "queries")]
    query: Option<String>,
    /// Queries as JSONL with `id` and `text`.
    #[arg(long, conflicts_with = "query")]
    queries: Option<PathBuf>,
    /// Judgements in TREC's four columns, for measures.
    #[arg(long, requires = "queries")]
    qrels: Option<PathBuf>,
    /// Write a TREC run.
    #[arg(long, requires = "queries")]
    out: Option<PathBuf>,
    /// Documents for each query.
    #[arg(short, long, default_value_t = 10)]
    k: usize,
    /// bm25, dense or hybrid; the profile's if absent.
    #[arg(long)]
    mode: Option<String>,
    /// Average over all judged topics, as trec_eval -c does.
    #[arg(long)]
    complete: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

#[derive(Deserialize)]
struct QueryLine {
    id: String,
    text: String,
}

pub(super) fn run(args: &RetrieveArgs) -> Result<Ended, VerbError> {
    let mode = args.mode.iter().map(|mode| ("--mode", "retrieval.mode", toml::Value::String(mode.clone()))).collect();
    let settings = Settings::read(&resolve(&args.config, mode)?)?;
    let retrieval = &settings.profile.retrieval;
    let bm25 = Some(assemble::bm25_params(retrieval));
    let index = Arc::new(Index::open(&args.index, &OpenSettings { corpus: None, bm25 })?);
    let mut search: SearchSettings = assemble::search_settings(retrieval);
    // Only whoever asks for vectors by name is refused where there are none: the default profile has them for its own corpus.
    let is_asked = args.mode.is_some() || args.config.profile.is_some() || args.config.config.is_some();
    if !is_asked && index.dense().is_none() && search.mode != Mode::Bm25 {
        output::note("the index has no vectors: BM25 alone searches");
        search.mode = Mode::Bm25;
    }
    let searcher = Searcher::new(index, search, None)?;
    let embedding = if search.mode == Mode::Bm25 { None } else { assemble::embedder(&settings)? };
    let prefix = assemble::query_prefix(retrieval, embedding.as_ref());
    let embedder = embedding.map(|embedding| embedding.embedder);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ask = |texts: &[String]| runtime.block_on(vectors(&search, embedder.as_ref(), &prefix, texts));
    match &args.query {
        Some(text) => one(args, &searcher, text, ask(std::slice::from_ref(text))?),
        None => many(args, &searcher, ask),
    }
}

async fn vectors(
    search: &SearchSettings,
    embedder: Option<&Arc<dyn Embedder>>,
    prefix: &str,
    texts: &[String],
) -> Result<Vec<Option<Vec<f32>>>, VerbError> {
    if search.mode == Mode::Bm25 {
        return Ok(vec![None; texts.len()]);
    }
    let embedder = embedder.ok_or("search by vectors needs an embedder: give one under [embedder], or --mode bm25")?;
    let prefixed = texts.iter().map(|text| format!("{prefix}{text}")).collect();
    Ok(embedder.embed(prefixed).await?.into_iter().map(Some).collect())
}

fn one(
    args: &RetrieveArgs,
    searcher: &Searcher,
    text: &str,
    vectors: Vec<Option<Vec<f32>>>,
) -> Result<Ended, VerbError> {
    let query = Query { text: text.to_owned(), vector: vectors.into_iter().next().flatten() };
    let answer = searcher.search(&[query], args.k)?.pop().unwrap_or_default();
    let mut rows = Vec::new();
    for (place, hit) in answer.hits.iter().enumerate() {
        let document = searcher.index().document(hit.number)?;
        let start: String = document.text.chars().take(160).collect();
        if args.json {
            rows.push(serde_json::json!({"rank": place + 1, "docid": hit.docid, "score": hit.score, "title": document.title, "url": document.url}));
        } else {
            let shown = |text: &str| Untrusted::new(text).for_terminal().replace('\n', " ");
            let title = document.title.map(shown).unwrap_or_default();
            output::print(&format!(
                "{:>3}  {:<9.4} {}  {title}\n     {}",
                place + 1,
                hit.score,
                shown(&hit.docid),
                shown(&start)
            ));
        }
    }
    if args.json {
        output::print_json(&rows);
    }
    Ok(Ended::Done)
}

fn many(
    args: &RetrieveArgs,
    searcher: &Searcher,
    ask: impl Fn(&[String]) -> Result<Vec<Option<Vec<f32>>>, VerbError>,
) -> Result<Ended, VerbError> {
    let path = args.queries.as_deref().unwrap_or(Path::new(""));
    let lines = read_queries(path)?;
    let mut found = Run::new();
    for batch in lines.chunks(BATCH) {
        let texts: Vec<String> = batch.iter().map(|line| line.text.clone()).collect();
        let queries: Vec<Query> =
            texts.iter().cloned().zip(ask(&texts)?).map(|(text, vector)| Query { text, vector }).collect();
        for (line, answer) in batch.iter().zip(searcher.search(&queries, args.k)?) {
            found.insert(line.id.clone(), answer.hits.into_iter().map(|hit| (hit.docid, hit.score)).collect());
        }
    }
    if let Some(out) = &args.out {
        let io = |source| RunError::Io { path: out.clone(), source };
        let mut file = std::io::BufWriter::new(std::fs::File::create(out).map_err(io)?);
        write_run(out, &found, "legwork", &mut file)?;
        output::note(&format!("wrote {}", out.display()));
    }
    let Some(qrels) = &args.qrels else { return Ok(Ended::Done) };
    let measures = [
        ("ndcg_cut_10", Measure::NdcgCut(10)),
        ("recall_10", Measure::Recall(10)),
        ("recall_100", Measure::Recall(100)),
        ("map", Measure::Map),
        ("recip_rank", Measure::ReciprocalRank),
        ("P_10", Measure::Precision(10)),
    ];
    let averaging = if args.complete { Averaging::AllJudged } else { Averaging::Answered };
    let evaluation = evaluate(&read_qrels(qrels)?, &found, &measures.map(|(_, measure)| measure), averaging);
    if args.json {
        let means: serde_json::Map<_, _> = measures
            .iter()
            .zip(&evaluation.means)
            .map(|((name, _), mean)| ((*name).to_owned(), (*mean).into()))
            .collect();
        output::print_json(&means);
        return Ok(Ended::Done);
    }
    for ((name, _), mean) in measures.iter().zip(&evaluation.means) {
        output::print(&format!("{name:<12} all  {mean:.4}"));
    }
    output::print(&format!("{:<12} all  {}", "topics", evaluation.topics.len()));
    Ok(Ended::Done)
}

fn read_queries(path: &Path) -> Result<Vec<QueryLine>, VerbError> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut queries = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("{}:{}", path.display(), number + 1);
        let query: QueryLine = serde_json::from_str(line)
            .map_err(|error| format!("{place}: expected an object with the strings `id` and `text`: {error}"))?;
        if !seen.insert(query.id.clone()) {
            return Err(format!("{place}: the id {:?} comes twice; ids must be unique", query.id).into());
        }
        queries.push(query);
    }
    if queries.is_empty() {
        return Err(format!("{}: expected queries, got none", path.display()).into());
    }
    Ok(queries)
}
