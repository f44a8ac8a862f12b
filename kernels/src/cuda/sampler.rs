//! Draws from rows of logits on the card, so that only ids come to the host: temperature, exact top-p, min-p, and a random
//! number by counting. Equal to the engine's sampler on the processor for the same logits; top-k, penalties and biases are not
//! done here.
//!
//! It refuses to know requests.

use super::backend::Card;
use super::driver::{Arg, Driver, Shape};
use super::memory::{CardRows, Growing};
use super::source::Unit;
use crate::draw::{DrawRules, RowDraw};
use crate::ops::{OpsError, expect_equal};

/// What the most probable token weighs.
const ONE: u64 = 1 << 44;
/// Tokens of a vocabulary at most: as many as the most chunks hold.
const VOCABULARY_MAX: usize = CHUNKS_MAX * CHUNK_TOKENS_MAX;
/// Tokens of a chunk at most: 128 groups of 256, whose sums have their place in shared memory.
const CHUNK_TOKENS_MAX: usize = 32_768;
/// Chunks of a row at most; the kernel has a warp for each and so could do with twice as many.
const CHUNKS_MAX: usize = 16;
/// Chunks of a row where they hold it: more would count one row faster, and take longer to be added.
const CHUNKS: usize = 8;
/// Tokens of a group; chunks are whole groups.
const GROUP: usize = 256;
/// What the kernel writes where a row cannot be drawn from.
const NOBODY: u32 = u32::MAX;
/// Bytes of what the kernels write: the counts of a chunk, and what is told of a row.
const COUNTED_BYTES: usize = 13_312;
const DRAWN_BYTES: usize = 24;
/// Threads of their blocks.
const COUNTERS: u32 = 512;
const THREADS: u32 = 1_024;
/// Shared memory of the kernel that draws.
const SHARED_BYTES: u32 = 87 << 10;

/// What the sampler keeps between steps.
pub(super) struct Room<D: Driver> {
    count: D::Kernel,
    sample: D::Kernel,
    rules: Growing<D>,
    /// Rules that were put there, and rows of which a draw was started.
    rows: usize,
    counted: Growing<D>,
    drawn: Growing<D>,
}

impl<D: Driver> Card<D> {
    /// Draws an id from each row of logits; none for a row in which a logit is no number or +infinity, or all are -infinity.
    ///
    /// # Errors
    /// Rules that are not one a row, a vocabulary that is too large, or a device that failed.
    pub fn sample(
        &self,
        logits: &CardRows<D>,
        rules: &[DrawRules],
        drawn: &mut Vec<Option<RowDraw>>,
    ) -> Result<(), OpsError> {
        self.put_rules(rules)?;
        self.start_sampling(logits)?;
        self.drawn(drawn)
    }

    /// Puts the rules of the next draws on the card, one for each row.
    ///
    /// # Errors
    /// A device that failed, or kernels that do not compile.
    pub fn put_rules(&self, rules: &[DrawRules]) -> Result<(), OpsError> {
        let mut room = self.sampler.borrow_mut();
        let room = match &mut *room {
            Some(room) => room,
            none => none.insert(Room::new(&self.driver)?),
        };
        let words: Vec<u32> = rules.iter().flat_map(words).collect();
        room.rules.put(&self.driver, "rules of drawing", &words)?;
        room.rows = rules.len();
        Ok(())
    }

