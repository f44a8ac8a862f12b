//! What users of other engines complained of, by its row in the table of engine reports, each as a test. Rows 6 and 18 stand
//! with the sampler, row 15 with the stop strings as well.

use crate::desk::{Desk, ask, ask_in, limits};
use crate::paper::{Kind, PAGE_BYTES, Paper, SECRETS, tokens};
use legwork_engine::{EngineLimits, Reason, Refusal, RequestId, Sampling};

#[test]
fn complaint_1_repeated_prompts_give_the_same_with_the_cache_and_without() {
    let run = |prefix_cache| {
        let mut desk = Desk::new(24, EngineLimits { prefix_cache, ..limits() });
        let answers = (0..30).map(|id| desk.answer(ask(id, tokens(id % 3, 130), 20))).collect::<Vec<_>>();
        desk.assert_right();
        answers
    };
    let cached = run(true);
    assert_eq!(cached, run(false));
    assert!(cached.iter().skip(3).zip(&cached).all(|(again, first)| again == first));
}

#[test]
fn complaint_2_a_prompt_known_to_its_end_still_computes_a_token_and_a_small_cache_starves_nobody() {
    for length in [1, 63, 64, 65, 128, 129] {
        let mut desk = Desk::new(3, limits());
        let first = desk.answer(ask(1, tokens(1, length), 2));
        assert_eq!(desk.answer(ask(2, tokens(1, length), 2)), first);
        let cached = desk.usage_of(2).cached;
        assert!(cached < length && cached == (length - 1) / 64 * 64, "{cached} of {length}");
    }
    let mut desk = Desk::new(3, limits());
    (0..50).for_each(|id| desk.submit(ask(id, tokens(id % 4, 100), 30)).unwrap());
    desk.drain(50 * 130);
    desk.assert_right();
}

#[test]
fn complaint_3_the_cache_gives_way_before_anything_is_refused() {
    let mut desk = Desk::new(6, limits());
    for id in 0..200 {
        desk.answer(ask(id, tokens(id, 300), 80));
        assert_eq!(desk.engine.gauges().pages_held, 0);
    }
    let gauges = desk.engine.gauges();
    assert!(gauges.evictions > 900 && gauges.failed == 0 && gauges.refused == 0);
    desk.assert_right();
}

#[test]
fn complaint_10_the_cache_adds_no_steps_and_no_rows() {
    let run = |prefix_cache, share: bool| {
        let mut desk = Desk::new(200, EngineLimits { prefix_cache, ..limits() });
        for id in 0..24 {
            desk.submit(ask(id, tokens(if share { 1 } else { id }, 150), 40)).unwrap();
        }
        let steps = desk.drain(5_000);
        desk.assert_right();
        (steps, desk.engine.gauges().rows)
    };
    let (on, off) = (run(true, false), run(false, false));
    assert_eq!(on, off, "with nothing in common");
    let (on, off) = (run(true, true), run(false, true));
    assert!(on.0 <= off.0 && on.1 < off.1, "{on:?} with, {off:?} without");
}

#[test]
fn complaint_13_a_prompt_as_long_as_the_context_gets_its_one_token() {
    for context in [64, 100, 128, 300] {
        let pages = usize::div_ceil(context, 64);
        let mut desk = Desk::of(Paper::new(pages, 64, context, Kind::Hash), limits());
        desk.answer(ask(1, tokens(1, context), 1));
        assert_eq!((desk.tokens_of(1).len(), desk.reason_of(1)), (1, Reason::Length));
        desk.answer(ask(2, tokens(1, context - 10), 11));
        assert_eq!(desk.tokens_of(2).len(), 11);
        let refusal = desk.submit(ask(3, tokens(1, context), 2)).unwrap_err();
        assert_eq!(refusal, Refusal::TooLong { prompt: context, max_new: 2, context });
        desk.assert_right();
    }
}

#[test]
fn complaint_15_streamed_text_never_holds_what_becomes_a_stop_string() {
    let mut desk = Desk::new(16, limits());
    let mut request = ask(1, tokens(1, 10), 200);
    request.sampling = Sampling { temperature: 1.0, stop: vec!["aéb".to_owned()], ..request.sampling };
    for seed in 0..30 {
        (request.id, request.sampling.seed) = (RequestId(seed), seed);
        desk.submit(request.clone()).unwrap();
    }
    while !desk.step().is_idle() {
        for got in desk.got.values() {
            // Pieces are only ever added, so what is told once stays told.
            assert!(!got.text.contains("aéb"), "{got:?}");
        }
    }
    desk.assert_right();
    assert!(desk.got.values().any(|got| matches!(got.done, Some((Reason::StopString(_), _)))));
}

/// Each episode has a secret, which the model repeats wherever it sees one.
#[test]
fn complaint_17_no_episode_says_the_secret_of_another() {
    let limits =
        EngineLimits { running_max: 6, step_rows: 50, host_bytes_max: 9 * PAGE_BYTES, reserve_tokens: 4, ..limits() };
    let mut desk = Desk::of(Paper::new(14, 50, 4_096, Kind::Echo), limits);
    let episodes = 8u64;
    let mut prompts: Vec<Vec<u32>> = (0..episodes)
        .map(|episode| [tokens(1, 100), vec![SECRETS + episode as u32], tokens(50 + episode, 30)].concat())
        .collect();
    let mut said = vec![0; episodes as usize];
    for turn in 0..6 {
        let id = |episode: u64| turn * episodes + episode;
        for episode in 0..episodes {
            let mut request = ask_in(episode.into(), id(episode), prompts[episode as usize].clone(), 30);
            request.sampling = Sampling { temperature: 1.0, seed: id(episode), ..request.sampling };
            desk.submit(request).unwrap();
        }
        desk.drain(10_000);
        for episode in 0..episodes {
            let answer = desk.tokens_of(id(episode)).to_vec();
            let own = SECRETS + episode as u32;
            assert!(answer.iter().all(|token| *token < SECRETS || *token == own), "{episode}: {answer:?}");
            said[episode as usize] += answer.iter().filter(|token| **token == own).count();
            prompts[episode as usize].extend(answer);
        }
    }
    assert!(said.iter().all(|count| *count > 0), "a canary that never sings proves nothing: {said:?}");
    let gauges = desk.engine.gauges();
    assert!(gauges.preemptions > 0 && gauges.offloaded_pages > 0 && gauges.restored_tokens > 0, "{gauges:?}");
    desk.assert_right();
}

#[test]
fn complaint_18_no_token_outside_the_vocabulary_is_ever_drawn() {
    let mut desk = Desk::new(64, limits());
    for id in 0..20 {
        let mut request = ask(id, tokens(id, 20), 50);
        request.sampling = Sampling { temperature: 100.0, seed: id, ..request.sampling };
        desk.submit(request).unwrap();
    }
    desk.drain(1_000);
    // Token 95 has no mass, those beyond are none.
    assert!(desk.got.values().all(|got| got.tokens.iter().all(|token| *token < 95)));
}
