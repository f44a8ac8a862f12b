//! How the attention of a batch is laid out: single new tokens as splits of their context, longer spans as tiles of rows, and
//! all of them plainly where heads have a shape that the fast kernels do not take. A pure function of the batch and the heads.
//!
//! It refuses to know cards; what it gives are the words that the kernels read.

use super::batch::add_part;
use crate::batch::{Batch, PAGE_TOKENS, Span};
use crate::ops::Heads;

/// Tokens of a split: fixed, so that a row's result does not depend on its batch.
pub const SPLIT_TOKENS: usize = 256;
/// Warps of a tile, each of 16 packed rows.
pub const TILE_WARPS: usize = 8;
/// Rows of a span at most whose tiles come in pieces of their context: longer ones fill a card by themselves.
pub const PIECED_ROWS_MAX: usize = 128;
/// Pages of such a piece at least.
const PIECE_PAGES_MIN: usize = 16;
/// Pieces of a span at most: bounds the room for their sums.
const PIECES_MAX: usize = 8;
/// Values of a head at most.
pub const HEAD_DIM_MAX: usize = 256;
/// Query heads that a block of the decode kernel takes at most: they share what it reads, and its registers.
const HEADS_MAX: usize = 8;
/// The slot of a split that is the only one of its row.
pub const ALONE: u32 = u32::MAX;

/// What the fast kernels are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fast {
    /// Values of a head.
    pub dim: usize,
    /// Query heads of a key head.
    pub group: usize,
    /// Query heads of a block of the decode kernel: a divisor of the group.
    pub heads: usize,
    /// Rows of a tile of the prefill kernel.
    pub tile_rows: usize,
}

impl Fast {
    /// For heads that the fast kernels take: 64 or 128 values, and groups that fit a tile.
    pub fn of(heads: Heads) -> Option<Self> {
        let packed = 16 * TILE_WARPS;
        if heads.kv == 0 || !heads.query.is_multiple_of(heads.kv) || ![64, 128].contains(&heads.dim) {
            return None;
        }
        let group = heads.query / heads.kv;
        if group == 0 || group > packed {
            return None;
        }
        let of_block = (1..=HEADS_MAX.min(group)).rev().find(|heads| group.is_multiple_of(*heads)).unwrap_or(1);
        Some(Self { dim: heads.dim, group, heads: of_block, tile_rows: packed / group })
    }

    /// Bytes of shared memory of the prefill kernel: two pages of one key head.
    pub fn shared_bytes(&self) -> u32 {
        (2 * 2 * PAGE_TOKENS * self.dim * size_of::<u16>()) as u32
    }
}

/// Tokens of one row's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The row.
    pub row: u32,
    /// The first of its sequence's pages in the batch's.
    pub first_page: u32,
    /// Its first token.
    pub begin: u32,
    /// The one after its last.
    pub end: u32,
    /// Where its sums go, or [`ALONE`].
    pub slot: u32,
}

/// A row of several splits, whose slots lie one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The row.
    pub row: u32,
    /// Its first slot.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Rows of one span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The first of them in the batch.
    pub row: u32,
    /// How many.
    pub rows: u32,
    /// Tokens before the first.
    pub past: u32,
    /// The first of its sequence's pages in the batch's.
    pub first_page: u32,
    /// The first of these that it takes.
    pub begin: u32,
    /// The one after the last.
    pub end: u32,
    /// Where the sums of its first row go, or [`ALONE`].
    pub slot: u32,
    /// Slots from one row's to the next's.
    pub step: u32,
}

/// What a row sees, for the plain kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The first of its sequence's pages in the batch's.
    pub first_page: u32,
    /// Tokens, itself included.
    pub seen: u32,
}

/// The attention of a batch. Each row is in exactly one of splits, tiles and reaches, and sees each token of its context once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// For the decode kernel.
    pub splits: Vec<Split>,
    /// For the kernel that puts splits and pieces together, in the order of their slots.
    pub joined: Vec<Joined>,
    /// For the prefill kernel, those with most pages first, so that none of these is left to the end.
    pub tiles: Vec<Tile>,
    /// For the plain kernel.
    pub reaches: Vec<Reach>,
}

