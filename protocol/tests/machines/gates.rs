//! The gate beside the worker's machine: when it is asked, when it is obeyed, and what the report and the record keep
//! of it. All figures here are worked out by hand.

use crate::coordinators::{question, report};
use crate::{call, observed, profile, said};
use legwork_protocol::budget::Amount;
use legwork_protocol::coordinator::{AnswerEnd, FinalAnswer};
use legwork_protocol::environment::Observed;
use legwork_protocol::episode::{Episode, EpisodeEffect, EpisodeEvent};
use legwork_protocol::gate::{GateDecision, GateMoment, GateNotes, GateSaid, GateTally, GateWorth, Hindsight};
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::outcome::{GradedBy, Outcome, Verdict};
use legwork_protocol::profile::{GateMode, Profile};
use legwork_protocol::worker::{Brief, ReportStatus, Worker, WorkerEffect, WorkerEvent, WorkerReport};
use std::sync::Arc;

fn says(decision: GateDecision, answer: Option<&str>) -> GateSaid {
    GateSaid { decision, answer: answer.map(str::to_owned), tokens: 9, ..GateSaid::unreadable() }
}

fn briefed(mode: GateMode, change: impl FnOnce(&mut Profile)) -> Worker {
    let profile = profile(|profile| {
        profile.gate.mode = mode;
        change(profile);
    });
    let mut worker = Worker::new(Arc::clone(&profile));
    let brief = Brief { text: "which town?".into(), lease: Worker::full_lease(&profile) };
    worker.apply(&WorkerEvent::Briefed { brief, prompt_tokens: 300, wrap_up_tokens: 50 });
    worker
}

/// A turn of 10 tokens and what it brought, 20 tokens: the effect after it.
fn turn(worker: &mut Worker, observed: Observed) -> Option<WorkerEffect> {
    let text = call("search", &[("query", "a town")]);
    worker.apply(&WorkerEvent::Generated { completion: said(&text), tokens: 10 });
    worker.apply(&WorkerEvent::Observed { observed, tokens: 20, served_ms: 1 })
}

/// A finish of 5 tokens.
fn finish(worker: &mut Worker, answer: &str) -> WorkerReport {
    let text = call("finish", &[("answer", answer)]);
    match worker.apply(&WorkerEvent::Generated { completion: said(&text), tokens: 5 }) {
        Some(WorkerEffect::Report(report)) => *report,
        other => panic!("expected a report, got {other:?}"),
    }
}

fn opens(docid: &str) -> Observed {
    Observed { opened: vec![docid.into()], ..observed("a page") }
}

fn last_message(worker: &Worker) -> String {
    worker.conversation().messages().last().unwrap().content.clone()
}

#[test]
fn a_gate_that_is_off_is_never_asked_and_leaves_no_trace() {
    let mut worker = briefed(GateMode::Off, |_| {});
    assert!(matches!(turn(&mut worker, opens("d1")), Some(WorkerEffect::Generate(_))));
    let report = finish(&mut worker, "Ulm");
    assert_eq!(report.gate, GateNotes::default());
    let kept = serde_json::to_value(&report.gate).unwrap();
    let before = serde_json::json!({"asked": 0, "stops": [], "tokens_after_stop": 0});
    assert_eq!(kept, before, "ledgers of gates that are off read and replay as they were written");
}

#[test]
fn a_gate_in_shadow_is_asked_and_never_obeyed() {
    let mut worker = briefed(GateMode::Shadow, |_| {});
    let stop = says(GateDecision::Stop, Some("Ulm"));
    for docid in ["d0", "d1"] {
        assert_eq!(turn(&mut worker, opens(docid)), Some(WorkerEffect::AskGate));
        let next = worker.apply(&WorkerEvent::GateSaid(stop.clone()));
        assert!(matches!(next, Some(WorkerEffect::Generate(_))));
        assert_eq!(last_message(&worker), "a page", "the worker is told nothing");
    }
    let gate = finish(&mut worker, "Ulm").gate;
    let moment = |turn, opened, spent_tokens| GateMoment {
        turn,
        decision: GateDecision::Stop,
        opened,
        spent_tokens,
        gate_tokens: 9,
    };
    assert_eq!(gate.moments, [moment(1, 1, 30), moment(2, 2, 60)]);
    assert_eq!((gate.asked, gate.stops.len(), gate.tokens_after_stop), (2, 2, 35));
    assert_eq!(gate.unspent_tokens, 0, "nobody obeyed");
}

