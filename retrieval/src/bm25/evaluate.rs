//! The best `k` rows of a few posting lists: MaxScore over windows of rows with a bound for each window.
//!
//! Scores are sums of whole numbers, scaled once for the query, so that a document's score is the same in
//! whatever order its terms are added, whatever is skipped and whatever `k` is. It refuses to know text.
//!
//! The scheme is that of Turtle and Flood (1995) with the block bounds of Ding and Suel (2011), by windows as
//! in Lucene's bulk scorer: terms that together cannot reach the k-th score are only looked up.

use super::bounds::{TermBounds, saturation};
use tantivy::postings::BlockSegmentPostings;

/// Rows of one window: its sums stay in the first-level cache.
const WINDOW_ROWS: u32 = 4_096;
/// The sum of all weights of a query, scaled, stays below this.
const MAX_SUM: f64 = (1_u32 << 31) as f64;
/// Scale of a query with few terms; more would be lost in `f32` anyway.
const MAX_SCALE: f64 = (1_u32 << 26) as f64;

/// The power of two by which the scores of a query are scaled, from the sum of its terms' weights.
pub(super) fn scale(weights: f64) -> f64 {
    let mut scale = MAX_SCALE;
    while weights * scale >= MAX_SUM && scale > 1.0 {
        scale /= 2.0;
    }
    scale
}

/// A place in the postings of one term.
pub(super) struct Cursor<'a> {
    postings: BlockSegmentPostings,
    /// Index of the current posting in the loaded block; its length when that is used up.
    at: usize,
    /// Scaled weight of the term.
    weight: f32,
    bounds: TermBounds<'a>,
    /// First block of the bounds that may reach into the current window.
    bound_block: usize,
    /// Greatest impact in the current window.
    bound: u32,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(postings: BlockSegmentPostings, weight: f32, bounds: TermBounds<'a>) -> Self {
        Self { postings, at: 0, weight, bounds, bound_block: 0, bound: 0 }
    }

    /// What a posting adds to a score; at least one, so that every document with a term is found.
    #[inline]
    fn impact(weight: f32, saturation: f32) -> u32 {
        ((weight * saturation) as u32).max(1)
    }

    /// Sets the bound for rows from `low` to below `high`.
    fn enter_window(&mut self, low: u32, high: u32) {
        let TermBounds { last_rows, maxima } = self.bounds;
        while last_rows.get(self.bound_block).is_some_and(|&last| last < low) {
            self.bound_block += 1;
        }
        let mut greatest = 0.0_f32;
        for (&last, &maximum) in last_rows[self.bound_block..].iter().zip(&maxima[self.bound_block..]) {
            greatest = greatest.max(maximum);
            if last >= high - 1 {
                break;
            }
        }
        self.bound = if greatest > 0.0 { Self::impact(self.weight, greatest) } else { 0 };
    }

    /// Moves to the first posting at or after `row`; it may be past the last.
    #[inline]
    fn seek(&mut self, row: u32) {
        let docs = self.postings.docs();
        let Some(&last) = docs.last() else { return };
        if last < row {
            self.at = self.postings.seek(row).min(self.postings.docs().len());
        } else if docs.get(self.at).is_some_and(|&doc| doc < row) {
            self.at += docs[self.at..].partition_point(|&doc| doc < row);
        }
    }

    /// Adds the impacts of all postings from row `low` to below `high` to the sums of that window.
    fn add_window(&mut self, low: u32, high: u32, norms: &[f32], sums: &mut [u32]) {
        self.seek(low);
        loop {
            let (docs, freqs) = (self.postings.docs(), self.postings.freqs());
            let Some(&last) = docs.last() else { return };
            let end =
                if last < high { docs.len() } else { self.at + docs[self.at..].partition_point(|&doc| doc < high) };
            for (&row, &frequency) in docs[self.at..end].iter().zip(&freqs[self.at..end]) {
                let impact = Self::impact(self.weight, saturation(frequency, norms[row as usize]));
                sums[(row - low) as usize] += impact;
            }
            self.at = end;
            if last >= high {
                return;
            }
            self.postings.advance();
            self.at = 0;
        }
    }

    /// The impact on `row`, zero if the term is not in it. Rows must be asked for in ascending order.
    #[inline]
    fn impact_on(&mut self, row: u32, norms: &[f32]) -> u32 {
        self.seek(row);
        if self.postings.docs().get(self.at) == Some(&row) {
            Self::impact(self.weight, saturation(self.postings.freq(self.at), norms[row as usize]))
        } else {
            0
        }
    }
}

