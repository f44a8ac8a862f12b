//! Products of few rows, as decoding has them: how a shape is laid out over a card's blocks, and what starts it. Layouts depend
//! on the shape alone, so equal shapes give equal bits in every process; the rows of one product are never mixed.
//!
//! It refuses to know large products, which are a library's.

use super::driver::{Arg, Driver, Product, Shape};
use super::source::Unit;
use crate::ops::OpsError;
use std::collections::HashMap;

/// Rows at most of products that are done here: with more, cuBLASLt is as fast or faster (measured on an H200).
pub const MAX_ROWS: usize = 16;
/// Outputs at most that blocks of 64 take, so that there are blocks enough; with more they take 128.
const NARROW_OUTPUTS: usize = 4_096;
/// Outputs at most whose sums are split: with more there are two blocks for each multiprocessor of an H200 anyway.
const SPLIT_OUTPUTS: usize = 264 * 128;
/// Parts of a sum at most, of few outputs and of more. A cluster has eight blocks at most on any card.
const NARROW_SPLITS: usize = 8;
const SPLITS: usize = 4;
/// Terms of a sum that a block has at least, where sums are split.
const TERMS_MIN: usize = 256;
/// Terms of a chunk.
const CHUNK: usize = 64;
/// Warps of a block.
const WARPS: usize = 4;
/// Chunks of a block's ring: where blocks are few, and where they are so many that less must do for each.
const STAGES: [usize; 2] = [6, 4];
/// Blocks that are few: two for each multiprocessor of an H200, so that the next product's have room beside them.
const FEW_BLOCKS: usize = 264;
/// Bytes of a chunk of weights of a warp's tile of 16 outputs, and of 8 rows of x.
const WEIGHTS_BYTES: usize = 16 * CHUNK * size_of::<u16>();
const ROWS_BYTES: usize = 8 * CHUNK * size_of::<u16>();
/// Bytes of the sums of 16 outputs of 8 rows, at the strides that they have in shared memory.
const SUMS_BYTES: usize = 20 * 8 * size_of::<f32>();
/// Bytes of the parts of sums at most, and tiles of outputs that have tickets.
const PARTS_BYTES: usize = SPLITS * SPLIT_OUTPUTS * MAX_ROWS * size_of::<f32>();
const TICKETS: usize = SPLIT_OUTPUTS / 128;
/// Arguments of a kernel at most.
const ARGUMENTS: usize = 12;
/// Rows at most of products of vectors.
const VECTORS_MAX: usize = 2;
/// Terms that a warp takes at once there: 16 bytes a lane.
const VECTOR_TERMS: usize = 32 * 8;
/// Chunks of a lane of a row of weights there at most, so that two rows fit its registers.
const VECTOR_CHUNKS_MAX: usize = 10;
/// Blocks of such a product at most: four for each multiprocessor of an H100 or H200, as many as it holds of them.
const VECTOR_BLOCKS: usize = 528;
/// Bytes of shared memory of a block at most, there.
const VECTOR_BYTES_MAX: usize = 48 << 10;

