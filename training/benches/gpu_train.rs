//! Whole training steps on cards: a dense decoder of Qwen3-4B's shape with random weights from a seed, everything computed again on
//! the way back, every token in the loss. `cargo bench -p legwork-training --features cuda --bench gpu_train -- [LENGTH…] [profile]
//! [tp=2] [dp=2]`: tokens a second, the share of the card's peak (model FLOPs), memory; where asked for, time by kernel of one step,
//! and two cards beside one.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

use legwork_kernels::cuda::driver::Driver;
use legwork_kernels::cuda::{Card, Cuda, GroupName, Nvidia, Profiled, Seat, Spent};
use legwork_kernels::{Group, Member};
use legwork_model::{DecoderConfig, Family, Rope, RopeScaling};
use legwork_training::network::{Network, NetworkSettings, step_flops};
use legwork_training::pack::Pack;
use legwork_training::rank::Update;
use std::time::Instant;

/// Dense bf16 as NVIDIA states it for an H100 or H200.
const STATED_FLOPS_S: f64 = 990e12;
/// Steps that are timed, after one that is not; the median counts.
const ROUNDS: usize = 3;
/// Random values that tensors are filled with, again and again: no length of a row divides it.
const BLOCK: usize = (1 << 22) + 1_019;
/// Updates are small, so that weights stay what they are.
const RATE: f64 = 1e-6;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let cards = Nvidia::count();
    if cards == 0 {
        println!("skipped: there is no card here");
        return;
    }
    let mut lengths: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if lengths.is_empty() {
        lengths = vec![8_192, 32_768, 40_960];
    }
    let is_asked = |asked: &str| words.iter().any(|word| word == asked);
    let config = qwen3_4b();
    let peak = Cuda::open(0, None).unwrap().driver().ceilings().unwrap();
    println!(
        "copy {:.2} TB/s, product {:.0} TFLOP/s; a step of one pack of one sequence, all of it in the loss",
        peak.copy_bytes_s / 1e12,
        peak.product_flops_s / 1e12
    );
    println!(
        "{:<10} {:>7} {:>10} {:>9} {:>7} {:>10} {:>9} {:>8} {:>9}",
        "cards", "tokens", "s a step", "tokens/s", "MFU", "of product", "of one", "GiB", "loss"
    );
    let table = Table { config: &config, product: peak.product_flops_s };
    let one = on_one(&table, &lengths);
    if is_asked("profile") {
        profile(&config, lengths[0]);
    }
    for [tp, dp] in [[2, 1], [1, 2]] {
        if cards >= 2 && is_asked(if tp == 2 { "tp=2" } else { "dp=2" }) {
            on_several(&table, [tp, dp], &one);
        }
    }
}

/// Qwen3-4B, as its `config.json` has it.
fn qwen3_4b() -> DecoderConfig {
    DecoderConfig {
        family: Family::Qwen3,
        hidden: 2_560,
        layers: 36,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        ffn: 9_728,
        vocabulary: 151_936,
        context: 40_960,
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

/// A sequence of random tokens, each but the last in the loss.
fn pack(config: &DecoderConfig, tokens: usize, seed: u32) -> Pack {
    let mut next = numbers(seed);
    let ids: Vec<u32> = (0..tokens).map(|_| next() % config.vocabulary as u32).collect();
    let rows: Vec<u32> = (0..tokens as u32 - 1).collect();
    Pack {
        positions: (0..tokens as u32).collect(),
        starts: vec![0, tokens as u32],
        targets: ids[1..].to_vec(),
        weights: vec![1.0 / rows.len() as f32; rows.len()],
        samples: vec![0],
        rows,
        ids,
    }
}

/// Numbers from a seed, whose high bits count.
fn numbers(seed: u32) -> impl FnMut() -> u32 {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    }
}

fn network<D: Driver>(card: Card<D>, config: &DecoderConfig, rows_max: usize) -> Network<Card<D>> {
    let mut next = numbers(7);
    // Evenly from -0.035 to 0.035: of a deviation of 0.02.
    let block: Vec<f32> = (0..BLOCK).map(|_| (next() as f32 / (1 << 23) as f32 - 1.0) * 0.035).collect();
    let settings = NetworkSettings { rows_max, softmax_over_padding: false };
    let mut at = 0;
    Network::new(card, config, settings, |shard, fused| {
        let count = shard.shape(fused).iter().product();
        if fused.is_vector {
            return Ok(vec![1.0; count]);
        }
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            let some = (BLOCK - at).min(count - values.len());
            values.extend_from_slice(&block[at..at + some]);
            at = (at + some) % BLOCK;
        }
        Ok(values)
    })
    .unwrap()
}

fn update(step: u64) -> Update {
    Update { step, rate: RATE, clip: 1.0, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1 }
}

/// What steps came to.
struct Steps {
    seconds: f64,
    loss: f64,
    gib: f64,
}

