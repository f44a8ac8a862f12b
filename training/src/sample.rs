//! One row as the trainer sees it: token ids, which of them are in the loss, and where the row came from.
//! It refuses to know how text became ids.

use crate::error::Place;

/// A row as ids. Position `i` is in the loss when `supervised[i]`: the model is to give `ids[i]` after `ids[..i]`. The first
/// position is never in the loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The token ids.
    pub ids: Vec<u32>,
    /// Which of them are in the loss; as many.
    pub supervised: Vec<bool>,
    /// The row's place in its file.
    pub place: Place,
    /// What kind of row it is, such as `core` or `gate`; empty if the row does not say.
    pub source: String,
}

impl Sample {
    /// Ids in the loss.
    pub fn supervised(&self) -> usize {
        self.supervised.iter().filter(|supervised| **supervised).count()
    }
}
