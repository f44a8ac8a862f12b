//! Attention within packed rows with Hopper's own kernels: how they are launched, and the descriptions of rows that their copies go
//! by.
//!
//! It refuses to know when they are used.

use super::attend::Attended;
use super::param::SINGLE_BYTES;
use super::room::{Room, blocks, word};
use super::units::{BACK_STAGES, HOPPER_TILE_KEYS};
use crate::cuda::backend::Card;
use crate::cuda::driver::{Arg, Driver, Shape};
use crate::cuda::memory::{CardRows, Growing};
use crate::cuda::plan::Fast;
use crate::cuda::source::Unit;
use crate::ops::{Heads, OpsError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Threads of a block: a warpgroup that copies and two that compute.
const THREADS: usize = 384;
/// Rows of a block of the kernel that prepares the way back.
const BASES_ROWS: usize = 32;
/// Rows of a step of the kernels of the way back.
const STEP_ROWS: usize = 64;
/// Bytes of a gate.
const GATE_BYTES: usize = 8;
/// Words of a description.
const DESCRIPTION_WORDS: usize = 32;
/// Descriptions that the card holds at once: those of a pass over more layers than a model has that keep rows of their own.
const DESCRIPTIONS_MAX: usize = 512;

/// The kernels of one shape of heads.
pub(super) struct OnHopper<D: Driver> {
    attend: D::Kernel,
    bases: D::Kernel,
    back_queries: D::Kernel,
    back_keys: D::Kernel,
}

/// Of the kernel of the gradient of queries: stages of keys and values, and two gates for each.
fn shared_bytes_of_queries(fast: Fast) -> u32 {
    (BACK_STAGES * (2 * STEP_ROWS * fast.dim * size_of::<u16>() + 2 * GATE_BYTES)) as u32
}

/// Of the one that goes over keys: its own with their values and a gate; stages of rows with their gradients, what is taken from
/// their scores, and two gates for each.
fn shared_bytes_of_keys(fast: Fast) -> u32 {
    let own = 2 * HOPPER_TILE_KEYS * fast.dim * size_of::<u16>() + GATE_BYTES;
    let stage = 2 * STEP_ROWS * (fast.dim * size_of::<u16>() + SINGLE_BYTES) + 2 * GATE_BYTES;
    (own + BACK_STAGES * stage) as u32
}

/// Which rows are described: from an address on, how many, and their values.
type Described = (u64, usize, usize);

/// Descriptions of rows on the card, each put there once.
pub(super) struct Descriptions<D: Driver> {
    known: HashMap<Described, usize>,
    words: Vec<u32>,
    memory: Growing<D>,
}

impl<D: Driver> Descriptions<D> {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new(), words: Vec::new(), memory: Growing::new() }
    }

    /// Where the descriptions of these rows are. When there would be too many, the others are forgotten: what was started before has
    /// read them by the time that they are overwritten.
    fn of<const COUNT: usize>(&mut self, driver: &D, rows: [&CardRows<D>; COUNT]) -> Result<[Arg; COUNT], OpsError> {
        let described = rows.map(|rows| (rows.address, rows.rows, rows.width));
        if !described.iter().all(|of| self.known.contains_key(of)) {
            self.put(driver, &described)?;
        }
        Ok(described.map(|of| Arg::Address(self.memory.now() + (self.known[&of] * DESCRIPTION_WORDS * 4) as u64)))
    }

    fn put(&mut self, driver: &D, described: &[Described]) -> Result<(), OpsError> {
        if self.known.len() + described.len() > DESCRIPTIONS_MAX {
            self.known.clear();
            self.words.clear();
        }
        for of in described {
            if self.known.contains_key(of) {
                continue;
            }
            let (address, rows, width) = *of;
            let bytes = driver.boxes(address, rows as u64, width)?;
            let bytes =
                bytes.ok_or_else(|| OpsError::Device("a card that is no Hopper has no boxes of rows".into()))?;
            self.known.insert(*of, self.words.len() / DESCRIPTION_WORDS);
            self.words.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)));
        }
        let put = self.memory.put(driver, "descriptions of rows", &self.words);
        if put.is_err() {
            self.known.clear();
            self.words.clear();
        }
        put.map(drop)
    }
}

