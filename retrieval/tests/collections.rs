//! BM25 over the small public collections against published and measured figures, and over the multi-hop corpus.
//!
//! The data are looked for at `$LEGWORK_SHARED`, else beside the workspace; without them a reason is printed.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test; clippy knows tests only by their attribute")]

use legwork_retrieval::bm25::Bm25Params;
use legwork_retrieval::corpus::{Corpus, Format};
use legwork_retrieval::fusion::FusionSettings;
use legwork_retrieval::index::{BuildSettings, OpenSettings};
use legwork_retrieval::metrics::{Averaging, Measure, Qrels, Run, evaluate, read_qrels};
use legwork_retrieval::searcher::SearchSettings;
use legwork_retrieval::{Index, Mode, Query, Searcher};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Published figures differ from any other tokenizing by less than this.
const TOLERANCE: f64 = 0.01;

fn shared(part: &str) -> Option<PathBuf> {
    let base = std::env::var_os("LEGWORK_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let path = base.join("data").join(part);
    if !path.is_dir() {
        println!("skipped: no {}; set LEGWORK_SHARED to a folder with data/{part}", path.display());
        return None;
    }
    Some(path)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap().to_owned()
}

/// An index of a collection, and a way to open it with other constants.
struct Collection {
    folder: tempfile::TempDir,
    queries: Vec<(String, Query)>,
}

impl Collection {
    fn build(corpus: &Path, queries: Vec<(String, String)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = BuildSettings::new(Bm25Params::ANSERINI, 2);
        let corpus = Corpus::with_format(corpus, Format::Jsonl);
        Index::build(&corpus, &folder.path().join("index"), &settings, &mut |_| {}).unwrap();
        let queries = queries.into_iter().map(|(id, text)| (id, Query { text, vector: None })).collect();
        Self { folder, queries }
    }

    fn run(&self, bm25: Bm25Params, k: usize) -> Run {
        let open = OpenSettings { bm25: Some(bm25), ..OpenSettings::default() };
        let index = Arc::new(Index::open(&self.folder.path().join("index"), &open).unwrap());
        let settings = SearchSettings { mode: Mode::Bm25, fusion: FusionSettings::default(), allow_degraded: false };
        let searcher = Searcher::new(index, settings, None).unwrap();
        let queries: Vec<Query> = self.queries.iter().map(|(_, query)| query.clone()).collect();
        let answers = searcher.search(&queries, k).unwrap();
        let found =
            |hits: Vec<legwork_retrieval::searcher::Found>| hits.into_iter().map(|h| (h.docid, h.score)).collect();
        self.queries.iter().zip(answers).map(|((id, _), answer)| (id.clone(), found(answer.hits))).collect()
    }
}

/// Figures: k1, b, then nDCG@10, recall@10, recall@100, MAP and P@10.
fn compare(name: &str, collection: &Collection, qrels: &Qrels, rows: &[(f64, f64, [f64; 5])]) {
    let measures =
        [Measure::NdcgCut(10), Measure::Recall(10), Measure::Recall(100), Measure::Map, Measure::Precision(10)];
    for (k1, b, figures) in rows {
        let run = collection.run(Bm25Params { k1: *k1, b: *b }, 1_000);
        let got = evaluate(qrels, &run, &measures, Averaging::AllJudged);
        println!("{name} k1 {k1} b {b}: {:.4?}, expected {figures:.4?}", got.means);
        for ((measure, got), expected) in measures.iter().zip(&got.means).zip(figures) {
            assert!(
                (got - expected).abs() < TOLERANCE,
                "{name} {measure} at k1 {k1}, b {b}: {got}, expected {expected}"
            );
        }
    }
}

#[test]
fn scifact_is_ranked_as_lucene_ranks_it() {
    let Some(data) = shared("ir/scifact") else { return };
    let qrels = read_qrels(&data.join("qrels.test.tsv")).unwrap();
    let queries = lines(&data.join("queries.jsonl"));
    let queries = queries.iter().filter(|q| q["split"] == "test").map(|q| (text(q, "id"), text(q, "text"))).collect();
    let collection = Collection::build(&data.join("corpus.jsonl"), queries);
    let rows =
        [(0.9, 0.4, [0.6769, 0.8030, 0.9287, 0.6382, 0.0880]), (1.2, 0.75, [0.6828, 0.8168, 0.9276, 0.6407, 0.0903])];
    compare("scifact", &collection, &qrels, &rows);
    // Anserini's published regression, BEIR v1.0.0, flat: another tokenizer, the same formula.
    let run = collection.run(Bm25Params::ANSERINI, 1_000);
    let measures = [Measure::NdcgCut(10), Measure::Recall(100), Measure::Recall(1_000)];
    let got = evaluate(&qrels, &run, &measures, Averaging::AllJudged).means;
    for (got, published) in got.iter().zip([0.6789, 0.9253, 0.9767]) {
        assert!((got - published).abs() < TOLERANCE, "{got}, published {published}");
    }
}

#[test]
fn cranfield_is_ranked_as_lucene_ranks_it() {
    let Some(data) = shared("ir/cranfield") else { return };
    let qrels = read_qrels(&data.join("qrels.tsv")).unwrap();
    let queries = lines(&data.join("queries.jsonl")).iter().map(|q| (text(q, "id"), text(q, "text"))).collect();
    let collection = Collection::build(&data.join("corpus.jsonl"), queries);
    let rows =
        [(0.9, 0.4, [0.3575, 0.3750, 0.7177, 0.2800, 0.2182]), (1.2, 0.75, [0.3750, 0.3924, 0.7311, 0.2951, 0.2298])];
    compare("cranfield", &collection, &qrels, &rows);
}

#[test]
fn cisi_is_ranked_as_lucene_ranks_it() {
    let Some(data) = shared("ir/cisi") else { return };
    let qrels = read_qrels(&data.join("qrels.tsv")).unwrap();
    let queries = lines(&data.join("queries.jsonl")).iter().map(|q| (text(q, "id"), text(q, "text"))).collect();
    let collection = Collection::build(&data.join("corpus.jsonl"), queries);
    let rows = [
        (0.9, 0.4, [0.3585, 0.1316, 0.4231, 0.1967, 0.3303]),
        (1.2, 0.75, [0.3700, 0.1274, 0.4351, 0.2067, 0.3447]),
        (1.5, 0.75, [0.3760, 0.1275, 0.4417, 0.2109, 0.3474]),
    ];
    compare("cisi", &collection, &qrels, &rows);
}

#[test]
fn multihop_questions_find_as_many_gold_documents_as_measured() {
    let Some(data) = shared("multihop") else { return };
    let questions = lines(&data.join("test.jsonl"));
    let queries = questions.iter().map(|q| (text(q, "id"), text(q, "question"))).collect();
    let collection = Collection::build(&data.join("corpus.jsonl"), queries);
    let run = collection.run(Bm25Params::ANSERINI, 100);
    for (tier, figures) in [("easy", [0.670, 0.840]), ("medium", [0.473, 0.633]), ("hard", [0.333, 0.528])] {
        let mut qrels = Qrels::new();
        for question in questions.iter().filter(|q| q["tier"] == tier) {
            let gold = question["gold_docids"].as_array().unwrap();
            let gold = gold.iter().map(|id| (id.as_str().unwrap().to_owned(), 1)).collect();
            qrels.insert(text(question, "id"), gold);
        }
        assert_eq!(qrels.len(), 50);
        let measures = [Measure::Recall(10), Measure::Recall(100)];
        let got = evaluate(&qrels, &run, &measures, Averaging::AllJudged).means;
        println!("multihop {tier}: {got:.4?}, expected {figures:.3?}");
        for (got, expected) in got.iter().zip(figures) {
            assert!((got - expected).abs() < TOLERANCE, "{tier}: {got}, expected {expected}");
        }
    }
}
