//! Causal attention within packed rows, with the logarithm of each row's sum for the way back (Dao 2023): products of bf16
//! matrices with f32 sums, an online softmax by powers of two, keys and values copied while those before are computed on.
//!
//! A block takes a tile of one sequence and all GROUP query heads of one key head: its `32 WARPS` packed rows are
//! `GROUP * token + head`, so that keys are read once for the group. A step is 64 keys; a warp has 32 packed rows, so that what
//! it loads of keys and values serves two products, and queries stay in shared memory.
//!
//! Floor, by operations: 4 DIM a query head and visible key; a tile reads 4 DIM bytes a key from L2 for 128 WARPS DIM operations,
//! so arithmetic decides. Of a warp's loads from shared memory, 5 are for 16 `mma`, which is below what it needs for them.
//! Two blocks share a processor, so that one computes while the other waits.
//!
//! Defines: DIM (64 or 128), GROUP (at most 32 WARPS), WARPS. Shared memory: (32 WARPS + 256) 2 DIM bytes.

#define THREADS (32 * WARPS)
#define ROWS (32 * WARPS)      // packed rows of a tile
#define CHUNKS (DIM / 8)       // of a head
#define STEPS (DIM / 16)       // of a product along a head
#define HALF (64 * DIM)        // values of the keys of a step, and of its values
#define LOG2_E 1.4426950408889634f

// A tile: the first of its rows, how many it has, and the first of its sequence.
struct Tile {
    u32 row, rows, begin;
};

// Where 16 bytes lie: the chunk of a row, or of a key (values of key t are "key" 64 + t) within a stage.
DEVICE u32 place(u32 row, u32 chunk) { return row * DIM + 8 * (chunk ^ (row & 7)); }

// Starts to copy 64 keys and their values, of which so many are there; zeros for the others.
DEVICE void start_keys(bf16* stage, const bf16* keys, u32 stride, u32 to_values, u32 count) {
    for (u32 at = threadIdx.x; at < 2 * 64 * CHUNKS; at += THREADS) {
        u32 key = at / CHUNKS, chunk = at % CHUNKS;
        bool real = key % 64 < count;
        const bf16* from = keys + (size_t)(real ? key % 64 : 0) * stride + (key < 64 ? 0 : to_values) + 8 * chunk;
        start_copy(stage + place(key, chunk), from, real);
    }
}

// Starts to copy a tile's queries, zeros behind its rows.
DEVICE void start_queries(bf16* queries, const bf16* qkv, u32 stride, const Tile& tile) {
    for (u32 at = threadIdx.x; at < ROWS * CHUNKS; at += THREADS) {
        u32 packed = at / CHUNKS, chunk = at % CHUNKS;
        bool real = packed < tile.rows * GROUP;
        u32 token = real ? packed / GROUP : 0, head = blockIdx.y * GROUP + packed % GROUP;
        start_copy(queries + place(packed, chunk), qkv + (size_t)(tile.row + token) * stride + head * DIM + 8 * chunk, real);
    }
}

