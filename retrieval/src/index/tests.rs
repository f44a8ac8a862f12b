use super::*;
use crate::corpus::Format;
use std::fs;

fn corpus(folder: &Path, documents: usize) -> Corpus {
    let lines: Vec<String> = (0..documents)
        .map(|i| {
            let text = format!("word{} common word{}", i % 7, i % 3);
            serde_json::json!({"docid": format!("d{}", (i * 37) % documents), "text": text, "title": format!("t{i}")})
                .to_string()
        })
        .collect();
    let path = folder.join("corpus.jsonl");
    fs::write(&path, lines.join("\n")).unwrap();
    Corpus::with_format(&path, Format::Jsonl)
}

/// Parts of a few documents, on two threads.
fn small_parts() -> BuildSettings {
    BuildSettings { part_text_bytes: 200, ..BuildSettings::new(Bm25Params::LUCENE, 2) }
}

fn built(folder: &Path, documents: usize) -> Index {
    Index::build(&corpus(folder, documents), &folder.join("index"), &small_parts(), &mut |_| {}).unwrap()
}

fn hits(index: &Index, query: &str) -> Vec<(u32, f64)> {
    let found = index.bm25().search(0, query, 1_000, index.numbers()).unwrap();
    found.into_iter().map(|r| (r.rank, r.score)).collect()
}

#[test]
fn an_index_is_whole_and_says_what_it_is_of() {
    let folder = tempfile::tempdir().unwrap();
    let index = built(folder.path(), 50);
    assert_eq!((index.len(), index.manifest().corpus.documents), (50, 50));
    assert_eq!(index.manifest().analyzer, "lucene-english-1");
    assert_eq!(index.document(0).unwrap().docid, "d0");
    assert_eq!(index.number_of_docid("d10").unwrap(), Some(2), "numbers follow the order of ids: d0, d1, d10");
    assert!(index.document(50).is_err());
    index.verify().unwrap();
    assert!(!folder.path().join("index.building").exists());
    assert_eq!(hits(&index, "word3").len(), 7);
}

#[test]
fn the_number_of_parts_and_threads_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let many = built(folder.path(), 80);
    let one = Index::build(
        &corpus(folder.path(), 80),
        &folder.path().join("one"),
        &BuildSettings::new(Bm25Params::LUCENE, 1),
        &mut |_| {},
    )
    .unwrap();
    for query in ["word1 common", "word2 t5 word0", "common"] {
        assert_eq!(hits(&many, query), hits(&one, query), "{query}");
    }
}

#[test]
fn other_constants_give_what_a_build_with_them_gives() {
    let folder = tempfile::tempdir().unwrap();
    drop(built(folder.path(), 40));
    let settings = OpenSettings { bm25: Some(Bm25Params::ANSERINI), ..OpenSettings::default() };
    let reopened = Index::open(&folder.path().join("index"), &settings).unwrap();
    let build = BuildSettings { bm25: Bm25Params::ANSERINI, ..small_parts() };
    let other = Index::build(&corpus(folder.path(), 40), &folder.path().join("other"), &build, &mut |_| {}).unwrap();
    assert_eq!(hits(&reopened, "word1 common"), hits(&other, "word1 common"));
}

