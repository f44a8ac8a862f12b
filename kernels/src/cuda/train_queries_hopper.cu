//! The gradient of queries of causal attention within packed rows for Hopper: shares computed again from each row's `lse`.
//!
//! Tiles and packed rows are those of `train_queries.cu`. One warpgroup copies, 64 keys and their values a step; two compute, each on
//! 64 packed rows, which stay in registers with their gradients, so that a product reads shared memory for its other side
//! only. A step's last product is done one step later, behind its successor's first two.
//!
//! Floor, by operations: 6 DIM a query head and visible key, of which 4 compute again what `back_keys` computes too: the price of
//! an order that does not depend on which block comes first, and of not adding to memory. A step brings 256 DIM bytes from L2 for
//! 2 · 64 · 128 · 3 DIM operations: at 2,048 products a cycle 1,536 cycles for DIM 128.
//!
//! Defines: DIM (64 or 128), GROUP (at most 128), STAGES. Shared memory: STAGES (256 DIM + 16) bytes.

#define THREADS 384
#define PANELS (DIM / 64)
#define PANEL (64 * 128)       // bytes of a panel of 64 rows
#define SIDE (PANELS * PANEL)  // of a step's rows of one matrix
#define STAGE (2 * SIDE)
#define CLEARED 1              // barrier: that rows of a step hold what they may
#define LOG2_E 1.4426950408889634f

// A tile: the first of its rows, how many it has, and the first of its sequence.
struct Tile {
    u32 row, rows, begin;
};

// Where things lie in shared memory: stages of keys with their values, and gates.
struct Places {
    u32 stages, gates;
    MEMBER explicit Places(u32 base) : stages(base), gates(base + STAGES * STAGE) {}
    MEMBER u32 there(u32 stage) const { return gates + 8 * stage; }
    MEMBER u32 done(u32 stage) const { return gates + 8 * (STAGES + stage); }
};

// Which step comes: its first key, from the sequence's first on, and its stage and phase.
struct Step {
    u32 first = 0, stage = 0, phase = 0;
    MEMBER void next() {
        first += 64;
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
};

// Copies the keys and values of each step of a tile that sees so many. One thread.
DEVICE void copy_all(const Places& places, u32 begin, u32 count, const void* boxes, u32 of_keys, u32 to_values) {
    know_boxes(boxes);
    for (Step step; step.first < count; step.next()) {
        pass(places.done(step.stage), step.phase ^ 1);
        u32 gate = places.there(step.stage), to = places.stages + step.stage * STAGE;
        arrive_for_bytes(gate, STAGE);
#pragma unroll
        for (u32 panel = 0; panel < PANELS; ++panel) {
            copy_box(to + panel * PANEL, boxes, of_keys + 64 * panel, begin + step.first, gate);
            copy_box(to + SIDE + panel * PANEL, boxes, of_keys + to_values + 64 * panel, begin + step.first, gate);
        }
    }
}

// What a thread of those who compute has of its two packed rows, which are 8 apart.
struct Rows {
    u32 queries[DIM / 16][4], d[DIM / 16][4], narrow[4][4];
    float shares[32], d_shares[32], sums[DIM / 2], base[2], less[2];
    u32 seen[2];
};

// Reads a thread's values of packed row `packed` of a tile, its upper row or the one 8 below.
DEVICE void load_row(Rows& rows, u32 half, const bf16* query, const bf16* d, bool real) {
    u32 t = 2 * (threadIdx.x % 4);
#pragma unroll
    for (u32 s = 0; s < DIM / 16; ++s)
#pragma unroll
        for (u32 r = 0; r < 2; ++r) {
            rows.queries[s][half + 2 * r] = real ? *reinterpret_cast<const u32*>(query + 16 * s + t + 8 * r) : 0;
            rows.d[s][half + 2 * r] = real ? *reinterpret_cast<const u32*>(d + 16 * s + t + 8 * r) : 0;
        }
}

// Scores of a step, and behind them the gradients of its shares.
DEVICE void start_shares(Rows& rows, u32 stage) {
    begin_products();
#pragma unroll
    for (u32 s = 0; s < DIM / 16; ++s)
        multiply_columns(rows.shares, rows.queries[s], matrix_at(stage + s / 4 * PANEL + s % 4 * 32, 0), s > 0);
    end_products();
#pragma unroll
    for (u32 s = 0; s < DIM / 16; ++s)
        multiply_columns(rows.d_shares, rows.d[s], matrix_at(stage + SIDE + s / 4 * PANEL + s % 4 * 32, 0), s > 0);
    end_products();
}

// Waits for a step. Keys that no row sees may be anything, and zero times that must be zero: makes it so.
DEVICE void await(const Places& places, unsigned char* shared, const Step& step, u32 count) {
    pass(places.there(step.stage), step.phase);
    if (step.first + 64 > count) {
        clear_rows(shared + step.stage * STAGE, PANEL, count - step.first, 64);
        for_products();
        barrier_of(CLEARED, 256);
    }
}

// Turns scores into shares.
DEVICE void share(Rows& rows, float scale) {
#pragma unroll
    for (u32 n = 0; n < 8; ++n)
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            rows.shares[4 * n + i] = power_of_two(rows.shares[4 * n + i] * scale - rows.base[i / 2]);
}

// Turns gradients of shares into those of scores, of which a key that a row does not see has none.
DEVICE void unshare(Rows& rows, u32 first, u32 warp_first) {
#pragma unroll
    for (u32 n = 0; n < 8; ++n)
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            rows.d_shares[4 * n + i] = rows.shares[4 * n + i] * (rows.d_shares[4 * n + i] - rows.less[i / 2]);
    if (first + 64 > warp_first) {
        u32 key = first + 2 * (threadIdx.x % 4);
#pragma unroll
        for (u32 n = 0; n < 8; ++n)
#pragma unroll
            for (u32 i = 0; i < 4; ++i)
                if (key + 8 * n + i % 2 >= rows.seen[i / 2]) rows.d_shares[4 * n + i] = 0;
    }
}

// Adds what a step gives to the gradients of queries.
DEVICE void start_gradients(Rows& rows, u32 stage) {
    begin_products();
#pragma unroll
    for (u32 s = 0; s < 4; ++s) multiply_rows(rows.sums, rows.narrow[s], matrix_at(stage + s * 2048, PANEL));
    end_products();
}

// `boxes` describes the rows of `qkv`.
KERNEL(THREADS, 1) back_queries(const bf16* __restrict__ qkv, u32 stride, const Tile* __restrict__ tiles, u32 all_rows,
                                u32 query_heads, u32 kv_heads, float scale, const void* boxes,
                                const bf16* __restrict__ d_out, u32 out_stride, const float2* __restrict__ bases,
                                bf16* __restrict__ d_qkv) {
    begin();
    SHARED_PANELS(shared);
    Places places(shared_address(shared));
    Tile tile = tiles[blockIdx.x];
    u32 past = tile.row - tile.begin, count = past + tile.rows;
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < STAGES; ++stage) {
            make_gate(places.there(stage), 1);
            make_gate(places.done(stage), 8);
        }
    }
    barrier();
    if (threadIdx.x < 128) {
        give_registers<24>();
        if (threadIdx.x == 0)
            copy_all(places, tile.begin, count, boxes, (query_heads + blockIdx.y) * DIM, kv_heads * DIM);
    } else {
        take_registers<240>();
        u32 group = from_first_lane(threadIdx.x / 128) - 1, lane = threadIdx.x % 32;
        u32 top_row = 64 * group + threadIdx.x % 128 / 32 * 16, packed_rows = tile.rows * GROUP;
        Rows rows;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            u32 packed = top_row + lane / 4 + 8 * half, head = blockIdx.y * GROUP + packed % GROUP;
            bool real = packed < packed_rows;
            size_t row = tile.row + (real ? packed / GROUP : 0);
            load_row(rows, half, qkv + row * stride + (size_t)head * DIM, d_out + row * out_stride + (size_t)head * DIM, real);
            float2 base = bases[(size_t)head * all_rows + row];
            rows.base[half] = base.x;
            rows.less[half] = base.y;
            rows.seen[half] = real ? past + packed / GROUP + 1 : 0;
        }
