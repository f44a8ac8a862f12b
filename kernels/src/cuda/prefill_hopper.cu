//! Causal attention of many new tokens over a paged cache for Hopper, in the manner of FlashAttention-3 (Shah and others 2024):
//! one warpgroup copies, two compute, each on 64 packed rows, and while a softmax is computed a product is under way.
//!
//! Tiles, packed rows, sums and arguments are those of `prefill.cu`. A step is two pages, 128 tokens, from the last of the
//! tile to the first, so that only the first steps have tokens that some row must not see.
//!
//! Floor: as `prefill.cu`, with 128 packed rows: arithmetic decides. A step of a block is 2 · 128 · 128 · DIM products, at
//! 2,048 a cycle 2,048 cycles for DIM 128; its 16,384 powers of two take 1,024 of the other unit.
//!
//! Defines: DIM (64 or 128), GROUP (at most 128). Shared memory: 1,280 DIM + 64 bytes.

#define THREADS 384
#define PANELS (DIM / 64)
#define TOKENS 128                         // of a step
#define QUERIES (64 * 128)                 // bytes of a panel of a warpgroup's queries
#define PANEL (TOKENS * 128)               // bytes of a panel of keys or values
#define STAGE (PANELS * PANEL)
#define HALF (64 * DIM)                    // values of the keys of a page, and of its values
#define LOADED 1                           // barriers: that the queries of a warpgroup are there,
#define CLEARED 3                          // and that values hold what they may

static const u32 ALONE = 0xffffffffu;

struct Tile {
    u32 row, rows, past, first_page, begin, end, slot, step;
};

// Where things lie in shared memory: queries, two stages of keys and two of values, and gates.
struct Places {
    u32 queries, keys, values, gates;
    DEVICE explicit Places(u32 base)
        : queries(base), keys(base + 2 * PANELS * QUERIES), values(keys + 2 * STAGE), gates(values + 2 * STAGE) {}
    DEVICE u32 keys_there(u32 stage) const { return gates + 8 * stage; }
    DEVICE u32 values_there(u32 stage) const { return gates + 16 + 8 * stage; }
    DEVICE u32 keys_done(u32 stage) const { return gates + 32 + 8 * stage; }
    DEVICE u32 values_done(u32 stage) const { return gates + 48 + 8 * stage; }
};

// Keys of each step and values of the one before it, as those who compute need them.
DEVICE void copy_all(const Places& places, const Tile& tile, const u32* pages, const void* boxes, u32 first_row,
                     u32 page_rows) {
    u32 steps = (tile.end - tile.begin + 1) / 2;
    know_boxes(boxes);
    for (u32 i = 0; i <= steps; ++i) {
#pragma unroll
        for (u32 value = 0; value < 2; ++value) {
            u32 of = i - value;
            if (of >= steps) continue;
            u32 page = tile.begin + 2 * (steps - 1 - of), stage = of % 2, count = min(2u, tile.end - page);
            u32 to = (value ? places.values : places.keys) + stage * STAGE;
            u32 gate = value ? places.values_there(stage) : places.keys_there(stage);
            // Read before the wait, so that they are there behind it.
            u32 rows[2];
#pragma unroll
            for (u32 p = 0; p < 2; ++p) rows[p] = first_row + pages[page + min(p, count - 1)] * page_rows + 64 * value;
            pass(value ? places.values_done(stage) : places.keys_done(stage), of / 2 % 2 ^ 1);
            arrive_for_bytes(gate, count * 64 * DIM * 2);
            // Behind an odd last page nothing is copied.
#pragma unroll
            for (u32 p = 0; p < 2; ++p)
#pragma unroll
                for (u32 panel = 0; panel < PANELS; ++panel)
                    if (p < count) copy_box(to + panel * PANEL + p * 64 * 128, boxes, 64 * panel, rows[p], gate);
        }
    }
}

// What no row may see may hold anything, and zero times that must be zero: makes it so from a token of the last step on.
DEVICE void clear(unsigned char* values, u32 first) {
    for (u32 at = threadIdx.x - 128 + first * (DIM / 8); at < TOKENS * (DIM / 8); at += 256) {
        u32 token = at / (DIM / 8), chunk = at % (DIM / 8);
        *reinterpret_cast<uint4*>(values + chunk / 8 * PANEL + in_panel(token, chunk % 8)) = make_uint4(0, 0, 0, 0);
    }
}

