//! What a backend adds to [`Ops`] so that a decoder learns on it: tensors with gradients and moments, each operation of the
//! decoder once forward and once backward, the loss, the update, and sums over the ranks of a tensor-parallel group and over
//! replicas.
//!
//! Activations are rows in arenas made once; nothing here allocates during a step. Gradients of learned tensors are added to,
//! in `f32`, in an order that does not depend on the number of threads. It refuses to know which model they make up.

pub(crate) mod expect;

use crate::ops::{Heads, Ops, OpsError, Rope};

/// What a learned tensor consists of; all of it `f32`, of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The master weights. A backend may compute with a narrower copy, which it keeps in step.
    Value,
    /// The gradient so far.
    Gradient,
    /// AdamW's mean of gradients.
    FirstMoment,
    /// AdamW's mean of squared gradients.
    SecondMoment,
}

/// One update of AdamW (Loshchilov and Hutter 2019): decay is decoupled, `value -= rate * decay * value`, before the step
/// `value -= rate * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// The learning rate of this update.
    pub rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Weight decay of this tensor; 0 for none.
    pub decay: f64,
    /// Updates so far, this one included: from 1.
    pub step: u64,
    /// What the gradient is multiplied by first: clipping by the global norm.
    pub scale: f64,
}

/// The operations of training. Where a rank holds a part of a tensor, it is a part of its outputs or inputs, and the caller
/// says with [`Ops::all_reduce`] what is to be summed. Packed sequences lie one behind the other in the rows; `starts` are
/// their first rows and, at the end, the number of rows: `[0, 5, 9]` are two sequences of 5 and 4.
pub trait Learn: Ops {
    /// A learned tensor `[rows, cols]` with its gradient and moments; a vector is one row.
    type Param: Send;
    /// Rows in single precision, where those of activations may be narrower.
    type Sums: Send;

    /// Makes a learned tensor; gradient and moments are 0.
    ///
    /// # Errors
    /// Values that are not `rows * cols`, or too little memory.
    fn param(&self, shape: [usize; 2], values: &[f32]) -> Result<Self::Param, OpsError>;

    /// Its `[rows, cols]`.
    fn param_shape(&self, param: &Self::Param) -> [usize; 2];

    /// Copies a part of it to the host.
    ///
    /// # Errors
    /// A device that failed.
    fn read_param(&self, param: &Self::Param, part: Part, out: &mut Vec<f32>) -> Result<(), OpsError>;

    /// Overwrites a part of it.
    ///
    /// # Errors
    /// Values that are not of its shape, or a device that failed.
    fn write_param(&self, param: &mut Self::Param, part: Part, values: &[f32]) -> Result<(), OpsError>;

    /// Logits that a network may have at once, about: half a gibibyte of them here.
    fn logits_max(&self) -> usize {
        1 << 27
    }

    /// Makes room for rows of sums.
    ///
    /// # Errors
    /// Too little memory.
    fn sums(&self, rows_max: usize, width: usize) -> Result<Self::Sums, OpsError>;

    /// Copies rows of sums to the host.
    ///
    /// # Errors
    /// A device that failed.
    fn read_sums(&self, sums: &Self::Sums, out: &mut Vec<f32>) -> Result<(), OpsError>;

    /// Holds `rows` rows of zeros from now on.
    ///
    /// # Errors
    /// More rows than there is room for.
    fn zero(&self, x: &mut Self::Rows, rows: usize) -> Result<(), OpsError>;

    /// `out = x`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn copy(&self, x: &Self::Rows, out: &mut Self::Rows) -> Result<(), OpsError>;

    /// `x += delta`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn add(&self, x: &mut Self::Rows, delta: &Self::Rows) -> Result<(), OpsError>;

