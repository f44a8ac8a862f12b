//! The Qdrant room against its contract: one list of scenarios, played with a stand-in server in this process
//! and, where `LEGWORK_QDRANT_URL` names one, with a real server; then the failures that only a stand-in can play.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test; clippy knows tests only by their attribute")]

mod figures;
mod stand_in;

use legwork_retrieval::bm25::Bm25Params;
use legwork_retrieval::corpus::{Corpus, Format};
use legwork_retrieval::fusion::FusionSettings;
use legwork_retrieval::index::BuildSettings;
use legwork_retrieval::qdrant::{ApiKey, Filter, QdrantCollection, QdrantSettings, ServerSearch, UpsertProgress};
use legwork_retrieval::searcher::SearchSettings;
use legwork_retrieval::{Index, Mode, Query, RetrievalError, Searcher};
use stand_in::StandIn;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

const DIM: usize = 4;
/// More than two batches of points.
const DOCUMENTS: usize = 1_200;

fn play<T>(scenario: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(scenario)
}

fn settings(url: &str, collection: &str) -> QdrantSettings {
    QdrantSettings {
        url: url.to_owned(),
        api_key: None,
        collection: collection.to_owned(),
        search: ServerSearch::Exact,
        connect_timeout_ms: 2_000,
        request_timeout_ms: 30_000,
    }
}

fn collection(url: &str, name: &str) -> QdrantCollection {
    QdrantCollection::new(&settings(url, name), DIM).unwrap()
}

/// Vectors of whole numbers, so that products are exact and ties real.
fn vector(i: usize, salt: usize) -> Vec<f32> {
    (0..DIM).map(|d| ((i * 7 + d * 13 + salt * 5 + i * d) % 11) as f32 - 5.0).collect()
}

fn index(folder: &Path, documents: usize) -> Index {
    let lines: Vec<String> = (0..documents)
        .map(|i| {
            let url = format!("http://h/{}", i % 10);
            serde_json::json!({"docid": format!("d{i}"), "text": format!("word{} common", i % 9), "url": url})
                .to_string()
        })
        .collect();
    let path = folder.join("corpus.jsonl");
    std::fs::write(&path, lines.join("\n")).unwrap();
    let corpus = Corpus::with_format(&path, Format::Jsonl);
    let settings = BuildSettings::new(Bm25Params::LUCENE, 1);
    let mut index = Index::build(&corpus, &folder.join("index"), &settings, &mut |_| {}).unwrap();
    give_vectors(&mut index, 0);
    index
}

fn give_vectors(index: &mut Index, salt: usize) {
    let mut writer = index.vector_writer(&format!("salt {salt}"), DIM).unwrap();
    while let Some(number) = writer.next_number() {
        writer.push(&vector(number as usize, salt)).unwrap();
    }
    index.set_vectors(writer).unwrap();
}

fn queries() -> Vec<Query> {
    let query = |i: usize| Query { text: format!("word{i} common"), vector: Some(vector(i * 31, 3)) };
    (0..7).map(query).collect()
}

fn hybrid(allow_degraded: bool) -> SearchSettings {
    SearchSettings { mode: Mode::Hybrid, fusion: FusionSettings::default(), allow_degraded }
}

async fn upsert(collection: &QdrantCollection, index: &Index) -> Result<UpsertProgress, RetrievalError> {
    collection.upsert(index, &mut |_| {}).await
}

fn done(present: usize, written: usize) -> UpsertProgress {
    UpsertProgress { present: present as u64, written: written as u64 }
}

