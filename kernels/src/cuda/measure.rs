//! What a card takes for a piece of work, by its own clock, and what it can do at most: the ceilings that kernels are held to,
//! measured in the same run.
//!
//! It refuses to know what the work is.

use super::driver::{Driver, Product};
use super::error::CardError;
use super::nvidia::Nvidia;
use crate::ops::OpsError;
use cudarc::driver::sys::CUevent_flags;

/// Times that a ceiling is measured; the median counts.
const ROUNDS: usize = 9;
/// Repetitions of what is measured, within one recording.
const REPEATED: usize = 16;
/// Bytes of the copy: several times what any cache holds.
const COPIED_BYTES: usize = 2 << 30;
/// Rows and columns of the product.
const SIDE: usize = 8_192;

/// The most that a card was seen to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes a second of a copy within its memory, those read and those written.
    pub copy_bytes_s: f64,
    /// Operations a second of a product of bf16 matrices of 8,192 rows and columns.
    pub product_flops_s: f64,
}

impl Nvidia {
    /// Seconds that the card takes for what `run` starts, once warm: the median of several rounds. Where it can be recorded,
    /// many repetitions are played back at once, so that what is between launches on the host does not count.
    ///
    /// # Errors
    /// What `run` fails with, or a card that failed.
    pub fn seconds(&self, rounds: usize, mut run: impl FnMut() -> Result<(), OpsError>) -> Result<f64, OpsError> {
        run()?;
        let graph = self.record(&mut || (0..REPEATED).try_for_each(|_| run())).ok().flatten();
        match &graph {
            Some(graph) => Ok(self.timed(rounds, &mut || self.play(graph))? / REPEATED as f64),
            None => self.timed(rounds, &mut run),
        }
    }

    /// Seconds that the card takes for what `run` starts, once; what was started before is waited for first.
    ///
    /// # Errors
    /// What `run` fails with, or a card that failed.
    pub fn seconds_once(&self, run: impl FnOnce() -> Result<(), OpsError>) -> Result<f64, OpsError> {
        let failed = |error: cudarc::driver::DriverError| CardError::call("timing")(&error);
        let (context, stream) = self.parts();
        let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(failed);
        let (begin, end) = (event()?, event()?);
        begin.record(stream).map_err(failed)?;
        run()?;
        end.record(stream).map_err(failed)?;
        end.synchronize().map_err(failed)?;
        Ok(f64::from(begin.elapsed_ms(&end).map_err(failed)?) / 1_000.0)
    }

    /// The same, as it is started.
    fn timed(&self, rounds: usize, run: &mut dyn FnMut() -> Result<(), OpsError>) -> Result<f64, OpsError> {
        let failed = |error: cudarc::driver::DriverError| CardError::call("timing")(&error);
        let (context, stream) = self.parts();
        let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(failed);
        let (begin, end) = (event()?, event()?);
        run()?;
        let mut all = Vec::with_capacity(rounds);
        for _ in 0..rounds.max(1) {
            begin.record(stream).map_err(failed)?;
            run()?;
            end.record(stream).map_err(failed)?;
            end.synchronize().map_err(failed)?;
            all.push(f64::from(begin.elapsed_ms(&end).map_err(failed)?) / 1_000.0);
        }
        all.sort_by(f64::total_cmp);
        Ok(all[all.len() / 2])
    }

    /// Measures what the card can do at most; takes two gigabytes of its memory twice.
    ///
    /// # Errors
    /// Too little memory, or a card that failed.
    pub fn ceilings(&self) -> Result<Ceilings, OpsError> {
        let what = "a measurement";
        let (from, mut to) = (self.reserve(what, COPIED_BYTES)?, self.reserve(what, COPIED_BYTES)?);
        // Not from a recording: there, a copy is left to engines that are slower than the card's memory.
        let copied = self.timed(ROUNDS, &mut || Ok(self.copy(&from, &mut to)?))?;
        drop((from, to));
        // Random bits would be infinities; these are numbers from 1 to 2 and from -2 to -1 that look like nothing in particular.
        let mut state = 1_u32;
        let bytes: Vec<u8> = (0..SIDE * SIDE)
            .flat_map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (0x3f80_u16 | (state >> 25) as u16 | ((state >> 16) as u16 & 0x8000)).to_le_bytes()
            })
            .collect();
        let mut x = self.reserve(what, bytes.len())?;
        let mut weight = self.reserve(what, bytes.len())?;
        let out = self.reserve(what, bytes.len())?;
        self.upload(&bytes, &mut x, 0)?;
        self.upload(&bytes, &mut weight, 0)?;
        let product = Product {
            rows: SIDE,
            inputs: SIDE,
            outputs: SIDE,
            x: (self.address(&x), SIDE),
            weight: (self.address(&weight), SIDE),
            bias: None,
            out: (self.address(&out), SIDE),
        };
        let multiplied = self.seconds(ROUNDS, || {
            #[allow(unsafe_code)]
            // SAFETY: all three were reserved for such matrices above.
            unsafe {
                self.product(&product)
            }
        })?;
        Ok(Ceilings {
            copy_bytes_s: 2.0 * COPIED_BYTES as f64 / copied,
            product_flops_s: 2.0 * (SIDE as f64).powi(3) / multiplied,
        })
    }
}
