//! How much of the gradient each source makes. Equal tokens are not equal weight: a slot is normalised by its own tokens, so that
//! a short row in a slot without long ones weighs much. Pure.
//! It refuses to know losses: it weighs tokens as a slot's loss does.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a source makes of the gradient, over all whole slots of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GradientShare {
    /// Its mean share of a slot's weight when every token of the slot weighs the same.
    pub by_token: f64,
    /// The same when every sample of the slot weighs the same.
    pub by_sample: f64,
    /// The share of slots in which it has no row at all.
    pub slots_without: f64,
}

/// The shares of each source over the whole slots of `batch` rows; rows behind the last whole slot are never trained on. Rows
/// are given in their order as source and tokens in the loss; a row counts one token at least, as in a slot's loss.
pub fn gradient_shares<'a>(
    rows: impl IntoIterator<Item = (&'a str, u64)>,
    batch: usize,
) -> BTreeMap<String, GradientShare> {
    let rows: Vec<(&str, u64)> = rows.into_iter().collect();
    let mut shares: BTreeMap<String, GradientShare> =
        rows.iter().map(|(source, _)| ((*source).to_owned(), GradientShare::default())).collect();
    let slots = rows.chunks_exact(batch.max(1));
    let count = slots.len().max(1) as f64;
    for slot in slots {
        let mut own: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (source, supervised) in slot {
            let (tokens, samples) = own.entry(source).or_default();
            *tokens += (*supervised).max(1);
            *samples += 1;
        }
        let total: u64 = own.values().map(|(tokens, _)| tokens).sum();
        for (source, share) in &mut shares {
            match own.get(source.as_str()) {
                Some((tokens, samples)) => {
                    share.by_token += *tokens as f64 / total as f64 / count;
                    share.by_sample += *samples as f64 / slot.len() as f64 / count;
                }
                None => share.slots_without += 1.0 / count,
            }
        }
    }
    shares
}