#[test]
fn a_stop_that_is_obeyed_brings_the_wrap_up_and_leaves_the_rest_unspent() {
    // Also where no last turn is kept back for the budget's end: the worker still gets to answer.
    for wrap_up in [256, 0] {
        let mut worker = briefed(GateMode::On, |profile| profile.worker.wrap_up_tokens = wrap_up);
        let lent = worker.meter().lent().tokens;
        assert_eq!(turn(&mut worker, opens("d1")), Some(WorkerEffect::AskGate));
        let next = worker.apply(&WorkerEvent::GateSaid(says(GateDecision::Stop, None)));
        assert!(matches!(next, Some(WorkerEffect::Generate(_))));
        assert!(last_message(&worker).contains("this is your last turn"));
        let report = finish(&mut worker, "Ulm");
        // 30 before the STOP; 50 for the message that asks to wrap up and 5 for the answer.
        assert_eq!((report.status, report.spent.tokens), (ReportStatus::Finished, 85));
        assert_eq!((report.gate.tokens_after_stop, report.gate.unspent_tokens), (55, lent - 85));
    }
}

#[test]
fn what_cannot_be_read_or_does_not_come_is_continue_and_is_counted() {
    let mut worker = briefed(GateMode::On, |_| {});
    for said in [GateSaid::read("STOP, I think", 9), GateSaid::unreadable(), says(GateDecision::Continue, None)] {
        assert_eq!(turn(&mut worker, opens("d1")), Some(WorkerEffect::AskGate));
        let next = worker.apply(&WorkerEvent::GateSaid(said));
        assert!(matches!(next, Some(WorkerEffect::Generate(_))));
        assert_eq!(last_message(&worker), "a page");
    }
    let report = finish(&mut worker, "Ulm");
    let after = question();
    let mut tally = GateTally::default();
    let hindsight = Hindsight::new(&after, Outcome::Correct, None);
    tally.add(&report.gate, report.answer.as_deref(), &report.opened, report.spent.tokens, &hindsight);
    assert_eq!((tally.asked, tally.stops, tally.worth.unreadable, tally.worth.tokens), (3, 0, 2, 18));
}

#[test]
fn a_turn_without_a_call_is_no_moment_for_a_gate() {
    let mut worker = briefed(GateMode::On, |_| {});
    let malformed = Observed { malformed: true, ..observed("no call") };
    assert!(matches!(turn(&mut worker, malformed), Some(WorkerEffect::Generate(_))));
    assert_eq!(finish(&mut worker, "Ulm").gate.asked, 0);
}

/// What a shadow gate said over a worker that opens d0 (on the way), d7 (of no use), d1 (gold), searches once more and
/// finishes: spent 30, 60, 90, 120 tokens at the four moments and 125 at the end.
fn tally_of(said: [GateSaid; 4], answer: &str, outcome: Outcome) -> GateTally {
    let mut worker = briefed(GateMode::Shadow, |_| {});
    let pages = [opens("d0"), opens("d7"), opens("d1"), observed("a list")];
    for (page, said) in pages.into_iter().zip(said) {
        turn(&mut worker, page);
        worker.apply(&WorkerEvent::GateSaid(said));
    }
    let report = finish(&mut worker, answer);
    let question = question();
    let mut tally = GateTally::default();
    let after = Hindsight::new(&question, outcome, Some(answer));
    tally.add(&report.gate, report.answer.as_deref(), &report.opened, report.spent.tokens, &after);
    tally
}

