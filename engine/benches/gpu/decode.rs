//! Decode: sequences that each draw a token in every step, as the engine has them: the batch is made anew each step, ids come
//! back from the card and go in again, tokens are drawn at temperature 0.6 and top-p 0.95. Pages of different sequences are
//! different memory, filled by prompts and in no order.

use crate::Bench;
use crate::dice::Dice;
use crate::table::{Floor, Table};
use crate::work::Costs;
use legwork_engine::{Sampling, Scratch, Seen, sample};
use legwork_kernels::{Batch, DrawRules, Ops, PAGE_TOKENS};
use legwork_model::{Forward, Next};
use std::time::Instant;

/// Steps before those that count: kernels are compiled, the step is recorded.
const WARM_STEPS: usize = 4;
/// Tokens of a prompt that fills pages.
const FILL_TOKENS: usize = 8 * PAGE_TOKENS;
pub(crate) const TEMPERATURE: f64 = 0.6;
pub(crate) const TOP_P: f64 = 0.95;

/// Sequences that draw.
pub(crate) struct Drawing {
    /// The token to go in next, of each.
    pub(crate) next: Vec<u32>,
    /// Tokens in the cache, of each.
    pub(crate) past: Vec<usize>,
    /// Pages of each.
    pub(crate) pages: Vec<Vec<u32>>,
    batch: Batch,
    rules: Vec<Option<DrawRules>>,
    told: Vec<Next>,
    logits: Vec<f32>,
    scratch: Scratch,
    drawn: u64,
}

impl Drawing {
    /// As many sequences as there are lists of pages, each with so many tokens before.
    pub(crate) fn new(pages: Vec<Vec<u32>>, past: usize, next: Vec<u32>) -> Self {
        Self {
            next,
            past: vec![past; pages.len()],
            pages,
            batch: Batch::default(),
            rules: Vec::new(),
            told: Vec::new(),
            logits: Vec::new(),
            scratch: Scratch::default(),
            drawn: 0,
        }
    }

    /// One step of all; the least seconds that it takes come from `costs`.
    pub(crate) fn step<M: Forward>(&mut self, model: &mut M) {
        let vocabulary = model.limits().vocabulary;
        self.fill_batch();
        self.rules.clear();
        let rules = |seed| DrawRules { temperature: TEMPERATURE, top_p: TOP_P, min_p: 0.0, seed, position: self.drawn };
        self.rules.extend((0..self.next.len() as u64).map(|seed| Some(rules(seed))));
        model.forward_and_draw(&self.batch, &self.rules, &mut self.told, &mut self.logits).unwrap();
        for (seed, (next, told)) in self.next.iter_mut().zip(&self.told).enumerate() {
            *next = match told {
                Next::Drawn(drawn) => drawn.id,
                Next::Logits(row) => {
                    let logits = &self.logits[row * vocabulary..(row + 1) * vocabulary];
                    let seed = seed as u64;
                    let sampling = Sampling { temperature: TEMPERATURE, top_p: TOP_P, seed, ..Sampling::default() };
                    let seen = Seen::new(&[], &sampling);
                    sample(logits, &sampling, &seen, self.drawn, &mut self.scratch).unwrap().id
                }
            };
        }
        self.past.iter_mut().for_each(|past| *past += 1);
        self.drawn += 1;
    }

    /// One step of all whose logits come to the host; the ids that go in are given.
    pub(crate) fn told<M: Forward>(&mut self, model: &mut M, ids: &[u32], logits: &mut Vec<f32>) {
        self.next.copy_from_slice(ids);
        self.fill_batch();
        model.forward(&self.batch, logits).unwrap();
        self.past.iter_mut().for_each(|past| *past += 1);
    }

    fn fill_batch(&mut self) {
        self.batch.clear();
        for ((next, past), pages) in self.next.iter().zip(&self.past).zip(&self.pages) {
            self.batch.push(&[*next], *past, pages, true);
        }
    }

    pub(crate) fn least_s<B: Ops>(&mut self, bench: &Bench<B>, costs: &Costs) -> f64 {
        self.fill_batch();
        costs.least_s(&self.batch, bench.ceilings)
    }
}

