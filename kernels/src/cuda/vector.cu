//! Products of one or two rows, `out = x Wᵀ + bias`: bf16 in and out, sums in f32. Their time is that of reading W once, so each
//! warp streams rows of W through registers, two of them on their way, and nobody waits for anybody until the end; x lies in
//! shared memory. Rows are dealt to blocks in order, so that all read near each other; four blocks fill a multiprocessor's
//! registers, and the next product's fetch their first rows as soon as one of these end.
//!
//! A lane adds its terms in one order whatever the rows, then lanes by halves, then PARTS warps of a row in their order.
//! Floor: 2 bytes a weight; an instruction for each value of x and W to unpack, and one to multiply and add.

// Defined: ROWS, CHUNKS (of 16 bytes, of a lane, of a row of W), PARTS (warps that share a row).
static const u32 WARPS = 4, GROUPS = WARPS / PARTS, TERMS = 8 * 32 * CHUNKS;

struct Weights {
    uint4 of[CHUNKS];
};

// What a lane has of a row's sum.
DEVICE void multiply_row(float (&sums)[ROWS], const Weights& row, const uint4* x) {
    float even[ROWS] = {}, odd[ROWS] = {};
#pragma unroll
    for (u32 chunk = 0; chunk < CHUNKS; ++chunk) {
        Eight w = unpacked(row.of[chunk]);
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            Eight v = unpacked(x[r * PARTS * TERMS / 8 + 32 * chunk]);
#pragma unroll
            for (u32 i = 0; i < 8; i += 2) even[r] += w.v[i] * v.v[i], odd[r] += w.v[i + 1] * v.v[i + 1];
        }
    }
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) sums[r] = warp_sum(even[r] + odd[r]);
}

// Outputs are dealt to the groups of warps of all blocks in turn. Shared memory holds x, PARTS * TERMS values a row, then PARTS
// sums for each row and output of the block.
KERNEL(128) vector(const bf16* x, u32 x_stride, u32 inputs, const bf16* __restrict__ weight, u32 weight_stride, u32 outputs,
                   const bf16* __restrict__ bias, bf16* out, u32 out_stride, u32 blocks) {
    let_next_begin();
    SHARED_BYTES(shared);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % PARTS;
    u32 first = part * TERMS + 8 * lane, groups = GROUPS * blocks, count = (outputs + groups - 1) / groups * GROUPS;
    uint4* of_x = reinterpret_cast<uint4*>(shared);
    float* sums = reinterpret_cast<float*>(of_x + ROWS * PARTS * TERMS / 8);

    auto fetch = [&](Weights& row, u32 output) {
        if (output >= outputs) return;
        const bf16* from = weight + (size_t)output * weight_stride + first;
#pragma unroll
        for (u32 chunk = 0; chunk < CHUNKS; ++chunk)
            row.of[chunk] = weights_once(from + 256 * chunk, first + 256 * chunk < inputs);
    };
    auto finish = [&](const Weights& row, u32 at) {
        float of_row[ROWS];
        multiply_row(of_row, row, of_x + first / 8);
        if (lane > 0) return;
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) sums[(r * count + at) * PARTS + part] = of_row[r];
    };

    // The first rows of weights, which no kernel changes, come while those before this one are at work.
    Weights here, next;
    u32 at = warp / PARTS, output = GROUPS * blockIdx.x + at;
    fetch(here, output);
    fetch(next, output + groups);
    after_previous();
    for (u32 i = threadIdx.x; i < ROWS * PARTS * TERMS / 8; i += 32 * WARPS) {
        u32 row = i / (PARTS * TERMS / 8), term = i % (PARTS * TERMS / 8) * 8;
        bool real = term < inputs;
        start_copy(of_x + i, real ? x + (size_t)row * x_stride + term : x, real);
    }
    end_group();
    wait_for_groups<0>();
    barrier();
    for (; output < outputs; output += 2 * groups, at += 2 * GROUPS) {
        finish(here, at);
        fetch(here, output + 2 * groups);
        if (output + groups >= outputs) break;
        finish(next, at + GROUPS);
        fetch(next, output + 3 * groups);
    }
    barrier();
    for (u32 i = threadIdx.x; i < ROWS * count; i += 32 * WARPS) {
        u32 row = i / count, of = i % count / GROUPS * groups + GROUPS * blockIdx.x + i % GROUPS;
        if (of >= outputs) continue;
        float sum = 0;
#pragma unroll
        for (u32 k = 0; k < PARTS; ++k) sum += sums[i * PARTS + k];
        if (bias) sum += widen(bias[of]);
        out[(size_t)row * out_stride + of] = narrow(sum);
    }
}
