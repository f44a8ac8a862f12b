//! Numbers for tests, and the comparison of an operation's way back with candle's and with differences of its formula.
//!
//! It refuses to know which operation it is.

use super::formulas::Inputs;
use candle_core::{Device, Tensor, Var};
use legwork_kernels::{Learn, Ops, Part, Stored};

/// What a backend computes with.
#[derive(Clone, Copy)]
pub(crate) struct Precision {
    /// To what its rows are rounded: inputs are made so that they are what it holds.
    pub(crate) round: fn(f32) -> f32,
    /// How far sums in single precision may be off, of their value or of 1: gradients of learned tensors, and updates.
    pub(crate) single: f64,
    /// And products, which are rounded once.
    pub(crate) product: f64,
    /// And what is done to single rows, which may be rounded several times on the way.
    pub(crate) rows: f64,
    /// And attention, whose shares and their gradients are rounded before they are summed.
    pub(crate) attention: f64,
}

impl Precision {
    /// Of a backend that computes in single precision throughout.
    pub(crate) fn single(tolerance: f64) -> Self {
        let all = tolerance;
        Self { round: |value| value, single: all, product: all, rows: all, attention: all }
    }

    pub(crate) fn rounded(&self, values: Vec<f32>, change: impl Fn(f32) -> f32) -> Vec<f32> {
        values.into_iter().map(|value| (self.round)(change(value))).collect()
    }
}

/// Numbers that look like nothing in particular, from -1 to 1, rounded to what a backend holds.
pub(crate) struct Dice(pub(crate) u64, pub(crate) fn(f32) -> f32);

impl Dice {
    pub(crate) fn plain(seed: u64) -> Self {
        Self(seed, |value| value)
    }
}

impl Dice {
    pub(crate) fn next(&mut self) -> f32 {
        // SplitMix64 (Steele, Lea and Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (self.1)(((z ^ (z >> 31)) >> 40) as f32 / (1_u64 << 23) as f32 - 1.0)
    }

    pub(crate) fn many(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (((f64::from(self.next()) + 1.0) / 2.0 * end as f64) as usize).min(end - 1)
    }
}

/// Rows where the backend computes.
pub(crate) fn fill<B: Ops>(ops: &B, values: &[f32], rows: usize) -> B::Rows {
    let width = values.len() / rows;
    let table = ops.matrix(&[Stored::from_f32(rows, width, values).unwrap()]).unwrap();
    let mut filled = ops.rows(rows, width).unwrap();
    ops.embed(&table, &(0..rows as u32).collect::<Vec<_>>(), &mut filled).unwrap();
    filled
}

/// Rows that hold nothing of use, as those do whose last use was another.
pub(crate) fn spoiled<B: Ops>(ops: &B, rows: usize, width: usize) -> B::Rows {
    fill(ops, &vec![f32::NAN; rows * width], rows)
}

pub(crate) fn read<B: Ops>(ops: &B, rows: &B::Rows) -> Vec<f32> {
    let mut out = Vec::new();
    ops.read(rows, &mut out).unwrap();
    out
}

pub(crate) fn part<B: Learn>(ops: &B, param: &B::Param, part: Part) -> Vec<f32> {
    let mut out = Vec::new();
    ops.read_param(param, part, &mut out).unwrap();
    out
}

#[track_caller]
pub(crate) fn near(what: &str, got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        let off = (f64::from(*got) - expected).abs();
        assert!(off <= tolerance * expected.abs().max(1.0), "{what}, value {at}: {got}, expected {expected}");
    }
}

pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// What is to be compared of one operation: inputs with their rows, the gradient of what comes out, and what the backend gave.
pub(crate) struct Case<'a> {
    pub(crate) what: String,
    pub(crate) inputs: &'a [(&'a [f32], usize)],
    pub(crate) d_out: &'a [f32],
    pub(crate) out: &'a [f32],
    /// In the order of the inputs.
    pub(crate) gradients: &'a [Vec<f32>],
}

/// Inputs whose gradient is compared by differences, of each tensor.
const SAMPLED: usize = 6;
/// The width of a difference.
const STEP: f64 = 1e-4;

impl Case<'_> {
    /// Compares with candle and with the formula. `tolerance` is that of what comes out and of the gradients of rows, `single`
    /// that of the gradients of learned tensors, which are all inputs but the first.
    pub(crate) fn check(
        &self,
        (tolerance, single): (f64, f64),
        formula: impl Fn(&Inputs) -> Vec<f64>,
        graph: impl Fn(&[Tensor]) -> Tensor,
        dice: &mut Dice,
    ) {
        let mut inputs: Vec<(Vec<f64>, usize)> = self.inputs.iter().map(|(x, rows)| (wide(x), *rows)).collect();
        near(&format!("{}, forward", self.what), self.out, &formula(&inputs), tolerance);
        let gradients = self.by_candle(&inputs, graph);
        for (number, (got, expected)) in self.gradients.iter().zip(&gradients).enumerate() {
            let tolerance = if number == 0 { tolerance } else { single };
            near(&format!("{}, gradient {number} by candle", self.what), got, expected, tolerance);
        }
        for number in 0..inputs.len() {
            for _ in 0..SAMPLED {
                let at = dice.below(inputs[number].0.len());
                let here = inputs[number].0[at];
                let mut moved = |to: f64| -> f64 {
                    inputs[number].0[at] = to;
                    formula(&inputs).iter().zip(self.d_out).map(|(out, d)| out * f64::from(*d)).sum()
                };
                let difference = (moved(here + STEP) - moved(here - STEP)) / (2.0 * STEP);
                inputs[number].0[at] = here;
                let (got, what) = (f64::from(self.gradients[number][at]), &self.what);
                let off = (got - difference).abs();
                let most = tolerance.max(1e-4) * difference.abs().max(1.0);
                assert!(off <= most, "{what}, gradient {number}, value {at}: {got}, by differences {difference}");
            }
        }
    }

    fn by_candle(&self, inputs: &Inputs, graph: impl Fn(&[Tensor]) -> Tensor) -> Vec<Vec<f64>> {
        let vars: Vec<Var> = inputs
            .iter()
            .map(|(x, rows)| Tensor::from_slice(x, (*rows, x.len() / rows), &Device::Cpu).unwrap())
            .map(|x| Var::from_tensor(&x).unwrap())
            .collect();
        let tensors: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
        let out = graph(&tensors).flatten_all().unwrap();
        let d_out = Tensor::from_vec(wide(self.d_out), self.d_out.len(), &Device::Cpu).unwrap();
        let store = (out * d_out).unwrap().sum_all().unwrap().backward().unwrap();
        let of = |var: &Var| store.get(var).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        vars.iter().map(of).collect()
    }
}
