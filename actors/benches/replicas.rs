//! Episodes over one replica of a model or several, as runs share them: `cargo bench -p legwork-actors --features cuda --bench replicas
//! -- MODEL DEVICE EPISODES TURNS`, such as `folder cuda:0,1 64 12`. Each episode is a session of turns whose prompts grow by what
//! a tool said; the router keeps a session where its pages are.
//!
//! It refuses to know whether answers make sense: prompts are drawn ids, seeded.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

use legwork_actors::clock::Clock;
use legwork_actors::local::{Heard, LocalModel, LocalSettings, TemplateChoice};
use legwork_engine::{Sampling, SessionId};
use std::sync::Arc;
use std::time::Instant;

/// Tokens that all prompts begin with, and of the rest of a first one.
const SHARED: usize = 400;
const FIRST: (u64, u64) = (200, 800);
/// Tokens that a tool says, and that an answer has.
const TOLD: (u64, u64) = (100, 400);
const ANSWER: (u64, u64) = (60, 120);

/// Numbers of one episode (SplitMix64; Steele, Lea and Flood 2014).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn between(&mut self, (least, most): (u64, u64)) -> usize {
        (least + self.next() % (most - least + 1)) as usize
    }

    fn ids(&mut self, count: usize, vocabulary: usize) -> Vec<u32> {
        (0..count).map(|_| (self.next() % vocabulary as u64) as u32).collect()
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [model, device, episodes, turns] = &arguments[..] else {
        println!("skipped: name a model, a device, how many episodes and how many turns");
        return;
    };
    let (episodes, turns): (u64, usize) = (episodes.parse().unwrap(), turns.parse().unwrap());
    let settings = LocalSettings {
        device: device.parse().unwrap(),
        template: TemplateChoice::Qwen3,
        running_max: episodes as usize,
        ..LocalSettings::default()
    };
    let model = LocalModel::open(model.as_ref(), settings, Clock::system()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // Once round, so that kernels are compiled and steps recorded.
    runtime.block_on(run(&model, episodes, 1, 1));
    let before = model.gauges();
    let began = Instant::now();
    let tokens = runtime.block_on(run(&model, episodes, turns, 2));
    let seconds = began.elapsed().as_secs_f64();
    let after = model.gauges();
    let (prompts, found) =
        (after.prompt_tokens - before.prompt_tokens, after.prefix_hit_tokens - before.prefix_hit_tokens);
    println!(
        "| {device} | {episodes} episodes of {turns} turns | {:.0} tok/s generated | {seconds:.2} s | {:.1} % of prompts found |",
        tokens as f64 / seconds,
        100.0 * found as f64 / prompts as f64,
    );
    for replica in model.replicas() {
        println!(
            "|   {} | {} steps, {} tokens |",
            replica.device, replica.gauges.steps, replica.gauges.generated_tokens
        );
    }
}

/// All episodes at once; the tokens that were generated.
async fn run(model: &Arc<LocalModel>, episodes: u64, turns: usize, seed: u64) -> usize {
    let all = (0..episodes).map(|number| {
        let model = Arc::clone(model);
        tokio::spawn(async move { episode(&model, number, turns, seed).await })
    });
    let mut tokens = 0;
    for episode in all.collect::<Vec<_>>() {
        tokens += episode.await.unwrap();
    }
    tokens
}

async fn episode(model: &LocalModel, number: u64, turns: usize, seed: u64) -> usize {
    let vocabulary = model.limits().vocabulary;
    let mut dice = Dice(seed << 32 | number);
    let first = dice.between(FIRST);
    let mut history = Dice(seed).ids(SHARED, vocabulary);
    history.extend(dice.ids(first, vocabulary));
    let mut generated = 0;
    for turn in 0..turns {
        let sampling = Sampling {
            max_new: dice.between(ANSWER),
            temperature: 0.6,
            top_p: 0.95,
            seed: dice.next(),
            logprobs: Some(0),
            ..Sampling::default()
        };
        let session = SessionId(u128::from(seed) << 64 | u128::from(number));
        let mut answering = model.begin(history.clone(), sampling, Some(session), None).unwrap();
        loop {
            match answering.next().await {
                Some(Heard::Tokens { tokens, .. }) => {
                    generated += tokens.len();
                    history.extend(tokens.iter().map(|drawn| drawn.id));
                }
                Some(Heard::Done { .. }) => break,
                other => panic!("turn {turn} of episode {number}: {other:?}"),
            }
        }
        let told = dice.between(TOLD);
        history.extend(dice.ids(told, vocabulary));
    }
    generated
}
