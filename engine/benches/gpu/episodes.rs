//! The workload that an engine is for: episodes that run at once, each of many turns, whose prompts are all that was said
//! before and what a tool gave. Through the real engine; lengths and ids are seeded. What an episode waits for between turns is
//! left out: its next turn is there at once.

use crate::Bench;
use crate::dice::Dice;
use crate::table::Table;
use crate::watched::{Seen, Watched};
use legwork_engine::{Engine, EngineLimits, Gauges, Output, Reason, Request, RequestId, Sampling, SessionId};
use legwork_kernels::Ops;
use std::time::Instant;

/// Tokens that all prompts begin with.
const SYSTEM: usize = 400;
/// Tokens of a first prompt, those included.
const FIRST: (usize, usize) = (600, 1_200);
/// Tokens that a tool gives.
const TOOL: (usize, usize) = (100, 400);
/// Tokens of an answer.
const ANSWER: (usize, usize) = (60, 120);
/// Tokens of an episode at most: beyond it, it ends.
const CONTEXT_MAX: usize = 24_576;

/// One episode.
struct Episode {
    history: Vec<u32>,
    turns_left: usize,
    dice: Dice,
}

/// What a run came to.
struct Told {
    seconds: f64,
    gauges: Gauges,
    seen: Seen,
    /// Mean milliseconds from a prompt's submission to its first token, and the slowest.
    first_ms: (f64, f64),
    turns: usize,
    context_max: usize,
    lost: usize,
}

/// Prints the workload with the prefix cache and, shorter, with and without it; how many turns did not end as they should.
pub(crate) fn run<B: Ops + 'static>(bench: &Bench<B>, table: &mut Table) -> usize {
    let given = &bench.given;
    let episodes = given.episodes;
    let runs = [
        (episodes, given.turns, true),
        (episodes, given.turns_off, true),
        (episodes, given.turns_off, false),
        (episodes / 4, given.turns_off, true),
    ];
    let mut lost = 0;
    for (episodes, turns, prefix_cache) in runs.into_iter().filter(|(episodes, turns, _)| episodes * turns > 0) {
        let told = episodes_at_once(bench, episodes, turns, prefix_cache);
        lost += told.lost;
        let cache = if prefix_cache { "on" } else { "off" };
        println!("**{episodes} episodes of {turns} turns, prefix cache {cache}, steps of {} rows**\n", given.step_rows);
        table.head();
        let Told { seconds, gauges, seen, .. } = &told;
        let generated = gauges.generated_tokens as f64;
        let step_ms = 1e3 * seconds / seen.steps as f64;
        let what = format!("{episodes} episodes of {turns} turns, cache {cache}: generated");
        table.row(&what, generated / seconds, step_ms, generated / seen.least_s, None);
        let computed = (gauges.prompt_tokens - gauges.prefix_hit_tokens - gauges.restored_tokens) as f64;
        table.row(
            &format!("{episodes} episodes of {turns} turns, cache {cache}: of prompts, computed"),
            computed / seconds,
            step_ms,
            computed / seen.least_s,
            None,
        );
        figures(&told);
    }
    println!(
        "The floor, 1.3 x vLLM in the same run, cannot be told: vLLM is not on this machine. What can be told is the part of the \
         least time that its steps need at the ceilings of this run."
    );
    lost
}

fn figures(told: &Told) {
    let Told { seconds, gauges, seen, first_ms, turns, context_max, lost } = told;
    let steps = seen.steps as f64;
    let part = |of: f64| 100.0 * of / seconds;
    println!("\n| figure | |\n| --- | ---: |");
    println!("| seconds, turns, turns lost | {seconds:.2}, {turns}, {lost} |");
    println!("| tokens generated, of prompts | {}, {} |", gauges.generated_tokens, gauges.prompt_tokens);
    let hits = 100.0 * gauges.prefix_hit_tokens as f64 / gauges.prompt_tokens as f64;
    println!("| found in the cache | {hits:.1} % |");
    println!("| steps, of these with single new tokens only | {}, {} |", seen.steps, seen.decode_steps);
    println!(
        "| rows, sequences, tokens of context a step, mean | {:.1}, {:.1}, {:.0} |",
        seen.rows as f64 / steps,
        seen.spans as f64 / steps,
        seen.context as f64 / steps
    );
    println!("| longest episode | {context_max} tokens |");
    println!(
        "| time in the model, in the engine and its owner | {:.1} %, {:.1} % ({:.0} µs a step) |",
        part(seen.model_s),
        part(seconds - seen.model_s),
        1e6 * (seconds - seen.model_s) / steps
    );
    println!(
        "| steps of single tokens: part of all time, of what they need at least | {:.1} %, {:.1} % |",
        part(seen.decode_s),
        100.0 * seen.decode_least_s / seen.decode_s
    );
    println!(
        "| steps with prompts: part of all time, of what they need at least | {:.1} %, {:.1} % |",
        part(seen.model_s - seen.decode_s),
        100.0 * (seen.least_s - seen.decode_least_s) / (seen.model_s - seen.decode_s)
    );
    println!("| first token of a turn, mean and slowest | {:.0} ms, {:.0} ms |", first_ms.0, first_ms.1);
    println!("| rows whose logits came to the host | {} |", seen.on_host);
    println!(
        "| set back, pages given up, at the end free, cached, kept for sessions | {}, {}, {}, {}, {} |\n",
        gauges.preemptions, gauges.evictions, gauges.pages_free, gauges.pages_cached, gauges.pages_pinned
    );
}

