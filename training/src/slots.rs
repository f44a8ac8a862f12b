//! Which rows a slot takes: one slot is one update, and slots are numbered as Miles numbers its rollouts.
//! It refuses to know what a row is, and how an epoch is shuffled: that order comes in.

use crate::error::TrainingError;
use serde::{Deserialize, Serialize};

/// Rows at most: row numbers are `u32`.
pub const ROWS_MAX: u64 = u32::MAX as u64;
/// Epochs at most.
pub const EPOCHS_MAX: u64 = 1 << 20;

/// The slots of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// Rows there are.
    pub rows: u64,
    /// Rows of a slot.
    pub batch: u64,
    /// How often each row is taken, about: the rows that are left over from whole slots are not taken.
    pub epochs: u64,
    /// The first slot. Miles begins with 1 where it loads a released checkpoint, and so makes one update less; no row is
    /// skipped for it, since the first slot takes the first rows whatever its number.
    pub first_slot: u64,
    /// Epoch `e` is shuffled by `seed + e`.
    pub seed: u64,
}

impl Slots {
    /// Finds what slots cannot be.
    ///
    /// # Errors
    /// [`TrainingError::Setting`].
    pub fn check(&self) -> Result<(), TrainingError> {
        let wrong = |setting, expected: String, got: u64| {
            Err(TrainingError::Setting { setting, expected, got: got.to_string() })
        };
        if !(1..=ROWS_MAX).contains(&self.rows) {
            return wrong("rows", format!("a number from 1 to {ROWS_MAX}"), self.rows);
        }
        if !(1..=self.rows).contains(&self.batch) {
            return wrong("batch", format!("a number from 1 to the {} rows that there are", self.rows), self.batch);
        }
        if !(1..=EPOCHS_MAX).contains(&self.epochs) {
            return wrong("epochs", format!("a number from 1 to {EPOCHS_MAX}"), self.epochs);
        }
        if self.first_slot >= self.count() {
            return wrong("first slot", format!("a number below the {} slots", self.count()), self.first_slot);
        }
        Ok(())
    }

    /// Slots, those before the first included: whole batches of an epoch, times epochs.
    pub fn count(&self) -> u64 {
        self.rows.checked_div(self.batch).unwrap_or(0) * self.epochs
    }

    /// The numbers of the slots that are taken.
    pub fn ids(&self) -> std::ops::Range<u64> {
        self.first_slot..self.count().max(self.first_slot)
    }

    /// Updates that are made.
    pub fn updates(&self) -> u64 {
        self.count().saturating_sub(self.first_slot)
    }

    /// Samples that are consumed before a slot.
    pub fn samples_before(&self, slot: u64) -> u64 {
        slot.saturating_sub(self.first_slot) * self.batch
    }

    /// Samples of the run as a schedule counts them, those of slots before the first included.
    pub fn total_samples(&self) -> u64 {
        self.count() * self.batch
    }

    /// Rows of the last epoch's order that no slot takes.
    pub fn rows_never_taken(&self) -> u64 {
        (self.rows * self.epochs).saturating_sub(self.updates() * self.batch)
    }

