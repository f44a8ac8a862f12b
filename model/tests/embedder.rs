//! Embedders against sentence-transformers: tiny random models of each shape, and MiniLM where it has been fetched. The goldens
//! come from `goldens/embedder/make_embedder_goldens.py`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test; clippy knows tests only by their attribute")]

use legwork_kernels::Cpu;
use legwork_kernels::cpu::panel::Level;
use legwork_model::{EmbedKind, EmbedSettings, ModelError, ModelFiles, SentenceEmbedder, Tokenizer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Least cosine with the vector of sentence-transformers.
const COSINE_MIN: f64 = 0.99999;
/// Largest difference of a value that is taken as rounding; values of vectors that are not normed are below 4.
const TOLERANCE: f32 = 5e-6;
/// The same between a text alone and one beside others.
const NEIGHBOUR_TOLERANCE: f32 = 1e-5;

const KINDS: [(EmbedKind, &str); 3] =
    [(EmbedKind::Plain, "plain"), (EmbedKind::Query, "query"), (EmbedKind::Document, "document")];

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/embedder")
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn texts() -> Vec<String> {
    serde_json::from_value(read(&goldens().join("texts.json"))).unwrap()
}

fn refs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn vectors(path: &Path, dimension: usize) -> Vec<Vec<f32>> {
    let bytes = std::fs::read(path).unwrap();
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    values.chunks_exact(dimension).map(<[f32]>::to_vec).collect()
}

fn open(folder: &Path) -> SentenceEmbedder {
    SentenceEmbedder::open(folder, EmbedSettings::default()).unwrap()
}

fn furthest(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len());
    left.iter().zip(right).map(|(l, r)| (l - r).abs()).fold(0.0, f32::max)
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let dot = |l: &[f32], r: &[f32]| l.iter().zip(r).map(|(l, r)| f64::from(*l) * f64::from(*r)).sum::<f64>();
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

/// Compares all texts with a golden file, and says how close they came.
fn compare(name: &str, embedder: &mut SentenceEmbedder, kind: EmbedKind, golden: &Path) {
    let texts = texts();
    let expected = vectors(golden, embedder.dimension());
    let got = embedder.embed(&refs(&texts), kind).unwrap();
    assert_eq!((got.len(), expected.len()), (texts.len(), texts.len()));
    let (mut least, mut most) = (1.0_f64, 0.0_f32);
    for ((text, got), expected) in texts.iter().zip(&got).zip(&expected) {
        let (cosine, off) = match expected.iter().all(|value| *value == 0.0) {
            true => (1.0, furthest(got, expected)),
            false => (cosine(got, expected), furthest(got, expected)),
        };
        let shown: String = text.chars().take(40).collect();
        assert!(cosine > COSINE_MIN && off < TOLERANCE, "{name}, {kind:?}, {shown:?}: cosine {cosine}, off by {off}");
        (least, most) = (least.min(cosine), most.max(off));
    }
    println!("{name}, {kind:?}: {} texts, least cosine {least:.9}, largest difference {most:.1e}", texts.len());
}

fn copied(name: &str) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let to = to.join(entry.file_name());
            if entry.path().is_dir() {
                std::fs::create_dir(&to).unwrap();
                copy(&entry.path(), &to);
            } else {
                std::fs::write(to, std::fs::read(entry.path()).unwrap()).unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy(&goldens().join(name), folder.path());
    folder
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = read(path);
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

fn refused(folder: &Path) -> String {
    SentenceEmbedder::open(folder, EmbedSettings::default()).err().expect("a refusal").to_string()
}

#[test]
fn vectors_of_every_shape_and_kind_of_text_are_those_of_sentence_transformers() {
    for name in ["tiny-bert", "tiny-bert-instructed", "tiny-qwen3"] {
        let folder = goldens().join(name);
        for level in Level::available() {
            let files = ModelFiles::open(&folder).unwrap();
            let mut embedder = SentenceEmbedder::of_files(files, Cpu::at(level), EmbedSettings::default()).unwrap();
            for (kind, file) in KINDS {
                compare(name, &mut embedder, kind, &folder.join(format!("{file}.f32")));
            }
        }
    }
}

#[test]
fn pooling_is_what_the_folder_says() {
    for (name, golden, on) in
        [("tiny-bert", "cls", "pooling_mode_cls_token"), ("tiny-qwen3", "mean", "pooling_mode_mean_tokens")]
    {
        let folder = copied(name);
        edit(&folder.path().join("1_Pooling/config.json"), |config| {
            for (field, value) in config.as_object_mut().unwrap() {
                if field.starts_with("pooling_mode_") {
                    *value = json!(field == on);
                }
            }
        });
        let golden = folder.path().join(format!("{golden}.f32"));
        compare(name, &mut open(folder.path()), EmbedKind::Plain, &golden);
        // A decoder takes texts in pieces that are longer than a step.
        let settings = EmbedSettings { batch_tokens: 50, ..EmbedSettings::default() };
        let mut small = SentenceEmbedder::open(folder.path(), settings).unwrap();
        compare(name, &mut small, EmbedKind::Plain, &golden);
    }
}

#[test]
fn tokens_are_counted_and_cut_as_sentence_transformers_does() {
    for name in ["tiny-bert", "tiny-bert-instructed", "tiny-qwen3"] {
        let folder = goldens().join(name);
        let golden = read(&folder.join("golden.json"));
        let mut embedder = open(&folder);
        assert_eq!(embedder.tokens_max() as u64, golden["tokens_max"].as_u64().unwrap(), "{name}");
        let texts = texts();
        let embedded = embedder.embed_counted(&refs(&texts), EmbedKind::Plain).unwrap();
        for ((text, tokens), expected) in texts.iter().zip(&embedded.tokens).zip(golden["tokens"].as_array().unwrap()) {
            assert_eq!(*tokens as u64, expected.as_u64().unwrap(), "{name}: {text:?}");
            assert_eq!(embedder.count(text, EmbedKind::Plain).unwrap(), *tokens);
        }
        for (tokens, lost) in embedded.tokens.iter().zip(&embedded.lost) {
            assert!(*tokens == embedder.tokens_max() || *lost == 0);
        }
        assert!(embedded.lost.iter().any(|lost| *lost > 500), "{name} has cut the longest text");
    }
}

#[test]
fn a_tokenizer_file_that_cuts_and_pads_by_itself_is_not_let() {
    let tokenizer = Tokenizer::open(&goldens().join("tiny-bert/tokenizer.json")).unwrap();
    assert_eq!(tokenizer.count("the"), 1);
    assert_eq!(tokenizer.count(&"the ".repeat(40)), 40);
    let (ids, lost) = tokenizer.encode_marked("the [SEP] lazy", 100).unwrap();
    let [start, end] = ["[CLS]", "[SEP]"].map(|marker| tokenizer.id_of(marker).unwrap());
    assert_eq!((ids[0], ids[2], ids[4], ids.len(), lost), (start, end, end, 5, 0));
    let (cut, lost) = tokenizer.encode_marked("the [SEP] lazy", 3).unwrap();
    assert_eq!((cut, lost), (vec![start, ids[1], end], 2), "markers are kept");
}

#[test]
fn a_text_has_the_same_vector_alone_and_beside_any_others() {
    let texts = texts();
    for name in ["tiny-bert", "tiny-qwen3"] {
        let folder = goldens().join(name);
        let together = open(&folder).embed(&refs(&texts), EmbedKind::Query).unwrap();
        let mut worst = 0.0_f32;
        let mut alone = open(&folder);
        for (text, together) in texts.iter().zip(&together) {
            let one = alone.embed(&[text], EmbedKind::Query).unwrap();
            worst = worst.max(furthest(&one[0], together));
        }
        // In another order, and in steps that are smaller than the longest text.
        let settings = EmbedSettings { batch_tokens: 17, ..EmbedSettings::default() };
        let mut small = SentenceEmbedder::open(&folder, settings).unwrap();
        let reversed: Vec<&str> = texts.iter().rev().map(String::as_str).collect();
        for (one, together) in small.embed(&reversed, EmbedKind::Query).unwrap().iter().zip(together.iter().rev()) {
            worst = worst.max(furthest(one, together));
        }
        println!("{name}: {worst:.1e}");
        assert!(worst < NEIGHBOUR_TOLERANCE, "{name}: {worst}");
    }
}

#[test]
fn no_texts_have_no_vectors_and_a_kind_without_a_prompt_has_none() {
    let mut embedder = open(&goldens().join("tiny-qwen3"));
    assert!(embedder.embed(&[], EmbedKind::Query).unwrap().is_empty());
    assert!(
        embedder.prompt(EmbedKind::Query).starts_with("Instruct: ") && embedder.prompt(EmbedKind::Plain).is_empty()
    );
    let folder = copied("tiny-bert");
    edit(&folder.path().join("config_sentence_transformers.json"), |config| {
        *config = json!({"prompts": {"passage": "p: "}, "default_prompt_name": "passage"});
    });
    let mut embedder = open(folder.path());
    let kinds = [EmbedKind::Query, EmbedKind::Document, EmbedKind::Plain, EmbedKind::Bare];
    assert_eq!(kinds.map(|kind| embedder.prompt(kind)), ["", "", "p: ", ""]);
    let bare = embedder.embed(&["p: the lazy word"], EmbedKind::Bare).unwrap();
    assert_eq!(embedder.embed(&["the lazy word"], EmbedKind::Plain).unwrap(), bare);
}

#[test]
fn texts_may_be_cut_shorter_than_the_model_could_take() {
    let settings = EmbedSettings { tokens_max: 9, ..EmbedSettings::default() };
    let mut embedder = SentenceEmbedder::open(&goldens().join("tiny-bert"), settings).unwrap();
    let embedded =
        embedder.embed_counted(&["the lazy word one two three four rank text query"], EmbedKind::Plain).unwrap();
    assert_eq!((embedder.tokens_max(), embedded.tokens, embedded.lost), (9, vec![9], vec![3]));
    let settings = EmbedSettings { tokens_max: 2, ..settings };
    let error = SentenceEmbedder::open(&goldens().join("tiny-bert"), settings).err().unwrap().to_string();
    assert!(error.contains("at least 3 tokens, of which 2 are markers, got 2"), "{error}");
}

#[test]
fn a_folder_that_is_no_embedder_is_refused_and_says_why() {
    let folder = copied("tiny-qwen3");
    std::fs::remove_file(folder.path().join("modules.json")).unwrap();
    assert!(refused(folder.path()).contains("a decoder without modules.json"));
    let folder = copied("tiny-bert");
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    assert!(refused(folder.path()).contains("expected a tokenizer.json"));
    let folder = copied("tiny-bert");
    edit(&folder.path().join("tokenizer.json"), |file| file["normalizer"] = Value::Null);
    assert!(open(folder.path()).dimension() == 36);
    edit(&folder.path().join("sentence_bert_config.json"), |config| config["do_lower_case"] = json!(true));
    assert!(refused(folder.path()).contains("`do_lower_case`"));
    let folder = copied("tiny-bert");
    edit(&folder.path().join("config.json"), |config| config["vocab_size"] = json!(99));
    let error = refused(folder.path());
    assert!(error.contains("embeddings.word_embeddings.weight") && error.contains("[99, 36]"), "{error}");
    let folder = copied("tiny-bert");
    edit(&folder.path().join("tokenizer_config.json"), |config| config["model_max_length"] = json!(1e30));
    std::fs::remove_file(folder.path().join("sentence_bert_config.json")).unwrap();
    assert_eq!(open(folder.path()).tokens_max(), 80, "its positions");
}

#[test]
fn an_encoder_without_modules_is_pooled_by_its_mean() {
    let folder = copied("tiny-bert");
    std::fs::remove_file(folder.path().join("modules.json")).unwrap();
    edit(&folder.path().join("tokenizer_config.json"), |config| config["model_max_length"] = json!(70));
    let (mut plain, mut normed) = (open(folder.path()), open(&goldens().join("tiny-bert")));
    let [plain, normed] = [&mut plain, &mut normed].map(|one| one.embed(&["the lazy word"], EmbedKind::Plain).unwrap());
    assert!((cosine(&plain[0], &normed[0]) - 1.0).abs() < 1e-9);
    assert!((cosine(&plain[0], &plain[0]) - 1.0).abs() < 1e-9 && furthest(&plain[0], &normed[0]) > 0.1);
}

/// A norm's weight so large that everything behind it overflows.
#[test]
fn a_vector_that_overflows_is_refused_with_its_text() {
    let folder = copied("tiny-bert");
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let head_bytes = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let head: Value = serde_json::from_slice(&bytes[8..8 + head_bytes]).unwrap();
    let start = head["encoder.layer.1.output.LayerNorm.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    for value in bytes[8 + head_bytes + start..][..36 * 4].chunks_exact_mut(4) {
        value.copy_from_slice(&f32::MAX.to_le_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    let error = open(folder.path()).embed(&["the", "lazy"], EmbedKind::Plain).unwrap_err();
    assert!(matches!(error, ModelError::Vector { text: 0, .. }), "{error}");
}

/// The real model, if it has been fetched.
fn minilm() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fixtures/minilm");
    if folder.join("model.safetensors").is_file() {
        return Some(folder);
    }
    println!("skipped: {} has no model.safetensors; run .ci/fixtures minilm", folder.display());
    None
}

#[test]
fn minilm_embeds_as_sentence_transformers_does() {
    let Some(folder) = minilm() else { return };
    let golden = goldens().join("minilm");
    let mut embedder = open(&folder);
    assert_eq!((embedder.dimension(), embedder.tokens_max()), (384, 256));
    compare("MiniLM", &mut embedder, EmbedKind::Plain, &golden.join("plain.f32"));
    let expected = read(&golden.join("golden.json"));
    let texts = texts();
    for (text, expected) in texts.iter().zip(expected["tokens"].as_array().unwrap()) {
        assert_eq!(embedder.count(text, EmbedKind::Plain).unwrap() as u64, expected.as_u64().unwrap(), "{text:?}");
    }
    let alone = embedder.embed(&[&texts[0]], EmbedKind::Plain).unwrap();
    let together = embedder.embed(&refs(&texts), EmbedKind::Plain).unwrap();
    assert!(furthest(&alone[0], &together[0]) < NEIGHBOUR_TOLERANCE);
}
