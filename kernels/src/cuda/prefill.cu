//! Causal attention of many new tokens over a paged cache, in the manner of FlashAttention-2 (Dao 2023): products of bf16
//! matrices with f32 sums, an online softmax by powers of two, and copies of keys and values while others are computed on.
//!
//! A block takes a tile of one sequence and all GROUP query heads of one key head: its `32 WARPS` packed rows are
//! `GROUP * token + head`, so that short prompts fill tiles and keys are read once for the group. A step is a page of 64
//! tokens; a warp has 32 packed rows, so that what it loads of keys and values serves twice.
//!
//! Floor: 4 DIM operations a query head and visible token, twice that with what a tile computes above the diagonal at most;
//! 4 DIM bytes of keys and values a token of each tile, so 32 WARPS operations a byte, from L2 where tiles of a sequence run
//! together: arithmetic decides from WARPS 4 on. From shared memory a warp loads 5/8 of a page's keys and values for 32 rows.
//! Tiles of short prompts over long contexts come in several pieces of the context,
//! since they would leave most of a card idle; each adds 8 (DIM + 2) bytes a packed row for its sums. Keys and values lie in shared memory with their 16-byte chunks exchanged by
//! row, so that `ldmatrix` meets no bank twice.
//!
//! Defines: DIM (64 or 128), GROUP (at most 32 WARPS), WARPS. Shared memory: 64 DIM WARPS + 256 DIM bytes.

#define THREADS (32 * WARPS)
#define CHUNKS (DIM / 8)       // of a token's key
#define STEPS (DIM / 16)       // of a product along a head
#define HALF (64 * DIM)        // values of the keys of a page, and of its values

static const u32 ALONE = 0xffffffffu;

// A tile: the first of its rows, how many it has, tokens before the first, its sequence's first page in `pages`; of these
// the pages `begin..end`; where the sums of its first row go, and how many slots further those of the next one.
struct Tile {
    u32 row, rows, past, first_page, begin, end, slot, step;
};

// Where 16 bytes lie: the chunk of a row.
DEVICE u32 place(u32 row, u32 chunk) { return row * DIM + 8 * (chunk ^ (row & 7)); }

// Starts to copy the keys or the values of a page.
DEVICE void start_page(bf16* stage, const bf16* from, u32 tokens) {
#pragma unroll
    for (u32 i = 0; i < 64 * CHUNKS / THREADS; ++i) {
        u32 at = threadIdx.x + i * THREADS, token = at / CHUNKS;
        // What no row may see yet may hold anything, and zero times that must be zero.
        start_copy(stage + place(token, at % CHUNKS), from + 8 * at, token < tokens);
    }
    end_group();
}

