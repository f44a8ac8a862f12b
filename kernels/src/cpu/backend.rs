//! The processor as a backend of [`Ops`]: activations in `f32`, weights as they are stored, all threads of the pool.
//!
//! It refuses to know models.

use super::attend::{PagedCache, attend};
use super::group::{FromDouble, Member, Reduce};
use super::linear::linear;
use super::panel::Level;
use super::rowwise;
use super::team::over_rows;
use super::unpack::unpack;
use crate::batch::{Batch, PAGE_TOKENS};
use crate::host::HostBytes;
use crate::ops::{CacheShape, Heads, Ops, OpsError, Rope, expect_equal};
use crate::stored::Stored;
use std::sync::Arc;

/// Bytes of the largest buffer: more than any machine that this runs on has.
const BUFFER_MAX_BYTES: u128 = 1 << 42;
/// Rows from which work on single rows is spread over threads.
const SPREAD_ROWS: usize = 8;

/// The processor, alone or as one rank of a group.
#[derive(Clone, Debug)]
pub struct Cpu {
    level: Level,
    member: Option<Arc<Member>>,
    replica: Option<Arc<Member>>,
}

impl Cpu {
    /// The processor at its widest level.
    pub fn new() -> Self {
        Self::at(Level::detect())
    }

    /// The processor at a stated level, which it must have.
    pub fn at(level: Level) -> Self {
        Self { level, member: None, replica: None }
    }

    /// The same as one rank of a group. All clones are this one rank, which leaves the group with the last of them.
    pub fn with_member(self, member: Member) -> Self {
        Self { member: Some(Arc::new(member)), ..self }
    }

    /// The same as one of several replicas of its group, each of which holds the same and learns from other rows.
    pub fn with_replica(self, member: Member) -> Self {
        Self { replica: Some(Arc::new(member)), ..self }
    }

    /// The level that it computes at.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Its place in a group.
    pub fn member(&self) -> Option<&Member> {
        self.member.as_deref()
    }

    /// Its place among its replicas.
    pub(super) fn replica_member(&self) -> Option<&Member> {
        self.replica.as_deref()
    }

    /// Makes numbers those of all ranks together; alone, they are.
    pub(super) fn meet<T: Copy + Into<f64> + FromDouble>(
        &self,
        op: &'static str,
        reduce: Reduce,
        values: &mut [T],
    ) -> Result<(), OpsError> {
        self.member.as_ref().map_or(Ok(()), |member| member.meet(op, reduce, values))
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}

/// Rows of activations, row-major.
#[derive(Clone, Debug)]
pub struct CpuRows {
    values: Vec<f32>,
    width: usize,
    rows: usize,
    rows_max: usize,
}

impl CpuRows {
    /// Rows that it holds now.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All values of its rows.
    pub fn values(&self) -> &[f32] {
        &self.values[..self.rows * self.width]
    }

    /// All values of its rows.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.rows * self.width]
    }

    /// Holds so many rows from now on; what they hold is left from before.
    ///
    /// # Errors
    /// More rows than it was made for.
    pub fn set_rows(&mut self, rows: usize) -> Result<(), OpsError> {
        if rows > self.rows_max {
            let (expected, got) = (format!("at most {} rows", self.rows_max), rows.to_string());
            return Err(OpsError::Shape { op: "rows", expected, got });
        }
        self.rows = rows;
        Ok(())
    }
}

/// Weight matrices, one below the other.
#[derive(Clone, Debug)]
pub struct CpuMatrix {
    parts: Vec<Stored>,
    rows: usize,
    cols: usize,
}

/// That there is room for so many values of four bytes.
pub(super) fn room(what: &'static str, values: u128) -> Result<(), OpsError> {
    let bytes = values.saturating_mul(4);
    if bytes > BUFFER_MAX_BYTES { Err(OpsError::Memory { what, bytes }) } else { Ok(()) }
}

impl Ops for Cpu {
    type Matrix = CpuMatrix;
    type Vector = Vec<f32>;
    type Rows = CpuRows;
    type Cache = PagedCache;

