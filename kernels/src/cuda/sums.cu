//! How the sums of a product are put together, once each warp of a block has its own: those of warps along the terms first,
//! then the parts of SPLITS blocks, in their order, then the bias. From sm_90 on the blocks of one sum are a cluster and read
//! each other's shared memory; before, they write their parts, and whichever comes last adds them. The bits are the same.

// Values between rows of sums in shared memory, so that a warp's writes are to different banks.
static const u32 SUMS_STRIDE = 20;

// The rows of a block's outputs: from `first` on.
struct Results {
    const bf16* bias;
    bf16* out;
    u32 stride, rows, outputs, first;
};

// Where in shared memory the sum of an output of the block is, by warp `k` of `along`.
DEVICE u32 place_of_sum(u32 of, u32 row, u32 k, u32 along, u32 rows) {
    return ((of / 16 * along + k) * rows + row) * SUMS_STRIDE + of % 16;
}

// A warp's 16 outputs of 8 rows: lane `4 g + t` has outputs `g` and `g + 8` of rows `2 t` and `2 t + 1`.
DEVICE void put_sums(float* to, const float (&c)[4]) {
    u32 lane = threadIdx.x % 32;
    to += 2 * (lane % 4) * SUMS_STRIDE + lane / 4;
    to[0] = c[0], to[SUMS_STRIDE] = c[1];
    to[8] = c[2], to[SUMS_STRIDE + 8] = c[3];
}

DEVICE void put_result(const Results& to, u32 row, u32 of, float sum) {
    u32 output = to.first + of;
    if (output >= to.outputs) return;
    if (to.bias) sum += widen(to.bias[output]);
    to.out[(size_t)row * to.stride + output] = narrow(sum);
}

// Where there are SPLITS and no clusters, `parts` has room for `SPLITS * rows * outputs` sums, and `tickets` a zero for each x
// of the grid, which are zeros again when the kernel has ended. The block has sums of HEIGHT rows, WIDTH outputs and DEPTH warps.
template <u32 HEIGHT, u32 WIDTH, u32 DEPTH>
DEVICE void put_together(float* sums, const Results& to, float* parts, u32* tickets) {
    u32 count = to.rows * WIDTH, split = blockIdx.y;
    barrier();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        u32 row = i / WIDTH, of = i % WIDTH;
        float* own = sums + place_of_sum(of, row, 0, DEPTH, HEIGHT);
        float sum = *own;
#pragma unroll
        for (u32 k = 1; k < DEPTH; ++k) sum += sums[place_of_sum(of, row, k, DEPTH, HEIGHT)];
        if (SPLITS == 1) put_result(to, row, of, sum);
        else if (CLUSTERS) *own = sum;
        else if (to.first + of < to.outputs) parts[((size_t)split * to.rows + row) * to.outputs + to.first + of] = sum;
    }
    if (SPLITS == 1) return;
    if (CLUSTERS) {
        cluster_barrier();
        for (u32 i = split * blockDim.x + threadIdx.x; i < count; i += SPLITS * blockDim.x) {
            u32 row = i / WIDTH, of = i % WIDTH;
            const float* own = sums + place_of_sum(of, row, 0, DEPTH, HEIGHT);
            float part[SPLITS], sum = 0;
#pragma unroll
            for (u32 k = 0; k < SPLITS; ++k) part[k] = of_block(own, k);
#pragma unroll
            for (u32 k = 0; k < SPLITS; ++k) sum += part[k];
            put_result(to, row, of, sum);
        }
        // Nobody leaves while others read what it has.
        cluster_barrier();
        return;
    }
    if (last_to_arrive(tickets + blockIdx.x, SPLITS, tickets, 1) == 0) return;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        u32 row = i / WIDTH, of = i % WIDTH;
        if (to.first + of >= to.outputs) continue;
        float sum = 0;
        for (u32 k = 0; k < SPLITS; ++k)
            sum += of_others(parts + ((size_t)k * to.rows + row) * to.outputs + to.first + of);
        put_result(to, row, of, sum);
    }
}