#[test]
fn stops_are_judged_at_their_moments() {
    let (stop, go_on) = (|answer| says(GateDecision::Stop, answer), says(GateDecision::Continue, None));
    // Right: too early once (nothing that supports the answer had been opened), in time once.
    let said = [go_on.clone(), stop(Some("Ulm")), stop(None), go_on.clone()];
    let tally = tally_of(said, "Ulm", Outcome::Correct);
    let worth = GateWorth {
        unreadable: 0,
        tokens: 36,
        judged_stops: 2,
        premature_stops: 1,
        due_workers: 1,
        stopped_when_due: 1,
        tokens_after_due: 35,
        unspent_tokens: 0,
    };
    assert_eq!(tally, GateTally { asked: 4, stops: 2, right_stops: 2, tokens_after_stop: 65, worth });
    // Never said, though due.
    let tally = tally_of([(); 4].map(|()| go_on.clone()), "Ulm", Outcome::Correct);
    assert_eq!((tally.worth.due_workers, tally.worth.stopped_when_due), (1, 0));
    // In time, but with a wrong candidate.
    let tally = tally_of([go_on.clone(), go_on.clone(), stop(Some("Bonn")), go_on.clone()], "Ulm", Outcome::Correct);
    assert_eq!((tally.right_stops, tally.worth.judged_stops, tally.worth.premature_stops), (0, 1, 1));
    // A worker that was wrong: STOP was never due.
    let tally = tally_of([go_on.clone(), go_on.clone(), go_on.clone(), stop(None)], "Bonn", Outcome::Wrong);
    assert_eq!((tally.right_stops, tally.worth.premature_stops, tally.worth.due_workers), (0, 1, 0));
    assert_eq!(tally.worth.tokens_after_due, 0);
    // Nobody judged: what had support is in no denominator, what had none was too early in any case.
    let tally = tally_of([stop(None), go_on.clone(), stop(None), go_on], "Bonn", Outcome::Ungraded);
    assert_eq!((tally.stops, tally.worth.judged_stops, tally.worth.premature_stops), (2, 1, 1));
}

#[test]
fn an_episode_adds_its_workers_up() {
    let mut episode = Episode::new(EpisodeKey { round: 0, question: "q1".into() }, Arc::new(question()));
    episode.apply(&EpisodeEvent::Admitted);
    let brief = |text: &str| Brief { text: text.into(), lease: Amount::default() };
    episode.apply(&EpisodeEvent::Delegated(vec![brief("a"), brief("b")]));
    for (worker, (answer, opened)) in [("Ulm", "d1"), ("the town of Ulm", "d7")].into_iter().enumerate() {
        let mut report = report(Some(answer), ReportStatus::Finished, 100);
        report.opened = vec![opened.into()];
        report.gate.asked = 1;
        report.gate.said(&says(GateDecision::Stop, None), 1, 1, 40);
        report.gate.tokens_after_stop = 60;
        episode.apply(&EpisodeEvent::Reported { worker: worker as u32, report: Box::new(report) });
    }
    let answer = Some("The Town of Ulm".to_owned());
    let answered = FinalAnswer { answer, ..FinalAnswer::without_answer(AnswerEnd::Answered, Amount::default()) };
    episode.apply(&EpisodeEvent::Answered(Box::new(answered)));
    let verdict = Verdict {
        correct: Some(true),
        extracted: None,
        confidence: None,
        how: GradedBy::Judge,
        judge_text: None,
        attempts: 1,
    };
    let Some(EpisodeEffect::End(record)) = episode.apply(&EpisodeEvent::Graded(verdict)) else { panic!("the end") };
    // Both were right, the second by the judge's verdict over the same words; it had opened nothing of use.
    assert_eq!((record.gate.asked, record.gate.stops, record.gate.right_stops), (2, 2, 2));
    let worth = record.gate.worth;
    assert_eq!((worth.judged_stops, worth.premature_stops, worth.tokens), (2, 1, 18));
    assert_eq!((worth.due_workers, worth.stopped_when_due, worth.tokens_after_due), (1, 1, 60));
}

#[test]
fn a_tally_and_notes_of_before_are_read() {
    let notes: GateNotes = serde_json::from_str(r#"{"asked":3,"stops":[null,"Ulm"],"tokens_after_stop":7}"#).unwrap();
    assert_eq!((notes.asked, notes.stops.len(), notes.moments.len(), notes.unspent_tokens), (3, 2, 0, 0));
    let text = r#"{"asked":3,"stops":2,"right_stops":1,"tokens_after_stop":7}"#;
    let tally: GateTally = serde_json::from_str(text).unwrap();
    assert_eq!(tally.worth, GateWorth::default());
    assert_eq!(serde_json::to_string(&tally).unwrap(), text);
}
