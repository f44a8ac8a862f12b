//! A batch on the card: its positions, pages and plan, copied once for all layers of a step, and the table of cosines that its
//! rows are turned by.
//!
//! It refuses to know which layer asks.

use super::driver::{Arg, Driver, Shape};
use super::memory::Growing;
use super::plan::{Fast, Plan, decode_blocks};
use crate::batch::{Batch, PAGE_TOKENS};
use crate::ops::{Heads, OpsError, Rope};

/// Words of a part at least.
const PART_WORDS_MIN: usize = 64;

/// The batch that the card holds.
pub(super) struct Step<D: Driver> {
    /// What it was made of; none after a failure.
    of: Option<(Batch, Heads, usize)>,
    words: Growing<D>,
    pub(super) plan: Plan,
    pub(super) fast: Option<Fast>,
    pub(super) at: Places,
    rope: Option<Rope>,
    frequencies: Growing<D>,
    table: Growing<D>,
    /// Whether the table is that of this batch and rope.
    turned: Option<u64>,
    sums: Growing<D>,
    masses: Growing<D>,
    tickets: Growing<D>,
}

/// Where its parts are.
#[derive(Clone, Copy, Default)]
pub(super) struct Places {
    ids: u64,
    positions: u64,
    pub(super) slots: u64,
    pub(super) pages: u64,
    pub(super) splits: u64,
    pub(super) joined: u64,
    pub(super) pieced: u64,
    pub(super) tiles: u64,
    pub(super) reaches: u64,
}

/// Where what is put together later is.
#[derive(Clone, Copy)]
pub(super) struct Partial {
    pub(super) sums: u64,
    pub(super) masses: u64,
    pub(super) tickets: u64,
}

impl<D: Driver> Step<D> {
    pub(super) fn new() -> Self {
        Self {
            of: None,
            words: Growing::new(),
            plan: Plan::default(),
            fast: None,
            at: Places::default(),
            rope: None,
            frequencies: Growing::new(),
            table: Growing::new(),
            turned: None,
            sums: Growing::new(),
            masses: Growing::new(),
            tickets: Growing::new(),
        }
    }

    /// Puts a batch there, unless it is there already. Kernels trust what is checked here.
    pub(super) fn prepare(&mut self, driver: &D, batch: &Batch, heads: Heads, pages: usize) -> Result<(), OpsError> {
        if self.of.as_ref().is_some_and(|(known, of, total)| known == batch && *of == heads && *total == pages) {
            return Ok(());
        }
        (self.of, self.turned) = (None, None);
        batch.check(usize::MAX, pages, u32::MAX as usize / 2).map_err(|error| OpsError::Shape {
            op: "batch",
            expected: "spans, positions and pages that fit each other".to_owned(),
            got: error.0,
        })?;
        self.fast = Fast::of(heads);
        self.plan = Plan::of(batch, self.fast);
        let mut words = Vec::new();
        let mut part = |values: &mut dyn Iterator<Item = u32>| add_part(&mut words, values);
        let ids = part(&mut batch.ids.iter().copied());
        let positions = part(&mut batch.positions.iter().copied());
        let slots = part(&mut batch.spans.iter().flat_map(|span| {
            let of_span = batch.pages_of(span);
            (span.past..span.past + span.rows).map(|position| {
                let page = of_span[position / PAGE_TOKENS] as usize;
                (page * PAGE_TOKENS + position % PAGE_TOKENS) as u32
            })
        }));
        let all_pages = part(&mut batch.pages.iter().copied());
        let blocks = decode_blocks(driver.multiprocessors(), self.fast.map_or(0, |fast| fast.parts));
        let begins = self.plan.words(blocks as usize, &mut words);
        let base = self.words.put(driver, "a batch", &words)?;
        let at = |begin: usize| base + (begin * size_of::<u32>()) as u64;
        self.at = Places {
            ids: at(ids),
            positions: at(positions),
            slots: at(slots),
            pages: at(all_pages),
            splits: at(begins.splits),
            joined: at(begins.joined),
            pieced: at(begins.pieced),
            tiles: at(begins.tiles),
            reaches: at(begins.reaches),
        };
        self.of = Some((batch.clone(), heads, pages));
        Ok(())
    }

