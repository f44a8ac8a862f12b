//! Updates of learned tensors on a card: sums of squares, AdamW, and the bf16 copy.
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
/// Blocks of one tensor at most.
const BLOCKS_MAX: usize = 512;
/// Tensors of one call at most: bounds the room for their sums.
const TENSORS_MAX: usize = 1 << 16;

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
        let gradients: Vec<(u64, usize)> = params
            .filter(|param| param.values() > 0)
            .filter_map(|param| Some((param.known_gradient(&self.driver)?, param.values())))
            .collect();
        if gradients.is_empty() {
            return Ok(0.0);
        }
        if gradients.len() > TENSORS_MAX {
            let (expected, got) = (format!("at most {TENSORS_MAX} tensors"), gradients.len().to_string());
            return Err(OpsError::Shape { op: "gradient_squares", expected, got });
        }
        let of_tensor = |values: usize| values.div_ceil(PIECE).min(BLOCKS_MAX);
        let count: usize = gradients.iter().map(|(_, values)| of_tensor(*values)).sum();
        let mut room = self.room()?;
        let room = &mut *room;
        // The sum of all comes first, since it goes to the host.
        let base = room.squares.at_least(&self.driver, "sums of squares", (1 + count) * size_of::<f64>())?;
        let mut at = base + size_of::<f64>() as u64;
        for (gradient, values) in gradients {
            let of_tensor = of_tensor(values);
            let args = [Arg::Address(gradient), Arg::Long(values as u64 / 4), word(of_tensor), Arg::Address(at)];
            // SAFETY: as `squares` declares them; there are so many values, and room for a sum of each block.
            #[allow(unsafe_code)]
            unsafe {
                self.driver.launch(&room.kernels.squares, blocks([of_tensor, 1], 256), &args)?;
            }
            at += (of_tensor * size_of::<f64>()) as u64;
        }
        let args = [Arg::Address(base + size_of::<f64>() as u64), word(count), Arg::Address(base)];
        // SAFETY: as `sum_partials` declares them; the launches before wrote so many sums.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.sum_partials, blocks([1, 1], 1_024), &args)?;
        }
        let mut bytes = [0; size_of::<f64>()];
        room.squares.download(&self.driver, &mut bytes)?;
        Ok(f64::from_le_bytes(bytes))
    }

    pub(super) fn update(&self, param: &mut CardParam<D>, step: &AdamW) -> Result<(), OpsError> {
        let fours = param.values() / 4;
        if fours == 0 {
            return Ok(());
        }
        let s = Scalars::of(step);
        let (value, gradient) = (param.value_at(&self.driver), param.gradient_at(&self.driver)?);
        let [mean, square] = param.moments_at(&self.driver)?;
        let places = [value, gradient, mean, square, param.copy_at(&self.driver)].map(Arg::Address);
        let scalars =
            [s.scale, s.kept, s.mean_share, s.square_kept, s.square_share, s.root_correction, s.eps, s.minus_rate];
        let args = [&places[..], &[Arg::Long(fours as u64)], &scalars.map(Arg::Float)].concat();
        let room = self.room()?;
        // SAFETY: as `adamw` declares them; all five have so many values.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.adamw, flat(fours), &args)
        }
    }
}
