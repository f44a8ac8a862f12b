//! Gradients of whole tiny models: against candle's autograd and against differences of the loss, both in `f64`.
//! It refuses to know updates.

use crate::reference::Reference;
use crate::tiny::{self, Dice, SETTINGS, assert_near, families, packs, qwen3, rows};
use legwork_kernels::{Cpu, Part};
use legwork_model::DecoderConfig;
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::network::NetworkSettings;
use legwork_training::pack::{Normalisation, Pack};
use legwork_training::rank::Rank;
use legwork_training::shard::padded_vocabulary;
use std::collections::BTreeMap;

/// Largest relative difference of a loss and of a gradient, by the largest gradient of its tensor.
const TOLERANCE: f32 = 1e-4;
/// By how much a weight is moved for a difference of the loss in `f64`.
const MOVE: f64 = 1e-5;
/// Weights of each tensor that are moved.
const MOVED: usize = 3;

/// Two packs: short sequences, one of a single token, a long one.
fn some_packs(config: &DecoderConfig) -> Vec<Pack> {
    let rows = rows(config.vocabulary, &[9, 1, 20, 65, 300, 70, 2], 17);
    let packs = packs(&rows, 4, Normalisation::Sample);
    assert!(packs[1].rows.len() > 200 && packs.len() == 2);
    packs
}

fn gradients(config: &DecoderConfig, packs: &[Pack]) -> (f64, BTreeMap<String, Vec<f32>>) {
    let mut rank = rank(config);
    let network = rank.network_mut();
    let loss = packs.iter().map(|pack| network.learn(pack).unwrap()).sum();
    (loss, tiny::whole(config, &[tiny::read(&rank, Part::Gradient)]))
}

#[test]
fn gradients_of_every_family_are_those_of_candles_autograd() {
    for (family, config) in families() {
        let packs = some_packs(&config);
        let (loss, got) = gradients(&config, &packs);
        let reference = Reference::new(&config, &tiny::tensors(&config, 3));
        let expected_loss = reference.loss(&packs).unwrap();
        let store = expected_loss.backward().unwrap();
        let expected_loss = expected_loss.to_scalar::<f64>().unwrap();
        assert!((loss - expected_loss).abs() < 1e-6 * expected_loss, "{family}: {loss}, expected {expected_loss}");
        let gradient = |name: &String| -> Vec<f32> {
            let gradient = store.get(&reference.vars[name]).unwrap().flatten_all().unwrap();
            gradient.to_vec1::<f64>().unwrap().iter().map(|value| *value as f32).collect()
        };
        let expected = reference.vars.keys().map(|name| (name.clone(), gradient(name))).collect();
        assert_near(&got, &expected, TOLERANCE);
    }
}

#[test]
fn gradients_are_how_the_loss_changes_when_a_weight_is_moved() {
    for (family, config) in families() {
        let packs = packs(&rows(config.vocabulary, &[12, 7], 23), 2, Normalisation::Token);
        let (_, got) = gradients(&config, &packs);
        let reference = Reference::new(&config, &tiny::tensors(&config, 3));
        let mut dice = Dice(29);
        for (name, got) in &got {
            let var = &reference.vars[name];
            let values = var.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            let largest = got.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            for _ in 0..MOVED {
                let at = dice.below(values.len() as u64) as usize;
                let loss_with = |change: f64| {
                    let mut moved = values.clone();
                    moved[at] += change;
                    var.set(&candle_core::Tensor::from_vec(moved, var.shape(), var.device()).unwrap()).unwrap();
                    reference.loss(&packs).unwrap().to_scalar::<f64>().unwrap()
                };
                let slope = (loss_with(MOVE) - loss_with(-MOVE)) / (2.0 * MOVE);
                loss_with(0.0);
                let off = (slope as f32 - got[at]).abs();
                assert!(off < TOLERANCE * largest, "{family}, {name}[{at}]: {}, slope {slope}", got[at]);
            }
        }
    }
}

#[test]
fn a_gradient_is_that_of_its_packs_added_up_however_they_are_packed() {
    let config = qwen3();
    // Together they have more rows in the loss than the head computes at once.
    let rows = rows(config.vocabulary, &[500, 5, 480, 490, 350], 5);
    assert!(packs(&rows, 5, Normalisation::Token)[0].rows.len() > 1_024);
    let (one, expected) = gradients(&config, &packs(&rows, 5, Normalisation::Token));
    let (five, got) = gradients(&config, &packs(&rows, 1, Normalisation::Token));
    assert!((one - five).abs() < 1e-5 * one);
    assert_near(&got, &expected, 1e-5);
}

