//! Attention on a card: which kernels a plan is given to, with what arguments.
//!
//! It refuses to know how a batch is laid out.

use super::backend::Card;
use super::batch::{Partial, Step};
use super::driver::{Arg, Driver, Shape};
use super::memory::CardRows;
use super::plan::{DECODE_WARPS, Fast, TILE_WARPS, decode_blocks, joins_at_once};
use super::source::Unit;
use crate::ops::{Heads, OpsError};

/// The kernels of one shape of heads.
pub(super) struct Attention<D: Driver> {
    decode: D::Kernel,
    decode_many: D::Kernel,
    combine: D::Kernel,
    prefill: D::Kernel,
}

/// Threads of a block of the decode kernel.
const DECODE_THREADS: u32 = 32 * DECODE_WARPS as u32;

impl<D: Driver> Clone for Attention<D> {
    fn clone(&self) -> Self {
        Self {
            decode: self.decode.clone(),
            decode_many: self.decode_many.clone(),
            combine: self.combine.clone(),
            prefill: self.prefill.clone(),
        }
    }
}

/// What an attention reads and writes.
pub(super) struct Place<'a, D: Driver> {
    pub(super) qkv: &'a CardRows<D>,
    pub(super) heads: Heads,
    /// Where the layer of page 0 begins.
    pub(super) layer: u64,
    pub(super) page_stride: usize,
    pub(super) out: &'a CardRows<D>,
}

impl<D: Driver> Place<'_, D> {
    fn group(&self) -> usize {
        self.heads.query / self.heads.kv
    }

    /// What scores are multiplied by for powers of two.
    fn scale(&self) -> Arg {
        Arg::Float(std::f32::consts::LOG2_E / (self.heads.dim as f32).sqrt())
    }

    fn cache(&self) -> [Arg; 2] {
        [Arg::Address(self.layer), Arg::Long(self.page_stride as u64)]
    }

    fn rows(&self) -> [Arg; 2] {
        [Arg::Address(self.qkv.address), Arg::Word(self.qkv.stride as u32)]
    }

    fn out(&self) -> [Arg; 2] {
        [Arg::Address(self.out.address), Arg::Word(self.out.stride as u32)]
    }
}

impl<D: Driver> Card<D> {
    /// The kernels of a shape of heads, compiled when first asked for.
    pub(super) fn attention(&self, fast: Fast) -> Result<Attention<D>, OpsError> {
        if let Some(known) = self.attention.borrow().get(&fast) {
            return Ok(known.clone());
        }
        let decode = Unit::decode(fast.dim, fast.heads);
        let made = Attention {
            decode: self.driver.kernel(&decode, "decode", 0)?,
            decode_many: self.driver.kernel(&decode, "decode_many", fast.stream_bytes())?,
            combine: self.driver.kernel(&decode, "combine", 0)?,
            prefill: self.driver.kernel(&Unit::prefill(fast.dim, fast.group), "prefill", fast.shared_bytes())?,
        };
        self.attention.borrow_mut().insert(fast, made.clone());
        Ok(made)
    }

