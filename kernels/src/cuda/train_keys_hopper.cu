//! The gradients of keys and values of causal attention within packed rows for Hopper: a block takes 128 keys of one key head and
//! goes over the rows that see them, 64 of one query head a step, head after head, so that the group is summed where it is, in
//! `f32` and in order. One warpgroup copies, two compute, each for 64 keys.
//!
//! Products are transposed, `[keys, rows]`, so that what two of them leave in a lane is what the other two take from it: nothing goes
//! back to shared memory. A step's last product is done one step later, behind its successor's scores, so that two are under way while
//! these become shares, and a third while the gradients of shares become those of scores.
//!
//! Floor, by operations: 8 DIM a query head and visible key. A step brings 256 DIM bytes from L2 for 2 · 64 · 128 · 4 DIM operations,
//! so arithmetic decides: at 2,048 products a cycle 2,048 cycles for DIM 128, in which shared memory gives 94 of its 128 bytes a cycle.
//!
//! Defines: DIM (64 or 128), GROUP, STAGES. Shared memory: 512 DIM + STAGES (256 DIM + 528) + 8 bytes.

#define THREADS 384
#define PANELS (DIM / 64)
#define PANEL (64 * 128)       // bytes of a panel of 64 rows
#define SIDE (PANELS * PANEL)  // of a step's rows of one matrix
#define STAGE (2 * SIDE)
#define CLEARED 1              // barrier: that rows of a step hold what they may
#define LOG2_E 1.4426950408889634f
#define KEYS 128
#define OWN (KEYS * 128)       // bytes of a panel of keys or of values

// Keys of one sequence: the first row, how many rows, and the one after the sequence's last.
struct Keys {
    u32 row, rows, end;
};

// Where things lie in shared memory: keys, values, stages of rows with their gradients, what is taken from their scores, gates.
struct Places {
    u32 keys, values, stages, bases, gates;
    MEMBER explicit Places(u32 base)
        : keys(base), values(keys + PANELS * OWN), stages(values + PANELS * OWN), bases(stages + STAGES * STAGE),
          gates(bases + STAGES * 64 * 8) {}
    MEMBER u32 own_there() const { return gates; }
    MEMBER u32 there(u32 stage) const { return gates + 8 + 8 * stage; }
    MEMBER u32 done(u32 stage) const { return gates + 8 + 8 * (STAGES + stage); }
};

// Which step comes: of which head, from which row of those that see the keys, and in which stage with which phase.
struct Step {
    u32 head = 0, first = 0, stage = 0, phase = 0;
    MEMBER void next(u32 count) {
        first += 64;
        if (first >= count) first = 0, ++head;
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
};

// Copies the keys and then each step; `room` is for the bases of the stages. All lanes of a warp.
DEVICE void copy_all(const Places& places, const Keys& tile, const void* boxes, const void* d_boxes, u32 of_keys,
                     u32 to_values, u32 first_head, const float2* bases, u32 rows, float2* room) {
    u32 lane = threadIdx.x % 32, count = tile.end - tile.row;
    if (lane == 0) {
        know_boxes(boxes);
        know_boxes(d_boxes);
        arrive_for_bytes(places.own_there(), 2 * KEYS * DIM * 2);
        for (u32 half = 0; half < 2; ++half)
            for (u32 panel = 0; panel < PANELS; ++panel) {
                u32 to = panel * OWN + half * PANEL, column = of_keys + 64 * panel, row = tile.row + 64 * half;
                copy_box(places.keys + to, boxes, column, row, places.own_there());
                copy_box(places.values + to, boxes, column + to_values, row, places.own_there());
            }
    }
    Step step;
    for (; step.head < GROUP; step.next(count)) {
        u32 head = first_head + step.head, row = tile.row + step.first;
        float2 own[2];
        // A row that is not there has no share.
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            u32 at = row + lane + 32 * half;
            own[half] = at < tile.end ? bases[(size_t)head * rows + at] : make_float2(INFINITY, 0);
        }
        pass(places.done(step.stage), step.phase ^ 1);
#pragma unroll
        for (u32 half = 0; half < 2; ++half) room[64 * step.stage + lane + 32 * half] = own[half];
        u32 gate = places.there(step.stage), to = places.stages + step.stage * STAGE;
        if (lane == 0) {
            arrive_for_bytes(gate, STAGE);
#pragma unroll
            for (u32 panel = 0; panel < PANELS; ++panel) {
                copy_box(to + panel * PANEL, boxes, head * DIM + 64 * panel, row, gate);
                copy_box(to + SIDE + panel * PANEL, d_boxes, head * DIM + 64 * panel, row, gate);
            }
        } else {
            arrive(gate);
        }
    }
}