#[test]
fn an_interrupted_build_goes_on_with_its_whole_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("corpus.jsonl");
    let good = corpus(folder.path(), 60);
    let text = fs::read_to_string(&path).unwrap();
    let target = folder.path().join("index");
    // The build fails near the end of the corpus; what is left has no manifest and is never opened.
    fs::write(&path, text.replacen("\"d23\"", "23", 1)).unwrap();
    let error = Index::build(&good, &target, &small_parts(), &mut |_| {}).err().unwrap();
    assert!(error.to_string().contains("line 60") && error.to_string().contains("write \"23\" in quotes"), "{error}");
    assert!(fs::read_dir(folder.path().join("index.building/parts")).unwrap().count() > 3);
    assert!(Index::open(&target, &OpenSettings::default()).is_err());
    // Another corpus: nothing of the old build may be used.
    fs::write(&path, &text).unwrap();
    let mut resumed = 0;
    let mut stop_after_parts = |p: BuildProgress| resumed = p.resumed_parts;
    drop(Index::build(&good, &target, &small_parts(), &mut stop_after_parts).unwrap());
    assert_eq!(resumed, 0);
    // The same corpus, interrupted by hand: the folder as it stands when parts are whole but nothing is merged.
    fs::remove_dir_all(&target).unwrap();
    let work = folder.path().join("index.building");
    let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Index::build(&good, &target, &small_parts(), &mut |p| assert!(p.stage != Stage::Merging, "power fails"))
            .map(drop)
    }));
    assert!(interrupted.is_err() && !target.exists() && work.is_dir());
    fs::write(work.join("bm25.half"), "half").unwrap();
    fs::remove_dir_all(work.join("parts/000001")).unwrap();
    fs::create_dir_all(work.join("parts/000001.passing/bm25")).unwrap();
    let index = Index::build(&good, &target, &small_parts(), &mut |p| resumed = p.resumed_parts).unwrap();
    assert!(resumed > 3, "{resumed} parts were found whole");
    index.verify().unwrap();
    let anew = built(tempfile::tempdir().unwrap().path(), 60);
    assert_eq!(hits(&index, "word1 common"), hits(&anew, "word1 common"));
}

#[test]
fn a_changed_corpus_another_schema_and_damage_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(built(folder.path(), 20));
    let target = folder.path().join("index");
    let error = |settings: &OpenSettings| Index::open(&target, settings).err().unwrap().to_string();
    let same = OpenSettings { corpus: Some(corpus(folder.path(), 20)), ..OpenSettings::default() };
    Index::open(&target, &same).unwrap();
    let changed = OpenSettings { corpus: Some(corpus(folder.path(), 21)), ..OpenSettings::default() };
    assert!(error(&changed).contains("build the index anew"));
    let manifest = target.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"schema\": 1", "\"schema\": 2")).unwrap();
    assert!(error(&OpenSettings::default()).contains("expected index schema 1, got 2"));
    fs::write(&manifest, text.replace("lucene-english-1", "other")).unwrap();
    assert!(error(&OpenSettings::default()).contains("analysed by lucene-english-1"));
    fs::write(&manifest, text.replace("\"documents.bin\"", "\"../documents.bin\"")).unwrap();
    assert!(error(&OpenSettings::default()).contains("inside the folder"));
    fs::write(&manifest, &text).unwrap();
    let bounds = target.join("bounds.bin");
    let bytes = fs::read(&bounds).unwrap();
    fs::write(&bounds, &bytes[1..]).unwrap();
    assert!(error(&OpenSettings::default()).contains("build it anew"));
    let mut flipped = bytes.clone();
    let at = flipped.len() - 4;
    flipped[at] ^= 1;
    fs::write(&bounds, flipped).unwrap();
    assert!(Index::open(&target, &OpenSettings::default()).unwrap().verify().is_err());
}

#[test]
fn a_folder_in_use_and_a_second_builder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = corpus(folder.path(), 5);
    let build = |target: &Path| Index::build(&corpus, target, &small_parts(), &mut |_| {}).err().map(|e| e.to_string());
    assert!(build(folder.path()).unwrap().contains("in use"));
    let target = folder.path().join("index");
    let mut second = None;
    Index::build(&corpus, &target, &small_parts(), &mut |p| {
        if p.stage == Stage::Merging {
            second = build(&target);
        }
    })
    .unwrap();
    assert!(second.unwrap().contains("another build is at work"));
    assert!(build(&target).unwrap().contains("an index is here already"));
    let no_threads = BuildSettings { threads: 0, ..small_parts() };
    assert!(Index::build(&corpus, &folder.path().join("x"), &no_threads, &mut |_| {}).is_err());
}

