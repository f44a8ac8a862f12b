//! The gradients of keys and values of causal attention within packed rows (Dao 2023): a block takes KEYS keys of one key head
//! and goes over all rows that see them, those of the head's GROUP query heads packed as `GROUP * token + head`, so that the
//! group is summed where it is, in `f32` and in order. A warp has 16 keys; products are transposed, `[keys, rows]`, so that what
//! two of them leave in a lane is what the other two take from it.
//!
//! Floor, by operations: 8 DIM a query head and visible key; a step of 64 packed rows brings 256 DIM bytes from L2 for 512
//! KEYS DIM operations, so arithmetic decides. Of a warp's loads from shared memory, 5 are for 8 `mma`, which bounds it at less
//! than half of a Hopper's rate. Two blocks share a processor, so that one computes while the other waits.
//!
//! Defines: DIM (64 or 128), GROUP, WARPS. Shared memory: (32 WARPS + 256) 2 DIM bytes and 1,024.

#define THREADS (32 * WARPS)
#define KEYS (16 * WARPS)
#define ROWS 64                // packed rows of a step
#define CHUNKS (DIM / 8)       // of a head
#define STEPS (DIM / 16)       // of a product along a head
#define STAGE (2 * ROWS * DIM) // values of a step's queries, and of their gradients
#define LOG2_E 1.4426950408889634f

// Keys of one sequence: the first row, how many rows, and the one after the sequence's last.
struct Keys {
    u32 row, rows, end;
};

// Where 16 bytes lie: the chunk of a row within some rows.
DEVICE u32 place(u32 row, u32 chunk) { return row * DIM + 8 * (chunk ^ (row & 7)); }

// What is read of the rows that see the keys.
struct Source {
    const bf16* qkv;
    const bf16* d_out;
    const float* lse;
    const float* delta;
    u32 stride, out_stride, query_heads, first, end;
};

// Starts to copy 64 packed rows of queries and of the gradients of what they gave; zeros behind the end.
DEVICE void start_rows(bf16* stage, const Source& source, u32 step) {
    for (u32 at = threadIdx.x; at < 2 * ROWS * CHUNKS; at += THREADS) {
        u32 local = at / CHUNKS, chunk = at % CHUNKS, packed = ROWS * step + local % ROWS;
        bool real = packed < source.end;
        if (!real) packed = 0;
        size_t row = source.first + packed / GROUP, of_head = (size_t)(blockIdx.y * GROUP + packed % GROUP) * DIM + 8 * chunk;
        const bf16* from = local < ROWS ? source.qkv + row * source.stride + of_head
                                        : source.d_out + row * source.out_stride + of_head;
        start_copy(stage + place(local, chunk), from, real);
    }
}

// What is taken from scores and from gradients of shares. A row that is not there has no share.
DEVICE float2 bases(const Source& source, u32 packed) {
    if (packed >= source.end) return make_float2(INFINITY, 0);
    size_t at = (size_t)(source.first + packed / GROUP) * source.query_heads + blockIdx.y * GROUP + packed % GROUP;
    return make_float2(source.lse[at] * LOG2_E, source.delta[at]);
}

