//! A sentence encoder like BERT (Devlin et al. 2018) on the processor: words, positions and kinds of tokens, then layers of
//! attention both ways and feed-forward, each with its LayerNorm behind it. Texts lie one behind the other without padding.
//!
//! It refuses to know tokenizers, and how rows become one vector.

mod layer;

use crate::config::{EncoderConfig, Gelu};
use crate::error::ModelError;
use crate::weights::Weights;
use layer::{Layer, LayerNorm};
use legwork_kernels::cpu::backend::{CpuMatrix, CpuRows};
use legwork_kernels::cpu::rowwise;
use legwork_kernels::{BatchError, Cpu, Heads, Ops};

/// An encoder with the buffers of a step.
#[derive(Debug)]
pub struct Encoder {
    cpu: Cpu,
    config: EncoderConfig,
    heads: Heads,
    words: CpuMatrix,
    positions: CpuMatrix,
    /// What every token of a lone text gets: the row of kind 0.
    kind: Vec<f32>,
    norm: LayerNorm,
    layers: Vec<Layer>,
    buffers: Buffers,
    rows_max: usize,
}

/// What a step fills.
#[derive(Debug)]
struct Buffers {
    /// The residual stream.
    stream: CpuRows,
    qkv: CpuRows,
    attended: CpuRows,
    /// What a half of a layer adds to the stream.
    delta: CpuRows,
    inner: CpuRows,
}

impl Encoder {
    /// Takes an encoder's weights out of `weights`; a step computes `rows_max` tokens at most.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape, or too little memory.
    pub fn load(cpu: Cpu, config: &EncoderConfig, weights: &mut Weights, rows_max: usize) -> Result<Self, ModelError> {
        let hidden = config.hidden;
        let mut table =
            |name: &str, rows: usize| weights.take(&format!("embeddings.{name}_embeddings.weight"), [rows, hidden]);
        let words = cpu.matrix(&[table("word", config.vocabulary)?])?;
        let positions = cpu.matrix(&[table("position", config.positions)?])?;
        let mut kind = table("token_type", config.token_types)?.to_f32();
        kind.truncate(hidden);
        let heads = Heads { query: config.heads, kv: config.heads, dim: config.head_dim() };
        Ok(Self {
            norm: LayerNorm::load(weights, "embeddings.LayerNorm", hidden)?,
            layers: (0..config.layers).map(|i| Layer::load(&cpu, config, weights, i)).collect::<Result<_, _>>()?,
            buffers: Buffers {
                stream: cpu.rows(rows_max, hidden)?,
                qkv: cpu.rows(rows_max, heads.fused())?,
                attended: cpu.rows(rows_max, heads.width())?,
                delta: cpu.rows(rows_max, hidden)?,
                inner: cpu.rows(rows_max, config.ffn)?,
            },
            config: config.clone(),
            cpu,
            heads,
            words,
            positions,
            kind,
            rows_max,
        })
    }

    /// Its shape.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Tokens of one step at most, over all of its texts.
    pub fn rows_max(&self) -> usize {
        self.rows_max
    }

    /// The last layer's rows `[tokens, hidden]` of texts, one behind the other.
    ///
    /// # Errors
    /// More tokens than a step or a text may have, an id that the vocabulary lacks, or a device that failed.
    pub fn states(&mut self, texts: &[&[u32]]) -> Result<&[f32], ModelError> {
        let (lengths, ids) = self.check(texts)?;
        let (cpu, b) = (&self.cpu, &mut self.buffers);
        let eps = self.config.layer_norm_eps as f32;
        let by_tanh = self.config.gelu == Gelu::Tanh;
        let positions: Vec<u32> = lengths.iter().flat_map(|length| 0..*length as u32).collect();
        cpu.embed(&self.words, &ids, &mut b.stream)?;
        for row in b.stream.values_mut().chunks_exact_mut(self.config.hidden) {
            rowwise::add(cpu.level(), row, &self.kind);
        }
        cpu.embed(&self.positions, &positions, &mut b.delta)?;
        cpu.add_layer_norm(&mut b.stream, &b.delta, &self.norm.weight, &self.norm.bias, eps)?;
        for layer in &self.layers {
            cpu.linear(&b.stream, &layer.qkv.weight, Some(&layer.qkv.bias), &mut b.qkv)?;
            cpu.attend_both_ways(&b.qkv, self.heads, &lengths, &mut b.attended)?;
            cpu.linear(&b.attended, &layer.attended.weight, Some(&layer.attended.bias), &mut b.delta)?;
            let norm = &layer.attended_norm;
            cpu.add_layer_norm(&mut b.stream, &b.delta, &norm.weight, &norm.bias, eps)?;
            cpu.linear(&b.stream, &layer.up.weight, Some(&layer.up.bias), &mut b.inner)?;
            cpu.gelu(&mut b.inner, by_tanh);
            cpu.linear(&b.inner, &layer.down.weight, Some(&layer.down.bias), &mut b.delta)?;
            let norm = &layer.output_norm;
            cpu.add_layer_norm(&mut b.stream, &b.delta, &norm.weight, &norm.bias, eps)?;
        }
        Ok(b.stream.values())
    }

    /// The lengths of texts and their ids one behind the other, once all are within the limits.
    fn check(&self, texts: &[&[u32]]) -> Result<(Vec<usize>, Vec<u32>), ModelError> {
        let wrong = |detail: String| Err(ModelError::Batch(BatchError(detail)));
        let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        let rows: usize = lengths.iter().sum();
        if rows > self.rows_max {
            return wrong(format!("expected at most {} tokens in one step, got {rows}", self.rows_max));
        }
        if let Some(length) = lengths.iter().find(|length| **length > self.config.positions) {
            return wrong(format!("expected texts of at most {} tokens, got {length}", self.config.positions));
        }
        let ids = texts.concat();
        match ids.iter().find(|id| **id as usize >= self.config.vocabulary) {
            Some(id) => wrong(format!("id {id} is not of a vocabulary of {}", self.config.vocabulary)),
            None => Ok((lengths, ids)),
        }
    }
}
