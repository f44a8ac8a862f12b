//! Attention within packed rows, forward and back: the fast kernels for heads of 64 or 128 values, Hopper's own where the card is
//! one, plain ones for others.
//!
//! It refuses to know what the rows stand for. Tiles of the sequences are put on the card once for all layers of a pass.

use super::param::{CardSums, SINGLE_BYTES};
use super::plan::{key_tiles, reaches, tiles};
use super::room::{Room, blocks, word};
use super::units::{ATTEND_WARPS, HOPPER_TILE_KEYS, KEY_WARPS, QUERY_WARPS, TILE_KEYS};
use crate::cuda::backend::Card;
use crate::cuda::driver::{Arg, Driver, Shape};
use crate::cuda::memory::{CardRows, Growing};
use crate::cuda::plan::Fast;
use crate::cuda::source::Unit;
use crate::ops::{Heads, OpsError};
use std::collections::hash_map::Entry;

/// Keys of a step of the kernels that go over these, packed rows of a step of the one that goes over rows.
const STEP_ROWS: usize = 64;

/// The fast kernels of one shape of heads.
pub(super) struct Fastened<D: Driver> {
    attend: D::Kernel,
    back_queries: D::Kernel,
    back_keys: D::Kernel,
}

/// The sequences that the card knows.
pub(super) struct Sequences<D: Driver> {
    /// Which they are, and of which heads; none after a failure.
    of: Option<(Vec<u32>, Option<Fast>)>,
    words: Growing<D>,
    pub(super) tiles: usize,
    pub(super) key_tiles: usize,
    /// Where the tiles of rows are, or the reaches, and those of keys.
    pub(super) at: [u64; 2],
}

impl<D: Driver> Sequences<D> {
    pub(super) fn new() -> Self {
        Self { of: None, words: Growing::new(), tiles: 0, key_tiles: 0, at: [0; 2] }
    }

    /// Puts sequences there, unless they are there already: tiles of rows and of keys, or a reach for each row.
    fn prepare(&mut self, driver: &D, starts: &[u32], fast: Option<Fast>) -> Result<(), OpsError> {
        if self.of.as_ref().is_some_and(|(known, of)| known == starts && *of == fast) {
            return Ok(());
        }
        self.of = None;
        let (first, second): (Vec<u32>, Vec<u32>) = match fast {
            Some(fast) => {
                let tile_keys = if driver.is_hopper() { HOPPER_TILE_KEYS } else { TILE_KEYS };
                (tiles(starts, fast.tile_rows).concat(), key_tiles(starts, tile_keys).concat())
            }
            None => (reaches(starts).concat(), Vec::new()),
        };
        (self.tiles, self.key_tiles) = (first.len() / 3, second.len() / 3);
        let base = self.words.put(driver, "sequences", &[&first[..], &second].concat())?;
        self.at = [base, base + size_of_val(first.as_slice()) as u64];
        self.of = Some((starts.to_vec(), fast));
        Ok(())
    }
}

/// What attention reads and writes.
pub(super) struct Attended<'a, D: Driver> {
    pub(super) qkv: &'a CardRows<D>,
    pub(super) heads: Heads,
    pub(super) starts: &'a [u32],
    pub(super) out: &'a CardRows<D>,
    pub(super) lse: &'a CardSums<D>,
}

impl<D: Driver> Attended<'_, D> {
    /// What scores are multiplied by for powers of two.
    pub(super) fn scale(&self) -> Arg {
        Arg::Float(std::f32::consts::LOG2_E / (self.heads.dim as f32).sqrt())
    }

    pub(super) fn heads(&self) -> [Arg; 2] {
        [word(self.heads.query), word(self.heads.kv)]
    }

    pub(super) fn qkv(&self) -> [Arg; 2] {
        [Arg::Address(self.qkv.address), word(self.qkv.stride)]
    }
}

/// Bytes of shared memory of the kernel forward: a tile's queries, and keys and values of two steps.
fn shared_bytes_of_tile(fast: Fast) -> u32 {
    ((32 * ATTEND_WARPS + 2 * 2 * STEP_ROWS) * fast.dim * size_of::<u16>()) as u32
}

/// Of the one for the gradient of queries: keys and values of two steps.
fn shared_bytes_of_queries(fast: Fast) -> u32 {
    (2 * 2 * STEP_ROWS * fast.dim * size_of::<u16>()) as u32
}

/// Of the one that goes over keys: its own with their values, rows of two steps, and what is taken from their scores.
fn shared_bytes_of_keys(fast: Fast) -> u32 {
    let values = 2 * 16 * KEY_WARPS * fast.dim + 2 * 2 * STEP_ROWS * fast.dim;
    (values * size_of::<u16>() + 2 * STEP_ROWS * 2 * SINGLE_BYTES) as u32
}

impl<D: Driver> Room<D> {
    /// The fast kernels of a shape of heads, compiled when first asked for.
    fn fastened(&mut self, driver: &D, fast: Fast) -> Result<&Fastened<D>, OpsError> {
        let known = match self.fast.entry(fast) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let Fast { dim, group, .. } = fast;
                let (rows, queries) = (Unit::train_attend(dim, group), Unit::train_queries(dim, group));
                place.insert(Fastened {
                    attend: driver.kernel(&rows, "attend", shared_bytes_of_tile(fast))?,
                    back_queries: driver.kernel(&queries, "back_queries", shared_bytes_of_queries(fast))?,
                    back_keys: driver.kernel(&Unit::train_keys(dim, group), "back_keys", shared_bytes_of_keys(fast))?,
                })
            }
        };
        Ok(known)
    }
}