/// Steps over this replica's packs.
fn steps(network: &mut Network<Cuda>, packs: &[Pack], done: &mut u64) -> Steps {
    let mut seconds = Vec::new();
    let mut loss = 0.0;
    for round in 0..=ROUNDS {
        let began = Instant::now();
        let own: f64 = packs.iter().map(|pack| network.learn(pack).unwrap()).sum();
        loss = network.sum_over_replicas(own).unwrap();
        *done += 1;
        assert!(network.update(&update(*done)).unwrap().1, "an update is made");
        // The update itself is not waited for otherwise.
        network.ops().driver().wait_for_all().unwrap();
        if round > 0 {
            seconds.push(began.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    let (free, all) = network.ops().driver().memory().unwrap();
    Steps { seconds: seconds[seconds.len() / 2], loss, gib: (all - free) as f64 / (1_u64 << 30) as f64 }
}

struct Table<'a> {
    config: &'a DecoderConfig,
    product: f64,
}

impl Table<'_> {
    /// A line; gives the tokens a second.
    fn line(&self, cards: &str, count: usize, length: usize, packs: usize, steps: &Steps, one: Option<f64>) -> f64 {
        let flops = step_flops(self.config, &vec![length; packs], packs * length) / steps.seconds;
        let rate = (packs * length) as f64 / steps.seconds;
        println!(
            "{cards:<10} {:>7} {:>10.3} {rate:>9.0} {:>6.1}% {:>9.1}% {:>9} {:>8.1} {:>9.4}",
            packs * length,
            steps.seconds,
            100.0 * flops / (STATED_FLOPS_S * count as f64),
            100.0 * flops / (self.product * count as f64),
            one.map_or("1".to_owned(), |one| format!("{:.2}", rate / one)),
            steps.gib,
            steps.loss,
        );
        rate
    }
}

fn on_one(table: &Table<'_>, lengths: &[usize]) -> Vec<(usize, f64)> {
    let longest = lengths.iter().copied().max().unwrap_or(1);
    let began = Instant::now();
    let mut network = network(Cuda::open(0, None).unwrap(), table.config, longest);
    println!("(weights made in {:.1} s)", began.elapsed().as_secs_f64());
    let mut done = 0;
    let of_length = |length: &usize| {
        let packs = [pack(table.config, *length, 1)];
        let steps = steps(&mut network, &packs, &mut done);
        (*length, table.line("1", 1, *length, 1, &steps, None))
    };
    lengths.iter().map(of_length).collect()
}

/// One step of it is watched, after one that is not.
fn profile(config: &DecoderConfig, length: usize) {
    let card = Card::new(Profiled::new(Nvidia::open(0, None).unwrap())).unwrap();
    let mut network = network(card, config, length);
    let pack = pack(config, length, 1);
    for step in 1..=2 {
        network.ops().driver().spent();
        network.learn(&pack).unwrap();
        network.update(&update(step)).unwrap();
    }
    let mut spent: Vec<(&str, Spent)> = network.ops().driver().spent().into_iter().collect();
    spent.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
    let all: f64 = spent.iter().map(|(_, spent)| spent.seconds).sum();
    println!("a step of {length} tokens by kernel, each by itself: {:.1} ms", all * 1e3);
    for (name, Spent { launches, seconds }) in spent.iter().filter(|(_, spent)| spent.seconds > 1e-4) {
        println!("  {name:<24} {launches:>6} {:>9.2} ms {:>5.1}%", seconds * 1e3, 100.0 * seconds / all);
    }
}

/// Ranks among which the model is cut have one pack, replicas one each.
fn on_several(table: &Table<'_>, [tp, dp]: [usize; 2], one: &[(usize, f64)]) {
    let config = table.config;
    let name = GroupName::new().unwrap();
    let longest = one.iter().map(|(length, _)| *length).max().unwrap_or(1);
    let run = |member: Member| {
        let (rank, ranks) = (member.rank(), member.ranks());
        let seat = Some(Seat { name, rank, ranks, meeting: Some(member) });
        let (of_rank, of_replica) = if tp > 1 { (seat, None) } else { (None, seat) };
        let mut network = network(Cuda::open_seated(rank, None, of_rank, of_replica).unwrap(), config, longest);
        let mut done = 0;
        let of_length = |(length, _): &(usize, f64)| {
            let seed = if dp > 1 { rank as u32 + 1 } else { 1 };
            let mut pack = pack(config, *length, seed);
            pack.weights.iter_mut().for_each(|weight| *weight /= dp as f32);
            steps(&mut network, &[pack], &mut done)
        };
        one.iter().map(of_length).collect::<Vec<_>>()
    };
    let all: Vec<Vec<Steps>> = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = Group::of(tp * dp).into_iter().map(|member| scope.spawn(move || run(member))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for ((length, of_one), steps) in one.iter().zip(&all[0]) {
        table.line(&format!("tp{tp} dp{dp}"), tp * dp, *length, dp, steps, Some(*of_one));
    }
}
