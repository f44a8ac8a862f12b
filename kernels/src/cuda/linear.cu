//! Products of few rows, `out = x Wᵀ + bias`: bf16 in and out, sums in f32. Their time is that of reading W once, so all is made
//! for a stream of weights that never stops: as many blocks as multiprocessors, each with an equal share of all tiles' chunks,
//! one behind the other, and a ring in shared memory that is filled across the ends of tiles. It takes less than half
//! of shared memory, so that the next product's blocks fill theirs while these end.
//!
//! W is the left operand of `mma.m16n8k16` (16 outputs) and x the right one (8 rows). A sum does not care about the order of its
//! terms, so a lane's 16 bytes, values `8 t` to `8 t + 7` of 32, serve as the fragments of two products on both sides, and
//! each lane copies the weights that it alone reads. Tiles at the ends of shares are sums of several blocks, which whichever
//! comes last adds in their order. Floor: 2 bytes a weight; x is `rows / 128` of these, from L2.

// Defined: ROW_TILES (of 8 rows) and STAGES.
static const u32 CHUNK = 64, PIECES = 4, WARPS = 8, OUTPUTS = 16 * WARPS;
// Of a stage, in 16 bytes: the weights of all warps, then two halves of all tiles of x.
static const u32 WEIGHTS = WARPS * PIECES * 32, STAGE = WEIGHTS + 2 * ROW_TILES * 32;

// A place in the stream: chunk by chunk of tile by tile.
struct Item {
    u32 tile, chunk;
};

DEVICE void step(Item& place, u32 chunks) {
    if (++place.chunk == chunks) place.chunk = 0, ++place.tile;
}

// The block that has an item of the stream, where block `b` begins at `items * b / blocks`.
DEVICE u32 block_of(u32 item, u32 items, u32 blocks) { return (u32)((((u64)item + 1) * blocks - 1) / items); }

// Sums of a tile as its block holds them: lane `4 g + t` of a warp has outputs `g` and `g + 8` of rows `2 t` and `2 t + 1`.
struct Sums {
    float of[ROW_TILES][4];
};

struct Results {
    const bf16* bias;
    bf16* out;
    u32 stride, rows, outputs;
};

DEVICE void put_results(const Results& to, u32 tile, const Sums& sums) {
    u32 lane = threadIdx.x % 32, first = OUTPUTS * tile + 16 * (threadIdx.x / 32) + lane / 4;
#pragma unroll
    for (u32 i = 0; i < 4 * ROW_TILES; ++i) {
        u32 output = first + i % 4 / 2 * 8, row = i / 4 * 8 + 2 * (lane % 4) + i % 2;
        if (output >= to.outputs || row >= to.rows) continue;
        float bias = to.bias ? widen(to.bias[output]) : 0.0f;
        to.out[(size_t)row * to.stride + output] = narrow(sums.of[i / 4][i % 4] + bias);
    }
}

// Of block `b`, its first tile's sums are part `2 b`, and its last tile's, where that is another, part `2 b + 1`.
DEVICE float4* part_of(float4* parts, u32 part) { return parts + (size_t)part * ROW_TILES * 32 * WARPS + threadIdx.x; }

DEVICE void put_part(float4* parts, u32 part, const Sums& sums) {
    float4* to = part_of(parts, part);
#pragma unroll
    for (u32 tile = 0; tile < ROW_TILES; ++tile)
        to[tile * 32 * WARPS] = make_float4(sums.of[tile][0], sums.of[tile][1], sums.of[tile][2], sums.of[tile][3]);
}

// Adds a tile's parts, those of blocks `first` to `last`; it is the last tile of `first` and the first of the others.
DEVICE void add_parts(float4* parts, u32 first, u32 last, bool only_of_first, Sums& sums) {
    sums = {};
    for (u32 block = first; block <= last; ++block) {
        const float4* from = part_of(parts, 2 * block + (block == first && !only_of_first));
#pragma unroll
        for (u32 tile = 0; tile < ROW_TILES; ++tile) {
            float4 part = of_others(from + tile * 32 * WARPS);
            sums.of[tile][0] += part.x, sums.of[tile][1] += part.y;
            sums.of[tile][2] += part.z, sums.of[tile][3] += part.w;
        }
    }
}

