//! Causal attention within packed rows for Hopper, with the logarithm of each row's sum for the way back (Dao 2023).
//!
//! Tiles, packed rows and sums are those of `train_attend.cu`; what one block does is in `attend_hopper.cu`.
//!
//! Floor: as `prefill_hopper.cu`: arithmetic decides, 4 DIM operations a query head and visible key.

#define LOG2_E 1.4426950408889634f

// A tile: the first of its rows, how many it has, and the first of its sequence.
struct Tile {
    u32 row, rows, begin;
};

// `boxes` describes the rows of `qkv`.
KERNEL(THREADS, 1) attend(const bf16* __restrict__ qkv, u32 stride, const Tile* __restrict__ tiles, u32 query_heads,
                          u32 kv_heads, float scale, const void* boxes, bf16* __restrict__ out, u32 out_stride,
                          float* __restrict__ lse) {
    begin();
    SHARED_PANELS(shared);
    Places places(shared_address(shared));
    Tile tile = tiles[blockIdx.x];
    u32 past = tile.row - tile.begin, all = past + tile.rows, pages = (all + 63) / 64;
    if (threadIdx.x == 0) places.make_gates();
    barrier();
    if (threadIdx.x < 128) {
        give_registers<24>();
        u32 keys = (query_heads + blockIdx.y) * DIM, to_values = kv_heads * DIM;
        auto box_of = [&](u32 page, u32 value) { return Box{keys + value * to_values, tile.begin + 64 * page}; };
        if (threadIdx.x == 0) copy_all(places, 0, pages, boxes, box_of);
    } else {
        take_registers<240>();
        u32 group = from_first_lane(threadIdx.x / 128) - 1, lane = threadIdx.x % 32;
        u32 top_row = 64 * group + threadIdx.x % 128 / 32 * 16, packed_rows = tile.rows * GROUP;
        u32 queries = places.queries + group * PANELS * QUERIES;
        load_queries(shared + (queries - places.queries), qkv, stride, tile.row, 64 * group, packed_rows, blockIdx.y * GROUP);
        Rows rows;
        u32 seen[2];
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            u32 packed = top_row + lane / 4 + 8 * half;
            seen[half] = packed < packed_rows ? past + packed / GROUP + 1 : 0;
        }
        barrier_of(LOADED + group, 128);
        mix(rows, places, shared, queries, 0, pages, all, past + top_row / GROUP + 1, seen, scale);

        u32 t = 2 * (lane % 4);
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            float sum = of_row(rows.mass[half]), share = 1.0f / sum;
            u32 packed = top_row + lane / 4 + 8 * half, head = blockIdx.y * GROUP + packed % GROUP;
            if (packed >= packed_rows) continue;
            size_t at = tile.row + packed / GROUP;
            bf16* to = out + at * out_stride + (size_t)head * DIM + t;
#pragma unroll
            for (u32 n = 0; n < DIM / 8; ++n)
                *reinterpret_cast<u32*>(to + 8 * n) =
                    narrow2(rows.mixed[4 * n + 2 * half] * share, rows.mixed[4 * n + 2 * half + 1] * share);
            if (t == 0) lse[at * query_heads + head] = (rows.most[half] * scale + log2f(sum)) / LOG2_E;
        }
    }
}
