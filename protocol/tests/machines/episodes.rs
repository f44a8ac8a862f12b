//! The episode's machine: every way to end, and reports in the order of the briefs.

use crate::coordinators::{question, report};
use legwork_protocol::budget::Amount;
use legwork_protocol::coordinator::{AnswerEnd, FinalAnswer};
use legwork_protocol::episode::{Episode, EpisodeEffect, EpisodeEvent};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::outcome::{GradedBy, Outcome, Verdict};
use legwork_protocol::record::EpisodeRecord;
use legwork_protocol::worker::{Brief, ReportStatus};
use std::sync::Arc;

fn episode() -> Episode {
    let key = EpisodeKey { round: 0, question: "q1".into() };
    let mut episode = Episode::new(key, Arc::new(question()));
    assert_eq!(episode.apply(&EpisodeEvent::Admitted), Some(EpisodeEffect::Ask));
    episode
}

fn ended(end: AnswerEnd) -> EpisodeEvent {
    let answer = matches!(end, AnswerEnd::Answered).then(|| "Ulm".to_owned());
    EpisodeEvent::Answered(Box::new(FinalAnswer { answer, ..FinalAnswer::without_answer(end, Amount::default()) }))
}

fn verdict(correct: Option<bool>, how: GradedBy) -> EpisodeEvent {
    EpisodeEvent::Graded(Verdict { correct, extracted: None, confidence: None, how, judge_text: None, attempts: 1 })
}

fn record(effect: Option<EpisodeEffect>) -> EpisodeRecord {
    match effect {
        Some(EpisodeEffect::End(record)) => *record,
        other => panic!("expected the end, got {other:?}"),
    }
}

#[test]
fn every_way_to_end_has_its_outcome() {
    let failure = Failure::new(FailureKind::Unreachable, "down");
    let ends = [
        (ended(AnswerEnd::NoAnswer), Outcome::NoAnswer),
        (ended(AnswerEnd::Exhausted), Outcome::Exhausted),
        (ended(AnswerEnd::Malformed), Outcome::Malformed),
        (ended(AnswerEnd::Failed(failure.clone())), Outcome::Failed(FailureKind::Unreachable)),
        (ended(AnswerEnd::Cancelled), Outcome::Cancelled),
        (EpisodeEvent::ActorLost(failure), Outcome::Failed(FailureKind::Unreachable)),
        (EpisodeEvent::Cancelled, Outcome::Cancelled),
    ];
    for (event, outcome) in ends {
        assert_eq!(record(episode().apply(&event)).outcome, outcome);
    }
    let graded = [
        (verdict(Some(true), GradedBy::Judge), Outcome::Correct),
        (verdict(Some(false), GradedBy::ExactMatch), Outcome::Wrong),
        (verdict(None, GradedBy::Nobody), Outcome::Ungraded),
        (verdict(Some(false), GradedBy::Blank), Outcome::NoAnswer),
    ];
    for (event, outcome) in graded {
        let mut episode = episode();
        assert!(matches!(episode.apply(&ended(AnswerEnd::Answered)), Some(EpisodeEffect::Grade(_))));
        assert_eq!(record(episode.apply(&event)).outcome, outcome);
        assert_eq!(episode.apply(&event), None, "nothing follows the end");
    }
}

#[test]
fn the_coordinator_is_told_when_all_have_reported_in_the_order_of_its_briefs() {
    let mut episode = episode();
    let brief = |text: &str| Brief { text: text.into(), lease: Amount::default() };
    let started = episode.apply(&EpisodeEvent::Delegated(vec![brief("a"), brief("b")]));
    assert!(matches!(started, Some(EpisodeEffect::Start(start)) if start.len() == 2));
    let reported = |worker, answer: &str| EpisodeEvent::Reported {
        worker,
        report: Box::new(report(Some(answer), ReportStatus::Finished, 7)),
    };
    assert_eq!(episode.apply(&reported(1, "second")), None);
    assert_eq!(episode.apply(&reported(1, "again")), None, "a second report of one worker changes nothing");
    assert_eq!(episode.apply(&reported(9, "stranger")), None);
    match episode.apply(&reported(0, "first")) {
        Some(EpisodeEffect::Tell(reports)) => {
            let answers: Vec<_> = reports.iter().map(|report| report.answer.clone().unwrap()).collect();
            assert_eq!(answers, ["first", "second"]);
        }
        other => panic!("{other:?}"),
    }
    let record = record(episode.apply(&ended(AnswerEnd::NoAnswer)));
    assert_eq!((record.workers, record.workers_spent.tokens, record.searches), (2, 14, 2));
    assert_eq!(record.retrieved.len(), 1, "a document counts once however many saw it");
}

#[test]
fn an_answer_told_twice_is_taken_once() {
    let mut episode = episode();
    episode.apply(&EpisodeEvent::Admitted);
    assert!(matches!(episode.apply(&ended(AnswerEnd::Answered)), Some(EpisodeEffect::Grade(_))));
    assert!(episode.is_answered());
    assert_eq!(episode.apply(&ended(AnswerEnd::Answered)), None);
    assert_eq!(episode.apply(&ended(AnswerEnd::NoAnswer)), None, "the first answer stands");
}

#[test]
fn counts_too_large_to_add_stay_at_the_largest() {
    let mut episode = episode();
    let brief = |text: &str| Brief { text: text.into(), lease: Amount::default() };
    episode.apply(&EpisodeEvent::Delegated(vec![brief("a"), brief("b")]));
    for worker in 0..2 {
        let mut report = report(None, ReportStatus::Exhausted, u64::MAX);
        (report.searches, report.opens, report.malformed_turns) = (u32::MAX, u32::MAX, u32::MAX);
        (report.gate.asked, report.gate.tokens_after_stop) = (u32::MAX, u64::MAX);
        episode.apply(&EpisodeEvent::Reported { worker, report: Box::new(report) });
    }
    let record = record(episode.apply(&EpisodeEvent::Cancelled));
    assert_eq!((record.searches, record.opens, record.malformed_turns), (u32::MAX, u32::MAX, u32::MAX));
    assert_eq!((record.gate.asked, record.workers_spent.tokens), (u32::MAX, u64::MAX));
}
