//! Attention on a card: which kernels a plan is given to, with what arguments.
//!
//! It refuses to know how a batch is laid out.

use super::backend::Card;
use super::batch::{Partial, Step};
use super::driver::{Arg, Driver, Shape};
use super::memory::CardRows;
use super::plan::{DECODE_WARPS, Fast, TILE_PACKED, decode_blocks, joins_at_once};
use super::source::Unit;
use crate::ops::{Heads, OpsError};

/// Threads of a block of Hopper's prefill kernel: a warpgroup that copies and two that compute.
const HOPPER_THREADS: u32 = 384;

/// The kernels of one shape of heads.
pub(super) struct Attention<D: Driver> {
    decode: D::Kernel,
    decode_many: D::Kernel,
    combine: D::Kernel,
    prefill: Prefill<D>,
}

/// The kernel of tiles, and what it is launched with.
struct Prefill<D: Driver> {
    kernel: D::Kernel,
    threads: u32,
    shared_bytes: u32,
}

impl<D: Driver> Clone for Prefill<D> {
    fn clone(&self) -> Self {
        Self { kernel: self.kernel.clone(), ..*self }
    }
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
    /// Where the rows of the whole cache are described, and which of these is the first of the layer of page 0.
    pub(super) boxes: Option<(u64, u32)>,
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
            prefill: self.prefill(fast)?,
        };
        self.attention.borrow_mut().insert(fast, made.clone());
        Ok(made)
    }

    /// The kernel of tiles that is best for the card: Hopper has one with its own instructions.
    fn prefill(&self, fast: Fast) -> Result<Prefill<D>, OpsError> {
        let (unit, threads, shared_bytes) = match self.driver.is_hopper() {
            true => (Unit::prefill_hopper(fast.dim, fast.group), HOPPER_THREADS, fast.hopper_shared_bytes()),
            false => (Unit::prefill(fast.dim, fast.group), TILE_PACKED as u32, fast.shared_bytes()),
        };
        Ok(Prefill { kernel: self.driver.kernel(&unit, "prefill", shared_bytes)?, threads, shared_bytes })
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
        self.attend_tiles(step, place, &kernels, partial)?;
        self.attend_splits(step, place, &kernels, fast, partial)?;
        self.combine(step, place, &kernels, fast, partial)
    }

    fn attend_tiles(
        &self,
        step: &Step<D>,
        place: &Place<'_, D>,
        kernels: &Attention<D>,
        partial: Partial,
    ) -> Result<(), OpsError> {
        if step.plan.tiles.is_empty() {
            return Ok(());
        }
        let ([rows, stride], [out, out_stride]) = (place.rows(), place.out());
        let shape = Shape {
            grid: [step.plan.tiles.len() as u32, place.heads.kv as u32],
            threads: kernels.prefill.threads,
            shared_bytes: kernels.prefill.shared_bytes,
        };
        let cache = match place.boxes {
            Some((boxes, first_row)) => {
                let page_rows = place.page_stride / place.heads.dim;
                vec![Arg::Address(boxes), Arg::Word(first_row), Arg::Word(page_rows as u32)]
            }
            None => place.cache().to_vec(),
        };
        let before = [rows, stride, Arg::Address(step.at.tiles), Arg::Address(step.at.pages)];
        let query_heads = Arg::Word(place.heads.query as u32);
        let behind =
            [place.scale(), out, out_stride, query_heads, Arg::Address(partial.sums), Arg::Address(partial.masses)];
        let args = [&before[..], &cache, &behind].concat();
        // SAFETY: as `prefill` declares them, Hopper's with the description that only its caches have; tiles are of rows and pages that `prepare` checked, its shared memory is what the
        // kernel was made with, and `partial` has room for every slot of the plan.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&kernels.prefill.kernel, shape, &args)
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