KERNEL(THREADS) attend(const bf16* __restrict__ qkv, u32 stride, const Tile* __restrict__ tiles, u32 query_heads, u32 kv_heads,
                       float scale, bf16* __restrict__ out, u32 out_stride, float* __restrict__ lse) {
    begin();
    SHARED_BYTES(shared);
    bf16* queries = reinterpret_cast<bf16*>(shared);
    bf16* stages = queries + ROWS * DIM;
    Tile tile = tiles[blockIdx.x];
    const bf16* keys = qkv + (size_t)tile.begin * stride + (size_t)(query_heads + blockIdx.y) * DIM;
    u32 lane = threadIdx.x % 32, g = lane / 4, t = 2 * (lane % 4), top_row = threadIdx.x / 32 * 32;
    u32 past = tile.row - tile.begin, all = past + tile.rows, steps = (all + 63) / 64, packed_rows = tile.rows * GROUP;
    // The keys that the first and the last row of this warp see, and those of each of the four rows of this lane.
    u32 first_seen = past + top_row / GROUP + 1, seen[4];
    u32 last_seen = top_row < packed_rows ? past + (min(top_row + 32, packed_rows) - 1) / GROUP + 1 : 0;
    float mixed[2][DIM / 8][4], most[4], mass[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        u32 packed = top_row + g + 8 * i;
        seen[i] = packed < packed_rows ? past + packed / GROUP + 1 : 0;
        most[i] = -INFINITY, mass[i] = 0;
    }
#pragma unroll
    for (u32 m = 0; m < 2; ++m)
#pragma unroll
        for (u32 n = 0; n < DIM / 8; ++n)
#pragma unroll
            for (u32 i = 0; i < 4; ++i) mixed[m][n][i] = 0;

    start_queries(queries, qkv, stride, tile);
    start_keys(stages, keys, stride, kv_heads * DIM, all);
    end_group();
    for (u32 step = 0; step < steps; ++step) {
        u32 first = 64 * step;
        bf16* stage = stages + (step % 2) * 2 * HALF;
        if (step + 1 < steps)
            start_keys(stages + ((step + 1) % 2) * 2 * HALF, keys + (size_t)(first + 64) * stride, stride, kv_heads * DIM,
                       all - first - 64);
        // A group each time, empty or not, so that one may be under way while this step's must have come.
        end_group();
        wait_for_groups<1>();
        barrier();
        if (first < last_seen) {
            float scores[2][8][4];
#pragma unroll
            for (u32 m = 0; m < 2; ++m)
#pragma unroll
                for (u32 n = 0; n < 8; ++n)
#pragma unroll
                    for (u32 i = 0; i < 4; ++i) scores[m][n][i] = 0;
#pragma unroll
            for (u32 s = 0; s < STEPS; ++s) {
                u32 left[2][4];
                load_matrices(left[0], queries + place(top_row + lane % 16, 2 * s + lane / 16));
                load_matrices(left[1], queries + place(top_row + 16 + lane % 16, 2 * s + lane / 16));
#pragma unroll
                for (u32 n = 0; n < 4; ++n) {
                    // Keys 16 n and on, 16 values of each: two matrices along the head, then the same 8 keys on.
                    u32 right[4];
                    load_matrices(right, stage + place(16 * n + 8 * (lane / 16) + lane % 8, 2 * s + lane / 8 % 2));
#pragma unroll
                    for (u32 m = 0; m < 2; ++m) {
                        multiply(scores[m][2 * n], left[m], right[0], right[1]);
                        multiply(scores[m][2 * n + 1], left[m], right[2], right[3]);
                    }
                }
            }
            if (first + 64 > first_seen) {
#pragma unroll
                for (u32 m = 0; m < 2; ++m)
#pragma unroll
                    for (u32 n = 0; n < 8; ++n)
#pragma unroll
                        for (u32 i = 0; i < 4; ++i)
                            if (first + 8 * n + t + i % 2 >= seen[2 * m + i / 2]) scores[m][n][i] = -INFINITY;
            }
#pragma unroll
            for (u32 row = 0; row < 4; ++row) {
                u32 m = row / 2, half = row % 2;
                float top = most[row];
#pragma unroll
                for (u32 n = 0; n < 8; ++n) top = fmaxf(top, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
                top = fmaxf(top, from_lane_xor(top, 1));
                top = fmaxf(top, from_lane_xor(top, 2));
                // A row that is not there sees nothing, and infinity less infinity is no number.
                float base = top == -INFINITY ? 0.0f : top * scale;
                float kept = power_of_two(most[row] * scale - base), sum = 0;
                most[row] = top;
#pragma unroll
                for (u32 n = 0; n < 8; ++n)
#pragma unroll
                    for (u32 i = 2 * half; i < 2 * half + 2; ++i) {
                        scores[m][n][i] = power_of_two(scores[m][n][i] * scale - base);
                        sum += scores[m][n][i];
                    }
                mass[row] = mass[row] * kept + sum;
#pragma unroll
                for (u32 n = 0; n < DIM / 8; ++n) {
                    mixed[m][n][2 * half] *= kept;
                    mixed[m][n][2 * half + 1] *= kept;
                }
            }
            // What the first product leaves in a lane is what the second takes from it.
#pragma unroll
            for (u32 s = 0; s < 4; ++s) {
                u32 shares[2][4];
#pragma unroll
                for (u32 m = 0; m < 2; ++m)
#pragma unroll
                    for (u32 r = 0; r < 4; ++r) {
                        const float* pair = &scores[m][2 * s + r / 2][2 * (r % 2)];
                        shares[m][r] = narrow2(pair[0], pair[1]);
                    }
#pragma unroll
                for (u32 n = 0; n < DIM / 16; ++n) {
                    u32 right[4];
                    load_transposed(right, stage + place(64 + 16 * s + lane % 16, 2 * n + lane / 16));
#pragma unroll
                    for (u32 m = 0; m < 2; ++m) {
                        multiply(mixed[m][2 * n], shares[m], right[0], right[1]);
                        multiply(mixed[m][2 * n + 1], shares[m], right[2], right[3]);
                    }
                }
            }
        }
        // The next step's copies overwrite this stage.
        barrier();
    }
#pragma unroll
    for (u32 row = 0; row < 4; ++row) {
        u32 m = row / 2, half = row % 2, packed = top_row + g + 8 * row;
        float sum = mass[row];
        sum += from_lane_xor(sum, 1);
        sum += from_lane_xor(sum, 2);
        if (packed >= packed_rows) continue;
        size_t at = tile.row + packed / GROUP;
        u32 head = blockIdx.y * GROUP + packed % GROUP;
        float share = 1.0f / sum;
        bf16* to = out + at * out_stride + (size_t)head * DIM;
#pragma unroll
        for (u32 n = 0; n < DIM / 8; ++n)
            *reinterpret_cast<u32*>(to + 8 * n + t) =
                narrow2(mixed[m][n][2 * half] * share, mixed[m][n][2 * half + 1] * share);
        if (t == 0) lse[at * query_heads + head] = (most[row] * scale + log2f(sum)) / LOG2_E;
    }
}