// What a thread of those who compute has of its two keys, which are 8 apart, and of all rows of a step.
struct Own {
    float shares[32], d_shares[32], d_keys[DIM / 2], d_values[DIM / 2];
    u32 narrow[4][4], d_narrow[4][4];
};

// Scores of a step, or the gradients of its shares: from keys and queries, or values and what the rows gave.
DEVICE void start_columns(float (&columns)[32], u32 own, u32 rows) {
    begin_products();
#pragma unroll
    for (u32 s = 0; s < DIM / 16; ++s)
        multiply_both(columns, matrix_at(own + s / 4 * OWN + s % 4 * 32, 0), matrix_at(rows + s / 4 * PANEL + s % 4 * 32, 0),
                      s > 0);
    end_products();
}

// Adds to the gradients of values what shares and the rows' gradients give, or to those of keys what gradients of scores and
// queries give.
DEVICE void start_gradients(float (&gradients)[DIM / 2], const u32 (&narrow)[4][4], u32 rows) {
    begin_products();
#pragma unroll
    for (u32 s = 0; s < 4; ++s) multiply_rows(gradients, narrow[s], matrix_at(rows + s * 2048, PANEL));
    end_products();
}

// Waits for a step. What stands behind the sequence may be anything, and zero times that must be zero: makes it so.
DEVICE void await(const Places& places, unsigned char* shared, const Step& step, u32 count) {
    pass(places.there(step.stage), step.phase);
    if (step.first + 64 > count) {
        unsigned char* rows = shared + (places.stages - places.keys) + step.stage * STAGE;
        clear_rows(rows, PANEL, count - step.first, 64);
        clear_rows(rows + SIDE, PANEL, count - step.first, 64);
        for_products();
        barrier_of(CLEARED, 256);
    }
}

// What is taken from the scores of this lane's rows of a step, and from the gradients of their shares: of two rows each.
DEVICE const float4* bases_of(const Places& places, const unsigned char* shared, const Step& step) {
    return reinterpret_cast<const float4*>(shared + (places.bases - places.keys) + step.stage * 64 * 8) + threadIdx.x % 4;
}

// Turns scores into shares.
DEVICE void share(Own& own, const float4* bases, const Step& step, u32 group, u32 count, float scale) {
#pragma unroll
    for (u32 n = 0; n < 8; ++n) {
        float4 base = bases[4 * n];
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            own.shares[4 * n + i] = power_of_two(own.shares[4 * n + i] * scale - (i % 2 ? base.z : base.x));
    }
    // Only rows about the keys, and the last ones, may not see all of them.
    if (step.first <= 64 * group || step.first + 64 > count) {
        u32 lane = threadIdx.x % 32, key = 64 * group + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
        for (u32 n = 0; n < 8; ++n)
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                u32 row = step.first + 8 * n + 2 * (lane % 4) + i % 2;
                if (row < key + 8 * (i / 2) || row >= count) own.shares[4 * n + i] = 0;
            }
    }
}

// Turns gradients of shares into those of scores, by the shares as the products have them, which still read these.
DEVICE void unshare(Own& own, const float4* bases) {
#pragma unroll
    for (u32 n = 0; n < 8; ++n) {
        float4 base = bases[4 * n];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            u32 pair = own.narrow[n / 2][n % 2 * 2 + i / 2];
            float share = i % 2 ? widen_upper(pair) : widen(pair);
            own.d_shares[4 * n + i] = share * (own.d_shares[4 * n + i] - (i % 2 ? base.w : base.y));
        }
    }
}