    fn matrix(&self, parts: &[Stored]) -> Result<CpuMatrix, OpsError> {
        let cols = parts.first().map_or(0, Stored::cols);
        for part in parts {
            expect_equal("matrix", "inputs", cols, part.cols())?;
        }
        Ok(CpuMatrix { parts: parts.to_vec(), rows: parts.iter().map(Stored::rows).sum(), cols })
    }

    fn vector(&self, values: &[f32]) -> Result<Vec<f32>, OpsError> {
        Ok(values.to_vec())
    }

    fn rows(&self, rows_max: usize, width: usize) -> Result<CpuRows, OpsError> {
        room("a buffer of rows", rows_max as u128 * width as u128)?;
        Ok(CpuRows { values: vec![0.0; rows_max * width], width, rows: 0, rows_max })
    }

    fn cache(&self, shape: CacheShape) -> Result<PagedCache, OpsError> {
        let page = 2 * shape.kv_heads as u128 * shape.head_dim as u128 * PAGE_TOKENS as u128;
        room("the key-value cache", page.saturating_mul(shape.layers as u128).saturating_mul(shape.pages as u128))?;
        Ok(PagedCache::new(shape))
    }

    fn embed(&self, table: &CpuMatrix, ids: &[u32], out: &mut CpuRows) -> Result<(), OpsError> {
        expect_equal("embed", "width", table.cols, out.width)?;
        out.set_rows(ids.len())?;
        for (id, out) in ids.iter().zip(out.values_mut().chunks_exact_mut(table.cols.max(1))) {
            let (mut row, mut part) = (*id as usize, table.parts.iter());
            let part = loop {
                match part.next() {
                    Some(part) if row < part.rows() => break part,
                    Some(part) => row -= part.rows(),
                    None => {
                        let (expected, got) = (format!("an id below {}", table.rows), id.to_string());
                        return Err(OpsError::Shape { op: "embed", expected, got });
                    }
                }
            };
            let bytes = part.dtype().row_bytes(table.cols).expect("whole blocks, as `Stored` checks");
            unpack(self.level, part.dtype(), &part.bytes()[row * bytes..][..bytes], out);
        }
        Ok(())
    }

    fn norm(&self, x: &CpuRows, weight: &Vec<f32>, eps: f32, out: &mut CpuRows) -> Result<(), OpsError> {
        expect_equal("norm", "width", x.width, weight.len())?;
        expect_equal("norm", "width", x.width, out.width)?;
        out.set_rows(x.rows)?;
        let width = x.width;
        spread(out.rows, out.values_mut(), width, |row, out| {
            rowwise::rms_norm(self.level, &x.values()[row * width..][..width], weight, eps, out);
        });
        Ok(())
    }

    fn add_norm(
        &self,
        x: &mut CpuRows,
        delta: &CpuRows,
        weight: &Vec<f32>,
        eps: f32,
        out: &mut CpuRows,
    ) -> Result<(), OpsError> {
        expect_equal("add_norm", "values", x.values().len(), delta.values().len())?;
        let width = x.width;
        spread(x.rows, x.values_mut(), width, |row, x| {
            rowwise::add(self.level, x, &delta.values()[row * width..][..width]);
        });
        self.norm(x, weight, eps, out)
    }

    fn linear(
        &self,
        x: &CpuRows,
        weight: &CpuMatrix,
        bias: Option<&Vec<f32>>,
        out: &mut CpuRows,
    ) -> Result<(), OpsError> {
        expect_equal("linear", "inputs", weight.cols, x.width)?;
        expect_equal("linear", "outputs", weight.rows, out.width)?;
        if let Some(bias) = bias {
            expect_equal("linear", "biases", weight.rows, bias.len())?;
        }
        out.set_rows(x.rows)?;
        linear(self.level, &weight.parts, bias.map(Vec::as_slice), x.values(), out.values_mut());
        Ok(())
    }

