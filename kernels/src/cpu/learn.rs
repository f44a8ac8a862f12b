//! The processor as a backend of [`Learn`]: what it is given is checked here, and computed in the files below.
//!
//! It refuses to know models. Nothing that it gives depends on the number of threads.

mod attend;
mod loss;
pub mod param;
pub mod rows;
mod spread;
pub mod tile;

pub use param::CpuParam;

use self::attend::{Attention, Given};
use self::loss::Loss;
use self::spread::{add_columns, by_blocks};
use super::backend::{Cpu, CpuRows, room, spread};
use super::gemm::{Side, Start, gemm};
use super::group::{Member, Reduce};
use super::rowwise;
use super::scratch::singles;
use crate::learn::expect::{Fused, expect_attention, expect_rotation};
use crate::learn::{AdamW, Learn, Part};
use crate::ops::{Heads, Ops, OpsError, Rope, expect_equal};

/// Parts of a learned tensor.
const PARTS: u128 = 4;

impl Learn for Cpu {
    type Param = CpuParam;
    type Sums = CpuRows;

    fn param(&self, shape: [usize; 2], values: &[f32]) -> Result<CpuParam, OpsError> {
        let count = (shape[0] as u128).saturating_mul(shape[1] as u128);
        room("a learned tensor", count.saturating_mul(PARTS))?;
        expect_equal("param", "values", shape[0] * shape[1], values.len())?;
        Ok(CpuParam::new(shape, values))
    }

    fn param_shape(&self, param: &CpuParam) -> [usize; 2] {
        [param.rows, param.cols]
    }

    fn read_param(&self, param: &CpuParam, part: Part, out: &mut Vec<f32>) -> Result<(), OpsError> {
        out.clear();
        out.extend_from_slice(param.part(part));
        Ok(())
    }

    fn write_param(&self, param: &mut CpuParam, part: Part, values: &[f32]) -> Result<(), OpsError> {
        let part = param.part_mut(part);
        expect_equal("write_param", "values", part.len(), values.len())?;
        part.copy_from_slice(values);
        Ok(())
    }

    fn sums(&self, rows_max: usize, width: usize) -> Result<CpuRows, OpsError> {
        self.rows(rows_max, width)
    }

    fn read_sums(&self, sums: &CpuRows, out: &mut Vec<f32>) -> Result<(), OpsError> {
        self.read(sums, out)
    }

    fn zero(&self, x: &mut CpuRows, rows: usize) -> Result<(), OpsError> {
        x.set_rows(rows)?;
        x.values_mut().fill(0.0);
        Ok(())
    }

    fn copy(&self, x: &CpuRows, out: &mut CpuRows) -> Result<(), OpsError> {
        expect_equal("copy", "width", x.width(), out.width())?;
        out.set_rows(x.rows())?;
        out.values_mut().copy_from_slice(x.values());
        Ok(())
    }

    fn add(&self, x: &mut CpuRows, delta: &CpuRows) -> Result<(), OpsError> {
        expect_same("add", x, delta)?;
        let (rows, width) = (x.rows(), x.width());
        spread(rows, x.values_mut(), width, |row, x| rowwise::add(self.level(), x, of(delta, row)));
        Ok(())
    }

    fn embed_forward(&self, table: &CpuParam, first: u32, ids: &[u32], out: &mut CpuRows) -> Result<(), OpsError> {
        expect_equal("embed_forward", "width", table.cols, out.width())?;
        out.set_rows(ids.len())?;
        for (id, out) in ids.iter().zip(out.values_mut().chunks_exact_mut(table.cols.max(1))) {
            match place(table, first, *id) {
                Some(row) => out.copy_from_slice(&table.value[row * table.cols..][..table.cols]),
                None => out.fill(0.0),
            }
        }
        Ok(())
    }

