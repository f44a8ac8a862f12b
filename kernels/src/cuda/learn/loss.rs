//! The weighted cross-entropy of rows of logits on a card. Logits are bf16, as in Hugging Face's bf16 models; exponentials, sums
//! and losses are `f32`. Ranks meet twice: for the greatest logit of each row, and for the sums.
//!
//! It refuses to know what the columns stand for.

use super::param::{CardSums, SINGLE_BYTES};
use super::room::{blocks, flat, word};
use crate::cuda::backend::Card;
use crate::cuda::driver::{Arg, Combine, Driver};
use crate::cuda::memory::CardRows;
use crate::ops::{OpsError, expect_equal};

const OP: &str = "cross_entropy";
/// Threads of a block of a row.
const THREADS: usize = 512;

/// What is asked of the rows.
pub(super) struct Loss<'a> {
    /// The id of the first column here.
    pub(super) first: u32,
    /// Columns that count, over all ranks.
    pub(super) columns: usize,
    pub(super) targets: &'a [u32],
    pub(super) weights: &'a [f32],
}

/// Where the sums of rows are.
struct Stats {
    own: u64,
    most: u64,
    sums: u64,
}

impl Loss<'_> {
    pub(super) fn apply<D: Driver>(
        &self,
        card: &Card<D>,
        logits: &mut CardRows<D>,
        losses: &mut CardSums<D>,
        at: usize,
    ) -> Result<(), OpsError> {
        expect_equal(OP, "targets", logits.rows, self.targets.len())?;
        expect_equal(OP, "weights", logits.rows, self.weights.len())?;
        expect_equal(OP, "width of losses", 1, losses.width)?;
        // All ranks are given the same targets, so that none waits for another that refuses them.
        if let Some(target) = self.targets.iter().find(|target| **target as usize >= self.columns) {
            let expected = format!("a target below {} that one rank has", self.columns);
            return Err(OpsError::Shape { op: OP, expected, got: target.to_string() });
        }
        losses.set_rows(at + logits.rows)?;
        let rows = logits.rows;
        if rows == 0 || logits.width == 0 {
            return Ok(());
        }
        let mut room = card.room()?;
        let room = &mut *room;
        let words: Vec<u32> =
            self.targets.iter().copied().chain(self.weights.iter().map(|weight| weight.to_bits())).collect();
        let targets = room.words.put(&card.driver, "targets and weights", &words)?;
        let base = room.stats.at_least(&card.driver, "sums of logits", 5 * rows * SINGLE_BYTES)?;
        let part = |number: usize| base + (number * rows * SINGLE_BYTES) as u64;
        let stats = Stats { own: base, most: part(1), sums: part(2) };
        let into = losses.address + (at * SINGLE_BYTES) as u64;
        let counting = self.columns.saturating_sub(self.first as usize).min(logits.width);
        let given = [Arg::Address(logits.address), word(logits.stride), word(counting), Arg::Address(targets)];
        let found =
            [Arg::Word(self.first), Arg::Address(stats.own), Arg::Address(stats.most), Arg::Address(stats.sums)];
        let by_row = blocks([rows, 1], THREADS);
        // SAFETY: as `loss_stats` declares them; there are a target and five sums of each row, and counting columns are the row's.
        #[allow(unsafe_code)]
        unsafe {
            card.driver.launch(&room.kernels.loss_stats, by_row, &[given, found].concat())?;
        }
        if card.driver.ranks() > 1 {
            let args = [Arg::Address(stats.own), Arg::Address(stats.most), Arg::Address(stats.sums), word(rows)];
            // SAFETY: there are so many maxima and three times as many sums.
            #[allow(unsafe_code)]
            unsafe {
                card.driver.combine_over_ranks(Combine::GreatestSingle, stats.most, rows)?;
                card.driver.launch(&room.kernels.loss_rescale, flat(rows), &args)?;
                card.driver.combine_over_ranks(Combine::SumSingle, stats.sums, 3 * rows)?;
            }
        }
        let weights = targets + (rows * SINGLE_BYTES) as u64;
        let taken = [Arg::Address(weights), Arg::Address(stats.most), Arg::Address(stats.sums), Arg::Address(into)];
        let args = [&given[..], &found[..1], &taken].concat();
        // SAFETY: as `loss_gradient` declares them, with what the kernels before have written.
        #[allow(unsafe_code)]
        unsafe {
            card.driver.launch(&room.kernels.loss_gradient, by_row, &args)
        }
    }
}
