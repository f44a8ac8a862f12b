//! What a step costs at least: bytes that must be moved and operations that must be done, and the seconds of the larger at the
//! ceilings of the run.
//!
//! Of Qwen3-4B in bf16: 8.04 GB of weights a step, 147,456 bytes a token of context, 7.27 GFLOP a row, 0.59 MFLOP a row and
//! token that it sees (half of that for each token of a prompt), 0.78 GFLOP for each row of logits.

use legwork_kernels::Batch;
use legwork_model::DecoderConfig;

/// Bytes of a value.
const VALUE_BYTES: f64 = 2.0;

/// What the card did at most, in this run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceilings {
    /// Of a copy: bytes read and written, a second.
    pub(crate) bytes_s: f64,
    /// Of a product of large matrices: operations a second.
    pub(crate) flops_s: f64,
}

/// Of one decoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Weights of all layers.
    layers: f64,
    /// Weights of the head.
    head: f64,
    /// Numbers of keys and values of a token, over all layers.
    kept: f64,
    /// Operations of a row's attention for each token that it sees.
    seen_flops: f64,
    /// Numbers of a row of all buffers.
    row: f64,
}

impl Costs {
    pub(crate) fn of(config: &DecoderConfig) -> Self {
        let [layers, hidden, ffn, vocabulary] =
            [config.layers, config.hidden, config.ffn, config.vocabulary].map(|number| number as f64);
        let (q, kv) = (config.q_width() as f64, config.kv_width() as f64);
        Self {
            layers: layers * (hidden * (2.0 * q + 2.0 * kv) + 3.0 * hidden * ffn),
            head: vocabulary * hidden,
            kept: layers * 2.0 * kv,
            seen_flops: layers * 4.0 * q,
            row: 3.0 * hidden + q + 2.0 * kv + q + 3.0 * ffn,
        }
    }

    /// Bytes of all weights, an embedding that is the head counted once.
    pub(crate) fn weight_bytes(&self) -> f64 {
        VALUE_BYTES * (self.layers + self.head)
    }

    /// Bytes of keys and values of a token.
    pub(crate) fn token_bytes(&self) -> f64 {
        VALUE_BYTES * self.kept
    }

    /// Bytes of the buffers for so many rows.
    pub(crate) fn buffer_bytes(&self, rows: usize) -> f64 {
        VALUE_BYTES * self.row * rows as f64
    }

    /// The least seconds of a step, at these ceilings.
    pub(crate) fn least_s(&self, batch: &Batch, ceilings: Ceilings) -> f64 {
        let rows = batch.rows() as f64;
        let (mut context, mut seen) = (0.0, 0.0);
        for span in &batch.spans {
            let (past, rows) = (span.past as f64, span.rows as f64);
            context += past + rows;
            seen += rows * past + rows * (rows + 1.0) / 2.0;
        }
        let wanted = batch.wanted.len() as f64;
        let head = if batch.wanted.is_empty() { 0.0 } else { self.head };
        let bytes = VALUE_BYTES * (self.layers + head) + self.token_bytes() * context;
        let flops = 2.0 * rows * self.layers + 2.0 * wanted * self.head + seen * self.seen_flops;
        (bytes / ceilings.bytes_s).max(flops / ceilings.flops_s)
    }
}