    /// The table of cosines and sines of the batch's rows.
    pub(super) fn table(&mut self, driver: &D, angles: &D::Kernel, rope: &Rope) -> Result<u64, OpsError> {
        let known = self.rope.as_ref() == Some(rope);
        if let (true, Some(table)) = (known, self.turned) {
            return Ok(table);
        }
        self.turned = None;
        let rows = self.of.as_ref().map_or(0, |(batch, ..)| batch.rows());
        let pairs = rope.frequencies.len();
        let frequencies = if known {
            self.frequencies.at_least(driver, "frequencies", pairs * size_of::<f32>())?
        } else {
            self.rope = None;
            let words: Vec<u32> = rope.frequencies.iter().map(|frequency| frequency.to_bits()).collect();
            self.frequencies.put(driver, "frequencies", &words)?
        };
        self.rope = Some(rope.clone());
        let table = self.table_room(driver, pairs)?;
        if rows > 0 && pairs > 0 {
            let shape = Shape { grid: [rows as u32, 1], threads: 128, shared_bytes: 0 };
            let args = [
                Arg::Address(self.at.positions),
                Arg::Address(frequencies),
                Arg::Word(pairs as u32),
                Arg::Float(rope.scale),
                Arg::Address(table),
            ];
            // SAFETY: as `angles` declares them; `prepare` put a position for each of the rows there, `put` the frequencies,
            // and the table has room for two floats a row and pair.
            #[allow(unsafe_code)]
            unsafe {
                driver.launch(angles, shape, &args)?;
            }
        }
        self.turned = Some(table);
        Ok(table)
    }

    /// Where the ids of the batch are, if it is these.
    pub(super) fn ids_of(&self, ids: &[u32]) -> Option<u64> {
        self.of.as_ref().filter(|(batch, ..)| batch.ids == ids).map(|_| self.at.ids)
    }

    /// Makes room for all that kernels write of this batch beside their rows. The table is not there yet: a recorded step
    /// makes it each time.
    pub(super) fn room(&mut self, driver: &D, heads: Heads) -> Result<(), OpsError> {
        self.turned = None;
        self.partial(driver, heads)?;
        if let Some(pairs) = self.rope.as_ref().map(|rope| rope.frequencies.len()) {
            self.table_room(driver, pairs)?;
        }
        Ok(())
    }

    /// All addresses that kernels are given of a batch.
    pub(super) fn addresses(&self) -> Vec<u64> {
        let Places { ids, positions, slots, pages, splits, joined, pieced, tiles, reaches } = self.at;
        let rooms = [&self.table, &self.frequencies, &self.sums, &self.masses, &self.tickets].map(Growing::now);
        [&[ids, positions, slots, pages, splits, joined, pieced, tiles, reaches][..], &rooms].concat()
    }

    /// Room for a table of the batch's rows.
    fn table_room(&mut self, driver: &D, pairs: usize) -> Result<u64, OpsError> {
        let rows = self.of.as_ref().map_or(0, |(batch, ..)| batch.rows());
        self.table.at_least(driver, "cosines and sines", rows * pairs * 2 * size_of::<f32>())
    }

    /// Room for the sums and masses of splits and pieces, and for the tickets of rows, which are zeros.
    pub(super) fn partial(&mut self, driver: &D, heads: Heads) -> Result<Partial, OpsError> {
        let parts = self.fast.map_or(0, |fast| fast.parts);
        let slots = self.plan.slots * heads.query;
        Ok(Partial {
            sums: self.sums.at_least(driver, "sums of splits", slots * heads.dim * size_of::<f32>())?,
            masses: self.masses.at_least(driver, "masses of splits", slots * 2 * size_of::<f32>())?,
            tickets: self.tickets.at_least(driver, "tickets of rows", self.plan.rows * parts * size_of::<u32>())?,
        })
    }
}

/// Adds words from a whole 16 bytes on, with room for as many as the next power of two: parts stay where they are while
/// sequences grow. Gives where they begin.
pub(super) fn add_part(words: &mut Vec<u32>, values: &mut dyn Iterator<Item = u32>) -> usize {
    words.resize(words.len().next_multiple_of(4), 0);
    let begin = words.len();
    words.extend(values);
    let count = words.len() - begin;
    words.resize(begin + count.max(PART_WORDS_MIN).next_power_of_two(), 0);
    begin
}
