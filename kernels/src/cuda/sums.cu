//! How the sums of a product are put together, once each warp of a block has its own: the parts of SPLITS blocks, in their
//! order, then the bias. From sm_90 on the blocks of one sum are a cluster and read
//! each other's shared memory; before, they write their parts, and whichever comes last adds them. The bits are the same.

// Values between rows of sums in shared memory, so that a warp's writes are to different banks.
static const u32 SUMS_STRIDE = 20;

// The rows of a block's outputs: from `first` on.
struct Results {
    const bf16* bias;
    bf16* out;
    u32 stride, rows, outputs, first;
};

// Where in shared memory the sum of an output of the block is.
DEVICE u32 place_of_sum(u32 of, u32 row, u32 rows) { return (of / 16 * rows + row) * SUMS_STRIDE + of % 16; }

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

// Each block of a cluster takes a share of the results. The parts of one are read before they are added, all at once.
template <u32 HEIGHT, u32 WIDTH>
DEVICE void add_over_cluster(const float* sums, const Results& to, u32 count, u32 split) {
    cluster_barrier();
    for (u32 i = split * blockDim.x + threadIdx.x; i < count; i += SPLITS * blockDim.x) {
        u32 row = i / WIDTH, of = i % WIDTH;
        float part[SPLITS], sum = 0;
#pragma unroll
        for (u32 k = 0; k < SPLITS; ++k) part[k] = of_block(sums + place_of_sum(of, row, HEIGHT), k);
#pragma unroll
        for (u32 k = 0; k < SPLITS; ++k) sum += part[k];
        put_result(to, row, of, sum);
    }
    // Nobody leaves while others read what it has.
    cluster_barrier();
}

// Where there are SPLITS and no clusters, `parts` has room for `SPLITS * rows * outputs` sums, and `tickets` a zero for each x
// of the grid, which are zeros again when the kernel has ended. The block has sums of HEIGHT rows and WIDTH outputs.
template <u32 HEIGHT, u32 WIDTH>
DEVICE void put_together(float* sums, const Results& to, float* parts, u32* tickets) {
    u32 count = to.rows * WIDTH, split = blockIdx.y;
    if (SPLITS > 1 && CLUSTERS) {
        add_over_cluster<HEIGHT, WIDTH>(sums, to, count, split);
        return;
    }
    barrier();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        u32 row = i / WIDTH, of = i % WIDTH;
        float sum = sums[place_of_sum(of, row, HEIGHT)];
        if (SPLITS == 1) put_result(to, row, of, sum);
        else if (to.first + of < to.outputs) parts[((size_t)split * to.rows + row) * to.outputs + to.first + of] = sum;
    }
    if (SPLITS == 1) return;
    if (!last_to_arrive(tickets + blockIdx.x, SPLITS)) return;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        u32 row = i / WIDTH, of = i % WIDTH;
        if (to.first + of >= to.outputs) continue;
        float sum = 0;
        for (u32 k = 0; k < SPLITS; ++k)
            sum += of_others(parts + ((size_t)k * to.rows + row) * to.outputs + to.first + of);
        put_result(to, row, of, sum);
    }
}
