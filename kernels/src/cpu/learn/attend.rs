//! Causal attention over packed sequences, forward with a running softmax and back with probabilities computed again (Dao
//! 2023), by tiles of queries and keys. Query heads that share a key head go together.
//!
//! It refuses to know rotation and layers. A sequence's tiles begin at its first row, and each sum is one thread's in a fixed
//! order: neither the neighbours in the pack nor the number of threads change a bit.

use super::rows::dot;
use super::tile::{TILE, fold, unfold};
use crate::cpu::panel::Level;
use crate::cpu::product::{Strided, StridedMut, product};
use crate::cpu::rowwise::{add, scale};
use crate::cpu::scratch::singles;
use crate::cpu::team::{Parts, together};
use crate::cpu::turn::turn;
use crate::ops::Heads;

/// Why pieces of scratch are there.
const ROOM: &str = "the room that was asked for is the sum of its pieces";

/// What both ways are about.
#[derive(Clone, Copy)]
pub(super) struct Attention<'a> {
    pub(super) level: Level,
    pub(super) heads: Heads,
    /// Rows of queries, keys and values.
    pub(super) qkv: &'a [f32],
    /// First rows of the sequences, in order, and the number of rows.
    pub(super) starts: &'a [u32],
}

/// What the way forward gave, and the gradient of it.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) out: &'a [f32],
    pub(super) lse: &'a [f32],
    pub(super) d_out: &'a [f32],
}

/// A tile's rows of one sequence.
#[derive(Clone, Copy)]
struct Rows {
    /// The sequence's first row.
    first: usize,
    /// The tile's first row, from there.
    from: usize,
    count: usize,
}

