//! Two backends at once, for finding which operation of one is wrong: each operation of the tested one is given to the other too,
//! on the same inputs, and a row that is further off than allowed is an error with the operation's name. Errors do not add
//! up, since the truth always starts from what the tested one has. Slow: every operation copies its rows to the host.
//!
//! It refuses to know which backends these are.

use crate::batch::Batch;
use crate::host::HostBytes;
use crate::ops::{CacheShape, Heads, Ops, OpsError, Rope};
use crate::stored::Stored;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A backend that is tested by another.
pub struct Compared<A, B> {
    tested: A,
    truth: B,
    tolerance: f32,
    worst: RefCell<BTreeMap<&'static str, f32>>,
}

impl<A: Ops, B: Ops> Compared<A, B> {
    /// Tests one backend by another; rows may be off by so much of their length.
    pub fn new(tested: A, truth: B, tolerance: f32) -> Self {
        Self { tested, truth, tolerance, worst: RefCell::default() }
    }

    /// How far the furthest row of each operation was off, of its length.
    pub fn worst(&self) -> BTreeMap<&'static str, f32> {
        self.worst.borrow().clone()
    }

    fn values(&self, rows: &ComparedRows<A>) -> Result<Vec<f32>, OpsError> {
        let mut values = Vec::new();
        self.tested.read(&rows.rows, &mut values)?;
        Ok(values)
    }

    /// The same rows on the truth, by way of a table.
    fn on_truth(&self, values: &[f32], width: usize) -> Result<B::Rows, OpsError> {
        let count = values.len().checked_div(width).unwrap_or(0);
        let table = Stored::from_f32(count, width, values).map_err(|error| OpsError::Shape {
            op: "compared",
            expected: "whole rows".to_owned(),
            got: error.to_string(),
        })?;
        let table = self.truth.matrix(&[table])?;
        let mut rows = self.truth.rows(count, width)?;
        self.truth.embed(&table, &(0..count as u32).collect::<Vec<_>>(), &mut rows)?;
        Ok(rows)
    }

    /// Room on the truth for as many rows as these values are.
    fn room(&self, values: &[f32], from: usize, to: usize) -> Result<B::Rows, OpsError> {
        self.truth.rows(values.len().checked_div(from).unwrap_or(0), to)
    }

    fn check(&self, op: &'static str, out: &ComparedRows<A>, truth: &B::Rows) -> Result<(), OpsError> {
        let (got, mut expected) = (self.values(out)?, Vec::new());
        self.truth.read(truth, &mut expected)?;
        let off = furthest(op, &got, &expected, out.width)?;
        let mut worst = self.worst.borrow_mut();
        let known = worst.entry(op).or_insert(0.0);
        *known = known.max(off.1);
        if off.1 <= self.tolerance {
            return Ok(());
        }
        let (row, off) = off;
        Err(OpsError::Device(format!(
            "{op} is wrong: row {row} is off by {off} of its length, allowed is {}",
            self.tolerance
        )))
    }
}

/// The row that is furthest off, and by which part of its length; by infinity where there is something that is no number.
fn furthest(op: &'static str, got: &[f32], expected: &[f32], width: usize) -> Result<(usize, f32), OpsError> {
    crate::ops::expect_equal(op, "values", expected.len(), got.len())?;
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let rows = got.chunks_exact(width.max(1)).zip(expected.chunks_exact(width.max(1)));
    let off = rows.map(|(got, expected)| {
        let off = length(&mut got.iter().zip(expected).map(|(a, b)| f64::from(*a) - f64::from(*b)));
        let all = length(&mut expected.iter().map(|value| f64::from(*value)));
        let off = if all > 0.0 { off / all } else { off };
        if off.is_nan() { f32::INFINITY } else { off as f32 }
    });
    Ok(off.enumerate().max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((0, 0.0)))
}

/// Rows of the tested backend, and how wide they are.
pub struct ComparedRows<A: Ops> {
    rows: A::Rows,
    width: usize,
}

impl<A: Ops, B: Ops> Ops for Compared<A, B> {
    type Matrix = (A::Matrix, B::Matrix);
    type Vector = (A::Vector, B::Vector);
    type Rows = ComparedRows<A>;
    type Cache = (A::Cache, B::Cache);

    fn matrix(&self, parts: &[Stored]) -> Result<Self::Matrix, OpsError> {
        Ok((self.tested.matrix(parts)?, self.truth.matrix(parts)?))
    }

    fn vector(&self, values: &[f32]) -> Result<Self::Vector, OpsError> {
        Ok((self.tested.vector(values)?, self.truth.vector(values)?))
    }

    fn rows(&self, rows_max: usize, width: usize) -> Result<ComparedRows<A>, OpsError> {
        Ok(ComparedRows { rows: self.tested.rows(rows_max, width)?, width })
    }

