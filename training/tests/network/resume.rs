//! Runs that end after some step and are taken up again from disk: the same weights, bit for bit; and by another number of ranks.
//! It refuses to know who ends them.

use crate::tiny::{self, Dice, everything, packs, qwen3, rank, rows};
use legwork_kernels::{Cpu, Group, Part};
use legwork_model::DecoderConfig;
use legwork_training::TrainingError;
use legwork_training::checkpoint::{self, Facts};
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::pack::{Normalisation, Pack};
use legwork_training::rank::Rank;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

const STEPS: u64 = 12;
const RESUMES: usize = 20;
const PARTS: [Part; 3] = [Part::Value, Part::FirstMoment, Part::SecondMoment];

/// The `config.json` of the tiny models; `shape` has no flag that these families of Hugging Face cannot say.
pub(crate) fn model(shape: &DecoderConfig) -> Map<String, Value> {
    let Value::Object(model) = json!({
        "model_type": "qwen3", "hidden_size": shape.hidden, "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim,
        "intermediate_size": shape.ffn, "vocab_size": shape.vocabulary, "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.rms_eps, "rope_theta": shape.rope.theta, "attention_bias": shape.qkv_bias,
        "mlp_bias": shape.mlp_bias, "tie_word_embeddings": shape.tied
    }) else {
        unreachable!("the literal is an object")
    };
    model
}

fn slot(step: u64) -> Vec<Pack> {
    packs(&rows(300, &[9, 14, 6], 100 + step), 2, Normalisation::Token)
}

fn advance(rank: &mut DecoderRank<Cpu>, steps: std::ops::RangeInclusive<u64>) {
    steps.for_each(|step| assert!(rank.step(&slot(step), &tiny::update(step)).unwrap().updated));
}

fn save(root: &Path, step: u64, rank: &mut DecoderRank<Cpu>) -> PathBuf {
    let partial = checkpoint::begin(root, step).unwrap();
    rank.save(&partial).unwrap();
    let facts = Facts { samples: 3 * step, ranks: 1, model: model(&qwen3()), run: json!({}) };
    checkpoint::commit(&partial, facts).unwrap()
}

pub(crate) fn all_of(rank: &DecoderRank<Cpu>) -> Vec<Vec<f32>> {
    PARTS.iter().flat_map(|part| tiny::read(rank, *part)).collect()
}

#[test]
fn runs_taken_up_after_any_step_end_with_the_same_bits() {
    let root = tempfile::tempdir().unwrap();
    let mut undisturbed = rank(Cpu::new(), &qwen3(), 3);
    let mut saved = vec![save(root.path(), 0, &mut undisturbed)];
    for step in 1..=STEPS {
        advance(&mut undisturbed, step..=step);
        saved.push(save(root.path(), step, &mut undisturbed));
    }
    let expected = all_of(&undisturbed);
    let mut dice = Dice(41);
    for _ in 0..RESUMES {
        let step = dice.below(STEPS + 1);
        // Other weights and a gradient that is left over, so that whatever is not restored shows.
        let mut resumed = rank(Cpu::new(), &qwen3(), 99);
        resumed.network_mut().learn(&slot(1)[0]).unwrap();
        resumed.restore(&saved[step as usize]).unwrap();
        advance(&mut resumed, step + 1..=STEPS);
        assert!(all_of(&resumed) == expected, "taken up after step {step}");
    }
}

#[test]
fn a_run_whose_last_checkpoint_is_torn_goes_on_from_the_one_before_to_the_same_bits() {
    let root = tempfile::tempdir().unwrap();
    let mut undisturbed = rank(Cpu::new(), &qwen3(), 3);
    for step in [4, 8] {
        advance(&mut undisturbed, step - 3..=step);
        save(root.path(), step, &mut undisturbed);
    }
    advance(&mut undisturbed, 9..=STEPS);
    let torn = root.path().join("step-00000008/rank-0-of-1.safetensors");
    let bytes = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &bytes[..bytes.len() / 2]).unwrap();

    let latest = checkpoint::latest(root.path()).unwrap();
    assert!(latest.damaged[0].1.to_string().contains("rank-0-of-1.safetensors"));
    let found = latest.checkpoint.unwrap();
    let mut resumed = rank(Cpu::new(), &qwen3(), 99);
    assert!(resumed.restore(latest.damaged[0].0.as_path()).is_err());
    resumed.restore(found.folder()).unwrap();
    advance(&mut resumed, found.state().step + 1..=STEPS);
    assert!(all_of(&resumed) == all_of(&undisturbed));
}

