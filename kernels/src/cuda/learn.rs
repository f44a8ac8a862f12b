//! [`Learn`] on a card: each operation checks what it is given and starts its kernels. Rows and their gradients are bf16, as in
//! Hugging Face's bf16 training; master weights, their gradients and moments are `f32`, as are all sums on the way. Every sum
//! goes in an order that depends on shapes alone, so that the same inputs give the same bits.
//!
//! It refuses to know models and how kernels are run.

mod attend;
mod attend_hopper;
mod host;
mod loss;
mod param;
mod plan;
mod replicas;
mod room;
mod rows;
mod turn;
pub mod units;
mod update;

pub use param::{CardParam, CardSums};
pub(super) use room::Room;

use self::attend::Attended;
use self::loss::Loss;
use self::plan::Scatter;
use self::rows::NORM_WIDTH_MAX;
use super::backend::Card;
use super::driver::{Combine, Driver, GradientOf, GradientProduct, Product};
use super::memory::{CardRows, VALUE_BYTES, counted};
use super::plan::HEAD_DIM_MAX;
use crate::learn::expect::{Fused, expect_attention, expect_rotation};
use crate::learn::{AdamW, Learn, Part};
use crate::ops::{Heads, OpsError, Rope, expect_equal};

impl<D: Driver> Learn for Card<D> {
    type Param = CardParam<D>;
    type Sums = CardSums<D>;

    fn param(&self, shape: [usize; 2], values: &[f32]) -> Result<CardParam<D>, OpsError> {
        // All that the tensor may come to hold: four parts in `f32`, and the copy.
        counted("a learned tensor", &[shape[0], shape[1], 4 * size_of::<f32>() + VALUE_BYTES])?;
        expect_equal("param", "values", shape[0] * shape[1], values.len())?;
        let mut param = CardParam::new(&self.driver, shape)?;
        self.write_param(&mut param, Part::Value, values)?;
        Ok(param)
    }

    fn param_shape(&self, param: &CardParam<D>) -> [usize; 2] {
        [param.rows, param.cols]
    }

    fn read_param(&self, param: &CardParam<D>, part: Part, out: &mut Vec<f32>) -> Result<(), OpsError> {
        param.read(&self.driver, part, out)
    }

    fn write_param(&self, param: &mut CardParam<D>, part: Part, values: &[f32]) -> Result<(), OpsError> {
        expect_equal("write_param", "values", param.rows * param.cols, values.len())?;
        param.write(&self.driver, part, values)?;
        if part == Part::Value { self.narrow(param) } else { Ok(()) }
    }

    fn logits_max(&self) -> usize {
        // A gibibyte: with fewer rows, products are too small for a card's processors.
        1 << 29
    }

    fn sums(&self, rows_max: usize, width: usize) -> Result<CardSums<D>, OpsError> {
        CardSums::new(&self.driver, rows_max, width)
    }

    fn read_sums(&self, sums: &CardSums<D>, out: &mut Vec<f32>) -> Result<(), OpsError> {
        sums.read(&self.driver, out)
    }

    fn zero(&self, x: &mut CardRows<D>, rows: usize) -> Result<(), OpsError> {
        x.set_rows(rows)?;
        self.fill_zero(x.address, rows * x.stride * VALUE_BYTES)
    }

    fn copy(&self, x: &CardRows<D>, out: &mut CardRows<D>) -> Result<(), OpsError> {
        expect_equal("copy", "width", x.width, out.width)?;
        out.set_rows(x.rows)?;
        self.copy_rows(x, out)
    }

    fn add(&self, x: &mut CardRows<D>, delta: &CardRows<D>) -> Result<(), OpsError> {
        expect_same("add", x, delta)?;
        self.add_rows(x, delta)
    }