// `parts` has room for the parts of all blocks, and `tickets` a zero for each block, which is zero again when the kernel has ended.
KERNEL(256) linear(const bf16* x, u32 x_stride, u32 rows, u32 inputs, const bf16* __restrict__ weight, u32 weight_stride,
                   u32 outputs, const bf16* __restrict__ bias, bf16* out, u32 out_stride, u32 blocks, float4* parts,
                   u32* tickets) {
    let_next_begin();
    SHARED_BYTES(shared);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = 8 * (lane % 4);
    uint4* ring = reinterpret_cast<uint4*>(shared) + lane;

    u32 chunks = (inputs + CHUNK - 1) / CHUNK, items = (outputs + OUTPUTS - 1) / OUTPUTS * chunks;
    u32 begin = (u32)((u64)items * blockIdx.x / blocks), end = (u32)((u64)items * (blockIdx.x + 1) / blocks);

    auto fetch = [&](Item at, u32 stage) {
        u32 upper = OUTPUTS * at.tile + 16 * warp + lane / 4, term = CHUNK * at.chunk + column;
        const bf16* from = weight + (size_t)upper * weight_stride + term;
#pragma unroll
        for (u32 piece = 0; piece < PIECES; ++piece) {
            u32 below = piece / 2 * 8, right = 32 * (piece % 2);
            bool real = upper + below < outputs && term + right < inputs;
            const bf16* source = from + (size_t)below * weight_stride + right;
            start_weights(ring + stage * STAGE + (warp * PIECES + piece) * 32, real ? source : weight, real);
        }
    };
    // Lane `4 g + t` copies for lane `4 g + t`: 16 bytes of row `g` of a tile.
    auto fetch_rows = [&](Item at, u32 stage) {
        if (warp >= 2 * ROW_TILES) return;
        u32 row = warp % ROW_TILES * 8 + lane / 4, term = CHUNK * at.chunk + warp / ROW_TILES * 32 + column;
        bool real = row < rows && term < inputs;
        start_copy(ring + stage * STAGE + WEIGHTS + warp * 32, real ? x + (size_t)row * x_stride + term : x, real);
    };

    // The first chunks of weights, which no kernel changes, come while those before this one are at work.
    Item here = {begin / chunks, begin % chunks}, ahead = here;
#pragma unroll
    for (u32 stage = 0; stage < STAGES - 1; ++stage) {
        if (begin + stage < end) fetch(ahead, stage);
        step(ahead, chunks);
    }
    after_previous();
    ahead = here;
#pragma unroll
    for (u32 stage = 0; stage < STAGES - 1; ++stage) {
        if (begin + stage < end) fetch_rows(ahead, stage);
        step(ahead, chunks);
        end_group();
    }

    Results to = {bias, out, out_stride, rows, outputs};
    Sums sums = {};
    u32 stage = 0, free = STAGES - 1, first_tile = here.tile;
    for (u32 item = begin; item < end; ++item) {
        wait_for_groups<STAGES - 2>();
        // Now all have the rows of this chunk, and nobody reads the stage that is free any more.
        barrier();
        if (item + STAGES - 1 < end) {
            fetch(ahead, free);
            fetch_rows(ahead, free);
            step(ahead, chunks);
        }
        end_group();
        const uint4 *weights = ring + stage * STAGE + warp * PIECES * 32, *of_x = ring + stage * STAGE + WEIGHTS;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            uint4 above = weights[half * 32], below = weights[(2 + half) * 32];
            u32 first[4] = {above.x, below.x, above.y, below.y}, second[4] = {above.z, below.z, above.w, below.w};
#pragma unroll
            for (u32 tile = 0; tile < ROW_TILES; ++tile) {
                uint4 b = of_x[(half * ROW_TILES + tile) * 32];
                multiply(sums.of[tile], first, b.x, b.y);
                multiply(sums.of[tile], second, b.z, b.w);
            }
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        free = free + 1 == STAGES ? 0 : free + 1;
        u32 tile = here.tile;
        step(here, chunks);
        if (here.chunk == 0 || item + 1 == end) {
            // All of a tile, or a part of it.
            if (here.chunk == 0 && tile * chunks >= begin) put_results(to, tile, sums);
            else put_part(parts, 2 * blockIdx.x + (tile != first_tile), sums);
            sums = {};
        }
    }

    // The tiles that this block has a part of: its first one, and its last one where that is another.
    u32 last_tile = (end - 1) / chunks, tiles[2] = {first_tile, last_tile}, firsts[2], lasts[2], counts[2];
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        firsts[i] = block_of(tiles[i] * chunks, items, blocks);
        lasts[i] = block_of((tiles[i] + 1) * chunks - 1, items, blocks);
        counts[i] = i == 1 && last_tile == first_tile ? 1 : lasts[i] - firsts[i] + 1;
    }
    if (counts[0] == 1 && counts[1] == 1) return;
    u32 arrived = last_to_arrive(tickets + firsts[0], counts[0], tickets + firsts[1], counts[1]);
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        if ((arrived >> i & 1) == 0) continue;
        // Whether the tile is the first one of its first block, too.
        bool only = (u32)((u64)items * firsts[i] / blocks) / chunks == tiles[i];
        add_parts(parts, firsts[i], lasts[i], only, sums);
        put_results(to, tiles[i], sums);
    }
}
