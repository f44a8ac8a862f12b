//! Whole decoders on a card, and on the emulated card where there is none: how far their bf16 is from transformers' f32, beside
//! how far transformers' own bf16 is (`goldens/make_bf16_goldens.py`). Whatever order batches come in, the past is the same.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test; clippy knows tests only by their attribute")]

#[path = "../../kernels/tests/conformance/emulated.rs"]
mod emulated;

use emulated::Emulated;
use legwork_kernels::cuda::driver::Driver;
use legwork_kernels::cuda::{Card, Cuda, GroupName, Nvidia, Recordings, Seat};
use legwork_kernels::{Batch, Group, PAGE_TOKENS};
use legwork_model::{Decoder, DecoderSettings, Forward, MakeRank, ModelFiles, Ranks, Share};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Our divergence from f32 for each nat of transformers' at most, as the parity ladder has it.
const DIVERGENCE_MAX: f64 = 1.2;
/// How much of a divergence may lie between two layouts of one context.
const LAYOUTS_KL_MAX: f64 = 2e-3;

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/decoder")
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as usize).collect()
}

fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mass = logits.iter().map(|logit| (logit - top).exp()).sum::<f64>().ln();
    logits.iter().map(|logit| logit - top - mass).collect()
}

/// `KL(exact || ours)` in nats.
fn divergence(exact: &[f64], ours: &[f64]) -> f64 {
    let (exact, ours) = (log_softmax(exact), log_softmax(ours));
    exact.iter().zip(&ours).map(|(exact, ours)| exact.exp() * (exact - ours)).sum()
}

fn open<D: Driver>(card: Card<D>, folder: &Path) -> Decoder<Card<D>> {
    open_share(card, folder, Share::default())
}

fn open_share<D: Driver>(card: Card<D>, folder: &Path, share: Share) -> Decoder<Card<D>> {
    let mut files = ModelFiles::open(folder).unwrap();
    let config = files.decoder().unwrap().clone();
    let settings = DecoderSettings { pages: 12, rows_max: 256, context_max: usize::MAX };
    Decoder::load_share(card, &config, &mut files.weights, settings, share).unwrap()
}

/// Logits of all rows, from chunks of one sequence.
fn in_chunks<D: Driver>(decoder: &mut Decoder<Card<D>>, ids: &[u32], chunks: &[usize], pages: &[u32]) -> Vec<Vec<f64>> {
    let vocabulary = decoder.limits().vocabulary;
    let (mut rows, mut past, mut logits) = (Vec::new(), 0, Vec::new());
    for chunk in chunks {
        let mut batch = Batch::default();
        batch.push(&ids[past..past + chunk], past, pages, false);
        batch.wanted = (0..*chunk as u32).collect();
        decoder.forward(&batch, &mut logits).unwrap();
        rows.extend(logits.chunks_exact(vocabulary).map(|row| row.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()));
        past += chunk;
    }
    rows
}

fn decoders_are_as_near_as_transformers<D: Driver>(card: impl Fn() -> Card<D>) {
    let measure = read(&goldens().join("bf16.json"));
    for family in ["qwen3", "qwen2", "llama"] {
        let folder = goldens().join(format!("tiny-{family}"));
        let golden = read(&folder.join("golden.json"));
        let ids: Vec<u32> = numbers(&golden["ids"]).into_iter().map(|id| id as u32).collect();
        let mut decoder = open(card(), &folder);
        let rows = in_chunks(&mut decoder, &ids, &[ids.len()], &[3, 0, 7, 5]);
        let exact = golden["logits"].as_array().unwrap().iter().map(floats);
        let ours: Vec<f64> = numbers(&golden["rows"])
            .into_iter()
            .zip(exact)
            .map(|(row, exact)| divergence(&exact, &rows[row]))
            .collect();
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        let theirs = floats(&measure[family]["kl"]);
        eprintln!("{family}: KL to f32 {:.2e}, of transformers' bf16 {:.2e}", mean(&ours), mean(&theirs));
        assert!(mean(&ours) <= DIVERGENCE_MAX * mean(&theirs), "{family}: {ours:?}, transformers' {theirs:?}");

        if family != "qwen3" {
            continue;
        }
        let tail = ids.len() - PAGE_TOKENS - 3;
        let chunked = in_chunks(&mut decoder, &ids, &[PAGE_TOKENS, 1, 1, 1, tail], &[9, 4, 11, 8]);
        for (row, (whole, chunked)) in rows.iter().zip(&chunked).enumerate() {
            let between = divergence(whole, chunked);
            assert!(between <= LAYOUTS_KL_MAX, "{family}, row {row}: {between}");
        }
    }
}

