//! Figures with a real server, printed: how fast documents are written and found, and how far the graph's answers
//! are the exact ones. Interrupted and run again, it goes on where the server stands.

use super::{play, settings};
use legwork_retrieval::Index;
use legwork_retrieval::analyzer::Analyzer;
use legwork_retrieval::bm25::Bm25Params;
use legwork_retrieval::corpus::{Corpus, Format};
use legwork_retrieval::index::BuildSettings;
use legwork_retrieval::qdrant::{Filter, QdrantCollection, QdrantSettings, ServerSearch};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

const DIM: usize = 384;
const DEPTH: usize = 100;
const CALLERS: usize = 16;

/// A text's terms, each with a direction of its own, added and normalised: real neighbourhoods without a model.
fn hashed(text: &str) -> Vec<f32> {
    let mut sum = vec![0.0_f32; DIM];
    Analyzer::default().terms(text, |term| {
        let mut bits = blake3::Hasher::new().update(term.as_bytes()).finalize_xof();
        let mut signs = [0_u8; DIM / 8];
        bits.fill(&mut signs);
        for (d, value) in sum.iter_mut().enumerate() {
            *value += if signs[d / 8] >> (d % 8) & 1 == 1 { 1.0 } else { -1.0 };
        }
    });
    let length = sum.iter().map(|v| v * v).sum::<f32>().sqrt().max(1.0);
    sum.iter().map(|v| v / length).collect()
}

fn questions(path: &Path) -> Vec<Vec<f32>> {
    let text = std::fs::read_to_string(path).unwrap();
    let question =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["question"].as_str().map(hashed);
    text.lines().filter_map(question).collect()
}

#[test]
fn figures_with_a_real_server() {
    let data = std::env::var_os("LEGWORK_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let data = data.join("data/multihop");
    let (Ok(url), true) = (std::env::var("LEGWORK_QDRANT_URL"), data.is_dir()) else {
        println!(
            "skipped: set LEGWORK_QDRANT_URL to a Qdrant server and LEGWORK_SHARED to a folder with data/multihop"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let corpus = Corpus::with_format(&data.join("corpus.jsonl"), Format::Jsonl);
    let build = BuildSettings::new(Bm25Params::ANSERINI, 2);
    let mut index = Index::build(&corpus, &folder.path().join("index"), &build, &mut |_| {}).unwrap();
    let mut writer = index.vector_writer("hashed terms", DIM).unwrap();
    while let Some(number) = writer.next_number() {
        writer.push(&hashed(index.document(number).unwrap().text)).unwrap();
    }
    index.set_vectors(writer).unwrap();
    play(figures(&url, &index, &questions(&data.join("test.jsonl"))));
}

async fn figures(url: &str, index: &Index, queries: &[Vec<f32>]) {
    let at = |search| QdrantSettings { search, ..settings(url, "legwork-figures") };
    let exact = QdrantCollection::new(&at(ServerSearch::Exact), DIM).unwrap();
    println!("created: {}", exact.ensure().await.unwrap());
    let started = Instant::now();
    let done = exact.upsert(index, &mut |_| {}).await.unwrap();
    println!("upsert: {done:?} in {:.1} s", started.elapsed().as_secs_f64());
    let started = Instant::now();
    let again = exact.upsert(index, &mut |_| {}).await.unwrap();
    println!("again: {again:?} in {:.1} s", started.elapsed().as_secs_f64());
    assert_eq!((again.present, again.written), (index.len() as u64, 0));
    let truth = local_truth(index, queries);
    println!("in the graph: {} of {}", exact.indexed().await.unwrap(), index.len());
    for search in [ServerSearch::Exact, ServerSearch::Hnsw { ef: 128 }, ServerSearch::Hnsw { ef: 512 }] {
        let client = QdrantCollection::new(&at(search), DIM).unwrap();
        let started = Instant::now();
        let mut shared = 0;
        for (queries, truth) in queries.chunks(CALLERS).zip(truth.chunks(CALLERS)) {
            let vectors: Vec<&[f32]> = queries.iter().map(Vec::as_slice).collect();
            let lists = client.search(&vectors, DEPTH, &Filter::default()).await.unwrap();
            for (list, truth) in lists.iter().zip(truth) {
                shared += list.iter().filter(|(docid, _)| truth.contains(docid)).count();
            }
        }
        let per_second = queries.len() as f64 / started.elapsed().as_secs_f64();
        let share = shared as f64 / (queries.len() * DEPTH) as f64;
        println!(
            "{search:?}: {per_second:.0} queries/s in batches of {CALLERS}, {share:.4} of the exact first {DEPTH}"
        );
        assert!(search != ServerSearch::Exact || share > 0.99, "ties at the end of a list aside, exact is exact");
    }
    exact.delete().await.unwrap();
}

/// The ids of the first documents by the vectors of the index itself.
fn local_truth(index: &Index, queries: &[Vec<f32>]) -> Vec<HashSet<String>> {
    let dense = index.dense().unwrap();
    let first = |query: &Vec<f32>| {
        let product = |n: u32| -> f32 { dense.vector(n).unwrap().iter().zip(query).map(|(a, b)| a * b).sum() };
        let mut all: Vec<(f32, u32)> = (0..index.len() as u32).map(|n| (product(n), n)).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        all[..DEPTH].iter().map(|(_, n)| index.document(*n).unwrap().docid.to_owned()).collect()
    };
    queries.iter().map(first).collect()
}
