//! Rung 5: steps played back from a recording are those run as they are, to the bit, at every size of a batch; and so are the
//! tokens drawn from them.

use crate::Bench;
use crate::decode::{Drawing, fill};
use crate::dice::Dice;
use legwork_kernels::{Ops, PAGE_TOKENS};

/// Steps of each batch: the first is run, the second recorded, others are played back.
const STEPS: usize = 5;
/// Sequences of the batches.
const BATCHES: [usize; 6] = [1, 2, 7, 8, 33, 64];
/// Tokens before the first step of the shortest sequence; each other has some more.
const PAST: usize = PAGE_TOKENS - 2;
const PAST_MORE: usize = 37;

/// Prints all batches; how many differ.
pub(crate) fn run<B: Ops>(bench: &Bench<B>) -> usize {
    let mut broken = 0;
    println!("| sequences | steps | played back | logits | tokens drawn |\n| ---: | ---: | ---: | --- | --- |");
    let longest = PAST + BATCHES[BATCHES.len() - 1] * PAST_MORE + 2 * STEPS;
    let per = longest.div_ceil(PAGE_TOKENS);
    for sequences in BATCHES.into_iter().filter(|sequences| sequences * per <= bench.pages()) {
        let order = Dice::new(7).pages(bench.pages());
        fill(bench, &mut Dice::new(8), &order[..sequences * per]);
        let pages: Vec<Vec<u32>> = order.chunks(per).take(sequences).map(<[u32]>::to_vec).collect();
        bench.set_recording(false);
        let run = steps(bench, &pages);
        bench.set_recording(true);
        let before = bench.played();
        let recorded = steps(bench, &pages);
        let played = bench.played() - before;
        let logits = run.0.iter().zip(&recorded.0).all(|(one, other)| one.to_bits() == other.to_bits());
        let drawn = run.1 == recorded.1;
        broken += usize::from(!logits) + usize::from(!drawn);
        let shown = |equal: bool| if equal { "equal to the bit" } else { "DIFFER" };
        println!("| {sequences} | {} | {played} | {} | {} |", 2 * STEPS, shown(logits), shown(drawn));
    }
    broken
}

/// Logits of some steps, then tokens drawn in some more.
fn steps<B: Ops>(bench: &Bench<B>, pages: &[Vec<u32>]) -> (Vec<f32>, Vec<u32>) {
    let mut dice = Dice::new(9);
    let mut model = bench.model.borrow_mut();
    let mut drawing = Drawing::new(pages.to_vec(), PAST, vec![0; pages.len()]);
    drawing.past.iter_mut().enumerate().for_each(|(index, past)| *past += index * PAST_MORE);
    let (mut all, mut logits, mut drawn) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STEPS {
        let ids = dice.ids(pages.len(), 100);
        drawing.told(&mut *model, &ids, &mut logits);
        all.extend_from_slice(&logits);
    }
    for _ in 0..STEPS {
        drawing.step(&mut *model);
        drawn.extend_from_slice(&drawing.next);
    }
    (all, drawn)
}
