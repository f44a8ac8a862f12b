//! Products: ours of few rows beside cuBLASLt's, over weights that rotate among sets which no cache holds, and cuBLASLt's of
//! many rows. Weights are random; what is between the launches of one after the other is in the time, as in a model.

#![allow(unsafe_code, reason = "kernels are not checked")]

use super::{FFN, HIDDEN, Table, VOCABULARY};
use legwork_kernels::cuda::Nvidia;
use legwork_kernels::cuda::driver::{Driver, Product};
use legwork_kernels::cuda::linear::{Few, Layout};

/// Name, outputs, inputs.
const SHAPES: [(&str, usize, usize); 5] = [
    ("qkv", 6_144, HIDDEN),
    ("o", HIDDEN, 4_096),
    ("gate and up", 2 * FFN, HIDDEN),
    ("down", HIDDEN, FFN),
    ("head", VOCABULARY, HIDDEN),
];
/// Bytes of all sets of weights at least: many times what any cache holds.
const ROTATED_BYTES: usize = 600 << 20;
/// Bytes of random values; weights repeat them.
const RANDOM_BYTES: usize = 4 << 20;

type Memory = <Nvidia as Driver>::Memory;

/// Weights of several sets, and rows.
struct Sets<'a> {
    driver: &'a Nvidia,
    weights: Vec<Memory>,
    x: Memory,
    out: Memory,
    outputs: usize,
    inputs: usize,
}

impl<'a> Sets<'a> {
    fn new(driver: &'a Nvidia, outputs: usize, inputs: usize, rows_max: usize) -> Self {
        let random: Vec<u8> = (0..RANDOM_BYTES / 2)
            .scan(1_u32, |state, _| {
                *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // From 2^-7 to 2^-6, of both signs.
                Some((0x3c00_u16 | (*state >> 25) as u16 | ((*state >> 16) as u16 & 0x8000)).to_le_bytes())
            })
            .flatten()
            .collect();
        let filled = |bytes: usize| {
            let mut memory = driver.reserve("weights", bytes).unwrap();
            for at in (0..bytes).step_by(RANDOM_BYTES) {
                driver.upload(&random[..RANDOM_BYTES.min(bytes - at)], &mut memory, at).unwrap();
            }
            memory
        };
        let bytes = 2 * outputs * inputs;
        let weights = (0..ROTATED_BYTES.div_ceil(bytes)).map(|_| filled(bytes)).collect();
        let out = driver.reserve("results", 2 * rows_max * outputs).unwrap();
        Self { driver, weights, x: filled(2 * rows_max * inputs), out, outputs, inputs }
    }

    fn product(&self, rows: usize, set: usize) -> Product {
        Product {
            rows,
            inputs: self.inputs,
            outputs: self.outputs,
            x: (self.driver.address(&self.x), self.inputs),
            weight: (self.driver.address(&self.weights[set % self.weights.len()]), self.inputs),
            bias: None,
            out: (self.driver.address(&self.out), self.outputs),
        }
    }

    /// Prints a line of what `run` does with each set in turn.
    fn line(&self, table: &Table<'_>, what: &str, rows: usize, mut run: impl FnMut(&Product)) {
        let bytes = 2.0 * (self.outputs * self.inputs + rows * (self.inputs + self.outputs)) as f64;
        let (flops, mut set) = (2.0 * (rows * self.outputs * self.inputs) as f64, 0);
        table.line(what, bytes, flops, || {
            run(&self.product(rows, set));
            set += 1;
        });
    }

    fn by_library(&self, product: &Product) {
        // SAFETY: all three were reserved for such matrices.
        unsafe { self.driver.product(product) }.unwrap();
    }

    fn by_us(&self, few: &mut Few<Nvidia>, product: &Product, layout: Layout) {
        // SAFETY: as above.
        unsafe { few.run(self.driver, product, layout) }.unwrap();
    }
}

pub(super) fn products(table: &Table<'_>) {
    let driver = table.card.driver();
    let mut few = Few::new();
    for (name, outputs, inputs) in SHAPES {
        let sets = Sets::new(driver, outputs, inputs, if name == "head" { 64 } else { 8_192 });
        for rows in [1, 2, 4, 8, 16, 32, 64] {
            let what = format!("{name}, {rows} rows, {outputs} x {inputs}");
            if let Some(layout) = Layout::of(&sets.product(rows, 0)) {
                sets.line(table, &what, rows, |product| sets.by_us(&mut few, product, layout));
            }
            sets.line(table, "  by cuBLASLt", rows, |product| sets.by_library(product));
        }
        for rows in [128, 512, 8_192].into_iter().filter(|_| name != "head") {
            let what = format!("{name}, {rows} rows by cuBLASLt");
            sets.line(table, &what, rows, |product| sets.by_library(product));
        }
    }
}

/// The four products of a layer, one behind the other over many layers, by the library and in several layouts.
pub(super) fn layers(table: &Table<'_>) {
    let driver = table.card.driver();
    let mut few = Few::new();
    let all: Vec<Sets<'_>> =
        SHAPES[..4].iter().map(|(_, outputs, inputs)| Sets::new(driver, *outputs, *inputs, 64)).collect();
    for rows in [1, 2, 4, 8, 16] {
        let mut line = |what: &str, layout: &dyn Fn(&Product) -> Option<Layout>| {
            let (mut bytes, mut set) = (0, 0);
            for sets in &all {
                bytes += 2 * (sets.outputs * sets.inputs + rows * (sets.inputs + sets.outputs));
            }
            table.line(&format!("a layer, {rows} rows, {what}"), bytes as f64, 0.0, || {
                for sets in &all {
                    let product = sets.product(rows, set);
                    match layout(&product) {
                        Some(layout) => sets.by_us(&mut few, &product, layout),
                        None => sets.by_library(&product),
                    }
                }
                set += 1;
            });
        };
        line("by cuBLASLt", &|_| None);
        line("as chosen", &Layout::of);
        line("tiles", &Layout::tiles);
        line("tiles of few outputs", &|product| Layout::tiles(product).filter(|_| product.outputs <= 4_096));
        if rows <= 2 {
            for blocks in [132, 264, 396, 528] {
                line(&format!("vectors on {blocks} blocks"), &|product| Layout::vector(product, blocks));
            }
        }
    }
}

/// Layouts of vectors beside those that are chosen.
pub(super) fn layouts(table: &Table<'_>) {
    let driver = table.card.driver();
    let mut few = Few::new();
    for (name, outputs, inputs) in SHAPES {
        let sets = Sets::new(driver, outputs, inputs, 64);
        for rows in [1, 2] {
            for blocks in [132, 264, 396, 528] {
                sets.line(table, &format!("{name}, {rows} rows on {blocks} blocks"), rows, |product| {
                    sets.by_us(&mut few, product, Layout::vector(product, blocks).unwrap());
                });
            }
            sets.line(table, &format!("{name}, {rows} rows, tiles"), rows, |product| {
                sets.by_us(&mut few, product, Layout::tiles(product).unwrap());
            });
        }
    }
}
