//! The gradient of queries of causal attention within packed rows (Dao 2023): products of bf16 matrices with f32 sums, keys and
//! values copied while those before are computed on, shares computed again from each row's `lse`.
//!
//! A block takes a tile of one sequence and all GROUP query heads of one key head: its `16 WARPS` packed rows are
//! `GROUP * token + head`, so that keys are read once for the group. A step is 64 keys; a warp has 16 packed rows.
//!
//! Floor, by operations (a tile reads 4 DIM bytes a key from L2 for 96 WARPS DIM operations, so arithmetic decides): 6 DIM a query
//! head and visible key, of which 4 compute again what back_keys computes too: the price of an order that does not depend on
//! which block comes first. A warp's 16 rows take one `ldmatrix` for two `mma`, which bounds it by shared memory at about
//! half of a Hopper's rate.
//!
//! Defines: DIM (64 or 128), GROUP (at most 16 WARPS), WARPS. Shared memory: 512 DIM bytes.

#define THREADS (32 * WARPS)
#define CHUNKS (DIM / 8)       // of a head
#define STEPS (DIM / 16)       // of a product along a head
#define HALF (64 * DIM)        // values of the keys of a step, and of its values
#define LOG2_E 1.4426950408889634f

// A tile: the first of its rows, how many it has, and the first of its sequence.
struct Tile {
    u32 row, rows, begin;
};

// Where 16 bytes lie: the chunk of a key (values of key t are "key" 64 + t) within a stage.
DEVICE u32 place(u32 key, u32 chunk) { return key * DIM + 8 * (chunk ^ (key & 7)); }

// Starts to copy 64 keys and their values, of which so many are there; zeros for the others.
DEVICE void start_keys(bf16* stage, const bf16* keys, u32 stride, u32 to_values, u32 count) {
    for (u32 at = threadIdx.x; at < 2 * 64 * CHUNKS; at += THREADS) {
        u32 key = at / CHUNKS, chunk = at % CHUNKS;
        bool real = key % 64 < count;
        const bf16* from = keys + (size_t)(real ? key % 64 : 0) * stride + (key < 64 ? 0 : to_values) + 8 * chunk;
        start_copy(stage + place(key, chunk), from, real);
    }
}

// The two packed rows of a lane.
struct Rows {
    bool real[2];
    u32 head[2];
    size_t row[2];
    u32 seen[2]; // keys, from the first of the sequence on
};

DEVICE Rows rows_of(const Tile& tile) {
    Rows rows;
    u32 top_row = 16 * (threadIdx.x / 32);
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        u32 packed = top_row + threadIdx.x % 32 / 4 + 8 * i, token = packed / GROUP;
        rows.real[i] = packed < tile.rows * GROUP;
        rows.head[i] = blockIdx.y * GROUP + packed % GROUP;
        rows.row[i] = tile.row + (rows.real[i] ? token : 0);
        rows.seen[i] = rows.real[i] ? tile.row - tile.begin + token + 1 : 0;
    }
    return rows;
}

// Their values as the left side of products.
DEVICE void load_left(u32 (&left)[STEPS][4], const bf16* from, u32 stride, const Rows& rows) {
    u32 t = 2 * (threadIdx.x % 4);
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s)
#pragma unroll
        for (u32 r = 0; r < 4; ++r) {
            const bf16* pair = from + rows.row[r % 2] * stride + (size_t)rows.head[r % 2] * DIM + 16 * s + t + 8 * (r / 2);
            left[s][r] = rows.real[r % 2] ? *reinterpret_cast<const u32*>(pair) : 0;
        }
}

// The keys that the first and the last row of this warp see.
struct Seen {
    u32 first, last;
};

DEVICE Seen seen_of(const Tile& tile) {
    u32 past = tile.row - tile.begin, top_row = 16 * (threadIdx.x / 32), packed_rows = tile.rows * GROUP;
    Seen seen;
    seen.first = past + top_row / GROUP + 1;
    seen.last = top_row < packed_rows ? past + (min(top_row + 16, packed_rows) - 1) / GROUP + 1 : 0;
    return seen;
}