    fn embed_backward(&self, table: &mut CpuParam, first: u32, ids: &[u32], d_out: &CpuRows) -> Result<(), OpsError> {
        expect_equal("embed_backward", "width", table.cols, d_out.width())?;
        expect_equal("embed_backward", "rows", ids.len(), d_out.rows())?;
        for (row, id) in ids.iter().enumerate() {
            if let Some(at) = place(table, first, *id) {
                let gradient = &mut table.gradient[at * table.cols..][..table.cols];
                rowwise::add(self.level(), gradient, of(d_out, row));
            }
        }
        Ok(())
    }

    fn norm_forward(&self, x: &CpuRows, weight: &CpuParam, eps: f32, out: &mut CpuRows) -> Result<(), OpsError> {
        expect_equal("norm_forward", "weights", x.width(), weight.value.len())?;
        expect_equal("norm_forward", "width", x.width(), out.width())?;
        out.set_rows(x.rows())?;
        let (rows, width) = (x.rows(), x.width());
        spread(rows, out.values_mut(), width, |row, out| {
            rowwise::rms_norm(self.level(), of(x, row), &weight.value, eps, out);
        });
        Ok(())
    }

    fn norm_backward(
        &self,
        x: &CpuRows,
        weight: &mut CpuParam,
        eps: f32,
        d_out: &CpuRows,
        dx: &mut CpuRows,
    ) -> Result<(), OpsError> {
        expect_equal("norm_backward", "weights", x.width(), weight.value.len())?;
        expect_same("norm_backward", x, d_out)?;
        expect_same("norm_backward", x, dx)?;
        let CpuParam { value, gradient, .. } = weight;
        by_blocks(self.level(), dx.values_mut(), d_out.width(), gradient, |row, dx, d_weight| {
            rows::rms_norm_back(self.level(), of(x, row), value, eps, of(d_out, row), dx, d_weight);
        });
        Ok(())
    }

    fn linear_forward(
        &self,
        x: &CpuRows,
        weight: &CpuParam,
        bias: Option<&CpuParam>,
        out: &mut CpuRows,
    ) -> Result<(), OpsError> {
        expect_equal("linear_forward", "inputs", weight.cols, x.width())?;
        expect_equal("linear_forward", "outputs", weight.rows, out.width())?;
        if let Some(bias) = bias {
            expect_equal("linear_forward", "biases", weight.rows, bias.value.len())?;
        }
        out.set_rows(x.rows())?;
        let shape = [x.rows(), weight.cols, weight.rows];
        let (left, right) = (Side::rows(x.values(), weight.cols), Side::turned(&weight.value, weight.cols));
        let start = bias.map_or(Start::Zero, |bias| Start::Bias(&bias.value));
        gemm(self.level(), shape, left, right, start, out.values_mut());
        Ok(())
    }

    fn linear_backward(
        &self,
        x: &CpuRows,
        weight: &mut CpuParam,
        bias: Option<&mut CpuParam>,
        d_out: &CpuRows,
        dx: Option<&mut CpuRows>,
    ) -> Result<(), OpsError> {
        const OP: &str = "linear_backward";
        let (outputs, inputs, rows) = (weight.rows, weight.cols, x.rows());
        expect_equal(OP, "inputs", inputs, x.width())?;
        expect_equal(OP, "outputs", outputs, d_out.width())?;
        expect_equal(OP, "rows", rows, d_out.rows())?;
        if let Some(bias) = &bias {
            expect_equal(OP, "biases", outputs, bias.value.len())?;
        }
        if let Some(dx) = dx {
            expect_equal(OP, "inputs", inputs, dx.width())?;
            dx.set_rows(rows)?;
            let (left, right) = (Side::rows(d_out.values(), outputs), Side::rows(&weight.value, inputs));
            gemm(self.level(), [rows, outputs, inputs], left, right, Start::Zero, dx.values_mut());
        }
        let (left, right) = (Side::turned(d_out.values(), outputs), Side::rows(x.values(), inputs));
        gemm(self.level(), [outputs, rows, inputs], left, right, Start::Kept, &mut weight.gradient);
        if let Some(bias) = bias {
            add_columns(self.level(), d_out.values(), &mut bias.gradient);
        }
        Ok(())
    }

