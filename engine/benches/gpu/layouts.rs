//! Rung 5: one prompt computed in different ways. Ways that add in different orders differ by rounding, so they are held to
//! what rounding is on this model: two ways may be as far from each other as two independent roundings of transformers' bf16.
//! What adds in the same order must be equal to the bit.

use crate::Bench;
use crate::decode::{Drawing, fill};
use crate::dice::Dice;
use crate::goldens::{self, Golden, divergences, farthest, mean, most};
use crate::parity::{as_prompt, in_chunks, pages_from, token_by_token};
use legwork_kernels::{Batch, Ops, PAGE_TOKENS};
use legwork_model::Forward;
use std::path::Path;

/// How far two ways may be from each other, as KL in the mean, for each nat of transformers' bf16 from f32: two roundings
/// that know nothing of each other are twice as far from each other as each is from the truth.
const APART_MAX: f64 = 2.0;
/// Sequences beside the one that is looked at.
const OTHERS: usize = 63;

/// Prints all ways; how many are too far apart.
pub(crate) fn run<B: Ops>(bench: &Bench<B>, folder: &Path) -> usize {
    let vocabulary = bench.vocabulary();
    let goldens = goldens::open(folder, vocabulary);
    let Some(golden) = goldens.last() else {
        println!("skipped: there are no goldens beside the model");
        return 0;
    };
    let theirs = mean(&divergences(&golden.exact, &golden.bf16, vocabulary));
    let tokens = golden.ids.len();
    println!(
        "a prompt of {tokens} tokens, its last {}; bound on the mean: {APART_MAX} x {theirs:.3e}, transformers' bf16 from \
         f32\n\n| ways | KL, mean (greatest) | log-probabilities apart, greatest | |\n| --- | ---: | ---: | --- |",
        golden.last
    );
    let mut broken = 0;
    let mut line = |what: &str, one: &[f32], other: &[f32], is_exact: bool| {
        let apart = divergences(one, other, vocabulary);
        let is_equal = one.iter().zip(other).all(|(one, other)| one.to_bits() == other.to_bits());
        let holds = if is_exact { is_equal } else { mean(&apart) <= APART_MAX * theirs };
        broken += usize::from(!holds);
        println!(
            "| {what} | {:.3e} ({:.3e}) | {:.3e} | {}{} |",
            mean(&apart).max(0.0),
            most(&apart),
            farthest(one, other, vocabulary),
            if is_equal { "equal to the bit, " } else { "" },
            if holds { "held" } else { "BROKEN" }
        );
    };
    let whole = as_prompt(bench, golden);
    line(
        "whole, and again on other pages",
        &whole,
        &in_chunks(bench, golden, &[tokens], &pages_from(40, tokens)),
        true,
    );
    let odd = [PAGE_TOKENS, 1, 1, 1, 130, tokens];
    line("whole, and in odd chunks", &whole, &in_chunks(bench, golden, &odd, &pages_from(0, tokens)), false);
    let cached = (tokens - golden.last) / PAGE_TOKENS * PAGE_TOKENS;
    let behind = in_chunks(bench, golden, &[cached, tokens], &pages_from(0, tokens));
    line("whole, and behind pages that were there (prefix cache)", &whole, &behind, false);
    let alone = token_by_token(bench, golden);
    line("whole, and token by token", &whole, &alone, false);
    let beside = beside_others(bench, golden);
    line(&format!("token by token, alone and beside {OTHERS} others"), &alone, &beside, false);
    let among = among_prompts(bench, golden);
    line("whole, alone and beside another prompt in one step", &whole, &among, false);
    let (stayed, moved) = saved_and_loaded(bench, golden);
    line("one step, and after pages were saved, loaded elsewhere", &stayed, &moved, true);
    broken
}

/// Logits of the last positions, each computed as a step of one token beside others of many lengths.
fn beside_others<B: Ops>(bench: &Bench<B>, golden: &Golden) -> Vec<f32> {
    let (tokens, vocabulary) = (golden.ids.len(), bench.vocabulary());
    let own = pages_from(0, tokens);
    let first = tokens - golden.last;
    let per = (tokens + golden.last).div_ceil(PAGE_TOKENS);
    let others = OTHERS.min((bench.pages() - own.len()) / per);
    let mut dice = Dice::new(5);
    let mut pages = vec![own.clone()];
    for other in 0..others {
        pages.push(pages_from(own.len() + other * per, per * PAGE_TOKENS));
    }
    fill(bench, &mut dice, &pages[1..].concat());
    let (mut batch, mut logits, mut all) = (Batch::default(), Vec::new(), Vec::new());
    let mut model = bench.model.borrow_mut();
    batch.push(&golden.ids[..first], 0, &own, false);
    model.forward(&batch, &mut logits).unwrap();
    let mut drawing = Drawing::new(pages, first, vec![0; others + 1]);
    drawing.past[1..].iter_mut().for_each(|past| *past = dice.between(1, first));
    for id in &golden.ids[first..] {
        let ids = [vec![*id], dice.ids(others, vocabulary)].concat();
        drawing.told(&mut *model, &ids, &mut logits);
        all.extend_from_slice(&logits[..vocabulary]);
    }
    all
}

/// Logits of the last positions of a prompt that shares its step with another.
fn among_prompts<B: Ops>(bench: &Bench<B>, golden: &Golden) -> Vec<f32> {
    let (tokens, vocabulary) = (golden.ids.len(), bench.vocabulary());
    let mut batch = Batch::default();
    let mut logits = Vec::new();
    let other = Dice::new(6).ids(77, vocabulary);
    batch.push(&other, 0, &pages_from(60, other.len()), false);
    batch.push(&golden.ids, 0, &pages_from(0, tokens), false);
    let end = other.len() + tokens;
    batch.wanted = (end - golden.last..end).map(|row| row as u32).collect();
    bench.model.borrow_mut().forward(&batch, &mut logits).unwrap();
    logits
}

/// Logits of the last token as a step of its own, before and after all pages before it were saved and loaded elsewhere.
fn saved_and_loaded<B: Ops>(bench: &Bench<B>, golden: &Golden) -> (Vec<f32>, Vec<f32>) {
    let tokens = golden.ids.len();
    let (from, to) = (pages_from(0, tokens), pages_from(90, tokens));
    let mut model = bench.model.borrow_mut();
    let (mut batch, mut before, mut after) = (Batch::default(), Vec::new(), Vec::new());
    batch.push(&golden.ids[..tokens - 1], 0, &from, false);
    model.forward(&batch, &mut before).unwrap();
    let saved = model.save_pages(&from).unwrap();
    let last = [golden.ids[tokens - 1]];
    Drawing::new(vec![from], tokens - 1, last.to_vec()).told(&mut *model, &last, &mut before);
    model.load_pages(&to, &saved).unwrap();
    Drawing::new(vec![to], tokens - 1, last.to_vec()).told(&mut *model, &last, &mut after);
    (before, after)
}
