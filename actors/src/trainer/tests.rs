use super::*;
use crate::address::reply;
use legwork_training::course::Progress;
use play::{Fault, Play, RANKS, Strike};
use std::collections::BTreeMap;

mod decoders;
mod play;

const SLOTS: u64 = 12;

/// Steps by number: loss, gradient norm and rate, to the bit.
fn curve(records: &[Record]) -> BTreeMap<u64, (u64, u64, u64)> {
    let bits = |figure: Option<f64>| figure.map_or(0, f64::to_bits);
    let mut curve = BTreeMap::new();
    for record in records {
        if let Record::Step(step) = record {
            let figures = (bits(step.loss), bits(step.grad_norm), step.rate.to_bits());
            assert!(curve.insert(step.step, figures).is_none(), "step {} is recorded twice", step.step);
        }
    }
    curve
}

fn evaluations(records: &[Record]) -> Vec<(u64, u64)> {
    let told = |record: &Record| match record {
        Record::Evaluation { at, loss, .. } => Some((at.slots, loss.unwrap().to_bits())),
        _ => None,
    };
    records.iter().filter_map(told).collect()
}

fn whole(slots: u64) -> CourseEnd {
    CourseEnd::Complete(Progress { slots, updates: slots })
}

/// Numbers from a seed (SplitMix64).
fn drawn(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

#[tokio::test]
async fn an_undisturbed_run_records_each_step_evaluates_and_keeps_checkpoints() {
    let play = Play::new(SLOTS, 4, 3);
    assert_eq!(play.run(&[]).await, whole(SLOTS));
    let records = play.records();
    let curve = curve(&records);
    assert_eq!(curve.keys().copied().collect::<Vec<_>>(), (1..=SLOTS).collect::<Vec<_>>());
    assert_eq!(curve[&1].2, 0f64.to_bits(), "the rate counts the samples before the step");
    assert!(curve[&12].0 != curve[&1].0, "it learns something");
    let evaluations = evaluations(&records);
    assert_eq!(evaluations.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 3, 6, 9, 12]);
    assert_eq!(play.checkpoints(), [4, 8, 12]);
    let Record::Step(step) = records.iter().find(|record| matches!(record, Record::Step(_))).unwrap() else {
        panic!("it is a step")
    };
    assert_eq!((step.tokens, step.supervised, step.padding, step.flops), (12, 9, 12, Some(3_900.0)));
}

#[tokio::test]
async fn ranks_that_die_anywhere_change_neither_curve_nor_weights() {
    let undisturbed = Play::new(SLOTS, 4, 3);
    undisturbed.run(&[]).await;
    let (expected, weights) = (undisturbed.records(), undisturbed.weights());
    let kinds = [Fault::PanicBefore, Fault::PanicAfter, Fault::Error];
    for seed in 0..12 {
        let mut draw = drawn(seed);
        let strikes: Vec<Strike> = (0..=draw(3))
            .map(|_| Strike {
                update: 1 + draw(SLOTS),
                rank: draw(RANKS as u64) as usize,
                fault: kinds[draw(3) as usize],
            })
            .collect();
        let play = Play::new(SLOTS, 4, 3);
        assert_eq!(play.run(&strikes).await, whole(SLOTS), "{strikes:?}");
        let records = play.records();
        assert_eq!(curve(&records), curve(&expected), "{strikes:?}");
        assert_eq!(evaluations(&records), evaluations(&expected), "{strikes:?}");
        assert_eq!(play.weights(), weights, "{strikes:?}");
        assert!(play.struck() > 0, "no fault fired: {strikes:?}");
        let recovered = records.iter().filter(|record| matches!(record, Record::Recovered { .. })).count();
        assert!((1..=play.struck()).contains(&recovered), "{recovered} recoveries of {} deaths", play.struck());
    }
}

