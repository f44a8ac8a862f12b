//! A dense decoder over any backend: embedding, layers of attention and feed-forward, final norm, head. Qwen3, Qwen2, Llama
//! and Mistral are one shape with flags. All buffers are made once; a step fills them.
//!
//! It refuses to know which sequences are whose and how a token is chosen.

mod layer;
mod rope;
mod share;
mod size;

pub use share::Share;

use crate::config::DecoderConfig;
use crate::error::ModelError;
use crate::forward::{Forward, ModelLimits, Next};
use crate::weights::{Weights, names};
use layer::Layer;
use legwork_kernels::ops::expect_equal;
use legwork_kernels::{Batch, CacheShape, DrawRules, Heads, HostBytes, Ops, OpsError, PAGE_TOKENS, Rope};

/// Rows whose logits are computed at once: bounds that buffer, not the batch.
const HEAD_ROWS: usize = 64;

/// How much a decoder may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderSettings {
    /// Pages of its key-value cache.
    pub pages: usize,
    /// Rows of one step at most.
    pub rows_max: usize,
    /// Tokens of a sequence at most; the model's own context if that is less.
    pub context_max: usize,
}

/// A decoder with its cache and the buffers of a step.
pub struct Decoder<B: Ops> {
    ops: B,
    config: DecoderConfig,
    limits: ModelLimits,
    heads: Heads,
    rope: Rope,
    embedding: B::Matrix,
    layers: Vec<Layer<B>>,
    norm: B::Vector,
    head: Option<B::Matrix>,
    cache: B::Cache,
    buffers: Buffers<B>,
}

/// What a step fills.
struct Buffers<B: Ops> {
    /// The residual stream.
    stream: B::Rows,
    normed: B::Rows,
    qkv: B::Rows,
    attended: B::Rows,
    /// What a half of a layer adds to the stream.
    delta: B::Rows,
    gate_up: B::Rows,
    activated: B::Rows,
    picked: B::Rows,
    logits: B::Rows,
}

impl<B: Ops> Decoder<B> {
    /// Takes a decoder's weights out of `weights`.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape, or too little memory.
    pub fn load(
        ops: B,
        config: &DecoderConfig,
        weights: &mut Weights,
        settings: DecoderSettings,
    ) -> Result<Self, ModelError> {
        Self::load_share(ops, config, weights, settings, Share::default())
    }

    /// Takes a rank's part of a decoder's weights; `ops` sums over the ranks, which all do the same steps.
    ///
    /// # Errors
    /// As [`Decoder::load`]; a part that this model cannot be cut into.
    pub fn load_share(
        ops: B,
        config: &DecoderConfig,
        weights: &mut Weights,
        settings: DecoderSettings,
        share: Share,
    ) -> Result<Self, ModelError> {
        share.check(config)?;
        let (hidden, vocabulary, rows) = (config.hidden, config.vocabulary, settings.rows_max);
        let (heads, ffn) = (share.heads(config), share.of(config.ffn).len());
        let shape =
            CacheShape { layers: config.layers, pages: settings.pages, kv_heads: heads.kv, head_dim: heads.dim };
        let embedding = ops.matrix(&[weights.take(names::EMBEDDING, [vocabulary, hidden])?])?;
        let layers =
            (0..config.layers).map(|i| Layer::load(&ops, config, weights, i, share)).collect::<Result<_, _>>()?;
        let norm = ops.vector(&weights.take_vector(names::NORM, hidden)?.to_f32())?;
        let head = match config.tied {
            true => None,
            false => Some(ops.matrix(&[weights.take(names::HEAD, [vocabulary, hidden])?])?),
        };
        let buffers = Buffers {
            stream: ops.rows(rows, hidden)?,
            normed: ops.rows(rows, hidden)?,
            qkv: ops.rows(rows, heads.fused())?,
            attended: ops.rows(rows, heads.width())?,
            delta: ops.rows(rows, hidden)?,
            gate_up: ops.rows(rows, 2 * ffn)?,
            activated: ops.rows(rows, ffn)?,
            picked: ops.rows(HEAD_ROWS, hidden)?,
            logits: ops.rows(HEAD_ROWS, vocabulary)?,
        };
        let context = config.context.min(settings.context_max).min(settings.pages.saturating_mul(PAGE_TOKENS));
        Ok(Self {
            limits: ModelLimits { vocabulary, context, pages: settings.pages, rows_max: rows },
            cache: ops.cache(shape)?,
            rope: rope::of(config),
            config: config.clone(),
            ops,
            heads,
            embedding,
            layers,
            norm,
            head,
            buffers,
        })
    }

    /// What computes it.
    pub fn ops(&self) -> &B {
        &self.ops
    }

    /// Its shape.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// Computes one step and gives the final norm's rows `[wanted, hidden]` of the wanted rows: what embedders pool.
    ///
    /// # Errors
    /// As [`Forward::forward`].
    pub fn states(&mut self, batch: &Batch, states: &mut Vec<f32>) -> Result<(), ModelError> {
        self.step(batch, Kind::States)?;
        states.clear();
        let mut some = Vec::new();
        for wanted in batch.wanted.chunks(HEAD_ROWS) {
            self.ops.pick(&self.buffers.normed, wanted, &mut self.buffers.picked)?;
            self.ops.read(&self.buffers.picked, &mut some)?;
            states.append(&mut some);
        }
        Ok(())
    }