    fn rotate_forward(
        &self,
        qkv: &mut CpuRows,
        heads: Heads,
        norms: Option<(&CpuParam, &CpuParam, f32)>,
        rope: &Rope,
        positions: &[u32],
    ) -> Result<(), OpsError> {
        const OP: &str = "rotate_forward";
        expect_rotation(OP, fused(qkv), heads, rope, positions)?;
        if let Some((query, key, _)) = norms {
            expect_equal(OP, "query norm", heads.dim, query.value.len())?;
            expect_equal(OP, "key norm", heads.dim, key.value.len())?;
        }
        let rows = qkv.rows();
        spread(rows, qkv.values_mut(), heads.fused(), |row, values| {
            with_angles(rope, positions[row], 1.0, |cos, sin| {
                for (head, values) in values.chunks_exact_mut(heads.dim).take(heads.query + heads.kv).enumerate() {
                    if let Some((query, key, eps)) = norms {
                        let weight = if head < heads.query { query } else { key };
                        rowwise::rms_norm_in_place(self.level(), values, &weight.value, eps);
                    }
                    self.rotate(rope, values, cos, sin);
                }
            });
        });
        Ok(())
    }

    fn rotate_backward(
        &self,
        before: &CpuRows,
        heads: Heads,
        norms: Option<(&mut CpuParam, &mut CpuParam, f32)>,
        rope: &Rope,
        positions: &[u32],
        d_qkv: &mut CpuRows,
    ) -> Result<(), OpsError> {
        const OP: &str = "rotate_backward";
        expect_rotation(OP, fused(d_qkv), heads, rope, positions)?;
        expect_same(OP, before, d_qkv)?;
        let (rows, dim) = (d_qkv.rows(), heads.dim);
        // What was turned is turned back: by the same angles the other way, times the same scale.
        let back = |row: usize, values: &mut [f32]| {
            with_angles(rope, positions[row], -1.0, |cos, sin| {
                let turned = values.chunks_exact_mut(dim).take(heads.query + heads.kv);
                turned.for_each(|values| self.rotate(rope, values, cos, sin));
            });
        };
        let Some((query, key, eps)) = norms else {
            spread(rows, d_qkv.values_mut(), heads.fused(), back);
            return Ok(());
        };
        expect_equal(OP, "query norm", dim, query.value.len())?;
        expect_equal(OP, "key norm", dim, key.value.len())?;
        singles(2 * dim, |sums| {
            sums.fill(0.0);
            by_blocks(self.level(), d_qkv.values_mut(), heads.fused(), sums, |row, d, d_weights| {
                back(row, d);
                let before = of(before, row).chunks_exact(dim);
                for (head, (d, before)) in d.chunks_exact_mut(dim).zip(before).take(heads.query + heads.kv).enumerate()
                {
                    let (weight, first) = if head < heads.query { (&query.value, 0) } else { (&key.value, dim) };
                    let d_weight = &mut d_weights[first..first + dim];
                    rows::rms_norm_back_in_place(self.level(), before, weight, eps, d, d_weight);
                }
            });
            rowwise::add(self.level(), &mut query.gradient, &sums[..dim]);
            rowwise::add(self.level(), &mut key.gradient, &sums[dim..]);
        });
        Ok(())
    }

    fn attend_forward(
        &self,
        qkv: &CpuRows,
        heads: Heads,
        starts: &[u32],
        out: &mut CpuRows,
        lse: &mut CpuRows,
    ) -> Result<(), OpsError> {
        const OP: &str = "attend_forward";
        expect_attention(OP, fused(qkv), heads, starts)?;
        expect_equal(OP, "width", heads.width(), out.width())?;
        expect_equal(OP, "query heads", heads.query, lse.width())?;
        out.set_rows(qkv.rows())?;
        lse.set_rows(qkv.rows())?;
        let attention = Attention { level: self.level(), heads, qkv: qkv.values(), starts };
        attention.forward(out.values_mut(), lse.values_mut());
        Ok(())
    }