    fn cache(&self, shape: CacheShape) -> Result<Self::Cache, OpsError> {
        Ok((self.tested.cache(shape)?, self.truth.cache(shape)?))
    }

    fn embed(&self, table: &Self::Matrix, ids: &[u32], out: &mut ComparedRows<A>) -> Result<(), OpsError> {
        self.tested.embed(&table.0, ids, &mut out.rows)?;
        let mut truth = self.truth.rows(ids.len(), out.width)?;
        self.truth.embed(&table.1, ids, &mut truth)?;
        self.check("embed", out, &truth)
    }

    fn norm(
        &self,
        x: &ComparedRows<A>,
        weight: &Self::Vector,
        eps: f32,
        out: &mut ComparedRows<A>,
    ) -> Result<(), OpsError> {
        self.tested.norm(&x.rows, &weight.0, eps, &mut out.rows)?;
        let values = self.values(x)?;
        let mut truth = self.room(&values, x.width, out.width)?;
        self.truth.norm(&self.on_truth(&values, x.width)?, &weight.1, eps, &mut truth)?;
        self.check("norm", out, &truth)
    }

    fn add_norm(
        &self,
        x: &mut ComparedRows<A>,
        delta: &ComparedRows<A>,
        weight: &Self::Vector,
        eps: f32,
        out: &mut ComparedRows<A>,
    ) -> Result<(), OpsError> {
        let (values, added) = (self.values(x)?, self.values(delta)?);
        self.tested.add_norm(&mut x.rows, &delta.rows, &weight.0, eps, &mut out.rows)?;
        let (mut stream, delta) = (self.on_truth(&values, x.width)?, self.on_truth(&added, delta.width)?);
        let mut truth = self.room(&values, x.width, out.width)?;
        self.truth.add_norm(&mut stream, &delta, &weight.1, eps, &mut truth)?;
        self.check("add", x, &stream)?;
        self.check("add_norm", out, &truth)
    }

    fn linear(
        &self,
        x: &ComparedRows<A>,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        out: &mut ComparedRows<A>,
    ) -> Result<(), OpsError> {
        self.tested.linear(&x.rows, &weight.0, bias.map(|bias| &bias.0), &mut out.rows)?;
        let values = self.values(x)?;
        let mut truth = self.room(&values, x.width, out.width)?;
        self.truth.linear(&self.on_truth(&values, x.width)?, &weight.1, bias.map(|bias| &bias.1), &mut truth)?;
        self.check("linear", out, &truth)
    }

    fn rotate_and_keep(
        &self,
        qkv: &mut ComparedRows<A>,
        heads: Heads,
        norms: Option<(&Self::Vector, &Self::Vector, f32)>,
        rope: &Rope,
        batch: &Batch,
        layer: usize,
        cache: &mut Self::Cache,
    ) -> Result<(), OpsError> {
        let values = self.values(qkv)?;
        let tested = norms.map(|(query, key, eps)| (&query.0, &key.0, eps));
        self.tested.rotate_and_keep(&mut qkv.rows, heads, tested, rope, batch, layer, &mut cache.0)?;
        let mut truth = self.on_truth(&values, qkv.width)?;
        let norms = norms.map(|(query, key, eps)| (&query.1, &key.1, eps));
        self.truth.rotate_and_keep(&mut truth, heads, norms, rope, batch, layer, &mut cache.1)?;
        self.check("rotate_and_keep", qkv, &truth)
    }

    fn attend(
        &self,
        qkv: &ComparedRows<A>,
        heads: Heads,
        batch: &Batch,
        layer: usize,
        cache: &Self::Cache,
        out: &mut ComparedRows<A>,
    ) -> Result<(), OpsError> {
        self.tested.attend(&qkv.rows, heads, batch, layer, &cache.0, &mut out.rows)?;
        let values = self.values(qkv)?;
        let mut truth = self.room(&values, qkv.width, out.width)?;
        self.truth.attend(&self.on_truth(&values, qkv.width)?, heads, batch, layer, &cache.1, &mut truth)?;
        self.check("attend", out, &truth)
    }

    fn swiglu(&self, gate_up: &ComparedRows<A>, out: &mut ComparedRows<A>) -> Result<(), OpsError> {
        self.tested.swiglu(&gate_up.rows, &mut out.rows)?;
        let values = self.values(gate_up)?;
        let mut truth = self.room(&values, gate_up.width, out.width)?;
        self.truth.swiglu(&self.on_truth(&values, gate_up.width)?, &mut truth)?;
        self.check("swiglu", out, &truth)
    }

