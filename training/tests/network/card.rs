//! Whole tiny models on an emulated card, and on a card where there is one, beside the processor: losses, gradients and updates.
//! Rows there are bf16 and sums are not, so that both start from weights that bf16 holds.
//! It refuses to know kernels.

use crate::emulated::Emulated;
use crate::tiny::{self, SETTINGS, everything, families, packs, qwen3, rows};
use half::bf16;
use legwork_kernels::cuda::{Card, Cuda, Nvidia};
use legwork_kernels::{Cpu, Group, Learn, Part};
use legwork_model::DecoderConfig;
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::pack::{Normalisation, Pack};
use legwork_training::rank::{Rank, Update};
use legwork_training::tensor::NamedTensor;
use std::collections::BTreeMap;

/// How far a loss may be off, of itself. Transformers' bf16 on models of these shapes is off by up to 3e-4 of f32's
/// (`goldens/bf16_gradients.txt`).
const LOSS: f64 = 2e-3;
/// The same after updates: AdamW divides a gradient by its own size, so that what rounding decides moves by the whole rate.
const LOSS_AFTER: f64 = 1e-2;
/// How far a tensor's gradient may be off, of its length. Transformers' bf16 is off by up to 0.027 (Qwen3's shape, a query norm)
/// and 0.033 (Qwen2's, a query bias) of f32's, and what is here is rounded in the same places.
const GRADIENT: f64 = 5e-2;
/// And no nearer than this, over all: a comparison of something with itself would be.
const LEAST: f64 = 1e-3;

fn rounded(config: &DecoderConfig) -> Vec<NamedTensor> {
    let mut tensors = tiny::tensors(config, 3);
    let values = tensors.iter_mut().flat_map(|tensor| &mut tensor.values);
    values.for_each(|value| *value = bf16::from_f32(*value).to_f32());
    tensors
}

fn rank<B: Learn>(ops: B, config: &DecoderConfig) -> DecoderRank<B> {
    DecoderRank::of_tensors(ops, config, rounded(config), SETTINGS).unwrap()
}

/// Heads that the fast kernels take, three of them over one key head.
fn wide_heads() -> DecoderConfig {
    DecoderConfig { heads: 3, kv_heads: 1, head_dim: 64, layers: 1, ..qwen3() }
}

fn configs() -> Vec<(&'static str, DecoderConfig)> {
    families().into_iter().chain([("wide heads", wide_heads())]).collect()
}

fn some_packs(config: &DecoderConfig) -> Vec<Pack> {
    packs(&rows(config.vocabulary, &[9, 1, 20, 70, 2], 17), 3, Normalisation::Sample)
}

type Gradients = BTreeMap<String, Vec<f32>>;

fn gradients<B: Learn>(ops: B, config: &DecoderConfig, packs: &[Pack]) -> (f64, f64, Gradients) {
    let mut rank = rank(ops, config);
    let network = rank.network_mut();
    let loss = packs.iter().map(|pack| network.learn(pack).unwrap()).sum();
    let norm = network.gradient_norm().unwrap();
    (loss, norm, tiny::whole(config, &[tiny::read(&rank, Part::Gradient)]))
}

/// How far the furthest tensor is off, of its length.
#[track_caller]
fn furthest(what: &str, got: &Gradients, expected: &Gradients) -> f64 {
    assert!(got.keys().eq(expected.keys()));
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let off = expected.iter().map(|(name, expected)| {
        let differences = got[name].iter().zip(expected).map(|(l, r)| f64::from(*l) - f64::from(*r));
        let off = length(&mut differences.into_iter()) / length(&mut expected.iter().map(|value| f64::from(*value)));
        assert!(off <= GRADIENT, "{what}, {name}: off by {off} of its length");
        off
    });
    off.fold(0.0, f64::max)
}