// The gradient of a tile's queries: shares are computed again from `lse`, 32 keys at a time.
KERNEL(THREADS) back_queries(const bf16* __restrict__ qkv, u32 stride, const Tile* __restrict__ tiles, u32 query_heads,
                             u32 kv_heads, float scale, const bf16* __restrict__ d_out, u32 out_stride,
                             const float* __restrict__ lse, const float* __restrict__ delta, bf16* __restrict__ d_qkv) {
    begin();
    SHARED_BYTES(shared);
    bf16* stages = reinterpret_cast<bf16*>(shared);
    Tile tile = tiles[blockIdx.x];
    const bf16* keys = qkv + (size_t)tile.begin * stride + (size_t)(query_heads + blockIdx.y) * DIM;
    u32 lane = threadIdx.x % 32, t = 2 * (lane % 4), all = tile.row + tile.rows - tile.begin, steps = (all + 63) / 64;
    Rows rows = rows_of(tile);
    Seen seen = seen_of(tile);
    u32 query[STEPS][4], d[STEPS][4];
    load_left(query, qkv, stride, rows);
    load_left(d, d_out, out_stride, rows);
    float base[2], less[2], sums[DIM / 8][4];
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        size_t at = rows.row[i] * query_heads + rows.head[i];
        base[i] = rows.real[i] ? lse[at] * LOG2_E : 0.0f;
        less[i] = rows.real[i] ? delta[at] : 0.0f;
    }
#pragma unroll
    for (u32 n = 0; n < DIM / 8; ++n)
#pragma unroll
        for (u32 i = 0; i < 4; ++i) sums[n][i] = 0;

    start_keys(stages, keys, stride, kv_heads * DIM, all);
    end_group();
    for (u32 step = 0; step < steps; ++step) {
        bf16* stage = stages + (step % 2) * 2 * HALF;
        if (step + 1 < steps)
            start_keys(stages + ((step + 1) % 2) * 2 * HALF, keys + (size_t)(64 * step + 64) * stride, stride, kv_heads * DIM,
                       all - 64 * step - 64);
        end_group();
        wait_for_groups<1>();
        barrier();
#pragma unroll 1
        for (u32 half = 0; half < 2; ++half) {
            u32 first = 64 * step + 32 * half;
            if (first >= seen.last) continue;
            float shares[4][4], d_shares[4][4];
#pragma unroll
            for (u32 n = 0; n < 4; ++n)
#pragma unroll
                for (u32 i = 0; i < 4; ++i) shares[n][i] = d_shares[n][i] = 0;
#pragma unroll
            for (u32 s = 0; s < STEPS; ++s)
#pragma unroll
                for (u32 n = 0; n < 2; ++n) {
                    u32 key = 32 * half + 16 * n + 8 * (lane / 16) + lane % 8, chunk = 2 * s + lane / 8 % 2, right[4];
                    load_matrices(right, stage + place(key, chunk));
                    multiply(shares[2 * n], query[s], right[0], right[1]);
                    multiply(shares[2 * n + 1], query[s], right[2], right[3]);
                    load_matrices(right, stage + place(64 + key, chunk));
                    multiply(d_shares[2 * n], d[s], right[0], right[1]);
                    multiply(d_shares[2 * n + 1], d[s], right[2], right[3]);
                }
#pragma unroll
            for (u32 n = 0; n < 4; ++n)
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    float share = power_of_two(shares[n][i] * scale - base[i / 2]);
                    bool sees = first + 8 * n + t + i % 2 < rows.seen[i / 2];
                    shares[n][i] = sees ? share * (d_shares[n][i] - less[i / 2]) : 0.0f;
                }
#pragma unroll
            for (u32 s = 0; s < 2; ++s) {
                u32 left[4];
#pragma unroll
                for (u32 r = 0; r < 4; ++r) {
                    const float* pair = &shares[2 * s + r / 2][2 * (r % 2)];
                    left[r] = narrow2(pair[0], pair[1]);
                }
#pragma unroll
                for (u32 n = 0; n < DIM / 16; ++n) {
                    u32 right[4];
                    load_transposed(right, stage + place(32 * half + 16 * s + lane % 16, 2 * n + lane / 16));
                    multiply(sums[2 * n], left, right[0], right[1]);
                    multiply(sums[2 * n + 1], left, right[2], right[3]);
                }
            }
        }
        barrier();
    }
    float factor = scale / LOG2_E;
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        if (!rows.real[half]) continue;
        bf16* to = d_qkv + rows.row[half] * stride + (size_t)rows.head[half] * DIM;
#pragma unroll
        for (u32 n = 0; n < DIM / 8; ++n)
            *reinterpret_cast<u32*>(to + 8 * n + t) = narrow2(sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor);
    }
}
