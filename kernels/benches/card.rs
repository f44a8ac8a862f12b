//! The operations on a card, in the shape of Qwen3-4B: microseconds by the card's own clock, and which part of the ceiling of
//! the same run that is: of the copy's bandwidth where bytes decide, of the product's rate where arithmetic does. Bytes and
//! operations are those of the kernels' heads: the fewest that the work needs. Arguments name the parts that are run.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

#[path = "card/products.rs"]
mod products;

use legwork_kernels::cuda::{CardRows, Ceilings, Cuda, Nvidia};
use legwork_kernels::{Batch, CacheShape, DrawRules, Heads, Ops, PAGE_TOKENS, Rope, Span, Stored};

const HEADS: Heads = Heads { query: 32, kv: 8, dim: 128 };
const HIDDEN: usize = 2_560;
const FFN: usize = 9_728;
const VOCABULARY: usize = 151_936;
const ROUNDS: usize = 21;
/// Bytes of keys and values after which no cache of a card holds the first of them any more.
const BEYOND_CACHES_BYTES: f64 = 4e8;
/// Layers that are gone through for that at most.
const LAYERS_MAX: usize = 36;

fn main() {
    if Nvidia::count() == 0 {
        println!("skipped: there is no card here");
        return;
    }
    let card = Cuda::open(0, None).unwrap();
    let ceilings = card.driver().ceilings().unwrap();
    let named: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    println!(
        "{}: copy {:.2} TB/s, product {:.0} TFLOP/s",
        card.driver().arch().name(),
        ceilings.copy_bytes_s / 1e12,
        ceilings.product_flops_s / 1e12
    );
    println!("{:<44} {:>10} {:>10} {:>10} {:>8}", "what", "µs", "GB/s", "TFLOP/s", "ceiling");
    let table = Table { card: &card, ceilings };
    let parts: [Part; 7] = [
        ("rows", row_by_row),
        ("products", products::products),
        ("layers", products::layers),
        ("layouts", products::layouts),
        ("decoding", decoding),
        ("prefill", prefill),
        ("sampling", sampling),
    ];
    for (name, run) in parts {
        if named.iter().any(|named| named == name) || (named.is_empty() && name != "layouts") {
            run(&table);
        }
    }
}

/// A part of the table, by its name.
type Part = (&'static str, fn(&Table<'_>));

struct Table<'a> {
    card: &'a Cuda,
    ceilings: Ceilings,
}

impl Table<'_> {
    fn line(&self, what: &str, bytes: f64, flops: f64, run: impl FnMut()) {
        let mut run = run;
        let seconds = self.card.driver().seconds(ROUNDS, || {
            run();
            Ok(())
        });
        let seconds = seconds.unwrap();
        let least = (bytes / self.ceilings.copy_bytes_s).max(flops / self.ceilings.product_flops_s);
        println!(
            "{what:<44} {:>10.1} {:>10.0} {:>10.1} {:>7.0}%",
            seconds * 1e6,
            bytes / seconds / 1e9,
            flops / seconds / 1e12,
            100.0 * least / seconds
        );
    }

    /// Rows of numbers from -1 to 1.
    fn rows(&self, rows: usize, width: usize) -> CardRows<Nvidia> {
        let mut state = width as u32;
        let values: Vec<f32> = (0..61 * width)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect();
        let table = self.card.matrix(&[Stored::from_f32(61, width, &values).unwrap()]).unwrap();
        let mut filled = self.card.rows(rows, width).unwrap();
        let ids: Vec<u32> = (0..rows).map(|row| (row % 61) as u32).collect();
        self.card.embed(&table, &ids, &mut filled).unwrap();
        filled
    }
}

fn row_by_row(table: &Table<'_>) {
    let card = table.card;
    for rows in [1, 64, 8_192] {
        let (mut x, delta, mut out) = (table.rows(rows, HIDDEN), table.rows(rows, HIDDEN), table.rows(rows, HIDDEN));
        let weight = card.vector(&[1.0; HIDDEN]).unwrap();
        let bytes = (8 * rows * HIDDEN) as f64;
        table.line(&format!("add and norm, {rows} rows of {HIDDEN}"), bytes, 0.0, || {
            card.add_norm(&mut x, &delta, &weight, 1e-6, &mut out).unwrap();
        });
        let (gate_up, mut out) = (table.rows(rows, 2 * FFN), table.rows(rows, FFN));
        table.line(&format!("SwiGLU, {rows} rows of {FFN}"), (6 * rows * FFN) as f64, 0.0, || {
            card.swiglu(&gate_up, &mut out).unwrap();
        });
    }
}

/// Sequences of `past` tokens with `new` ones each, whose pages follow one another.
fn batch(sequences: usize, past: usize, new: usize) -> Batch {
    let mut batch = Batch::default();
    let pages = (past + new).div_ceil(PAGE_TOKENS);
    for sequence in 0..sequences {
        let of: Vec<u32> = (sequence * pages..(sequence + 1) * pages).map(|page| page as u32).collect();
        batch.push(&vec![0; new], past, &of, false);
    }
    batch
}

