//! Causal attention of many new tokens over a paged cache, in the manner of FlashAttention-2 (Dao 2023): products of bf16
//! matrices with f32 sums, an online softmax by powers of two, and the next page copied while one is computed on.
//!
//! A block takes a tile of one sequence and all GROUP query heads of one key head: its `16 WARPS` packed rows are
//! `GROUP * token + head`, so that short prompts fill tiles and keys are read once for the group. A step is a page of 64
//! tokens; a warp has 16 packed rows.
//!
//! Floor: 4 DIM operations a query head and visible token, twice that with what a tile computes above the diagonal at most;
//! 4 DIM bytes of keys and values a token of each tile, so 16 WARPS operations a byte, from L2 where tiles of a sequence run
//! together: arithmetic decides from WARPS 8 on. Tiles of short prompts over long contexts come in several pieces of the context,
//! since they would leave most of a card idle; each adds 8 (DIM + 2) bytes a packed row for its sums. Keys and values lie in shared memory with their 16-byte chunks exchanged by
//! row, so that `ldmatrix` meets no bank twice.
//!
//! Defines: DIM (64 or 128), GROUP (at most 16 WARPS), WARPS. Shared memory: 512 DIM bytes.

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

// Where 16 bytes lie: the chunk of a token (values of token t are "token" 64 + t) within a stage.
DEVICE u32 place(u32 token, u32 chunk) { return token * DIM + 8 * (chunk ^ (token & 7)); }

DEVICE void start_page(bf16* stage, const bf16* page, u32 tokens) {
    for (u32 at = threadIdx.x; at < 2 * 64 * CHUNKS; at += THREADS) {
        u32 token = at / CHUNKS, chunk = at % CHUNKS;
        // What no row may see yet may hold anything, and zero times that must be zero.
        start_copy(stage + place(token, chunk), page + 8 * at, token % 64 < tokens);
    }
}

KERNEL(THREADS) prefill(const bf16* __restrict__ qkv, u32 stride, const Tile* __restrict__ tiles,
                        const u32* __restrict__ all_pages, const bf16* __restrict__ cache, u64 page_stride, float scale,
                        bf16* __restrict__ out, u32 out_stride, u32 query_heads, float* __restrict__ sums,
                        float2* __restrict__ masses) {
    begin();
    SHARED_BYTES(shared);
    bf16* stages = reinterpret_cast<bf16*>(shared);
    Tile tile = tiles[blockIdx.x];
    const u32* pages = all_pages + tile.first_page;
    cache += (size_t)blockIdx.y * 2 * HALF;
    u32 lane = threadIdx.x % 32, g = lane / 4, t = 2 * (lane % 4);
    u32 packed_rows = tile.rows * GROUP, top_row = 16 * (threadIdx.x / 32);
    u32 last = tile.past + tile.rows;
    bool works = top_row < packed_rows;

    // Of the two packed rows of this lane: where they are, and how many tokens they see.
    const bf16* from[2];
    bf16* to[2];
    size_t slot[2];
    u32 seen[2];
    bool real[2];
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        u32 packed = top_row + g + 8 * i, token = packed / GROUP, head = blockIdx.y * GROUP + packed % GROUP;
        real[i] = packed < packed_rows;
        seen[i] = real[i] ? tile.past + token + 1 : 0;
        size_t row = tile.row + (real[i] ? token : 0);
        from[i] = qkv + row * stride + (size_t)head * DIM;
        to[i] = out + row * out_stride + (size_t)head * DIM;
        slot[i] = (size_t)(tile.slot + token * tile.step) * query_heads + head;
    }
    u32 query[STEPS][4];
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s)
#pragma unroll
        for (u32 r = 0; r < 4; ++r) {
            const bf16* pair = from[r % 2] + 16 * s + t + 8 * (r / 2);
            query[s][r] = real[r % 2] ? *reinterpret_cast<const u32*>(pair) : 0;
        }
    // The tokens that the first and the last row of this warp see.
    u32 warp_first = tile.past + top_row / GROUP + 1;
    u32 warp_last = works ? tile.past + (min(top_row + 16, packed_rows) - 1) / GROUP + 1 : 0;

    float mixed[DIM / 8][4], most[2] = {-INFINITY, -INFINITY}, mass[2] = {0, 0};
#pragma unroll
    for (u32 n = 0; n < DIM / 8; ++n)
