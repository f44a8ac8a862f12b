//! Replicas on threads of one process, each of which learns from its own packs: two and three are one, and so are two times two
//! tensor-parallel ranks; a replica that dies takes the others with it by name; and checkpoints go between any numbers of both.
//! It refuses to know cards.

use crate::resume::{all_of, model};
use crate::tiny::{self, assert_near, everything, packs, rows};
use legwork_kernels::{Cpu, Group, Part};
use legwork_model::DecoderConfig;
use legwork_training::checkpoint::{self, Facts};
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::pack::{Normalisation, Pack};
use legwork_training::rank::{Rank, StepDone, Update};
use serde_json::json;
use std::collections::BTreeMap;

/// Largest relative difference by the largest value of a tensor: sums are taken in another order.
const TOLERANCE: f32 = 1e-5;
/// As for tensor-parallel ranks: above the gradients that are nothing but rounding.
const SMOOTH_EPS: f64 = 1e-5;

/// Tensor-parallel ranks, and replicas of these.
const GRIDS: [[usize; 2]; 5] = [[1, 2], [1, 3], [2, 2], [2, 1], [1, 1]];

/// Five packs, one of which is longer than all others.
fn some_packs(config: &DecoderConfig, seed: u64) -> Vec<Pack> {
    packs(&rows(config.vocabulary, &[9, 6, 20, 35, 28], seed), 1, Normalisation::Token)
}

fn update(step: u64) -> Update {
    Update { eps: SMOOTH_EPS, ..tiny::update(step) }
}

