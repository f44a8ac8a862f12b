//! Everything at once, at random: submissions, cancellations, deadlines, failing steps and copies, released sessions, in
//! caches of a few pages; and a long run of many requests.

use crate::desk::{Desk, ask};
use crate::paper::{Kind, PAGE_BYTES, POISON, Paper, tokens};
use legwork_engine::{EngineLimits, Reason, Request, RequestId, Sampling, SessionId, philox};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Submit(Ask),
    Step(usize),
    Cancel(usize),
    Release(u128),
    FailStep,
    FailCopies(bool),
    Forget,
}

#[derive(Clone, Debug)]
struct Ask {
    family: u64,
    prefix: usize,
    tail: usize,
    max_new: usize,
    kind: u8,
    deadline_ms: Option<u64>,
    session: Option<u128>,
    poisoned: bool,
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let length = prop_oneof![0usize..20, Just(64usize), Just(128), 100usize..260];
    let session = prop::option::weighted(0.6, 0u128..4);
    let shape = (0u64..3, length, 1usize..20, 1usize..80, 0u8..5);
    (shape, prop::option::weighted(0.2, 1u64..60), session, prop::bool::weighted(0.03)).prop_map(
        |((family, prefix, tail, max_new, kind), deadline_ms, session, poisoned)| Ask {
            family,
            prefix,
            tail,
            max_new,
            kind,
            deadline_ms,
            session,
            poisoned,
        },
    )
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        10 => any_ask().prop_map(Act::Submit),
        10 => (1usize..30).prop_map(Act::Step),
        3 => (0usize..100).prop_map(Act::Cancel),
        1 => (0u128..4).prop_map(Act::Release),
        1 => Just(Act::FailStep),
        1 => any::<bool>().prop_map(Act::FailCopies),
        1 => Just(Act::Forget),
    ]
}

fn any_limits() -> impl Strategy<Value = EngineLimits> {
    let reserve = prop_oneof![Just(0), Just(10), Just(usize::MAX)];
    let host = prop_oneof![Just(0), Just(3 * PAGE_BYTES), Just(1_000 * PAGE_BYTES)];
    (1usize..8, 1usize..60, reserve, host, prop_oneof![Just(usize::MAX), 0usize..8], prop::bool::weighted(0.9))
        .prop_map(|(running_max, more, reserve_tokens, host_bytes_max, pinned_pages_max, prefix_cache)| EngineLimits {
            running_max,
            waiting_max: 12,
            step_rows: running_max + more,
            reserve_tokens,
            prefix_cache,
            pinned_pages_max,
            sessions_max: 3,
            host_bytes_max,
        })
}

fn request_of(id: u64, ask_for: &Ask, now_ms: u64) -> Request {
    let mut prompt = [tokens(ask_for.family, ask_for.prefix), tokens(100 + id, ask_for.tail)].concat();
    if ask_for.poisoned {
        prompt[0] = POISON;
    }
    let mut request = ask(id, prompt, ask_for.max_new);
    let sampling = request.sampling.clone();
    request.sampling = match ask_for.kind {
        0 => sampling,
        1 => Sampling { temperature: 1.0, seed: id, ..sampling },
        2 => Sampling { temperature: 0.8, top_p: 0.9, seed: id, stop_ids: vec![5, 17], ..sampling },
        3 => Sampling { temperature: 1.0, seed: id, stop: vec!["aba".to_owned(), "bé".to_owned()], ..sampling },
        _ => Sampling { temperature: 1.0, top_k: Some(9), frequency_penalty: 0.4, repetition_penalty: 1.1, ..sampling },
    };
    request.deadline_ms = ask_for.deadline_ms.map(|after| now_ms + after);
    request.session = ask_for.session.map(SessionId);
    request
}

/// Steps within which all must be done: in each of them the oldest that runs computes at least one row, and it loses its
/// place only to a disturbance, after which everything may have to be computed again.
fn steps_at_most(desk: &Desk, disturbances: usize) -> usize {
    let tokens = desk.asked.values().map(|request| request.prompt.len() + request.sampling.max_new);
    tokens.sum::<usize>() * (1 + disturbances) + 2
}

