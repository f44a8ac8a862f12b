//! [`Ops`] on a card: each operation checks what it is given and starts its kernels. The residual stream is bf16 like all
//! rows, as in Hugging Face's bf16 models: a sum is rounded, and its norm is that of the rounded sum.
//!
//! It refuses to know models and how kernels are run.

use super::attention::{Attention, Place};
use super::batch::Step;
use super::driver::{Arg, Driver, Product, Shape};
use super::linear::{Few, Layout};
use super::memory::{CardCache, CardMatrix, CardRows, CardVector, Growing};
use super::plan::{Fast, HEAD_DIM_MAX};
use super::recorded::Recorder;
use super::source::Unit;
use crate::batch::Batch;
use crate::draw::{DrawRules, RowDraw};
use crate::host::HostBytes;
use crate::ops::{CacheShape, Heads, Ops, OpsError, Rope, expect_equal};
use crate::stored::Stored;
use std::cell::RefCell;
use std::collections::HashMap;

/// Threads of a block of the kernels that take whole rows.
const ROW_THREADS_MAX: usize = 1024;
/// Rows from which on those of a batch keep a card busy: a block takes a whole one, so that its angles are read once.
const MANY_ROWS: usize = 1024;
/// Threads of a block of the other kernels.
const THREADS: u32 = 256;

/// A card as a backend.
pub struct Card<D: Driver> {
    // Dropped before the driver: NCCL does not end a group before all recordings that hold its sums are gone.
    pub(super) recorder: RefCell<Recorder<D>>,
    pub(super) driver: D,
    pub(super) kernels: Kernels<D>,
    pub(super) attention: RefCell<HashMap<Fast, Attention<D>>>,
    pub(super) step: RefCell<Step<D>>,
    ids: RefCell<Growing<D>>,
    few: RefCell<Few<D>>,
    pub(super) sampler: RefCell<Option<super::sampler::Room<D>>>,
    pub(super) learning: RefCell<Option<super::learn::Room<D>>>,
}

/// The kernels that every model needs.
pub(super) struct Kernels<D: Driver> {
    gather: D::Kernel,
    rms_norm: D::Kernel,
    add_rms_norm: D::Kernel,
    swiglu: D::Kernel,
    normalize: D::Kernel,
    angles: D::Kernel,
    rotate_and_keep: D::Kernel,
    rotate_and_keep_wide: D::Kernel,
    pub(super) attend_plain: D::Kernel,
}

impl<D: Driver> Card<D> {
    /// A backend of what a driver runs.
    ///
    /// # Errors
    /// Kernels that do not compile.
    pub fn new(driver: D) -> Result<Self, OpsError> {
        let (rows, rotate) = (Unit::rows(), Unit::rotate());
        let kernels = Kernels {
            gather: driver.kernel(&rows, "gather", 0)?,
            rms_norm: driver.kernel(&rows, "rms_norm", 0)?,
            add_rms_norm: driver.kernel(&rows, "add_rms_norm", 0)?,
            swiglu: driver.kernel(&rows, "swiglu", 0)?,
            normalize: driver.kernel(&rows, "normalize", 0)?,
            angles: driver.kernel(&rotate, "angles", 0)?,
            rotate_and_keep: driver.kernel(&rotate, "rotate_and_keep", 0)?,
            rotate_and_keep_wide: driver.kernel(&rotate, "rotate_and_keep_wide", 0)?,
            attend_plain: driver.kernel(&Unit::plain(), "attend_plain", 0)?,
        };
        Ok(Self {
            driver,
            kernels,
            attention: RefCell::default(),
            step: RefCell::new(Step::new()),
            recorder: RefCell::new(Recorder::new()),
            ids: RefCell::new(Growing::new()),
            few: RefCell::new(Few::new()),
            sampler: RefCell::default(),
            learning: RefCell::default(),
        })
    }

