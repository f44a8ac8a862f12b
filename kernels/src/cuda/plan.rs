//! How the attention of a batch is laid out: single new tokens as splits of their context, longer spans as tiles of rows, and
//! all of them plainly where heads have a shape that the fast kernels do not take. A pure function of the batch and the heads.
//!
//! It refuses to know cards; what it gives are the words that the kernels read.

use super::batch::add_part;
use crate::batch::{Batch, PAGE_TOKENS, Span};
use crate::ops::Heads;

/// Tokens of a split at most: eight tiles of 16 for each of a block's eight warps.
pub const SPLIT_TOKENS: usize = 1024;
/// Tokens of a split, for so many rows and key heads (or parts of one's query heads) of them together at most: shorter where longer
/// ones would leave most of a card idle. Beyond the last, [`SPLIT_TOKENS`].
const SHORT_SPLITS: [(usize, usize); 3] = [(32, 128), (96, 256), (256, 512)];
/// Pages of a split at most.
pub const SPLIT_PAGES: usize = SPLIT_TOKENS / PAGE_TOKENS;
/// What is added to a split's tokens where the last is new.
const IS_NEW: u32 = 1 << 16;
/// Words of a row that is joined.
const JOINED_WORDS: usize = 3;
/// Words of a split.
const SPLIT_WORDS: usize = 4 + SPLIT_PAGES;
/// Warps of a block of the decode kernels.
pub const DECODE_WARPS: usize = 8;
/// Blocks of the decode kernel that a multiprocessor runs at once: what it is compiled for.
const BLOCKS_EACH: u32 = 2;
/// Packed rows of a tile: rows times query heads of a key head.
pub const TILE_PACKED: usize = 128;
/// Rows times pieces of a span at most, where its tiles come in pieces of their context: spans of more rows than half of these
/// fill a card by themselves.
const PIECED_ROWS: usize = 1_024;
/// Pages that a kernel takes at once at most.
const STEP_PAGES: usize = 2;
/// Pages of such a piece at least.
const PIECE_PAGES_MIN: usize = 16;
/// Pieces of a span at most: bounds the room for their sums.
const PIECES_MAX: usize = 8;
/// Values of a head that the fast kernels take.
pub const FAST_DIMS: [usize; 2] = [64, 128];
/// Values of a head at most.
pub const HEAD_DIM_MAX: usize = 256;
/// Query heads that a block of the decode kernel takes at most: they share what it reads, and its registers.
const HEADS_MAX: usize = 8;
/// Bytes of the gates of Hopper's prefill kernel.
const HOPPER_GATES_BYTES: u32 = 64;
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
    /// Blocks of the decode kernel that take one split: one for so many of all query heads.
    pub parts: usize,
    /// Rows of a tile of the prefill kernel.
    pub tile_rows: usize,
}

impl Fast {
    /// For heads that the fast kernels take: 64 or 128 values, and groups that fit a tile.
    pub fn of(heads: Heads) -> Option<Self> {
        if heads.kv == 0 || !heads.query.is_multiple_of(heads.kv) || !FAST_DIMS.contains(&heads.dim) {
            return None;
        }
        let group = heads.query / heads.kv;
        if group == 0 || group > TILE_PACKED {
            return None;
        }
        let of_block = (1..=HEADS_MAX.min(group)).rev().find(|heads| group.is_multiple_of(*heads)).unwrap_or(1);
        Some(Self {
            dim: heads.dim,
            group,
            heads: of_block,
            parts: heads.query / of_block,
            tile_rows: TILE_PACKED / group,
        })
    }

    /// Bytes of shared memory of the decode kernel for many rows: of each warp three splits and the queries of two, whose rows are
    /// padded, and in two places the sums of each, padded too, and their masses; and four counters.
    pub fn stream_bytes(&self) -> u32 {
        let own = 3 * SPLIT_WORDS * size_of::<u32>() + 2 * self.heads * (self.dim + 32) * size_of::<u16>();
        let sums = 2 * self.heads * (self.dim + 8 + 2) * size_of::<f32>();
        (DECODE_WARPS * (own + sums) + 4 * size_of::<u32>()) as u32
    }