    /// The rows of a slot in its order: the next of the epochs' orders one behind the other. `order` gives that of an epoch
    /// from its seed and the number of rows.
    pub fn take(&self, slot: u64, mut order: impl FnMut(u64, usize) -> Vec<u32>) -> Vec<u32> {
        let (mut next, end) = (self.samples_before(slot), self.samples_before(slot) + self.batch);
        let mut taken = Vec::with_capacity(self.batch as usize);
        while next < end && self.rows > 0 {
            let (epoch, from) = (next / self.rows, next % self.rows);
            let to = self.rows.min(from + end - next);
            let shuffled = order(self.seed.wrapping_add(epoch), self.rows as usize);
            taken.extend(shuffled.iter().take(to as usize).skip(from as usize));
            next += to - from;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shuffle::shuffled;
    use proptest::prelude::*;

    fn card() -> Slots {
        Slots { rows: 43_760, batch: 32, epochs: 1, first_slot: 1, seed: 42 }
    }

    /// An order that tells epochs apart and is not that of the rows.
    fn reversed(seed: u64, rows: usize) -> Vec<u32> {
        (0..rows as u32).map(|row| (rows as u32 - 1 - row + seed as u32) % rows as u32).collect()
    }

    #[test]
    fn the_slots_of_the_card_come_out() {
        let slots = card();
        assert!(slots.check().is_ok());
        assert_eq!((slots.count(), slots.ids(), slots.updates()), (1_367, 1..1_367, 1_366));
        assert_eq!((slots.updates() * slots.batch, slots.rows_never_taken()), (43_712, 48));
        assert_eq!((slots.total_samples(), slots.samples_before(1_366)), (43_744, 43_680));
        // Its siblings: 541 core rows, and 1,164 mixed ones.
        assert_eq!(Slots { rows: 541, epochs: 3, ..slots }.updates(), 47);
        assert_eq!(Slots { rows: 1_164, epochs: 3, ..slots }.updates(), 107);
    }

    #[test]
    fn slot_1_takes_the_first_rows_of_the_order_and_the_last_48_are_never_taken() {
        let order = reversed(42, 43_760);
        assert_eq!(card().take(1, reversed), order[..32]);
        let last = card().take(1_366, reversed);
        assert_eq!(last, order[43_680..43_712]);
        assert_eq!(order.len() - 43_712, 48);
    }

    /// `random.seed(42); rows = list(range(43_760)); random.shuffle(rows); rows[:6], rows[43_712:43_715]` of CPython 3, and
    /// `random.seed(43)` with 541 rows.
    #[test]
    fn slots_of_the_card_take_the_rows_that_cpython_shuffles_there() {
        assert_eq!(card().take(1, shuffled)[..6], [26_480, 25_334, 26_835, 41_738, 37_794, 3_479]);
        assert_eq!(card().take(1_367, shuffled)[..3], [35_142, 30_108, 2_847]);
        let core = Slots { rows: 541, epochs: 3, first_slot: 0, ..card() };
        // Sixteen slots take 512 rows; the seventeenth the last 29, and 3 of the second epoch.
        assert_eq!(core.take(16, shuffled)[29..], [148, 90, 474]);
    }

    #[test]
    fn a_slot_over_the_end_of_an_epoch_takes_the_rest_from_the_next_order() {
        let slots = Slots { rows: 5, batch: 3, epochs: 3, first_slot: 0, seed: 7 };
        let (first, second) = (reversed(7, 5), reversed(8, 5));
        assert_eq!(slots.take(1, reversed), [first[3], first[4], second[0]]);
        assert_eq!(slots.take(2, reversed), second[1..4]);
        assert_eq!(slots.ids(), 0..3);
    }

    #[test]
    fn slots_that_cannot_be_are_refused_by_name() {
        let refused = |slots: Slots| slots.check().unwrap_err().to_string();
        assert!(refused(Slots { batch: 0, ..card() }).starts_with("batch"));
        assert!(refused(Slots { batch: 43_761, ..card() }).contains("43760"));
        assert!(refused(Slots { rows: 0, ..card() }).starts_with("rows"));
        assert!(refused(Slots { first_slot: 1_367, ..card() }).contains("1367 slots"));
        assert!(refused(Slots { epochs: 0, ..card() }).starts_with("epochs"));
    }

    proptest! {
        #[test]
        fn slots_one_behind_the_other_are_the_epochs_one_behind_the_other(
            rows in 1_u64..40, batch in 1_u64..40, epochs in 1_u64..5, first_slot in 0_u64..2, seed in any::<u64>(),
        ) {
            let slots = Slots { rows, batch: batch.min(rows), epochs, first_slot, seed: seed >> 40 };
            prop_assume!(slots.check().is_ok());
            let stream: Vec<u32> = (0..epochs).flat_map(|epoch| reversed(slots.seed + epoch, rows as usize)).collect();
            let taken: Vec<u32> = slots.ids().flat_map(|slot| slots.take(slot, reversed)).collect();
            prop_assert_eq!(&taken[..], &stream[..taken.len()]);
            prop_assert_eq!(taken.len() as u64, slots.updates() * slots.batch);
            prop_assert_eq!((stream.len() - taken.len()) as u64, slots.rows_never_taken());
        }
    }
}
