//! Whole training steps on cards: a dense decoder of Qwen3-4B's shape with random weights from a seed, every token in the loss.
//! `cargo bench -p legwork-training --features cuda --bench gpu_train -- [LENGTH…] [profile] [small] [products] [recompute] [tp=N]
//! [dp=N] [tp=N,dp=N]`: tokens a second, the share of the card's peak (model FLOPs), memory; where asked for, time by kernel of one
//! step, a small model, what it is worth to keep more of the way forwards than attention's output, or not even that (`recompute`:
//! full recompute), and several cards beside one: the model cut among them, replicas of it, or both. With `profile` also what of a
//! step cards that share a model spend on their sums.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

mod several;

use legwork_kernels::cuda::{Card, Cuda, Nvidia, Profiled, Spent};
use legwork_model::{DecoderConfig, Family, Rope, RopeScaling};
use legwork_training::network::{Network, NetworkSettings, step_flops};
use legwork_training::pack::Pack;
use legwork_training::rank::Update;
use std::collections::BTreeMap;
use std::time::Instant;

/// Dense bf16 as NVIDIA states it for an H100 or H200.
const STATED_FLOPS_S: f64 = 990e12;
/// Steps that are timed, after one that is not, of few tokens and of many; the median counts.
const ROUNDS: [usize; 2] = [3, 1];
/// Many tokens.
const MANY: usize = 16_384;
/// Random values that tensors are filled with, again and again: no length of a row divides it.
const BLOCK: usize = (1 << 22) + 1_019;
/// Updates are small, so that weights stay what they are.
const RATE: f64 = 1e-6;

/// What stays of each layer's way forwards until the way back; of all but the stream before a layer the rest is computed again.
#[derive(Clone, Copy)]
enum Keeps {
    /// Full recompute.
    Nothing,
    /// What attention gave: as `legwork train` does where nothing else is said.
    Attention,
    /// What the first products of a layer's halves gave too.
    Products,
}

impl Keeps {
    /// What a line calls it.
    fn label(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Attention => "attention",
            Self::Products => "products",
        }
    }

    fn settings(self, rows_max: usize) -> NetworkSettings {
        NetworkSettings {
            rows_max,
            keep_attention: !matches!(self, Self::Nothing),
            keep_products: matches!(self, Self::Products),
            softmax_over_padding: false,
        }
    }
}

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
        "{:<10} {:<9} {:>7} {:>10} {:>9} {:>7} {:>10} {:>9} {:>8} {:>9}",
        "cards", "kept", "tokens", "s a step", "tokens/s", "MFU", "of product", "of one", "GiB", "loss"
    );
    let table = Table { config: &config, product: peak.product_flops_s };
    if is_asked("small") {
        small(peak.product_flops_s);
    }
    if is_asked("products") {
        on_one(&table, &lengths[..1], Keeps::Products, false);
    }
    let layouts: Vec<[usize; 2]> = words.iter().filter_map(|word| layout(word)).collect();
    for keeps in [Keeps::Nothing, Keeps::Attention] {
        if matches!(keeps, Keeps::Nothing) && !is_asked("recompute") {
            continue;
        }
        let one = on_one(&table, &lengths, keeps, is_asked("profile"));
        for [tp, dp] in &layouts {
            if tp * dp > cards {
                println!("skipped: tp={tp} dp={dp} needs {} cards, here are {cards}", tp * dp);
            } else {
                several::on_several(&table, [*tp, *dp], keeps, &one, is_asked("profile"));
            }
        }
    }
}