impl<D: Driver> Card<D> {
    /// The caller has checked and set all rows, of which there is at least one.
    pub(super) fn attend_packed(&self, place: &Attended<'_, D>) -> Result<(), OpsError> {
        let mut room = self.room()?;
        let fast = Fast::of(place.heads);
        room.sequences.prepare(&self.driver, place.starts, fast)?;
        let (at, tiles) = (room.sequences.at, room.sequences.tiles);
        let ([qkv, stride], [query_heads, kv_heads]) = (place.qkv(), place.heads());
        let [out, out_stride, lse] =
            [Arg::Address(place.out.address), word(place.out.stride), Arg::Address(place.lse.address)];
        let Some(fast) = fast else {
            let (dim, shape) = (word(place.heads.dim), blocks([place.qkv.rows, place.heads.query], 128));
            let reaches = Arg::Address(at[0]);
            let args = [qkv, stride, query_heads, kv_heads, dim, reaches, place.scale(), out, out_stride, lse];
            // SAFETY: as `attend_rows` declares them; there is a reach for each row, within the rows.
            #[allow(unsafe_code)]
            return unsafe { self.driver.launch(&room.kernels.attend_rows, shape, &args) };
        };
        if self.driver.is_hopper() {
            return self.attend_on_hopper(&mut room, place, fast);
        }
        let shape =
            Shape { shared_bytes: shared_bytes_of_tile(fast), ..blocks([tiles, place.heads.kv], 32 * ATTEND_WARPS) };
        let args = [qkv, stride, Arg::Address(at[0]), query_heads, kv_heads, place.scale(), out, out_stride, lse];
        let kernels = room.fastened(&self.driver, fast)?;
        // SAFETY: as `attend` declares them; tiles are of these rows, and its shared memory is what the kernel was made with.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&kernels.attend, shape, &args)
        }
    }

    /// As [`Card::attend_packed`]; overwrites all of `d_qkv`.
    pub(super) fn attend_packed_back(
        &self,
        place: &Attended<'_, D>,
        d_out: &CardRows<D>,
        d_qkv: &CardRows<D>,
    ) -> Result<(), OpsError> {
        let mut room = self.room()?;
        let room = &mut *room;
        let Heads { query, kv, dim } = place.heads;
        let (rows, fast) = (place.qkv.rows, Fast::of(place.heads));
        room.sequences.prepare(&self.driver, place.starts, fast)?;
        if let (Some(fast), true) = (fast, self.driver.is_hopper()) {
            return self.attend_back_on_hopper(room, place, fast, d_out, d_qkv);
        }
        let delta = room.delta.at_least(&self.driver, "sums of rows", rows * query * SINGLE_BYTES)?;
        let [out, out_stride, d] =
            [Arg::Address(place.out.address), word(place.out.stride), Arg::Address(d_out.address)];
        let args = [out, d, out_stride, word(query), word(dim), Arg::Address(delta)];
        // SAFETY: as `deltas` declares them; both hold these rows at one stride, and there is room for a sum of each head.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.launch(&room.kernels.deltas, blocks([rows, query.div_ceil(8)], 256), &args)?;
        }
        let ([qkv, stride], [query_heads, kv_heads]) = (place.qkv(), place.heads());
        let back = [d, out_stride, Arg::Address(place.lse.address), Arg::Address(delta), Arg::Address(d_qkv.address)];
        let at = room.sequences.at;
        let Some(fast) = fast else {
            let front = [qkv, stride, query_heads, kv_heads, word(dim), Arg::Address(at[0]), place.scale()];
            let args = [&front[..], &back].concat();
            // SAFETY: as both declare them; there is a reach for each row, within the rows, and together they write all of
            // `d_qkv`.
            #[allow(unsafe_code)]
            unsafe {
                self.driver.launch(&room.kernels.back_rows, blocks([rows, query], 128), &args)?;
                return self.driver.launch(&room.kernels.back_seen, blocks([rows, kv], 128), &args);
            }
        };
        let (tiles, key_tiles) = (room.sequences.tiles, room.sequences.key_tiles);
        let kernels = room.fastened(&self.driver, fast)?;
        let of_keys = Shape { shared_bytes: shared_bytes_of_keys(fast), ..blocks([key_tiles, kv], 32 * KEY_WARPS) };
        let of_rows = Shape { shared_bytes: shared_bytes_of_queries(fast), ..blocks([tiles, kv], 32 * QUERY_WARPS) };
        for (kernel, shape, at) in [(&kernels.back_keys, of_keys, at[1]), (&kernels.back_queries, of_rows, at[0])] {
            let front = [qkv, stride, Arg::Address(at), query_heads, kv_heads, place.scale()];
            // SAFETY: as both declare them; tiles are of these rows, and shared memory is what the kernels were made with.
            #[allow(unsafe_code)]
            unsafe {
                self.driver.launch(kernel, shape, &[&front[..], &back].concat())?;
            }
        }
        Ok(())
    }
}