/// What must hold with any server. `name` is a collection that does not exist and is deleted at the end.
async fn contract(url: &str, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut index = index(folder.path(), DOCUMENTS);
    let client = collection(url, name);
    // Before there is a collection, it is missing, and that is no outage.
    let missing = client.count().await.unwrap_err();
    assert!(matches!(missing, RetrievalError::Qdrant { .. }), "{missing}");
    assert!(missing.to_string().contains("upserting the index"), "{missing}");
    // It is created once, and another dimension is refused.
    assert!(client.ensure().await.unwrap());
    assert!(!client.ensure().await.unwrap());
    let other = QdrantCollection::new(&settings(url, name), DIM + 1).unwrap();
    let refused = other.ensure().await.unwrap_err().to_string();
    assert!(refused.contains("expected vectors of 5 values by Dot, got 4 values by Dot"), "{refused}");
    // Every document is written once; a second upsert finds them all; other vectors replace them.
    assert_eq!(upsert(&client, &index).await.unwrap(), done(0, DOCUMENTS));
    assert_eq!(upsert(&client, &index).await.unwrap(), done(DOCUMENTS, 0));
    give_vectors(&mut index, 1);
    assert_eq!(upsert(&client, &index).await.unwrap(), done(0, DOCUMENTS));
    assert_eq!(client.count().await.unwrap(), DOCUMENTS as u64);
    assert!(client.indexed().await.unwrap() <= DOCUMENTS as u64);
    exact_search_agrees(&client, &index).await;
    filters_hold(&client).await;
    // With every document in the lists no tie is cut off, so fused answers must agree to the last place.
    let index = Arc::new(index);
    let fusion = FusionSettings { dense_depth: DOCUMENTS, ..FusionSettings::default() };
    let settings = SearchSettings { fusion, ..hybrid(false) };
    let local = Searcher::new(Arc::clone(&index), settings, None).unwrap().search(&queries(), 20).unwrap();
    let remote = Searcher::new(index, settings, Some(client)).unwrap();
    assert_eq!(remote.search_remote(&queries(), 20).await.unwrap(), local);
    remote.remote().unwrap().delete().await.unwrap();
}

/// Scores are those of the vectors in process; ties at the end of a list may fall either way.
async fn exact_search_agrees(client: &QdrantCollection, index: &Index) {
    let queries = queries();
    let vectors: Vec<&[f32]> = queries.iter().filter_map(|q| q.vector.as_deref()).collect();
    let lists = client.search(&vectors, 25, &Filter::default()).await.unwrap();
    assert_eq!(lists.len(), queries.len());
    for (query, list) in vectors.iter().zip(&lists) {
        let product = |number: u32| -> f32 {
            index.dense().unwrap().vector(number).unwrap().iter().zip(*query).map(|(a, b)| a * b).sum()
        };
        let mut truth: Vec<f32> = (0..DOCUMENTS as u32).map(product).collect();
        truth.sort_by(|a, b| b.total_cmp(a));
        let scores: Vec<f32> = list.iter().map(|(_, score)| *score).collect();
        assert_eq!(scores, truth[..25]);
        for (docid, score) in list {
            assert_eq!(product(index.number_of_docid(docid).unwrap().unwrap()), *score, "{docid}");
        }
        assert!(list.is_sorted_by(|a, b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)));
    }
}

async fn filters_hold(client: &QdrantCollection) {
    let query = vector(5, 3);
    let ids = async |filter: Filter| -> Vec<String> {
        let lists = client.search(&[&query], DOCUMENTS, &filter).await.unwrap();
        lists.into_iter().flatten().map(|(docid, _)| docid).collect()
    };
    let urls = |digits: &[u8]| vec![("url".to_owned(), digits.iter().map(|d| format!("http://h/{d}")).collect())];
    let some = ids(Filter { any_of: urls(&[3, 4]), none_of: Vec::new() }).await;
    assert_eq!(some.len(), DOCUMENTS / 5);
    assert!(some.iter().all(|id| id.ends_with('3') || id.ends_with('4')));
    let but = Filter { any_of: urls(&[3, 4]), none_of: vec![("docid".to_owned(), vec!["d3".into(), "d14".into()])] };
    assert_eq!(ids(but).await.len(), DOCUMENTS / 5 - 2);
}

#[test]
fn the_contract_holds_with_the_stand_in() {
    play(async {
        let server = StandIn::start().await;
        contract(&server.url, "c").await;
    });
}

#[test]
fn the_contract_holds_with_a_real_server() {
    let Ok(url) = std::env::var("LEGWORK_QDRANT_URL") else {
        println!("skipped: set LEGWORK_QDRANT_URL to a Qdrant server's gRPC address");
        return;
    };
    let name = format!("legwork-contract-{}", std::process::id());
    play(contract(&url, &name));
}

