//! A real decoder on the processor: decoding with one and with many sequences, prefill, and what the machine could do at
//! most, measured in the same run. `cargo bench -p legwork-model --bench decoder -- MODEL [PEER…]`: the words after the
//! model are a command that prints one JSON object `{"name", "decode", "prefill"}` of tokens a second for the same file, such
//! as `python peers/llama_cpp.py MODEL 2`; it is run between ours, twice.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

use legwork_kernels::{Batch, Cpu};
use legwork_model::{Decoder, DecoderSettings, Forward, ModelFiles};
use std::path::Path;
use std::time::Instant;

/// Tokens of the prompt of the prefill row.
const PROMPT: usize = 512;
/// Tokens that come before those of the decode rows.
const PAST: usize = 128;
/// Tokens that a decode row makes.
const MADE: usize = 96;
/// Each row is the best of so many.
const ROUNDS: usize = 5;
/// Bytes that the bandwidth row reads: more than any cache.
const READ_BYTES: usize = 1 << 29;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(model) = arguments.next() else {
        println!("skipped: name a model, such as target/fixtures/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
        return;
    };
    let peer: Vec<String> = arguments.collect();
    let path = Path::new(&model);
    let mut files = ModelFiles::open(path).unwrap();
    let bytes: u64 = files.files().iter().map(|file| file.metadata().unwrap().len()).sum();
    let config = files.decoder().unwrap().clone();
    let settings = DecoderSettings { pages: 64 * 16, rows_max: 512, context_max: 1024 };
    let mut decoder = Decoder::load(Cpu::new(), &config, &mut files.weights, settings).unwrap();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bandwidth = bandwidth(threads);
    println!("{model}: {:.1} MB of weights; {threads} threads at {:?}", bytes as f64 / 1e6, Cpu::new().level());
    println!(
        "reading memory: {:.1} GB/s, so at most {:.0} decoded tokens a second for one sequence",
        bandwidth / 1e9,
        bandwidth / bytes as f64
    );

    let before = ask(&peer);
    let one = decode(&mut decoder, 1);
    let prefill = prefill(&mut decoder);
    let after = ask(&peer);
    println!(
        "decode, 1 sequence: {one:.1} tokens/s ({:.0} % of the bandwidth limit)",
        100.0 * one * bytes as f64 / bandwidth
    );
    for sequences in [2, 4, 8, 16, 32, 64] {
        let many = decode(&mut decoder, sequences);
        println!("decode, {sequences} sequences: {many:.1} tokens/s, {:.2} of one", many / one);
    }
    println!("prefill, {PROMPT} tokens: {prefill:.1} tokens/s");
    if let (Some((name, d1, p1)), Some((_, d2, p2))) = (before, after) {
        let (decode, prefill_peer) = (d1.max(d2), p1.max(p2));
        println!(
            "{name}: decode {decode:.1} tokens/s (ours is {:.2} of it), prefill {prefill_peer:.1} (ours is {:.2} of it)",
            one / decode,
            prefill / prefill_peer
        );
    }
}

/// Tokens a second over all sequences.
fn decode(decoder: &mut Decoder<Cpu>, sequences: usize) -> f64 {
    let (mut batch, mut logits) = (Batch::default(), Vec::new());
    let pages = |sequence: usize| -> Vec<u32> { (0..4).map(|page| (sequence * 4 + page) as u32).collect() };
    for sequence in 0..sequences {
        batch.clear();
        let prompt: Vec<u32> = (0..PAST).map(|i| (7 + i * 31 + sequence) as u32 % 1000).collect();
        batch.push(&prompt, 0, &pages(sequence), true);
        decoder.forward(&batch, &mut logits).unwrap();
    }
    let steps = (MADE / sequences.min(4)).max(MADE / 4);
    // Every round makes the same tokens at the same places again.
    let round = |_| {
        let began = Instant::now();
        for step in 0..steps {
            batch.clear();
            for sequence in 0..sequences {
                batch.push(&[(step * 13 + sequence) as u32 % 1000], PAST + step, &pages(sequence), true);
            }
            decoder.forward(&batch, &mut logits).unwrap();
        }
        (steps * sequences) as f64 / began.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(round).fold(0.0, f64::max)
}

fn prefill(decoder: &mut Decoder<Cpu>) -> f64 {
    let prompt: Vec<u32> = (0..PROMPT).map(|i| (7 + i * 31) as u32 % 1000).collect();
    let pages: Vec<u32> = (0..16).collect();
    let (mut batch, mut logits) = (Batch::default(), Vec::new());
    batch.push(&prompt, 0, &pages, true);
    let seconds = |_| {
        let began = Instant::now();
        decoder.forward(&batch, &mut logits).unwrap();
        began.elapsed().as_secs_f64()
    };
    PROMPT as f64 / (0..ROUNDS).map(seconds).fold(f64::INFINITY, f64::min)
}

/// Bytes a second that all threads read together.
fn bandwidth(threads: usize) -> f64 {
    let memory = vec![1_u64; READ_BYTES / 8];
    let once = |_| {
        let began = Instant::now();
        std::thread::scope(|scope| {
            for part in memory.chunks(memory.len().div_ceil(threads)) {
                scope.spawn(|| std::hint::black_box(part.iter().fold(0_u64, |sum, value| sum.wrapping_add(*value))));
            }
        });
        READ_BYTES as f64 / began.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(once).fold(0.0, f64::max)
}

fn ask(peer: &[String]) -> Option<(String, f64, f64)> {
    let (program, arguments) = peer.split_first()?;
    let output = std::process::Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
    let answer: serde_json::Value = serde_json::from_str(line).unwrap();
    Some((answer["name"].as_str()?.to_owned(), answer["decode"].as_f64()?, answer["prefill"].as_f64()?))
}