#pragma unroll
        for (u32 i = 0; i < DIM / 2; ++i) rows.sums[i] = 0;
        // The keys that the first row of this warp sees.
        u32 warp_first = past + top_row / GROUP + 1;
        Step step;
        await(places, shared, step, count);
        start_shares(rows, places.stages);
        wait_for_products<1>();
        settle(rows.shares);
        share(rows, scale);
        wait_for_products<0>();
        settle(rows.d_shares);
        unshare(rows, step.first, warp_first);
        narrow_rows(rows.narrow, rows.d_shares);
        for (u32 left = (count + 63) / 64 - 1; left > 0; --left) {
            u32 before = step.stage;
            step.next();
            await(places, shared, step, count);
            start_shares(rows, places.stages + step.stage * STAGE);
            start_gradients(rows, places.stages + before * STAGE);
            wait_for_products<2>();
            settle(rows.shares);
            share(rows, scale);
            // So that this is not done behind what it should be done beside.
            settle(rows.shares);
            wait_for_products<1>();
            settle(rows.d_shares);
            unshare(rows, step.first, warp_first);
            settle(rows.d_shares);
            wait_for_products<0>();
            settle(rows.sums);
            if (lane == 0) arrive(places.done(before));
            narrow_rows(rows.narrow, rows.d_shares);
        }
        start_gradients(rows, places.stages + step.stage * STAGE);
        wait_for_products<0>();
        settle(rows.sums);

        float factor = scale / LOG2_E;
        u32 t = 2 * (lane % 4);
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            u32 packed = top_row + lane / 4 + 8 * half, head = blockIdx.y * GROUP + packed % GROUP;
            if (packed >= packed_rows) continue;
            bf16* to = d_qkv + (size_t)(tile.row + packed / GROUP) * stride + (size_t)head * DIM + t;
#pragma unroll
            for (u32 n = 0; n < DIM / 8; ++n)
                *reinterpret_cast<u32*>(to + 8 * n) =
                    narrow2(rows.sums[4 * n + 2 * half] * factor, rows.sums[4 * n + 2 * half + 1] * factor);
        }
    }
}
