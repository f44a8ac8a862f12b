//! Products of few rows beside sums in `f64`, on shapes that straddle tiles of rows, outputs and terms, with strides of their
//! own, and parts that are put together by whichever block is last. Nothing is written but the product.
//!
//! It refuses to know how a product is laid out.

#![allow(unsafe_code, reason = "kernels are not checked")]

use super::Dice;
use half::bf16;
use legwork_kernels::cuda::driver::{Driver, Product};
use legwork_kernels::cuda::linear::{Few, Layout};

/// What stands where nothing may be written.
const POISON: u16 = 0x7fc1;
/// Rounding to bf16 once costs up to 2^-8 of a value; sums of terms in `f32` nearly nothing beside it.
const TOLERANCE: f64 = 4e-3;
/// A library rounds twice where there is a bias.
const LIBRARY_TOLERANCE: f64 = 8e-3;

/// Rows at a stride, with poison between them and behind the last; reserved with what lies behind it.
fn strided(values: &[f32], width: usize, stride: usize) -> Vec<u8> {
    let row = |row: &[f32]| {
        let mut bits: Vec<u16> = row.iter().map(|value| bf16::from_f32(*value).to_bits()).collect();
        bits.resize(stride, POISON);
        bits
    };
    values.chunks(width).flat_map(row).flat_map(u16::to_le_bytes).collect()
}

fn put<D: Driver>(driver: &D, bytes: &[u8]) -> D::Memory {
    let mut memory = driver.reserve("a test", bytes.len()).unwrap();
    driver.upload(bytes, &mut memory, 0).unwrap();
    memory
}

/// A product of such a shape, with numbers of its own, beside the truth; gives its bits.
fn one<D: Driver>(
    driver: &D,
    few: &mut Few<D>,
    dice: &mut Dice,
    [rows, inputs, outputs]: [usize; 3],
    wider: usize,
    with_bias: bool,
    layout: impl Fn(&Product) -> Option<Layout>,
) -> Vec<u16> {
    let (x, weight, bias) = (dice.many(rows * inputs), dice.many(outputs * inputs), dice.many(outputs));
    let strides = [inputs + wider, inputs + 2 * wider, outputs + 1 + wider];
    let of_x = put(driver, &strided(&x, inputs, strides[0]));
    let of_weight = put(driver, &strided(&weight, inputs, strides[1]));
    let of_bias = put(driver, &strided(&bias, 1, 1));
    let of_out = put(driver, &POISON.to_le_bytes().repeat(rows * strides[2]));
    let product = Product {
        rows,
        inputs,
        outputs,
        x: (driver.address(&of_x), strides[0]),
        weight: (driver.address(&of_weight), strides[1]),
        bias: with_bias.then(|| driver.address(&of_bias)),
        out: (driver.address(&of_out), strides[2]),
    };
    let layout = layout(&product);
    let tolerance = if layout.is_some() { TOLERANCE } else { LIBRARY_TOLERANCE };
    // SAFETY: the addresses are those of memory that was made for such matrices above.
    unsafe {
        match layout {
            Some(layout) => few.run(driver, &product, layout),
            None => driver.product(&product),
        }
    }
    .unwrap();
    let mut bytes = vec![0; rows * strides[2] * 2];
    driver.download(&of_out, 0, &mut bytes).unwrap();
    let bits: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|bits| u16::from_le_bytes(*bits)).collect();
    for (row, of_row) in bits.chunks(strides[2]).enumerate() {
        for (output, got) in of_row.iter().enumerate() {
            if output >= outputs {
                assert_eq!(*got, POISON, "{rows} rows of {inputs} to {outputs}: written beside row {row}");
                continue;
            }
            let terms = (0..inputs).map(|i| f64::from(x[row * inputs + i]) * f64::from(weight[output * inputs + i]));
            let expected = terms.sum::<f64>() + if with_bias { f64::from(bias[output]) } else { 0.0 };
            let got = f64::from(bf16::from_bits(*got).to_f32());
            let off = (got - expected).abs();
            assert!(
                off <= tolerance * expected.abs().max(1.0),
                "{rows} rows of {inputs} to {outputs}, row {row}, output {output}: expected {expected}, got {got}"
            );
        }
    }
    bits
}

/// Shapes that straddle tiles; `long` ones have sums that are split.
pub(super) fn products_of_few_rows_are_sums<D: Driver>(driver: &D, long: &[usize]) {
    let (mut few, mut dice) = (Few::new(), Dice(3, |value| bf16::from_f32(value).to_f32()));
    for rows in [1, 2, 4, 5, 7, 8, 9, 16, 17, 32, 33, 64, 65] {
        for inputs in [8, 48, 80, 264] {
            for outputs in [1, 7, 8, 46, 130] {
                one(driver, &mut few, &mut dice, [rows, inputs, outputs], inputs % 32, outputs % 2 == 0, Layout::of);
            }
        }
        for inputs in long {
            one(driver, &mut few, &mut dice, [rows, *inputs, 150], 8, true, Layout::of);
        }
    }
}

/// Vectors on so few blocks that each warp has several rows of weights, by itself or with others; and tiles of one and two rows.
pub(super) fn vectors_are_sums_however_few_blocks_there_are<D: Driver>(driver: &D) {
    let (mut few, mut dice) = (Few::new(), Dice(4, |value| bf16::from_f32(value).to_f32()));
    for rows in [1, 2] {
        for inputs in [264, 2_568, 5_128] {
            for (blocks, outputs) in [(1, 23), (2, 46), (3, 47)] {
                let layout = |product: &Product| Layout::vector(product, blocks);
                one(driver, &mut few, &mut dice, [rows, inputs, outputs], 8, true, layout);
            }
            one(driver, &mut few, &mut dice, [rows, inputs, 150], 8, true, Layout::tiles);
        }
    }
}

/// The same numbers again and again, with other products between them.
pub(super) fn a_product_is_the_same_each_time<D: Driver>(driver: &D, shapes: &[[usize; 3]]) {
    let mut few = Few::new();
    let mut all = || -> Vec<Vec<u16>> {
        let dice = || Dice(5, |value| bf16::from_f32(value).to_f32());
        shapes.iter().map(|shape| one(driver, &mut few, &mut dice(), *shape, 0, true, Layout::of)).collect()
    };
    let first = all();
    assert!((0..3).all(|_| all() == first), "tickets are given back, and parts added in their order");
}
