//! Tiny decoders of each family, their random weights, rows to learn from, and packs of them.
//! It refuses to compute.

use legwork_kernels::{Cpu, Learn, Part};
use legwork_model::{DecoderConfig, Family, Rope, RopeScaling};
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::network::{NetworkSettings, Tensors};
use legwork_training::pack::{Normalisation, Pack};
use legwork_training::rank::Update;
use legwork_training::shard::{Cut, Fused, Shard};
use legwork_training::tensor::NamedTensor;
use std::collections::BTreeMap;

pub(crate) const SETTINGS: NetworkSettings =
    NetworkSettings { rows_max: 2_048, keep_attention: true, keep_products: false, softmax_over_padding: false };

/// Numbers that a seed decides (Steele, Lea and Flood's SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    /// From -1 to 1.
    pub(crate) fn signed(&mut self) -> f32 {
        (self.below(1 << 24) as f32 / (1 << 23) as f32) - 1.0
    }
}

/// Qwen3's flags: norms of heads, a tied head.
pub(crate) fn qwen3() -> DecoderConfig {
    DecoderConfig {
        family: Family::Qwen3,
        hidden: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        ffn: 96,
        vocabulary: 300,
        context: 512,
        rms_eps: 1e-6,
        rope: Rope { theta: 1e4, scaling: RopeScaling::None, interleaved: false },
        tied: true,
        qkv_bias: false,
        output_bias: false,
        mlp_bias: false,
        qk_norm: true,
        dtype: None,
    }
}

pub(crate) fn families() -> Vec<(&'static str, DecoderConfig)> {
    let llama3 = RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 64 };
    let plain = DecoderConfig { family: Family::Llama, qk_norm: false, ..qwen3() };
    vec![
        ("qwen3", qwen3()),
        ("qwen2", DecoderConfig { family: Family::Qwen2, qkv_bias: true, tied: false, ..plain.clone() }),
        ("smollm2", plain.clone()),
        ("llama", DecoderConfig { rope: Rope { scaling: llama3, ..plain.rope.clone() }, tied: false, ..plain }),
        ("everything", everything()),
    ]
}

/// All flags on, heads that four ranks can share, a width of heads that is not the hidden one.
pub(crate) fn everything() -> DecoderConfig {
    DecoderConfig {
        hidden: 40,
        heads: 8,
        kv_heads: 4,
        ffn: 56,
        tied: false,
        qkv_bias: true,
        output_bias: true,
        mlp_bias: true,
        rope: Rope { theta: 1e4, scaling: RopeScaling::None, interleaved: true },
        ..qwen3()
    }
}

/// Random weights under their Hugging Face names: norms around one, biases around zero, attention far from uniform.
pub(crate) fn tensors(config: &DecoderConfig, seed: u64) -> Vec<NamedTensor> {
    let mut dice = Dice(seed);
    let layout = Tensors::of(config, config.vocabulary);
    let mut made = Vec::new();
    for fused in layout.each() {
        for piece in &fused.pieces {
            let norm = piece.name.contains("norm");
            let mut value = || if norm { 1.0 + 0.3 * dice.signed() } else { 0.25 * dice.signed() };
            let values = (0..piece.shape[0] * piece.shape[1]).map(|_| value()).collect();
            made.push(NamedTensor { name: piece.name.clone(), shape: piece.shape, is_vector: fused.is_vector, values });
        }
    }
    made
}

pub(crate) fn rank(ops: Cpu, config: &DecoderConfig, seed: u64) -> DecoderRank<Cpu> {
    DecoderRank::of_tensors(ops, config, tensors(config, seed), SETTINGS).unwrap()
}

/// Token ids, and which of them are in the loss.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) ids: Vec<u32>,
    pub(crate) supervised: Vec<bool>,
}

/// Rows of these lengths; about two of three tokens are in the loss, among them the last of each that has two.
pub(crate) fn rows(vocabulary: usize, lengths: &[usize], seed: u64) -> Vec<Row> {
    let mut dice = Dice(seed);
    let mut row = |length: usize| {
        let ids = (0..length).map(|_| dice.below(vocabulary as u64) as u32).collect();
        let supervised = (0..length).map(|at| at > 0 && (at + 1 == length || dice.below(3) > 0)).collect();
        Row { ids, supervised }
    };
    lengths.iter().map(|length| row(*length)).collect()
}