// What a thread of those who compute has of its two rows, which are 8 apart.
struct Rows {
    float scores[64], mixed[DIM / 2], most[2], mass[2];
    u32 shares[8][4];
};

// Scores of a step, whose keys must be there.
DEVICE void start_scores(Rows& rows, u32 queries, u32 keys) {
    begin_products();
#pragma unroll
    for (u32 s = 0; s < DIM / 16; ++s)
        multiply_both(rows.scores, matrix_at(queries + s / 4 * QUERIES + s % 4 * 32, 0),
                      matrix_at(keys + s / 4 * PANEL + s % 4 * 32, 0), s > 0);
    end_products();
}

DEVICE void start_mixing(Rows& rows, u32 values) {
    begin_products();
#pragma unroll
    for (u32 s = 0; s < TOKENS / 16; ++s) multiply_rows(rows.mixed, rows.shares[s], matrix_at(values + s * 2048, PANEL));
    end_products();
}

// Scores of tokens that a row does not see are none.
DEVICE void hide(Rows& rows, u32 begin, const u32 (&seen)[2]) {
    u32 t = 2 * (threadIdx.x % 4);
#pragma unroll
    for (u32 n = 0; n < 16; ++n)
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            if (begin + 8 * n + t + i % 2 >= seen[i / 2]) rows.scores[4 * n + i] = -INFINITY;
}

// Turns scores into shares, by the greatest so far, and says what remains of what was summed by the greatest before.
DEVICE void share(Rows& rows, float scale, float (&kept)[2]) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        float top = rows.most[half];
#pragma unroll
        for (u32 n = 0; n < 16; ++n) top = fmaxf(top, fmaxf(rows.scores[4 * n + 2 * half], rows.scores[4 * n + 2 * half + 1]));
        top = fmaxf(top, from_lane_xor(top, 1));
        top = fmaxf(top, from_lane_xor(top, 2));
        // A row that is not there, or sees nothing yet: infinity less infinity is no number.
        float base = top == -INFINITY ? 0.0f : top * scale, sum = 0;
        kept[half] = power_of_two(rows.most[half] * scale - base);
        rows.most[half] = top;
#pragma unroll
        for (u32 n = 0; n < 16; ++n)
#pragma unroll
            for (u32 i = 4 * n + 2 * half; i < 4 * n + 2 * half + 2; ++i) {
                rows.scores[i] = power_of_two(rows.scores[i] * scale - base);
                sum += rows.scores[i];
            }
        rows.mass[half] = rows.mass[half] * kept[half] + sum;
    }
}

DEVICE void narrow_shares(Rows& rows) {
#pragma unroll
    for (u32 s = 0; s < 8; ++s)
#pragma unroll
        for (u32 r = 0; r < 4; ++r) {
            const float* pair = &rows.scores[4 * (2 * s + r / 2) + 2 * (r % 2)];
            rows.shares[s][r] = narrow2(pair[0], pair[1]);
        }
}

