//! Products of few rows, as decoding has them: how a shape is laid out over a card's blocks, and what starts it. Layouts depend
//! on the shape alone, so equal shapes give equal bits in every process; the rows of one product are never mixed.
//!
//! It refuses to know large products, which are a library's.

use super::driver::{Arg, Driver, Product, Shape};
use super::source::Unit;
use crate::ops::OpsError;
use std::collections::HashMap;

/// Rows at most of products that are done here.
pub const MAX_ROWS: usize = 64;
/// Blocks that a product should have at least: those of three a multiprocessor of a card with 132 of them.
const BLOCKS: usize = 320;
/// Terms of a sum that a block has at least, where sums are split.
const TERMS_MIN: usize = 512;
/// Terms that a warp takes at once.
const CHUNK: usize = 64;
/// Warps of a block.
const WARPS: usize = 8;
/// Chunks that a warp has under way.
const STAGES: usize = 4;
/// Bytes of a warp's chunk of weights: 16 outputs.
const CHUNK_BYTES: usize = 16 * CHUNK * size_of::<u16>();
/// Bytes of the sums of 8 rows of a warp.
const SUMS_BYTES: usize = 8 * 20 * size_of::<f32>();
/// Tiles of outputs at most, where sums are split.
const TICKETS: usize = BLOCKS;
/// Bytes of the sums of parts at most: fewer than twice as many blocks as asked for, each with 64 outputs of 16 rows.
const PARTS_BYTES: usize = 2 * BLOCKS * 64 * 16 * size_of::<f32>();

/// What one kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// Tiles of 8 rows.
    pub row_tiles: usize,
    /// Warps side by side over outputs, each with 16.
    pub across: usize,
    /// Warps along the terms of a sum.
    pub along: usize,
    /// Chunks that a warp has under way.
    pub stages: usize,
}

/// A product's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its kernel's form.
    pub form: Form,
    /// Blocks side by side over outputs.
    pub tiles: usize,
    /// Parts of each sum.
    pub splits: usize,
}

impl Form {
    /// For so many rows; none for too many. Rows come from L2 once a block: the more there are, the more outputs share them.
    pub fn of(rows: usize) -> Option<Self> {
        let (row_tiles, across) = match rows {
            1..=4 => (1, 1),
            5..=8 => (1, 2),
            9..=16 => (2, 4),
            _ => return None,
        };
        Some(Self { row_tiles, across, along: WARPS / across, stages: STAGES })
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        (32 * self.across * self.along) as u32
    }

    /// Bytes of shared memory of a block: a ring for each warp, and its sums.
    pub fn shared_bytes(&self) -> u32 {
        (self.across * self.along * (self.stages * CHUNK_BYTES + self.row_tiles * SUMS_BYTES)) as u32
    }
}

impl Layout {
    /// Of a product; none where it is a library's: too many rows, or rows of weights that do not begin at whole 16 bytes.
    pub fn of(product: &Product) -> Option<Self> {
        let whole = [product.inputs, product.x.1, product.weight.1].iter().all(|count| count.is_multiple_of(8));
        let form = Form::of(product.rows).filter(|_| whole)?;
        let tiles = product.outputs.div_ceil(16 * form.across);
        let parts_max = (product.inputs / TERMS_MIN).max(1);
        let splits = if form.across == 1 { 1 } else { BLOCKS.div_ceil(tiles).min(parts_max) };
        Some(Self { form, tiles, splits })
    }
}

/// Kernels by form, and what parts of sums need: reserved once, since recorded steps keep its addresses.
pub struct Few<D: Driver> {
    kernels: HashMap<Form, D::Kernel>,
    room: Option<(D::Memory, D::Memory)>,
}

impl<D: Driver> Default for Few<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: Driver> Few<D> {
    /// Nothing is compiled or reserved yet.
    pub fn new() -> Self {
        Self { kernels: HashMap::new(), room: None }
    }