    fn rotate_and_keep(
        &self,
        qkv: &mut CpuRows,
        heads: Heads,
        norms: Option<(&Vec<f32>, &Vec<f32>, f32)>,
        rope: &Rope,
        batch: &Batch,
        layer: usize,
        cache: &mut PagedCache,
    ) -> Result<(), OpsError> {
        let op = "rotate_and_keep";
        self.expect_batch(op, qkv, heads, batch, cache)?;
        expect_equal(op, "frequencies", heads.dim / 2, rope.frequencies.len())?;
        if let Some((query, key, _)) = norms {
            expect_equal(op, "query norm", heads.dim, query.len())?;
            expect_equal(op, "key norm", heads.dim, key.len())?;
        }
        spread(qkv.rows, qkv.values_mut(), heads.fused(), |row, values| {
            let (cos, sin) = angles(rope, batch.positions[row]);
            for (head, values) in values.chunks_exact_mut(heads.dim).take(heads.query + heads.kv).enumerate() {
                if let Some((query, key, eps)) = norms {
                    let weight = if head < heads.query { query } else { key };
                    rowwise::rms_norm_in_place(self.level, values, weight, eps);
                }
                if rope.interleaved {
                    rowwise::rotate_neighbours(values, &cos, &sin);
                } else {
                    rowwise::rotate_halves(self.level, values, &cos, &sin);
                }
            }
        });
        for span in &batch.spans {
            let pages = batch.pages_of(span);
            for row in 0..span.rows {
                let position = span.past + row;
                let values = &qkv.values()[(span.first + row) * heads.fused()..][..heads.fused()];
                let (keys, of_values) = values[heads.width()..].split_at(heads.kv * heads.dim);
                let page = pages[position / PAGE_TOKENS] as usize;
                for (head, (key, value)) in
                    keys.chunks_exact(heads.dim).zip(of_values.chunks_exact(heads.dim)).enumerate()
                {
                    cache.keep(layer, page, position % PAGE_TOKENS, head, key, value);
                }
            }
        }
        Ok(())
    }

    fn attend(
        &self,
        qkv: &CpuRows,
        heads: Heads,
        batch: &Batch,
        layer: usize,
        cache: &PagedCache,
        out: &mut CpuRows,
    ) -> Result<(), OpsError> {
        self.expect_batch("attend", qkv, heads, batch, cache)?;
        expect_equal("attend", "width", heads.width(), out.width)?;
        out.set_rows(qkv.rows)?;
        attend(self.level, qkv.values(), heads, batch, layer, cache, out.values_mut());
        Ok(())
    }

    fn swiglu(&self, gate_up: &CpuRows, out: &mut CpuRows) -> Result<(), OpsError> {
        expect_equal("swiglu", "width", 2 * out.width, gate_up.width)?;
        out.set_rows(gate_up.rows)?;
        let width = out.width;
        spread(out.rows, out.values_mut(), width, |row, out| {
            rowwise::swiglu(self.level, &gate_up.values()[row * 2 * width..][..2 * width], out);
        });
        Ok(())
    }

    fn pick(&self, x: &CpuRows, rows: &[u32], out: &mut CpuRows) -> Result<(), OpsError> {
        expect_equal("pick", "width", x.width, out.width)?;
        out.set_rows(rows.len())?;
        for (row, out) in rows.iter().zip(out.values_mut().chunks_exact_mut(x.width.max(1))) {
            let from = x.values().chunks_exact(x.width.max(1)).nth(*row as usize).ok_or_else(|| OpsError::Shape {
                op: "pick",
                expected: format!("a row below {}", x.rows),
                got: row.to_string(),
            })?;
            out.copy_from_slice(from);
        }
        Ok(())
    }

    fn normalize(&self, x: &mut CpuRows) -> Result<(), OpsError> {
        let width = x.width.max(1);
        for row in x.values_mut().chunks_exact_mut(width) {
            let norm = rowwise::sum_of_squares(self.level, row).sqrt().max(1e-12);
            rowwise::scale(self.level, row, 1.0 / norm);
        }
        Ok(())
    }

    fn read(&self, x: &CpuRows, out: &mut Vec<f32>) -> Result<(), OpsError> {
        out.clear();
        out.extend_from_slice(x.values());
        Ok(())
    }

