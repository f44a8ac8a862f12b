//! The operations on a card, in the shape of Qwen3-4B: microseconds by the card's own clock, and which part of the ceiling of
//! the same run that is: of the copy's bandwidth where bytes decide, of the product's rate where arithmetic does. Bytes and
//! operations are those of the kernels' heads: the fewest that the work needs. Arguments name the parts that are run.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

#[path = "card/products.rs"]
mod products;

use legwork_kernels::cuda::{CardRows, Ceilings, Cuda, Nvidia};
use legwork_kernels::{Batch, CacheShape, DrawRules, Heads, Ops, PAGE_TOKENS, Rope, Stored};

const HEADS: Heads = Heads { query: 32, kv: 8, dim: 128 };
const HIDDEN: usize = 2_560;
const FFN: usize = 9_728;
const VOCABULARY: usize = 151_936;
const ROUNDS: usize = 21;

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
    let parts: [(&str, fn(&Table<'_>)); 6] = [
        ("rows", row_by_row),
        ("products", products::products),
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

fn attention(table: &Table<'_>, what: &str, batch: &Batch, bytes: f64, flops: f64) {
    let card = table.card;
    let shape = CacheShape { layers: 1, pages: batch.pages.len(), kv_heads: HEADS.kv, head_dim: HEADS.dim };
    let mut cache = card.cache(shape).unwrap();
    let mut qkv = table.rows(batch.rows(), HEADS.fused());
    let mut out = card.rows(batch.rows(), HEADS.width()).unwrap();
    let frequencies = (0..HEADS.dim / 2).map(|i| 1e6_f32.powf(-(i as f32) / 64.0)).collect();
    let rope = Rope { frequencies, interleaved: false, scale: 1.0 };
    let norm = card.vector(&[1.0; 128]).unwrap();
    let of_row = (2 * (HEADS.query + 2 * HEADS.kv) + 2 * (HEADS.query + HEADS.kv) + 4 * HEADS.kv) * HEADS.dim;
    table.line(&format!("rotate and keep, {what}"), (batch.rows() * of_row) as f64, 0.0, || {
        card.rotate_and_keep(&mut qkv, HEADS, Some((&norm, &norm, 1e-6)), &rope, batch, 0, &mut cache).unwrap();
    });
    table.line(&format!("attention, {what}"), bytes, flops, || {
        card.attend(&qkv, HEADS, batch, 0, &cache, &mut out).unwrap();
    });
}

fn decoding(table: &Table<'_>) {
    for (sequences, context) in [(1, 1_024), (1, 8_192), (8, 8_192), (64, 1_024), (64, 8_192)] {
        let batch = batch(sequences, context - 1, 1);
        let bytes = (sequences * context * 2 * HEADS.kv * HEADS.dim * 2) as f64;
        let flops = (4 * sequences * context * HEADS.width()) as f64;
        attention(table, &format!("{sequences} x 1 at {context}"), &batch, bytes, flops);
    }
}

fn prefill(table: &Table<'_>) {
    for (past, new) in [(0, 2_048), (0, 8_192), (0, 32_768), (8_192, 512)] {
        let batch = batch(1, past, new);
        let seen: f64 = (past + 1..=past + new).map(|seen| seen as f64).sum();
        let bytes = ((past + new) * 2 * HEADS.kv * HEADS.dim * 2) as f64;
        let flops = 4.0 * seen * HEADS.width() as f64;
        attention(table, &format!("{new} after {past}"), &batch, bytes, flops);
    }
}

fn sampling(table: &Table<'_>) {
    for rows in [1, 64] {
        let logits = table.rows(rows, VOCABULARY);
        let rules: Vec<DrawRules> = (0..rows as u64)
            .map(|seed| DrawRules { temperature: 0.2, top_p: 0.95, min_p: 0.0, seed, position: 0 })
            .collect();
        let mut drawn = Vec::new();
        table.line(&format!("top-p, {rows} rows of {VOCABULARY}"), (2 * rows * VOCABULARY) as f64, 0.0, || {
            table.card.sample(&logits, &rules, &mut drawn).unwrap();
        });
    }
}
