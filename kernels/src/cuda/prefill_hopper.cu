//! Causal attention of many new tokens over a paged cache for Hopper.
//!
//! Tiles, packed rows, sums and arguments are those of `prefill.cu`; what one block does is in `attend_hopper.cu`.
//!
//! Floor: as `prefill.cu`, with 128 packed rows: arithmetic decides. A step of a block is 2 · 128 · 128 · DIM products, at
//! 2,048 a cycle 2,048 cycles for DIM 128; its 16,384 powers of two take 1,024 of the other unit.

static const u32 ALONE = 0xffffffffu;

struct Tile {
    u32 row, rows, past, first_page, begin, end, slot, step;
};

// `boxes` describes the rows of the whole cache, DIM values each, of which `first_row` is the layer's first of page 0.
KERNEL(THREADS, 1) prefill(const bf16* __restrict__ qkv, u32 stride, const Tile* __restrict__ tiles,
                           const u32* __restrict__ all_pages, const void* boxes, u32 first_row, u32 page_rows, float scale,
                           bf16* __restrict__ out, u32 out_stride, u32 query_heads, float* __restrict__ sums,
                           float2* __restrict__ masses) {
    begin();
    SHARED_PANELS(shared);
    Places places(shared_address(shared));
    Tile tile = tiles[blockIdx.x];
    const u32* pages = all_pages + tile.first_page;
    if (threadIdx.x == 0) places.make_gates();
    barrier();
    if (threadIdx.x < 128) {
        give_registers<24>();
        u32 of_head = first_row + blockIdx.y * 128;
        auto box_of = [&](u32 page, u32 value) { return Box{0, of_head + pages[page] * page_rows + 64 * value}; };
        if (threadIdx.x == 0) copy_all(places, tile.begin, tile.end, boxes, box_of);
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
            seen[half] = packed < packed_rows ? min(tile.past + packed / GROUP + 1, 64 * tile.end) : 0;
        }
        barrier_of(LOADED + group, 128);
        mix(rows, places, shared, queries, tile.begin, tile.end, min(tile.past + tile.rows, 64 * tile.end),
            tile.past + top_row / GROUP + 1, seen, scale);

        u32 t = 2 * (lane % 4);
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            float sum = of_row(rows.mass[half]);
            u32 packed = top_row + lane / 4 + 8 * half, token = packed / GROUP, head = blockIdx.y * GROUP + packed % GROUP;
            if (packed >= packed_rows) continue;
            if (tile.slot != ALONE) {
                size_t slot = (size_t)(tile.slot + token * tile.step) * query_heads + head;
                float2* to = reinterpret_cast<float2*>(sums + slot * DIM + t);
#pragma unroll
                for (u32 n = 0; n < DIM / 8; ++n)
                    to[4 * n] = make_float2(rows.mixed[4 * n + 2 * half], rows.mixed[4 * n + 2 * half + 1]);
                if (t == 0) masses[slot] = make_float2(rows.most[half] * scale, sum);
                continue;
            }
            float part = 1.0f / sum;
            bf16* to = out + (size_t)(tile.row + token) * out_stride + (size_t)head * DIM + t;
#pragma unroll
            for (u32 n = 0; n < DIM / 8; ++n)
                *reinterpret_cast<u32*>(to + 8 * n) =
                    narrow2(rows.mixed[4 * n + 2 * half] * part, rows.mixed[4 * n + 2 * half + 1] * part);
        }
    }
}