#pragma unroll
        for (u32 i = 0; i < 4; ++i) mixed[n][i] = 0;

    start_page(stages + (tile.begin % 2) * 2 * HALF, cache + (size_t)pages[tile.begin] * page_stride, last - 64 * tile.begin);
    end_group();
    for (u32 p = tile.begin; p < tile.end; ++p) {
        u32 begin = 64 * p;
        bf16* stage = stages + (p % 2) * 2 * HALF;
        if (p + 1 < tile.end)
            start_page(stages + ((p + 1) % 2) * 2 * HALF, cache + (size_t)pages[p + 1] * page_stride, last - begin - 64);
        // A group each time, empty or not, so that one may be under way while this page's must have come.
        end_group();
        wait_for_groups<1>();
        barrier();
        if (begin < warp_last) {
            float scores[8][4];
#pragma unroll
            for (u32 n = 0; n < 8; ++n)
#pragma unroll
                for (u32 i = 0; i < 4; ++i) scores[n][i] = 0;
#pragma unroll
            for (u32 s = 0; s < STEPS; ++s)
#pragma unroll
                for (u32 n = 0; n < 4; ++n) {
                    // Tokens 16 n and on, 16 values of each: two matrices along the head, then the same 8 tokens on.
                    u32 keys[4];
                    load_matrices(keys, stage + place(16 * n + 8 * (lane / 16) + lane % 8, 2 * s + lane / 8 % 2));
                    multiply(scores[2 * n], query[s], keys[0], keys[1]);
                    multiply(scores[2 * n + 1], query[s], keys[2], keys[3]);
                }
            if (begin + 64 > warp_first) {
#pragma unroll
                for (u32 n = 0; n < 8; ++n)
#pragma unroll
                    for (u32 i = 0; i < 4; ++i)
                        if (begin + 8 * n + t + i % 2 >= seen[i / 2]) scores[n][i] = -INFINITY;
            }
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                float top = most[half];
#pragma unroll
                for (u32 n = 0; n < 8; ++n) top = fmaxf(top, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
                top = fmaxf(top, from_lane_xor(top, 1));
                top = fmaxf(top, from_lane_xor(top, 2));
                // A row that is not there sees nothing, and infinity less infinity is no number.
                float base = top == -INFINITY ? 0.0f : top * scale;
                float kept = power_of_two(most[half] * scale - base), sum = 0;
                most[half] = top;
#pragma unroll
                for (u32 n = 0; n < 8; ++n)
#pragma unroll
                    for (u32 i = 2 * half; i < 2 * half + 2; ++i) {
                        scores[n][i] = power_of_two(scores[n][i] * scale - base);
                        sum += scores[n][i];
                    }
                mass[half] = mass[half] * kept + sum;
#pragma unroll
                for (u32 n = 0; n < DIM / 8; ++n) {
                    mixed[n][2 * half] *= kept;
                    mixed[n][2 * half + 1] *= kept;
                }
            }
            // What the first product leaves in a lane is what the second takes from it.
#pragma unroll
            for (u32 s = 0; s < 4; ++s) {
                u32 shares[4];
#pragma unroll
                for (u32 r = 0; r < 4; ++r) {
                    const float* pair = &scores[2 * s + r / 2][2 * (r % 2)];
                    shares[r] = narrow2(pair[0], pair[1]);
                }
#pragma unroll
                for (u32 n = 0; n < DIM / 16; ++n) {
                    // 16 tokens and 16 values of each: two matrices along the tokens, then the same 8 values on.
                    u32 values[4];
                    load_transposed(values, stage + place(64 + 16 * s + lane % 16, 2 * n + lane / 16));
                    multiply(mixed[2 * n], shares, values[0], values[1]);
                    multiply(mixed[2 * n + 1], shares, values[2], values[3]);
                }
            }
        }
        // The next step's copies overwrite this stage.
        barrier();
    }
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        float sum = mass[half];
        sum += from_lane_xor(sum, 1);
        sum += from_lane_xor(sum, 2);
        if (!real[half]) continue;
        if (tile.slot != ALONE) {
            float2* of_row = reinterpret_cast<float2*>(sums + slot[half] * DIM);
#pragma unroll
            for (u32 n = 0; n < DIM / 8; ++n)
                of_row[4 * n + t / 2] = make_float2(mixed[n][2 * half], mixed[n][2 * half + 1]);
            if (t == 0) masses[slot[half]] = make_float2(most[half] * scale, sum);
            continue;
        }
        float share = 1.0f / sum;
#pragma unroll
        for (u32 n = 0; n < DIM / 8; ++n)
            *reinterpret_cast<u32*>(to[half] + 8 * n + t) =
                narrow2(mixed[n][2 * half] * share, mixed[n][2 * half + 1] * share);
    }
}