    /// What runs its kernels.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// `out[i] = table[ids[i]]`; the caller has checked the ids and set the rows.
    fn gather(&self, table: u64, table_stride: usize, ids: &[u32], out: &mut CardRows<D>) -> Result<(), OpsError> {
        if ids.is_empty() || out.width == 0 {
            return Ok(());
        }
        // Those of the batch are on the card already, and a recorded step must not copy.
        let at = match self.step.borrow().ids_of(ids) {
            Some(at) => at,
            None => self.ids.borrow_mut().put(&self.driver, "ids", ids)?,
        };
        let shape = Shape { grid: [ids.len() as u32, 1], threads: THREADS, shared_bytes: 0 };
        let args = [
            Arg::Address(table),
            Arg::Word(table_stride as u32),
            Arg::Address(at),
            Arg::Word((out.stride / 8) as u32),
            Arg::Address(out.address),
            Arg::Word(out.stride as u32),
        ];
        // SAFETY: as `gather` declares them; ids are rows of the table, `out` holds a row for each, and both have one stride.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&self.kernels.gather, shape, &args)
        }
    }

    /// Starts a kernel that takes a block for each row.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    #[allow(unsafe_code, reason = "passes the duty on")]
    unsafe fn by_row(&self, kernel: &D::Kernel, rows: usize, width: usize, args: &[Arg]) -> Result<(), OpsError> {
        if rows == 0 || width == 0 {
            return Ok(());
        }
        let threads = width.div_ceil(8).next_multiple_of(32).min(ROW_THREADS_MAX) as u32;
        // SAFETY: the caller's duty.
        unsafe { self.driver.launch(kernel, Shape { grid: [rows as u32, 1], threads, shared_bytes: 0 }, args) }
    }

    /// Checks what rotation and attention have in common, and puts the batch on the card.
    fn prepare(
        &self,
        op: &'static str,
        qkv: &CardRows<D>,
        heads: Heads,
        batch: &Batch,
        cache: &CardCache<D>,
    ) -> Result<std::cell::RefMut<'_, Step<D>>, OpsError> {
        expect_equal(op, "values of a row", heads.fused(), qkv.width)?;
        expect_equal(op, "rows", batch.rows(), qkv.rows)?;
        expect_equal(op, "key heads", cache.shape.kv_heads, heads.kv)?;
        expect_equal(op, "values of a head", cache.shape.head_dim, heads.dim)?;
        let whole_groups = heads.kv > 0 && heads.query > 0 && heads.query.is_multiple_of(heads.kv);
        if !whole_groups || heads.dim == 0 || heads.dim > HEAD_DIM_MAX || !heads.dim.is_multiple_of(2) {
            let expected =
                format!("an even head of at most {HEAD_DIM_MAX} values, query heads a multiple of key heads");
            return Err(OpsError::Shape { op, expected, got: format!("{heads:?}") });
        }
        let mut step = self.step.borrow_mut();
        step.prepare(&self.driver, batch, heads, cache.shape.pages)?;
        Ok(step)
    }
}

impl<D: Driver> Ops for Card<D> {
    type Matrix = CardMatrix<D>;
    type Vector = CardVector<D>;
    type Rows = CardRows<D>;
    type Cache = CardCache<D>;

    fn matrix(&self, parts: &[Stored]) -> Result<CardMatrix<D>, OpsError> {
        CardMatrix::new(&self.driver, parts)
    }

    fn vector(&self, values: &[f32]) -> Result<CardVector<D>, OpsError> {
        CardVector::new(&self.driver, values)
    }

    fn rows(&self, rows_max: usize, width: usize) -> Result<CardRows<D>, OpsError> {
        CardRows::new(&self.driver, rows_max, width)
    }

    fn cache(&self, shape: CacheShape) -> Result<CardCache<D>, OpsError> {
        CardCache::new(&self.driver, shape)
    }

    fn embed(&self, table: &CardMatrix<D>, ids: &[u32], out: &mut CardRows<D>) -> Result<(), OpsError> {
        expect_equal("embed", "width", table.cols, out.width)?;
        expect_below("embed", "an id", table.rows, ids)?;
        out.set_rows(ids.len())?;
        self.gather(table.address, table.stride, ids, out)
    }

    fn norm(&self, x: &CardRows<D>, weight: &CardVector<D>, eps: f32, out: &mut CardRows<D>) -> Result<(), OpsError> {
        expect_equal("norm", "width", x.width, weight.len)?;
        expect_equal("norm", "width", x.width, out.width)?;
        out.set_rows(x.rows)?;
        let args = [
            Arg::Address(x.address),
            Arg::Word(x.stride as u32),
            Arg::Word(x.width as u32),
            Arg::Address(weight.address),
            Arg::Float(eps),
            Arg::Address(out.address),
        ];
        // SAFETY: as `rms_norm` declares them; `x` and `out` hold so many rows of one width, and the weight is as wide.
        #[allow(unsafe_code)]
        unsafe {
            self.by_row(&self.kernels.rms_norm, x.rows, x.width, &args)
        }
    }