fn episodes_at_once<B: Ops + 'static>(bench: &Bench<B>, episodes: usize, turns: usize, prefix_cache: bool) -> Told {
    let vocabulary = bench.vocabulary();
    let model = Watched::new(&bench.model, bench.costs, bench.ceilings);
    let seen = model.seen();
    let limits = EngineLimits {
        running_max: episodes,
        step_rows: bench.given.step_rows,
        prefix_cache,
        ..EngineLimits::default()
    };
    let mut engine = Engine::new(model, None, limits).unwrap();
    let system = Dice::new(0).ids(SYSTEM, vocabulary);
    let mut alive: Vec<Episode> = (0..episodes).map(|which| episode(which, &system, turns, vocabulary)).collect();
    let began = Instant::now();
    let now = || began.elapsed().as_secs_f64();
    let mut asked: Vec<Option<f64>> = vec![None; episodes];
    let (mut first, mut out) = (Vec::new(), Vec::new());
    let (mut told_turns, mut lost, mut context_max) = (0, 0, 0);
    for (which, episode) in alive.iter_mut().enumerate() {
        asked[which] = Some(now());
        engine.submit(request(which, episode), 0).unwrap();
    }
    loop {
        let is_idle = engine.step((1e3 * now()) as u64, &mut out).is_idle();
        for output in out.drain(..) {
            match output {
                Output::Tokens { id, tokens, .. } => {
                    let which = id.0 as usize;
                    first.extend(asked[which].take().map(|at| 1e3 * (now() - at)));
                    alive[which].history.extend(tokens.iter().map(|drawn| drawn.id));
                }
                Output::Done { id, reason, .. } => {
                    let (which, episode) = (id.0 as usize, &mut alive[id.0 as usize]);
                    told_turns += 1;
                    context_max = context_max.max(episode.history.len());
                    episode.turns_left -= 1;
                    if reason != Reason::Length {
                        println!("BROKEN: a turn of episode {which} ended by {reason:?}");
                        lost += 1;
                        episode.turns_left = 0;
                    }
                    let more = episode.dice.between(TOOL.0, TOOL.1);
                    let is_over = episode.turns_left == 0 || episode.history.len() + more + ANSWER.1 > CONTEXT_MAX;
                    if is_over {
                        engine.release_session(SessionId(which as u128));
                    } else {
                        let given = episode.dice.ids(more, vocabulary);
                        episode.history.extend(given);
                        asked[which] = Some(now());
                        engine.submit(request(which, episode), 0).unwrap();
                    }
                }
            }
        }
        if is_idle && engine.gauges().waiting == 0 {
            break;
        }
    }
    let seconds = now();
    if let Err(fault) = engine.audit() {
        println!("BROKEN: the audit at the end: {fault}");
        lost += 1;
    }
    let first_ms = (first.iter().sum::<f64>() / first.len().max(1) as f64, first.iter().copied().fold(0.0, f64::max));
    let seen = *seen.borrow();
    Told { seconds, gauges: engine.gauges(), seen, first_ms, turns: told_turns, context_max, lost }
}

fn episode(which: usize, system: &[u32], turns: usize, vocabulary: usize) -> Episode {
    let mut dice = Dice::new(1_000 + which as u64);
    let own = dice.between(FIRST.0, FIRST.1) - SYSTEM;
    let history = [system, &dice.ids(own, vocabulary)].concat();
    Episode { history, turns_left: turns, dice }
}

/// The next turn: ids of requests are those of their episodes, of which one turn lives at a time.
fn request(which: usize, episode: &mut Episode) -> Request {
    let sampling = Sampling {
        max_new: episode.dice.between(ANSWER.0, ANSWER.1),
        temperature: 0.6,
        top_p: 0.95,
        seed: which as u64,
        ..Sampling::default()
    };
    let (id, session) = (RequestId(which as u64), Some(SessionId(which as u128)));
    Request { id, prompt: episode.history.clone(), sampling, deadline_ms: None, session }
}
