//! Who begins when, who gets how many rows, and what happens when pages run out.

use crate::desk::{Desk, ask, limits};
use crate::paper::{Kind, Paper, tokens};
use legwork_engine::{Engine, EngineError, EngineLimits, Refusal, RequestId, Sampling};

#[test]
fn a_long_prompt_never_keeps_those_that_generate_from_their_next_token() {
    let mut desk = Desk::new(128, EngineLimits { running_max: 4, step_rows: 20, ..limits() });
    for id in 0..3 {
        desk.submit(ask(id, tokens(id, 5), 60)).unwrap();
    }
    desk.step();
    desk.submit(ask(9, tokens(9, 500), 1)).unwrap();
    let mut steps = 0;
    while desk.tokens_of(9).is_empty() {
        let before: Vec<usize> = (0..3).map(|id| desk.tokens_of(id).len()).collect();
        let report = desk.step();
        steps += 1;
        assert_eq!(report.decode_rows, 3);
        assert!((0..3).all(|id| desk.tokens_of(id).len() == before[id as usize] + 1));
    }
    assert!(steps <= 500usize.div_ceil(20 - 4), "the stated bound; it took {steps}");
    desk.drain(100);
    desk.assert_right();
}

#[test]
fn a_large_request_at_the_head_is_not_overtaken() {
    // The large one needs all nine pages, so it cannot begin before the first has ended.
    let mut desk = Desk::new(9, EngineLimits { running_max: 4, ..limits() });
    desk.submit(ask(1, tokens(1, 100), 100)).unwrap();
    desk.step();
    desk.submit(ask(2, tokens(2, 500), 60)).unwrap();
    (3..9).for_each(|id| desk.submit(ask(id, tokens(id, 10), 5)).unwrap());
    let mut steps = 0;
    while desk.tokens_of(2).is_empty() {
        desk.step();
        steps += 1;
        assert!((3..9).all(|id| desk.tokens_of(id).is_empty()), "overtaken");
    }
    assert!(steps <= 100 + 500usize.div_ceil(128 - 4), "the stated bound; it took {steps}");
    desk.drain(2_000);
    desk.assert_right();
}

#[test]
fn reserving_all_never_sets_back_and_reserving_less_does_and_gives_the_same() {
    let run = |reserve_tokens| {
        let mut desk = Desk::new(8, EngineLimits { reserve_tokens, ..limits() });
        (0..6).for_each(|id| desk.submit(ask(id, tokens(id, 60), 130)).unwrap());
        let steps = desk.drain(6 * 190);
        desk.assert_right();
        (desk.engine.gauges(), steps)
    };
    let (whole, _) = run(usize::MAX);
    let (some, _) = run(1);
    assert_eq!(whole.preemptions, 0);
    assert!(some.preemptions > 0);
    assert_eq!(some.prompt_tokens, whole.prompt_tokens, "a prompt that is read again is told once");
}

#[test]
fn what_can_never_fit_is_refused_with_the_numbers() {
    let mut desk = Desk::of(Paper::new(4, 100, 300, Kind::Hash), EngineLimits { step_rows: 100, ..limits() });
    let refused =
        |desk: &mut Desk, prompt: usize, max_new| desk.submit(ask(1, tokens(1, prompt), max_new)).unwrap_err();
    assert_eq!(refused(&mut desk, 200, 102), Refusal::TooLong { prompt: 200, max_new: 102, context: 300 });
    assert_eq!(refused(&mut desk, 200, 58), Refusal::NeverFits { needed: 5, pages: 4 });
    assert!(!refused(&mut desk, 1, usize::MAX >> 32).is_busy());
    assert_eq!(refused(&mut desk, 0, 1), Refusal::EmptyPrompt);
    desk.submit(ask(1, tokens(1, 200), 57)).unwrap();
    assert_eq!(refused(&mut desk, 1, 1), Refusal::Duplicate(RequestId(1)));
    assert_eq!(desk.drain(100), 2 + 57 - 1);
    desk.assert_right();
    assert_eq!(desk.engine.gauges().refused, 5);
}

#[test]
fn bad_requests_are_refused_before_they_cost_anything() {
    let mut desk = Desk::new(8, limits());
    let mut wrong = ask(1, tokens(1, 10), 5);
    wrong.prompt[3] = 96;
    let refusal = desk.submit(wrong).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownToken { id: 96, position: 3, vocabulary: 96 });
    let mut late = ask(1, tokens(1, 10), 5);
    late.deadline_ms = Some(0);
    assert_eq!(desk.submit(late).unwrap_err(), Refusal::DeadlinePassed { deadline_ms: 0, now_ms: 0 });
    let mut odd = ask(1, tokens(1, 10), 5);
    odd.sampling.top_p = 0.0;
    assert!(matches!(desk.submit(odd), Err(Refusal::Sampling(_))));
    let mut mute = Engine::new(Paper::new(8, 4_096, 4_096, Kind::Hash), None, limits()).unwrap();
    let mut stops = ask(1, tokens(1, 10), 5);
    stops.sampling = Sampling { stop: vec!["x".to_owned()], ..stops.sampling };
    assert_eq!(mute.submit(stops, 0), Err(Refusal::NoSpeech));
}

#[test]
fn a_full_queue_says_that_it_is_busy() {
    let mut desk = Desk::new(8, EngineLimits { waiting_max: 2, ..limits() });
    (0..2).for_each(|id| desk.submit(ask(id, tokens(id, 10), 5)).unwrap());
    let refusal = desk.submit(ask(3, tokens(3, 10), 5)).unwrap_err();
    assert_eq!(refusal, Refusal::QueueFull { waiting: 2, waiting_max: 2 });
    assert!(refusal.is_busy());
    desk.step();
    desk.submit(ask(3, tokens(3, 10), 5)).unwrap();
    desk.drain(20);
    desk.assert_right();
}

#[test]
fn limits_that_leave_no_row_for_a_prompt_are_refused() {
    let engine = |rows_max, limits| Engine::new(Paper::new(8, rows_max, 64, Kind::Hash), None, limits).err();
    let wrong = EngineLimits { running_max: 8, ..limits() };
    assert_eq!(engine(8, wrong.clone()), Some(EngineError::Rows { running_max: 8, waiting_max: 1_024, rows: 8 }));
    assert_eq!(engine(9, wrong), None);
    let none = Paper::new(0, 100, 64, Kind::Hash);
    assert!(matches!(Engine::new(none, None, limits()).err(), Some(EngineError::NoRoom { pages: 0, .. })));
}

#[test]
fn with_nothing_to_do_a_step_says_so_and_asks_nothing_of_the_model() {
    let mut desk = Desk::new(8, limits());
    assert!(desk.step().is_idle());
    assert!(desk.paper.0.borrow().steps.is_empty());
}
