//! Updates of a small Qwen3 in bf16 over master weights of `f32`, on a card and on an emulated one, against torch's in the same
//! precision, whose golden comes from `goldens/make_card_curve.py`; and the processor against torch's in `f32`.
//! It refuses to know kernels.

use crate::emulated::Emulated;
use crate::tiny::{Dice, Row, packs, qwen3};
use half::bf16;
use legwork_kernels::cuda::{Card, Cuda, Nvidia};
use legwork_kernels::{Cpu, Learn};
use legwork_model::DecoderConfig;
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::network::{NetworkSettings, Tensors};
use legwork_training::pack::Normalisation;
use legwork_training::rank::{Rank, Update};
use legwork_training::tensor::NamedTensor;
use serde_json::Value;

/// How far losses and norms of bf16 may be from torch's, of themselves. Torch's own bf16 is up to 0.16 % from its `f32` in losses,
/// 0.46 % in norms.
const NEAR: f64 = 1e-2;
/// And of single precision.
const NEAR_SINGLE: f64 = 1e-4;
/// Updates that an emulated card makes: it is slow.
const EMULATED_STEPS: usize = 1;

fn config() -> DecoderConfig {
    DecoderConfig { hidden: 128, ffn: 256, head_dim: 64, ..qwen3() }
}

/// As the script draws them.
fn tensors(config: &DecoderConfig) -> Vec<NamedTensor> {
    let mut dice = Dice(3);
    let layout = Tensors::of(config, config.vocabulary);
    let pieces = layout.each().flat_map(|fused| fused.pieces.iter().map(|piece| (fused.is_vector, piece)));
    let tensor = |(is_vector, piece): (bool, &legwork_training::shard::Piece)| {
        let mut value = || match piece.name.contains("norm") {
            true => 1.0 + 0.1 * dice.signed(),
            false => 0.08 * dice.signed(),
        };
        let count = piece.shape[0] * piece.shape[1];
        let values = (0..count).map(|_| bf16::from_f32(value()).to_f32()).collect();
        NamedTensor { name: piece.name.clone(), shape: piece.shape, is_vector, values }
    };
    pieces.map(tensor).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Makes so many of the golden's updates; prints both curves.
fn follows<B: Learn + Send>(ops: B, kind: &str, steps: usize, near: f64) {
    let golden: Value = serde_json::from_str(include_str!("../../goldens/card_curve.json")).unwrap();
    let config = config();
    let settings =
        NetworkSettings { rows_max: 2_048, keep_attention: true, keep_products: false, softmax_over_padding: false };
    let mut rank = DecoderRank::of_tensors(ops, &config, tensors(&config), settings).unwrap();
    let row = |sample: &Value| Row {
        ids: numbers(&sample["ids"]).into_iter().map(|id| id as u32).collect(),
        supervised: numbers(&sample["supervised"]).into_iter().map(|flag| flag != 0.0).collect(),
    };
    let rows: Vec<Row> = golden["samples"].as_array().unwrap().iter().map(row).collect();
    let (losses, norms) = (numbers(&golden[kind]["losses"]), numbers(&golden[kind]["norms"]));
    let batch = golden["batch"].as_u64().unwrap() as usize;
    println!("{:>4} {:>9} {:>9} {:>8} {:>9} {:>9} {:>8}", "step", "loss", "torch", "", "norm", "torch", "");
    let mut furthest = [0.0_f64; 2];
    for (number, slot) in rows.chunks(batch).take(steps).enumerate() {
        let rate = golden["rate"].as_f64().unwrap();
        let update =
            Update { step: number as u64 + 1, rate, clip: 1.0, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1 };
        let done = rank.step(&packs(slot, 3, Normalisation::Token), &update).unwrap();
        let pairs = [(done.loss, losses[number]), (done.grad_norm, norms[number])];
        let off = pairs.map(|(got, expected)| (got / expected - 1.0).abs());
        println!(
            "{:>4} {:>9.4} {:>9.4} {:>7.3}% {:>9.4} {:>9.4} {:>7.3}%",
            number + 1,
            pairs[0].0,
            pairs[0].1,
            100.0 * off[0],
            pairs[1].0,
            pairs[1].1,
            100.0 * off[1]
        );
        assert!(off.iter().all(|off| *off <= near), "step {}: {done:?}", number + 1);
        furthest = [furthest[0].max(off[0]), furthest[1].max(off[1])];
    }
    println!("furthest: losses {:.3} %, norms {:.3} %", 100.0 * furthest[0], 100.0 * furthest[1]);
}

#[test]
fn the_processor_follows_torchs_curve_in_single_precision() {
    follows(Cpu::new(), "f32", 20, NEAR_SINGLE);
}

#[test]
fn an_emulated_card_follows_torchs_curve_in_bf16() {
    match Emulated::find() {
        Some(driver) => follows(Card::new(driver).unwrap(), "bf16", EMULATED_STEPS, NEAR),
        None => println!("skipped: there is no C++ compiler here that is called c++"),
    }
}

#[test]
fn a_card_follows_torchs_curve_in_bf16() {
    match Nvidia::count() {
        0 => println!("skipped: there is no card here"),
        _ => follows(Cuda::open(0, None).unwrap(), "bf16", 20, NEAR),
    }
}
