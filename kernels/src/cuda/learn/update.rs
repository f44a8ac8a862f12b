//! Updates of learned tensors on a card: sums of squares, AdamW, and the bf16 copy. All tensors of a model go through one launch,
//! by a table of where they are, so that small ones cost no launches.
//!
//! It refuses to know which layer a tensor belongs to.

use super::param::CardParam;
use super::room::{blocks, flat, word};
use crate::cpu::learn::param::Scalars;
use crate::cuda::backend::Card;
use crate::cuda::driver::{Arg, Driver};
use crate::learn::AdamW;
use crate::ops::OpsError;

/// Values that a block sums at once.
const PIECE: usize = 1 << 10;
/// Blocks that sum one tensor at most.
const BLOCKS_MAX: usize = 512;
/// Pieces of four values that a block updates.
const UPDATED_FOURS: usize = 1 << 10;
/// Tensors of one call at most: bounds the room for their table and their sums.
const TENSORS_MAX: usize = 1 << 16;
/// Blocks of one launch at most.
const GRID_MAX: usize = i32::MAX as usize;

/// A table of tensors, as the kernels' `Tensor` lies in memory.
struct Table {
    words: Vec<u32>,
    tensors: usize,
    blocks: usize,
}

impl Table {
    fn new() -> Self {
        Self { words: Vec::new(), tensors: 0, blocks: 0 }
    }

    /// A tensor with its value, gradient, moments and copy, which so many blocks take.
    fn push(&mut self, op: &'static str, at: [u64; 5], fours: usize, kept: f32, blocks: usize) -> Result<(), OpsError> {
        let wrong = |expected, got: usize| Err(OpsError::Shape { op, expected, got: got.to_string() });
        if self.tensors == TENSORS_MAX {
            return wrong(format!("at most {TENSORS_MAX} tensors"), TENSORS_MAX + 1);
        }
        if self.blocks + blocks > GRID_MAX {
            return wrong(format!("tensors of at most {GRID_MAX} blocks together"), self.blocks + blocks);
        }
        let longs = at.into_iter().chain([fours as u64]);
        self.words.extend(longs.flat_map(|long| [long as u32, (long >> 32) as u32]));
        self.words.extend([kept.to_bits(), self.blocks as u32]);
        self.tensors += 1;
        self.blocks += blocks;
        Ok(())
    }
}

impl<D: Driver> Card<D> {
    /// Renews the copy in bf16.
    pub(super) fn narrow(&self, param: &CardParam<D>) -> Result<(), OpsError> {
        let fours = param.values() / 4;
        if fours == 0 {
            return Ok(());
        }
        let [value, copy] = [param.value_at(&self.driver), param.copy_at(&self.driver)].map(Arg::Address);
        let room = self.room()?;
        // SAFETY: as `narrow_copy` declares them; both have so many values.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.narrow_copy, flat(fours), &[value, copy, Arg::Long(fours as u64)])
        }
    }

    pub(super) fn sum_of_squares(&self, params: &mut dyn Iterator<Item = &CardParam<D>>) -> Result<f64, OpsError> {
        let mut table = Table::new();
        for param in params.filter(|param| param.values() > 0) {
            if let Some(gradient) = param.known_gradient(&self.driver) {
                let of_tensor = param.values().div_ceil(PIECE).min(BLOCKS_MAX);
                table.push("gradient_squares", [0, gradient, 0, 0, 0], param.values() / 4, 0.0, of_tensor)?;
            }
        }
        if table.blocks == 0 {
            return Ok(0.0);
        }
        let mut room = self.room()?;
        let room = &mut *room;
        let at = room.words.put(&self.driver, "a table of tensors", &table.words)?;
        // The sum of all comes first, since it goes to the host.
        let base = room.squares.at_least(&self.driver, "sums of squares", (1 + table.blocks) * size_of::<f64>())?;
        let partial = Arg::Address(base + size_of::<f64>() as u64);
        let args = [Arg::Address(at), word(table.tensors), partial];
        // SAFETY: as `squares` declares them; the table is of gradients with so many values, and there is room for a sum of each
        // block.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.squares, blocks([table.blocks, 1], 256), &args)?;
        }
        let args = [partial, word(table.blocks), Arg::Address(base)];
        // SAFETY: as `sum_partials` declares them; the launch before wrote so many sums.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.sum_partials, blocks([1, 1], 1_024), &args)?;
        }
        let mut bytes = [0; size_of::<f64>()];
        room.squares.download(&self.driver, &mut bytes)?;
        Ok(f64::from_le_bytes(bytes))
    }

    /// One update of each tensor, with its own decay.
    pub(super) fn update(
        &self,
        params: &mut dyn Iterator<Item = (&mut CardParam<D>, f64)>,
        step: &AdamW,
    ) -> Result<(), OpsError> {
        let mut table = Table::new();
        for (param, decay) in params.filter(|(param, _)| param.values() > 0) {
            let (value, gradient) = (param.value_at(&self.driver), param.gradient_at(&self.driver)?);
            let [mean, square] = param.moments_at(&self.driver)?;
            let (fours, kept) = (param.values() / 4, Scalars::of(&AdamW { decay, ..*step }).kept);
            let at = [value, gradient, mean, square, param.copy_at(&self.driver)];
            table.push("adamw", at, fours, kept, fours.div_ceil(UPDATED_FOURS))?;
        }
        if table.blocks == 0 {
            return Ok(());
        }
        let s = Scalars::of(step);
        let scalars = [s.scale, s.mean_share, s.square_kept, s.square_share, s.root_correction, s.eps, s.minus_rate];
        let mut room = self.room()?;
        let at = room.words.put(&self.driver, "a table of tensors", &table.words)?;
        let args = [&[Arg::Address(at), word(table.tensors)][..], &scalars.map(Arg::Float)].concat();
        // SAFETY: as `adamw` declares them; all five parts of each tensor have so many values.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.adamw, blocks([table.blocks, 1], 256), &args)
        }
    }
}