    /// `out = x + delta`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn sum_into(&self, x: &Self::Rows, delta: &Self::Rows, out: &mut Self::Rows) -> Result<(), OpsError> {
        self.copy(x, out)?;
        self.add(out, delta)
    }

    /// `sum = x + delta`, and `out` its RMSNorm as [`Learn::norm_forward`] has it.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn sum_norm_into(
        &self,
        x: &Self::Rows,
        delta: &Self::Rows,
        (weight, eps): (&Self::Param, f32),
        sum: &mut Self::Rows,
        out: &mut Self::Rows,
    ) -> Result<(), OpsError> {
        self.sum_into(x, delta, sum)?;
        self.norm_forward(sum, weight, eps, out)
    }

    /// `out[i] = table[ids[i] - first]`, and zeros where the table, which begins at id `first`, lacks the id: another rank has it.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn embed_forward(&self, table: &Self::Param, first: u32, ids: &[u32], out: &mut Self::Rows)
    -> Result<(), OpsError>;

    /// Adds each row of `d_out` to the gradient of its id's row, in the rows' order.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn embed_backward(
        &self,
        table: &mut Self::Param,
        first: u32,
        ids: &[u32],
        d_out: &Self::Rows,
    ) -> Result<(), OpsError>;

    /// RMSNorm as [`Ops::norm`].
    ///
    /// # Errors
    /// A shape that does not fit.
    fn norm_forward(
        &self,
        x: &Self::Rows,
        weight: &Self::Param,
        eps: f32,
        out: &mut Self::Rows,
    ) -> Result<(), OpsError>;

    /// Adds to the weight's gradient, and to `dx`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn norm_backward(
        &self,
        x: &Self::Rows,
        weight: &mut Self::Param,
        eps: f32,
        d_out: &Self::Rows,
        dx: &mut Self::Rows,
    ) -> Result<(), OpsError>;

    /// `out = x Wᵀ + bias`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn linear_forward(
        &self,
        x: &Self::Rows,
        weight: &Self::Param,
        bias: Option<&Self::Param>,
        out: &mut Self::Rows,
    ) -> Result<(), OpsError>;

    /// Adds `d_outᵀ x` to the weight's gradient and the column sums of `d_out` to the bias's; `dx = d_out W`, overwritten.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn linear_backward(
        &self,
        x: &Self::Rows,
        weight: &mut Self::Param,
        bias: Option<&mut Self::Param>,
        d_out: &Self::Rows,
        dx: Option<&mut Self::Rows>,
    ) -> Result<(), OpsError>;

    /// On rows of queries, keys and values, in place: norms each query and key head where norms are given, then rotates them by
    /// their positions, as [`Ops::rotate_and_keep`] without a cache.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn rotate_forward(
        &self,
        qkv: &mut Self::Rows,
        heads: Heads,
        norms: Option<(&Self::Param, &Self::Param, f32)>,
        rope: &Rope,
        positions: &[u32],
    ) -> Result<(), OpsError>;

    /// As [`Learn::rotate_forward`] of a copy of `before`, which `qkv` becomes.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn rotate_into(
        &self,
        before: &Self::Rows,
        qkv: &mut Self::Rows,
        heads: Heads,
        norms: Option<(&Self::Param, &Self::Param, f32)>,
        rope: &Rope,
        positions: &[u32],
    ) -> Result<(), OpsError> {
        self.copy(before, qkv)?;
        self.rotate_forward(qkv, heads, norms, rope, positions)
    }

    /// Turns `d_qkv`, in place, from the gradient of what [`Ops`] attends over into that of the rows before norm and rotation,
    /// which are given as `before`; adds to the norms' gradients.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn rotate_backward(
        &self,
        before: &Self::Rows,
        heads: Heads,
        norms: Option<(&mut Self::Param, &mut Self::Param, f32)>,
        rope: &Rope,
        positions: &[u32],
        d_qkv: &mut Self::Rows,
    ) -> Result<(), OpsError>;

    /// Causal attention of each row over its own sequence, itself included, scaled by `1 / sqrt(dim)`. `lse`, `[rows, query
    /// heads]`, becomes the logarithm of the sum of exponentials of each row's scaled scores, for the way back.
    ///
    /// # Errors
    /// A shape that does not fit, or starts that are not in order.
    fn attend_forward(
        &self,
        qkv: &Self::Rows,
        heads: Heads,
        starts: &[u32],
        out: &mut Self::Rows,
        lse: &mut Self::Sums,
    ) -> Result<(), OpsError>;

    /// Overwrites `d_qkv` with the gradient of `qkv`, from what [`Learn::attend_forward`] was given and gave (Dao 2023's
    /// backward: probabilities are computed again from `lse`).
    ///
    /// # Errors
    /// A shape that does not fit, or starts that are not in order.
    #[allow(clippy::too_many_arguments, reason = "what the way forward was given and gave, and both gradients")]
    fn attend_backward(
        &self,
        qkv: &Self::Rows,
        heads: Heads,
        starts: &[u32],
        out: &Self::Rows,
        lse: &Self::Sums,
        d_out: &Self::Rows,
        d_qkv: &mut Self::Rows,
    ) -> Result<(), OpsError>;

    /// Overwrites `d_gate_up` with the gradient of what [`Ops::swiglu`] was given.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn swiglu_backward(
        &self,
        gate_up: &Self::Rows,
        d_out: &Self::Rows,
        d_gate_up: &mut Self::Rows,
    ) -> Result<(), OpsError>;

    /// `dx[rows[i]] += d_out[i]`: the way back of [`Ops::pick`].
    ///
    /// # Errors
    /// A row that is not there, or a shape that does not fit.
    fn pick_backward(&self, d_out: &Self::Rows, rows: &[u32], dx: &mut Self::Rows) -> Result<(), OpsError>;

    /// The weighted cross-entropy of rows of logits, of which this rank holds those from id `first` on and of which the first
    /// `columns` count (the rest pads). The loss of row `i`, `logsumexp(logits[i]) - logits[i][targets[i]]` without its weight,
    /// becomes row `at + i` of `losses`, the last of these rows; the logits become their gradient, `weights[i] * (softmax -
    /// onehot)`, 0 in columns that do not count. Maxima and sums go over all ranks of the group within. Nothing is waited for.
    ///
    /// # Errors
    /// A target that no rank has, a shape that does not fit, or a peer that failed.
    #[allow(clippy::too_many_arguments, reason = "logits, what is known of them, and where their losses go")]
    fn cross_entropy_into(
        &self,
        logits: &mut Self::Rows,
        first: u32,
        columns: usize,
        targets: &[u32],
        weights: &[f32],
        losses: &mut Self::Sums,
        at: usize,
    ) -> Result<(), OpsError>;

    /// As [`Learn::cross_entropy_into`], into room of its own that is read at once.
    ///
    /// # Errors
    /// As [`Learn::cross_entropy_into`], or a device that failed.
    fn cross_entropy(
        &self,
        logits: &mut Self::Rows,
        first: u32,
        columns: usize,
        targets: &[u32],
        weights: &[f32],
        losses: &mut Vec<f32>,
    ) -> Result<(), OpsError> {
        let mut sums = self.sums(targets.len(), 1)?;
        self.cross_entropy_into(logits, first, columns, targets, weights, &mut sums, 0)?;
        self.read_sums(&sums, losses)
    }

    /// The sum of squares of all gradients of these tensors on this rank.
    ///
    /// # Errors
    /// A device that failed.
    fn gradient_squares(&self, params: &mut dyn Iterator<Item = &Self::Param>) -> Result<f64, OpsError>;

    /// Multiplies by `step.scale`, updates moments and values, and sets the gradient to 0.
    ///
    /// # Errors
    /// A device that failed.
    fn adamw(&self, param: &mut Self::Param, step: &AdamW) -> Result<(), OpsError>;

    /// As [`Learn::adamw`] for each of many tensors, with a weight decay of its own in place of the step's.
    ///
    /// # Errors
    /// A device that failed; some tensors may then be updated and others not.
    fn adamw_each(
        &self,
        params: &mut dyn Iterator<Item = (&mut Self::Param, f64)>,
        step: &AdamW,
    ) -> Result<(), OpsError> {
        for (param, decay) in params {
            self.adamw(param, &AdamW { decay, ..*step })?;
        }
        Ok(())
    }

    /// Sets the gradient to 0.
    ///
    /// # Errors
    /// A device that failed.
    fn zero_gradient(&self, param: &mut Self::Param) -> Result<(), OpsError>;

    /// This rank in its tensor-parallel group, from 0.
    fn rank(&self) -> usize;

    /// Ranks of the group.
    fn ranks(&self) -> usize;

    /// Sums the gradient over all ranks, in rank order.
    ///
    /// # Errors
    /// A device or a peer that failed.
    fn all_reduce_gradient(&self, param: &mut Self::Param) -> Result<(), OpsError>;

    /// Sums numbers of the host over all ranks, in rank order.
    ///
    /// # Errors
    /// A peer that failed.
    fn all_reduce_host(&self, values: &mut [f64]) -> Result<(), OpsError>;

    /// This replica of the network, from 0. Replicas hold the same tensors and learn from other rows.
    fn replica(&self) -> usize {
        0
    }

    /// Replicas of the network.
    fn replicas(&self) -> usize {
        1
    }

    /// Sums numbers of the host over all replicas, in their order.
    ///
    /// # Errors
    /// A peer that failed.
    fn sum_over_replicas(&self, _values: &mut [f64]) -> Result<(), OpsError> {
        Ok(())
    }

    /// Sums the gradients over all replicas, each at the replica that its tensor belongs to; elsewhere they are of no use then.
    ///
    /// # Errors
    /// A device or a peer that failed.
    fn reduce_gradients(&self, _params: &mut dyn Iterator<Item = (&mut Self::Param, usize)>) -> Result<(), OpsError> {
        Ok(())
    }

    /// What is computed with becomes, of each tensor, that of the replica which it belongs to: what only an update reads need
    /// not come along.
    ///
    /// # Errors
    /// A device or a peer that failed.
    fn spread_values(&self, _params: &mut dyn Iterator<Item = (&mut Self::Param, usize)>) -> Result<(), OpsError> {
        Ok(())
    }

    /// Copies a part of a tensor that belongs to a replica to the host of the first replica; all of them call it, and others get
    /// nothing.
    ///
    /// # Errors
    /// A device or a peer that failed.
    fn read_owned(
        &self,
        param: &mut Self::Param,
        part: Part,
        _owner: usize,
        out: &mut Vec<f32>,
    ) -> Result<(), OpsError> {
        self.read_param(param, part, out)
    }
}
