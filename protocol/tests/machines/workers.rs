//! The worker's machine: turns, budgets, the wrap-up and failures. The gate has a file of its own.

use crate::{call, observed, profile, said};
use legwork_protocol::budget::Amount;
use legwork_protocol::environment::Observed;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::machine::effect_digest;
use legwork_protocol::profile::Profile;
use legwork_protocol::worker::{Brief, ReportStatus, Worker, WorkerEffect, WorkerEvent, WorkerReport};
use proptest::prelude::*;
use std::sync::Arc;

fn briefed(profile: &Arc<Profile>, lease: Amount) -> (Worker, Option<WorkerEffect>) {
    let mut worker = Worker::new(Arc::clone(profile));
    let brief = Brief { text: "who founded it?".into(), lease };
    let effect = worker.apply(&WorkerEvent::Briefed { brief, prompt_tokens: 300, wrap_up_tokens: 50 });
    (worker, effect)
}

fn full(profile: &Profile) -> Amount {
    Worker::full_lease(profile)
}

fn generated(worker: &mut Worker, text: &str, tokens: u64) -> Option<WorkerEffect> {
    worker.apply(&WorkerEvent::Generated { completion: said(text), tokens })
}

fn observe(worker: &mut Worker, tokens: u64) -> Option<WorkerEffect> {
    worker.apply(&WorkerEvent::Observed { observed: observed("found"), tokens, served_ms: 1 })
}

fn max_tokens(effect: Option<WorkerEffect>) -> u32 {
    match effect {
        Some(WorkerEffect::Generate(call)) => call.max_tokens,
        other => panic!("expected a turn, got {other:?}"),
    }
}

fn report(effect: Option<WorkerEffect>) -> WorkerReport {
    match effect {
        Some(WorkerEffect::Report(report)) => *report,
        other => panic!("expected a report, got {other:?}"),
    }
}

#[test]
fn a_search_is_looked_up_and_a_finish_reports() {
    let profile = profile(|_| {});
    let (mut worker, first) = briefed(&profile, full(&profile));
    assert_eq!(max_tokens(first), 1024);
    let looked_up = generated(&mut worker, &call("search", &[("query", "founder")]), 40);
    assert!(matches!(looked_up, Some(WorkerEffect::Observe(lookups)) if lookups.len() == 1));
    assert!(matches!(observe(&mut worker, 100), Some(WorkerEffect::Generate(_))));
    let finish = call("finish", &[("answer", " Ada "), ("confidence", "80")]);
    let report = report(generated(&mut worker, &finish, 30));
    assert_eq!((report.status, report.answer.as_deref()), (ReportStatus::Finished, Some("Ada")));
    assert_eq!((report.spent.tokens, report.spent.turns, report.confidence), (170, 2, Some(80.0)));
    assert_eq!(generated(&mut worker, "more", 5), None, "nothing follows a report");
}

#[test]
fn a_turn_gets_what_is_left_and_the_wrap_up_is_kept_back() {
    let profile = profile(|p| (p.worker.wrap_up_tokens, p.worker.turn_tokens_min) = (256, 32));
    let (mut worker, _) = briefed(&profile, Amount { tokens: 2_000, ..full(&profile) });
    generated(&mut worker, &call("search", &[("query", "a")]), 1_000);
    // 1,000 spent and 600 observed leave 400, of which 306 are kept back: 94 for the turn.
    assert_eq!(max_tokens(observe(&mut worker, 600)), 94);
    generated(&mut worker, &call("search", &[("query", "b")]), 90);
    // 310 left: no plain turn fits beside the wrap-up, so the wrap-up comes, with all but its own message.
    assert_eq!(max_tokens(observe(&mut worker, 0)), 260);
    assert!(worker.conversation().messages().last().unwrap().content.contains("last turn"));
    let report = report(generated(&mut worker, &call("search", &[("query", "c")]), 20));
    assert_eq!(report.status, ReportStatus::Exhausted, "a search in the last turn is no answer");
}

#[test]
fn the_last_turn_may_still_answer() {
    let profile = profile(|p| (p.worker.wrap_up_tokens, p.worker.turns_max) = (256, 2));
    let (mut worker, _) = briefed(&profile, full(&profile));
    generated(&mut worker, &call("search", &[("query", "a")]), 10);
    assert!(matches!(observe(&mut worker, 10), Some(WorkerEffect::Generate(_))));
    let report = report(generated(&mut worker, &call("finish", &[("answer", "Bo")]), 10));
    assert_eq!((report.status, report.answer.as_deref()), (ReportStatus::Finished, Some("Bo")));
}

#[test]
fn without_a_wrap_up_a_worker_that_runs_out_is_exhausted() {
    let profile = profile(|p| (p.worker.wrap_up_tokens, p.worker.turns_max) = (0, 1));
    let (mut worker, _) = briefed(&profile, full(&profile));
    generated(&mut worker, &call("search", &[("query", "a")]), 10);
    assert_eq!(report(observe(&mut worker, 10)).status, ReportStatus::Exhausted);
}

#[test]
fn only_unreadable_turns_are_malformed_and_each_costs_one() {
    let profile = profile(|p| (p.worker.wrap_up_tokens, p.worker.turns_max) = (0, 3));
    let (mut worker, mut effect) = briefed(&profile, full(&profile));
    for _ in 0..3 {
        assert!(matches!(effect, Some(WorkerEffect::Generate(_))));
        let wanted = generated(&mut worker, "no call here", 5);
        assert_eq!(wanted, Some(WorkerEffect::Observe(Vec::new())));
        let observed = worker.environment().observe(worker.reading(), &[]);
        assert!(observed.malformed && !observed.text.is_empty());
        effect = worker.apply(&WorkerEvent::Observed { observed, tokens: 9, served_ms: 0 });
    }
    let report = report(effect);
    assert_eq!((report.status, report.malformed_turns), (ReportStatus::Malformed, 3));
}