/// A slot's rows in packs of so many rows each; each pack ends with padding of token 0.
pub(crate) fn packs(rows: &[Row], rows_of_pack: usize, normalisation: Normalisation) -> Vec<Pack> {
    let count = |row: &Row| row.supervised.iter().filter(|supervised| **supervised).count();
    let total: usize = rows.iter().map(count).sum();
    let mut packs = Vec::new();
    for (number, some) in rows.chunks(rows_of_pack).enumerate() {
        let mut pack = Pack { starts: vec![0], ..Pack::default() };
        for (place, row) in some.iter().enumerate() {
            let weight = match normalisation {
                Normalisation::Token => 1.0 / total as f32,
                Normalisation::Sample => 1.0 / (rows.len() * count(row)) as f32,
            };
            for at in 0..row.ids.len() {
                if row.supervised.get(at + 1) == Some(&true) {
                    pack.rows.push(pack.ids.len() as u32);
                    pack.targets.push(row.ids[at + 1]);
                    pack.weights.push(weight);
                }
                pack.ids.push(row.ids[at]);
                pack.positions.push(at as u32);
            }
            pack.starts.push(pack.ids.len() as u32);
            pack.samples.push((number * rows_of_pack + place) as u32);
        }
        pack.ids.extend([0; 3]);
        pack.positions.extend(0..3);
        pack.starts.push(pack.ids.len() as u32);
        packs.push(pack);
    }
    packs
}

pub(crate) fn update(step: u64) -> Update {
    Update { step, rate: 1e-3, clip: 1.0, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1 }
}

/// A part of every tensor of a rank.
pub(crate) fn read<B: Learn>(rank: &DecoderRank<B>, part: Part) -> Vec<Vec<f32>> {
    let mut parts = Vec::new();
    rank.network()
        .read(part, |_, _, values| {
            parts.push(values.to_vec());
            Ok(())
        })
        .unwrap();
    parts
}

/// What ranks hold, as whole tensors under their Hugging Face names, without the padding of the vocabulary. What all ranks have
/// must be the same bits on all of them.
pub(crate) fn whole(config: &DecoderConfig, of_ranks: &[Vec<Vec<f32>>]) -> BTreeMap<String, Vec<f32>> {
    let ranks = of_ranks.len();
    let shards: Vec<Shard> = (0..ranks).map(|rank| Shard::new(config, rank, ranks).unwrap()).collect();
    let layout = Tensors::of(config, shards[0].padded_vocabulary());
    let mut found = BTreeMap::new();
    for (at, fused) in layout.each().enumerate() {
        let mut wholes = empty(fused);
        for (shard, values) in shards.iter().zip(of_ranks) {
            shard.place(fused, &values[at], &mut wholes).unwrap();
            if matches!(fused.cut, Cut::Copied | Cut::Summed) {
                assert_eq!(values[at], of_ranks[0][at], "{} of rank {}", fused.name, shard.rank());
            }
        }
        for mut whole in wholes {
            if fused.is_vocabulary {
                let padding = whole.values.split_off(config.vocabulary * config.hidden);
                assert!(padding.iter().all(|value| *value == 0.0), "padding of {}", fused.name);
            }
            found.insert(whole.name, whole.values);
        }
    }
    found
}

fn empty(fused: &Fused) -> Vec<NamedTensor> {
    let of = |piece: &legwork_training::shard::Piece| NamedTensor {
        name: piece.name.clone(),
        shape: piece.shape,
        is_vector: fused.is_vector,
        values: vec![f32::NAN; piece.shape[0] * piece.shape[1]],
    };
    fused.pieces.iter().map(of).collect()
}

/// That two sets of tensors are the same but for rounding: each difference is measured by its tensor's largest value.
#[track_caller]
pub(crate) fn assert_near(got: &BTreeMap<String, Vec<f32>>, expected: &BTreeMap<String, Vec<f32>>, tolerance: f32) {
    assert!(got.keys().eq(expected.keys()));
    for (name, expected) in expected {
        let largest = expected.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let off = got[name].iter().zip(expected).map(|(l, r)| (l - r).abs()).fold(0.0, f32::max);
        assert!(largest > 0.0 && off <= tolerance * largest, "{name}: {off} of {largest}");
    }
}