    fn add_norm(
        &self,
        x: &mut CardRows<D>,
        delta: &CardRows<D>,
        weight: &CardVector<D>,
        eps: f32,
        out: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        expect_equal("add_norm", "width", x.width, delta.width)?;
        expect_equal("add_norm", "rows", x.rows, delta.rows)?;
        expect_equal("add_norm", "width", x.width, weight.len)?;
        expect_equal("add_norm", "width", x.width, out.width)?;
        out.set_rows(x.rows)?;
        let args = [
            Arg::Address(x.address),
            Arg::Address(delta.address),
            Arg::Word(x.stride as u32),
            Arg::Word(x.width as u32),
            Arg::Address(weight.address),
            Arg::Float(eps),
            Arg::Address(out.address),
        ];
        // SAFETY: as `add_rms_norm` declares them; all three hold so many rows of one width, and the weight is as wide.
        #[allow(unsafe_code)]
        unsafe {
            self.by_row(&self.kernels.add_rms_norm, x.rows, x.width, &args)
        }
    }

    fn linear(
        &self,
        x: &CardRows<D>,
        weight: &CardMatrix<D>,
        bias: Option<&CardVector<D>>,
        out: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        expect_equal("linear", "inputs", weight.cols, x.width)?;
        expect_equal("linear", "outputs", weight.rows, out.width)?;
        if let Some(bias) = bias {
            expect_equal("linear", "biases", weight.rows, bias.len)?;
        }
        out.set_rows(x.rows)?;
        if x.rows == 0 || weight.rows == 0 || weight.cols == 0 {
            return Ok(());
        }
        let product = Product {
            rows: x.rows,
            inputs: weight.cols,
            outputs: weight.rows,
            x: (x.address, x.stride),
            weight: (weight.address, weight.stride),
            bias: bias.map(|bias| bias.address),
            out: (out.address, out.stride),
        };
        // SAFETY: the addresses are those of buffers of these shapes, as checked above.
        #[allow(unsafe_code)]
        unsafe {
            match Layout::of(&product) {
                Some(layout) => self.few.borrow_mut().run(&self.driver, &product, layout),
                None => self.driver.product(&product),
            }
        }
    }

