//! Products of few rows, `out = x Wᵀ + bias`: bf16 in and out, sums in f32. Their time is that of reading W once, so all is made
//! for a stream of weights that never stops: each lane copies what it alone reads into its own ring in shared memory, so
//! that nobody waits for anyone until sums are put together.
//!
//! W is the left operand of `mma.m16n8k16` (16 outputs) and x the right one (8 rows). A sum does not care about the order of its
//! terms, so a lane's 16 bytes, values `8 t` to `8 t + 7` of 32, serve as the fragments of two products on both sides.
//! Floor: 2 bytes a weight; x comes from L2, `rows / (16 ACROSS)` of the weights' bytes.

// Defined: ROW_TILES (of 8 rows), ACROSS and ALONG (warps side by side over outputs, and over the terms of a sum), STAGES.
static const u32 CHUNK = 64, PIECES = 4;
static const u32 WARPS = ACROSS * ALONG, OUTPUTS = 16 * ACROSS, ROWS = 8 * ROW_TILES;
// Values between rows of sums in shared memory, so that a warp's writes are to different banks.
static const u32 SUMS_STRIDE = 20;

struct Fragments {
    uint4 of[ROW_TILES][2];
};

// Of 8 rows and a chunk: lane `4 g + t` has 16 bytes of row `g` of each half. Zeros where there is no row or no term.
DEVICE void fetch_rows(Fragments& f, const bf16* x, u32 x_stride, u32 rows, u32 first, u32 inputs) {
    u32 lane = threadIdx.x % 32, at = first + 8 * (lane % 4);
#pragma unroll
    for (u32 tile = 0; tile < ROW_TILES; ++tile) {
        u32 row = 8 * tile + lane / 4;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            uint4 none = {0, 0, 0, 0};
            bool real = row < rows && at + 32 * half < inputs;
            f.of[tile][half] = real ? bits_of_eight(x + (size_t)row * x_stride + at + 32 * half) : none;
        }
    }
}

// A block takes OUTPUTS outputs, and of the terms of their sums one of `splits` parts: `blockIdx.x` and `blockIdx.y`. Where there
// is more than one part, `parts` has room for `splits * rows * outputs` sums, and `tickets` a zero for each x of the grid, which
// are zeros again when the kernel has ended. Parts are added in their order, whichever is done last.
KERNEL(32 * ACROSS * ALONG) linear(const bf16* x, u32 x_stride, u32 rows, u32 inputs, const bf16* __restrict__ weight,
                                   u32 weight_stride, u32 outputs, const bf16* __restrict__ bias, bf16* out, u32 out_stride,
                                   u32 splits, float* parts, u32* tickets) {
    let_next_begin();
    SHARED_BYTES(shared);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, along = warp % ALONG, across = warp / ALONG;
    uint4* ring = reinterpret_cast<uint4*>(shared) + warp * STAGES * PIECES * 32 + lane;
    float* sums = reinterpret_cast<float*>(shared + WARPS * STAGES * PIECES * 32 * 16);

    u32 chunks = (inputs + CHUNK - 1) / CHUNK, split = blockIdx.y;
    u32 begin = (u32)((u64)chunks * split / splits) + along, end = (u32)((u64)chunks * (split + 1) / splits);
    u32 upper = OUTPUTS * blockIdx.x + 16 * across + lane / 4, column = 8 * (lane % 4);
    const bf16* from = weight + (size_t)upper * weight_stride + column;

    // The first chunks of weights, which no kernel changes, come while those before this one are at work.
    auto fetch = [&](u32 chunk, u32 stage) {
#pragma unroll
        for (u32 piece = 0; piece < PIECES; ++piece) {
            u32 output = upper + piece / 2 * 8, at = CHUNK * chunk + 32 * (piece % 2);
            bool real = output < outputs && at + column < inputs;
            const bf16* source = from + (size_t)(piece / 2 * 8) * weight_stride + at;
            start_weights(ring + (stage * PIECES + piece) * 32, real ? source : weight, real);
        }
    };
    u32 ahead = begin;
#pragma unroll
    for (u32 stage = 0; stage < STAGES; ++stage) {
        if (ahead < end) fetch(ahead, stage);
        ahead += ALONG;
        end_group();
    }
    after_previous();

    float c[ROW_TILES][4] = {};
    Fragments next;
    fetch_rows(next, x, x_stride, rows, CHUNK * begin, begin < end ? inputs : 0);
    u32 stage = 0;
    for (u32 chunk = begin; chunk < end; chunk += ALONG) {
        Fragments here = next;
        fetch_rows(next, x, x_stride, rows, CHUNK * (chunk + ALONG), chunk + ALONG < end ? inputs : 0);
        wait_for_groups<STAGES - 1>();
        uint4 w[PIECES];
#pragma unroll
        for (u32 piece = 0; piece < PIECES; ++piece) w[piece] = ring[(stage * PIECES + piece) * 32];
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const uint4 &above = w[half], &below = w[2 + half];
            u32 first[4] = {above.x, below.x, above.y, below.y}, second[4] = {above.z, below.z, above.w, below.w};
#pragma unroll
            for (u32 tile = 0; tile < ROW_TILES; ++tile) {
                multiply(c[tile], first, here.of[tile][half].x, here.of[tile][half].y);
                multiply(c[tile], second, here.of[tile][half].z, here.of[tile][half].w);
            }
        }
        if (ahead < end) fetch(ahead, stage);
        ahead += ALONG;
        end_group();
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    // Lane `4 g + t` has the sums of outputs `g` and `g + 8` for rows `2 t` and `2 t + 1`.
#pragma unroll
    for (u32 tile = 0; tile < ROW_TILES; ++tile) {
        float* to = sums + (warp * ROWS + 8 * tile + 2 * (lane % 4)) * SUMS_STRIDE + lane / 4;
        to[0] = c[tile][0], to[SUMS_STRIDE] = c[tile][1];
        to[8] = c[tile][2], to[SUMS_STRIDE + 8] = c[tile][3];
    }
    barrier();
    for (u32 i = threadIdx.x; i < rows * OUTPUTS; i += 32 * WARPS) {
        u32 row = i / OUTPUTS, of = i % OUTPUTS, output = OUTPUTS * blockIdx.x + of;
        if (output >= outputs) continue;
        float sum = 0;
#pragma unroll
        for (u32 k = 0; k < ALONG; ++k) sum += sums[((of / 16 * ALONG + k) * ROWS + row) * SUMS_STRIDE + of % 16];
        if (splits > 1) {
            parts[((size_t)split * rows + row) * outputs + output] = sum;
        } else {
            if (bias) sum += widen(bias[output]);
            out[(size_t)row * out_stride + output] = narrow(sum);
        }
    }
    if (splits == 1) return;

    if (!last_to_arrive(tickets + blockIdx.x, splits)) return;
    for (u32 i = threadIdx.x; i < rows * OUTPUTS; i += 32 * WARPS) {
        u32 row = i / OUTPUTS, output = OUTPUTS * blockIdx.x + i % OUTPUTS;
        if (output >= outputs) continue;
        float sum = bias ? widen(bias[output]) : 0.0f;
        for (u32 k = 0; k < splits; ++k) sum += of_others(parts + ((size_t)k * rows + row) * outputs + output);
        out[(size_t)row * out_stride + output] = narrow(sum);
    }
}
