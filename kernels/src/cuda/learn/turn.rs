//! The table of cosines and sines of a pass's rows, made once for all layers: as long as positions and rope are those of the
//! last call, it is that of the last call.
//!
//! It refuses to know heads.

use super::room::{blocks, word};
use crate::cuda::driver::{Arg, Driver};
use crate::cuda::memory::Growing;
use crate::ops::{OpsError, Rope};

/// The table.
pub(super) struct Turns<D: Driver> {
    /// Whose it is; none after a failure.
    of: Option<(Vec<u32>, Rope)>,
    positions: Growing<D>,
    frequencies: Growing<D>,
    table: Growing<D>,
}

impl<D: Driver> Turns<D> {
    pub(super) fn new() -> Self {
        Self { of: None, positions: Growing::new(), frequencies: Growing::new(), table: Growing::new() }
    }

    /// Where the table of these rows is: a pair of floats for each row and pair.
    pub(super) fn table(
        &mut self,
        driver: &D,
        angles: &D::Kernel,
        rope: &Rope,
        positions: &[u32],
    ) -> Result<u64, OpsError> {
        if self.of.as_ref().is_some_and(|(known, of)| known == positions && of == rope) {
            return Ok(self.table.now());
        }
        self.of = None;
        let pairs = rope.frequencies.len();
        let words: Vec<u32> = rope.frequencies.iter().map(|frequency| frequency.to_bits()).collect();
        let frequencies = self.frequencies.put(driver, "frequencies", &words)?;
        let at = self.positions.put(driver, "positions", positions)?;
        let bytes = positions.len() * pairs * 2 * size_of::<f32>();
        let table = self.table.at_least(driver, "cosines and sines", bytes)?;
        if !positions.is_empty() && pairs > 0 {
            let args =
                [Arg::Address(at), Arg::Address(frequencies), word(pairs), Arg::Float(rope.scale), Arg::Address(table)];
            // SAFETY: as `angles` declares them: a position for each row, so many frequencies, and room for two floats a row
            // and pair.
            #[allow(unsafe_code)]
            unsafe {
                driver.launch(angles, blocks([positions.len(), 1], 128), &args)?;
            }
        }
        self.of = Some((positions.to_vec(), rope.clone()));
        Ok(table)
    }
}