KERNEL(THREADS) back_keys(const bf16* __restrict__ qkv, u32 stride, const Keys* __restrict__ all, u32 query_heads,
                          u32 kv_heads, float scale, const bf16* __restrict__ d_out, u32 out_stride,
                          const float* __restrict__ lse, const float* __restrict__ delta, bf16* __restrict__ d_qkv) {
    begin();
    SHARED_BYTES(shared);
    bf16* keys = reinterpret_cast<bf16*>(shared);
    bf16* stages = keys + 2 * KEYS * DIM;
    float2* rooms = reinterpret_cast<float2*>(stages + 2 * STAGE);
    Keys tile = all[blockIdx.x];
    u32 lane = threadIdx.x % 32, g = lane / 4, t = 2 * (lane % 4), own = 16 * (threadIdx.x / 32);
    Source source = {qkv, d_out, lse, delta, stride, out_stride, query_heads, tile.row, (tile.end - tile.row) * GROUP};
    u32 steps = (source.end + ROWS - 1) / ROWS;
    size_t to_values = (size_t)kv_heads * DIM, of_keys = (size_t)(query_heads + blockIdx.y) * DIM;

    // Keys, and behind them their values; zeros behind the sequence.
    for (u32 at = threadIdx.x; at < 2 * KEYS * CHUNKS; at += THREADS) {
        u32 key = at / CHUNKS, chunk = at % CHUNKS;
        bool real = key % KEYS < tile.rows;
        const bf16* from = qkv + (size_t)(tile.row + (real ? key % KEYS : 0)) * stride + of_keys + 8 * chunk;
        start_copy(keys + place(key, chunk), from + (key < KEYS ? 0 : to_values), real);
    }
    start_rows(stages, source, 0);
    end_group();
    if (threadIdx.x < ROWS) rooms[threadIdx.x] = bases(source, threadIdx.x);

    float d_keys[DIM / 8][4], d_values[DIM / 8][4];
#pragma unroll
    for (u32 n = 0; n < DIM / 8; ++n)
#pragma unroll
        for (u32 i = 0; i < 4; ++i) d_keys[n][i] = d_values[n][i] = 0;

    for (u32 step = 0; step < steps; ++step) {
        const bf16* stage = stages + (step % 2) * STAGE;
        const float2* room = rooms + (step % 2) * ROWS;
        float2 next = make_float2(0, 0);
        if (step + 1 < steps) {
            start_rows(stages + ((step + 1) % 2) * STAGE, source, step + 1);
            if (threadIdx.x < ROWS) next = bases(source, ROWS * (step + 1) + threadIdx.x);
        }
        end_group();
        wait_for_groups<1>();
        barrier();
#pragma unroll 1
        for (u32 half = 0; half < 2; ++half) {
            u32 first = ROWS * step + 32 * half;
            // Rows of which even the last comes before all keys of this warp see none of them.
            if ((first + 31) / GROUP < own || first >= source.end) continue;
            float shares[4][4], d_shares[4][4];
#pragma unroll
            for (u32 n = 0; n < 4; ++n)
#pragma unroll
                for (u32 i = 0; i < 4; ++i) shares[n][i] = d_shares[n][i] = 0;
#pragma unroll
            for (u32 s = 0; s < STEPS; ++s) {
                u32 left[4], right[4], chunk = 2 * s + lane / 8 % 2;
                load_matrices(left, keys + place(own + lane % 16, 2 * s + lane / 16));
#pragma unroll
                for (u32 n = 0; n < 2; ++n) {
                    load_matrices(right, stage + place(32 * half + 16 * n + 8 * (lane / 16) + lane % 8, chunk));
                    multiply(shares[2 * n], left, right[0], right[1]);
                    multiply(shares[2 * n + 1], left, right[2], right[3]);
                }
                load_matrices(left, keys + place(KEYS + own + lane % 16, 2 * s + lane / 16));
#pragma unroll
                for (u32 n = 0; n < 2; ++n) {
                    load_matrices(right, stage + place(ROWS + 32 * half + 16 * n + 8 * (lane / 16) + lane % 8, chunk));
                    multiply(d_shares[2 * n], left, right[0], right[1]);
                    multiply(d_shares[2 * n + 1], left, right[2], right[3]);
                }
            }
            bool all_seen = first / GROUP >= own + 15;
#pragma unroll
            for (u32 n = 0; n < 4; ++n)
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    u32 local = 8 * n + t + i % 2;
                    float2 base = room[32 * half + local];
                    bool sees = all_seen || (first + local) / GROUP >= own + g + 8 * (i / 2);
                    float share = sees ? power_of_two(shares[n][i] * scale - base.x) : 0.0f;
                    shares[n][i] = share;
                    d_shares[n][i] = share * (d_shares[n][i] - base.y);
                }
#pragma unroll
            for (u32 s = 0; s < 2; ++s) {
                u32 left[4], d_left[4], right[4];
#pragma unroll
                for (u32 r = 0; r < 4; ++r) {
                    const float* pair = &shares[2 * s + r / 2][2 * (r % 2)];
                    left[r] = narrow2(pair[0], pair[1]);
                    pair = &d_shares[2 * s + r / 2][2 * (r % 2)];
                    d_left[r] = narrow2(pair[0], pair[1]);
                }
#pragma unroll
                for (u32 n = 0; n < DIM / 16; ++n) {
                    u32 row = 32 * half + 16 * s + lane % 16;
                    load_transposed(right, stage + place(ROWS + row, 2 * n + lane / 16));
                    multiply(d_values[2 * n], left, right[0], right[1]);
                    multiply(d_values[2 * n + 1], left, right[2], right[3]);
                    load_transposed(right, stage + place(row, 2 * n + lane / 16));
                    multiply(d_keys[2 * n], d_left, right[0], right[1]);
                    multiply(d_keys[2 * n + 1], d_left, right[2], right[3]);
                }
            }
        }
        if (threadIdx.x < ROWS) rooms[(step + 1) % 2 * ROWS + threadIdx.x] = next;
        // The next step's copies overwrite this stage.
        barrier();
    }
    float factor = scale / LOG2_E;
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        u32 key = own + g + 8 * i;
        if (key >= tile.rows) continue;
        bf16* to = d_qkv + (size_t)(tile.row + key) * stride + of_keys;
#pragma unroll
        for (u32 n = 0; n < DIM / 8; ++n) {
            *reinterpret_cast<u32*>(to + 8 * n + t) = narrow2(d_keys[n][2 * i] * factor, d_keys[n][2 * i + 1] * factor);
            *reinterpret_cast<u32*>(to + to_values + 8 * n + t) = narrow2(d_values[n][2 * i], d_values[n][2 * i + 1]);
        }
    }
}