impl Plan {
    /// Lays out a batch; plainly where there are no fast kernels.
    pub fn of(batch: &Batch, fast: Option<Fast>) -> Self {
        let mut plan = Self::default();
        for span in &batch.spans {
            let (row, past, first_page) = (span.first as u32, span.past as u32, span.first_page as u32);
            let Some(fast) = fast else {
                plan.reaches.extend((1..=span.rows as u32).map(|seen| Reach { first_page, seen: past + seen }));
                continue;
            };
            if span.rows == 1 {
                plan.split(row, first_page, span.past + 1);
                continue;
            }
            plan.tile(span, fast.tile_rows);
        }
        plan.tiles.sort_by_key(|tile| std::cmp::Reverse((tile.end - tile.begin, tile.past)));
        plan
    }

    /// The tiles of a span, each in pieces of its context where the span is short and the context long. Pieces are those of
    /// the span, so that what a row sees of each does not depend on its tile.
    fn tile(&mut self, span: &Span, tile_rows: usize) {
        let all_pages = (span.past + span.rows).div_ceil(PAGE_TOKENS);
        let piece = match span.rows <= PIECED_ROWS_MAX {
            true => all_pages.div_ceil(PIECES_MAX).max(PIECE_PAGES_MIN),
            false => all_pages,
        };
        for first in (0..span.rows).step_by(tile_rows) {
            let (rows, past) = (tile_rows.min(span.rows - first), span.past + first);
            let pages = (past + rows).div_ceil(PAGE_TOKENS);
            let (count, row) = (pages.div_ceil(piece), (span.first + first) as u32);
            let base = self.slots() as u32;
            for number in 0..count {
                self.tiles.push(Tile {
                    row,
                    rows: rows as u32,
                    past: past as u32,
                    first_page: span.first_page as u32,
                    begin: (number * piece) as u32,
                    end: ((number + 1) * piece).min(pages) as u32,
                    slot: if count == 1 { ALONE } else { base + number as u32 },
                    step: count as u32,
                });
            }
            if count > 1 {
                let count = count as u32;
                let joined = (0..rows as u32).map(|of| Joined { row: row + of, first: base + of * count, count });
                self.joined.extend(joined);
            }
        }
    }

    fn split(&mut self, row: u32, first_page: u32, seen: usize) {
        let count = seen.div_ceil(SPLIT_TOKENS) as u32;
        let first = self.slots() as u32;
        for number in 0..count {
            let begin = number * SPLIT_TOKENS as u32;
            let end = (begin + SPLIT_TOKENS as u32).min(seen as u32);
            let slot = if count == 1 { ALONE } else { first + number };
            self.splits.push(Split { row, first_page, begin, end, slot });
        }
        if count > 1 {
            self.joined.push(Joined { row, first, count });
        }
    }

    /// Slots that sums of splits and pieces need.
    pub fn slots(&self) -> usize {
        self.joined.last().map_or(0, |last| (last.first + last.count) as usize)
    }

    /// Adds the words of all four, in this order, as [`add_part`] does; and gives where each of them begins, in words.
    pub fn words(&self, into: &mut Vec<u32>) -> [usize; 4] {
        let mut begins = [0; 4];
        let mut part = |at: usize, words: &mut dyn Iterator<Item = u32>| begins[at] = add_part(into, words);
        part(0, &mut self.splits.iter().flat_map(|s| [s.row, s.first_page, s.begin, s.end, s.slot]));
        part(1, &mut self.joined.iter().flat_map(|j| [j.row, j.first, j.count]));
        part(
            2,
            &mut self.tiles.iter().flat_map(|t| [t.row, t.rows, t.past, t.first_page, t.begin, t.end, t.slot, t.step]),
        );
        part(3, &mut self.reaches.iter().flat_map(|r| [r.first_page, r.seen]));
        begins
    }
}

#[cfg(test)]
mod tests;