/// What is computed again is what is kept, bit for bit.
fn keeps<B: Learn>(open: impl Fn() -> B) {
    let config = wide_heads();
    let packs = some_packs(&config);
    let gradients = |[keep_attention, keep_products]: [bool; 2]| {
        let settings = legwork_training::network::NetworkSettings { keep_attention, keep_products, ..SETTINGS };
        let mut rank = DecoderRank::of_tensors(open(), &config, rounded(&config), settings).unwrap();
        let losses: Vec<f64> = packs.iter().map(|pack| rank.network_mut().learn(pack).unwrap()).collect();
        (losses, tiny::read(&rank, Part::Gradient))
    };
    let again = gradients([false, false]);
    for kept in [[true, false], [false, true], [true, true]] {
        assert_eq!(gradients(kept), again, "{kept:?}");
    }
}

/// Losses and gradients of all families.
fn learns<B: Learn>(open: impl Fn() -> B) {
    for (family, config) in configs() {
        let packs = some_packs(&config);
        let (loss, norm, got) = gradients(open(), &config, &packs);
        let (expected_loss, expected_norm, expected) = gradients(Cpu::new(), &config, &packs);
        let off = furthest(family, &got, &expected);
        println!("{family}: loss {loss:.5}, processor {expected_loss:.5}; furthest gradient {off:.2e} of its length");
        assert!((loss - expected_loss).abs() <= LOSS * expected_loss, "{family}: {loss}, expected {expected_loss}");
        assert!((norm - expected_norm).abs() <= GRADIENT * expected_norm, "{family}: {norm}, expected {expected_norm}");
        assert!(off > LEAST, "{family}: bf16 rounds");
    }
}

/// Steps make the loss fall as on the processor; evaluation changes nothing.
fn steps<B: Learn + Send>(ops: B) {
    let config = wide_heads();
    let packs = some_packs(&config);
    let (mut card, mut cpu) = (rank(ops, &config), rank(Cpu::new(), &config));
    for step in 1..=3 {
        let update: Update = tiny::update(step);
        let (got, expected) = (card.step(&packs, &update).unwrap(), cpu.step(&packs, &update).unwrap());
        assert!(got.updated && (got.loss - expected.loss).abs() <= LOSS_AFTER * expected.loss, "{got:?}, {expected:?}");
    }
    let before = tiny::read(&card, Part::Value);
    let (got, expected) = (card.evaluate(&packs).unwrap(), cpu.evaluate(&packs).unwrap());
    assert!((got - expected).abs() <= LOSS_AFTER * expected, "{got}, expected {expected}");
    assert_eq!(tiny::read(&card, Part::Value), before);
}

#[test]
fn losses_and_gradients_on_an_emulated_card_are_near_the_processors() {
    match Emulated::find() {
        Some(_) => {
            learns(|| Card::new(Emulated::find().unwrap()).unwrap());
            keeps(|| Card::new(Emulated::find().unwrap()).unwrap());
        }
        None => println!("skipped: there is no C++ compiler here that is called c++"),
    }
}

#[test]
fn losses_and_gradients_on_a_card_are_near_the_processors() {
    match Nvidia::count() {
        0 => println!("skipped: there is no card here"),
        _ => {
            learns(|| Cuda::open(0, None).unwrap());
            keeps(|| Cuda::open(0, None).unwrap());
        }
    }
}

#[test]
fn steps_on_an_emulated_card_are_near_the_processors() {
    match Emulated::find() {
        Some(driver) => steps(Card::new(driver).unwrap()),
        None => println!("skipped: there is no C++ compiler here that is called c++"),
    }
}

#[test]
fn steps_on_a_card_are_near_the_processors() {
    match Nvidia::count() {
        0 => println!("skipped: there is no card here"),
        _ => steps(Cuda::open(0, None).unwrap()),
    }
}

