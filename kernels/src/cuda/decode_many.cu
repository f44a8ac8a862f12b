//! Blocks of that attention where there are many rows, so that splits are long and streams too: no warp waits for another. Each
//! fetches for itself, and the last that comes with its part of a split puts the parts together, while the others go on with the
//! next. Floor: that of `decode`.

// What a warp has to itself of a stream: splits of this item and the next two, queries of this one and the next.
struct alignas(16) Own {
    Split splits[3];
    bf16 queries[2][HEADS * (DIM + 32)];
};

// What a block shares: two places through which its warps put together what they know of an item, how many have put something
// into either, and how often it was taken out.
struct alignas(16) Stream {
    Own own[WARPS];
    float sums[2][WARPS][HEADS][DIM + 8];
    float2 masses[2][WARPS][HEADS];
    u32 come[2], taken[2];
};

// Sums of splits that are alone go to `out`; the others' to `sums`, with their greatest score and mass in `masses`.
KERNEL(THREADS, 2) decode_many(const bf16* __restrict__ qkv, u32 stride, u32 query_heads, u32 group,
                               const Split* __restrict__ splits, const bf16* __restrict__ cache, u64 page_stride, float scale,
                               bf16* __restrict__ out, u32 out_stride, float* __restrict__ sums, float2* __restrict__ masses) {
    let_next_begin();
    SHARED_BYTES(shared);
    Stream& room = *reinterpret_cast<Stream*>(shared);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, first_head = blockIdx.x * HEADS, item = blockIdx.y;
    cache += (size_t)(first_head / group) * 2 * 64 * DIM;
    Own& own = room.own[warp];
    if (threadIdx.x < 2) room.come[threadIdx.x] = room.taken[threadIdx.x] = 0;
    auto fetch_split = [&](u32 item, u32 into) {
        if (lane < sizeof(Split) / 16)
            start_copy(reinterpret_cast<uint4*>(&own.splits[into]) + lane, reinterpret_cast<const uint4*>(splits + item) + lane,
                       true);
    };
    auto fetch_queries = [&](u32 row, u32 into) {
        const bf16* from = qkv + (size_t)row * stride + first_head * DIM;
        for (u32 at = lane; at < HEADS * DIM / 8; at += 32)
            start_copy(own.queries[into] + 8 * at / DIM * (DIM + 32) + 8 * at % DIM, from + 8 * at, true);
    };
    const Split& begun = splits[item];
    const bf16* tile = tile_of(begun, 0, warp, cache, page_stride);
    bool is_old = warp * TILE + TILE + begun.tokens_and_new / IS_NEW <= tokens_of(begun);
    uint4 keys[2][OF_KEY], values[4][OF_VALUE];
    if (tile != nullptr && is_old) load_keys(keys, tile, lane), load_values(values, tile, lane);
    after_previous();
    if (tokens_of(begun) == 0) return;
    fetch_split(item, 0);
    fetch_split(item + gridDim.y, 1);
    fetch_queries(begun.row, 0);
    end_group();
    if (tile != nullptr && !is_old) load_keys(keys, tile, lane), load_values(values, tile, lane);
    wait_for_groups<0>();
    barrier();
    Mix mix;
    for (u32 turn = 0, number = 0;; ++number) {
        u32 next_turn = turn == 2 ? 0 : turn + 1, place = number % 2;
        const Split &work = own.splits[turn], &next = own.splits[next_turn];
        bool goes_on = tokens_of(next) != 0;
        if (goes_on) {
            fetch_split(item + 2 * gridDim.y, turn == 0 ? 2 : turn - 1);
            fetch_queries(next.row, 1 - place);
        }
        end_group();
        clear(mix);
        u32 rounds = (tokens_of(work) + ROUND - 1) / ROUND;
        for (u32 round = 0; round < rounds; ++round) {
            bool works = tile != nullptr;
            u32 tokens = tokens_of(work) - round * ROUND - warp * TILE;
            float scores[4];
            if (works) score(scores, keys, own.queries[place], lane);
            tile = round + 1 < rounds ? tile_of(work, round + 1, warp, cache, page_stride)
                                      : tile_of(next, 0, warp, cache, page_stride);
            if (tile != nullptr) load_keys(keys, tile, lane);
            if (works) {
                u32 shares[2];
                weigh(mix, scores, tokens, scale, shares, lane);
                mix_in(mix, values, shares, tokens, lane);
            }
            if (tile != nullptr) load_values(values, tile, lane);
        }
        // What was put into this place two items ago must have been taken out.
        while (seen_in_block(room.taken + place) < number / 2) pause();
        warp_barrier();
        put(room.sums[place][warp], room.masses[place][warp], mix, lane);
        wait_for_groups<0>();
        warp_barrier();
        u32 before = 0;
        if (lane == 0) before = arrive_in_block(room.come + place);
        if (from_first_lane(before) == number / 2 * WARPS + WARPS - 1) {
            warp_barrier();
            size_t at_slot = (size_t)work.slot * query_heads + first_head;
            for (u32 quad = lane; quad < HEADS * DIM / 4; quad += 32) {
                u32 h = 4 * quad / DIM, d = 4 * quad % DIM;
                float top = -INFINITY, mass = 0;
                float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
                for (u32 w = 0; w < WARPS; ++w) top = fmaxf(top, room.masses[place][w][h].x);
#pragma unroll
                for (u32 w = 0; w < WARPS; ++w) {
                    float share = power_of_two(room.masses[place][w][h].x - top);
                    float4 part = *reinterpret_cast<const float4*>(&room.sums[place][w][h][d]);
                    mass += share * room.masses[place][w][h].y;
                    sum.x += share * part.x, sum.y += share * part.y, sum.z += share * part.z, sum.w += share * part.w;
                }
                if (work.slot == ALONE) {
                    uint2 bits = {narrow2(sum.x / mass, sum.y / mass), narrow2(sum.z / mass, sum.w / mass)};
                    *reinterpret_cast<uint2*>(out + (size_t)work.row * out_stride + (size_t)first_head * DIM + 4 * quad) = bits;
                } else {
                    *reinterpret_cast<float4*>(sums + at_slot * DIM + 4 * quad) = sum;
                    if (d == 0) masses[at_slot + h] = make_float2(top, mass);
                }
            }
            warp_barrier();
            if (lane == 0) arrive_in_block(room.taken + place);
        }
        if (!goes_on) break;
        item += gridDim.y;
        turn = next_turn;
    }
}
