//! How requests end: by tokens, by text, by time, by their owner, and by failures, of which the engine survives all.

use crate::desk::{Desk, ask, limits};
use crate::paper::{POISON, VOCABULARY, tokens};
use legwork_engine::{Reason, RequestId, Sampling};

#[test]
fn a_stop_token_ends_and_is_told_but_is_no_text() {
    let mut desk = Desk::new(16, limits());
    let long = desk.answer(ask(1, tokens(1, 20), 40));
    let stop = long[10];
    let first = long.iter().position(|id| *id == stop).unwrap();
    let mut request = ask(2, tokens(1, 20), 40);
    request.sampling.stop_ids = vec![stop];
    assert_eq!(desk.answer(request.clone()), &long[..=first]);
    assert_eq!(desk.reason_of(2), Reason::Stop(stop));
    request.id = RequestId(3);
    request.sampling.ignore_stop_ids = true;
    assert_eq!(desk.answer(request), long);
    desk.assert_right();
}

#[test]
fn stop_strings_end_and_text_is_what_stands_before_them() {
    let mut desk = Desk::new(64, limits());
    for id in 0..40 {
        let mut request = ask(id, tokens(id, 20), 60);
        request.sampling = Sampling { temperature: 1.0, seed: id, ..request.sampling };
        request.sampling.stop = vec!["éa".to_owned(), "abab".to_owned(), "bbb".to_owned()];
        desk.submit(request).unwrap();
    }
    desk.drain(1_000);
    desk.assert_right();
    let stopped = (0..40).filter(|id| matches!(desk.reason_of(*id), Reason::StopString(_))).count();
    assert!(stopped > 20, "{stopped} of 40");
    assert!((0..40).all(|id| !desk.got[&RequestId(id)].text.contains("éa")));
}

#[test]
fn half_a_character_at_the_end_is_told_as_unreadable_and_never_before() {
    let mut desk = Desk::new(16, limits());
    for (id, max_new) in [(1, 1), (2, 2), (3, 3)] {
        let mut request = ask(id, tokens(1, 20), max_new);
        // Token 2 is the first half of a character of two bytes, and nothing else may be drawn.
        request.sampling.logit_bias = vec![(2, 1_000.0)];
        desk.answer(request);
    }
    let text = |id| desk.got[&RequestId(id)].text.clone();
    assert_eq!((text(1), text(3)), ("\u{FFFD}".to_owned(), "\u{FFFD}\u{FFFD}\u{FFFD}".to_owned()));
    desk.assert_right();
}

#[test]
fn a_cancelled_request_frees_its_pages_at_once_and_ends_with_the_next_step() {
    let mut desk = Desk::new(16, limits());
    desk.submit(ask(1, tokens(1, 200), 50)).unwrap();
    desk.submit(ask(2, tokens(2, 20), 9)).unwrap();
    (0..4).for_each(|_| drop(desk.step()));
    assert!(desk.engine.gauges().pages_held >= 4);
    desk.engine.cancel(RequestId(1));
    desk.engine.cancel(RequestId(1));
    desk.engine.cancel(RequestId(77));
    assert_eq!(desk.engine.gauges().pages_held, 1);
    assert_eq!(desk.engine.gauges().pages_cached, 3, "what was computed may still serve another");
    let report = desk.step();
    assert_eq!((report.ended, desk.reason_of(1)), (1, Reason::Cancelled));
    desk.drain(100);
    desk.assert_right();
}

#[test]
fn a_request_ends_when_its_time_is_over_whether_it_waits_or_runs() {
    let mut desk = Desk::new(4, limits());
    for (id, prompt) in [(1, 100), (2, 100)] {
        let mut request = ask(id, tokens(id, prompt), 60);
        request.deadline_ms = Some(10);
        desk.submit(request).unwrap();
    }
    desk.submit(ask(3, tokens(3, 100), 60)).unwrap();
    (0..5).for_each(|_| drop(desk.step()));
    desk.now_ms = 10;
    desk.step();
    assert_eq!((desk.reason_of(1), desk.reason_of(2)), (Reason::Deadline, Reason::Deadline));
    assert!(!desk.tokens_of(1).is_empty() && desk.tokens_of(2).is_empty());
    desk.drain(100);
    assert_eq!(desk.reason_of(3), Reason::Length);
    desk.assert_right();
}