    /// Bytes of shared memory of the prefill kernel: the queries of a tile, and a page of one key head.
    pub fn shared_bytes(&self) -> u32 {
        ((TILE_PACKED + 2 * PAGE_TOKENS) * self.dim * size_of::<u16>()) as u32
    }

    /// Bytes of shared memory of Hopper's: the queries of a tile, four pages of one key head, and gates.
    pub fn hopper_shared_bytes(&self) -> u32 {
        ((TILE_PACKED + 4 * 2 * PAGE_TOKENS) * self.dim * size_of::<u16>()) as u32 + HOPPER_GATES_BYTES
    }
}

/// Tokens of a split of a batch with so many rows that are split, and blocks of the decode kernel that take one split. Nothing else
/// decides: a row's result does not depend on the lengths of others.
pub fn split_tokens(rows: usize, parts: usize) -> usize {
    let short = SHORT_SPLITS.iter().find(|(most, _)| rows.saturating_mul(parts) <= *most);
    short.map_or(SPLIT_TOKENS, |(_, tokens)| *tokens)
}

/// Whether splits of so many rows are put together by the decode kernel itself: a launch less, which counts where there is little
/// to do, and a wait more for each split.
pub fn joins_at_once(rows: usize, parts: usize) -> bool {
    split_tokens(rows, parts) == SHORT_SPLITS[0].1
}

/// Blocks of the decode kernel below one another on a card of so many multiprocessors, of which each takes some splits.
pub fn decode_blocks(multiprocessors: u32, parts: usize) -> u32 {
    (BLOCKS_EACH * multiprocessors / parts.max(1) as u32).max(1)
}

/// Tokens of one row's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The row.
    pub row: u32,
    /// How many.
    pub tokens: u32,
    /// Whether the last of them is the row's own, which this step computes.
    pub is_new: bool,
    /// Where its sums go, or [`ALONE`].
    pub slot: u32,
    /// Which of [`Plan::joined`] its row is, where it is not alone.
    pub joined: u32,
    /// The pages that they are in, from the first one's start; 0 behind the last of them.
    pub pages: [u32; SPLIT_PAGES],
}

/// A row of several splits or pieces, whose slots lie one behind the other.
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
    /// For the decode kernel, those with most tokens first, so that its blocks end together.
    pub splits: Vec<Split>,
    /// For the same kernel, which puts the splits of a row together.
    pub joined: Vec<Joined>,
    /// For the kernel that puts pieces of tiles together.
    pub pieced: Vec<Joined>,
    /// For the prefill kernel, those with most pages first, so that none of these is left to the end.
    pub tiles: Vec<Tile>,
    /// For the plain kernel.
    pub reaches: Vec<Reach>,
    /// Slots that sums of splits and pieces need.
    pub slots: usize,
    /// Rows that are split: those of spans of one.
    pub rows: usize,
}

/// Where the parts of a plan begin, in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begins {
    /// The splits, behind the last of which some of no tokens follow.
    pub splits: usize,
    /// Rows whose splits are put together.
    pub joined: usize,
    /// Rows of tiles whose pieces are put together.
    pub pieced: usize,
    /// The tiles.
    pub tiles: usize,
    /// The reaches.
    pub reaches: usize,
}

