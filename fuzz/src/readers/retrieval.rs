//! Readers of the retrieval room: corpora, vectors, judgements, runs, and the files of an index. They take paths, so each
//! input is written to a file first. What is taken keeps within the stated limits; an error names its file.

use super::{files, first_line, text};
use legwork_retrieval::analyzer::{Analyzer, MAX_TERM_CHARS};
use legwork_retrieval::bm25::Bm25Params;
use legwork_retrieval::corpus::{Format, MAX_DOCID_BYTES, MAX_FIELD_BYTES};
use legwork_retrieval::error::RetrievalError;
use legwork_retrieval::fusion::FusionSettings;
use legwork_retrieval::index::{BuildSettings, OpenSettings};
use legwork_retrieval::metrics::{Averaging, Measure, Qrels, evaluate, read_qrels, read_run, write_run};
use legwork_retrieval::searcher::SearchSettings;
use legwork_retrieval::snippet::{best_window, head_words};
use legwork_retrieval::vectors::VectorFile;
use legwork_retrieval::{Corpus, Document, Index, Mode, Query, Searcher};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a vector file that are read, from its start and its end.
const ROWS_READ: usize = 16;
/// The documents of the index whose files are damaged.
const DOCUMENTS: &str = "{\"docid\":\"b\",\"text\":\"the cat sat on the mat\",\"url\":\"http://h/b\",\"title\":\"Cats\"}\n{\"docid\":\"a\",\"text\":\"a dog and a cat\",\"url\":\"http://h/a\"}\n{\"docid\":\"é\",\"text\":\"\"}\n";

pub fn jsonl(bytes: &[u8]) {
    corpus("input.jsonl", Format::Jsonl, bytes);
}

pub fn parquet(bytes: &[u8]) {
    corpus("input.parquet", Format::Parquet, bytes);
}

pub fn trec(bytes: &[u8]) {
    corpus("input.trec", Format::Trec, bytes);
}

pub fn npy(bytes: &[u8]) {
    vectors("input.npy", None, bytes);
}

pub fn safetensors(bytes: &[u8]) {
    vectors("input.safetensors", None, bytes);
    vectors("input.safetensors", Some("w"), bytes);
}

pub fn qrels(bytes: &[u8]) {
    let Some(qrels) = taken(read_qrels(&files::file("input.txt", bytes))) else { return };
    assert!(!qrels.is_empty() && qrels.values().all(|judged| !judged.is_empty()));
    let found = |judged: &std::collections::BTreeMap<String, i64>| judged.keys().map(|id| (id.clone(), 1.0)).collect();
    let run = qrels.iter().map(|(topic, judged)| (topic.clone(), found(judged))).collect();
    measured(&qrels, &run);
}

pub fn run(bytes: &[u8]) {
    let path = files::file("input.trec", bytes);
    let Some(run) = taken(read_run(&path)) else { return };
    let mut written = Vec::new();
    let is_plain = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    let is_writable = run.iter().all(|(topic, found)| is_plain(topic) && found.iter().all(|(id, _)| is_plain(id)));
    match write_run(&path, &run, "tag", &mut written) {
        Ok(()) => assert_eq!(taken(read_run(&files::file("written.trec", &written))).as_ref(), Some(&run)),
        Err(error) => assert!(!is_writable, "{error}"),
    }
    let judged = |found: &Vec<(String, f64)>| found.iter().take(1).map(|(docid, _)| (docid.clone(), 1)).collect();
    measured(&run.iter().map(|(topic, found)| (topic.clone(), judged(found))).collect(), &run);
}

fn measured(qrels: &Qrels, run: &legwork_retrieval::metrics::Run) {
    let measures = [Measure::NdcgCut(10), Measure::Ndcg, Measure::Recall(5), Measure::Precision(5), Measure::Map];
    for averaging in [Averaging::Answered, Averaging::AllJudged] {
        let evaluation = evaluate(qrels, run, &measures, averaging);
        assert!(evaluation.means.iter().all(|mean| mean.is_finite()), "{:?}", evaluation.means);
    }
}

/// The first line is a query, the rest a page.
pub fn passages(bytes: &[u8]) {
    let text = text(bytes);
    let (query, page) = first_line(&text);
    let mut analyzer = Analyzer::default();
    let terms = analyzer.counts(query);
    // A letter may grow by case folding; it does not grow without end.
    assert!(terms.keys().all(|term| !term.is_empty() && term.chars().count() <= 4 * MAX_TERM_CHARS));
    let weights = terms.into_keys().map(|term| (term, 1.0)).collect();
    for words in [0, 1, 5] {
        let window = best_window(page, words, &weights);
        assert!(page.contains(window) && window.split_whitespace().count() <= words);
        let head = head_words(page, words);
        assert!(page.starts_with(head) && head.split_whitespace().count() <= words);
    }
}