/// Steps of one token each of two sequences, whose pages end and begin meanwhile: the logits of all of them.
fn told_step_by_step<D: Driver>(card: Card<D>, family: &str, is_recording: bool) -> (Vec<Vec<f32>>, Recordings) {
    let folder = goldens().join(format!("tiny-{family}"));
    let ids: Vec<u32> = numbers(&read(&folder.join("golden.json"))["ids"]).into_iter().map(|id| id as u32).collect();
    let mut decoder = open(card, &folder);
    decoder.ops().set_recording(is_recording);
    let pages: [&[u32]; 2] = [&[3, 0, 7], &[9, 4]];
    let pasts = [PAGE_TOKENS - 2, 1];
    let (mut logits, mut all) = (Vec::new(), Vec::new());
    let mut batch = Batch::default();
    for (past, pages) in pasts.iter().zip(pages) {
        batch.push(&ids[..*past], 0, pages, false);
    }
    decoder.forward(&batch, &mut logits).unwrap();
    for step in 0..6 {
        batch.clear();
        for (sequence, pages) in pages.iter().enumerate() {
            let past = pasts[sequence] + step;
            batch.push(&ids[past..=past], past, pages, true);
        }
        decoder.forward(&batch, &mut logits).unwrap();
        all.push(logits.clone());
        // A step of another kind in between must not be taken for the same.
        decoder.states(&batch, &mut logits).unwrap();
    }
    (all, decoder.ops().recordings())
}

fn steps_played_back_are_those_run<D: Driver>(card: impl Fn() -> Card<D>) {
    for family in ["qwen3", "qwen2", "llama"] {
        let (played, told) = told_step_by_step(card(), family, true);
        let (run, nothing) = told_step_by_step(card(), family, false);
        assert_eq!((&told.refused, nothing.played), (&None, 0));
        assert!(told.played == 10 && told.recorded < told.played, "{told:?}");
        assert!(run == played, "{family}: a recorded step gives other logits");
    }
}

#[test]
fn steps_played_back_on_an_emulated_card_are_those_run() {
    match Emulated::find() {
        Some(_) => steps_played_back_are_those_run(|| Card::new(Emulated::default()).unwrap()),
        None => eprintln!("skipped: there is no C++ compiler here that is called c++"),
    }
}

#[test]
fn steps_played_back_on_a_card_are_those_run() {
    match Nvidia::count() {
        0 => eprintln!("skipped: there is no card here"),
        _ => steps_played_back_are_those_run(|| Cuda::open(0, None).unwrap()),
    }
}

/// Logits of the last token of one sequence as a step of its own, of three others beside it or none.
fn last_beside<D: Driver>(
    decoder: &mut Decoder<Card<D>>,
    ids: &[u32],
    pages: &[u32],
    others: &[(usize, u32)],
) -> Vec<f32> {
    let vocabulary = decoder.limits().vocabulary;
    let (mut batch, mut logits) = (Batch::default(), Vec::new());
    for (past, page) in others {
        batch.push(&ids[*past..=*past], *past, &[*page], true);
    }
    batch.push(&ids[ids.len() - 1..], ids.len() - 1, pages, true);
    decoder.forward(&batch, &mut logits).unwrap();
    logits.split_off(others.len() * vocabulary)
}

