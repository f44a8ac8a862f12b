//! One layer's weights where the backend computes on them: queries, keys and values as one matrix, gate and up likewise.

use super::share::Share;
use crate::config::DecoderConfig;
use crate::error::ModelError;
use crate::weights::Weights;
use legwork_kernels::{Ops, Stored};

pub(super) struct Layer<B: Ops> {
    pub(super) attention_norm: B::Vector,
    pub(super) qkv: B::Matrix,
    pub(super) qkv_bias: Option<B::Vector>,
    /// Of query heads and of key heads.
    pub(super) head_norms: Option<(B::Vector, B::Vector)>,
    pub(super) output: B::Matrix,
    pub(super) output_bias: Option<B::Vector>,
    pub(super) mlp_norm: B::Vector,
    pub(super) gate_up: B::Matrix,
    pub(super) gate_up_bias: Option<B::Vector>,
    pub(super) down: B::Matrix,
    pub(super) down_bias: Option<B::Vector>,
}

impl<B: Ops> Layer<B> {
    pub(super) fn load(
        ops: &B,
        config: &DecoderConfig,
        weights: &mut Weights,
        layer: usize,
        share: Share,
    ) -> Result<Self, ModelError> {
        let (hidden, ffn) = (config.hidden, config.ffn);
        let (q, kv) = (config.q_width(), config.kv_width());
        let mut of = Parts { ops, weights, layer, share };
        Ok(Self {
            attention_norm: of.vector("input_layernorm.weight", hidden)?,
            qkv: of.matrix(hidden, &[("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)])?,
            qkv_bias: match config.qkv_bias {
                true => of.bias(&[("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)])?,
                false => None,
            },
            head_norms: match config.qk_norm {
                true => Some((
                    of.vector("self_attn.q_norm.weight", config.head_dim)?,
                    of.vector("self_attn.k_norm.weight", config.head_dim)?,
                )),
                false => None,
            },
            output: of.way_out(q, "self_attn.o_proj", hidden)?,
            output_bias: if config.output_bias { of.bias_of_sum("self_attn.o_proj", hidden)? } else { None },
            mlp_norm: of.vector("post_attention_layernorm.weight", hidden)?,
            gate_up: of.matrix(hidden, &[("mlp.gate_proj", ffn), ("mlp.up_proj", ffn)])?,
            gate_up_bias: match config.mlp_bias {
                true => of.bias(&[("mlp.gate_proj", ffn), ("mlp.up_proj", ffn)])?,
                false => None,
            },
            down: of.way_out(ffn, "mlp.down_proj", hidden)?,
            down_bias: if config.mlp_bias { of.bias_of_sum("mlp.down_proj", hidden)? } else { None },
        })
    }
}

struct Parts<'a, B> {
    ops: &'a B,
    weights: &'a mut Weights,
    layer: usize,
    share: Share,
}

impl<B: Ops> Parts<'_, B> {
    fn take(&mut self, name: &str, shape: [usize; 2]) -> Result<Stored, ModelError> {
        self.weights.take(&format!("model.layers.{}.{name}", self.layer), shape)
    }

    fn vector(&mut self, name: &str, count: usize) -> Result<B::Vector, ModelError> {
        let stored = self.take(name, [1, count])?;
        Ok(self.ops.vector(&stored.to_f32())?)
    }

    fn matrix(&mut self, inputs: usize, parts: &[(&str, usize)]) -> Result<B::Matrix, ModelError> {
        let take = |(name, outputs): &(&str, usize)| {
            let whole = self.take(&format!("{name}.weight"), [*outputs, inputs])?;
            self.share.outputs(&whole)
        };
        let parts: Vec<Stored> = parts.iter().map(take).collect::<Result<_, _>>()?;
        Ok(self.ops.matrix(&parts)?)
    }

    fn bias(&mut self, parts: &[(&str, usize)]) -> Result<Option<B::Vector>, ModelError> {
        let mut values = Vec::new();
        for (name, outputs) in parts {
            let whole = self.take(&format!("{name}.bias"), [1, *outputs])?;
            values.extend(self.share.outputs(&whole)?.to_f32());
        }
        Ok(Some(self.ops.vector(&values)?))
    }

    /// A matrix whose products are summed over all ranks.
    fn way_out(&mut self, inputs: usize, name: &str, outputs: usize) -> Result<B::Matrix, ModelError> {
        let whole = self.take(&format!("{name}.weight"), [outputs, inputs])?;
        Ok(self.ops.matrix(&[self.share.inputs(&whole)?])?)
    }

    /// What is added to such a sum: by one rank, so once.
    fn bias_of_sum(&mut self, name: &str, outputs: usize) -> Result<Option<B::Vector>, ModelError> {
        let whole = self.take(&format!("{name}.bias"), [1, outputs])?;
        Ok(if self.share.rank == 0 { Some(self.ops.vector(&whole.to_f32())?) } else { None })
    }
}