#[test]
fn the_server_is_asked_as_stated() {
    play(async {
        let server = StandIn::start().await;
        let folder = tempfile::tempdir().unwrap();
        let index = index(folder.path(), 3);
        let keyed = QdrantSettings {
            api_key: Some(ApiKey::new("sesame")),
            search: ServerSearch::Hnsw { ef: 77 },
            ..settings(&server.url, "c")
        };
        let client = QdrantCollection::new(&keyed, DIM).unwrap();
        client.ensure().await.unwrap();
        upsert(&client, &index).await.unwrap();
        client.search(&[&vector(0, 0)], 2, &Filter::default()).await.unwrap();
        let exact = QdrantCollection::new(&QdrantSettings { search: ServerSearch::Exact, ..keyed }, DIM).unwrap();
        exact.search(&[&vector(0, 0)], 2, &Filter::default()).await.unwrap();
        let seen = server.seen();
        let keys: Vec<_> = seen.keys.iter().map(Option::as_deref).collect();
        assert!(keys.iter().all(|key| *key == Some("sesame")), "{keys:?}");
        assert_eq!(seen.beams, [(Some(77), None), (None, Some(true))]);
        assert!(client.search(&[], 2, &Filter::default()).await.unwrap().is_empty());
        assert_eq!(client.search(&[&vector(0, 0)], 0, &Filter::default()).await.unwrap(), [vec![]]);
    });
}

#[test]
fn an_upsert_that_the_server_broke_off_is_resumed() {
    play(async {
        let server = StandIn::start().await;
        let folder = tempfile::tempdir().unwrap();
        let index = index(folder.path(), DOCUMENTS);
        let client = collection(&server.url, "c");
        client.ensure().await.unwrap();
        server.fail_upserts_after(2);
        let mut last = UpsertProgress::default();
        let error = client.upsert(&index, &mut |p| last = p).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert_eq!(last, done(0, 1_024));
        server.fail_upserts_after(usize::MAX);
        assert_eq!(upsert(&client, &index).await.unwrap(), done(1_024, DOCUMENTS - 1_024));
        assert_eq!(server.seen().upserted, DOCUMENTS);
    });
}

#[test]
fn words_alone_answer_for_a_dead_server_only_where_allowed() {
    play(async {
        let server = StandIn::start().await;
        let url = server.url.clone();
        server.stop().await;
        let folder = tempfile::tempdir().unwrap();
        let index = Arc::new(index(folder.path(), 50));
        let strict = Searcher::new(Arc::clone(&index), hybrid(false), Some(collection(&url, "c"))).unwrap();
        let error = strict.search_remote(&queries(), 5).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        let lenient = Searcher::new(Arc::clone(&index), hybrid(true), Some(collection(&url, "c"))).unwrap();
        let answers = lenient.search_remote(&queries(), 5).await.unwrap();
        assert!(answers.iter().all(|a| a.hits.len() == 5 && a.degraded.as_ref().unwrap().contains("unavailable")));
        let dense = SearchSettings { mode: Mode::Dense, ..hybrid(true) };
        let dense = Searcher::new(index, dense, Some(collection(&url, "c"))).unwrap();
        assert!(dense.search_remote(&queries(), 5).await.is_err(), "there is nothing to fall back to");
        assert!(lenient.search(&queries(), 5).unwrap_err().to_string().contains("search_remote"));
    });
}

#[test]
fn a_server_that_refuses_is_not_taken_for_a_dead_one() {
    play(async {
        let server = StandIn::start().await;
        let folder = tempfile::tempdir().unwrap();
        let index = Arc::new(index(folder.path(), 20));
        let lenient = Searcher::new(Arc::clone(&index), hybrid(true), Some(collection(&server.url, "none"))).unwrap();
        let error = lenient.search_remote(&queries(), 5).await.unwrap_err();
        assert!(matches!(error, RetrievalError::Qdrant { .. }), "{error}");
        let client = collection(&server.url, "c");
        client.ensure().await.unwrap();
        server.add_foreign_point("c");
        let error = upsert(&client, &index).await.unwrap_err().to_string();
        assert!(error.contains("expected 20 points, one a document, got 21"), "{error}");
        let error = client.search(&[&vector(0, 0)], 25, &Filter::default()).await.unwrap_err().to_string();
        assert!(error.contains("expected a docid in the payload"), "{error}");
        let error = client.search(&[&vector(0, 0)], 10_001, &Filter::default()).await.unwrap_err().to_string();
        assert!(error.contains("at most 10000"), "{error}");
    });
}
