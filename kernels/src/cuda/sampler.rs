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
/// Tokens of a vocabulary at most: groups of 256, whose sums have their place in shared memory.
const VOCABULARY_MAX: usize = 2_048 * 256;
/// What the kernel writes where a row cannot be drawn from.
const NOBODY: u32 = u32::MAX;
/// Bytes of what the kernel writes for a row.
const DRAWN_BYTES: usize = 24;
/// Threads of its block.
const THREADS: u32 = 1_024;

/// What the sampler keeps between steps.
pub(super) struct Room<D: Driver> {
    kernel: D::Kernel,
    rules: Growing<D>,
    ids: Growing<D>,
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
        drawn.clear();
        expect_equal("sample", "rules", logits.rows, rules.len())?;
        if logits.width == 0 || logits.width > VOCABULARY_MAX {
            let expected = format!("a vocabulary of 1 to {VOCABULARY_MAX} tokens");
            return Err(OpsError::Shape { op: "sample", expected, got: logits.width.to_string() });
        }
        if rules.is_empty() {
            return Ok(());
        }
        let mut room = self.sampler.borrow_mut();
        let room = match &mut *room {
            Some(room) => room,
            none => none.insert(Room {
                kernel: self.driver.kernel(&Unit::sample(), "sample", 0)?,
                rules: Growing::new(),
                ids: Growing::new(),
            }),
        };
        let words: Vec<u32> = rules.iter().flat_map(words).collect();
        let at = room.rules.put(&self.driver, "rules of drawing", &words)?;
        let ids = room.ids.at_least(&self.driver, "drawn ids", rules.len() * DRAWN_BYTES)?;
        let args = [
            Arg::Address(logits.address),
            Arg::Word(logits.stride as u32),
            Arg::Word(logits.width as u32),
            Arg::Address(at),
            Arg::Address(ids),
        ];
        let shape = Shape { grid: [rules.len() as u32, 1], threads: THREADS, shared_bytes: 0 };
        // SAFETY: as `sample` declares them: so many rows of logits, rules for each, and room for an id of each.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernel, shape, &args)?;
        }
        let mut bytes = vec![0; rules.len() * DRAWN_BYTES];
        room.ids.download(&self.driver, &mut bytes)?;
        drawn.extend(bytes.as_chunks::<DRAWN_BYTES>().0.iter().map(|bytes| {
            let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let id = word(0);
            (id != NOBODY).then_some(RowDraw {
                id,
                logit: f32::from_bits(word(4)),
                top: f32::from_bits(word(8)),
                mass: u64::from(word(16)) | u64::from(word(20)) << 32,
            })
        }));
        Ok(())
    }
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
