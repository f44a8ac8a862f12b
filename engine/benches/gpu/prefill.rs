//! Prefill: prompts of random tokens, whole and in chunks as the engine would have them, with the head on the last token only,
//! which is drawn on the card.

use crate::Bench;
use crate::decode::{TEMPERATURE, TOP_P};
use crate::dice::Dice;
use crate::table::{Floor, Table};
use legwork_kernels::{Batch, DrawRules, Ops, PAGE_TOKENS};
use legwork_model::Forward;
use std::time::Instant;

/// Prompts of a row; the median counts.
const ROUNDS: usize = 5;

/// What ENGINE.md asks for.
fn floor(tokens: usize) -> Option<Floor> {
    match tokens {
        2_048 => Some(Floor { tokens_s: 0.0, part: 0.5 }),
        8_192 => Some(Floor { tokens_s: 41_000.0, part: 0.5 }),
        _ => None,
    }
}

/// Prints the rows of all prompts.
pub(crate) fn run<B: Ops>(bench: &Bench<B>, table: &mut Table) {
    let mut dice = Dice::new(2);
    let order = dice.pages(bench.pages());
    table.head();
    for tokens in &bench.given.prompts {
        let pages = tokens.div_ceil(PAGE_TOKENS);
        if pages > order.len() {
            println!("| prefill, {tokens}: needs {pages} pages, there are {} | | | | | | |", order.len());
            continue;
        }
        for (chunk, name) in chunks(*tokens, bench.given.chunk_rows, bench.given.rows_max) {
            let (mut least, mut each) = (0.0, Vec::new());
            // The first is to warm up.
            for round in 0..=ROUNDS {
                let ids = dice.ids(*tokens, bench.vocabulary());
                let began = Instant::now();
                least = prompt(bench, &ids, &order[..pages], chunk);
                if round > 0 {
                    each.push(began.elapsed().as_secs_f64());
                }
            }
            each.sort_by(f64::total_cmp);
            let (median, count) = (each[each.len() / 2], *tokens as f64);
            table.row(
                &format!("prefill, {tokens} {name}"),
                count / median,
                1e3 * median,
                count / least,
                floor(*tokens),
            );
        }
    }
}

/// Whole, and in chunks where that is something else.
fn chunks(tokens: usize, chunk: usize, rows_max: usize) -> Vec<(usize, String)> {
    let mut chunks = Vec::new();
    if tokens <= rows_max {
        chunks.push((tokens, "whole".to_owned()));
    }
    if tokens > chunk {
        chunks.push((chunk, format!("in chunks of {chunk}")));
    }
    chunks
}

/// Computes a prompt and draws its first token; the least seconds that it takes.
fn prompt<B: Ops>(bench: &Bench<B>, ids: &[u32], pages: &[u32], chunk: usize) -> f64 {
    let mut model = bench.model.borrow_mut();
    let (mut batch, mut next, mut logits, mut least) = (Batch::default(), Vec::new(), Vec::new(), 0.0);
    for (index, some) in ids.chunks(chunk).enumerate() {
        let past = index * chunk;
        let is_last = past + some.len() == ids.len();
        batch.clear();
        batch.push(some, past, pages, is_last);
        let rules = DrawRules { temperature: TEMPERATURE, top_p: TOP_P, ..DrawRules::default() };
        let rules = if is_last { vec![Some(rules)] } else { Vec::new() };
        model.forward_and_draw(&batch, &rules, &mut next, &mut logits).unwrap();
        least += bench.costs.least_s(&batch, bench.ceilings);
    }
    least
}