/// The bytes are the manifest of an index that is otherwise whole.
pub fn index_manifest(bytes: &[u8]) {
    with_index(|folder| damaged(folder, "manifest.json", bytes, false));
}

/// The first line names a file of an index, the rest is what stands in it; the manifest agrees.
pub fn index_store(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let content = bytes.get(at + 1..).unwrap_or_default();
    let known = ["documents.bin", "documents.idx", "docids.u32", "urls.u32", "lengths.u32", "bounds.bin"];
    let Some(name) = known.into_iter().find(|name| name.as_bytes() == &bytes[..at]) else { return };
    with_index(|folder| damaged(folder, name, content, true));
}

fn with_index(with: impl FnOnce(&Path)) {
    thread_local! {
        static INDEX: OnceCell<PathBuf> = const { OnceCell::new() };
    }
    INDEX.with(|index| {
        let build = || {
            let corpus = Corpus::with_format(&files::file("corpus.jsonl", DOCUMENTS.as_bytes()), Format::Jsonl);
            let folder = files::folder().join("index");
            let settings = BuildSettings::new(Bm25Params::ANSERINI, 1);
            Index::build(&corpus, &folder, &settings, &mut |_| ()).expect("a whole corpus can be indexed");
            folder
        };
        with(index.get_or_init(build));
    });
}

/// Puts other bytes into one file of the index, uses it, and puts the right ones back.
fn damaged(folder: &Path, name: &str, bytes: &[u8], agrees: bool) {
    let read = |name: &str| std::fs::read(folder.join(name)).expect("a file of the index");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("a file of the index");
    let (before, manifest) = (read(name), read("manifest.json"));
    write(name, bytes);
    if agrees {
        let mut told: serde_json::Value = serde_json::from_slice(&manifest).expect("the manifest is JSON");
        told["files"][name]["bytes"] = bytes.len().into();
        write("manifest.json", told.to_string().as_bytes());
    }
    if let Some(index) = taken(Index::open(folder, &OpenSettings::default())) {
        used(index);
    }
    write("manifest.json", &manifest);
    write(name, &before);
}

fn used(index: Index) {
    for number in 0..5 {
        let _ = index.document(number);
    }
    let _ = (index.number_of_docid("a"), index.number_of_url("http://h/a"), index.bm25().term_weights("cat dog"));
    let settings = SearchSettings { mode: Mode::Bm25, fusion: FusionSettings::default(), allow_degraded: false };
    if let Some(searcher) = taken(Searcher::new(Arc::new(index), settings, None)) {
        let query = Query { text: "the cat and the dog".to_owned(), ..Query::default() };
        let _ = searcher.search(&[query], 3);
    }
}

fn corpus(name: &str, format: Format, bytes: &[u8]) {
    let path = files::file(name, bytes);
    let Some(documents) = taken(Corpus::with_format(&path, format).documents()) else { return };
    let mut ids = BTreeSet::new();
    let mut failed = false;
    for document in documents {
        assert!(!failed, "after an error it ends");
        match taken(document) {
            Some(document) => {
                within_limits(&document);
                assert!(ids.insert(document.docid.clone()), "{:?} twice", document.docid);
            }
            None => failed = true,
        }
    }
    assert!(failed || !ids.is_empty(), "an empty corpus is refused");
}

fn within_limits(document: &Document) {
    let Document { docid, text, title, url } = document;
    assert!(!docid.is_empty() && docid.len() <= MAX_DOCID_BYTES && !docid.chars().any(char::is_control));
    for field in [title.as_ref(), url.as_ref()].into_iter().flatten() {
        assert!(field.len() <= MAX_FIELD_BYTES && !field.contains('\0'));
    }
    assert!(!text.contains('\0'));
}

fn vectors(name: &str, tensor: Option<&str>, bytes: &[u8]) {
    let Some(file) = taken(VectorFile::open(&files::file(name, bytes), tensor)) else { return };
    let (rows, dim) = (file.rows(), file.dim());
    assert!(dim > 0 && rows.saturating_mul(dim).saturating_mul(2) <= bytes.len(), "{rows} rows of {dim}");
    let mut vector = vec![0.0; dim];
    for row in (0..rows.min(ROWS_READ)).chain(rows.saturating_sub(ROWS_READ)..rows) {
        file.read(row, &mut vector);
    }
}

fn taken<T>(read: Result<T, RetrievalError>) -> Option<T> {
    read.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
}
