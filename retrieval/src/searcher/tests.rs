use super::*;
use crate::bm25::Bm25Params;
use crate::corpus::{Corpus, Format};
use crate::index::BuildSettings;

/// Four documents; "d1" and "d3" say cat; vectors point along one axis each but the last.
fn index(vectors: bool) -> (tempfile::TempDir, Arc<Index>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.jsonl");
    let texts = [("d3", "cat"), ("d1", "cat"), ("d0", "dog"), ("d2", "whale whale")];
    let lines: Vec<String> =
        texts.iter().map(|(id, text)| serde_json::json!({"docid": id, "text": text}).to_string()).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let corpus = Corpus::with_format(&path, Format::Jsonl);
    let settings = BuildSettings::new(Bm25Params::LUCENE, 1);
    let mut index = Index::build(&corpus, &folder.path().join("i"), &settings, &mut |_| {}).unwrap();
    if vectors {
        let mut writer = index.vector_writer("test", 3).unwrap();
        writer.push(&[1., 0., 0., 0., 1., 0., 0., 0., 1., 0., 1., 0.]).unwrap();
        index.set_vectors(writer).unwrap();
    }
    (folder, Arc::new(index))
}

fn settings(mode: Mode) -> SearchSettings {
    SearchSettings { mode, fusion: FusionSettings::default(), allow_degraded: false }
}

fn query(text: &str, vector: &[f32]) -> Query {
    Query { text: text.into(), vector: Some(vector.to_vec()) }
}

fn ids(answer: &Answer) -> Vec<&str> {
    answer.hits.iter().map(|h| h.docid.as_str()).collect()
}

#[test]
fn each_mode_ranks_by_its_own_and_ties_follow_the_ids() {
    let (_folder, index) = index(true);
    let queries = [query("cat", &[0., 1., 0.]), query("dog \"whale\"", &[0., 0., 2.])];
    let search =
        |mode, k| Searcher::new(Arc::clone(&index), settings(mode), None).unwrap().search(&queries, k).unwrap();
    let words = search(Mode::Bm25, 9);
    assert_eq!(ids(&words[0]), ["d1", "d3"]);
    assert_eq!(words[0].hits[0].score, words[0].hits[1].score);
    let vectors = search(Mode::Dense, 3);
    assert_eq!(ids(&vectors[0]), ["d1", "d3", "d0"]);
    assert_eq!(vectors[1].hits[0].score, 2.0);
    let both = search(Mode::Hybrid, 2);
    assert_eq!(ids(&both[0]), ["d1", "d3"]);
    assert_eq!(both[0].hits[0].score, 2.0 / 61.0);
    assert!(both[1].degraded.is_none());
    assert_eq!(index.document(both[0].hits[0].number).unwrap().text, "cat");
    assert!(search(Mode::Hybrid, 0)[0].hits.is_empty());
}

#[test]
fn a_batch_answers_as_its_queries_alone() {
    let (_folder, index) = index(true);
    let searcher = Searcher::new(index, settings(Mode::Hybrid), None).unwrap();
    let queries: Vec<Query> =
        (0..40).map(|i| query(["cat", "dog", "whale cat"][i % 3], &[i as f32, 1., -1.])).collect();
    let together = searcher.search(&queries, 4).unwrap();
    for (query, answer) in queries.iter().zip(&together) {
        assert_eq!(&searcher.search(std::slice::from_ref(query), 4).unwrap()[0], answer);
    }
    assert!(searcher.search(&[], 4).unwrap().is_empty());
}

#[test]
fn a_query_without_a_fitting_vector_is_refused_by_number() {
    let (_folder, index) = index(true);
    let searcher = Searcher::new(index, settings(Mode::Hybrid), None).unwrap();
    let good = query("cat", &[0.; 3]);
    let error = |bad: Query| searcher.search(&[good.clone(), bad], 4).unwrap_err().to_string();
    assert!(error(Query { text: "cat".into(), vector: None }).starts_with("query 1: expected a vector, got none"));
    assert!(error(query("cat", &[0.; 2])).starts_with("query 1: expected a vector of 3 values, got 2"));
    assert!(error(query("cat", &[0., f32::NAN, 0.])).starts_with("query 1: expected finite values"));
}

#[test]
fn vectors_are_needed_only_where_they_are_used() {
    let (_folder, index) = index(false);
    assert!(Searcher::new(Arc::clone(&index), settings(Mode::Hybrid), None).is_err());
    let searcher = Searcher::new(index, settings(Mode::Bm25), None).unwrap();
    let answers = searcher.search(&[Query { text: "cat".into(), vector: None }], 1).unwrap();
    assert_eq!(ids(&answers[0]), ["d1"]);
}

#[test]
fn what_a_server_said_is_fused_and_checked() {
    let (_folder, index) = index(true);
    let searcher = Searcher::new(index, settings(Mode::Hybrid), None).unwrap();
    let queries = [query("cat", &[0.; 3])];
    let list = |ids: &[&str]| Ok(vec![ids.iter().map(|id| ((*id).to_owned(), 1.0)).collect::<Vec<_>>()]);
    let answers = searcher.search_with(&queries, 9, list(&["d3", "d0"])).unwrap();
    assert_eq!(
        ids(&answers[0]),
        ["d3", "d0", "d1"],
        "equal places, and equal scores of the server, in the order of ids"
    );
    assert!(searcher.search_with(&queries, 9, list(&["nobody"])).unwrap_err().to_string().contains("\"nobody\""));
    let short = searcher.search_with(&queries, 9, Ok(Vec::new())).unwrap_err().to_string();
    assert!(short.contains("expected 1 lists from the vector server, got 0"), "{short}");
}