// `boxes` and `d_boxes` describe the rows of queries, keys and values, and of the gradients of what they gave.
KERNEL(THREADS, 1) back_keys(u32 stride, const Keys* __restrict__ all, u32 rows, u32 query_heads, u32 kv_heads, float scale,
                             const void* boxes, const void* d_boxes, const float2* __restrict__ bases,
                             bf16* __restrict__ d_qkv) {
    begin();
    SHARED_PANELS(shared);
    Places places(shared_address(shared));
    // All key heads of the keys that most rows see come first, so that none of these is left to the end.
    Keys tile = all[blockIdx.x / kv_heads];
    u32 kv_head = blockIdx.x % kv_heads, count = tile.end - tile.row, to_values = kv_heads * DIM;
    u32 of_keys = (query_heads + kv_head) * DIM;
    if (threadIdx.x == 0) {
        make_gate(places.own_there(), 1);
        for (u32 stage = 0; stage < STAGES; ++stage) {
            make_gate(places.there(stage), 32);
            make_gate(places.done(stage), 8);
        }
    }
    barrier();
    if (threadIdx.x < 128) {
        give_registers<24>();
        float2* room = reinterpret_cast<float2*>(shared + (places.bases - places.keys));
        if (threadIdx.x < 32)
            copy_all(places, tile, boxes, d_boxes, of_keys, to_values, kv_head * GROUP, bases, rows, room);
    } else {
        take_registers<240>();
        u32 group = from_first_lane(threadIdx.x / 128) - 1, lane = threadIdx.x % 32;
        u32 keys = places.keys + group * PANEL, values = places.values + group * PANEL;
        Own own;
#pragma unroll
        for (u32 i = 0; i < DIM / 2; ++i) own.d_keys[i] = own.d_values[i] = 0;
        Step step;
        pass(places.own_there(), 0);
        await(places, shared, step, count);
        start_columns(own.shares, keys, places.stages);
        start_columns(own.d_shares, values, places.stages + SIDE);
        wait_for_products<1>();
        settle(own.shares);
        share(own, bases_of(places, shared, step), step, group, count, scale);
        narrow_rows(own.narrow, own.shares);
        start_gradients(own.d_values, own.narrow, places.stages + SIDE);
        wait_for_products<1>();
        settle(own.d_shares);
        unshare(own, bases_of(places, shared, step));
        wait_for_products<0>();
        settle(own.d_values);
        narrow_rows(own.d_narrow, own.d_shares);
        for (u32 left = (count + 63) / 64 * GROUP - 1; left > 0; --left) {
            u32 before = step.stage;
            step.next(count);
            await(places, shared, step, count);
            u32 rows = places.stages + step.stage * STAGE;
            start_columns(own.shares, keys, rows);
            start_gradients(own.d_keys, own.d_narrow, places.stages + before * STAGE);
            start_columns(own.d_shares, values, rows + SIDE);
            wait_for_products<2>();
            settle(own.shares);
            share(own, bases_of(places, shared, step), step, group, count, scale);
            // So that this is not done behind what it should be done beside.
            settle(own.shares);
            wait_for_products<1>();
            settle(own.d_keys);
            if (lane == 0) arrive(places.done(before));
            narrow_rows(own.narrow, own.shares);
            start_gradients(own.d_values, own.narrow, rows + SIDE);
            wait_for_products<1>();
            settle(own.d_shares);
            unshare(own, bases_of(places, shared, step));
            settle(own.d_shares);
            wait_for_products<0>();
            settle(own.d_values);
            narrow_rows(own.d_narrow, own.d_shares);
        }
        start_gradients(own.d_keys, own.d_narrow, places.stages + step.stage * STAGE);
        wait_for_products<0>();
        settle(own.d_keys);

        float factor = scale / LOG2_E;
        u32 t = 2 * (lane % 4);
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            u32 key = 64 * group + threadIdx.x % 128 / 32 * 16 + lane / 4 + 8 * i;
            if (key >= tile.rows) continue;
            bf16* to = d_qkv + (size_t)(tile.row + key) * stride + of_keys + t;
#pragma unroll
            for (u32 n = 0; n < DIM / 8; ++n) {
                const float *key_pair = &own.d_keys[4 * n + 2 * i], *value_pair = &own.d_values[4 * n + 2 * i];
                *reinterpret_cast<u32*>(to + 8 * n) = narrow2(key_pair[0] * factor, key_pair[1] * factor);
                *reinterpret_cast<u32*>(to + to_values + 8 * n) = narrow2(value_pair[0], value_pair[1]);
            }
        }
    }
}