    fn attend_backward(
        &self,
        qkv: &CpuRows,
        heads: Heads,
        starts: &[u32],
        out: &CpuRows,
        lse: &CpuRows,
        d_out: &CpuRows,
        d_qkv: &mut CpuRows,
    ) -> Result<(), OpsError> {
        const OP: &str = "attend_backward";
        expect_attention(OP, fused(qkv), heads, starts)?;
        expect_equal(OP, "width", heads.width(), out.width())?;
        expect_equal(OP, "rows", qkv.rows(), out.rows())?;
        expect_equal(OP, "query heads", heads.query, lse.width())?;
        expect_equal(OP, "rows", qkv.rows(), lse.rows())?;
        expect_same(OP, out, d_out)?;
        expect_equal(OP, "values of a row", heads.fused(), d_qkv.width())?;
        d_qkv.set_rows(qkv.rows())?;
        let attention = Attention { level: self.level(), heads, qkv: qkv.values(), starts };
        let given = Given { out: out.values(), lse: lse.values(), d_out: d_out.values() };
        attention.backward(given, d_qkv.values_mut());
        Ok(())
    }

    fn swiglu_backward(&self, gate_up: &CpuRows, d_out: &CpuRows, d_gate_up: &mut CpuRows) -> Result<(), OpsError> {
        const OP: &str = "swiglu_backward";
        let (rows, width) = (gate_up.rows(), gate_up.width());
        expect_equal(OP, "width", 2 * d_out.width(), width)?;
        expect_equal(OP, "rows", rows, d_out.rows())?;
        expect_equal(OP, "width", width, d_gate_up.width())?;
        d_gate_up.set_rows(rows)?;
        spread(rows, d_gate_up.values_mut(), width, |row, d| {
            rows::swiglu_back(self.level(), of(gate_up, row), of(d_out, row), d);
        });
        Ok(())
    }

    fn pick_backward(&self, d_out: &CpuRows, rows: &[u32], dx: &mut CpuRows) -> Result<(), OpsError> {
        const OP: &str = "pick_backward";
        expect_equal(OP, "width", dx.width(), d_out.width())?;
        expect_equal(OP, "rows", rows.len(), d_out.rows())?;
        if let Some(row) = rows.iter().find(|row| **row as usize >= dx.rows()) {
            let (expected, got) = (format!("a row below {}", dx.rows()), row.to_string());
            return Err(OpsError::Shape { op: OP, expected, got });
        }
        let width = dx.width();
        for (i, row) in rows.iter().enumerate() {
            let dx = &mut dx.values_mut()[*row as usize * width..][..width];
            rowwise::add(self.level(), dx, of(d_out, i));
        }
        Ok(())
    }

    fn cross_entropy_into(
        &self,
        logits: &mut CpuRows,
        first: u32,
        columns: usize,
        targets: &[u32],
        weights: &[f32],
        losses: &mut CpuRows,
        at: usize,
    ) -> Result<(), OpsError> {
        Loss { first, columns, targets, weights }.apply(self, logits, losses, at)
    }

    fn gradient_squares(&self, params: &mut dyn Iterator<Item = &CpuParam>) -> Result<f64, OpsError> {
        Ok(params.map(|param| param.gradient_squares(self.level())).sum())
    }

    fn adamw(&self, param: &mut CpuParam, step: &AdamW) -> Result<(), OpsError> {
        param.adamw(self.level(), step);
        Ok(())
    }

    fn zero_gradient(&self, param: &mut CpuParam) -> Result<(), OpsError> {
        param.gradient.fill(0.0);
        Ok(())
    }