/// The best `k` as (position in the order of ids, scaled score), best first.
pub(super) fn best(mut cursors: Vec<Cursor<'_>>, norms: &[f32], ranks: &[u32], k: usize) -> Vec<(u32, u32)> {
    let rows = norms.len().min(ranks.len()) as u32;
    let mut best = Best::new(k.min(rows as usize));
    if best.k == 0 || cursors.is_empty() {
        return Vec::new();
    }
    let mut sums = vec![0_u32; WINDOW_ROWS as usize];
    let mut candidates = Vec::new();
    let mut low = 0;
    while low < rows {
        let high = low.saturating_add(WINDOW_ROWS).min(rows);
        cursors.iter_mut().for_each(|c| c.enter_window(low, high));
        // Greatest bound last. Equal bounds keep some order or other; sums do not depend on it.
        cursors.sort_unstable_by_key(|c| c.bound);
        let looked_up = looked_up_only(&cursors, best.floor);
        if looked_up < cursors.len() {
            let (rare, full) = cursors.split_at_mut(looked_up);
            let window = &mut sums[..(high - low) as usize];
            full.iter_mut().filter(|c| c.bound > 0).for_each(|c| c.add_window(low, high, norms, window));
            let reserve: u32 = rare.iter().map(|c| c.bound).sum();
            collect(window, low, best.floor.saturating_sub(reserve), &mut candidates);
            complete(rare, reserve, norms, best.floor, &mut candidates);
            for &(row, score) in &candidates {
                best.offer(score, ranks[row as usize]);
            }
        }
        low = high;
    }
    best.into_sorted()
}

/// How many cursors, from the smallest bound on, together stay below the k-th score: no row that only they hold
/// can be among the best. All of them when the whole window can be skipped.
fn looked_up_only(cursors: &[Cursor<'_>], floor: u32) -> usize {
    let mut sum = 0;
    cursors
        .iter()
        .position(|c| {
            sum += c.bound;
            sum >= floor
        })
        .unwrap_or(cursors.len())
}

/// Takes the rows of a window whose sum reaches `least`, and clears the sums.
fn collect(window: &mut [u32], low: u32, least: u32, candidates: &mut Vec<(u32, u32)>) {
    candidates.clear();
    let least = least.max(1);
    for (i, sum) in window.iter_mut().enumerate() {
        if *sum >= least {
            candidates.push((low + i as u32, *sum));
        }
        *sum = 0;
    }
}

/// Looks the remaining terms up, greatest bound first, and drops rows as soon as they cannot reach `floor`.
fn complete(rare: &mut [Cursor<'_>], reserve: u32, norms: &[f32], floor: u32, candidates: &mut Vec<(u32, u32)>) {
    let mut reserve = reserve;
    for cursor in rare.iter_mut().rev().filter(|c| c.bound > 0) {
        reserve -= cursor.bound;
        candidates.retain_mut(|(row, sum)| {
            *sum += cursor.impact_on(*row, norms);
            *sum + reserve >= floor
        });
    }
}

/// The best `k` offered so far, found by cutting a buffer of twice that size in half when it is full.
struct Best {
    k: usize,
    /// Score above, the complement of the position below: the greater number is the better document.
    kept: Vec<u64>,
    /// The score that must be reached; known once `k` were kept. An equal score may win by its id.
    floor: u32,
}

impl Best {
    fn new(k: usize) -> Self {
        Self { k, kept: Vec::new(), floor: 0 }
    }

    #[inline]
    fn offer(&mut self, score: u32, rank: u32) {
        if score >= self.floor {
            self.kept.push(u64::from(score) << 32 | u64::from(!rank));
            if self.kept.len() >= 2 * self.k {
                self.cut();
            }
        }
    }

    #[cold]
    fn cut(&mut self) {
        if self.kept.len() > self.k {
            self.kept.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a));
            self.kept.truncate(self.k);
        }
        if self.kept.len() == self.k {
            self.floor = (self.kept.iter().min().copied().unwrap_or(0) >> 32) as u32;
        }
    }

    fn into_sorted(mut self) -> Vec<(u32, u32)> {
        self.cut();
        self.kept.sort_unstable_by(|a, b| b.cmp(a));
        self.kept.into_iter().map(|key| (!(key as u32), (key >> 32) as u32)).collect()
    }
}