/// A `.npy` file of `rows` vectors of two values: (row, 1).
fn npy(folder: &Path, rows: usize) -> PathBuf {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 2), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend((0..rows).flat_map(|row| [row as f32, 1.0]).flat_map(f32::to_le_bytes));
    let path = folder.join("vectors.npy");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn imported_vectors_belong_to_their_documents() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = built(folder.path(), 20);
    let file = npy(folder.path(), 20);
    index.import_vectors(&file, None, None).unwrap();
    // The corpus' second line is d17: without a list, rows are in corpus order.
    let number = index.number_of_docid("d17").unwrap().unwrap();
    assert_eq!(index.dense().unwrap().vector(number), Some(&[1.0, 1.0][..]));
    let list = folder.path().join("ids.txt");
    let ids: Vec<String> = (0..20).rev().map(|i| format!("d{i}")).collect();
    fs::write(&list, ids.join("\r\n")).unwrap();
    index.import_vectors(&file, None, Some(&list)).unwrap();
    assert_eq!(index.dense().unwrap().vector(number), Some(&[2.0, 1.0][..]));
    let reopened = Index::open(index.folder(), &OpenSettings::default()).unwrap();
    assert_eq!(reopened.dense().unwrap().vector(number), Some(&[2.0, 1.0][..]));
    let files = fs::read_dir(index.folder()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.filter(|f| f.starts_with("vectors")).count(), 1, "the old vectors and the plan are gone");
}

#[test]
fn vectors_that_do_not_fit_the_documents_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = built(folder.path(), 5);
    let list = folder.path().join("ids.txt");
    let file = npy(folder.path(), 5);
    let mut error = |ids: &str, file: &Path| {
        fs::write(&list, ids).unwrap();
        index.import_vectors(file, None, Some(&list)).unwrap_err().to_string()
    };
    assert!(error("d0\nd1\nd2\nd3\nx", &file).contains("line 5: expected an id of the corpus, got \"x\""));
    assert!(error("d0\nd1\nd2\nd3\nd0", &file).contains("line 5: docid \"d0\" was listed before"));
    assert!(error("d0\nd1\nd2\nd3", &file).contains("expected 4 vectors"));
    let four = npy(folder.path(), 4);
    assert!(error("d0\nd1\nd2\nd3", &four).contains("got none for \"d4\""));
    let mut bytes = fs::read(npy(folder.path(), 5)).unwrap();
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&file, bytes).unwrap();
    let message = error("d0\nd1\nd2\nd3\nd4", &file);
    assert!(message.contains("row 4") && message.contains("NaN"), "{message}");
}

#[test]
fn an_interrupted_vector_writer_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = built(folder.path(), 6);
    let mut writer = index.vector_writer("model a", 2).unwrap();
    writer.push(&[1.0; 6]).unwrap();
    assert!(index.vector_writer("model a", 0).is_err());
    assert_eq!(writer.next_number(), Some(3));
    drop(writer);
    // A torn vector at the end, as a crash leaves it.
    let passing = index.folder().join("vectors.passing");
    let mut bytes = fs::read(&passing).unwrap();
    bytes.extend([0; 5]);
    fs::write(&passing, bytes).unwrap();
    let mut writer = index.vector_writer("model a", 2).unwrap();
    assert_eq!(writer.next_number(), Some(3));
    assert!(writer.push(&[0.0, f32::NAN]).is_err() && writer.push(&[0.0; 8]).is_err() && writer.push(&[0.0]).is_err());
    writer.push(&[2.0; 4]).unwrap();
    drop(writer);
    assert_eq!(index.vector_writer("model b", 2).unwrap().next_number(), Some(0), "another model starts anew");
    let writer = index.vector_writer("model b", 2).unwrap();
    assert!(index.set_vectors(writer).unwrap_err().to_string().contains("expected 6 vectors, got 0"));
    let mut writer = index.vector_writer("model b", 2).unwrap();
    writer.push(&[2.0; 12]).unwrap();
    assert_eq!(writer.next_number(), None);
    index.set_vectors(writer).unwrap();
    assert_eq!(index.manifest().vectors.as_ref().unwrap().source, "model b");
}
