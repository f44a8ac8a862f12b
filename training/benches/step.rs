//! Whole training steps on the processor: forward, backward with everything computed again, clipping and AdamW, beside the
//! arithmetic that the machine can do in the same run. `cargo bench -p legwork-training --bench step -- [PEER…]`: the words are a
//! command that is given the shape as one argument of JSON and prints `{"name", "stored", "recomputed"}` in tokens a second, such
//! as `python training/benches/peers/transformers_step.py`; it is run before and after ours.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

use legwork_kernels::Cpu;
use legwork_kernels::cpu::product::{Strided, StridedMut, product};
use legwork_kernels::cpu::team::threads;
use legwork_model::{DecoderConfig, Family, Rope, RopeScaling};
use legwork_training::batch::pack;
use legwork_training::network::{Network, NetworkSettings, step_flops};
use legwork_training::pack::Normalisation;
use legwork_training::rank::Update;
use legwork_training::{Place, Sample};
use serde_json::{Value, json};
use std::time::Instant;

/// Each figure is the best of so many.
const ROUNDS: usize = 2;
/// One token in so many is in the loss, about as in a worker's trajectories.
const SUPERVISED_EVERY: usize = 8;
/// A side of the small product that tells the machine's peak: all of it in the nearest caches.
const PEAK_SIDE: usize = 128;

fn main() {
    let peer: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let peak = threads() as f64 * peak_of_a_thread();
    println!("{} threads at {:?}; {:.0} GFLOP/s in small products", threads(), Cpu::new().level(), peak / 1e9);
    for (name, config, lengths) in [
        ("small", shape(256, 6, [8, 4, 32], 768, 4096), vec![1024; 4]),
        ("SmolLM2-135M's size", shape(576, 30, [9, 3, 64], 1536, 49_152), vec![512]),
        ("long", shape(256, 6, [8, 4, 32], 768, 4096), vec![4096]),
    ] {
        println!(
            "{name}: {} layers of {}, {} tokens in {}",
            config.layers,
            config.hidden,
            sum(&lengths),
            lengths.len()
        );
        let before = ask(&peer, &config, &lengths);
        let ours = step(&config, &lengths);
        let after = ask(&peer, &config, &lengths);
        let flops = step_flops(&config, &lengths, sum(&lengths) / SUPERVISED_EVERY) * ours / sum(&lengths) as f64;
        println!("  legwork: {ours:.0} tokens/s, {:.0} % of the peak as model FLOPs", 100.0 * flops / peak);
        if let (Some(before), Some(after)) = (before, after) {
            for kind in ["recomputed", "stored"] {
                let best = before[kind].as_f64().unwrap().max(after[kind].as_f64().unwrap());
                println!(
                    "  {} {kind}: {best:.0} tokens/s; ours is {:.2} ×",
                    before["name"].as_str().unwrap(),
                    ours / best
                );
            }
        }
    }
}

fn shape(
    hidden: usize,
    layers: usize,
    [heads, kv_heads, head_dim]: [usize; 3],
    ffn: usize,
    vocabulary: usize,
) -> DecoderConfig {
    DecoderConfig {
        family: Family::Qwen3,
        hidden,
        layers,
        heads,
        kv_heads,
        head_dim,
        ffn,
        vocabulary,
        context: 1 << 16,
        rms_eps: 1e-6,
        rope: Rope { theta: 1e6, scaling: RopeScaling::None, interleaved: false },
        tied: true,
        qkv_bias: false,
        output_bias: false,
        mlp_bias: false,
        qk_norm: true,
        dtype: None,
    }
}

fn sum(lengths: &[usize]) -> usize {
    lengths.iter().sum()
}

/// Tokens a second of whole steps.
fn step(config: &DecoderConfig, lengths: &[usize]) -> f64 {
    let rows_max = *lengths.iter().max().unwrap();
    let settings =
        NetworkSettings { rows_max, keep_attention: true, keep_products: false, softmax_over_padding: false };
    let mut drawn = 1_u32;
    let mut network = Network::new(Cpu::new(), config, settings, |shard, fused| {
        let [rows, cols] = shard.shape(fused);
        let mut draw = || {
            drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (drawn >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        Ok((0..rows * cols).map(|_| if fused.is_vector { 1.0 } else { 0.07 * draw() }).collect())
    })
    .unwrap();
    let samples: Vec<Sample> = lengths.iter().map(|length| sample(*length, config.vocabulary)).collect();
    let packs = pack(&samples, rows_max, 1, Normalisation::Token);
    let mut best = f64::INFINITY;
    for round in 0..=ROUNDS {
        let began = Instant::now();
        for pack in &packs {
            network.learn(pack).unwrap();
        }
        let step = round as u64 + 1;
        let update = Update { step, rate: 1e-4, clip: 1.0, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1 };
        network.update(&update).unwrap();
        best = best.min(began.elapsed().as_secs_f64());
    }
    sum(lengths) as f64 / best
}

fn sample(length: usize, vocabulary: usize) -> Sample {
    Sample {
        ids: (0..length).map(|i| (i * 7919 % vocabulary) as u32).collect(),
        supervised: (0..length).map(|i| i % SUPERVISED_EVERY == 1).collect(),
        place: Place { file: "bench".into(), line: 1 },
        source: String::new(),
    }
}

/// Floating-point operations a second of one thread.
fn peak_of_a_thread() -> f64 {
    let (a, b) = (vec![0.5; PEAK_SIDE * PEAK_SIDE], vec![0.25; PEAK_SIDE * PEAK_SIDE]);
    let mut sums = vec![0.0; PEAK_SIDE * PEAK_SIDE];
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let began = Instant::now();
        product(
            Cpu::new().level(),
            [PEAK_SIDE; 3],
            Strided { values: &a, stride: PEAK_SIDE },
            Strided { values: &b, stride: PEAK_SIDE },
            StridedMut { values: &mut sums, stride: PEAK_SIDE },
        );
        best = best.min(began.elapsed().as_secs_f64());
    }
    2.0 * (PEAK_SIDE as f64).powi(3) / best
}

/// What the peer does with the same shape.
fn ask(peer: &[String], config: &DecoderConfig, lengths: &[usize]) -> Option<Value> {
    let (program, arguments) = peer.split_first()?;
    let shape = json!({
        "hidden": config.hidden, "layers": config.layers, "heads": config.heads, "kv_heads": config.kv_heads,
        "head_dim": config.head_dim, "ffn": config.ffn, "vocabulary": config.vocabulary, "lengths": lengths,
        "threads": threads(), "rounds": ROUNDS, "supervised_every": SUPERVISED_EVERY,
    });
    let output = std::process::Command::new(program).args(arguments).arg(shape.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}