    fn rotate_and_keep(
        &self,
        qkv: &mut CardRows<D>,
        heads: Heads,
        norms: Option<(&CardVector<D>, &CardVector<D>, f32)>,
        rope: &Rope,
        batch: &Batch,
        layer: usize,
        cache: &mut CardCache<D>,
    ) -> Result<(), OpsError> {
        let op = "rotate_and_keep";
        expect_equal(op, "frequencies", heads.dim / 2, rope.frequencies.len())?;
        if let Some((query, key, _)) = norms {
            expect_equal(op, "query norm", heads.dim, query.len)?;
            expect_equal(op, "key norm", heads.dim, key.len)?;
        }
        let mut step = self.prepare(op, qkv, heads, batch, cache)?;
        let table = step.table(&self.driver, &self.kernels.angles, rope)?;
        let layer = cache.layer(op, layer)?;
        if qkv.rows == 0 {
            return Ok(());
        }
        let (query, key, eps) = norms.map_or((0, 0, 0.0), |(query, key, eps)| (query.address, key.address, eps));
        let all_heads = (heads.query + 2 * heads.kv) as u32;
        let is_wide = [64, 128].contains(&heads.dim);
        let below = match is_wide {
            true if qkv.rows >= MANY_ROWS => 1,
            true => all_heads.div_ceil(128 / (heads.dim as u32 / 16)),
            false => all_heads.div_ceil(4),
        };
        let shape = Shape { grid: [qkv.rows as u32, below], threads: 128, shared_bytes: 0 };
        let kernel = if is_wide { &self.kernels.rotate_and_keep_wide } else { &self.kernels.rotate_and_keep };
        let args = [
            Arg::Address(qkv.address),
            Arg::Word(qkv.stride as u32),
            Arg::Word(heads.query as u32),
            Arg::Word(heads.kv as u32),
            Arg::Word(heads.dim as u32),
            Arg::Address(query),
            Arg::Address(key),
            Arg::Float(eps),
            Arg::Address(table),
            Arg::Word(rope.interleaved.into()),
            Arg::Address(step.at.slots),
            Arg::Address(layer),
            Arg::Long(cache.page_stride() as u64),
        ];
        // SAFETY: as both kernels declare them; `prepare` checked shapes and pages and put a slot for each row there,
        // and `table` a pair of floats for each row and pair.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(kernel, shape, &args)
        }
    }

    fn attend(
        &self,
        qkv: &CardRows<D>,
        heads: Heads,
        batch: &Batch,
        layer: usize,
        cache: &CardCache<D>,
        out: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        expect_equal("attend", "width", heads.width(), out.width)?;
        let mut step = self.prepare("attend", qkv, heads, batch, cache)?;
        out.set_rows(qkv.rows)?;
        let (at, page_stride, boxes) = (cache.layer("attend", layer)?, cache.page_stride(), cache.boxes(layer));
        let place = Place { qkv, heads, layer: at, page_stride, boxes, out };
        match step.fast {
            None => self.attend_plainly(&step, &place),
            Some(fast) => self.attend_fast(&mut step, &place, fast),
        }
    }

    fn swiglu(&self, gate_up: &CardRows<D>, out: &mut CardRows<D>) -> Result<(), OpsError> {
        expect_equal("swiglu", "width", 2 * out.width, gate_up.width)?;
        out.set_rows(gate_up.rows)?;
        if out.rows == 0 || out.width == 0 {
            return Ok(());
        }
        let blocks = (out.width as u32).div_ceil(8 * THREADS);
        let shape = Shape { grid: [out.rows as u32, blocks], threads: THREADS, shared_bytes: 0 };
        let args = [
            Arg::Address(gate_up.address),
            Arg::Word(gate_up.stride as u32),
            Arg::Word(out.width as u32),
            Arg::Address(out.address),
            Arg::Word(out.stride as u32),
        ];
        // SAFETY: as `swiglu` declares them; `gate_up` holds so many rows of twice the width of `out`'s.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&self.kernels.swiglu, shape, &args)
        }
    }

    fn pick(&self, x: &CardRows<D>, rows: &[u32], out: &mut CardRows<D>) -> Result<(), OpsError> {
        expect_equal("pick", "width", x.width, out.width)?;
        expect_below("pick", "a row", x.rows, rows)?;
        out.set_rows(rows.len())?;
        self.gather(x.address, x.stride, rows, out)
    }

    fn normalize(&self, x: &mut CardRows<D>) -> Result<(), OpsError> {
        let args = [Arg::Address(x.address), Arg::Word(x.stride as u32), Arg::Word(x.width as u32)];
        // SAFETY: as `normalize` declares them, of a buffer of so many rows.
        #[allow(unsafe_code)]
        unsafe {
            self.by_row(&self.kernels.normalize, x.rows, x.width, &args)
        }
    }

    fn read(&self, x: &CardRows<D>, out: &mut Vec<f32>) -> Result<(), OpsError> {
        x.read(&self.driver, out)
    }

    fn read_row(&self, x: &CardRows<D>, row: usize, out: &mut Vec<f32>) -> Result<(), OpsError> {
        x.read_row(&self.driver, row, out)
    }

    fn set_rows(&self, x: &mut CardRows<D>, rows: usize) -> Result<(), OpsError> {
        x.set_rows(rows)
    }

    fn draw(
        &self,
        logits: &CardRows<D>,
        rules: &[DrawRules],
        drawn: &mut Vec<Option<RowDraw>>,
    ) -> Result<bool, OpsError> {
        self.sample(logits, rules, drawn)?;
        Ok(true)
    }

    fn step(
        &self,
        batch: &Batch,
        heads: Heads,
        pages: usize,
        kind: u32,
        run: &mut dyn FnMut() -> Result<(), OpsError>,
    ) -> Result<(), OpsError> {
        self.run_or_play(batch, heads, pages, kind, run)
    }

    fn all_reduce(&self, x: &mut CardRows<D>) -> Result<(), OpsError> {
        if self.driver.ranks() == 1 || x.rows == 0 || x.width == 0 {
            return Ok(());
        }
        #[allow(unsafe_code)]
        // SAFETY: the buffer holds so many rows at its stride.
        unsafe {
            self.driver.sum_over_ranks(x.address, x.rows * x.stride)
        }
    }

    fn page_bytes(&self, cache: &CardCache<D>) -> usize {
        cache.page_bytes()
    }

    fn save_pages(&self, cache: &CardCache<D>, pages: &[u32]) -> Result<HostBytes, OpsError> {
        cache.save(&self.driver, pages)
    }

    fn load_pages(&self, cache: &mut CardCache<D>, pages: &[u32], bytes: &[u8]) -> Result<(), OpsError> {
        cache.load(&self.driver, pages, bytes)
    }
}

fn expect_below(op: &'static str, what: &str, limit: usize, numbers: &[u32]) -> Result<(), OpsError> {
    match numbers.iter().find(|number| **number as usize >= limit) {
        None => Ok(()),
        Some(number) => Err(OpsError::Shape { op, expected: format!("{what} below {limit}"), got: number.to_string() }),
    }
}