/// Runs every rank of a grid on a thread of its own; what comes back is in the order of ranks within that of replicas.
fn together<T: Send>(
    [tp, dp]: [usize; 2],
    config: &DecoderConfig,
    run: impl Fn([usize; 2], DecoderRank<Cpu>) -> T + Sync,
) -> Vec<T> {
    let run = &run;
    let mut of_ranks: Vec<_> = (0..tp).map(|_| Group::of(dp).into_iter()).collect();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for replica in 0..dp {
            for (rank, member) in Group::of(tp).into_iter().enumerate() {
                let among = of_ranks[rank].next().unwrap();
                let ops = Cpu::new().with_member(member).with_replica(among);
                threads.push(scope.spawn(move || run([rank, replica], tiny::rank(ops, config, 3))));
            }
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// What the first replica gathers of a part.
fn gathered(rank: &mut DecoderRank<Cpu>, part: Part) -> Vec<Vec<f32>> {
    let mut parts = Vec::new();
    let network = rank.network_mut();
    network
        .gather(part, |_, _, values| {
            parts.push(values.to_vec());
            Ok(())
        })
        .unwrap();
    parts
}

type Whole = BTreeMap<String, Vec<f32>>;

fn trained(grid: [usize; 2], config: &DecoderConfig) -> (Vec<StepDone>, f64, [Whole; 3]) {
    let packs = some_packs(config, 17);
    let of_ranks = together(grid, config, |_, mut rank| {
        let done: Vec<_> = (1..=3).map(|step| rank.step(&packs, &update(step)).unwrap()).collect();
        let held_out = rank.evaluate(&packs).unwrap();
        let parts = [Part::Value, Part::FirstMoment, Part::SecondMoment].map(|part| gathered(&mut rank, part));
        (done, held_out, parts)
    });
    let first = &of_ranks[0];
    assert!(of_ranks.iter().all(|rank| (&rank.0, rank.1) == (&first.0, first.1)), "all say the same");
    let whole = [0, 1, 2].map(|part| {
        let of_first: Vec<_> = of_ranks[..grid[0]].iter().map(|(_, _, parts)| parts[part].clone()).collect();
        tiny::whole(config, &of_first)
    });
    (first.0.clone(), first.1, whole)
}

#[test]
fn replicas_and_replicas_of_ranks_come_to_what_one_comes_to() {
    let config = everything();
    let (done, held_out, expected) = trained([1, 1], &config);
    assert!(done[2].loss < done[0].loss && done.iter().all(|done| done.updated));
    for grid in GRIDS {
        let (got_done, got_held_out, got) = trained(grid, &config);
        for (got, done) in got_done.iter().zip(&done) {
            assert!((got.loss - done.loss).abs() < 1e-5 * done.loss, "{grid:?}: {got:?}, expected {done:?}");
            assert!((got.grad_norm - done.grad_norm).abs() < 1e-4 * done.grad_norm, "{grid:?}: {got:?}, {done:?}");
        }
        assert!((got_held_out - held_out).abs() < 1e-5 * held_out, "{grid:?}: {got_held_out}, expected {held_out}");
        for (got, expected) in got.iter().zip(&expected) {
            assert_near(got, expected, TOLERANCE);
        }
    }
}

#[test]
fn more_replicas_than_packs_leave_some_without_and_learn_the_same() {
    let config = everything();
    let packs = some_packs(&config, 17);
    let of = |grid| together(grid, &config, |_, mut rank| rank.step(&packs[..2], &update(1)).unwrap());
    let (one, four) = (of([1, 1]), of([1, 4]));
    assert!((one[0].loss - four[3].loss).abs() < 1e-6 * one[0].loss, "{one:?} {four:?}");
    assert!((one[0].grad_norm - four[3].grad_norm).abs() < 1e-5 * one[0].grad_norm, "{one:?} {four:?}");
}

#[test]
fn moments_lie_with_the_replica_that_a_tensor_belongs_to_and_weights_with_all() {
    let config = everything();
    let packs = some_packs(&config, 17);
    let of_ranks = together([1, 2], &config, |_, mut rank| {
        rank.step(&packs, &update(1)).unwrap();
        (tiny::read(&rank, Part::Value), tiny::read(&rank, Part::SecondMoment))
    });
    assert_eq!(of_ranks[0].0, of_ranks[1].0);
    let is_there = |values: &Vec<f32>| values.iter().any(|value| *value != 0.0);
    for (first, second) in of_ranks[0].1.iter().zip(&of_ranks[1].1) {
        assert!(is_there(first) != is_there(second), "one of both has them");
    }
}

#[test]
fn a_replica_that_dies_within_a_step_is_a_named_error_of_the_others_and_nobody_waits() {
    let config = everything();
    let packs = some_packs(&config, 17);
    let ended = together([2, 2], &config, |[rank, replica], mut ops| match [rank, replica] {
        [1, 1] => None,
        _ => Some(ops.step(&packs, &update(1)).unwrap_err().to_string()),
    });
    for error in ended.iter().flatten() {
        assert!(error.contains("left the group"), "{error}");
    }
    assert_eq!(ended.iter().flatten().count(), 3);
}

#[test]
fn a_checkpoint_goes_between_any_numbers_of_ranks_and_replicas_and_the_run_goes_on_the_same() {
    let shape = DecoderConfig { rope: tiny::qwen3().rope, ..everything() };
    let root = tempfile::tempdir().unwrap();
    let later = |rank: &mut DecoderRank<Cpu>| {
        let done = (3..=4).map(|step| rank.step(&some_packs(&shape, step), &update(step)).unwrap());
        done.map(|done| done.loss).collect::<Vec<f64>>()
    };
    for (number, from) in GRIDS.into_iter().enumerate() {
        let partial = checkpoint::begin(root.path(), number as u64 + 1).unwrap();
        let straight = together(from, &shape, |_, mut rank| {
            for step in 1..=2 {
                rank.step(&some_packs(&shape, step), &update(step)).unwrap();
            }
            rank.save(&partial).unwrap();
            later(&mut rank)
        });
        let facts = Facts { samples: 6, ranks: from[0], model: model(&shape), run: json!({}) };
        let place = checkpoint::commit(&partial, facts).unwrap();
        for to in GRIDS {
            let resumed = together(to, &shape, |_, mut rank| {
                rank.network_mut().learn(&some_packs(&shape, 9)[0]).unwrap();
                rank.restore(&place).unwrap();
                let losses = later(&mut rank);
                (losses, all_of(&rank).len())
            });
            for (got, expected) in resumed[0].0.iter().zip(&straight[0]) {
                assert!(
                    (got - expected).abs() < 1e-5 * expected,
                    "from {from:?} to {to:?}: {got}, expected {expected}"
                );
            }
            if from == to {
                assert_eq!(resumed[0].0, straight[0], "the same ranks give the same bits");
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_first_replica_that_cannot_write_keeps_nobody_waiting() {
    let config = everything();
    let packs = some_packs(&config, 17);
    let nowhere = std::path::Path::new("/dev/full");
    let ended = together([1, 2], &config, |_, mut rank| {
        rank.step(&packs, &update(1)).unwrap();
        rank.save(nowhere).map_err(|error| error.to_string())
    });
    assert!(ended[0].as_ref().unwrap_err().contains("cannot write"), "{ended:?}");
    assert_eq!(ended[1], Ok(()));
}
