//! Conversations that pause: their pages stay, go to host memory, and are given up, in that order.

use crate::desk::{Desk, ask, ask_in, limits};
use crate::paper::{PAGE_BYTES, tokens};
use legwork_engine::{EngineLimits, SessionId};

/// A turn, and the prompt of the next one.
fn turn(desk: &mut Desk, session: u128, id: u64, prompt: Vec<u32>) -> Vec<u32> {
    let answer = desk.answer(ask_in(session, id, prompt.clone(), 20));
    [prompt, answer, tokens(1_000 + id, 10)].concat()
}

#[test]
fn a_paused_session_keeps_its_pages_while_others_lose_theirs() {
    let mut desk = Desk::new(12, limits());
    let next = turn(&mut desk, 1, 1, tokens(1, 200));
    assert_eq!((desk.engine.gauges().pages_pinned, desk.engine.gauges().sessions), (3, 1));
    // Enough others to push everything out that may be pushed out.
    (10..20).for_each(|id| drop(desk.answer(ask(id, tokens(id, 400), 1))));
    turn(&mut desk, 1, 2, next);
    assert_eq!(desk.usage_of(2).cached, 192);
    desk.engine.release_session(SessionId(1));
    desk.check();
    assert_eq!((desk.engine.gauges().pages_pinned, desk.engine.gauges().sessions), (0, 0));
    desk.assert_right();
}

#[test]
fn a_request_never_waits_for_pages_that_are_only_kept() {
    let mut desk = Desk::new(8, limits());
    turn(&mut desk, 1, 1, tokens(1, 300));
    desk.answer(ask(2, tokens(2, 500), 10));
    assert_eq!((desk.engine.gauges().pages_pinned, desk.engine.gauges().offloaded_pages), (0, 0));
    desk.assert_right();
}

#[test]
fn a_session_pushed_out_comes_back_from_host_memory_and_goes_on_undisturbed() {
    let limits = EngineLimits { host_bytes_max: 100 * PAGE_BYTES, ..limits() };
    let mut desk = Desk::new(8, limits);
    let next = turn(&mut desk, 1, 1, tokens(1, 300));
    desk.answer(ask(2, tokens(2, 500), 10));
    let gauges = desk.engine.gauges();
    assert_eq!((gauges.pages_pinned, gauges.offloaded_pages, gauges.host_bytes), (0, 4, 4 * PAGE_BYTES));
    turn(&mut desk, 1, 3, next);
    assert_eq!(desk.usage_of(3).cached, 256);
    assert_eq!((desk.engine.gauges().restored_tokens, desk.paper.0.borrow().loaded), (256, 4));
    desk.engine.release_session(SessionId(1));
    assert_eq!(desk.engine.gauges().host_bytes, 0);
    desk.assert_right();
}

#[test]
fn the_session_that_has_been_away_longest_goes_first() {
    let limits = EngineLimits { pinned_pages_max: 7, host_bytes_max: 100 * PAGE_BYTES, ..limits() };
    let mut desk = Desk::new(64, limits);
    for session in 1..=3u64 {
        turn(&mut desk, session.into(), session, tokens(session, 200));
    }
    let gauges = desk.engine.gauges();
    assert_eq!((gauges.sessions, gauges.pages_pinned, gauges.offloaded_pages), (2, 6, 3));
    assert_eq!(gauges.pages_cached, 3, "what was copied stays until its room is needed");
    desk.assert_right();
}

#[test]
fn host_memory_has_its_limit_too_and_what_is_lost_is_computed_anew() {
    let limits = EngineLimits { pinned_pages_max: 0, host_bytes_max: 4 * PAGE_BYTES, ..limits() };
    let mut desk = Desk::new(8, limits);
    let first = turn(&mut desk, 1, 1, tokens(1, 200));
    let second = turn(&mut desk, 2, 2, tokens(2, 200));
    let gauges = desk.engine.gauges();
    assert_eq!((gauges.host_bytes, gauges.host_evictions, gauges.offloaded_pages), (4 * PAGE_BYTES, 2, 6));
    desk.answer(ask(9, tokens(9, 500), 1));
    turn(&mut desk, 1, 3, first);
    assert_eq!(desk.usage_of(3).cached, 64, "its last pages were given up, its first is there");
    turn(&mut desk, 2, 4, second);
    desk.assert_right();
}

#[test]
fn copies_that_fail_cost_time_and_nothing_else() {
    let limits = EngineLimits { pinned_pages_max: 0, host_bytes_max: 100 * PAGE_BYTES, ..limits() };
    let mut desk = Desk::new(8, limits);
    let next = turn(&mut desk, 1, 1, tokens(1, 200));
    desk.answer(ask(9, tokens(9, 500), 1));
    desk.paper.0.borrow_mut().fails_copies = true;
    let next = turn(&mut desk, 1, 2, next);
    assert_eq!(desk.usage_of(2).cached, 0);
    desk.paper.0.borrow_mut().fails_copies = false;
    turn(&mut desk, 1, 3, next);
    assert!(desk.engine.gauges().failed_copies > 0);
    desk.assert_right();
}

#[test]
fn the_number_of_sessions_is_bounded() {
    let mut desk = Desk::new(64, EngineLimits { sessions_max: 2, ..limits() });
    (1..=5u64).for_each(|session| drop(turn(&mut desk, session.into(), session, tokens(1, 100))));
    assert_eq!(desk.engine.gauges().sessions, 2);
}