    fn rank(&self) -> usize {
        self.member().map_or(0, |member| member.rank())
    }

    fn ranks(&self) -> usize {
        self.member().map_or(1, |member| member.ranks())
    }

    fn all_reduce_gradient(&self, param: &mut CpuParam) -> Result<(), OpsError> {
        self.meet("all_reduce_gradient", Reduce::Sum, &mut param.gradient)
    }

    fn all_reduce_host(&self, values: &mut [f64]) -> Result<(), OpsError> {
        self.meet("all_reduce_host", Reduce::Sum, values)
    }

    fn replica(&self) -> usize {
        self.replica_member().map_or(0, Member::rank)
    }

    fn replicas(&self) -> usize {
        self.replica_member().map_or(1, Member::ranks)
    }

    fn sum_over_replicas(&self, values: &mut [f64]) -> Result<(), OpsError> {
        self.replica_member().map_or(Ok(()), |member| member.meet("sum_over_replicas", Reduce::Sum, values))
    }

    fn reduce_gradients(&self, params: &mut dyn Iterator<Item = (&mut CpuParam, usize)>) -> Result<(), OpsError> {
        let Some(member) = self.replica_member() else { return Ok(()) };
        for (param, _) in params {
            member.meet("reduce_gradients", Reduce::Sum, &mut param.gradient)?;
        }
        Ok(())
    }

    fn spread_values(&self, params: &mut dyn Iterator<Item = (&mut CpuParam, usize)>) -> Result<(), OpsError> {
        let Some(member) = self.replica_member() else { return Ok(()) };
        for (param, owner) in params {
            member.meet("spread_values", Reduce::Of(owner), &mut param.value)?;
        }
        Ok(())
    }

    fn read_owned(&self, param: &mut CpuParam, part: Part, owner: usize, out: &mut Vec<f32>) -> Result<(), OpsError> {
        self.read_param(param, part, out)?;
        let Some(member) = self.replica_member() else { return Ok(()) };
        member.meet("read_owned", Reduce::Of(owner), out)?;
        if member.rank() > 0 {
            out.clear();
        }
        Ok(())
    }
}

impl Cpu {
    fn rotate(&self, rope: &Rope, head: &mut [f32], cos: &[f32], sin: &[f32]) {
        if rope.interleaved {
            rowwise::rotate_neighbours(head, cos, sin);
        } else {
            rowwise::rotate_halves(self.level(), head, cos, sin);
        }
    }
}

/// Runs with scaled cosines and sines of a position's angles, one way round or the other, as [`crate::Ops::rotate_and_keep`]
/// computes them.
fn with_angles(rope: &Rope, position: u32, way: f32, run: impl FnOnce(&[f32], &[f32])) {
    let pairs = rope.frequencies.len();
    singles(2 * pairs, |scratch| {
        let (cos, sin) = scratch.split_at_mut(pairs);
        for ((cos, sin), frequency) in cos.iter_mut().zip(&mut *sin).zip(&rope.frequencies) {
            let (of_sin, of_cos) = (position as f32 * frequency).sin_cos();
            (*cos, *sin) = (of_cos * rope.scale, of_sin * rope.scale * way);
        }
        run(cos, sin);
    });
}

/// A row.
fn of(x: &CpuRows, row: usize) -> &[f32] {
    &x.values()[row * x.width()..][..x.width()]
}

/// The row of an id in a table that begins at id `first`.
fn place(table: &CpuParam, first: u32, id: u32) -> Option<usize> {
    id.checked_sub(first).map(|row| row as usize).filter(|row| *row < table.rows)
}

fn expect_same(op: &'static str, x: &CpuRows, y: &CpuRows) -> Result<(), OpsError> {
    expect_equal(op, "width", x.width(), y.width())?;
    expect_equal(op, "rows", x.rows(), y.rows())
}

fn fused(qkv: &CpuRows) -> Fused {
    Fused { rows: qkv.rows(), width: qkv.width() }
}