/// A file that takes nothing, as a disk that is full.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_the_checkpoint_that_was_being_made_and_no_other() {
    let root = tempfile::tempdir().unwrap();
    let mut rank = rank(Cpu::new(), &qwen3(), 3);
    save(root.path(), 1, &mut rank);
    for full in ["rank-0-of-1.safetensors", "state.json"] {
        let partial = checkpoint::begin(root.path(), 2).unwrap();
        if full == "state.json" {
            rank.save(&partial).unwrap();
        }
        std::os::unix::fs::symlink("/dev/full", partial.join(full)).unwrap();
        let facts = Facts { samples: 6, ranks: 1, model: model(&qwen3()), run: json!({}) };
        let failed = match full {
            "state.json" => checkpoint::commit(&partial, facts).unwrap_err(),
            _ => rank.save(&partial).unwrap_err(),
        };
        assert!(matches!(&failed, TrainingError::Io { what: "write", .. }), "{failed}");
        assert!(failed.to_string().contains(full), "{failed}");
        let latest = checkpoint::latest(root.path()).unwrap();
        assert_eq!((latest.checkpoint.unwrap().state().step, latest.damaged.len()), (1, 0));
    }
    save(root.path(), 2, &mut rank);
    assert_eq!(checkpoint::latest(root.path()).unwrap().checkpoint.unwrap().state().step, 2);
}

#[test]
fn a_checkpoint_of_any_number_of_ranks_is_restored_by_any_other() {
    let shape = DecoderConfig { rope: qwen3().rope, ..everything() };
    let root = tempfile::tempdir().unwrap();
    let group = |ranks: usize, run: &(dyn Fn(&mut DecoderRank<Cpu>) + Sync)| -> Vec<Vec<Vec<Vec<f32>>>> {
        let shape = &shape;
        let of_ranks: Vec<Vec<Vec<Vec<f32>>>> = std::thread::scope(|scope| {
            let start = |member| {
                scope.spawn(move || {
                    let mut rank = rank(Cpu::new().with_member(member), shape, 99);
                    run(&mut rank);
                    PARTS.map(|part| tiny::read(&rank, part)).to_vec()
                })
            };
            let threads: Vec<_> = Group::of(ranks).into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        (0..PARTS.len()).map(|part| of_ranks.iter().map(|rank| rank[part].clone()).collect()).collect()
    };
    for from in [1, 2, 4] {
        let partial = checkpoint::begin(root.path(), from as u64).unwrap();
        let saved = group(from, &|rank| {
            advance(rank, 1..=2);
            rank.save(&partial).unwrap();
        });
        let facts = Facts { samples: 6, ranks: from, model: model(&shape), run: json!({}) };
        let place = checkpoint::commit(&partial, facts).unwrap();
        for to in [1, 2, 4] {
            let restored = group(to, &|rank| rank.restore(&place).unwrap());
            for (saved, restored) in saved.iter().zip(&restored) {
                assert!(tiny::whole(&shape, saved) == tiny::whole(&shape, restored), "from {from} to {to} ranks");
            }
        }
    }
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let place = save(root.path(), 1, &mut rank(Cpu::new(), &qwen3(), 3));
    let other = DecoderConfig { ffn: 112, ..qwen3() };
    let refused = rank(Cpu::new(), &other, 3).restore(&place).unwrap_err().to_string();
    assert!(refused.contains("ffn: 112") && refused.contains("ffn: 96"), "{refused}");
}