fn carry_out(desk: &mut Desk, act: &Act, next: &mut u64) {
    match act {
        Act::Submit(ask_for) => {
            let request = request_of(*next, ask_for, desk.now_ms);
            *next += u64::from(desk.submit(request).is_ok());
        }
        Act::Step(steps) => {
            for _ in 0..*steps {
                desk.now_ms += 1;
                desk.step();
            }
        }
        Act::Cancel(number) if *next > 0 => desk.engine.cancel(RequestId(*number as u64 % *next)),
        Act::Cancel(_) => {}
        Act::Release(session) => desk.engine.release_session(SessionId(*session)),
        Act::FailStep => desk.paper.0.borrow_mut().fails = true,
        Act::FailCopies(fails) => desk.paper.0.borrow_mut().fails_copies = *fails,
        Act::Forget => desk.engine.forget_computed(),
    }
    desk.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn whatever_happens_every_page_is_accounted_for_and_every_request_ends_once_and_right(
        limits in any_limits(),
        pages in 2usize..16,
        acts in prop::collection::vec(any_act(), 1..40),
    ) {
        let mut desk = Desk::of(Paper::new(pages, 4_096, 600, Kind::Hash), limits);
        let mut next = 0;
        let disturbances = acts.iter().filter(|act| matches!(act, Act::FailStep | Act::Forget)).count();
        acts.iter().for_each(|act| carry_out(&mut desk, act, &mut next));
        desk.drain(steps_at_most(&desk, disturbances));
        desk.assert_right();
        (0..4).for_each(|session| desk.engine.release_session(SessionId(session)));
        desk.check();
        let gauges = desk.engine.gauges();
        prop_assert_eq!((gauges.pages_held, gauges.pages_pinned, gauges.sessions), (0, 0, 0));
        prop_assert_eq!(gauges.pages_free + gauges.pages_cached, pages);
        let ended = gauges.finished + gauges.cancelled + gauges.expired + gauges.failed;
        prop_assert_eq!((ended, gauges.accepted), (next, next));
    }
}

#[test]
fn a_storm_of_cancellations_leaves_nothing_behind() {
    let mut desk = Desk::new(12, EngineLimits { running_max: 6, step_rows: 40, ..EngineLimits::default() });
    for id in 0..300u64 {
        desk.submit(ask(id, tokens(id % 5, 20 + id as usize % 200), 50)).unwrap();
        let _ = desk.step();
        desk.engine.cancel(RequestId(philox::draw(1, id) % (id + 1)));
        desk.check();
    }
    (0..300).for_each(|id| desk.engine.cancel(RequestId(id)));
    assert_eq!(desk.engine.gauges().pages_held, 0);
    desk.drain(1);
    desk.assert_right();
}

/// 64 at once, of all kinds, in sessions of several turns, for thousands of steps.
#[test]
fn sixty_four_mixed_requests_at_once_stay_right_over_thousands_of_steps() {
    let limits = EngineLimits {
        running_max: 64,
        step_rows: 160,
        reserve_tokens: 0,
        host_bytes_max: 60 * PAGE_BYTES,
        ..EngineLimits::default()
    };
    let mut desk = Desk::of(Paper::new(90, 160, 2_000, Kind::Hash), limits);
    let (mut next, mut steps) = (0u64, 0);
    while steps < 2_000 {
        while desk.engine.gauges().waiting + desk.engine.gauges().running < 64 {
            let dice = |at: u64, sides: u64| philox::draw(next, at) % sides;
            let ask_for = Ask {
                family: dice(1, 6),
                prefix: dice(2, 250) as usize,
                tail: 1 + dice(3, 30) as usize,
                max_new: 1 + dice(4, 90) as usize,
                kind: dice(5, 5) as u8,
                deadline_ms: (dice(6, 20) == 0).then(|| 1 + dice(7, 100)),
                session: (dice(8, 2) == 0).then(|| dice(9, 40).into()),
                poisoned: dice(10, 200) == 0,
            };
            desk.submit(request_of(next, &ask_for, desk.now_ms)).unwrap();
            next += 1;
        }
        desk.paper.0.borrow_mut().fails = steps % 600 == 599;
        desk.now_ms += 1;
        desk.step();
        steps += 1;
        if steps % 37 == 0 {
            desk.engine.cancel(RequestId(next - 1 - u64::from(steps as u32 % 40)));
        }
    }
    desk.drain(20_000);
    desk.assert_right();
    let gauges = desk.engine.gauges();
    assert!(gauges.finished > 800 && gauges.cancelled > 10 && gauges.expired > 10, "{gauges:?}");
    assert!(gauges.failed > 0 && gauges.prefix_hit_tokens > 10_000 && gauges.preemptions > 0, "{gauges:?}");
    assert!(desk.got.values().any(|got| matches!(got.done, Some((Reason::StopString(_), _)))));
}