#[test]
fn a_failed_call_is_tried_again_so_often_and_no_more() {
    let profile = profile(|p| p.worker.turn_attempts_max = 3);
    let (mut worker, _) = briefed(&profile, full(&profile));
    let failure = Failure::new(FailureKind::EmptyCompletion, "nothing came");
    let mut fail = || worker.apply(&WorkerEvent::GenerationFailed { failure: failure.clone(), served_ms: 5 });
    assert!(matches!(fail(), Some(WorkerEffect::Generate(call)) if (call.turn, call.attempt) == (0, 1)));
    assert!(matches!(fail(), Some(WorkerEffect::Generate(call)) if (call.turn, call.attempt) == (0, 2)));
    assert_eq!(report(fail()).status, ReportStatus::Failed(failure.clone()));
}

#[test]
fn thinking_stays_or_goes_by_profile() {
    for (keep, expected) in [(true, true), (false, false)] {
        let profile = profile(|p| p.worker.keep_thinking = keep);
        let (mut worker, _) = briefed(&profile, full(&profile));
        generated(&mut worker, &call("search", &[("query", "a")]), 10);
        let said = &worker.conversation().messages()[2].content;
        assert_eq!(said.contains("<think>"), expected);
        assert!(said.contains("<function=search>"));
    }
}

#[test]
fn cancelling_reports_what_was_spent() {
    let profile = profile(|_| {});
    let (mut worker, _) = briefed(&profile, full(&profile));
    generated(&mut worker, &call("search", &[("query", "a")]), 10);
    let report = report(worker.apply(&WorkerEvent::Cancelled));
    assert_eq!((report.status, report.spent.tokens), (ReportStatus::Cancelled, 10));
}

proptest! {
    /// Whatever a model says and a retriever finds, a worker ends, never overspends, and the same events give the
    /// same effects.
    #[test]
    fn a_worker_ends_within_its_lease_and_repeats_itself(
        tokens in 0u64..6_000, turns in 0u32..12, wrap_up in prop_oneof![Just(0u32), 1u32..600],
        steps in proptest::collection::vec((0usize..6, 0u64..1_500, 0u64..900), 60),
    ) {
        let profile = profile(|p| p.worker.wrap_up_tokens = wrap_up);
        let lease = Amount { tokens, turns, ..full(&profile) };
        let (mut worker, mut effect) = briefed(&profile, lease);
        let (mut twin, _) = briefed(&profile, lease);
        let mut steps = steps.into_iter();
        let report = loop {
            let event = match effect.take().expect("a worker always wants something until it reports") {
                WorkerEffect::Report(report) => break report,
                WorkerEffect::Generate(call) => {
                    let (kind, size, _) = steps.next().expect("60 steps end any of these");
                    let text = match kind {
                        0 => call_text("search", "query"),
                        1 => call_text("open_page", "docid"),
                        2 => "nothing".to_owned(),
                        3 => "<function=search>\n<parameter=query>cut".to_owned(),
                        4 if size % 7 == 0 => call_text("finish", "answer"),
                        _ => call_text("unknown", "x"),
                    };
                    if kind == 5 && size % 5 == 0 {
                        WorkerEvent::GenerationFailed { failure: Failure::new(FailureKind::TimedOut, "t"), served_ms: size }
                    } else {
                        WorkerEvent::Generated { completion: said(&text), tokens: size.min(u64::from(call.max_tokens)) }
                    }
                }
                WorkerEffect::Observe(_) => {
                    let (_, _, tokens) = steps.next().expect("60 steps end any of these");
                    WorkerEvent::Observed { observed: observed("found"), tokens, served_ms: 1 }
                }
                WorkerEffect::AskGate => unreachable!("the gate is off"),
            };
            effect = worker.apply(&event);
            prop_assert_eq!(effect.as_ref().map(effect_digest), twin.apply(&event).as_ref().map(effect_digest));
            prop_assert!(lease.covers(&worker.meter().spent()));
        };
        prop_assert!(lease.covers(&report.spent));
        prop_assert!(report.spent.turns <= turns);
    }
}

fn call_text(name: &str, key: &str) -> String {
    call(name, &[(key, "v")])
}

#[test]
fn an_observation_with_counts_too_large_to_add_is_taken() {
    let profile = profile(|_| {});
    let (mut worker, _) = briefed(&profile, full(&profile));
    for _ in 0..2 {
        generated(&mut worker, &call("search", &[("query", "founder")]), 40);
        let largest = Observed {
            searches: u32::MAX,
            opens: u32::MAX,
            repeated: u32::MAX,
            degraded: u32::MAX,
            ..observed("found")
        };
        worker.apply(&WorkerEvent::Observed { observed: largest, tokens: 5, served_ms: 1 });
    }
    let report = report(worker.apply(&WorkerEvent::Cancelled));
    assert_eq!((report.searches, report.repeated_calls, report.degraded_searches), (u32::MAX, u32::MAX, u32::MAX));
}

#[test]
fn a_wrap_up_that_costs_more_than_can_be_counted_ends_the_worker_at_once() {
    let profile = profile(|_| {});
    let mut worker = Worker::new(Arc::clone(&profile));
    let brief = Brief { text: "who?".into(), lease: full(&profile) };
    let ended = worker.apply(&WorkerEvent::Briefed { brief, prompt_tokens: u64::MAX, wrap_up_tokens: u64::MAX });
    assert_eq!(report(ended).status, ReportStatus::Exhausted);
}