impl Attention<'_> {
    /// Writes what each row attends to, and the logarithms of its sums.
    pub(super) fn forward(&self, out: &mut [f32], lse: &mut [f32]) {
        let (out, lse) = (Parts::new(out), Parts::new(lse));
        let tiles: usize = self.lengths().map(|length| length.div_ceil(TILE)).sum();
        // Later tiles of a sequence see more keys; going from the end, what is last to run is little.
        together(tiles * self.heads.kv, &|number| {
            let tile = self.tile(tiles - 1 - number / self.heads.kv);
            self.forward_tile(tile, number % self.heads.kv, &out, &lse);
        });
    }

    /// Overwrites the gradient of queries, keys and values.
    pub(super) fn backward(&self, given: Given<'_>, d_qkv: &mut [f32]) {
        d_qkv.fill(0.0);
        let d_qkv = Parts::new(d_qkv);
        together((self.starts.len() - 1) * self.heads.kv, &|number| {
            let sequence = number / self.heads.kv;
            let (first, end) = (self.starts[sequence] as usize, self.starts[sequence + 1] as usize);
            self.backward_sequence(given, first, end - first, number % self.heads.kv, &d_qkv);
        });
    }

    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize)
    }

    /// A tile by its number.
    fn tile(&self, mut number: usize) -> Rows {
        let mut first = 0;
        for length in self.lengths() {
            let tiles = length.div_ceil(TILE);
            if number < tiles {
                return Rows { first, from: number * TILE, count: TILE.min(length - number * TILE) };
            }
            (number, first) = (number - tiles, first + length);
        }
        unreachable!("numbers are below the sum of all tiles")
    }

    fn group(&self) -> usize {
        self.heads.query / self.heads.kv
    }

    fn factor(&self) -> f32 {
        1.0 / (self.heads.dim as f32).sqrt()
    }

    /// Where a query head's values begin in a row, a key head's, and a value head's.
    fn offsets(&self, query: usize, kv_head: usize) -> [usize; 3] {
        let Heads { query: queries, kv, dim } = self.heads;
        [query * dim, (queries + kv_head) * dim, (queries + kv + kv_head) * dim]
    }

    /// Rows of one head, from `offset` in each row on.
    fn head(&self, rows: Rows, offset: usize) -> Strided<'_> {
        let stride = self.heads.fused();
        Strided { values: &self.qkv[(rows.first + rows.from) * stride + offset..], stride }
    }

    fn forward_tile(&self, tile: Rows, kv_head: usize, out: &Parts<f32>, lse: &Parts<f32>) {
        let (dim, group) = (self.heads.dim, self.group());
        let lanes = dim * TILE;
        singles((2 + 2 * group) * lanes + TILE * TILE + 2 * group * TILE, |mut scratch| {
            let mut take = |len: usize| scratch.split_off_mut(..len).expect(ROOM);
            let (turned, rows, queries, sums) = (take(lanes), take(lanes), take(group * lanes), take(group * lanes));
            let (scores, most, mass) = (take(TILE * TILE), take(group * TILE), take(group * TILE));
            queries.fill(0.0);
            for (member, queries) in queries.chunks_exact_mut(lanes).enumerate() {
                let [query, ..] = self.offsets(kv_head * group + member, kv_head);
                let into = StridedMut { values: queries, stride: TILE };
                turn(self.level, [tile.count, dim], self.head(tile, query), self.factor(), into);
            }
            sums.fill(0.0);
            most.fill(f32::NEG_INFINITY);
            mass.fill(0.0);
            for from in (0..=tile.from).step_by(TILE) {
                let seen = Rows { from, count: TILE.min(tile.from + tile.count - from), ..tile };
                let [_, key, value] = self.offsets(0, kv_head);
                let values = StridedMut { values: &mut *turned, stride: TILE };
                turn(self.level, [seen.count, dim], self.head(seen, value), 1.0, values);
                for (member, (queries, sums)) in
                    queries.chunks_exact(lanes).zip(sums.chunks_exact_mut(lanes)).enumerate()
                {
                    let of_member = member * TILE..(member + 1) * TILE;
                    let state = [&mut most[of_member.clone()], &mut mass[of_member]];
                    self.mix([tile, seen], self.head(seen, key), queries, turned, scores, state, sums);
                }
            }
            self.finish(tile, kv_head, sums, rows, [most, mass], [out, lse]);
        });
    }

    /// Mixes the values of a tile of keys, `[dim, keys]`, into the sums, `[dim, queries]`.
    #[allow(clippy::too_many_arguments, reason = "one step over the room of one tile")]
    fn mix(
        &self,
        [tile, seen]: [Rows; 2],
        keys: Strided<'_>,
        queries: &[f32],
        values: &[f32],
        scores: &mut [f32],
        [most, mass]: [&mut [f32]; 2],
        sums: &mut [f32],
    ) {
        let dim = self.heads.dim;
        scores.fill(0.0);
        let (queries, values) = (Strided { values: queries, stride: TILE }, Strided { values, stride: TILE });
        let into = StridedMut { values: &mut *scores, stride: TILE };
        product(self.level, [seen.count, dim, TILE], keys, queries, into);
        let ([most], [mass]) = (most.as_chunks_mut().0, mass.as_chunks_mut().0) else {
            unreachable!("both have one number of each query")
        };
        let (of_keys, of_dim) = (&mut scores.as_chunks_mut().0[..seen.count], sums.as_chunks_mut().0);
        fold(self.level, of_keys, seen.from == tile.from, most, mass, of_dim);
        let scores = Strided { values: scores, stride: TILE };
        product(self.level, [dim, seen.count, TILE], values, scores, StridedMut { values: sums, stride: TILE });
    }

    fn finish(
        &self,
        tile: Rows,
        kv_head: usize,
        sums: &[f32],
        rows: &mut [f32],
        [most, mass]: [&[f32]; 2],
        [out, lse]: [&Parts<f32>; 2],
    ) {
        let (dim, group) = (self.heads.dim, self.group());
        for (member, sums) in sums.chunks_exact(dim * TILE).enumerate() {
            let query = kv_head * group + member;
            let into = StridedMut { values: &mut *rows, stride: dim };
            turn(self.level, [dim, tile.count], Strided { values: sums, stride: TILE }, 1.0, into);
            for (row, sums) in rows.chunks_exact_mut(dim).enumerate().take(tile.count) {
                let (at, place) = (member * TILE + row, tile.first + tile.from + row);
                scale(self.level, sums, 1.0 / mass[at]);
                // SAFETY: tasks differ in rows or key heads, so none takes what another does.
                #[allow(unsafe_code)]
                unsafe {
                    out.part(place * self.heads.width() + query * dim, dim).copy_from_slice(sums);
                    lse.part(place * self.heads.query + query, 1)[0] = most[at] + mass[at].ln();
                }
            }
        }
    }

    fn backward_sequence(&self, given: Given<'_>, first: usize, length: usize, kv_head: usize, d_qkv: &Parts<f32>) {
        let dim = self.heads.dim;
        singles(4 * dim * TILE + 3 * TILE * TILE + 2 * TILE, |scratch| {
            let mut room = Room::new(scratch, dim);
            for from in (0..length).step_by(TILE) {
                let tile = Rows { first, from, count: TILE.min(length - from) };
                for query in kv_head * self.group()..(kv_head + 1) * self.group() {
                    self.backward_tile(given, tile, [query, kv_head], &mut room, d_qkv);
                }
            }
        });
    }

    /// One query head's tile of queries with all tiles of keys that it sees.
    fn backward_tile(
        &self,
        given: Given<'_>,
        tile: Rows,
        [query, kv_head]: [usize; 2],
        room: &mut Room<'_>,
        d_qkv: &Parts<f32>,
    ) {
        let dim = self.heads.dim;
        let [of_query, of_key, of_value] = self.offsets(query, kv_head);
        let queries = self.head(tile, of_query);
        let width = self.heads.width();
        let d_out = Strided { values: &given.d_out[(tile.first + tile.from) * width + query * dim..], stride: width };
        self.prepare(given, tile, query, queries, d_out, room);
        for from in (0..=tile.from).step_by(TILE) {
            let seen = Rows { from, count: TILE.min(tile.from + tile.count - from), ..tile };
            let (keys, values) = (self.head(seen, of_key), self.head(seen, of_value));
            self.shares(tile, seen, keys, values, room);
            let shares = Strided { values: room.shares, stride: TILE };
            self.add_product([seen.count, tile.count], shares, d_out, room.sums, [seen.first + from, of_value], d_qkv);
            let d_scores = Strided { values: room.d_scores, stride: TILE };
            self.add_product(
                [seen.count, tile.count],
                d_scores,
                queries,
                room.sums,
                [seen.first + from, of_key],
                d_qkv,
            );
            let turned = StridedMut { values: &mut *room.turned, stride: TILE };
            turn(self.level, [seen.count, tile.count], d_scores, 1.0, turned);
            let turned = Strided { values: room.turned, stride: TILE };
            let into = StridedMut { values: &mut *room.d_queries, stride: dim };
            product(self.level, [tile.count, seen.count, dim], turned, keys, into);
        }
        self.add_rows(room.d_queries, [tile.first + tile.from, tile.count, of_query], d_qkv);
    }

    /// Turns queries and gradients of a tile, and takes from it what each query needs.
    fn prepare(
        &self,
        given: Given<'_>,
        tile: Rows,
        query: usize,
        queries: Strided<'_>,
        d_out: Strided<'_>,
        room: &mut Room<'_>,
    ) {
        let (dim, width) = (self.heads.dim, self.heads.width());
        room.queries.fill(0.0);
        room.d_out.fill(0.0);
        room.d_queries.fill(0.0);
        turn(
            self.level,
            [tile.count, dim],
            queries,
            self.factor(),
            StridedMut { values: &mut *room.queries, stride: TILE },
        );
        turn(self.level, [tile.count, dim], d_out, 1.0, StridedMut { values: &mut *room.d_out, stride: TILE });
        // Of queries beyond the last, no key has a share.
        room.lse.fill(f32::INFINITY);
        room.delta.fill(0.0);
        for row in 0..tile.count {
            let place = tile.first + tile.from + row;
            let of_head = place * width + query * dim..place * width + (query + 1) * dim;
            room.lse[row] = given.lse[place * self.heads.query + query];
            room.delta[row] = dot(self.level, &given.d_out[of_head.clone()], &given.out[of_head]);
        }
    }

    /// Shares and gradients of scores, `[keys, queries]`.
    fn shares(&self, tile: Rows, seen: Rows, keys: Strided<'_>, values: Strided<'_>, room: &mut Room<'_>) {
        let dim = self.heads.dim;
        for (left, right, into) in
            [(keys, &*room.queries, &mut *room.shares), (values, &*room.d_out, &mut *room.d_scores)]
        {
            into.fill(0.0);
            let right = Strided { values: right, stride: TILE };
            product(self.level, [seen.count, dim, TILE], left, right, StridedMut { values: into, stride: TILE });
        }
        let [shares, d_scores] =
            [&mut *room.shares, &mut *room.d_scores].map(|all| &mut all.as_chunks_mut().0[..seen.count]);
        let ([lse], [delta]) = (room.lse.as_chunks().0, room.delta.as_chunks().0) else {
            unreachable!("both have one number of each query")
        };
        unfold(self.level, shares, d_scores, seen.from == tile.from, lse, delta, self.factor());
    }

    /// Adds a product of `rows` rows and `depth` to the gradient of a head, from a row on.
    fn add_product(
        &self,
        [rows, depth]: [usize; 2],
        left: Strided<'_>,
        right: Strided<'_>,
        sums: &mut [f32],
        [first, offset]: [usize; 2],
        d_qkv: &Parts<f32>,
    ) {
        let dim = self.heads.dim;
        sums.fill(0.0);
        product(self.level, [rows, depth, dim], left, right, StridedMut { values: &mut *sums, stride: dim });
        self.add_rows(sums, [first, rows, offset], d_qkv);
    }

    fn add_rows(&self, sums: &[f32], [first, rows, offset]: [usize; 3], d_qkv: &Parts<f32>) {
        let (dim, fused) = (self.heads.dim, self.heads.fused());
        for (row, sums) in sums.chunks_exact(dim).enumerate().take(rows) {
            // SAFETY: tasks differ in sequences or key heads, so none takes what another does.
            #[allow(unsafe_code)]
            let out = unsafe { d_qkv.part((first + row) * fused + offset, dim) };
            add(self.level, out, sums);
        }
    }
}

/// What one tile needs on the way back.
struct Room<'a> {
    /// `[dim, queries]`, scaled.
    queries: &'a mut [f32],
    /// `[dim, queries]`.
    d_out: &'a mut [f32],
    /// `[queries, dim]`.
    d_queries: &'a mut [f32],
    /// `[keys, dim]`.
    sums: &'a mut [f32],
    /// `[keys, queries]`, as are the gradients of scores.
    shares: &'a mut [f32],
    d_scores: &'a mut [f32],
    /// `[queries, keys]`: the gradients of scores again.
    turned: &'a mut [f32],
    /// Of each query.
    lse: &'a mut [f32],
    delta: &'a mut [f32],
}

impl<'a> Room<'a> {
    fn new(mut scratch: &'a mut [f32], dim: usize) -> Self {
        let mut take =
            |len: usize| scratch.split_off_mut(..len).expect("the room that was asked for is the sum of these");
        Self {
            queries: take(dim * TILE),
            d_out: take(dim * TILE),
            d_queries: take(TILE * dim),
            sums: take(TILE * dim),
            shares: take(TILE * TILE),
            d_scores: take(TILE * TILE),
            turned: take(TILE * TILE),
            lse: take(TILE),
            delta: take(TILE),
        }
    }
}