#[tokio::test]
async fn a_rank_that_is_killed_from_outside_is_made_anew_and_the_curve_is_the_same() {
    let undisturbed = Play::new(SLOTS, 0, 0);
    undisturbed.run(&[]).await;
    let play = Play::new(SLOTS, 0, 0);
    let mut running = play.start(&[]).await;
    running.until_step(5).await;
    running.trainer.cast(TrainerMsg::KillRank(1)).unwrap();
    running.trainer.cast(TrainerMsg::KillRank(RANKS)).unwrap();
    assert_eq!(running.end().await, whole(SLOTS));
    assert_eq!(curve(&play.records()), curve(&undisturbed.records()));
    assert_eq!(play.weights(), undisturbed.weights());
    let recovered = play.records().into_iter().find_map(|record| match record {
        Record::Recovered { at, why, .. } => Some((at.slots, why)),
        _ => None,
    });
    let (at, why) = recovered.unwrap();
    assert_eq!(at, 0, "there was no checkpoint");
    assert!(why.contains("rank 1: it panicked: it was told to die"), "{why}");
    assert!(why.contains("rank 0: ") && why.contains("rank 1 left"), "its peer was woken: {why}");
}

#[tokio::test]
async fn deaths_without_end_use_the_budget_up_and_the_checkpoint_stays() {
    let play = Play::new(SLOTS, 4, 0);
    let strikes = [Strike { update: 6, rank: 0, fault: Fault::Always }];
    let CourseEnd::Failed { saved, why } = play.run(&strikes).await else { panic!("it cannot be complete") };
    assert_eq!(saved, Progress { slots: 4, updates: 4 });
    assert!(why.contains("rank 0: it panicked: struck at update 6"), "{why}");
    assert_eq!(play.struck(), play::RESTARTS.restarts_max as usize + 1);
    assert_eq!(play.checkpoints(), [4]);
    assert_eq!(play.run(&[]).await, whole(SLOTS), "whoever mends the cause goes on");
}

#[tokio::test]
async fn a_stopped_run_is_gone_on_with_to_the_same_weights() {
    let undisturbed = Play::new(SLOTS, 5, 4);
    undisturbed.run(&[]).await;
    let play = Play::new(SLOTS, 5, 4);
    for stop in [2, 3, 7, 11] {
        let mut running = play.start(&[]).await;
        running.until_step(stop).await;
        running.trainer.cast(TrainerMsg::Stop).unwrap();
        let end = running.end().await;
        let (CourseEnd::Stopped(at) | CourseEnd::Complete(at)) = end else { panic!("{end:?}") };
        assert!(at.slots >= stop);
        assert_eq!(play.checkpoints().last(), Some(&at.slots), "what was done is kept");
    }
    assert_eq!(play.run(&[]).await, whole(SLOTS));
    assert_eq!(curve(&play.records()), curve(&undisturbed.records()));
    assert_eq!(play.weights(), undisturbed.weights());
}

#[tokio::test]
async fn a_process_that_was_killed_leaves_no_step_twice() {
    let undisturbed = Play::new(SLOTS, 4, 3);
    undisturbed.run(&[]).await;
    for killed_at in 1..SLOTS {
        let play = Play::new(SLOTS, 4, 3);
        let mut running = play.start(&[]).await;
        running.until_step(killed_at).await;
        running.kill().await;
        assert_eq!(play.run(&[]).await, whole(SLOTS));
        assert_eq!(curve(&play.records()), curve(&undisturbed.records()));
        assert_eq!(evaluations(&play.records()), evaluations(&undisturbed.records()));
        assert_eq!(play.weights(), undisturbed.weights());
    }
}

