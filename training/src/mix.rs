//! A mixture of two sources: every core row so many times, and gate rows until both have the same number of tokens in the loss,
//! in CPython's shuffled order. What is drawn is decided by a pure function over the rows' counts.
//! It refuses to know what the rows say.

mod manifest;
mod shares;
mod spool;
#[cfg(test)]
mod tests;
mod write;

pub use manifest::{FORMAT, Input, MixManifest, Output, PartManifest, Recipe};
pub use shares::{GradientShare, gradient_shares};
pub use write::{MANIFEST_FILE, MixInputs, ROWS_FILE, write};

use crate::error::TrainingError;
use crate::shuffle::shuffled;

/// Rows of a mixture at most.
pub const MIX_ROWS_MAX: usize = 1 << 27;
/// Passes over the gate rows at most: rows that must be drawn more often are too few or too short for the core.
pub const PASSES_MAX: u64 = 10_000;

/// What a row counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCount {
    /// Tokens in the loss.
    pub supervised: u64,
    /// All tokens.
    pub tokens: u64,
}

/// Where a row of the mixture comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Repeated as a whole.
    Core,
    /// Drawn until the tokens balance.
    Gate,
}

/// A row of the mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drawn {
    /// Of which part.
    pub part: Part,
    /// Its place in that part, from 0.
    pub row: u32,
}

/// What is mixed, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The rows.
    pub order: Vec<Drawn>,
    /// Tokens in the loss of all core rows: what the gate rows may reach.
    pub target: u64,
    /// How many of them the gate rows do not reach.
    pub gap: u64,
    /// Passes over the gate rows, the last and unfinished one included.
    pub passes: u64,
}

/// Draws a mixture: all core rows `repeat` times, then gate rows in passes, each in the order of `shuffled(seed + pass)`, every
/// row that still fits under the core's tokens; the first pass in which one does not fit is the last, and is gone through to its
/// end. All of them are shuffled by `seed`.
///
/// # Errors
/// No core rows, no repeats, rows without tokens in the loss, more than [`MIX_ROWS_MAX`] rows, or [`PASSES_MAX`] passes that do not
/// balance.
pub fn plan(core: &[RowCount], gate: &[RowCount], repeat: u32, seed: u64) -> Result<Plan, TrainingError> {
    let copies = repeat as usize;
    let core_rows = core.len().checked_mul(copies).filter(|rows| (1..=MIX_ROWS_MAX).contains(rows));
    let core_rows =
        core_rows.ok_or_else(|| wrong("repeat", "1 to 2^27 core rows in all", format!("{} x {repeat}", core.len())))?;
    if core.iter().chain(gate).any(|row| row.supervised == 0) {
        return Err(wrong("rows", "tokens in the loss in every row", "a row without any".to_owned()));
    }
    let target = core.iter().map(|row| row.supervised).sum::<u64>() * u64::from(repeat);
    let drawn = Draw::of(gate, target, seed, MIX_ROWS_MAX - core_rows)?;
    let all: Vec<Drawn> = (0..copies)
        .flat_map(|_| (0..core.len() as u32).map(|row| Drawn { part: Part::Core, row }))
        .chain(drawn.rows.into_iter().map(|row| Drawn { part: Part::Gate, row }))
        .collect();
    let order = shuffled(seed, all.len()).into_iter().map(|place| all[place as usize]).collect();
    Ok(Plan { order, target, gap: target - drawn.supervised, passes: drawn.passes })
}

#[derive(Default)]
struct Draw {
    rows: Vec<u32>,
    supervised: u64,
    passes: u64,
}

impl Draw {
    fn of(gate: &[RowCount], target: u64, seed: u64, rows_max: usize) -> Result<Self, TrainingError> {
        let mut drawn = Self::default();
        let mut all_fitted = !gate.is_empty();
        while all_fitted {
            if drawn.passes == PASSES_MAX {
                let got = format!("{} rows, which do not in {PASSES_MAX} passes", gate.len());
                return Err(wrong("gate", "rows that balance the core", got));
            }
            let order = shuffled(seed.wrapping_add(drawn.passes), gate.len());
            drawn.passes += 1;
            for row in order {
                let with = drawn.supervised + gate[row as usize].supervised;
                if with > target {
                    all_fitted = false;
                    continue;
                }
                if drawn.rows.len() == rows_max {
                    let expected = format!("at most {MIX_ROWS_MAX} rows in all");
                    return Err(wrong(
                        "gate",
                        &expected,
                        "more: its rows are too short to balance the core".to_owned(),
                    ));
                }
                drawn.supervised = with;
                drawn.rows.push(row);
            }
        }
        Ok(drawn)
    }
}

fn wrong(setting: &'static str, expected: &str, got: String) -> TrainingError {
    TrainingError::Setting { setting, expected: expected.to_owned(), got }
}
