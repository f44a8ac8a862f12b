//! Rung 4: how far our bf16 is from transformers' f32, beside how far transformers' own bf16 is, over the last positions of
//! prompts: computed as prompts, and token by token as answers are.

use crate::Bench;
use crate::decode::Drawing;
use crate::goldens::{self, Golden, divergences, mean, most};
use legwork_kernels::{Batch, Ops, PAGE_TOKENS};
use legwork_model::Forward;
use std::path::Path;

/// Our divergence from f32 for each nat of transformers', at most.
const DIVERGENCE_MAX: f64 = 1.2;

/// Prints all prompts; how many means are beyond the bound.
pub(crate) fn run<B: Ops>(bench: &Bench<B>, folder: &Path) -> usize {
    let vocabulary = bench.vocabulary();
    let goldens = goldens::open(folder, vocabulary);
    if goldens.is_empty() {
        println!("skipped: there are no goldens beside the model");
        return 0;
    }
    println!("| prompt | transformers' bf16 | ours, as a prompt | of theirs | ours, token by token | of theirs |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let (mut theirs, mut whole, mut single) = (Vec::new(), Vec::new(), Vec::new());
    for golden in &goldens {
        let their = divergences(&golden.exact, &golden.bf16, vocabulary);
        let as_prompt = divergences(&golden.exact, &as_prompt(bench, golden), vocabulary);
        let as_answer = divergences(&golden.exact, &token_by_token(bench, golden), vocabulary);
        line(&format!("{} tokens", golden.ids.len()), &their, &as_prompt, &as_answer);
        theirs.extend(their);
        whole.extend(as_prompt);
        single.extend(as_answer);
    }
    line("all", &theirs, &whole, &single);
    let broken = [&whole, &single].into_iter().filter(|ours| mean(ours) > DIVERGENCE_MAX * mean(&theirs)).count();
    let verdict = if broken == 0 { "held" } else { "BROKEN" };
    println!(
        "\nKL(f32 || bf16) in nats, mean (greatest); bound on the mean of all: {DIVERGENCE_MAX} x theirs: {verdict}"
    );
    broken
}

fn line(what: &str, theirs: &[f64], whole: &[f64], single: &[f64]) {
    let shown = |values: &[f64]| format!("{:.3e} ({:.3e})", mean(values), most(values));
    let part = |values: &[f64]| format!("{:.3} ({:.3})", mean(values) / mean(theirs), most(values) / most(theirs));
    println!(
        "| {what} | {} | {} | {} | {} | {} |",
        shown(theirs),
        shown(whole),
        part(whole),
        shown(single),
        part(single)
    );
}

/// Logits of the last positions, of a prompt computed whole.
pub(crate) fn as_prompt<B: Ops>(bench: &Bench<B>, golden: &Golden) -> Vec<f32> {
    in_chunks(bench, golden, &[golden.ids.len()], &pages_from(0, golden.ids.len()))
}

/// Pages from a number on, backwards, so that they do not follow one another as they would by chance.
pub(crate) fn pages_from(first: usize, tokens: usize) -> Vec<u32> {
    (0..tokens.div_ceil(PAGE_TOKENS)).rev().map(|page| (first + page) as u32).collect()
}

/// Logits of the last positions, of a prompt computed in chunks.
pub(crate) fn in_chunks<B: Ops>(bench: &Bench<B>, golden: &Golden, chunks: &[usize], pages: &[u32]) -> Vec<f32> {
    let mut model = bench.model.borrow_mut();
    let kept_from = golden.ids.len() - golden.last;
    let (mut batch, mut logits, mut all, mut past) = (Batch::default(), Vec::new(), Vec::new(), 0);
    for chunk in chunks {
        let end = (past + chunk).min(golden.ids.len());
        batch.clear();
        batch.push(&golden.ids[past..end], past, pages, false);
        batch.wanted = (past.max(kept_from)..end).map(|position| (position - past) as u32).collect();
        model.forward(&batch, &mut logits).unwrap();
        all.extend_from_slice(&logits);
        past = end;
    }
    assert_eq!(past, golden.ids.len(), "chunks of the whole prompt");
    all
}

/// Logits of the last positions, each computed as a step of one token.
pub(crate) fn token_by_token<B: Ops>(bench: &Bench<B>, golden: &Golden) -> Vec<f32> {
    let pages = pages_from(0, golden.ids.len());
    let first = golden.ids.len() - golden.last;
    let mut model = bench.model.borrow_mut();
    let (mut batch, mut logits, mut all) = (Batch::default(), Vec::new(), Vec::new());
    batch.push(&golden.ids[..first], 0, &pages, false);
    model.forward(&batch, &mut logits).unwrap();
    let mut drawing = Drawing::new(vec![pages], first, vec![0]);
    for id in &golden.ids[first..] {
        drawing.told(&mut *model, &[*id], &mut logits);
        all.extend_from_slice(&logits);
    }
    all
}