    /// Fills the buffer of normed rows with the final norm of all rows, and that of logits where the kind says so.
    fn step(&mut self, batch: &Batch, kind: Kind) -> Result<(), ModelError> {
        batch.check(self.limits.vocabulary, self.limits.pages, self.limits.context)?;
        let Self { ops, config, heads, rope, embedding, layers, norm, head, cache, buffers: b, limits } = self;
        let (eps, heads) = (config.rms_eps as f32, *heads);
        ops.step(batch, heads, limits.pages, kind as u32, &mut || {
            ops.embed(embedding, &batch.ids, &mut b.stream)?;
            for (i, layer) in layers.iter().enumerate() {
                match i {
                    0 => ops.norm(&b.stream, &layer.attention_norm, eps, &mut b.normed)?,
                    _ => ops.add_norm(&mut b.stream, &b.delta, &layer.attention_norm, eps, &mut b.normed)?,
                }
                ops.linear(&b.normed, &layer.qkv, layer.qkv_bias.as_ref(), &mut b.qkv)?;
                let norms = layer.head_norms.as_ref().map(|(query, key)| (query, key, eps));
                ops.rotate_and_keep(&mut b.qkv, heads, norms, rope, batch, i, cache)?;
                ops.attend(&b.qkv, heads, batch, i, cache, &mut b.attended)?;
                ops.linear(&b.attended, &layer.output, layer.output_bias.as_ref(), &mut b.delta)?;
                ops.all_reduce(&mut b.delta)?;
                ops.add_norm(&mut b.stream, &b.delta, &layer.mlp_norm, eps, &mut b.normed)?;
                ops.linear(&b.normed, &layer.gate_up, layer.gate_up_bias.as_ref(), &mut b.gate_up)?;
                ops.swiglu(&b.gate_up, &mut b.activated)?;
                ops.linear(&b.activated, &layer.down, layer.down_bias.as_ref(), &mut b.delta)?;
                ops.all_reduce(&mut b.delta)?;
            }
            ops.add_norm(&mut b.stream, &b.delta, norm, eps, &mut b.normed)?;
            match kind {
                Kind::States => Ok(()),
                Kind::Logits => ops.linear(&b.normed, head.as_ref().unwrap_or(embedding), None, &mut b.logits),
            }
        })?;
        // A step that was played back has filled the buffers without a word.
        self.ops.set_rows(&mut self.buffers.normed, batch.rows())?;
        if kind == Kind::Logits {
            self.ops.set_rows(&mut self.buffers.logits, batch.rows())?;
        }
        Ok(())
    }

    /// Computes one step, and shows the logits of the wanted rows, some at a time, from the first on.
    fn in_parts(
        &mut self,
        batch: &Batch,
        mut show: impl FnMut(&B, &B::Rows, std::ops::Range<usize>) -> Result<(), OpsError>,
    ) -> Result<(), ModelError> {
        let wanted = batch.wanted.len();
        let is_each = wanted == batch.rows() && batch.wanted.iter().enumerate().all(|(at, row)| at == *row as usize);
        if is_each && wanted <= HEAD_ROWS {
            self.step(batch, Kind::Logits)?;
            return Ok(show(&self.ops, &self.buffers.logits, 0..wanted)?);
        }
        self.step(batch, Kind::States)?;
        let Self { ops, buffers: b, head, embedding, .. } = self;
        for (part, rows) in batch.wanted.chunks(HEAD_ROWS).enumerate() {
            ops.pick(&b.normed, rows, &mut b.picked)?;
            ops.linear(&b.picked, head.as_ref().unwrap_or(embedding), None, &mut b.logits)?;
            show(ops, &b.logits, part * HEAD_ROWS..part * HEAD_ROWS + rows.len())?;
        }
        Ok(())
    }
}

/// What a step leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The final norm of all rows.
    States,
    /// The logits of all rows, too.
    Logits,
}

impl<B: Ops> Forward for Decoder<B> {
    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        logits.clear();
        let (all, mut some) = (batch.wanted.len(), Vec::new());
        self.in_parts(batch, |ops, rows, part| {
            // One part, which is the common case, needs no second copy.
            if part.len() == all {
                return ops.read(rows, logits);
            }
            ops.read(rows, &mut some)?;
            logits.append(&mut some);
            Ok(())
        })
    }

    fn forward_and_draw(
        &mut self,
        batch: &Batch,
        rules: &[Option<DrawRules>],
        next: &mut Vec<Next>,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        expect_equal("forward_and_draw", "rules", batch.wanted.len(), rules.len())?;
        next.clear();
        logits.clear();
        let (mut of_part, mut drawn, mut on_host) = (Vec::new(), Vec::new(), 0);
        self.in_parts(batch, |ops, rows, part| {
            let rules = &rules[part];
            of_part.clear();
            of_part.extend(rules.iter().map(|rules| rules.unwrap_or_default()));
            drawn.clear();
            if rules.iter().all(Option::is_none) || !ops.draw(rows, &of_part, &mut drawn)? {
                drawn.clear();
                drawn.resize(rules.len(), None);
            }
            for (row, (drawn, rules)) in drawn.iter().zip(rules).enumerate() {
                match drawn.filter(|_| rules.is_some()) {
                    Some(drawn) => next.push(Next::Drawn(drawn)),
                    None => {
                        ops.read_row(rows, row, logits)?;
                        next.push(Next::Logits(on_host));
                        on_host += 1;
                    }
                }
            }
            Ok(())
        })
    }

    fn save_pages(&mut self, pages: &[u32]) -> Result<HostBytes, ModelError> {
        Ok(self.ops.save_pages(&self.cache, pages)?)
    }

    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError> {
        Ok(self.ops.load_pages(&mut self.cache, pages, bytes)?)
    }
}
