//! What learning does to rows on a card: how their kernels are launched, once what they are given has been checked.
//!
//! It refuses to know what the rows stand for.

use super::param::{CardParam, SINGLE_BYTES};
use super::plan::Scatter;
use super::room::{blocks, flat, word};
use crate::cuda::backend::Card;
use crate::cuda::driver::{Arg, Driver};
use crate::cuda::memory::{CardRows, VALUE_BYTES};
use crate::cuda::plan::FAST_DIMS;
use crate::ops::{Heads, OpsError, Rope};

/// Bytes of a piece of the kernels that go over memory as it lies.
const PIECE_BYTES: usize = 16;
/// Threads of a block that takes whole rows.
const ROW_THREADS_MAX: usize = 1_024;
/// Values of a row at most where its gradient stays in registers: two chunks of each thread.
pub(super) const NORM_WIDTH_MAX: usize = 2 * 8 * ROW_THREADS_MAX;
/// Blocks at most that sum rows for a gradient. A number of its own and not one of the card's, so that sums are the same on all.
const SUM_BLOCKS: usize = 512;
/// Rows of which a block sums columns.
const COLUMN_ROWS: usize = 128;

impl<D: Driver> Card<D> {
    pub(super) fn fill_zero(&self, at: u64, bytes: usize) -> Result<(), OpsError> {
        let pieces = bytes / PIECE_BYTES;
        if pieces == 0 {
            return Ok(());
        }
        let room = self.room()?;
        // SAFETY: as `fill_zero` declares them; rows and parts of tensors are whole pieces, and the callers' memory has as many.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.fill_zero, flat(pieces), &[Arg::Address(at), Arg::Long(pieces as u64)])
        }
    }

    /// Holds so many rows, of zeros where nothing else will be written.
    pub(super) fn zero_if(&self, zero: bool, x: &mut CardRows<D>, rows: usize) -> Result<(), OpsError> {
        x.set_rows(rows)?;
        if zero { self.fill_zero(x.address, rows * x.stride * VALUE_BYTES) } else { Ok(()) }
    }

    pub(super) fn copy_rows(&self, x: &CardRows<D>, out: &CardRows<D>) -> Result<(), OpsError> {
        let room = self.room()?;
        self.over_both(&room.kernels.copy_pieces, x, out)
    }

    pub(super) fn add_rows(&self, x: &CardRows<D>, delta: &CardRows<D>) -> Result<(), OpsError> {
        let room = self.room()?;
        self.over_both(&room.kernels.add_rows, x, delta)
    }

    /// The caller has checked all three and set their rows.
    pub(super) fn sum_rows(&self, x: &CardRows<D>, delta: &CardRows<D>, out: &CardRows<D>) -> Result<(), OpsError> {
        let pieces = x.rows * x.stride * VALUE_BYTES / PIECE_BYTES;
        if pieces == 0 {
            return Ok(());
        }
        let args = [x, delta, out].map(|rows| Arg::Address(rows.address));
        let args = [&args[..], &[Arg::Long(pieces as u64)]].concat();
        let room = self.room()?;
        // SAFETY: as `sum_rows` declares them; all three hold as many rows at one stride.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.sum_rows, flat(pieces), &args)
        }
    }

    /// The caller has checked all of them, and that rows are no wider than [`NORM_WIDTH_MAX`].
    pub(super) fn sum_norm_rows(
        &self,
        x: &CardRows<D>,
        delta: &CardRows<D>,
        (weight, eps): (&CardParam<D>, f32),
        sum: &CardRows<D>,
        out: &CardRows<D>,
    ) -> Result<(), OpsError> {
        if x.rows == 0 || x.width == 0 {
            return Ok(());
        }
        let args = [
            Arg::Address(x.address),
            Arg::Address(delta.address),
            word(x.stride),
            word(x.width),
            Arg::Address(weight.copy_at(&self.driver)),
            Arg::Float(eps),
            Arg::Address(sum.address),
            Arg::Address(out.address),
        ];
        let room = self.room()?;
        // SAFETY: as `sum_norm` declares them; all four hold so many rows of one width, the weight is as wide, and its threads have
        // two chunks of a row or fewer.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.sum_norm, blocks([x.rows, 1], row_threads(x.width)), &args)
        }
    }

    /// Starts a kernel over the pieces of two buffers that hold as many rows of one width.
    fn over_both(&self, kernel: &D::Kernel, one: &CardRows<D>, other: &CardRows<D>) -> Result<(), OpsError> {
        let pieces = one.rows * one.stride * VALUE_BYTES / PIECE_BYTES;
        if pieces == 0 {
            return Ok(());
        }
        let args = [Arg::Address(one.address), Arg::Address(other.address), Arg::Long(pieces as u64)];
        // SAFETY: as both kernels declare them; the buffers hold as many rows at one stride.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(kernel, flat(pieces), &args)
        }
    }

    pub(super) fn gather_some(
        &self,
        table: &CardParam<D>,
        first: u32,
        ids: &[u32],
        out: &CardRows<D>,
    ) -> Result<(), OpsError> {
        if ids.is_empty() || out.width == 0 {
            return Ok(());
        }
        let mut room = self.room()?;
        let at = room.words.put(&self.driver, "ids", ids)?;
        let args = [
            Arg::Address(table.copy_at(&self.driver)),
            word(table.stride),
            word(table.rows),
            Arg::Word(first),
            Arg::Address(at),
            word(out.stride / 8),
            Arg::Address(out.address),
        ];
        // SAFETY: as `gather_some` declares them; `out` holds a row for each id at the table's stride.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.gather_some, blocks([ids.len(), 1], 256), &args)
        }
    }

    /// Adds rows to others at `to`, singles or bf16, at the same stride. The caller has checked where they go.
    pub(super) fn scatter(&self, scatter: &Scatter, rows: &CardRows<D>, to: u64, single: bool) -> Result<(), OpsError> {
        if scatter.segments.is_empty() || rows.width == 0 {
            return Ok(());
        }
        let mut room = self.room()?;
        let segments = room.words.put(&self.driver, "segments of rows", scatter.segments.as_flattened())?;
        let order = room.order.put(&self.driver, "an order of rows", &scatter.order)?;
        let args = [
            Arg::Address(rows.address),
            word(rows.stride),
            word(rows.width),
            Arg::Address(segments),
            Arg::Address(order),
            Arg::Address(to),
        ];
        let kernel = if single { &room.kernels.scatter_single } else { &room.kernels.scatter_rows };
        let shape = blocks([scatter.segments.len(), rows.width.div_ceil(8 * 64)], 64);
        // SAFETY: as both kernels declare them; the order is of rows that are there, and segments of rows of what is added to.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(kernel, shape, &args)
        }
    }

    pub(super) fn norm_rows(
        &self,
        x: &CardRows<D>,
        weight: &CardParam<D>,
        eps: f32,
        out: &CardRows<D>,
    ) -> Result<(), OpsError> {
        if x.rows == 0 || x.width == 0 {
            return Ok(());
        }
        let args = [
            Arg::Address(x.address),
            word(x.stride),
            word(x.width),
            Arg::Address(weight.copy_at(&self.driver)),
            Arg::Float(eps),
            Arg::Address(out.address),
        ];
        let room = self.room()?;
        // SAFETY: as `rms_norm` declares them; `x` and `out` hold so many rows of one width, and the weight is as wide.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.rms_norm, blocks([x.rows, 1], row_threads(x.width)), &args)
        }
    }

    pub(super) fn norm_rows_back(
        &self,
        x: &CardRows<D>,
        weight: &mut CardParam<D>,
        eps: f32,
        d_out: &CardRows<D>,
        dx: &CardRows<D>,
    ) -> Result<(), OpsError> {
        if x.width > NORM_WIDTH_MAX {
            let (expected, got) = (format!("rows of at most {NORM_WIDTH_MAX} values"), x.width.to_string());
            return Err(OpsError::Shape { op: "norm_backward", expected, got });
        }
        if x.rows == 0 || x.width == 0 {
            return Ok(());
        }
        let gradient = weight.gradient_at(&self.driver)?;
        let mut room = self.room()?;
        let count = x.rows.min(SUM_BLOCKS);
        let partial = room.partial.at_least(&self.driver, "sums of blocks", count * x.width * SINGLE_BYTES)?;
        let args = [
            Arg::Address(x.address),
            word(x.stride),
            word(x.width),
            word(x.rows),
            word(count),
            Arg::Address(weight.copy_at(&self.driver)),
            Arg::Float(eps),
            Arg::Address(d_out.address),
            Arg::Address(dx.address),
            Arg::Address(partial),
        ];
        // SAFETY: as `norm_back` declares them; all three hold so many rows of one width, the weight is as wide, its threads
        // have two chunks of a row or fewer, and there is room for a row of sums of each block.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.norm_back, blocks([count, 1], row_threads(x.width)), &args)?;
        }
        self.add_partial(&room.kernels.add_columns, (partial, x.width), x.width, count, gradient)
    }

    /// Adds the column sums of rows to a bias's gradient.
    pub(super) fn add_columns_of(&self, x: &CardRows<D>, bias: &mut CardParam<D>) -> Result<(), OpsError> {
        if x.rows == 0 || x.width == 0 {
            return Ok(());
        }
        let gradient = bias.gradient_at(&self.driver)?;
        let mut room = self.room()?;
        let count = x.rows.div_ceil(COLUMN_ROWS);
        let partial = room.partial.at_least(&self.driver, "sums of blocks", count * x.width * SINGLE_BYTES)?;
        let args = [
            Arg::Address(x.address),
            word(x.stride),
            word(x.width),
            word(x.rows),
            word(COLUMN_ROWS),
            Arg::Address(partial),
        ];
        // SAFETY: as `column_partials` declares them; there is room for a row of sums of each block row.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.column_partials, blocks([x.width.div_ceil(256), count], 256), &args)?;
        }
        self.add_partial(&room.kernels.add_columns, (partial, x.width), x.width, count, gradient)
    }

    /// Adds so many rows of sums, at a stride, to a gradient.
    fn add_partial(
        &self,
        kernel: &D::Kernel,
        (partial, stride): (u64, usize),
        width: usize,
        count: usize,
        gradient: u64,
    ) -> Result<(), OpsError> {
        let args = [Arg::Address(partial), word(stride), word(width), word(count), Arg::Address(gradient)];
        // SAFETY: as `add_columns` declares them; the launch before wrote so many rows of sums, and the gradient is as wide.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(kernel, blocks([width.div_ceil(32), 1], 256), &args)
        }
    }

    /// From other rows, or in place. The caller has checked both and set their rows.
    pub(super) fn rotate_rows(
        &self,
        from: Option<&CardRows<D>>,
        qkv: &CardRows<D>,
        heads: Heads,
        norms: Option<(&CardParam<D>, &CardParam<D>, f32)>,
        rope: &Rope,
        positions: &[u32],
    ) -> Result<(), OpsError> {
        if qkv.rows == 0 {
            return Ok(());
        }
        let is_wide = is_wide(heads, rope);
        if let Some(from) = from.filter(|_| !is_wide) {
            self.copy_rows(from, qkv)?;
        }
        let mut room = self.room()?;
        let room = &mut *room;
        let table = Arg::Address(room.turns.table(&self.driver, &room.kernels.angles, rope, positions)?);
        let at = |norm: &CardParam<D>| norm.copy_at(&self.driver);
        let (query, key, eps) = norms.map_or((0, 0, 0.0), |(query, key, eps)| (at(query), at(key), eps));
        let of_rows = [word(qkv.stride), word(heads.query), word(heads.kv), word(heads.dim)];
        let of_norms = [Arg::Address(query), Arg::Address(key), Arg::Float(eps)];
        let to = Arg::Address(qkv.address);
        let (kernel, args, below) = match is_wide {
            true => {
                let places = [Arg::Address(from.map_or(qkv.address, |from| from.address)), to];
                let args = [&places[..], &of_rows, &of_norms, &[table]].concat();
                let heads_of_block = 128 / (heads.dim / 16);
                (&room.kernels.rotate_rows_wide, args, (heads.query + 2 * heads.kv).div_ceil(heads_of_block))
            }
            false => {
                let neighbours = Arg::Word(rope.interleaved.into());
                let args = [&[to][..], &of_rows, &of_norms, &[table, neighbours]].concat();
                (&room.kernels.rotate_rows, args, (heads.query + heads.kv).div_ceil(4))
            }
        };
        // SAFETY: as both kernels declare them; rows are of these heads at one stride, norms as wide as one, and the table has a
        // pair of floats for each row and pair.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(kernel, blocks([qkv.rows, below], 128), &args)
        }
    }

    pub(super) fn rotate_rows_back(
        &self,
        before: &CardRows<D>,
        heads: Heads,
        norms: Option<(&mut CardParam<D>, &mut CardParam<D>, f32)>,
        rope: &Rope,
        positions: &[u32],
        d_qkv: &CardRows<D>,
    ) -> Result<(), OpsError> {
        if before.rows == 0 {
            return Ok(());
        }
        let mut room = self.room()?;
        let room = &mut *room;
        let table = room.turns.table(&self.driver, &room.kernels.angles, rope, positions)?;
        let (count, both) = (before.rows.min(SUM_BLOCKS), 2 * heads.dim);
        let (mut partial, mut eps, mut gradients, mut weights) = (0, 0.0, None, [0; 2]);
        if let Some((query, key, of_norms)) = norms {
            partial = room.partial.at_least(&self.driver, "sums of blocks", count * both * SINGLE_BYTES)?;
            eps = of_norms;
            weights = [query.copy_at(&self.driver), key.copy_at(&self.driver)];
            gradients = Some([query.gradient_at(&self.driver)?, key.gradient_at(&self.driver)?]);
        }
        let args = [
            Arg::Address(before.address),
            Arg::Address(d_qkv.address),
            word(before.stride),
            word(before.rows),
            word(count),
            word(heads.query),
            word(heads.kv),
            word(heads.dim),
            Arg::Address(weights[0]),
            Arg::Address(weights[1]),
            Arg::Float(eps),
            Arg::Address(table),
        ];
        let (kernel, last) = match is_wide(heads, rope) {
            true => (&room.kernels.rotate_back_wide, vec![Arg::Address(partial)]),
            false => (&room.kernels.rotate_back, vec![Arg::Word(rope.interleaved.into()), Arg::Address(partial)]),
        };
        let args = [&args[..], &last].concat();
        // SAFETY: as both kernels declare them; both hold so many rows of these heads, norms are as wide as one, the table has
        // a pair of floats for each row and pair, and there is room for the sums of each block.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(kernel, blocks([count, 1], 256), &args)?;
        }
        let Some(gradients) = gradients else { return Ok(()) };
        for (number, gradient) in gradients.into_iter().enumerate() {
            let of_norm = partial + (number * heads.dim * SINGLE_BYTES) as u64;
            self.add_partial(&room.kernels.add_columns, (of_norm, both), heads.dim, count, gradient)?;
        }
        Ok(())
    }

    pub(super) fn swiglu_rows_back(
        &self,
        gate_up: &CardRows<D>,
        d_out: &CardRows<D>,
        d_gate_up: &CardRows<D>,
    ) -> Result<(), OpsError> {
        if d_out.rows == 0 || d_out.width == 0 {
            return Ok(());
        }
        let args = [
            Arg::Address(gate_up.address),
            word(gate_up.stride),
            word(d_out.width),
            Arg::Address(d_out.address),
            word(d_out.stride),
            Arg::Address(d_gate_up.address),
        ];
        let room = self.room()?;
        let shape = blocks([d_out.rows, d_out.width.div_ceil(8 * 256)], 256);
        // SAFETY: as `swiglu_back` declares them; `gate_up` and its gradient hold so many rows of twice the width of `d_out`'s.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.swiglu_back, shape, &args)
        }
    }
}

/// Whether the kernels take heads by 16 bytes of either half.
fn is_wide(heads: Heads, rope: &Rope) -> bool {
    FAST_DIMS.contains(&heads.dim) && !rope.interleaved
}

/// Threads of a block that takes whole rows, a chunk each where they suffice.
fn row_threads(width: usize) -> usize {
    width.div_ceil(8).next_multiple_of(32).min(ROW_THREADS_MAX)
}