#[test]
fn emulated_ranks_of_a_network_have_the_gradients_of_the_processors() {
    if Emulated::find().is_none() {
        println!("skipped: there is no C++ compiler here that is called c++");
        return;
    }
    let config = everything();
    let packs = some_packs(&config);
    let (config, packs) = (&config, &packs);
    let of_ranks: Vec<_> = std::thread::scope(|scope| {
        let start = |member| {
            scope.spawn(move || {
                let driver = Emulated::find().unwrap().with_member(member);
                let mut rank = rank(Card::new(driver).unwrap(), config);
                let network = rank.network_mut();
                let loss: f64 = packs.iter().map(|pack| network.learn(pack).unwrap()).sum();
                network.sum_gradients().unwrap();
                (loss, network.gradient_norm().unwrap(), tiny::read(&rank, Part::Gradient))
            })
        };
        let threads: Vec<_> = Group::of(2).into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((of_ranks[0].0, of_ranks[0].1), (of_ranks[1].0, of_ranks[1].1), "all ranks say the same");
    let (loss, norm, _) = of_ranks[0];
    let parts: Vec<_> = of_ranks.into_iter().map(|rank| rank.2).collect();
    let (expected_loss, expected_norm, expected) = gradients(Cpu::new(), config, packs);
    furthest("two ranks", &tiny::whole(config, &parts), &expected);
    assert!((loss - expected_loss).abs() <= LOSS * expected_loss, "{loss}, expected {expected_loss}");
    assert!((norm - expected_norm).abs() <= GRADIENT * expected_norm, "{norm}, expected {expected_norm}");
}

/// Steps of emulated cards that are replicas, beside one alone; how often somebody waits for a card in a step, and how many kernels
/// it is given.
#[test]
fn emulated_cards_that_are_replicas_learn_what_one_learns() {
    if Emulated::find().is_none() {
        println!("skipped: there is no C++ compiler here that is called c++");
        return;
    }
    let config = qwen3();
    let packs = packs(&rows(config.vocabulary, &[9, 14, 20, 30], 17), 1, Normalisation::Token);
    let (config, packs) = (&config, &packs);
    let run = |driver: Emulated| {
        let mut rank = rank(Card::new(driver).unwrap(), config);
        let done: Vec<_> = (1..=2).map(|step| rank.step(packs, &tiny::update(step)).unwrap()).collect();
        rank.network().ops().driver().counted();
        rank.step(packs, &tiny::update(3)).unwrap();
        let counted = rank.network().ops().driver().counted();
        let held_out = rank.evaluate(packs).unwrap();
        let mut moments = Vec::new();
        let gather = |_: &_, _, values: &[f32]| {
            moments.push(values.to_vec());
            Ok(())
        };
        rank.network_mut().gather(Part::SecondMoment, gather).unwrap();
        (done, held_out, moments, counted)
    };
    let (done, held_out, moments, (waits, launches)) = run(Emulated::find().unwrap());
    println!("a step of {} packs: {waits} waits, {launches} launches", packs.len());
    // One a pack for its loss, and one for the norm.
    assert_eq!(waits, packs.len() + 1);
    let replicas: Vec<_> = std::thread::scope(|scope| {
        let start = |member| scope.spawn(move || run(Emulated::find().unwrap().with_replica(member)));
        let threads: Vec<_> = Group::of(2).into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((&replicas[0].0, replicas[0].1), (&replicas[1].0, replicas[1].1), "both say the same");
    for (got, expected) in replicas[0].0.iter().zip(&done) {
        assert!((got.loss - expected.loss).abs() <= LOSS * expected.loss, "{got:?}, expected {expected:?}");
        assert!((got.grad_norm - expected.grad_norm).abs() <= 1e-2 * expected.grad_norm, "{got:?}, {expected:?}");
    }
    assert!((replicas[0].1 - held_out).abs() <= LOSS_AFTER * held_out);
    assert!(replicas[1].2.is_empty() && replicas[0].2.len() == moments.len());
    for (got, expected) in replicas[0].2.iter().zip(&moments) {
        let most = expected.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let off = got.iter().zip(expected).fold(0.0_f32, |off, (l, r)| off.max((l - r).abs()));
        assert!(off <= 0.1 * most, "off by {off} of {most}");
    }
}
