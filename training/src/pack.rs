//! Rows packed one behind the other for one pass through the network, each attending to itself only, and the weights that
//! make a slot's loss: by token, or by sample.
//! It refuses to know the network.

/// Sequences of one pass. Padding at the end is a sequence of its own, never in the loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pack {
    /// Token ids of all rows.
    pub ids: Vec<u32>,
    /// Positions within their sequences, from 0.
    pub positions: Vec<u32>,
    /// First row of each sequence, and at the end the number of rows.
    pub starts: Vec<u32>,
    /// Rows whose next token is in the loss, ascending.
    pub rows: Vec<u32>,
    /// The token that each of [`Pack::rows`] is to give.
    pub targets: Vec<u32>,
    /// The weight of each of them in the slot's loss. Over all packs of a slot the loss is the sum of `weight * nll`.
    pub weights: Vec<f32>,
    /// Which sample of the slot each sequence is, by its place in the slot; padding has none.
    pub samples: Vec<u32>,
}

/// How the loss of a slot is normalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalisation {
    /// Every supervised token of the slot weighs the same (Miles' `--calculate-per-token-loss`).
    #[default]
    Token,
    /// The mean of each sample's mean.
    Sample,
}