// `boxes` describes the rows of the whole cache, DIM values each, of which `first_row` is the layer's first of page 0.
KERNEL(THREADS, 1) prefill(const bf16* __restrict__ qkv, u32 stride, const Tile* __restrict__ tiles,
                           const u32* __restrict__ all_pages, const void* boxes, u32 first_row, u32 page_rows, float scale,
                           bf16* __restrict__ out, u32 out_stride, u32 query_heads, float* __restrict__ sums,
                           float2* __restrict__ masses) {
    begin();
    extern __shared__ __align__(1024) unsigned char shared[];
    Places places(shared_address(shared));
    Tile tile = tiles[blockIdx.x];
    const u32* pages = all_pages + tile.first_page;
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < 2; ++stage) {
            make_gate(places.keys_there(stage), 1);
            make_gate(places.values_there(stage), 1);
            make_gate(places.keys_done(stage), 8);
            make_gate(places.values_done(stage), 8);
        }
    }
    barrier();
    if (threadIdx.x < 128) {
        give_registers<24>();
        if (threadIdx.x == 0) copy_all(places, tile, pages, boxes, first_row + blockIdx.y * 128, page_rows);
    } else {
        take_registers<240>();
        u32 group = __shfl_sync(EVERYONE, threadIdx.x / 128, 0) - 1, lane = threadIdx.x % 32, top_row = 64 * group + threadIdx.x % 128 / 32 * 16;
        u32 packed_rows = tile.rows * GROUP, steps = (tile.end - tile.begin + 1) / 2;
        u32 queries = places.queries + group * PANELS * QUERIES;
#pragma unroll
        for (u32 i = 0; i < DIM / 16; ++i) {
            u32 at = threadIdx.x % 128 + 128 * i, row = at / (DIM / 8), chunk = at % (DIM / 8), packed = 64 * group + row;
            const bf16* from = qkv + (size_t)(tile.row + packed / GROUP) * stride + (blockIdx.y * GROUP + packed % GROUP) * DIM;
            bool real = packed < packed_rows;
            start_copy(shared + (queries - places.queries) + chunk / 8 * QUERIES + in_panel(row, chunk % 8),
                       (real ? from : qkv) + 8 * chunk, real);
        }
        end_group();
        Rows rows;
        u32 seen[2];
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            u32 packed = top_row + lane / 4 + 8 * half;
            seen[half] = packed < packed_rows ? min(tile.past + packed / GROUP + 1, 64 * tile.end) : 0;
            rows.most[half] = -INFINITY;
            rows.mass[half] = 0;
        }
#pragma unroll
        for (u32 i = 0; i < DIM / 2; ++i) rows.mixed[i] = 0;
        // The tokens that the first row of this warp sees.
        u32 warp_first = tile.past + top_row / GROUP + 1;
        wait_for_groups<0>();
        for_products();
        barrier_of(LOADED + group, 128);

        float kept[2];
        u32 begin = 64 * tile.begin + TOKENS * (steps - 1);
        pass(places.keys_there(0), 0);
        start_scores(rows, queries, places.keys);
        wait_for_products<0>();
        settle(rows.scores);
        if (lane == 0) arrive(places.keys_done(0));
        hide(rows, begin, seen);
        share(rows, scale, kept);
        narrow_shares(rows);
        u32 last = min(tile.past + tile.rows, 64 * tile.end);
        if (last < begin + TOKENS) {
            pass(places.values_there(0), 0);
            clear(shared + (places.values - places.queries), last - begin);
            for_products();
            barrier_of(CLEARED, 256);
        }
        if (steps > 1) pass(places.keys_there(1), 0);
        for (u32 of = 1; of < steps; ++of) {
            u32 stage = of % 2;
            begin -= TOKENS;
                start_scores(rows, queries, places.keys + stage * STAGE);
            pass(places.values_there(stage ^ 1), (of - 1) / 2 % 2);
                start_mixing(rows, places.values + (stage ^ 1) * STAGE);
            wait_for_products<1>();
            settle(rows.scores);
            if (lane == 0) arrive(places.keys_done(stage));
            if (begin + TOKENS > warp_first) hide(rows, begin, seen);
            share(rows, scale, kept);
            // So that this is not done behind what it should be done beside.
            settle(rows.scores);
            if (of + 1 < steps) pass(places.keys_there(stage ^ 1), (of + 1) / 2 % 2);
            wait_for_products<0>();
            settle(rows.mixed);
            if (lane == 0) arrive(places.values_done(stage ^ 1));
#pragma unroll
            for (u32 i = 0; i < DIM / 2; ++i) rows.mixed[i] *= kept[i / 2 % 2];
            narrow_shares(rows);
        }
        pass(places.values_there((steps - 1) % 2), (steps - 1) / 2 % 2);
        start_mixing(rows, places.values + (steps - 1) % 2 * STAGE);
        wait_for_products<0>();
        settle(rows.mixed);

        u32 t = 2 * (lane % 4);
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            float sum = rows.mass[half];
            sum += from_lane_xor(sum, 1);
            sum += from_lane_xor(sum, 2);
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