/// Attention of a batch whose sequences' `filled` tokens are there already, in a layer after the other, so that no cache of the card
/// holds what is read next.
fn attention(table: &Table<'_>, what: &str, batch: &Batch, filled: &[Batch], bytes: f64, flops: f64) {
    let card = table.card;
    let layers = ((BEYOND_CACHES_BYTES / bytes).ceil() as usize).clamp(1, LAYERS_MAX);
    let shape = CacheShape { layers, pages: batch.pages.len(), kv_heads: HEADS.kv, head_dim: HEADS.dim };
    let mut cache = card.cache(shape).unwrap();
    let frequencies = (0..HEADS.dim / 2).map(|i| 1e6_f32.powf(-(i as f32) / 64.0)).collect();
    let rope = Rope { frequencies, interleaved: false, scale: 1.0 };
    let norm = card.vector(&[1.0; 128]).unwrap();
    let norms = Some((&norm, &norm, 1e-6));
    for batch in filled {
        let mut qkv = table.rows(batch.rows(), HEADS.fused());
        for layer in 0..layers {
            card.rotate_and_keep(&mut qkv, HEADS, norms, &rope, batch, layer, &mut cache).unwrap();
        }
    }
    let mut qkv = table.rows(batch.rows(), HEADS.fused());
    let mut out = card.rows(batch.rows(), HEADS.width()).unwrap();
    let of_row = (2 * (HEADS.query + 2 * HEADS.kv) + 2 * (HEADS.query + HEADS.kv) + 4 * HEADS.kv) * HEADS.dim;
    let mut layer = 0;
    table.line(&format!("rotate and keep, {what}"), (batch.rows() * of_row) as f64, 0.0, || {
        layer = (layer + 1) % layers;
        card.rotate_and_keep(&mut qkv, HEADS, norms, &rope, batch, layer, &mut cache).unwrap();
    });
    table.line(&format!("attention, {what}"), bytes, flops, || {
        layer = (layer + 1) % layers;
        card.attend(&qkv, HEADS, batch, layer, &cache, &mut out).unwrap();
    });
}

fn decoding(table: &Table<'_>) {
    for (sequences, context) in [(1, 1_024), (1, 8_192), (8, 1_024), (8, 8_192), (64, 1_024), (64, 8_192)] {
        let new = batch(sequences, context - 1, 1);
        let filled: Vec<Batch> = new.spans.iter().map(|span| before(&new, span)).collect();
        let bytes = (sequences * context * 2 * HEADS.kv * HEADS.dim * 2) as f64;
        let flops = (4 * sequences * context * HEADS.width()) as f64;
        attention(table, &format!("{sequences} x 1 at {context}"), &new, &filled, bytes, flops);
    }
}

/// The tokens before a span, as a batch of their own.
fn before(batch: &Batch, span: &Span) -> Batch {
    let mut before = Batch::default();
    before.push(&vec![0; span.past], 0, batch.pages_of(span), false);
    before
}

fn prefill(table: &Table<'_>) {
    for (past, new) in [(0, 512), (0, 2_048), (0, 8_192), (0, 32_768), (8_192, 512), (8_192, 200)] {
        let batch = batch(1, past, new);
        let seen: f64 = (past + 1..=past + new).map(|seen| seen as f64).sum();
        let bytes = ((past + new) * 2 * HEADS.kv * HEADS.dim * 2) as f64;
        let flops = 4.0 * seen * HEADS.width() as f64;
        let filled: Vec<Batch> =
            batch.spans.iter().filter(|span| span.past > 0).map(|span| before(&batch, span)).collect();
        attention(table, &format!("{new} after {past}"), &batch, &filled, bytes, flops);
    }
}

/// Logits as of a model: the sum of four even numbers is nearly normal, here with a deviation of 3.5.
fn logits(table: &Table<'_>, rows: usize) -> CardRows<Nvidia> {
    const DIFFERENT: usize = 16;
    let mut state = 1_u32;
    let mut even = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = (0..DIFFERENT * VOCABULARY).map(|_| 3.0 * (0..4).map(|_| even()).sum::<f32>()).collect();
    let matrix = table.card.matrix(&[Stored::from_f32(DIFFERENT, VOCABULARY, &values).unwrap()]).unwrap();
    let mut filled = table.card.rows(rows, VOCABULARY).unwrap();
    let ids: Vec<u32> = (0..rows).map(|row| (row % DIFFERENT) as u32).collect();
    table.card.embed(&matrix, &ids, &mut filled).unwrap();
    filled
}

fn sampling(table: &Table<'_>) {
    for rows in [1, 8, 64, 128] {
        let bytes = (2 * rows * VOCABULARY) as f64;
        let (normal, even) = (logits(table, rows), table.rows(rows, VOCABULARY));
        for (what, logits, temperature, top_p) in [
            ("greedy", &normal, 0.0, 1.0),
            ("temperature 1", &normal, 1.0, 1.0),
            ("top-p 0.95 at 0.6", &normal, 0.6, 0.95),
            ("top-p 0.95 at 0.2, even", &even, 0.2, 0.95),
        ] {
            let rules: Vec<DrawRules> =
                (0..rows as u64).map(|seed| DrawRules { temperature, top_p, min_p: 0.0, seed, position: 0 }).collect();
            table.card.put_rules(&rules).unwrap();
            table.line(&format!("{what}, {rows} rows of {VOCABULARY}"), bytes, 0.0, || {
                table.card.start_sampling(logits).unwrap();
            });
        }
    }
}