#[tokio::test]
async fn what_trying_again_does_not_mend_ends_the_run_with_its_reason() {
    let play = Play::new(SLOTS, 4, 0);
    let none = Strike { update: 0, rank: 1, fault: Fault::NotMade };
    let CourseEnd::Failed { why, .. } = play.run(&[none]).await else { panic!("nothing was made") };
    assert!(why.contains("rank 1: model: expected a model, got none"), "{why}");
    assert_eq!(play.struck(), 1, "it is not tried again");
    let play = Play::new(SLOTS, 4, 0);
    let full = Strike { update: 8, rank: 1, fault: Fault::DiskFull };
    let CourseEnd::Failed { saved, why } = play.run(&[full]).await else { panic!("there was no room") };
    assert!(why.contains("rank 1: cannot write") && why.contains("has room"), "{why}");
    assert_eq!((saved.slots, play.checkpoints()), (4, vec![4]));
    assert_eq!(play.run(&[]).await, whole(SLOTS));
    let play = Play::new(SLOTS, 0, 0);
    let other = Strike { update: 3, rank: 0, fault: Fault::Disagree };
    assert_eq!(play.run(&[other]).await, whole(SLOTS), "ranks that disagree are made anew");
    assert!(
        play.records().iter().any(|record| matches!(record, Record::Recovered { why, .. } if why.contains("disagree")))
    );
}

#[tokio::test]
async fn an_update_that_is_left_out_is_recorded_and_does_not_move_the_rate() {
    let play = Play::new(6, 0, 0);
    let strikes = [Strike { update: 3, rank: 0, fault: Fault::NotFinite }];
    assert_eq!(play.run(&strikes).await, CourseEnd::Complete(Progress { slots: 6, updates: 5 }));
    let curve = curve(&play.records());
    assert_eq!((curve[&3].1, curve[&3].2), (0, curve[&4].2), "no norm, and the rate of the update that was not made");
}

#[tokio::test]
async fn a_live_trainer_forms_slots_of_what_comes_and_survives_deaths() {
    let (listed, live) = (Play::new(5, 2, 0), Play::live(2));
    listed.run(&[]).await;
    let strikes =
        [Strike { update: 2, rank: 1, fault: Fault::PanicAfter }, Strike { update: 4, rank: 0, fault: Fault::Error }];
    let running = live.start(&strikes).await;
    for sample in listed.in_order() {
        let (taken, waits) = reply();
        running.trainer.cast(TrainerMsg::Trajectory(Box::new(sample), taken)).unwrap();
        assert_eq!(waits.await.unwrap(), Ok(()), "each is taken in the end");
    }
    let (taken, waits) = reply();
    running.trainer.cast(TrainerMsg::Trajectory(Box::new(listed.in_order()[0].clone()), taken)).unwrap();
    running.trainer.cast(TrainerMsg::NoMoreTrajectories).unwrap();
    waits.await.unwrap().unwrap();
    assert_eq!(running.end().await, whole(5), "one sample is no slot");
    assert_eq!((curve(&live.records()), live.struck()), (curve(&listed.records()), 2));
    assert_eq!(live.weights(), listed.weights());
}

#[tokio::test]
async fn a_live_trainer_that_waits_ends_when_it_is_told_and_needs_checkpoints() {
    let live = Play::live(2);
    let running = live.start(&[]).await;
    running.trainer.cast(TrainerMsg::Stop).unwrap();
    assert_eq!(running.end().await, CourseEnd::Stopped(Progress::default()));
    let endless = Play::live(0);
    let failure = endless.try_start(&[]).await.err().unwrap();
    assert!(failure.detail.contains("kept until a checkpoint is written"), "{failure}");
}

#[tokio::test]
async fn a_trainer_with_a_list_takes_no_trajectories() {
    let play = Play::new(1, 0, 0);
    let running = play.start_unbegun(&[]).await.unwrap();
    let (taken, waits) = reply();
    running.trainer.cast(TrainerMsg::Trajectory(Box::new(play.in_order()[0].clone()), taken)).unwrap();
    assert_eq!(waits.await.unwrap().unwrap_err().kind, FailureKind::Misconfigured);
    running.trainer.cast(TrainerMsg::Stop).unwrap();
    assert_eq!(running.end().await, CourseEnd::Stopped(Progress::default()));
}
