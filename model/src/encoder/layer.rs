//! One layer's weights of an encoder where the processor computes on them: queries, keys and values as one matrix.

use crate::config::EncoderConfig;
use crate::error::ModelError;
use crate::weights::Weights;
use legwork_kernels::cpu::backend::CpuMatrix;
use legwork_kernels::{Cpu, Ops};

#[derive(Debug)]
pub(super) struct Layer {
    pub(super) qkv: Linear,
    pub(super) attended: Linear,
    pub(super) attended_norm: LayerNorm,
    pub(super) up: Linear,
    pub(super) down: Linear,
    pub(super) output_norm: LayerNorm,
}

/// A projection with its bias.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) weight: CpuMatrix,
    pub(super) bias: Vec<f32>,
}

#[derive(Debug)]
pub(super) struct LayerNorm {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl Layer {
    pub(super) fn load(
        cpu: &Cpu,
        config: &EncoderConfig,
        weights: &mut Weights,
        layer: usize,
    ) -> Result<Self, ModelError> {
        let (hidden, ffn) = (config.hidden, config.ffn);
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        let three = ["query", "key", "value"].map(|part| name(&format!("attention.self.{part}")));
        Ok(Self {
            qkv: Linear::load(cpu, weights, &three, [hidden, hidden])?,
            attended: Linear::load(cpu, weights, &[name("attention.output.dense")], [hidden, hidden])?,
            attended_norm: LayerNorm::load(weights, &name("attention.output.LayerNorm"), hidden)?,
            up: Linear::load(cpu, weights, &[name("intermediate.dense")], [ffn, hidden])?,
            down: Linear::load(cpu, weights, &[name("output.dense")], [hidden, ffn])?,
            output_norm: LayerNorm::load(weights, &name("output.LayerNorm"), hidden)?,
        })
    }
}

impl Linear {
    /// Projections of one shape, one below the other.
    fn load(cpu: &Cpu, weights: &mut Weights, names: &[String], shape: [usize; 2]) -> Result<Self, ModelError> {
        let (mut parts, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            parts.push(weights.take(&format!("{name}.weight"), shape)?);
            bias.extend(weights.take_vector(&format!("{name}.bias"), shape[0])?.to_f32());
        }
        Ok(Self { weight: cpu.matrix(&parts)?, bias })
    }
}

impl LayerNorm {
    pub(super) fn load(weights: &mut Weights, name: &str, width: usize) -> Result<Self, ModelError> {
        Ok(Self {
            weight: weights.take_vector(&format!("{name}.weight"), width)?.to_f32(),
            bias: weights.take_vector(&format!("{name}.bias"), width)?.to_f32(),
        })
    }
}