#[test]
fn an_evaluation_gives_the_loss_and_changes_nothing() {
    let config = qwen3();
    let packs = some_packs(&config);
    let mut rank = rank(&config);
    let before = tiny::read(&rank, Part::Value);
    let loss = rank.evaluate(&packs).unwrap();
    assert_eq!(loss, packs.iter().map(|pack| rank.network_mut().loss(pack).unwrap()).sum::<f64>());
    assert_eq!(tiny::read(&rank, Part::Value), before);
    assert!(tiny::read(&rank, Part::Gradient).iter().flatten().all(|value| *value == 0.0));
    assert_eq!(loss, rank.step(&packs, &tiny::update(1)).unwrap().loss);
}

#[test]
fn the_padding_of_the_vocabulary_is_in_the_softmax_when_it_is_told_to_be() {
    let config = DecoderConfig { tied: false, ..qwen3() };
    let packs = some_packs(&config);
    let settings = NetworkSettings { softmax_over_padding: true, ..SETTINGS };
    let mut rank = DecoderRank::of_tensors(Cpu::new(), &config, tiny::tensors(&config, 3), settings).unwrap();
    let mut padded = tiny::tensors(&config, 3);
    let rows = padded_vocabulary(config.vocabulary, 1);
    for tensor in padded.iter_mut().filter(|tensor| tensor.shape[0] == config.vocabulary) {
        tensor.shape[0] = rows;
        tensor.values.resize(rows * config.hidden, 0.0);
    }
    let expected = Reference::new(&config, &padded).loss(&packs).unwrap().to_scalar::<f64>().unwrap();
    let got = rank.evaluate(&packs).unwrap();
    assert!((got - expected).abs() < 1e-6 * expected, "{got}, expected {expected}");
    assert!(got > self::rank(&config).evaluate(&packs).unwrap() + 1e-3);
}

#[test]
fn what_is_computed_again_is_what_is_kept_bit_for_bit() {
    for (family, config) in tiny::families() {
        let packs = some_packs(&config);
        let gradients = |[keep_attention, keep_products]: [bool; 2]| {
            let settings = NetworkSettings { keep_attention, keep_products, ..SETTINGS };
            let mut rank = DecoderRank::of_tensors(Cpu::new(), &config, tiny::tensors(&config, 3), settings).unwrap();
            let losses: Vec<f64> = packs.iter().map(|pack| rank.network_mut().learn(pack).unwrap()).collect();
            (losses, tiny::read(&rank, Part::Gradient))
        };
        let again = gradients([false, false]);
        for kept in [[true, false], [false, true], [true, true]] {
            assert_eq!(gradients(kept), again, "{family}, {kept:?}");
        }
    }
}

fn rank(config: &DecoderConfig) -> DecoderRank<Cpu> {
    tiny::rank(Cpu::new(), config, 3)
}

#[test]
fn a_gradient_that_is_no_number_changes_nothing_and_is_forgotten() {
    let config = qwen3();
    let packs = some_packs(&config);
    let mut tensors = tiny::tensors(&config, 3);
    let spoiled = tensors.iter_mut().find(|tensor| tensor.name.ends_with("0.mlp.up_proj.weight")).unwrap();
    spoiled.values[5] = f32::INFINITY;
    let mut rank = DecoderRank::of_tensors(Cpu::new(), &config, tensors, SETTINGS).unwrap();
    let before = tiny::read(&rank, Part::Value);
    let done = rank.step(&packs, &tiny::update(1)).unwrap();
    assert!(!done.updated && !done.grad_norm.is_finite());
    assert_eq!(tiny::read(&rank, Part::Value), before);
    for part in [Part::Gradient, Part::FirstMoment, Part::SecondMoment] {
        assert!(tiny::read(&rank, part).iter().flatten().all(|value| *value == 0.0), "{part:?}");
    }
}

#[test]
fn packs_and_updates_that_cannot_be_are_refused_before_anything_is_computed() {
    let config = qwen3();
    let mut rank = rank(&config);
    let mut packs = some_packs(&config);
    let beyond = legwork_training::rank::Update { beta2: 1.0, ..tiny::update(1) };
    assert!(rank.step(&packs, &beyond).unwrap_err().to_string().starts_with("beta2"));
    packs[1].targets[0] = 300;
    assert!(rank.step(&packs, &tiny::update(1)).unwrap_err().to_string().contains("targets below 300"));
    assert!(tiny::read(&rank, Part::Gradient).iter().flatten().all(|value| *value == 0.0));
}