    /// Starts to draw by the rules that were put last, and waits for nothing. What is started depends only on the number of rows
    /// and on the vocabulary, so it may be recorded and repeated under other rules.
    ///
    /// # Errors
    /// Rules that are not one a row, a vocabulary that is too large, or a device that failed.
    pub fn start_sampling(&self, logits: &CardRows<D>) -> Result<(), OpsError> {
        let mut room = self.sampler.borrow_mut();
        let rows = room.as_ref().map_or(0, |room| room.rows);
        expect_equal("sample", "rules", logits.rows, rows)?;
        if logits.width == 0 || logits.width > VOCABULARY_MAX {
            let expected = format!("a vocabulary of 1 to {VOCABULARY_MAX} tokens");
            return Err(OpsError::Shape { op: "sample", expected, got: logits.width.to_string() });
        }
        let Some(room) = room.as_mut().filter(|_| rows > 0) else { return Ok(()) };
        let chunk = chunk_tokens(logits.width);
        let chunks = logits.width.div_ceil(chunk);
        let counted = room.counted.at_least(&self.driver, "counts of logits", rows * chunks * COUNTED_BYTES)?;
        let drawn = room.drawn.at_least(&self.driver, "drawn ids", rows * DRAWN_BYTES)?;
        let args = [
            Arg::Address(logits.address),
            Arg::Word(logits.stride as u32),
            Arg::Word(logits.width as u32),
            Arg::Word(chunk as u32),
            Arg::Address(counted),
            Arg::Address(room.rules.now()),
            Arg::Address(drawn),
        ];
        let counting = Shape { grid: [rows as u32, chunks as u32], threads: COUNTERS, shared_bytes: 0 };
        let sampling = Shape { grid: [rows as u32, 1], threads: THREADS, shared_bytes: SHARED_BYTES };
        // SAFETY: as `count_logits` and `sample` declare them: so many rows of logits, room for the counts of each of their
        // chunks, rules for each row, and room for what is told of each.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.count, counting, &args[..5])?;
            self.driver.launch(&room.sample, sampling, &args)
        }
    }

    /// Waits for what was started last, and tells what was drawn from each row.
    ///
    /// # Errors
    /// A device that failed.
    pub fn drawn(&self, drawn: &mut Vec<Option<RowDraw>>) -> Result<(), OpsError> {
        drawn.clear();
        let room = self.sampler.borrow();
        let Some(room) = room.as_ref().filter(|room| room.rows > 0) else { return Ok(()) };
        let mut bytes = vec![0; room.rows * DRAWN_BYTES];
        room.drawn.download(&self.driver, &mut bytes)?;
        drawn.extend(bytes.as_chunks::<DRAWN_BYTES>().0.iter().map(told));
        Ok(())
    }
}

impl<D: Driver> Room<D> {
    fn new(driver: &D) -> Result<Self, OpsError> {
        let unit = Unit::sample();
        Ok(Self {
            count: driver.kernel(&unit, "count_logits", 0)?,
            sample: driver.kernel(&unit, "sample", SHARED_BYTES)?,
            rules: Growing::new(),
            rows: 0,
            counted: Growing::new(),
            drawn: Growing::new(),
        })
    }
}

/// Tokens of a chunk, whole groups.
fn chunk_tokens(vocabulary: usize) -> usize {
    let chunks = if vocabulary <= CHUNKS * CHUNK_TOKENS_MAX { CHUNKS } else { CHUNKS_MAX };
    vocabulary.div_ceil(chunks).next_multiple_of(GROUP)
}

/// What the kernel wrote of a row.
fn told(bytes: &[u8; DRAWN_BYTES]) -> Option<RowDraw> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let id = word(0);
    (id != NOBODY).then_some(RowDraw {
        id,
        logit: f32::from_bits(word(4)),
        top: f32::from_bits(word(8)),
        mass: u64::from(word(16)) | u64::from(word(20)) << 32,
    })
}

/// The words of the kernel's `Draw`.
fn words(rules: &DrawRules) -> [u32; 12] {
    // Kept finite, because 0 times infinity is no number.
    let halvings = (std::f64::consts::LOG2_E / rules.temperature).min(1e300);
    let least = (rules.min_p * ONE as f64).ceil() as u64;
    let greedy = u64::from(rules.temperature == 0.0);
    let longs = [halvings.to_bits(), rules.top_p.to_bits(), least, rules.seed, rules.position, greedy];
    let mut words = [0; 12];
    for (words, long) in words.as_chunks_mut::<2>().0.iter_mut().zip(longs) {
        *words = [long as u32, (long >> 32) as u32];
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_the_vocabulary_and_fit_what_the_kernels_have_room_for() {
        for vocabulary in [1, 255, 256, 257, 4_097, 151_936, 262_144, 262_145, VOCABULARY_MAX - 1, VOCABULARY_MAX] {
            let chunk = chunk_tokens(vocabulary);
            let chunks = vocabulary.div_ceil(chunk);
            assert!(chunk.is_multiple_of(GROUP) && chunk <= CHUNK_TOKENS_MAX, "{vocabulary}: {chunk}");
            assert!((1..=CHUNKS_MAX).contains(&chunks), "{vocabulary}: {chunks}");
        }
        assert_eq!(chunk_tokens(151_936), 19_200);
    }
}
