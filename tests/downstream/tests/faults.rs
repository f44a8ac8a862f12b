//! A coordinator of one's own, and three faults: the whole of it.

use legwork::scenarios::mocks::{MockCoordinator, Move};
use legwork::scenarios::{Fault, Harm, Link, Player, Recast, Scenario, play_with};

#[test]
fn my_coordinator_survives_a_killed_worker_a_lost_report_and_a_power_cut() {
    let coordinator = MockCoordinator::new(|question, delegations, reports| match delegations {
        0 => Move::brief(&question.text),
        _ => Move::answer_of(reports),
    });
    let scenario = Scenario::new("three faults")
        .questions(5)
        .fault(Fault::new(Harm::Kill(Player::Worker)).nth(3))
        .fault(Fault::new(Harm::Lose(Link::Report)))
        .fault(Fault::new(Harm::PowerCut).nth(20));
    let cast = Recast::new(move |cast| cast.coordinator = coordinator.role());
    let folder = tempfile::tempdir().unwrap();
    let played = play_with(&scenario, folder.path(), &cast).unwrap();
    assert!(played.is_sound(), "{:#?}", played.findings);
    assert_eq!(played.correct(), 5, "every question was answered all the same");
    assert_eq!(played.marks.len(), 3, "and every fault struck: {:?}", played.marks);
}