    /// Starts a product that has a layout.
    ///
    /// # Errors
    /// A device that failed.
    ///
    /// # Safety
    /// The addresses are those of such matrices on this card, and the layout is that of the product.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    pub unsafe fn run(&mut self, driver: &D, product: &Product, layout: Layout) -> Result<(), OpsError> {
        let Layout { form, tiles, splits } = layout;
        let kernel = match self.kernels.get(&form) {
            Some(kernel) => kernel,
            None => {
                let kernel = driver.kernel(&Unit::linear(form), "linear", form.shared_bytes())?;
                self.kernels.entry(form).or_insert(kernel)
            }
        };
        let (parts, tickets) = match splits {
            1 => (0, 0),
            _ => {
                let room = match &self.room {
                    Some(room) => room,
                    None => self.room.insert((
                        driver.reserve("sums of parts", PARTS_BYTES)?,
                        driver.reserve("tickets of parts", TICKETS * size_of::<u32>())?,
                    )),
                };
                (driver.address(&room.0), driver.address(&room.1))
            }
        };
        let shape = Shape {
            grid: [tiles as u32, splits as u32],
            threads: form.threads(),
            shared_bytes: form.shared_bytes(),
        };
        let args = [
            Arg::Address(product.x.0),
            Arg::Word(product.x.1 as u32),
            Arg::Word(product.rows as u32),
            Arg::Word(product.inputs as u32),
            Arg::Address(product.weight.0),
            Arg::Word(product.weight.1 as u32),
            Arg::Word(product.outputs as u32),
            Arg::Address(product.bias.unwrap_or(0)),
            Arg::Address(product.out.0),
            Arg::Word(product.out.1 as u32),
            Arg::Word(splits as u32),
            Arg::Address(parts),
            Arg::Address(tickets),
        ];
        // SAFETY: as `linear` declares them; the matrices are the caller's duty, and `Layout::of` keeps parts and tickets
        // within the room.
        unsafe { driver.launch(kernel, shape, &args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(rows: usize, inputs: usize, outputs: usize) -> Product {
        Product { rows, inputs, outputs, x: (0, inputs), weight: (0, inputs), bias: None, out: (0, outputs) }
    }

    #[test]
    fn each_layout_fits_its_room_and_a_card() {
        for rows in 1..=MAX_ROWS {
            for outputs in [1, 7, 46, 576, 2_560, 6_144, 19_456, 20_479, 20_480, 151_936, 1 << 20] {
                for inputs in [8, 64, 512, 1_024, 2_560, 4_096, 9_728, 1 << 20] {
                    let Some(layout) = Layout::of(&product(rows, inputs, outputs)) else {
                        assert!(Form::of(rows).is_none());
                        continue;
                    };
                    let Layout { form, tiles, splits } = layout;
                    assert!(form.row_tiles * 8 >= rows && tiles * form.across * 16 >= outputs);
                    assert!(form.shared_bytes() <= 75 << 10, "three blocks fit a multiprocessor");
                    if splits > 1 {
                        assert!(tiles <= TICKETS, "{rows} {inputs} {outputs}: {layout:?}");
                        assert!(splits * rows * outputs * 4 <= PARTS_BYTES, "{rows} {inputs} {outputs}: {layout:?}");
                        assert!(inputs.div_ceil(CHUNK) >= splits * form.along);
                    }
                }
            }
        }
    }

    #[test]
    fn rows_that_do_not_begin_at_whole_16_bytes_are_the_librarys() {
        assert!(Layout::of(&product(1, 2_560, 46)).is_some());
        assert_eq!(Layout::of(&product(1, 2_564, 46)), None);
        assert_eq!(Layout::of(&Product { weight: (0, 2_562), ..product(1, 2_560, 46) }), None);
        assert_eq!(Layout::of(&product(MAX_ROWS + 1, 2_560, 46)), None);
        assert_eq!(Layout::of(&product(0, 2_560, 46)), None);
    }
}
