//! Seeded dice, and orders of pages. It refuses to know what is thrown for.

use legwork_engine::philox;

/// Dice: the same seed, the same throws.
pub(crate) struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, thrown: 0 }
    }

    /// A number below this.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.thrown += 1;
        (philox::draw(self.seed, self.thrown) % sides as u64) as usize
    }

    pub(crate) fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// Random ids of a vocabulary.
    pub(crate) fn ids(&mut self, count: usize, vocabulary: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(vocabulary) as u32).collect()
    }

    /// All numbers below this, shuffled: pages as an engine comes to hold them, which do not follow one another.
    pub(crate) fn pages(&mut self, count: usize) -> Vec<u32> {
        let mut pages: Vec<u32> = (0..count as u32).collect();
        for at in (1..count).rev() {
            pages.swap(at, self.below(at + 1));
        }
        pages
    }
}