    fn read_row(&self, x: &CpuRows, row: usize, out: &mut Vec<f32>) -> Result<(), OpsError> {
        let values = x.values().chunks_exact(x.width.max(1)).nth(row).ok_or_else(|| OpsError::Shape {
            op: "read_row",
            expected: format!("a row below {}", x.rows),
            got: row.to_string(),
        })?;
        out.extend_from_slice(values);
        Ok(())
    }

    fn set_rows(&self, x: &mut CpuRows, rows: usize) -> Result<(), OpsError> {
        x.set_rows(rows)
    }

    fn all_reduce(&self, x: &mut CpuRows) -> Result<(), OpsError> {
        self.meet("all_reduce", Reduce::Sum, x.values_mut())
    }

    fn page_bytes(&self, cache: &PagedCache) -> usize {
        cache.shape().layers * PagedCache::page(cache.shape()) * size_of::<f32>()
    }

    fn save_pages(&self, cache: &PagedCache, pages: &[u32]) -> Result<HostBytes, OpsError> {
        expect_pages(cache, pages)?;
        let mut bytes = Vec::with_capacity(pages.len() * self.page_bytes(cache));
        for page in pages {
            for layer in 0..cache.shape().layers {
                bytes.extend(cache.at(layer, *page as usize).iter().flat_map(|value| value.to_le_bytes()));
            }
        }
        Ok(bytes.into())
    }

    fn load_pages(&self, cache: &mut PagedCache, pages: &[u32], bytes: &[u8]) -> Result<(), OpsError> {
        expect_pages(cache, pages)?;
        expect_equal("load_pages", "bytes", pages.len() * self.page_bytes(cache), bytes.len())?;
        let layers = cache.shape().layers;
        let mut values = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        for page in pages {
            for layer in 0..layers {
                cache.at_mut(layer, *page as usize).iter_mut().zip(&mut values).for_each(|(to, from)| *to = from);
            }
        }
        Ok(())
    }
}

impl Cpu {
    fn expect_batch(
        &self,
        op: &'static str,
        qkv: &CpuRows,
        heads: Heads,
        batch: &Batch,
        cache: &PagedCache,
    ) -> Result<(), OpsError> {
        let shape = cache.shape();
        expect_equal(op, "values of a row", heads.fused(), qkv.width)?;
        expect_equal(op, "rows", batch.rows(), qkv.rows)?;
        expect_equal(op, "key heads", shape.kv_heads, heads.kv)?;
        expect_equal(op, "values of a head", shape.head_dim, heads.dim)?;
        expect_pages(cache, &batch.pages)
    }
}

fn expect_pages(cache: &PagedCache, pages: &[u32]) -> Result<(), OpsError> {
    match pages.iter().find(|page| **page as usize >= cache.shape().pages) {
        None => Ok(()),
        Some(page) => Err(OpsError::Shape {
            op: "pages",
            expected: format!("a page below {}", cache.shape().pages),
            got: page.to_string(),
        }),
    }
}

/// Cosines and sines of a position, computed in `f32` as Hugging Face does: the angle is `position * frequency`, rounded.
fn angles(rope: &Rope, position: u32) -> (Vec<f32>, Vec<f32>) {
    let turn = |frequency: &f32| (position as f32 * frequency).sin_cos();
    let (sin, cos): (Vec<f32>, Vec<f32>) = rope.frequencies.iter().map(turn).unzip();
    let scaled = |values: Vec<f32>| values.into_iter().map(|value| value * rope.scale).collect();
    (scaled(cos), scaled(sin))
}

/// Runs over rows, on several threads where they are many.
pub(super) fn spread(rows: usize, values: &mut [f32], width: usize, run: impl Fn(usize, &mut [f32]) + Sync) {
    if rows < SPREAD_ROWS {
        values.chunks_exact_mut(width.max(1)).enumerate().for_each(|(row, values)| run(row, values));
    } else {
        over_rows(values, width, &run);
    }
}
