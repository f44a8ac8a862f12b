//! What learning costs on a card, in the shape of Qwen3-4B and 8,192 packed rows: microseconds by the card's own clock, and
//! which part of the ceiling of the same run that is: of the copy's bandwidth where bytes decide, of the product's rate where
//! arithmetic does. Bytes and operations are those of the kernels' heads: the fewest that the work needs, so that attention's
//! way back counts ten a visible key and value, whatever is computed again. Arguments name the parts that are run.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

use legwork_kernels::cuda::{CardParam, CardRows, Ceilings, Cuda, Nvidia};
use legwork_kernels::{AdamW, Heads, Learn, Ops, OpsError, Part, Rope, Stored};

const HEADS: Heads = Heads { query: 32, kv: 8, dim: 128 };
const HIDDEN: usize = 2_560;
const FFN: usize = 9_728;
const VOCABULARY: usize = 151_936;
const ROWS: usize = 8_192;
/// Rows of the head that are computed together.
const HEAD_ROWS: usize = 883;
const ROUNDS: usize = 7;

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
    println!("{:<52} {:>10} {:>8} {:>9} {:>8}", "what", "µs", "GB/s", "TFLOP/s", "ceiling");
    let table = Table { card: &card, ceilings };
    let parts: [Lines; 4] = [("attention", attention), ("products", products), ("rows", rows), ("updates", updates)];
    for (name, run) in parts {
        if named.is_empty() || named.iter().any(|named| named == name) {
            run(&table);
        }
    }
}

/// Lines of the table, by the name that an argument gives them.
type Lines = (&'static str, fn(&Table<'_>));

struct Table<'a> {
    card: &'a Cuda,
    ceilings: Ceilings,
}

impl Table<'_> {
    fn line(&self, what: &str, bytes: f64, flops: f64, run: impl FnMut() -> Result<(), OpsError>) {
        // What copies cannot be recorded, and is timed as it runs.
        let seconds = self.card.driver().seconds(ROUNDS, run).unwrap();
        let least = (bytes / self.ceilings.copy_bytes_s).max(flops / self.ceilings.product_flops_s);
        println!(
            "{what:<52} {:>10.1} {:>8.0} {:>9.1} {:>7.0}%",
            seconds * 1e6,
            bytes / seconds / 1e9,
            flops / seconds / 1e12,
            100.0 * least / seconds
        );
    }

    /// Rows of numbers from -1 to 1.
    fn rows(&self, rows: usize, width: usize) -> CardRows<Nvidia> {
        let values = numbers(61 * width);
        let table = self.card.matrix(&[Stored::from_f32(61, width, &values).unwrap()]).unwrap();
        let mut filled = self.card.rows(rows, width).unwrap();
        let ids: Vec<u32> = (0..rows).map(|row| (row % 61) as u32).collect();
        self.card.embed(&table, &ids, &mut filled).unwrap();
        filled
    }

    fn param(&self, rows: usize, cols: usize) -> CardParam<Nvidia> {
        self.card.param([rows, cols], &numbers(rows * cols)).unwrap()
    }
}