/// What one kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// `vector.cu`: one row, or two.
    Vector {
        /// Rows.
        rows: usize,
        /// Chunks of a lane of a row of weights.
        chunks: usize,
        /// Warps that share a row of weights.
        parts: usize,
    },
    /// `linear.cu`: more rows.
    Tiles {
        /// Tiles of 8 rows.
        row_tiles: usize,
        /// Tiles of 16 outputs of each warp.
        output_tiles: usize,
        /// Chunks of a block's ring.
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

impl Layout {
    /// Of a product; none where it is a library's: too many rows, or rows that do not begin at whole 16 bytes.
    pub fn of(product: &Product) -> Option<Self> {
        let whole = [product.inputs, product.x.1, product.weight.1].iter().all(|count| count.is_multiple_of(8));
        match product.rows {
            _ if !whole => None,
            1..=VECTORS_MAX => Self::vector(product, VECTOR_BLOCKS).or_else(|| Self::tiles(product)),
            3..=MAX_ROWS => Self::tiles(product),
            _ => None,
        }
    }

    /// A vector's, where its sums are short enough: on so many blocks, or as many as have outputs.
    pub fn vector(product: &Product, blocks: usize) -> Option<Self> {
        let chunks = product.inputs.div_ceil(VECTOR_TERMS);
        let parts = [1, 2, 4].into_iter().find(|parts| chunks.div_ceil(*parts) <= VECTOR_CHUNKS_MAX)?;
        let form = Form::Vector { rows: product.rows, chunks: chunks.div_ceil(parts), parts };
        let layout = Self { form, blocks: product.outputs.div_ceil(WARPS / parts).min(blocks) };
        (layout.shared_bytes(product.outputs) <= VECTOR_BYTES_MAX).then_some(layout)
    }

    /// That of more rows.
    pub fn tiles(product: &Product) -> Option<Self> {
        let (output_tiles, splits_max) = if product.outputs <= NARROW_OUTPUTS {
            (1, NARROW_SPLITS)
        } else {
            (2, if product.outputs <= SPLIT_OUTPUTS { SPLITS } else { 1 })
        };
        let long = |splits: &usize| *splits == 1 || product.inputs / splits >= TERMS_MIN;
        let splits = [8, 4, 2, 1].into_iter().find(|splits| *splits <= splits_max && long(splits))?;
        let blocks = product.outputs.div_ceil(16 * output_tiles * WARPS);
        let few = output_tiles == 1 || blocks * splits <= FEW_BLOCKS;
        let stages = if few { STAGES[0] } else { STAGES[1] };
        Some(Self { form: Form::Tiles { row_tiles: product.rows.div_ceil(8), output_tiles, stages, splits }, blocks })
    }

    /// Bytes of shared memory of a block.
    fn shared_bytes(&self, outputs: usize) -> usize {
        match self.form {
            // Rows, and sums of all outputs of the block.
            Form::Vector { rows, chunks, parts } => {
                let groups = WARPS / parts;
                let count = outputs.div_ceil(groups * self.blocks) * groups;
                rows * parts * (chunks * VECTOR_TERMS * size_of::<u16>() + count * size_of::<f32>())
            }
            // A ring, whose place sums take.
            Form::Tiles { row_tiles, output_tiles, stages, .. } => {
                let tiles = output_tiles * WARPS;
                (stages * (tiles * WEIGHTS_BYTES + row_tiles * ROWS_BYTES)).max(tiles * row_tiles * SUMS_BYTES)
            }
        }
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
        let shared_bytes = layout.shared_bytes(product.outputs) as u32;
        let kernel = match self.kernels.get(&form) {
            Some(kernel) => kernel,
            None => {
                let unit = Unit::linear(form);
                let kernel = driver.kernel(&unit, unit.kernels[0], shared_bytes)?;
                self.kernels.entry(form).or_insert(kernel)
            }
        };
        let mut args = Vec::with_capacity(ARGUMENTS);
        args.extend([Arg::Address(product.x.0), Arg::Word(product.x.1 as u32)]);
        if let Form::Tiles { .. } = form {
            args.push(Arg::Word(product.rows as u32));
        }
        args.extend([
            Arg::Word(product.inputs as u32),
            Arg::Address(product.weight.0),
            Arg::Word(product.weight.1 as u32),
            Arg::Word(product.outputs as u32),
            Arg::Address(product.bias.unwrap_or(0)),
            Arg::Address(product.out.0),
            Arg::Word(product.out.1 as u32),
        ]);
        let splits = match form {
            Form::Vector { .. } => {
                args.push(Arg::Word(blocks as u32));
                1
            }
            Form::Tiles { splits, .. } => {
                let room = match &self.room {
                    Some(room) => room,
                    None => self.room.insert((
                        driver.reserve("parts of sums", PARTS_BYTES)?,
                        driver.reserve("tickets of parts", TICKETS * size_of::<u32>())?,
                    )),
                };
                args.extend([Arg::Address(driver.address(&room.0)), Arg::Address(driver.address(&room.1))]);
                splits
            }
        };
        let shape = Shape { grid: [blocks as u32, splits as u32], threads: 32 * WARPS as u32, shared_bytes };
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
                    let product = product(rows, inputs, outputs);
                    fits(&product, Layout::of(&product).unwrap());
                    fits(&product, Layout::tiles(&product).unwrap());
                }
            }
        }
    }

    fn fits(product: &Product, layout: Layout) {
        let Product { rows, inputs, outputs, .. } = *product;
        let shared = layout.shared_bytes(outputs);
        assert!(shared <= 113 << 10, "two blocks fit a multiprocessor: {product:?}: {layout:?}");
        match layout.form {
            Form::Vector { rows: of, chunks, parts } => {
                assert!(of == rows && chunks * parts * VECTOR_TERMS >= inputs && shared <= VECTOR_BYTES_MAX);
            }
            Form::Tiles { row_tiles, output_tiles, splits, .. } => {
                let of_block = 16 * output_tiles * WARPS;
                assert!(8 * row_tiles >= rows && layout.blocks * of_block >= outputs, "{layout:?}");
                let parts = splits * rows * outputs * size_of::<f32>();
                let fits = splits == 1 || parts <= PARTS_BYTES && layout.blocks <= TICKETS;
                assert!(fits, "{product:?}: {layout:?}");
                assert!(splits == 1 || inputs / splits >= TERMS_MIN, "{product:?}: {layout:?}");
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