#[test]
fn a_failed_step_ends_its_batch_and_its_pages_serve_nobody_again() {
    let mut desk = Desk::new(32, limits());
    let prompt = tokens(1, 150);
    desk.answer(ask(1, prompt.clone(), 5));
    desk.submit(ask(2, prompt.clone(), 50)).unwrap();
    (0..5).for_each(|_| drop(desk.step()));
    desk.paper.0.borrow_mut().fails = true;
    let report = desk.step();
    assert!(report.failure.unwrap().contains("the paper tore"));
    assert!(matches!(desk.reason_of(2), Reason::Failed(why) if why.contains("the paper tore")));
    assert_eq!(desk.engine.gauges().pages_held, 0);
    desk.answer(ask(3, prompt, 20));
    assert_eq!(desk.usage_of(3).cached, 0, "the prefix was in the failed batch");
    desk.assert_right();
}

#[test]
fn of_a_failed_device_whatever_was_not_drawn_from_is_taken_out_as_it_came_and_in_its_order() {
    let mut limits = limits();
    (limits.running_max, limits.step_rows) = (3, 100);
    let mut desk = Desk::new(64, limits);
    let all: Vec<_> = (1..=5).map(|id| ask(id, tokens(id, 150), 9)).collect();
    all.iter().for_each(|request| desk.submit(request.clone()).unwrap());
    // The first prompt takes two steps, the second is read half in the second; the third runs without rows, two wait.
    (0..2).for_each(|_| drop(desk.step()));
    assert_eq!(desk.got[&RequestId(1)].tokens.len(), 1);
    desk.paper.0.borrow_mut().fails = true;
    desk.step();
    assert!(matches!(desk.reason_of(1), Reason::Failed(_)) && matches!(desk.reason_of(2), Reason::Failed(_)));
    assert_eq!(desk.engine.take_undrawn(), all[2..], "the others, and nothing is left of them");
    desk.check();
    assert_eq!((desk.engine.gauges().pages_held, desk.engine.gauges().running + desk.engine.gauges().waiting), (0, 0));
    for request in &all[2..] {
        desk.submit(request.clone()).unwrap();
    }
    desk.drain(100);
    desk.assert_right();
}

#[test]
fn whoever_shares_a_page_with_a_failed_batch_without_being_in_it_begins_again() {
    let mut limits = limits();
    (limits.running_max, limits.step_rows) = (4, 100);
    let mut desk = Desk::new(64, limits);
    let prefix = tokens(1, 64);
    desk.answer(ask(1, [prefix.clone(), vec![1]].concat(), 1));
    // Two long prompts over one cached page: rows are for the first only, the second holds the page and waits.
    desk.submit(ask(2, [prefix.clone(), tokens(2, 400)].concat(), 5)).unwrap();
    desk.submit(ask(3, [prefix, tokens(3, 400)].concat(), 5)).unwrap();
    desk.step();
    desk.paper.0.borrow_mut().fails = true;
    let report = desk.step();
    assert_eq!((report.ended, report.waiting), (1, 1));
    desk.drain(100);
    assert_eq!(desk.reason_of(3), Reason::Length);
    desk.assert_right();
}

#[test]
fn logits_that_are_no_numbers_end_their_request_alone_and_its_pages_serve_nobody_again() {
    let mut desk = Desk::new(32, limits());
    let mut poisoned = tokens(1, 100);
    poisoned[3] = POISON;
    desk.submit(ask(1, poisoned.clone(), 5)).unwrap();
    desk.submit(ask(2, tokens(2, 100), 20)).unwrap();
    desk.drain(100);
    assert!(matches!(desk.reason_of(1), Reason::Failed(why) if why.contains("NaN")));
    assert_eq!(desk.reason_of(2), Reason::Length);
    desk.answer(ask(3, poisoned, 5));
    assert_eq!(desk.usage_of(3).cached, 0);
    assert_eq!(desk.engine.gauges().failed, 2);
    desk.assert_right();
}

#[test]
fn logprobs_come_when_asked_for() {
    let mut desk = Desk::new(8, limits());
    let mut request = ask(1, tokens(1, 10), 1);
    request.sampling.logprobs = Some(3);
    desk.engine.submit(request, 0).unwrap();
    let mut out = Vec::new();
    desk.engine.step(0, &mut out);
    let legwork_engine::Output::Tokens { tokens, .. } = &out[0] else { panic!("{out:?}") };
    let drawn = &tokens[0];
    assert_eq!((drawn.top.len(), drawn.top[0].0), (3, drawn.id));
    assert_eq!(drawn.logprob, Some(drawn.top[0].1));
    assert!(drawn.top[0].1 < 0.0 && drawn.top[0].1 >= drawn.top[1].1 && (drawn.id as usize) < VOCABULARY);
}
