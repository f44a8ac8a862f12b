//! Decoders against transformers: tiny random models of each family, and a real one on its own quantised weights. The
//! goldens come from `goldens/make_decoder_goldens.py`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test; clippy knows tests only by their attribute")]

use legwork_kernels::cpu::panel::Level;
use legwork_kernels::{Batch, Cpu, PAGE_TOKENS};
use legwork_model::{Decoder, DecoderSettings, Forward, ModelFiles};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Largest difference of a logit that is taken as rounding, of logits around 30.
const LOGIT_TOLERANCE: f32 = 1e-4;

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/decoder")
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

fn open(path: &Path, level: Level, pages: usize, rows_max: usize) -> Decoder<Cpu> {
    let mut files = ModelFiles::open(path).unwrap();
    let config = files.decoder().unwrap().clone();
    let settings = DecoderSettings { pages, rows_max, context_max: usize::MAX };
    Decoder::load(Cpu::at(level), &config, &mut files.weights, settings).unwrap()
}

/// Logits of all rows wanted, from chunks of one sequence in pages of its own.
fn in_chunks(decoder: &mut Decoder<Cpu>, ids: &[u32], chunks: &[usize], pages: &[u32]) -> Vec<Vec<f32>> {
    let vocabulary = decoder.limits().vocabulary;
    let (mut rows, mut past, mut logits) = (Vec::new(), 0, Vec::new());
    for chunk in chunks {
        let mut batch = Batch::default();
        batch.push(&ids[past..past + chunk], past, pages, false);
        batch.wanted = (0..*chunk as u32).collect();
        decoder.forward(&batch, &mut logits).unwrap();
        rows.extend(logits.chunks_exact(vocabulary).map(<[f32]>::to_vec));
        past += chunk;
    }
    rows
}

fn furthest(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len());
    left.iter().zip(right).map(|(l, r)| (l - r).abs()).fold(0.0, f32::max)
}

#[test]
fn tiny_models_of_each_family_give_the_logits_of_transformers_at_every_level() {
    for family in ["qwen3", "qwen2", "llama"] {
        let folder = goldens().join(format!("tiny-{family}"));
        let golden = read(&folder.join("golden.json"));
        let ids = ids(&golden["ids"]);
        for level in Level::available() {
            let mut decoder = open(&folder, level, 8, 256);
            let rows = in_chunks(&mut decoder, &ids, &[ids.len()], &[3, 0, 7, 5]);
            for (row, expected) in golden["rows"].as_array().unwrap().iter().zip(golden["logits"].as_array().unwrap()) {
                let row = row.as_u64().unwrap() as usize;
                let off = furthest(&rows[row], &floats(expected));
                assert!(off < LOGIT_TOLERANCE, "{family}, {level:?}, row {row}: {off}");
            }
        }
    }
}

#[test]
fn chunks_single_tokens_and_other_sequences_beside_it_change_nothing_beyond_rounding() {
    let folder = goldens().join("tiny-qwen3");
    let ids = ids(&read(&folder.join("golden.json"))["ids"]);
    let mut decoder = open(&folder, Level::detect(), 16, 256);
    let whole = in_chunks(&mut decoder, &ids, &[200], &[0, 1, 2, 3]);
    for chunks in [vec![1; 200], vec![63, 1, 1, 64, 71], vec![130, 70]] {
        let rows = in_chunks(&mut decoder, &ids, &chunks, &[9, 4, 12, 8]);
        let off = whole.iter().zip(&rows).map(|(l, r)| furthest(l, r)).fold(0.0, f32::max);
        assert!(off < LOGIT_TOLERANCE, "{chunks:?}: {off}");
    }
    // Beside others, of which one decodes and one begins; the pages of the first hold its past.
    let vocabulary = decoder.limits().vocabulary;
    let mut logits = Vec::new();
    let mut batch = Batch::default();
    batch.push(&ids[..3], 0, &[5], true);
    batch.push(&ids[150..200], 150, &[0, 1, 2, 3], true);
    batch.push(&ids[100..101], 100, &[9, 4, 12, 8], true);
    decoder.forward(&batch, &mut logits).unwrap();
    let got: Vec<&[f32]> = logits.chunks_exact(vocabulary).collect();
    for (got, row) in got.iter().zip([2, 199, 100]) {
        assert!(furthest(got, &whole[row]) < LOGIT_TOLERANCE, "row {row}");
    }
}