fn numbers(count: usize) -> Vec<f32> {
    let mut state = count as u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn attention(table: &Table<'_>) {
    let card = table.card;
    for (sequences, length) in [(1, 8_192), (8, 1_024), (8, 2_048), (1, 32_768)] {
        let rows = sequences * length;
        let starts: Vec<u32> = (0..=sequences).map(|number| (number * length) as u32).collect();
        let (qkv, d_out) = (table.rows(rows, HEADS.fused()), table.rows(rows, HEADS.width()));
        let mut out = card.rows(rows, HEADS.width()).unwrap();
        let (mut lse, mut d_qkv) = (card.sums(rows, HEADS.query).unwrap(), card.rows(rows, HEADS.fused()).unwrap());
        let pairs = (sequences * length * (length + 1) / 2 * HEADS.query * HEADS.dim) as f64;
        let name = |way: &str| format!("attention, {sequences} of {length}, {way}");
        table
            .line(&name("forward"), 0.0, 4.0 * pairs, || card.attend_forward(&qkv, HEADS, &starts, &mut out, &mut lse));
        table.line(&name("back"), 0.0, 10.0 * pairs, || {
            card.attend_backward(&qkv, HEADS, &starts, &out, &lse, &d_out, &mut d_qkv)
        });
    }
}

fn products(table: &Table<'_>) {
    let card = table.card;
    let shapes = [
        ("qkv", ROWS, HIDDEN, HEADS.fused()),
        ("output", ROWS, HEADS.width(), HIDDEN),
        ("gate and up", ROWS, HIDDEN, 2 * FFN),
        ("down", ROWS, FFN, HIDDEN),
        ("head", HEAD_ROWS, HIDDEN, VOCABULARY),
    ];
    for (name, rows, inputs, outputs) in shapes {
        let (x, d_out) = (table.rows(rows, inputs), table.rows(rows, outputs));
        let (mut out, mut dx) = (card.rows(rows, outputs).unwrap(), card.rows(rows, inputs).unwrap());
        let mut weight = table.param(outputs, inputs);
        let flops = 2.0 * rows as f64 * inputs as f64 * outputs as f64;
        table.line(&format!("{name}, {rows} x {inputs} to {outputs}, forward"), 0.0, flops, || {
            card.linear_forward(&x, &weight, None, &mut out)
        });
        table.line(&format!("{name}, weights back"), (8 * inputs * outputs) as f64, flops, || {
            card.linear_backward(&x, &mut weight, None, &d_out, None)
        });
        table.line(&format!("{name}, both back"), 0.0, 2.0 * flops, || {
            card.linear_backward(&x, &mut weight, None, &d_out, Some(&mut dx))
        });
    }
}

fn rows(table: &Table<'_>) {
    let card = table.card;
    let (x, d, mut dx) = (table.rows(ROWS, HIDDEN), table.rows(ROWS, HIDDEN), table.rows(ROWS, HIDDEN));
    let (mut out, mut weight) = (card.rows(ROWS, HIDDEN).unwrap(), table.param(1, HIDDEN));
    let values = (ROWS * HIDDEN) as f64;
    table.line("copy", 4.0 * values, 0.0, || card.copy(&x, &mut out));
    table.line("add", 6.0 * values, 0.0, || card.add(&mut out, &d));
    table.line("norm, forward", 4.0 * values, 0.0, || card.norm_forward(&x, &weight, 1e-6, &mut out));
    table.line("norm, back", 8.0 * values, 0.0, || card.norm_backward(&x, &mut weight, 1e-6, &d, &mut dx));
    let (gate_up, of_out, mut d_gate_up) =
        (table.rows(ROWS, 2 * FFN), table.rows(ROWS, FFN), card.rows(ROWS, 2 * FFN).unwrap());
    table.line("swiglu, back", (10 * ROWS * FFN) as f64, 0.0, || {
        card.swiglu_backward(&gate_up, &of_out, &mut d_gate_up)
    });
    let rope = Rope { frequencies: vec![0.1; HEADS.dim / 2], interleaved: false, scale: 1.0 };
    let positions: Vec<u32> = (0..ROWS as u32).collect();
    let (before, mut qkv) = (table.rows(ROWS, HEADS.fused()), table.rows(ROWS, HEADS.fused()));
    let (mut query, mut key) = (table.param(1, HEADS.dim), table.param(1, HEADS.dim));
    let turned = (ROWS * (HEADS.query + HEADS.kv) * HEADS.dim) as f64;
    table.line("rotation, forward", 4.0 * turned, 0.0, || {
        card.rotate_forward(&mut qkv, HEADS, Some((&query, &key, 1e-6)), &rope, &positions)
    });
    table.line("rotation, back", 6.0 * turned, 0.0, || {
        card.rotate_backward(&before, HEADS, Some((&mut query, &mut key, 1e-6)), &rope, &positions, &mut qkv)
    });
    let mut embedding = table.param(ROWS, HIDDEN);
    let ids: Vec<u32> = (0..ROWS).map(|row| (row * 7_919 % ROWS) as u32).collect();
    table.line("embedding, back", 10.0 * values, 0.0, || card.embed_backward(&mut embedding, 0, &ids, &d));
    let mut logits = table.rows(HEAD_ROWS, VOCABULARY);
    let (targets, weights, mut losses) = (vec![3; HEAD_ROWS], vec![1.0; HEAD_ROWS], Vec::new());
    table.line("cross-entropy, 883 rows", (6 * HEAD_ROWS * VOCABULARY) as f64, 0.0, || {
        card.cross_entropy(&mut logits, 0, VOCABULARY, &targets, &weights, &mut losses)
    });
}

fn updates(table: &Table<'_>) {
    let card = table.card;
    let mut param = table.param(2 * FFN, HIDDEN);
    let values = (2 * FFN * HIDDEN) as f64;
    card.write_param(&mut param, Part::Gradient, &numbers(2 * FFN * HIDDEN)).unwrap();
    table.line("sum of squares, 50 million values", 4.0 * values, 0.0, || {
        card.gradient_squares(&mut [&param].into_iter()).map(drop)
    });
    let step = AdamW { rate: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1, step: 3, scale: 1.0 };
    table.line("adamw, 50 million values", 34.0 * values, 0.0, || card.adamw(&mut param, &step));
    table.line("zero, 50 million values", 4.0 * values, 0.0, || card.zero_gradient(&mut param));
}