impl<D: Driver> Room<D> {
    /// The kernels of a shape of heads, compiled when first asked for.
    fn on_hopper(&mut self, driver: &D, fast: Fast) -> Result<&OnHopper<D>, OpsError> {
        let known = match self.hopper.entry(fast) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let Fast { dim, group, .. } = fast;
                let unit = [Unit::train_attend_hopper, Unit::train_queries_hopper, Unit::train_keys_hopper];
                let [rows, queries, keys] = unit.map(|unit| unit(dim, group));
                place.insert(OnHopper {
                    attend: driver.kernel(&rows, "attend", fast.hopper_shared_bytes())?,
                    bases: driver.kernel(&Unit::train_bases(dim), "bases", 0)?,
                    back_queries: driver.kernel(&queries, "back_queries", shared_bytes_of_queries(fast))?,
                    back_keys: driver.kernel(&keys, "back_keys", shared_bytes_of_keys(fast))?,
                })
            }
        };
        Ok(known)
    }
}

impl<D: Driver> Card<D> {
    /// As `attend_packed`, whose tiles are there.
    pub(super) fn attend_on_hopper(
        &self,
        room: &mut Room<D>,
        place: &Attended<'_, D>,
        fast: Fast,
    ) -> Result<(), OpsError> {
        let ([qkv, stride], [query_heads, kv_heads]) = (place.qkv(), place.heads());
        let [boxes] = room.descriptions.of(&self.driver, [place.qkv])?;
        let (tiles, count) = (Arg::Address(room.sequences.at[0]), room.sequences.tiles);
        let out = [Arg::Address(place.out.address), word(place.out.stride), Arg::Address(place.lse.address)];
        let args = [&[qkv, stride, tiles, query_heads, kv_heads, place.scale(), boxes][..], &out].concat();
        let shape = Shape { shared_bytes: fast.hopper_shared_bytes(), ..blocks([count, place.heads.kv], THREADS) };
        // SAFETY: as `attend` declares them; tiles are of these rows, which are described, and shared memory is what it was made with.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.on_hopper(&self.driver, fast)?.attend, shape, &args)
        }
    }

    /// As `attend_packed_back`, whose tiles are there.
    pub(super) fn attend_back_on_hopper(
        &self,
        room: &mut Room<D>,
        place: &Attended<'_, D>,
        fast: Fast,
        d_out: &CardRows<D>,
        d_qkv: &CardRows<D>,
    ) -> Result<(), OpsError> {
        let Heads { query, kv, .. } = place.heads;
        let rows = place.qkv.rows;
        let bases = room.delta.at_least(&self.driver, "sums of rows", rows * query * 2 * SINGLE_BYTES)?;
        let [boxes, d_boxes] = room.descriptions.of(&self.driver, [place.qkv, d_out])?;
        let ([tiles, key_tiles], [count, key_count]) =
            (room.sequences.at.map(Arg::Address), [room.sequences.tiles, room.sequences.key_tiles]);
        let kernels = room.on_hopper(&self.driver, fast)?;
        let ([qkv, stride], [query_heads, kv_heads], bases) = (place.qkv(), place.heads(), Arg::Address(bases));
        let [d, d_stride, of_rows] = [Arg::Address(d_out.address), word(d_out.stride), word(rows)];
        let (scale, to) = (place.scale(), Arg::Address(d_qkv.address));
        let lse = Arg::Address(place.lse.address);
        let of_bases = [Arg::Address(place.out.address), d, d_stride, of_rows, query_heads, lse, bases];
        let of_keys = [stride, key_tiles, of_rows, query_heads, kv_heads, scale, boxes, d_boxes, bases, to];
        let of_queries = [qkv, stride, tiles, of_rows, query_heads, kv_heads, scale, boxes, d, d_stride, bases, to];
        let in_bases = blocks([rows.div_ceil(BASES_ROWS), query], 256);
        let in_keys = Shape { shared_bytes: shared_bytes_of_keys(fast), ..blocks([key_count * kv, 1], THREADS) };
        let in_queries = Shape { shared_bytes: shared_bytes_of_queries(fast), ..blocks([count, kv], THREADS) };
        // SAFETY: as the three declare them; out and its gradient hold these rows at one stride, there is room for two sums of each
        // row and head, tiles are of these rows, which are described, and shared memory is what they were made with. The last two
        // write all of `d_qkv`.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&kernels.bases, in_bases, &of_bases)?;
            self.driver.launch(&kernels.back_keys, in_keys, &of_keys)?;
            self.driver.launch(&kernels.back_queries, in_queries, &of_queries)
        }
    }
}
