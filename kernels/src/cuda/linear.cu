//! Products of few rows, `out = x Wᵀ + bias`: bf16 in and out, sums in f32. Their time is that of reading W once. W is the left
//! operand of `mma.m16n8k16` (16 outputs) and x the right one (8 rows). A sum does not care about the order of its terms, so
//! a lane's 16 bytes, values `8 t` to `8 t + 7` of 32, serve as the fragments of two products on both sides, and each lane
//! copies into its block's ring the weights that it alone reads; x is copied once for the four warps.
//!
//! Blocks are small, so that those of the next product have room beside them and begin to fetch their weights.
//! Floor: 2 bytes a weight; beside it, from L2, `rows / OUTPUTS` of these for x.

// Defined: ROW_TILES (of 8 rows), OUTPUT_TILES (of 16 outputs, of a warp), STAGES, and SPLITS (parts of a sum, each of a block).
static const u32 CHUNK = 64, WARPS = 4, PIECES = 4 * OUTPUT_TILES;
static const u32 OUTPUTS = 16 * OUTPUT_TILES * WARPS, ROWS = 8 * ROW_TILES;
// Of a stage, in 16 bytes: the weights of all warps, then two halves of all tiles of x.
static const u32 WEIGHTS = WARPS * PIECES * 32, STAGE = WEIGHTS + 2 * ROW_TILES * 32;

// A block takes OUTPUTS outputs, and of the terms of their sums one of SPLITS parts: `blockIdx.x` and `blockIdx.y`.
CLUSTER_KERNEL(128, SPLITS) linear(const bf16* x, u32 x_stride, u32 rows, u32 inputs, const bf16* __restrict__ weight,
                                        u32 weight_stride, u32 outputs, const bf16* __restrict__ bias, bf16* out,
                                        u32 out_stride, float* parts, u32* tickets) {
    let_next_begin();
    SHARED_BYTES(shared);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint4* ring = reinterpret_cast<uint4*>(shared);

    u32 chunks = (inputs + CHUNK - 1) / CHUNK, split = blockIdx.y;
    u32 begin = (u32)((u64)chunks * split / SPLITS), end = (u32)((u64)chunks * (split + 1) / SPLITS);
    u32 upper = OUTPUTS * blockIdx.x + 16 * OUTPUT_TILES * warp + lane / 4, column = 8 * (lane % 4);
    const bf16* from = weight + (size_t)upper * weight_stride + column;

    auto fetch = [&](u32 chunk, u32 stage) {
#pragma unroll
        for (u32 piece = 0; piece < PIECES; ++piece) {
            u32 below = piece / 2 * 8, at = CHUNK * chunk + 32 * (piece % 2);
            bool real = upper + below < outputs && at + column < inputs;
            const bf16* source = from + (size_t)below * weight_stride + at;
            start_weights(ring + stage * STAGE + (warp * PIECES + piece) * 32 + lane, real ? source : weight, real);
        }
    };
    // Lane `4 g + t` reads what was copied for it: 16 bytes of row `g` of a tile.
    auto fetch_rows = [&](u32 chunk, u32 stage) {
#pragma unroll
        for (u32 i = 0; i < 2 * ROW_TILES; i += WARPS) {
            u32 of = i + warp;
            if (of >= 2 * ROW_TILES) break;
            u32 row = of % ROW_TILES * 8 + lane / 4, at = CHUNK * chunk + of / ROW_TILES * 32 + column;
            bool real = row < rows && at < inputs;
            start_copy(ring + stage * STAGE + WEIGHTS + of * 32 + lane, real ? x + (size_t)row * x_stride + at : x, real);
        }
    };

    // The first chunks of weights, which no kernel changes, come while those before this one are at work.
#pragma unroll
    for (u32 stage = 0; stage < STAGES - 1; ++stage)
        if (begin + stage < end) fetch(begin + stage, stage);
    after_previous();
#pragma unroll
    for (u32 stage = 0; stage < STAGES - 1; ++stage) {
        if (begin + stage < end) fetch_rows(begin + stage, stage);
        end_group();
    }

    float c[OUTPUT_TILES][ROW_TILES][4] = {};
    u32 stage = 0, free = STAGES - 1;
    for (u32 chunk = begin; chunk < end; ++chunk) {
        wait_for_groups<STAGES - 2>();
        // Now all have the rows of this chunk, and nobody reads the stage that is free any more.
        barrier();
        if (chunk + STAGES - 1 < end) {
            fetch(chunk + STAGES - 1, free);
            fetch_rows(chunk + STAGES - 1, free);
        }
        end_group();
        const uint4* weights = ring + stage * STAGE + warp * PIECES * 32 + lane;
        const uint4* of_x = ring + stage * STAGE + WEIGHTS + lane;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            u32 first[OUTPUT_TILES][4], second[OUTPUT_TILES][4];
#pragma unroll
            for (u32 of = 0; of < OUTPUT_TILES; ++of) {
                uint4 above = weights[(4 * of + half) * 32], below = weights[(4 * of + 2 + half) * 32];
                first[of][0] = above.x, first[of][1] = below.x, first[of][2] = above.y, first[of][3] = below.y;
                second[of][0] = above.z, second[of][1] = below.z, second[of][2] = above.w, second[of][3] = below.w;
            }
#pragma unroll
            for (u32 tile = 0; tile < ROW_TILES; ++tile) {
                uint4 b = of_x[(half * ROW_TILES + tile) * 32];
#pragma unroll
                for (u32 of = 0; of < OUTPUT_TILES; ++of) {
                    multiply(c[of][tile], first[of], b.x, b.y);
                    multiply(c[of][tile], second[of], b.z, b.w);
                }
            }
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        free = free + 1 == STAGES ? 0 : free + 1;
    }

    // Sums take the place of the ring, once nothing comes any more and nobody reads it.
    wait_for_groups<0>();
    barrier();
    float* sums = reinterpret_cast<float*>(shared);
#pragma unroll
    for (u32 of = 0; of < OUTPUT_TILES; ++of)
#pragma unroll
        for (u32 tile = 0; tile < ROW_TILES; ++tile)
            put_sums(sums + ((warp * OUTPUT_TILES + of) * ROWS + 8 * tile) * SUMS_STRIDE, c[of][tile]);
    Results to = {bias, out, out_stride, rows, outputs, OUTPUTS * blockIdx.x};
    put_together<ROWS, OUTPUTS>(sums, to, parts, tickets);
}