    pub(super) fn attend_plainly(&self, step: &Step<D>, place: &Place<'_, D>) -> Result<(), OpsError> {
        if place.qkv.rows == 0 {
            return Ok(());
        }
        let grid = [place.qkv.rows as u32, place.heads.query as u32];
        let ([rows, stride], [layer, page_stride], [out, out_stride]) = (place.rows(), place.cache(), place.out());
        let args = [
            rows,
            stride,
            Arg::Word(place.group() as u32),
            Arg::Word(place.heads.dim as u32),
            Arg::Address(step.at.reaches),
            Arg::Address(step.at.pages),
            layer,
            page_stride,
            place.scale(),
            out,
            out_stride,
        ];
        // SAFETY: as `attend_plain` declares them; the plan has a reach for each row, within checked pages.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&self.kernels.attend_plain, Shape { grid, threads: 128, shared_bytes: 0 }, &args)
        }
    }

    /// Attention by the fast kernels. Launches for a batch of single tokens depend on how many there are and on the card, not on
    /// how far back they see.
    pub(super) fn attend_fast(&self, step: &mut Step<D>, place: &Place<'_, D>, fast: Fast) -> Result<(), OpsError> {
        let kernels = self.attention(fast)?;
        let partial = step.partial(&self.driver, place.heads)?;
        self.attend_tiles(step, place, &kernels, fast, partial)?;
        self.attend_splits(step, place, &kernels, fast, partial)?;
        self.combine(step, place, &kernels, fast, partial)
    }

    fn attend_tiles(
        &self,
        step: &Step<D>,
        place: &Place<'_, D>,
        kernels: &Attention<D>,
        fast: Fast,
        partial: Partial,
    ) -> Result<(), OpsError> {
        if step.plan.tiles.is_empty() {
            return Ok(());
        }
        let ([rows, stride], [layer, page_stride], [out, out_stride]) = (place.rows(), place.cache(), place.out());
        let shape = Shape {
            grid: [step.plan.tiles.len() as u32, place.heads.kv as u32],
            threads: 32 * TILE_WARPS as u32,
            shared_bytes: fast.shared_bytes(),
        };
        let args = [
            rows,
            stride,
            Arg::Address(step.at.tiles),
            Arg::Address(step.at.pages),
            layer,
            page_stride,
            place.scale(),
            out,
            out_stride,
            Arg::Word(place.heads.query as u32),
            Arg::Address(partial.sums),
            Arg::Address(partial.masses),
        ];
        // SAFETY: as `prefill` declares them; tiles are of rows and pages that `prepare` checked, its shared memory is what the
        // kernel was made with, and `partial` has room for every slot of the plan.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&kernels.prefill, shape, &args)
        }
    }

    fn attend_splits(
        &self,
        step: &Step<D>,
        place: &Place<'_, D>,
        kernels: &Attention<D>,
        fast: Fast,
        partial: Partial,
    ) -> Result<(), OpsError> {
        if step.plan.splits.is_empty() {
            return Ok(());
        }
        let ([rows, stride], [layer, page_stride], [out, out_stride]) = (place.rows(), place.cache(), place.out());
        let at_once = joins_at_once(step.plan.rows, fast.parts);
        let shape = Shape {
            grid: [fast.parts as u32, decode_blocks(self.driver.multiprocessors(), fast.parts)],
            threads: DECODE_THREADS,
            shared_bytes: if at_once { 0 } else { fast.stream_bytes() },
        };
        let head = [
            rows,
            stride,
            Arg::Word(place.heads.query as u32),
            Arg::Word(fast.group as u32),
            Arg::Address(step.at.splits),
        ];
        let cache = [layer, page_stride, place.scale(), out, out_stride];
        let sums = [Arg::Address(partial.sums), Arg::Address(partial.masses)];
        let (kernel, args) = match at_once {
            true => {
                let (joined, tickets) = ([Arg::Address(step.at.joined)], [Arg::Address(partial.tickets)]);
                (&kernels.decode, [&head[..], &joined, &cache, &sums, &tickets].concat())
            }
            false => (&kernels.decode_many, [&head[..], &cache, &sums].concat()),
        };
        // SAFETY: as both declare them; splits are of rows and pages that `prepare` checked, behind them come as many empty ones
        // as blocks look at, and `partial` has room for every slot and ticket of the plan, whose tickets are zeros.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(kernel, shape, &args)
        }
    }

    /// Puts splits together, where the decode kernel has not, and pieces of tiles.
    fn combine(
        &self,
        step: &Step<D>,
        place: &Place<'_, D>,
        kernels: &Attention<D>,
        fast: Fast,
        partial: Partial,
    ) -> Result<(), OpsError> {
        let ([out, out_stride], query_heads) = (place.out(), Arg::Word(place.heads.query as u32));
        let split = if joins_at_once(step.plan.rows, fast.parts) { 0 } else { step.plan.rows };
        for (at, rows) in [(step.at.joined, split), (step.at.pieced, step.plan.pieced.len())] {
            if rows == 0 {
                continue;
            }
            let shape = Shape { grid: [rows as u32, fast.parts as u32], threads: DECODE_THREADS, shared_bytes: 0 };
            let sums = [Arg::Address(partial.sums), Arg::Address(partial.masses)];
            let args = [Arg::Address(at), query_heads, sums[0], sums[1], out, out_stride];
            // SAFETY: as `combine` declares them; its slots are those that the launches before fill, of so many rows, and of
            // rows that are not joined there are none.
            #[allow(unsafe_code)]
            unsafe {
                self.driver.launch(&kernels.combine, shape, &args)?;
            }
        }
        Ok(())
    }
}
