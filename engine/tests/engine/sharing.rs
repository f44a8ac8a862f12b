//! What requests share: prefixes, steps and nothing else.

use crate::desk::{Desk, ask, limits};
use crate::paper::tokens;
use legwork_engine::{EngineLimits, Request, Sampling};

fn longer(prefix: &[u32], tail: &[u32]) -> Vec<u32> {
    [prefix, tail].concat()
}

#[test]
fn a_prefix_that_was_computed_is_found_up_to_its_last_full_page() {
    let mut desk = Desk::new(32, limits());
    let prefix = tokens(1, 200);
    desk.answer(ask(1, longer(&prefix, &[1]), 4));
    desk.answer(ask(2, longer(&prefix, &[2]), 4));
    assert_eq!((desk.usage_of(1).cached, desk.usage_of(2).cached), (0, 192));
    assert_eq!(desk.engine.gauges().prefix_hit_tokens, 192);
    desk.assert_right();
}

#[test]
fn generated_tokens_are_found_by_the_next_turn_too() {
    let mut desk = Desk::new(32, limits());
    let prompt = tokens(1, 100);
    let answer = desk.answer(ask(1, prompt.clone(), 100));
    let next = longer(&longer(&prompt, &answer), &tokens(2, 30));
    desk.answer(ask(2, next, 5));
    // Of 200 tokens 199 were computed: the last one drawn never is.
    assert_eq!(desk.usage_of(2).cached, 192);
    desk.assert_right();
}

#[test]
fn a_page_is_not_taken_for_one_with_another_beginning() {
    let mut desk = Desk::new(32, limits());
    let same = tokens(5, 64);
    desk.answer(ask(1, longer(&longer(&tokens(1, 64), &same), &[3]), 4));
    desk.answer(ask(2, longer(&longer(&tokens(2, 64), &same), &[3]), 4));
    assert_eq!(desk.usage_of(2).cached, 0);
    desk.answer(ask(3, longer(&same, &[3]), 4));
    assert_eq!(desk.usage_of(3).cached, 0);
    desk.assert_right();
}

#[test]
fn of_two_that_begin_at_once_the_second_waits_for_the_firsts_pages_and_takes_them_over() {
    let mut desk = Desk::new(64, EngineLimits { step_rows: 512, ..limits() });
    let prefix = tokens(1, 320);
    for id in 0..6 {
        desk.submit(ask(id, longer(&prefix, &[id as u32]), 3)).unwrap();
    }
    desk.drain(20);
    // One computes all of it, the others their last token.
    assert_eq!(desk.engine.gauges().rows, 321 + 5 + 6 * 2);
    assert!((1..6).all(|id| desk.usage_of(id).cached == 320));
    desk.assert_right();
}

#[test]
fn pages_computed_twice_become_one() {
    let mut desk = Desk::new(64, EngineLimits { step_rows: 100, ..limits() });
    let same = tokens(1, 40);
    // Each reads 40 tokens and then draws the same ones, so that no page is known before both have filled it.
    desk.submit(ask(1, same.clone(), 100)).unwrap();
    desk.submit(ask(2, same, 100)).unwrap();
    desk.step();
    for _ in 0..60 {
        desk.step();
    }
    assert_eq!(desk.engine.gauges().pages_held, 3, "one full page and two that are written");
    desk.drain(200);
    assert_eq!(desk.tokens_of(1), desk.tokens_of(2));
    desk.assert_right();
}

#[test]
fn neighbours_chunks_and_caches_change_nothing() {
    let requests = |seed: u64| -> Vec<Request> {
        (0..12)
            .map(|id| {
                let prompt = longer(&tokens(seed + id % 3, 30 + 50 * (id as usize % 4)), &tokens(100 + id, 7));
                let sampling = Sampling {
                    max_new: 30,
                    temperature: 0.5 * (id % 3) as f64,
                    top_p: 0.9,
                    seed: id,
                    frequency_penalty: if id % 2 == 0 { 0.3 } else { 0.0 },
                    repetition_penalty: if id % 4 == 1 { 1.2 } else { 1.0 },
                    ..Sampling::default()
                };
                Request { sampling, ..ask(id, prompt, 1) }
            })
            .collect()
    };
    let answers = |limits: EngineLimits, pages: usize| {
        let mut desk = Desk::new(pages, limits);
        requests(7).into_iter().for_each(|request| desk.submit(request).unwrap());
        desk.drain(20_000);
        desk.assert_right();
        desk.got.into_values().map(|got| (got.tokens, got.text)).collect::<Vec<_>>()
    };
    let plain = answers(limits(), 200);
    let alone = answers(EngineLimits { running_max: 1, prefix_cache: false, step_rows: 4_000, ..limits() }, 200);
    let in_bits = answers(EngineLimits { running_max: 2, step_rows: 3, ..limits() }, 200);
    let crowded = answers(EngineLimits { running_max: 12, step_rows: 13, reserve_tokens: 0, ..limits() }, 9);
    assert!(plain == alone && plain == in_bits && plain == crowded);
}

#[test]
fn with_the_cache_off_nothing_is_kept() {
    let mut desk = Desk::new(32, EngineLimits { prefix_cache: false, ..limits() });
    let prompt = tokens(1, 200);
    let first = desk.answer(ask(1, prompt.clone(), 5));
    assert_eq!(desk.answer(ask(2, prompt, 5)), first);
    let gauges = desk.engine.gauges();
    assert_eq!((gauges.prefix_hit_tokens, gauges.pages_free), (0, 32));
}

#[test]
fn after_weights_changed_nothing_computed_before_is_used_and_those_that_run_go_on() {
    let mut desk = Desk::new(32, limits());
    let prompt = tokens(1, 130);
    desk.answer(ask(1, prompt.clone(), 5));
    desk.submit(ask(2, prompt.clone(), 50)).unwrap();
    (0..20).for_each(|_| drop(desk.step()));
    desk.engine.forget_computed();
    desk.check();
    let gauges = desk.engine.gauges();
    assert_eq!((gauges.pages_free, gauges.waiting, gauges.running), (32, 1, 0));
    desk.submit(ask(3, prompt, 5)).unwrap();
    desk.drain(200);
    assert_eq!(desk.usage_of(2).cached, 128, "told once, as it was at first");
    desk.assert_right();
}