impl Plan {
    /// Lays out a batch; plainly where there are no fast kernels.
    pub fn of(batch: &Batch, fast: Option<Fast>) -> Self {
        let rows = batch.spans.iter().filter(|span| span.rows == 1).count();
        let mut plan = Self { rows, ..Self::default() };
        let tokens = split_tokens(plan.rows, fast.map_or(0, |fast| fast.parts));
        for span in &batch.spans {
            let (row, past, first_page) = (span.first as u32, span.past as u32, span.first_page as u32);
            let Some(fast) = fast else {
                plan.reaches.extend((1..=span.rows as u32).map(|seen| Reach { first_page, seen: past + seen }));
                continue;
            };
            if span.rows == 1 {
                plan.split(row, batch.pages_of(span), span.past + 1, tokens);
                continue;
            }
            plan.tile(span, fast.tile_rows);
        }
        plan.splits.sort_by_key(|split| std::cmp::Reverse(split.tokens));
        plan.tiles.sort_by_key(|tile| std::cmp::Reverse((tile.end - tile.begin, tile.past)));
        plan
    }

    /// The tiles of a span, each in pieces of its context where the span is short and the context long. Pieces are those of
    /// the span, so that what a row sees of each does not depend on its tile.
    fn tile(&mut self, span: &Span, tile_rows: usize) {
        let all_pages = (span.past + span.rows).div_ceil(PAGE_TOKENS);
        let pieces = (PIECED_ROWS / span.rows).clamp(1, PIECES_MAX);
        let piece = match pieces {
            1 => all_pages,
            _ => all_pages.div_ceil(pieces).max(PIECE_PAGES_MIN).next_multiple_of(STEP_PAGES),
        };
        for first in (0..span.rows).step_by(tile_rows) {
            let (rows, past) = (tile_rows.min(span.rows - first), span.past + first);
            let pages = (past + rows).div_ceil(PAGE_TOKENS);
            let (count, row) = (pages.div_ceil(piece), (span.first + first) as u32);
            let base = self.slots as u32;
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
                self.pieced.extend(joined);
                self.slots += rows * count as usize;
            }
        }
    }

    fn split(&mut self, row: u32, pages: &[u32], seen: usize, tokens: usize) {
        let (count, joined) = (seen.div_ceil(tokens), self.joined.len() as u32);
        for (number, of_split) in pages.chunks(tokens / PAGE_TOKENS).enumerate() {
            let slot = if count == 1 { ALONE } else { (self.slots + number) as u32 };
            let mut pages = [0; SPLIT_PAGES];
            pages[..of_split.len()].copy_from_slice(of_split);
            let of_this = tokens.min(seen - number * tokens) as u32;
            self.splits.push(Split { row, tokens: of_this, is_new: number + 1 == count, slot, joined, pages });
        }
        if count > 1 {
            self.joined.push(Joined { row, first: self.slots as u32, count: count as u32 });
            self.slots += count;
        }
    }

    /// Adds the words of all five, as [`add_part`] does. Behind the splits come `empty` ones of no tokens, in which blocks
    /// that look for more find none; behind the joined rows as many of no slots as there are rows that are not joined.
    pub fn words(&self, empty: usize, into: &mut Vec<u32>) -> Begins {
        let mut part = |words: &mut dyn Iterator<Item = u32>| add_part(into, words);
        let joined = |j: &Joined| [j.row, j.first, j.count];
        let split = |s: &Split| {
            let tokens = s.tokens + if s.is_new { IS_NEW } else { 0 };
            [s.row, tokens, s.slot, s.joined].into_iter().chain(s.pages)
        };
        let splits = self.splits.iter().flat_map(split);
        let not_joined = self.rows - self.joined.len();
        let empty = if self.splits.is_empty() { 0 } else { empty * SPLIT_WORDS };
        let tile = |t: &Tile| [t.row, t.rows, t.past, t.first_page, t.begin, t.end, t.slot, t.step];
        Begins {
            splits: part(&mut splits.chain(std::iter::repeat_n(0, empty))),
            joined: part(
                &mut self.joined.iter().flat_map(joined).chain(std::iter::repeat_n(0, not_joined * JOINED_WORDS)),
            ),
            pieced: part(&mut self.pieced.iter().flat_map(joined)),
            tiles: part(&mut self.tiles.iter().flat_map(tile)),
            reaches: part(&mut self.reaches.iter().flat_map(|r| [r.first_page, r.seen])),
        }
    }
}

#[cfg(test)]
mod tests;