/// Fills pages with keys and values of random tokens.
pub(crate) fn fill<B: Ops>(bench: &Bench<B>, dice: &mut Dice, pages: &[u32]) {
    let mut model = bench.model.borrow_mut();
    let (rows_max, vocabulary) = (model.limits().rows_max.min(bench.given.chunk_rows), model.limits().vocabulary);
    let (mut batch, mut logits) = (Batch::default(), Vec::new());
    for pages in pages.chunks(FILL_TOKENS / PAGE_TOKENS) {
        let tokens = pages.len() * PAGE_TOKENS;
        if batch.rows() + tokens > rows_max {
            model.forward(&batch, &mut logits).unwrap();
            batch.clear();
        }
        batch.push(&dice.ids(tokens, vocabulary), 0, pages, false);
    }
    model.forward(&batch, &mut logits).unwrap();
}

/// What ENGINE.md asks for.
fn floor(sequences: usize, context: usize) -> Option<Floor> {
    match (sequences, context) {
        (1, 1_024) => Some(Floor { tokens_s: 400.0, part: 0.75 }),
        (64, 1_024) => Some(Floor { tokens_s: 12_000.0, part: 0.0 }),
        (64, 8_192) => Some(Floor { tokens_s: 2_600.0, part: 0.80 }),
        _ => None,
    }
}

/// Prints the rows of all batches and contexts.
pub(crate) fn run<B: Ops>(bench: &Bench<B>, table: &mut Table) {
    let mut dice = Dice::new(1);
    let steps = bench.given.steps;
    let ahead = (WARM_STEPS + steps).div_ceil(2);
    let order = dice.pages(bench.pages());
    // The mean context of the steps that count is the one named; what does not fit is as long as it can be.
    let fits = |sequences: usize, context: usize| {
        let most = (bench.pages() / sequences) * PAGE_TOKENS;
        context.min((most.saturating_sub(ahead + 1)) / PAGE_TOKENS * PAGE_TOKENS)
    };
    let per = |context: usize| (context + ahead + 1).div_ceil(PAGE_TOKENS);
    let rows: Vec<(usize, usize, usize)> = bench
        .given
        .contexts
        .iter()
        .flat_map(|context| bench.given.batches.iter().map(|sequences| (*sequences, *context)))
        .map(|(sequences, context)| (sequences, context, fits(sequences, context)))
        .filter(|(_, _, fitting)| *fitting > ahead)
        .collect();
    let needed = rows.iter().map(|(sequences, _, context)| sequences * per(*context)).max().unwrap_or(1);
    let began = Instant::now();
    fill(bench, &mut dice, &order[..needed.min(order.len())]);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "filled {needed} pages in {seconds:.1} s ({:.0} tokens a second, prompts of {FILL_TOKENS})\n",
        (needed * PAGE_TOKENS) as f64 / seconds
    );
    table.head();
    for (sequences, asked, context) in rows {
        let pages = order.chunks(per(context)).take(sequences).map(<[u32]>::to_vec).collect();
        let next = dice.ids(sequences, bench.vocabulary());
        let mut drawing = Drawing::new(pages, context - ahead, next);
        let mut model = bench.model.borrow_mut();
        for _ in 0..WARM_STEPS {
            drawing.step(&mut *model);
        }
        let (mut least, mut each) = (0.0, Vec::new());
        for _ in 0..steps {
            least += drawing.least_s(bench, &bench.costs);
            let began = Instant::now();
            drawing.step(&mut *model);
            each.push(began.elapsed().as_secs_f64());
        }
        drop(model);
        let all: f64 = each.iter().sum();
        let tokens = (sequences * steps) as f64;
        let shown = if context == asked { String::new() } else { format!(" ({asked} do not fit)") };
        let what = format!("decode, {sequences} x 1 at {context}{shown}");
        table.row(&what, tokens / all, 1e3 * all / steps as f64, tokens / least, floor(sequences, context));
    }
    println!("\n{} steps were played back from recordings so far", bench.played());
}