    fn sum_into(&self, x: &CardRows<D>, delta: &CardRows<D>, out: &mut CardRows<D>) -> Result<(), OpsError> {
        expect_same("sum_into", x, delta)?;
        expect_equal("sum_into", "width", x.width, out.width)?;
        out.set_rows(x.rows)?;
        self.sum_rows(x, delta, out)
    }

    fn sum_norm_into(
        &self,
        x: &CardRows<D>,
        delta: &CardRows<D>,
        (weight, eps): (&CardParam<D>, f32),
        sum: &mut CardRows<D>,
        out: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        const OP: &str = "sum_norm_into";
        if x.width > NORM_WIDTH_MAX {
            self.sum_into(x, delta, sum)?;
            return self.norm_forward(sum, weight, eps, out);
        }
        expect_same(OP, x, delta)?;
        expect_equal(OP, "weights", x.width, weight.rows * weight.cols)?;
        expect_equal(OP, "width", x.width, sum.width)?;
        expect_equal(OP, "width", x.width, out.width)?;
        sum.set_rows(x.rows)?;
        out.set_rows(x.rows)?;
        self.sum_norm_rows(x, delta, (weight, eps), sum, out)
    }

    fn embed_forward(
        &self,
        table: &CardParam<D>,
        first: u32,
        ids: &[u32],
        out: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        expect_equal("embed_forward", "width", table.cols, out.width)?;
        out.set_rows(ids.len())?;
        self.gather_some(table, first, ids, out)
    }

    fn embed_backward(
        &self,
        table: &mut CardParam<D>,
        first: u32,
        ids: &[u32],
        d_out: &CardRows<D>,
    ) -> Result<(), OpsError> {
        expect_equal("embed_backward", "width", table.cols, d_out.width)?;
        expect_equal("embed_backward", "rows", ids.len(), d_out.rows)?;
        let rows = table.rows;
        let place = |id: &u32| id.checked_sub(first).filter(|row| (*row as usize) < rows);
        let gradient = table.gradient_at(&self.driver)?;
        self.scatter(&Scatter::of(ids.iter().map(place)), d_out, gradient, true)
    }

    fn norm_forward(
        &self,
        x: &CardRows<D>,
        weight: &CardParam<D>,
        eps: f32,
        out: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        expect_equal("norm_forward", "weights", x.width, weight.rows * weight.cols)?;
        expect_equal("norm_forward", "width", x.width, out.width)?;
        out.set_rows(x.rows)?;
        self.norm_rows(x, weight, eps, out)
    }

    fn norm_backward(
        &self,
        x: &CardRows<D>,
        weight: &mut CardParam<D>,
        eps: f32,
        d_out: &CardRows<D>,
        dx: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        expect_equal("norm_backward", "weights", x.width, weight.rows * weight.cols)?;
        expect_same("norm_backward", x, d_out)?;
        expect_same("norm_backward", x, dx)?;
        self.norm_rows_back(x, weight, eps, d_out, dx)
    }