#[test]
fn a_row_that_decodes_has_the_same_bits_however_many_decode_beside_it() {
    let folder = goldens().join("tiny-qwen3");
    let ids = ids(&read(&folder.join("golden.json"))["ids"]);
    let mut decoder = open(&folder, Level::detect(), 64, 256);
    let vocabulary = decoder.limits().vocabulary;
    for sequence in 0..12_u32 {
        in_chunks(&mut decoder, &ids[..70], &[70], &[2 * sequence, 2 * sequence + 1]);
    }
    let step = |decoder: &mut Decoder<Cpu>, sequences: std::ops::Range<u32>| {
        let (mut batch, mut logits) = (Batch::default(), Vec::new());
        for sequence in sequences {
            batch.push(&[ids[70] + sequence], 70, &[2 * sequence, 2 * sequence + 1], true);
        }
        decoder.forward(&batch, &mut logits).unwrap();
        logits
    };
    let together = step(&mut decoder, 0..12);
    for sequence in 0..12_u32 {
        let alone = step(&mut decoder, sequence..sequence + 1);
        let beside = &together[sequence as usize * vocabulary..][..vocabulary];
        assert!(alone.iter().zip(beside).all(|(l, r)| l.to_bits() == r.to_bits()), "sequence {sequence}");
    }
}

#[test]
fn pages_saved_and_loaded_elsewhere_are_the_same_past() {
    let folder = goldens().join("tiny-llama");
    let ids = ids(&read(&folder.join("golden.json"))["ids"]);
    let mut decoder = open(&folder, Level::detect(), 8, 256);
    in_chunks(&mut decoder, &ids, &[100], &[1, 2]);
    let next = |decoder: &mut Decoder<Cpu>, pages: &[u32]| {
        let (mut batch, mut logits) = (Batch::default(), Vec::new());
        batch.push(&ids[100..101], 100, pages, true);
        decoder.forward(&batch, &mut logits).unwrap();
        logits
    };
    let before = next(&mut decoder, &[1, 2]);
    let saved = decoder.save_pages(&[1, 2]).unwrap();
    // Others overwrite what was there.
    in_chunks(&mut decoder, &ids[50..], &[2 * PAGE_TOKENS], &[1, 2]);
    decoder.load_pages(&[6, 0], &saved).unwrap();
    assert_eq!(next(&mut decoder, &[6, 0]), before);
    assert!(decoder.load_pages(&[6], &saved).is_err() && decoder.save_pages(&[8]).is_err());
}

#[test]
fn a_batch_beyond_the_limits_is_refused_by_name() {
    let mut decoder = open(&goldens().join("tiny-qwen3"), Level::detect(), 2, 4);
    let refused = |decoder: &mut Decoder<Cpu>, ids: &[u32], pages: &[u32]| {
        let mut batch = Batch::default();
        batch.push(ids, 0, pages, true);
        decoder.forward(&batch, &mut Vec::new()).unwrap_err().to_string()
    };
    assert!(refused(&mut decoder, &[163], &[0]).contains("163"));
    assert!(refused(&mut decoder, &[1], &[2]).contains("page 2"));
    assert!(refused(&mut decoder, &[1; 5], &[0]).contains("at most 4 rows"));
}

/// The real model, if it has been fetched.
fn smollm2() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fixtures/smollm2");
    let found = std::fs::read_dir(&folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let gguf = found.filter(|path| path.extension().is_some_and(|ending| ending == "gguf")).min();
    if gguf.is_none() {
        println!("skipped: {} has no .gguf; run .ci/fixtures", folder.display());
    }
    gguf
}

#[test]
fn smollm2_continues_twenty_prompts_as_transformers_does_on_the_same_dequantised_weights() {
    let Some(path) = smollm2() else { return };
    let golden = read(&goldens().join("smollm2_greedy.json"));
    let mut decoder = open(&path, Level::detect(), 8, 256);
    let mut logits = Vec::new();
    for (number, case) in golden["cases"].as_array().unwrap().iter().enumerate() {
        let (prompt, expected) = (ids(&case["prompt"]), ids(&case["new"]));
        let (mut made, mut batch) = (Vec::new(), Batch::default());
        batch.push(&prompt, 0, &[0, 1, 2, 3], true);
        while made.len() < expected.len() {
            decoder.forward(&batch, &mut logits).unwrap();
            let likeliest = (0..logits.len()).max_by(|l, r| logits[*l].total_cmp(&logits[*r])).unwrap() as u32;
            made.push(likeliest);
            batch.clear();
            batch.push(&[likeliest], prompt.len() + made.len() - 1, &[0, 1, 2, 3], true);
        }
        assert_eq!(made, expected, "prompt {number}, whose closest choice is {} apart", case["least_margin"]);
    }
}