KERNEL(THREADS) prefill(const bf16* __restrict__ qkv, u32 stride, const Tile* __restrict__ tiles,
                        const u32* __restrict__ all_pages, const bf16* __restrict__ cache, u64 page_stride, float scale,
                        bf16* __restrict__ out, u32 out_stride, u32 query_heads, float* __restrict__ sums,
                        float2* __restrict__ masses) {
    begin();
    SHARED_BYTES(shared);
    bf16* queries = reinterpret_cast<bf16*>(shared);
    bf16* keys = queries + THREADS * DIM;
    bf16* values = keys + HALF;
    Tile tile = tiles[blockIdx.x];
    const u32* pages = all_pages + tile.first_page;
    cache += (size_t)blockIdx.y * 2 * HALF;
    u32 lane = threadIdx.x % 32, g = lane / 4, t = 2 * (lane % 4);
    u32 packed_rows = tile.rows * GROUP, top_row = threadIdx.x / 32 * 32;
    u32 last = tile.past + tile.rows;

#pragma unroll
    for (u32 i = 0; i < CHUNKS; ++i) {
        u32 at = threadIdx.x + i * THREADS, packed = at / CHUNKS, chunk = at % CHUNKS;
        bool real = packed < packed_rows;
        const bf16* from = qkv + (size_t)(tile.row + packed / GROUP) * stride + (size_t)(blockIdx.y * GROUP + packed % GROUP) * DIM;
        start_copy(queries + place(packed, chunk), (real ? from : qkv) + 8 * chunk, real);
    }
    start_page(keys, cache + (size_t)pages[tile.begin] * page_stride, last - 64 * tile.begin);

    // Of the four packed rows of this lane, 8 apart: how many tokens they see.
    u32 seen[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        u32 packed = top_row + g + 8 * i;
        seen[i] = packed < packed_rows ? tile.past + packed / GROUP + 1 : 0;
    }
    // The tokens that the first and the last row of this warp see.
    u32 warp_first = tile.past + top_row / GROUP + 1;
    u32 warp_last = top_row < packed_rows ? tile.past + (min(top_row + 32, packed_rows) - 1) / GROUP + 1 : 0;

    float mixed[2][DIM / 8][4], most[4], mass[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) most[i] = -INFINITY, mass[i] = 0;
#pragma unroll
    for (u32 m = 0; m < 2; ++m)
#pragma unroll
        for (u32 n = 0; n < DIM / 8; ++n)
#pragma unroll
            for (u32 i = 0; i < 4; ++i) mixed[m][n][i] = 0;

    for (u32 p = tile.begin; p < tile.end; ++p) {
        u32 begin = 64 * p;
        bool works = begin < warp_last;
        wait_for_groups<0>();
        // Keys are there, and nobody reads the values of the page before any more.
        barrier();
        start_page(values, cache + (size_t)pages[p] * page_stride + HALF, last - begin);
        float scores[2][8][4];
        if (works) {
#pragma unroll
            for (u32 m = 0; m < 2; ++m)
#pragma unroll
                for (u32 n = 0; n < 8; ++n)
#pragma unroll
                    for (u32 i = 0; i < 4; ++i) scores[m][n][i] = 0;
#pragma unroll
            for (u32 s = 0; s < STEPS; ++s) {
                u32 query[2][4];
#pragma unroll
                for (u32 m = 0; m < 2; ++m)
                    load_matrices(query[m], queries + place(top_row + 16 * m + lane % 16, 2 * s + lane / 16));
#pragma unroll
                for (u32 n = 0; n < 4; ++n) {
                    // Tokens 16 n and on, 16 values of each: two matrices along the head, then the same 8 tokens on.
                    u32 key[4];
                    load_matrices(key, keys + place(16 * n + 8 * (lane / 16) + lane % 8, 2 * s + lane / 8 % 2));
#pragma unroll
                    for (u32 m = 0; m < 2; ++m) {
                        multiply(scores[m][2 * n], query[m], key[0], key[1]);
                        multiply(scores[m][2 * n + 1], query[m], key[2], key[3]);
                    }
                }
            }
            if (begin + 64 > warp_first) {
#pragma unroll
                for (u32 m = 0; m < 2; ++m)
#pragma unroll
                    for (u32 n = 0; n < 8; ++n)
#pragma unroll
                        for (u32 i = 0; i < 4; ++i)
                            if (begin + 8 * n + t + i % 2 >= seen[2 * m + i / 2]) scores[m][n][i] = -INFINITY;
            }
#pragma unroll
            for (u32 row = 0; row < 4; ++row) {
                u32 m = row / 2, of = 2 * (row % 2);
                float top = most[row];
#pragma unroll
                for (u32 n = 0; n < 8; ++n) top = fmaxf(top, fmaxf(scores[m][n][of], scores[m][n][of + 1]));
                top = fmaxf(top, from_lane_xor(top, 1));
                top = fmaxf(top, from_lane_xor(top, 2));
                // A row that is not there sees nothing, and infinity less infinity is no number.
                float base = top == -INFINITY ? 0.0f : top * scale;
                float kept = power_of_two(most[row] * scale - base), sum = 0;
                most[row] = top;
#pragma unroll
                for (u32 n = 0; n < 8; ++n)
#pragma unroll
                    for (u32 i = of; i < of + 2; ++i) {
                        scores[m][n][i] = power_of_two(scores[m][n][i] * scale - base);
                        sum += scores[m][n][i];
                    }
                mass[row] = mass[row] * kept + sum;
#pragma unroll
                for (u32 n = 0; n < DIM / 8; ++n) {
                    mixed[m][n][of] *= kept;
                    mixed[m][n][of + 1] *= kept;
                }
            }
        }
        wait_for_groups<0>();
        // Values are there, and nobody reads the keys any more.
        barrier();
        if (p + 1 < tile.end) start_page(keys, cache + (size_t)pages[p + 1] * page_stride, last - begin - 64);
        if (works) {
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
                    // 16 tokens and 16 values of each: two matrices along the tokens, then the same 8 values on.
                    u32 value[4];
                    load_transposed(value, values + place(16 * s + lane % 16, 2 * n + lane / 16));
#pragma unroll
                    for (u32 m = 0; m < 2; ++m) {
                        multiply(mixed[m][2 * n], shares[m], value[0], value[1]);
                        multiply(mixed[m][2 * n + 1], shares[m], value[2], value[3]);
                    }
                }
            }
        }
    }
#pragma unroll
    for (u32 row = 0; row < 4; ++row) {
        u32 m = row / 2, of = 2 * (row % 2);
        float sum = mass[row];
        sum += from_lane_xor(sum, 1);
        sum += from_lane_xor(sum, 2);
        u32 packed = top_row + g + 8 * row, token = packed / GROUP, head = blockIdx.y * GROUP + packed % GROUP;
        if (packed >= packed_rows) continue;
        if (tile.slot != ALONE) {
            size_t slot = (size_t)(tile.slot + token * tile.step) * query_heads + head;
            float2* to = reinterpret_cast<float2*>(sums + slot * DIM);
#pragma unroll
            for (u32 n = 0; n < DIM / 8; ++n) to[4 * n + t / 2] = make_float2(mixed[m][n][of], mixed[m][n][of + 1]);
            if (t == 0) masses[slot] = make_float2(most[row] * scale, sum);
            continue;
        }
        float share = 1.0f / sum;
        bf16* to = out + (size_t)(tile.row + token) * out_stride + (size_t)head * DIM + t;
#pragma unroll
        for (u32 n = 0; n < DIM / 8; ++n)
            *reinterpret_cast<u32*>(to + 8 * n) = narrow2(mixed[m][n][of] * share, mixed[m][n][of + 1] * share);
    }
}
