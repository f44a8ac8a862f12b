//! One layer forwards and back, over packed sequences. The way back begins with what went in and computes the rest again, but for what is kept; sums
//! over ranks stand where a product over parts of the inputs ends, and where the gradient of something whole comes from parts.
//! It refuses to know embedding and loss.

use super::arena::{Kept, Products, Work};
use super::tensors::LayerTensors;
use crate::pack::Pack;
use legwork_kernels::{Heads, Learn, OpsError, Rope};

/// What all layers of a pass share.
pub(super) struct Pass<'a, B> {
    pub(super) ops: &'a B,
    pub(super) heads: Heads,
    pub(super) rope: &'a Rope,
    pub(super) eps: f32,
    pub(super) pack: &'a Pack,
}

/// What the way back finds of the way forwards, beside what went into the layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) attention: bool,
    pub(super) products: bool,
}

impl<B: Learn> Pass<'_, B> {
    /// Sums over the ranks; one rank has nothing to sum.
    pub(super) fn sum(&self, x: &mut B::Rows) -> Result<(), OpsError> {
        if self.ops.ranks() > 1 { self.ops.all_reduce(x) } else { Ok(()) }
    }

    /// A bias behind a sum over ranks is added by one of them.
    fn once<'p>(&self, bias: &'p Option<B::Param>) -> Option<&'p B::Param> {
        bias.as_ref().filter(|_| self.ops.rank() == 0)
    }

    /// `output` becomes what a layer makes of `input`.
    pub(super) fn forward(
        &self,
        layer: &LayerTensors<B::Param>,
        input: &B::Rows,
        (kept, products): (&mut Kept<B>, &mut Products<B>),
        w: &mut Work<B>,
        output: &mut B::Rows,
    ) -> Result<(), OpsError> {
        self.turn(layer, input, (products, false), w)?;
        self.attend(layer, input, kept, w)?;
        self.activate(layer, (products, false), w)?;
        self.ops.linear_forward(&w.activated, &layer.down, self.once(&layer.down_bias), &mut w.branch)?;
        self.sum(&mut w.branch)?;
        self.ops.sum_into(&kept.middle, &w.branch, output)
    }

    /// Up to the queries, keys and values that attention takes; their product may be there still.
    fn turn(
        &self,
        layer: &LayerTensors<B::Param>,
        input: &B::Rows,
        (products, are_there): (&mut Products<B>, bool),
        w: &mut Work<B>,
    ) -> Result<(), OpsError> {
        let ops = self.ops;
        ops.norm_forward(input, &layer.attention_norm, self.eps, &mut w.normed)?;
        if !are_there {
            ops.linear_forward(&w.normed, &layer.qkv, layer.qkv_bias.as_ref(), &mut products.before)?;
        }
        let norms = layer.head_norms.as_ref().map(|norms| (&norms.query, &norms.key, self.eps));
        ops.rotate_into(&products.before, &mut w.qkv, self.heads, norms, self.rope, &self.pack.positions)
    }

    /// The rest of the first half, up to the stream in the layer's middle and its norm.
    fn attend(
        &self,
        layer: &LayerTensors<B::Param>,
        input: &B::Rows,
        kept: &mut Kept<B>,
        w: &mut Work<B>,
    ) -> Result<(), OpsError> {
        let ops = self.ops;
        ops.attend_forward(&w.qkv, self.heads, &self.pack.starts, &mut kept.attended, &mut kept.lse)?;
        ops.linear_forward(&kept.attended, &layer.output, self.once(&layer.output_bias), &mut w.branch)?;
        self.sum(&mut w.branch)?;
        let norm = (&layer.mlp_norm, self.eps);
        ops.sum_norm_into(input, &w.branch, norm, &mut kept.middle, &mut w.normed_mlp)
    }

    /// The second half from its norm on, up to what goes into its last product; its first may be there still.
    fn activate(
        &self,
        layer: &LayerTensors<B::Param>,
        (products, are_there): (&mut Products<B>, bool),
        w: &mut Work<B>,
    ) -> Result<(), OpsError> {
        if !are_there {
            let bias = layer.gate_up_bias.as_ref();
            self.ops.linear_forward(&w.normed_mlp, &layer.gate_up, bias, &mut products.gate_up)?;
        }
        self.ops.swiglu(&products.gate_up, &mut w.activated)
    }

    /// Turns the stream's gradient behind the layer into that before it, and adds to the gradients of its tensors. The biases
    /// that one rank adds are learned by all, from a gradient that all have. What attention and the first products gave may be there still.
    pub(super) fn backward(
        &self,
        layer: &mut LayerTensors<B::Param>,
        input: &B::Rows,
        (kept, products, found): (&mut Kept<B>, &mut Products<B>, Found),
        w: &mut Work<B>,
    ) -> Result<(), OpsError> {
        let ops = self.ops;
        self.turn(layer, input, (products, found.products), w)?;
        if found.attention {
            ops.norm_forward(&kept.middle, &layer.mlp_norm, self.eps, &mut w.normed_mlp)?;
        } else {
            self.attend(layer, input, kept, w)?;
        }
        self.activate(layer, (products, found.products), w)?;

        let bias = layer.down_bias.as_mut();
        ops.linear_backward(&w.activated, &mut layer.down, bias, &w.d_stream, Some(&mut w.d_activated))?;
        ops.swiglu_backward(&products.gate_up, &w.d_activated, &mut w.d_gate_up)?;
        let bias = layer.gate_up_bias.as_mut();
        ops.linear_backward(&w.normed_mlp, &mut layer.gate_up, bias, &w.d_gate_up, Some(&mut w.branch))?;
        self.sum(&mut w.branch)?;
        ops.norm_backward(&kept.middle, &mut layer.mlp_norm, self.eps, &w.branch, &mut w.d_stream)?;

        let bias = layer.output_bias.as_mut();
        ops.linear_backward(&kept.attended, &mut layer.output, bias, &w.d_stream, Some(&mut w.d_attended))?;
        let starts = &self.pack.starts;
        ops.attend_backward(&w.qkv, self.heads, starts, &kept.attended, &kept.lse, &w.d_attended, &mut w.d_qkv)?;
        let norms = layer.head_norms.as_mut().map(|norms| (&mut norms.query, &mut norms.key, self.eps));
        ops.rotate_backward(&products.before, self.heads, norms, self.rope, &self.pack.positions, &mut w.d_qkv)?;
        let bias = layer.qkv_bias.as_mut();
        ops.linear_backward(&w.normed, &mut layer.qkv, bias, &w.d_qkv, Some(&mut w.branch))?;
        self.sum(&mut w.branch)?;
        ops.norm_backward(input, &mut layer.attention_norm, self.eps, &w.branch, &mut w.d_stream)
    }
}
