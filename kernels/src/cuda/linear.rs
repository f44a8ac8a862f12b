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
/// Blocks of a product of few rows, each with an equal share: multiprocessors of an H100 or H200.
const BLOCKS: usize = 132;
/// Chunks of a share at least: fewer are not worth a block.
const SHARE_MIN: usize = 4;
/// Blocks that a product of more rows has at least, where its sums are long enough to be split.
const WIDE_BLOCKS_MIN: usize = 150;
/// Parts of a sum at most: blocks of a cluster on any card.
const SPLITS_MAX: usize = 8;
/// Terms of a sum that a block has at least, where sums are split.
const TERMS_MIN: usize = 512;
/// Terms of a chunk.
const CHUNK: usize = 64;
/// Outputs of a block's tile: of eight warps, or of four with two tiles of 16 each.
const OUTPUTS: usize = 128;
/// Chunks of a ring.
const STAGES: usize = 6;
/// The same for more rows.
const WIDE_STAGES: usize = 4;
/// Bytes of a tile's weights of a chunk.
const CHUNK_BYTES: usize = OUTPUTS * CHUNK * size_of::<u16>();
/// Bytes of 8 rows of x of a chunk.
const ROWS_BYTES: usize = 8 * CHUNK * size_of::<u16>();
/// Bytes of a tile's sums of 8 rows: as they are, and at the strides that they have in shared memory.
const SUMS_BYTES: usize = OUTPUTS * 8 * size_of::<f32>();
const STRIDED_SUMS_BYTES: usize = SUMS_BYTES / 16 * 20;
/// Tickets at least: for each block of few rows, for each tile of more.
const TICKETS: usize = 2 * WIDE_BLOCKS_MIN;
/// Bytes of the parts of sums at most: fewer than twice as many blocks as asked for, each with its tile of all rows.
const PARTS_BYTES: usize = 2 * WIDE_BLOCKS_MIN * MAX_ROWS / 8 * SUMS_BYTES;

/// What one kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// `linear.cu`: blocks have equal shares of the weights.
    Few {
        /// Tiles of 8 rows: one or two.
        row_tiles: usize,
        /// Chunks of a ring.
        stages: usize,
    },
    /// `linear_wide.cu`: a block has a tile of outputs, or a part of its sums.
    Wide {
        /// Tiles of 8 rows: a multiple of two.
        row_tiles: usize,
        /// Chunks of a ring.
        stages: usize,
        /// Parts of each sum.
        splits: usize,
    },
}

/// A product's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its kernel's form.
    pub form: Form,
    /// Blocks side by side.
    pub blocks: usize,
}

impl Form {
    /// Parts of each sum, one below the other in the grid.
    fn splits(&self) -> usize {
        match *self {
            Self::Few { .. } => 1,
            Self::Wide { splits, .. } => splits,
        }
    }

    /// Threads of a block.
    fn threads(&self) -> u32 {
        match self {
            Self::Few { .. } => 256,
            Self::Wide { .. } => 128,
        }
    }

    /// Bytes of shared memory of a block: its ring, whose place the sums of more rows take.
    fn shared_bytes(&self) -> u32 {
        let (Self::Few { row_tiles, stages } | Self::Wide { row_tiles, stages, .. }) = *self;
        let ring = stages * (CHUNK_BYTES + row_tiles * ROWS_BYTES);
        let bytes = match self {
            Self::Few { .. } => ring,
            Self::Wide { .. } => ring.max(row_tiles * STRIDED_SUMS_BYTES),
        };
        bytes as u32
    }
}

impl Layout {
    /// Of a product; none where it is a library's: too many rows, or rows that do not begin at whole 16 bytes.
    pub fn of(product: &Product) -> Option<Self> {
        let whole = [product.inputs, product.x.1, product.weight.1].iter().all(|count| count.is_multiple_of(8));
        let row_tiles = product.rows.div_ceil(8).next_power_of_two();
        match product.rows {
            1..=16 if whole => Some(Self::few(Form::Few { row_tiles, stages: STAGES }, product)),
            17..=MAX_ROWS if whole => {
                Some(Self::wide(Form::Wide { row_tiles, stages: WIDE_STAGES, splits: 1 }, product))
            }
            _ => None,
        }
    }

    /// As many blocks as have a share.
    fn few(form: Form, product: &Product) -> Self {
        let items = product.outputs.div_ceil(OUTPUTS) * product.inputs.div_ceil(CHUNK);
        Self { form, blocks: (items / SHARE_MIN).clamp(1, BLOCKS) }
    }

    /// With sums split until there are blocks enough.
    fn wide(mut form: Form, product: &Product) -> Self {
        let blocks = product.outputs.div_ceil(OUTPUTS);
        if let Form::Wide { splits, .. } = &mut form {
            let few = |splits: usize| blocks * splits < WIDE_BLOCKS_MIN && product.inputs >= 2 * splits * TERMS_MIN;
            while *splits < SPLITS_MAX && few(*splits) {
                *splits *= 2;
            }
        }
        Self { form, blocks }
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
        let Layout { form, blocks } = layout;
        let kernel = match self.kernels.get(&form) {
            Some(kernel) => kernel,
            None => {
                let unit = Unit::linear(form);
                let kernel = driver.kernel(&unit, unit.kernels[0], form.shared_bytes())?;
                self.kernels.entry(form).or_insert(kernel)
            }
        };
        let room = match &self.room {
            Some(room) => room,
            None => self.room.insert((
                driver.reserve("parts of sums", PARTS_BYTES)?,
                driver.reserve("tickets of parts", TICKETS * size_of::<u32>())?,
            )),
        };
        let shape = Shape {
            grid: [blocks as u32, form.splits() as u32],
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
            Arg::Word(blocks as u32),
            Arg::Address(driver.address(&room.0)),
            Arg::Address(driver.address(&room.1)),
        ];
        // SAFETY: as both kernels declare them; the matrices are the caller's duty, and `Layout::of` keeps parts and tickets
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
                    let layout = Layout::of(&product(rows, inputs, outputs)).unwrap();
                    let Layout { form, blocks } = layout;
                    assert!(form.shared_bytes() <= 113 << 10, "two blocks fit a multiprocessor: {layout:?}");
                    let (parts, tickets) = match form {
                        Form::Few { .. } => (2 * blocks * rows.next_multiple_of(8) * OUTPUTS, blocks),
                        Form::Wide { splits: 1, .. } => (0, 0),
                        Form::Wide { splits, .. } => (splits * rows * outputs, blocks),
                    };
                    assert!(parts * size_of::<f32>() <= PARTS_BYTES, "{rows} {inputs} {outputs}: {layout:?}");
                    assert!(tickets <= TICKETS, "{rows} {inputs} {outputs}: {layout:?}");
                    assert!(form.splits() == 1 || inputs / form.splits() >= TERMS_MIN);
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
