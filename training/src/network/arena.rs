//! The rows that a pass fills, made once: what went into each layer is kept, and where there is room what attention or products
//! gave; the rest is computed again on the way back.
//! It refuses to know what fills them.

use super::NetworkSettings;
use super::head::Columns;
use crate::shard::Shard;
use legwork_kernels::{Learn, OpsError};
use legwork_model::DecoderConfig;

/// All of them.
pub(super) struct Arena<B: Learn> {
    /// The residual stream before each layer, and after the last.
    pub(super) streams: Vec<B::Rows>,
    /// Of each layer; or one of all, in turn.
    pub(super) kept: Vec<Kept<B>>,
    /// Likewise.
    pub(super) products: Vec<Products<B>>,
    pub(super) work: Work<B>,
}

/// What a layer's first products in both halves gave.
pub(super) struct Products<B: Learn> {
    /// Queries, keys and values before their norms and rotation.
    pub(super) before: B::Rows,
    pub(super) gate_up: B::Rows,
}

/// What a layer's first half gave, and the way back begins with.
pub(super) struct Kept<B: Learn> {
    pub(super) attended: B::Rows,
    pub(super) lse: B::Sums,
    /// The stream between a layer's halves.
    pub(super) middle: B::Rows,
}

/// What every layer fills again.
pub(super) struct Work<B: Learn> {
    pub(super) normed: B::Rows,
    pub(super) normed_mlp: B::Rows,
    pub(super) qkv: B::Rows,
    pub(super) activated: B::Rows,
    /// What a half of a layer adds to the stream; on the way back the gradient of what it was given.
    pub(super) branch: B::Rows,
    /// The gradient of the stream.
    pub(super) d_stream: B::Rows,
    pub(super) d_attended: B::Rows,
    pub(super) d_qkv: B::Rows,
    pub(super) d_gate_up: B::Rows,
    pub(super) d_activated: B::Rows,
    /// Rows whose next token is in the loss, some at a time.
    pub(super) picked: B::Rows,
    pub(super) d_picked: B::Rows,
    pub(super) logits: B::Rows,
    /// The losses of a pack's rows, and where they are read to.
    pub(super) losses: B::Sums,
    pub(super) read: Vec<f32>,
}

impl<B: Learn> Arena<B> {
    pub(super) fn new(
        ops: &B,
        config: &DecoderConfig,
        shard: &Shard,
        columns: Columns,
        settings: NetworkSettings,
    ) -> Result<Self, OpsError> {
        let (hidden, heads, ffn) = (config.hidden, shard.heads(), shard.ffn());
        let rows = settings.rows_max;
        let head_rows = rows.min(columns.rows);
        let of = |width: usize| ops.rows(rows, width);
        let of_layers = |are_kept: bool| if are_kept { config.layers.max(1) } else { 1 };
        Ok(Self {
            streams: (0..=config.layers).map(|_| of(hidden)).collect::<Result<_, _>>()?,
            products: (0..of_layers(settings.keep_products))
                .map(|_| Ok(Products { before: of(heads.fused())?, gate_up: of(2 * ffn)? }))
                .collect::<Result<_, OpsError>>()?,
            kept: (0..of_layers(settings.keep_attention))
                .map(|_| {
                    let (attended, middle) = (of(heads.width())?, of(hidden)?);
                    Ok(Kept { attended, lse: ops.sums(rows, heads.query)?, middle })
                })
                .collect::<Result<_, OpsError>>()?,
            work: Work {
                normed: of(hidden)?,
                normed_mlp: of(hidden)?,
                qkv: of(heads.fused())?,
                activated: of(ffn)?,
                branch: of(hidden)?,
                d_stream: of(hidden)?,
                d_attended: of(heads.width())?,
                d_qkv: of(heads.fused())?,
                d_gate_up: of(2 * ffn)?,
                d_activated: of(ffn)?,
                picked: ops.rows(head_rows, hidden)?,
                d_picked: ops.rows(head_rows, hidden)?,
                logits: ops.rows(head_rows, shard.ids().len())?,
                losses: ops.sums(rows, 1)?,
                read: Vec::new(),
            },
        })
    }
}
