//! A real embedder on the processor: texts a second, short and long. `cargo bench -p legwork-model --bench embedder -- MODEL
//! [PEER…]`: the words after the model are a command that prints one JSON object `{"name", "rows": [texts a second]}` for the
//! same texts, such as `python peers/sentence_transformers.py MODEL 2`; it is run before ours and behind it.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

use legwork_kernels::Cpu;
use legwork_model::{EmbedKind, EmbedSettings, SentenceEmbedder};
use std::path::Path;
use std::time::Instant;

/// Words of a text and how many texts, of each row: the peer has the same.
const ROWS: [(usize, usize); 4] = [(12, 1), (12, 256), (100, 64), (240, 32)];
/// Each row is the best of so many.
const ROUNDS: usize = 5;
/// Words that the vocabulary of BERT has whole, so that a word is a token.
const WORDS: [&str; 8] = ["the", "river", "was", "found", "in", "seven", "old", "books"];

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(model) = arguments.next() else {
        println!("skipped: name a model, such as target/fixtures/minilm");
        return;
    };
    let peer: Vec<String> = arguments.collect();
    let mut embedder = SentenceEmbedder::open(Path::new(&model), EmbedSettings::default()).unwrap();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{model}: {threads} threads at {:?}", Cpu::new().level());
    let before = ask(&peer);
    let ours = ROWS.map(|(words, texts)| speed(&mut embedder, words, texts));
    let after = ask(&peer);
    for (row, (words, texts)) in ROWS.iter().enumerate() {
        print!("{texts} texts of {words} words: {:.1} texts/s", ours[row]);
        if let (Some((name, left)), Some((_, right))) = (&before, &after) {
            let theirs = left[row].max(right[row]);
            print!("; {name} {theirs:.1} (ours is {:.2} of it)", ours[row] / theirs);
        }
        println!();
    }
}

/// Texts a second.
fn speed(embedder: &mut SentenceEmbedder, words: usize, texts: usize) -> f64 {
    let text = |number: usize| (0..words).map(|word| WORDS[(word * 3 + number) % 8]).collect::<Vec<_>>().join(" ");
    let made: Vec<String> = (0..texts).map(text).collect();
    let made: Vec<&str> = made.iter().map(String::as_str).collect();
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        embedder.embed(&made, EmbedKind::Plain).unwrap();
        best = best.max(texts as f64 / began.elapsed().as_secs_f64());
    }
    best
}

fn ask(peer: &[String]) -> Option<(String, Vec<f64>)> {
    let (program, arguments) = peer.split_first()?;
    let output = std::process::Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
    let answer: serde_json::Value = serde_json::from_str(line).unwrap();
    Some((answer["name"].as_str()?.to_owned(), serde_json::from_value(answer["rows"].clone()).ok()?))
}