/// A page is what it is wherever it lies: a prefix that was computed before is read from other pages than it was written to,
/// through the host, and gives the same bits; who else is in the step changes no more than rounding.
fn what_was_computed_is_the_same_elsewhere<D: Driver>(card: impl Fn() -> Card<D>) {
    for family in ["qwen3", "qwen2", "llama"] {
        let folder = goldens().join(format!("tiny-{family}"));
        let golden = numbers(&read(&folder.join("golden.json"))["ids"]);
        let ids: Vec<u32> = golden.into_iter().map(|id| id as u32).take(PAGE_TOKENS + 9).collect();
        let mut decoder = open(card(), &folder);
        let mut ignored = Vec::new();
        let mut batch = Batch::default();
        batch.push(&ids[..ids.len() - 1], 0, &[3, 0], false);
        let others = [(5, 8), (PAGE_TOKENS - 1, 9), (1, 10)];
        others.iter().for_each(|(past, page)| batch.push(&ids[..*past], 0, &[*page], false));
        decoder.forward(&batch, &mut ignored).unwrap();
        let stayed = last_beside(&mut decoder, &ids, &[3, 0], &[]);
        let saved = decoder.save_pages(&[3, 0]).unwrap();
        decoder.load_pages(&[7, 2], &saved).unwrap();
        let moved = last_beside(&mut decoder, &ids, &[7, 2], &[]);
        assert!(stayed == moved, "{family}: pages that were saved and loaded elsewhere give other logits");
        let beside = last_beside(&mut decoder, &ids, &[7, 2], &others);
        let wide = |row: &[f32]| row.iter().map(|logit| f64::from(*logit)).collect::<Vec<_>>();
        let between = divergence(&wide(&stayed), &wide(&beside));
        assert!(between <= LAYOUTS_KL_MAX, "{family}: {between} beside others");
    }
}

#[test]
fn what_was_computed_on_an_emulated_card_is_the_same_elsewhere() {
    match Emulated::find() {
        Some(_) => what_was_computed_is_the_same_elsewhere(|| Card::new(Emulated::default()).unwrap()),
        None => eprintln!("skipped: there is no C++ compiler here that is called c++"),
    }
}

#[test]
fn what_was_computed_on_a_card_is_the_same_elsewhere() {
    match Nvidia::count() {
        0 => eprintln!("skipped: there is no card here"),
        _ => what_was_computed_is_the_same_elsewhere(|| Cuda::open(0, None).unwrap()),
    }
}

#[test]
fn two_cards_are_one_model() {
    // Two cards, or one that both ranks share, where NCCL was told to allow that.
    let is_shared = std::env::var("NCCL_MULTI_RANK_GPU_ENABLE").is_ok_and(|value| value == "1");
    let cards = match Nvidia::count() {
        1 if is_shared => [0, 0],
        0 | 1 => {
            eprintln!("skipped: two ranks need two cards, or NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1 on one");
            return;
        }
        _ => [0, 1],
    };
    for family in ["qwen3", "qwen2", "llama"] {
        let folder = goldens().join(format!("tiny-{family}"));
        let name = GroupName::new().unwrap();
        let makers = Group::of(2).into_iter().enumerate().map(|(rank, member)| -> MakeRank {
            let folder = folder.clone();
            Box::new(move || {
                let card = Cuda::open_rank(cards[rank], None, Seat { name, rank, ranks: 2, meeting: Some(member) })?;
                Ok(Box::new(open_share(card, &folder, Share { rank, ranks: 2 })))
            })
        });
        let mut ranks = Ranks::start(makers.collect()).unwrap();
        let mut whole = open(Cuda::open(0, None).unwrap(), &folder);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        for past in 0..8 {
            let mut batch = Batch::default();
            // A prompt, then single tokens: run, recorded, and played back.
            let new = if past == 0 { 70 } else { 1 };
            let past = if past == 0 { 0 } else { 69 + past };
            batch.push(&(3..3 + new).collect::<Vec<_>>(), past, &[2, 0], true);
            whole.forward(&batch, &mut one).unwrap();
            ranks.forward(&batch, &mut two).unwrap();
            let doubles = |all: &[f32]| all.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
            let between = divergence(&doubles(&one), &doubles(&two));
            assert!(between <= LAYOUTS_KL_MAX, "{family} after {past}: {between}");
        }
    }
}

#[test]
fn decoders_on_an_emulated_card_are_as_near_to_f32_as_transformers_bf16() {
    match Emulated::find() {
        Some(_) => decoders_are_as_near_as_transformers(|| Card::new(Emulated::default()).unwrap()),
        None => eprintln!("skipped: there is no C++ compiler here that is called c++"),
    }
}

#[test]
fn decoders_on_a_card_are_as_near_to_f32_as_transformers_bf16() {
    match Nvidia::count() {
        0 => eprintln!("skipped: there is no card here"),
        _ => decoders_are_as_near_as_transformers(|| Cuda::open(0, None).unwrap()),
    }
}