/// Ranks among which the model is cut, and its replicas: of `tp=4`, `dp=2` or `tp=2,dp=2`.
fn layout(word: &str) -> Option<[usize; 2]> {
    let mut layout = [1, 1];
    for part in word.split(',') {
        let (name, count) = part.split_once('=')?;
        let at = ["tp", "dp"].iter().position(|known| *known == name)?;
        layout[at] = count.parse().ok().filter(|count| *count > 0)?;
    }
    Some(layout)
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

/// A model on a card whose launches may be watched.
type OnCard = Network<Card<Profiled>>;

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

fn network(card: Nvidia, config: &DecoderConfig, rows_max: usize, keeps: Keeps) -> OnCard {
    let card = Card::new(Profiled::new(card)).unwrap();
    let mut next = numbers(7);
    // Evenly from -0.035 to 0.035: of a deviation of 0.02.
    let block: Vec<f32> = (0..BLOCK).map(|_| (next() as f32 / (1 << 23) as f32 - 1.0) * 0.035).collect();
    let mut at = 0;
    Network::new(card, config, keeps.settings(rows_max), |shard, fused| {
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
fn steps(network: &mut OnCard, packs: &[Pack], done: &mut u64) -> Steps {
    let mut seconds = Vec::new();
    let mut loss = 0.0;
    let rounds = ROUNDS[usize::from(packs[0].ids.len() > MANY)];
    for round in 0..=rounds {
        let began = Instant::now();
        let own: f64 = packs.iter().map(|pack| network.learn(pack).unwrap()).sum();
        loss = network.sum_over_replicas(own).unwrap();
        *done += 1;
        assert!(network.update(&update(*done)).unwrap().1, "an update is made");
        // The update itself is not waited for otherwise.
        network.ops().driver().card().wait_for_all().unwrap();
        if round > 0 {
            seconds.push(began.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    let (free, all) = network.ops().driver().card().memory().unwrap();
    Steps { seconds: seconds[seconds.len() / 2], loss, gib: (all - free) as f64 / (1_u64 << 30) as f64 }
}

struct Table<'a> {
    config: &'a DecoderConfig,
    product: f64,
}

impl Table<'_> {
    /// A line; gives the tokens a second.
    fn line(&self, [tp, dp]: [usize; 2], keeps: Keeps, length: usize, steps: &Steps, one: Option<f64>) -> f64 {
        let (count, packs) = (tp * dp, dp);
        let cards = if count == 1 { "1".to_owned() } else { format!("tp{tp} dp{dp}") };
        let flops = step_flops(self.config, &vec![length; packs], packs * length) / steps.seconds;
        let rate = (packs * length) as f64 / steps.seconds;
        println!(
            "{cards:<10} {:<9} {:>7} {:>10.3} {rate:>9.0} {:>6.1}% {:>9.1}% {:>9} {:>8.1} {:>9.4}",
            keeps.label(),
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

fn on_one(table: &Table<'_>, lengths: &[usize], keeps: Keeps, is_profiled: bool) -> Vec<(usize, f64)> {
    let longest = lengths.iter().copied().max().unwrap_or(1);
    let began = Instant::now();
    let mut network = network(Nvidia::open(0, None).unwrap(), table.config, longest, keeps);
    println!("(weights made in {:.1} s)", began.elapsed().as_secs_f64());
    let (mut done, mut rates) = (0, Vec::new());
    for (number, length) in lengths.iter().enumerate() {
        let packs = [pack(table.config, *length, 1)];
        let steps = steps(&mut network, &packs, &mut done);
        rates.push((*length, table.line([1, 1], keeps, *length, &steps, None)));
        if is_profiled && number == 0 {
            print_spent(*length, &watched(&mut network, &packs[0], &mut done));
        }
    }
    rates
}

/// One step, each of whose launches is timed by itself.
fn watched(network: &mut OnCard, pack: &Pack, done: &mut u64) -> BTreeMap<&'static str, Spent> {
    *done += 1;
    network.ops().driver().watch(true);
    network.learn(pack).unwrap();
    network.update(&update(*done)).unwrap();
    network.ops().driver().watch(false);
    network.ops().driver().spent()
}

fn print_spent(tokens: usize, spent: &BTreeMap<&'static str, Spent>) {
    let mut spent: Vec<(&&str, &Spent)> = spent.iter().collect();
    spent.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
    let all: f64 = spent.iter().map(|(_, spent)| spent.seconds).sum();
    let launches: usize = spent.iter().map(|(_, spent)| spent.launches).sum();
    println!("  a step of {tokens} tokens, each of {launches} launches by itself: {:.1} ms", all * 1e3);
    for (name, Spent { launches, seconds }) in spent.iter().filter(|(_, spent)| spent.seconds > 1e-3 * all) {
        println!("  {name:<24} {launches:>6} {:>9.2} ms {:>5.1}%", seconds * 1e3, 100.0 * seconds / all);
    }
}

/// Steps of a small model, whose launches count: about eleven million weights, sixteen sequences of 1,024 tokens.
fn small(product: f64) {
    let config = DecoderConfig {
        hidden: 320,
        layers: 8,
        heads: 5,
        kv_heads: 5,
        head_dim: 64,
        ffn: 960,
        vocabulary: 8_192,
        ..qwen3_4b()
    };
    let (sequences, length) = (16_u32, 1_024);
    let mut packed = pack(&config, sequences as usize * length, 1);
    packed.starts = (0..=sequences).map(|number| number * length as u32).collect();
    packed.positions = (0..sequences * length as u32).map(|row| row % length as u32).collect();
    packed.samples = (0..sequences).collect();
    let mut network = network(Nvidia::open(0, None).unwrap(), &config, packed.ids.len(), Keeps::Products);
    let mut done = 0;
    let packs = [packed];
    steps(&mut network, &packs, &mut done);
    let of_steps = steps(&mut network, &packs, &mut done);
    println!(
        "small: {} weights",
        network.layout().each().map(|fused| network.shard().shape(fused)).map(|[r, c]| r * c).sum::<usize>()
    );
    let lengths = vec![length; sequences as usize];
    let flops = step_flops(&config, &lengths, packs[0].ids.len()) / of_steps.seconds;
    println!(
        "small: {} tokens in {:.2} ms, {:.0} tokens/s, {:.1} % of the product",
        packs[0].ids.len(),
        of_steps.seconds * 1e3,
        packs[0].ids.len() as f64 / of_steps.seconds,
        100.0 * flops / product
    );
    print_spent(packs[0].ids.len(), &watched(&mut network, &packs[0], &mut done));
}