    fn pick(&self, x: &ComparedRows<A>, rows: &[u32], out: &mut ComparedRows<A>) -> Result<(), OpsError> {
        self.tested.pick(&x.rows, rows, &mut out.rows)?;
        let mut truth = self.truth.rows(rows.len(), out.width)?;
        self.truth.pick(&self.on_truth(&self.values(x)?, x.width)?, rows, &mut truth)?;
        self.check("pick", out, &truth)
    }

    fn normalize(&self, x: &mut ComparedRows<A>) -> Result<(), OpsError> {
        let values = self.values(x)?;
        self.tested.normalize(&mut x.rows)?;
        let mut truth = self.on_truth(&values, x.width)?;
        self.truth.normalize(&mut truth)?;
        self.check("normalize", x, &truth)
    }

    fn read(&self, x: &ComparedRows<A>, out: &mut Vec<f32>) -> Result<(), OpsError> {
        self.tested.read(&x.rows, out)
    }

    fn read_row(&self, x: &ComparedRows<A>, row: usize, out: &mut Vec<f32>) -> Result<(), OpsError> {
        self.tested.read_row(&x.rows, row, out)
    }

    fn set_rows(&self, x: &mut ComparedRows<A>, rows: usize) -> Result<(), OpsError> {
        self.tested.set_rows(&mut x.rows, rows)
    }

    fn all_reduce(&self, x: &mut ComparedRows<A>) -> Result<(), OpsError> {
        self.tested.all_reduce(&mut x.rows)
    }

    fn page_bytes(&self, cache: &Self::Cache) -> usize {
        self.tested.page_bytes(&cache.0) + self.truth.page_bytes(&cache.1)
    }

    fn save_pages(&self, cache: &Self::Cache, pages: &[u32]) -> Result<HostBytes, OpsError> {
        let mut bytes = Vec::new();
        for page in pages.chunks(1) {
            bytes.extend_from_slice(&self.tested.save_pages(&cache.0, page)?);
            bytes.extend_from_slice(&self.truth.save_pages(&cache.1, page)?);
        }
        Ok(bytes.into())
    }

    fn load_pages(&self, cache: &mut Self::Cache, pages: &[u32], bytes: &[u8]) -> Result<(), OpsError> {
        let (of_tested, size) = (self.tested.page_bytes(&cache.0), self.page_bytes(cache));
        crate::ops::expect_equal("load_pages", "bytes", pages.len() * size, bytes.len())?;
        for (page, bytes) in pages.chunks(1).zip(bytes.chunks(size.max(1))) {
            let (tested, truth) = bytes.split_at(of_tested);
            self.tested.load_pages(&mut cache.0, page, tested)?;
            self.truth.load_pages(&mut cache.1, page, truth)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cpu;

    #[test]
    fn the_furthest_row_is_found_by_its_length_and_nothing_is_near_what_is_no_number() {
        let expected = [3.0, 4.0, 0.0, 0.0, 30.0, 40.0];
        assert_eq!(furthest("x", &expected, &expected, 2), Ok((2, 0.0)));
        assert_eq!(furthest("x", &[3.0, 4.5, 0.0, 0.0, 30.0, 41.0], &expected, 2), Ok((0, 0.1)));
        assert_eq!(furthest("x", &[3.0, 4.0, 0.0, 0.25, 30.0, 40.0], &expected, 2), Ok((1, 0.25)));
        let lost = [3.0, 4.0, 0.0, 0.0, f32::NAN, 40.0];
        assert_eq!(furthest("x", &lost, &expected, 2), Ok((2, f32::INFINITY)));
        assert!(furthest("x", &expected[..4], &expected, 2).is_err());
    }

    #[test]
    fn an_operation_that_is_off_is_an_error_with_its_name() {
        // A weight that differs stands for an operation that is wrong.
        let compared = Compared::new(Cpu::new(), Cpu::new(), 1e-3);
        let table = compared.matrix(&[Stored::from_f32(1, 4, &[1.0, -2.0, 3.0, 0.5]).unwrap()]).unwrap();
        let (mut x, mut out) = (compared.rows(1, 4).unwrap(), compared.rows(1, 4).unwrap());
        compared.embed(&table, &[0], &mut x).unwrap();
        let (one, other) = (Cpu::new().vector(&[1.0; 4]).unwrap(), Cpu::new().vector(&[1.0, 1.0, 1.1, 1.0]).unwrap());
        compared.norm(&x, &(one.clone(), one.clone()), 1e-6, &mut out).unwrap();
        assert_eq!(compared.worst(), BTreeMap::from([("embed", 0.0), ("norm", 0.0)]));
        let error = compared.norm(&x, &(one, other), 1e-6, &mut out).unwrap_err().to_string();
        assert!(error.contains("norm is wrong: row 0 is off by 0.07"), "{error}");
    }
}