    fn linear_forward(
        &self,
        x: &CardRows<D>,
        weight: &CardParam<D>,
        bias: Option<&CardParam<D>>,
        out: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        const OP: &str = "linear_forward";
        expect_equal(OP, "inputs", weight.cols, x.width)?;
        expect_equal(OP, "outputs", weight.rows, out.width)?;
        if let Some(bias) = bias {
            expect_equal(OP, "biases", weight.rows, bias.rows * bias.cols)?;
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
            weight: (weight.copy_at(&self.driver), weight.stride),
            bias: bias.map(|bias| bias.copy_at(&self.driver)),
            out: (out.address, out.stride),
        };
        // SAFETY: the addresses are those of buffers of these shapes, as checked above.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.product(&product)
        }
    }

    fn linear_backward(
        &self,
        x: &CardRows<D>,
        weight: &mut CardParam<D>,
        bias: Option<&mut CardParam<D>>,
        d_out: &CardRows<D>,
        dx: Option<&mut CardRows<D>>,
    ) -> Result<(), OpsError> {
        const OP: &str = "linear_backward";
        expect_equal(OP, "inputs", weight.cols, x.width)?;
        expect_equal(OP, "outputs", weight.rows, d_out.width)?;
        expect_equal(OP, "rows", x.rows, d_out.rows)?;
        if let Some(bias) = &bias {
            expect_equal(OP, "biases", weight.rows, bias.rows * bias.cols)?;
        }
        let empty = x.rows == 0 || weight.rows == 0 || weight.cols == 0;
        let product = |of, other, out| GradientProduct {
            of,
            rows: x.rows,
            inputs: x.width,
            outputs: d_out.width,
            d_out: (d_out.address, d_out.stride),
            other,
            out,
        };
        if let Some(dx) = dx {
            expect_equal(OP, "inputs", weight.cols, dx.width)?;
            self.zero_if(weight.rows == 0, dx, x.rows)?;
            let given = (weight.copy_at(&self.driver), weight.stride);
            let product = product(GradientOf::Inputs, given, (dx.address, dx.stride));
            if !empty {
                // SAFETY: the addresses are those of buffers of these shapes, as checked above.
                #[allow(unsafe_code)]
                unsafe {
                    self.driver.gradient_product(&product)?;
                }
            }
        }
        if !empty {
            let gradient = (weight.gradient_at(&self.driver)?, weight.stride);
            let product = product(GradientOf::Weight, (x.address, x.stride), gradient);
            // SAFETY: as above.
            #[allow(unsafe_code)]
            unsafe {
                self.driver.gradient_product(&product)?;
            }
        }
        bias.map_or(Ok(()), |bias| self.add_columns_of(d_out, bias))
    }

    fn rotate_forward(
        &self,
        qkv: &mut CardRows<D>,
        heads: Heads,
        norms: Option<(&CardParam<D>, &CardParam<D>, f32)>,
        rope: &Rope,
        positions: &[u32],
    ) -> Result<(), OpsError> {
        const OP: &str = "rotate_forward";
        expect_rotation(OP, fused(qkv), heads, rope, positions)?;
        expect_dim(OP, heads)?;
        expect_norms(OP, heads, norms)?;
        self.rotate_rows(None, qkv, heads, norms, rope, positions)
    }

    fn rotate_into(
        &self,
        before: &CardRows<D>,
        qkv: &mut CardRows<D>,
        heads: Heads,
        norms: Option<(&CardParam<D>, &CardParam<D>, f32)>,
        rope: &Rope,
        positions: &[u32],
    ) -> Result<(), OpsError> {
        const OP: &str = "rotate_into";
        expect_rotation(OP, fused(before), heads, rope, positions)?;
        expect_dim(OP, heads)?;
        expect_equal(OP, "width", before.width, qkv.width)?;
        expect_norms(OP, heads, norms)?;
        qkv.set_rows(before.rows)?;
        self.rotate_rows(Some(before), qkv, heads, norms, rope, positions)
    }

    fn rotate_backward(
        &self,
        before: &CardRows<D>,
        heads: Heads,
        norms: Option<(&mut CardParam<D>, &mut CardParam<D>, f32)>,
        rope: &Rope,
        positions: &[u32],
        d_qkv: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        const OP: &str = "rotate_backward";
        expect_rotation(OP, fused(d_qkv), heads, rope, positions)?;
        expect_dim(OP, heads)?;
        expect_same(OP, before, d_qkv)?;
        if let Some((query, key, _)) = &norms {
            expect_equal(OP, "query norm", heads.dim, query.rows * query.cols)?;
            expect_equal(OP, "key norm", heads.dim, key.rows * key.cols)?;
        }
        self.rotate_rows_back(before, heads, norms, rope, positions, d_qkv)
    }

    fn attend_forward(
        &self,
        qkv: &CardRows<D>,
        heads: Heads,
        starts: &[u32],
        out: &mut CardRows<D>,
        lse: &mut CardSums<D>,
    ) -> Result<(), OpsError> {
        const OP: &str = "attend_forward";
        expect_attention(OP, fused(qkv), heads, starts)?;
        expect_dim(OP, heads)?;
        expect_equal(OP, "width", heads.width(), out.width)?;
        expect_equal(OP, "query heads", heads.query, lse.width)?;
        out.set_rows(qkv.rows)?;
        lse.set_rows(qkv.rows)?;
        if qkv.rows == 0 {
            return Ok(());
        }
        self.attend_packed(&Attended { qkv, heads, starts, out, lse })
    }

    fn attend_backward(
        &self,
        qkv: &CardRows<D>,
        heads: Heads,
        starts: &[u32],
        out: &CardRows<D>,
        lse: &CardSums<D>,
        d_out: &CardRows<D>,
        d_qkv: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        const OP: &str = "attend_backward";
        expect_attention(OP, fused(qkv), heads, starts)?;
        expect_dim(OP, heads)?;
        expect_equal(OP, "width", heads.width(), out.width)?;
        expect_equal(OP, "rows", qkv.rows, out.rows)?;
        expect_equal(OP, "query heads", heads.query, lse.width)?;
        expect_equal(OP, "rows", qkv.rows, lse.rows)?;
        expect_same(OP, out, d_out)?;
        expect_equal(OP, "values of a row", heads.fused(), d_qkv.width)?;
        d_qkv.set_rows(qkv.rows)?;
        if qkv.rows == 0 {
            return Ok(());
        }
        self.attend_packed_back(&Attended { qkv, heads, starts, out, lse }, d_out, d_qkv)
    }

    fn swiglu_backward(
        &self,
        gate_up: &CardRows<D>,
        d_out: &CardRows<D>,
        d_gate_up: &mut CardRows<D>,
    ) -> Result<(), OpsError> {
        const OP: &str = "swiglu_backward";
        expect_equal(OP, "width", 2 * d_out.width, gate_up.width)?;
        expect_equal(OP, "rows", gate_up.rows, d_out.rows)?;
        expect_equal(OP, "width", gate_up.width, d_gate_up.width)?;
        d_gate_up.set_rows(gate_up.rows)?;
        self.swiglu_rows_back(gate_up, d_out, d_gate_up)
    }

    fn pick_backward(&self, d_out: &CardRows<D>, rows: &[u32], dx: &mut CardRows<D>) -> Result<(), OpsError> {
        const OP: &str = "pick_backward";
        expect_equal(OP, "width", dx.width, d_out.width)?;
        expect_equal(OP, "rows", rows.len(), d_out.rows)?;
        if let Some(row) = rows.iter().find(|row| **row as usize >= dx.rows) {
            let (expected, got) = (format!("a row below {}", dx.rows), row.to_string());
            return Err(OpsError::Shape { op: OP, expected, got });
        }
        self.scatter(&Scatter::of(rows.iter().map(|row| Some(*row))), d_out, dx.address, false)
    }

    fn cross_entropy_into(
        &self,
        logits: &mut CardRows<D>,
        first: u32,
        columns: usize,
        targets: &[u32],
        weights: &[f32],
        losses: &mut CardSums<D>,
        at: usize,
    ) -> Result<(), OpsError> {
        Loss { first, columns, targets, weights }.apply(self, logits, losses, at)
    }

    fn gradient_squares(&self, params: &mut dyn Iterator<Item = &CardParam<D>>) -> Result<f64, OpsError> {
        self.sum_of_squares(params)
    }

    fn adamw(&self, param: &mut CardParam<D>, step: &AdamW) -> Result<(), OpsError> {
        self.update(&mut [(param, step.decay)].into_iter(), step)
    }

    fn adamw_each(
        &self,
        params: &mut dyn Iterator<Item = (&mut CardParam<D>, f64)>,
        step: &AdamW,
    ) -> Result<(), OpsError> {
        self.update(params, step)
    }

    fn zero_gradient(&self, param: &mut CardParam<D>) -> Result<(), OpsError> {
        // One that was never needed is 0 already.
        param.known_gradient(&self.driver).map_or(Ok(()), |at| self.fill_zero(at, param.values() * size_of::<f32>()))
    }

    fn rank(&self) -> usize {
        self.driver.rank()
    }

    fn ranks(&self) -> usize {
        self.driver.ranks()
    }

    fn all_reduce_gradient(&self, param: &mut CardParam<D>) -> Result<(), OpsError> {
        if self.driver.ranks() == 1 || param.values() == 0 {
            return Ok(());
        }
        let gradient = param.gradient_at(&self.driver)?;
        // SAFETY: the gradient has so many values.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.combine_over_ranks(Combine::SumSingle, gradient, param.values())
        }
    }

    fn all_reduce_host(&self, values: &mut [f64]) -> Result<(), OpsError> {
        match self.driver.ranks() {
            1 => Ok(()),
            // SAFETY: so many values are there.
            #[allow(unsafe_code)]
            _ => self.over_host(values, |at, count| unsafe {
                self.driver.combine_over_ranks(Combine::SumDouble, at, count)
            }),
        }
    }

    fn replica(&self) -> usize {
        self.driver.replica()
    }

    fn replicas(&self) -> usize {
        self.driver.replicas()
    }

    fn sum_over_replicas(&self, values: &mut [f64]) -> Result<(), OpsError> {
        match self.driver.replicas() {
            1 => Ok(()),
            // SAFETY: so many values are there.
            #[allow(unsafe_code)]
            _ => self.over_host(values, |at, count| unsafe { self.driver.sum_over_replicas(at, count) }),
        }
    }

    fn reduce_gradients(&self, params: &mut dyn Iterator<Item = (&mut CardParam<D>, usize)>) -> Result<(), OpsError> {
        if self.driver.replicas() == 1 { Ok(()) } else { self.reduce_to_owners(params) }
    }

    fn spread_values(&self, params: &mut dyn Iterator<Item = (&mut CardParam<D>, usize)>) -> Result<(), OpsError> {
        if self.driver.replicas() == 1 { Ok(()) } else { self.spread_copies(params) }
    }

    fn read_owned(
        &self,
        param: &mut CardParam<D>,
        part: Part,
        owner: usize,
        out: &mut Vec<f32>,
    ) -> Result<(), OpsError> {
        match owner {
            0 if self.driver.replica() == 0 => self.read_param(param, part, out),
            0 => {
                out.clear();
                Ok(())
            }
            _ => self.read_of_owner(param, part, owner, out),
        }
    }
}

fn fused<D: Driver>(qkv: &CardRows<D>) -> Fused {
    Fused { rows: qkv.rows, width: qkv.width }
}

fn expect_same<D: Driver>(op: &'static str, x: &CardRows<D>, y: &CardRows<D>) -> Result<(), OpsError> {
    expect_equal(op, "width", x.width, y.width)?;
    expect_equal(op, "rows", x.rows, y.rows)
}

/// Norms of queries and keys are as wide as a head.
fn expect_norms<D: Driver>(
    op: &'static str,
    heads: Heads,
    norms: Option<(&CardParam<D>, &CardParam<D>, f32)>,
) -> Result<(), OpsError> {
    let Some((query, key, _)) = norms else { return Ok(()) };
    expect_equal(op, "query norm", heads.dim, query.rows * query.cols)?;
    expect_equal(op, "key norm", heads.dim, key.rows * key.cols)
}

fn expect_dim(op: &'static str, heads: Heads) -> Result<(), OpsError> {
    if heads.dim <= HEAD_DIM_MAX && heads.query > 0 {
        return Ok(());
    }
    let expected = format!("a query head or more, of at most {HEAD_DIM_MAX} values");
    Err(OpsError::Shape { op, expected, got: format!("{heads:?}") })
}
