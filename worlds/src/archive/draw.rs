//! Seeded draws. Each part of the archive draws from a stream of its own, named by a label, so that a change
//! in one part leaves the others as they were. The arithmetic is here, not in `rand`, so that an upgrade
//! of that crate cannot move the golden digest.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of draws.
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// The stream that `label` names under `seed`.
    pub(super) fn stream(seed: u64, label: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("legwork archive stream 1");
        hasher.update(&seed.to_le_bytes());
        hasher.update(label.as_bytes());
        Draw(ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()))
    }

    /// A number below `bound`, or 0 when `bound` is 0. The bias of the multiplication is below 2^-40 for the
    /// bounds used here.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A number in `low..=high`.
    pub(super) fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1).max(1) as usize) as i32
    }

    /// True in `percent` of a hundred draws.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`.
    ///
    /// # Panics
    /// When `items` is empty, which the callers' tables are not.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One of `items`, the early ones more often: towns and teachers are not all equally famous.
    pub(super) fn pick_skewed<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let at = self.below(items.len()).min(self.below(items.len()));
        &items[at]
    }

    /// Puts `items` into a drawn order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_differ_by_label_and_seed() {
        let first = |seed, label| (0..4).map(|_| 0).scan(Draw::stream(seed, label), |d, _: i32| Some(d.below(1 << 30)));
        let run = |seed, label| first(seed, label).collect::<Vec<_>>();
        assert_eq!(run(7, "people"), run(7, "people"));
        assert_ne!(run(7, "people"), run(7, "towns"));
        assert_ne!(run(7, "people"), run(8, "people"));
    }

    #[test]
    fn draws_stay_inside_their_bounds() {
        let mut draw = Draw::stream(1, "bounds");
        assert_eq!(draw.below(0), 0);
        assert!((0..1000).all(|_| draw.below(3) < 3));
        assert!((0..1000).all(|_| (-2..=2).contains(&draw.between(-2, 2))));
        let mut items: Vec<u32> = (0..50).collect();
        draw.shuffle(&mut items);
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
