//! Tensor-parallel ranks on threads of one process: two and four are one, and a rank that dies takes the others with it by name.
//! It refuses to know checkpoints.

use crate::tiny::{self, assert_near, everything, packs, qwen3, rows};
use legwork_kernels::{Cpu, Group, Part};
use legwork_model::DecoderConfig;
use legwork_training::TrainingError;
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::pack::{Normalisation, Pack};
use legwork_training::rank::{Rank, Update};

/// Largest relative difference by the largest value of a tensor: sums are taken in another order.
const TOLERANCE: f32 = 1e-5;
/// AdamW divides a gradient by its own size, so that one which is nothing but rounding would move its weight by the whole rate.
/// With an epsilon above such gradients, ranks must agree on every weight.
const SMOOTH_EPS: f64 = 1e-5;

fn some_packs(config: &DecoderConfig) -> Vec<Pack> {
    packs(&rows(config.vocabulary, &[9, 1, 20, 35, 28], 17), 3, Normalisation::Token)
}

/// Runs every rank of a group on a thread of its own.
fn together<T: Send>(
    ranks: usize,
    config: &DecoderConfig,
    run: impl Fn(usize, DecoderRank<Cpu>) -> T + Sync,
) -> Vec<T> {
    let run = &run;
    std::thread::scope(|scope| {
        let start =
            |(number, member)| scope.spawn(move || run(number, tiny::rank(Cpu::new().with_member(member), config, 3)));
        let threads: Vec<_> = Group::of(ranks).into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Losses, norms, and what the ranks hold of a part, as whole tensors.
fn gradients(ranks: usize, config: &DecoderConfig) -> (f64, f64, std::collections::BTreeMap<String, Vec<f32>>) {
    let packs = some_packs(config);
    let of_ranks = together(ranks, config, |_, mut rank| {
        let network = rank.network_mut();
        let loss = packs.iter().map(|pack| network.learn(pack).unwrap()).sum::<f64>();
        network.sum_gradients().unwrap();
        let norm = network.gradient_norm().unwrap();
        (loss, norm, tiny::read(&rank, Part::Gradient))
    });
    let (loss, norm, _) = of_ranks[0];
    assert!(of_ranks.iter().all(|rank| (rank.0, rank.1) == (loss, norm)), "all ranks say the same");
    let parts: Vec<_> = of_ranks.into_iter().map(|rank| rank.2).collect();
    (loss, norm, tiny::whole(config, &parts))
}

#[test]
fn losses_gradients_and_norms_of_two_and_four_ranks_are_those_of_one() {
    for (config, ranks) in [(qwen3(), 2), (everything(), 2), (everything(), 4)] {
        let (loss, norm, expected) = gradients(1, &config);
        let (got_loss, got_norm, got) = gradients(ranks, &config);
        assert!((got_loss - loss).abs() < 1e-6 * loss, "{ranks} ranks: {got_loss}, expected {loss}");
        assert!((got_norm - norm).abs() < 1e-5 * norm, "{ranks} ranks: {got_norm}, expected {norm}");
        assert_near(&got, &expected, TOLERANCE);
        // The norm is that of the whole gradient: what all ranks have counts once.
        let squares: f64 = expected.values().flatten().map(|value| f64::from(*value).powi(2)).sum();
        assert!((norm - squares.sqrt()).abs() < 1e-6 * norm);
    }
}

#[test]
fn weights_and_moments_after_updates_of_two_and_four_ranks_are_those_of_one() {
    let config = everything();
    let packs = some_packs(&config);
    let train = |ranks: usize| {
        let of_ranks = together(ranks, &config, |_, mut rank| {
            let update = |step| Update { eps: SMOOTH_EPS, ..tiny::update(step) };
            let done: Vec<_> = (1..=3).map(|step| rank.step(&packs, &update(step)).unwrap()).collect();
            let parts = [Part::Value, Part::FirstMoment, Part::SecondMoment].map(|part| tiny::read(&rank, part));
            (done, parts)
        });
        assert!(of_ranks.iter().all(|(done, _)| *done == of_ranks[0].0 && done.iter().all(|done| done.updated)));
        let whole = [0, 1, 2].map(|part| {
            let parts: Vec<_> = of_ranks.iter().map(|(_, parts)| parts[part].clone()).collect();
            tiny::whole(&config, &parts)
        });
        (of_ranks[0].0.clone(), whole)
    };
    let (done, expected) = train(1);
    assert!(done[2].loss < done[0].loss);
    for ranks in [2, 4] {
        let (got_done, got) = train(ranks);
        for (got, done) in got_done.iter().zip(&done) {
            assert!((got.loss - done.loss).abs() < 1e-5 * done.loss, "{ranks} ranks: {got:?}, expected {done:?}");
        }
        for (got, expected) in got.iter().zip(&expected) {
            assert_near(got, expected, TOLERANCE);
        }
    }
}

/// Rank 1 goes along through the first pack's way forwards and is gone when the others come to its way back.
#[test]
fn a_rank_that_dies_within_a_step_is_a_named_error_of_the_others_and_nobody_waits() {
    let config = everything();
    let packs = some_packs(&config);
    for ranks in [2, 4] {
        let ended = together(ranks, &config, |number, mut rank| match number {
            1 => {
                rank.evaluate(&packs[..1]).unwrap();
                None
            }
            _ => Some((rank.step(&packs, &tiny::update(1)), tiny::read(&rank, Part::Value))),
        });
        let untouched = tiny::read(&tiny::rank(Cpu::new(), &config, 3), Part::Value);
        for (rank, ended) in ended.into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
            let (done, values) = ended.unwrap();
            let error = done.unwrap_err();
            assert!(matches!(error, TrainingError::Ops(_)), "rank {rank}: {error:?}");
            assert!(error.to_string().contains(&format!("rank 1 of {ranks} left")), "rank {rank}: {error}");
            // Norms are whole on every rank: nothing was updated.
            assert!(values.iter().zip(&untouched).all(|(l, r)| l.len() != r.len() || l == r));
        }
    }
}

#[test]
fn a_group_that_does_not_divide_the_model_is_refused_with_those_that_do() {
    let members = Group::of(4);
    let ops = Cpu::new().with_member(members.into_iter().next().unwrap());
    let refused = DecoderRank::of_tensors(ops, &qwen3(), tiny::tensors(&qwen3(), 3), tiny::SETTINGS);
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("one of 1, 2, which divide 4 heads, 2 key-value heads"), "{refused}");
}
