//! What attention forward on Hopper consists of, in the manner of FlashAttention-3 (Shah and others 2024): one warpgroup copies
//! keys and values, two compute, each on 64 packed rows, and while a softmax is computed a product is under way. It refuses to
//! know where keys lie and where results go.
//!
//! A step is two pages, 128 tokens, from the last of the tile to the first, so that only the first steps have tokens that some row
//! must not see.
//!
//! Defines: DIM (64 or 128), GROUP (at most 128). Shared memory: 1,280 DIM + 64 bytes.

#define THREADS 384
#define PANELS (DIM / 64)
#define TOKENS 128                         // of a step
#define QUERIES (64 * 128)                 // bytes of a panel of a warpgroup's queries
#define PANEL (TOKENS * 128)               // bytes of a panel of keys or values
#define STAGE (PANELS * PANEL)
#define LOADED 1                           // barriers: that the queries of a warpgroup are there,
#define CLEARED 3                          // and that values hold what they may

// Where things lie in shared memory: queries, two stages of keys and two of values, and gates.
struct Places {
    u32 queries, keys, values, gates;
    MEMBER explicit Places(u32 base)
        : queries(base), keys(base + 2 * PANELS * QUERIES), values(keys + 2 * STAGE), gates(values + 2 * STAGE) {}
    MEMBER u32 keys_there(u32 stage) const { return gates + 8 * stage; }
    MEMBER u32 values_there(u32 stage) const { return gates + 16 + 8 * stage; }
    MEMBER u32 keys_done(u32 stage) const { return gates + 32 + 8 * stage; }
    MEMBER u32 values_done(u32 stage) const { return gates + 48 + 8 * stage; }

    // One thread makes them, before all others come.
    MEMBER void make_gates() const {
        for (u32 stage = 0; stage < 2; ++stage) {
            make_gate(keys_there(stage), 1);
            make_gate(values_there(stage), 1);
            make_gate(keys_done(stage), 8);
            make_gate(values_done(stage), 8);
        }
    }
};

// Where a page of keys or of values lies: its first row, and the column of its first panel.
struct Box {
    u32 column, row;
};

// Keys of each step and values of the one before it, as those who compute need them, of pages `begin` to `end`. `box_of` says
// where a page's keys lie, or its values.
template <typename BoxOf>
DEVICE void copy_all(const Places& places, u32 begin, u32 end, const void* boxes, BoxOf box_of) {
    u32 steps = (end - begin + 1) / 2;
    know_boxes(boxes);
    for (u32 i = 0; i <= steps; ++i) {
#pragma unroll
        for (u32 value = 0; value < 2; ++value) {
            u32 of = i - value;
            if (of >= steps) continue;
            u32 page = begin + 2 * (steps - 1 - of), stage = of % 2, count = min(2u, end - page);
            u32 to = (value ? places.values : places.keys) + stage * STAGE;
            u32 gate = value ? places.values_there(stage) : places.keys_there(stage);
            // Asked before the wait, so that the answers are there behind it.
            Box at[2];
#pragma unroll
            for (u32 p = 0; p < 2; ++p) at[p] = box_of(page + min(p, count - 1), value);
            pass(value ? places.values_done(stage) : places.keys_done(stage), of / 2 % 2 ^ 1);
            arrive_for_bytes(gate, count * 64 * DIM * 2);
            // Behind an odd last page nothing is copied.
#pragma unroll
            for (u32 p = 0; p < 2; ++p)
#pragma unroll
                for (u32 panel = 0; panel < PANELS; ++panel)
                    if (p < count)
                        copy_box(to + panel * PANEL + p * 64 * 128, boxes, at[p].column + 64 * panel, at[p].row, gate);
        }
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

// Loads a warpgroup's queries: 64 packed rows, `GROUP * token + head`, from packed row `first` of the block's on, of which there
// are `packed_rows`.
DEVICE void load_queries(unsigned char* to, const bf16* qkv, u32 stride, u32 row, u32 first, u32 packed_rows, u32 first_head) {
#pragma unroll
    for (u32 i = 0; i < DIM / 16; ++i) {
        u32 at = threadIdx.x % 128 + 128 * i, own = at / (DIM / 8), chunk = at % (DIM / 8), packed = first + own;
        const bf16* from = qkv + (size_t)(row + packed / GROUP) * stride + (first_head + packed % GROUP) * DIM;
        bool real = packed < packed_rows;
        start_copy(to + chunk / 8 * QUERIES + in_panel(own, chunk % 8), (real ? from : qkv) + 8 * chunk, real);
    }
    end_group();
    wait_for_groups<0>();
    for_products();
}

// Sums the values of pages `begin` to `end` by their shares. `last` is the first token that no row sees, `warp_first` how many the
// first row of this warp sees.
DEVICE void mix(Rows& rows, const Places& places, unsigned char* shared, u32 queries, u32 first_page, u32 end, u32 last,
                u32 warp_first, const u32 (&seen)[2], float scale) {
    u32 lane = threadIdx.x % 32, steps = (end - first_page + 1) / 2;
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        rows.most[half] = -INFINITY;
        rows.mass[half] = 0;
    }
#pragma unroll
    for (u32 i = 0; i < DIM / 2; ++i) rows.mixed[i] = 0;

    float kept[2];
    u32 begin = 64 * first_page + TOKENS * (steps - 1);
    pass(places.keys_there(0), 0);
    start_scores(rows, queries, places.keys);
    wait_for_products<0>();
    settle(rows.scores);
    if (lane == 0) arrive(places.keys_done(0));
    hide(rows, begin, seen);
    share(rows, scale, kept);
    narrow_rows(rows.shares, rows.scores);
    if (last < begin + TOKENS) {
        // What no row may see may hold anything, and zero times that must be zero.
        pass(places.values_there(0), 0);
        clear_rows(shared + (places.values - places.queries), PANEL, last - begin, TOKENS);
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
        narrow_rows(rows.shares, rows.scores);
    }
    pass(places.values_there((steps - 1) % 2), (steps - 1) / 2 % 2);
    start_mixing(rows, places.values + (steps - 1) % 2 * STAGE);
    wait_for_products<0>();
    settle(rows.mixed);
}

// The sum of what the lanes of a row have.
DEVICE float of_row(float sum) {
    sum += from_lane_xor(sum, 1);
    return sum + from_lane_xor(sum, 2);
}
