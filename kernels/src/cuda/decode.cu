//! Blocks of that attention. They lie side by side over the heads, HEADS query heads of one key head each, and as many below one
//! another as a card runs at once go over the splits, so that a launch does not depend on these. The next tile, of the next split
//! too, is on its way while one is computed on and while a split's warps are put together.
//!
//! Floor: 4 DIM bytes of keys and values a token and key head, each read once; 4 DIM operations a query head and token, so
//! with four heads a group 4 operations a byte: memory decides. Sums of splits add 8 HEADS (DIM + 2) bytes a split of T tokens: for
//! DIM 128, HEADS 4 and T 256 3 % of its 4 DIM T bytes, most of it within L2.

// A row whose splits are to be put together: `count` slots from `first`.
struct Joined {
    u32 row, first, count;
};

// What a block shares: splits of this item and the next two with their queries, those of the last not yet there, and what its
// warps put together through.
struct alignas(16) Room {
    Split splits[3];
    bf16 queries[3][HEADS * (DIM + 32)];
    float sums[WARPS][HEADS][DIM + 8];
    float2 masses[WARPS][HEADS]; // The greatest score, and the mass.
    // The item whose ticket is drawn: its row, that row's slots, the first of its heads, and whether it was the row's last.
    u32 row, first, count, head, ticket, is_last;
};

// Puts the splits of the row and heads that the room tells together, in the order of their slots; a thread reads so many sums at
// once.
template <u32 AT_ONCE>
DEVICE void join(Room& room, u32 query_heads, const float* sums, const float2* masses, bf16* out, u32 out_stride) {
    constexpr u32 QUADS = HEADS * DIM / 4, MOST = THREADS / QUADS, TEAMS = MOST < WARPS ? MOST : WARPS;
    u32 count = room.count;
    sums += ((size_t)room.first * query_heads + room.head) * DIM;
    masses += (size_t)room.first * query_heads + room.head;
    out += (size_t)room.row * out_stride + (size_t)room.head * DIM;
    for (u32 h = threadIdx.x / 32; h < HEADS; h += WARPS) {
        float top = -INFINITY, mass = 0;
        for (u32 i = threadIdx.x % 32; i < count; i += 32) {
            float2 of = of_others(masses + (size_t)i * query_heads + h);
            // A piece of which the row sees nothing: infinity less infinity is no number.
            if (of.x == -INFINITY) continue;
            float more = fmaxf(top, of.x);
            mass = mass * power_of_two(top - more) + of.y * power_of_two(of.x - more);
            top = more;
        }
        float most = warp_max(top);
        // A lane without a slot has no score: its mass is 0 times 0.
        mass = warp_sum(mass * power_of_two(top - most));
        if (threadIdx.x % 32 == 0) room.masses[0][h] = make_float2(most, mass);
    }
    barrier();
    u32 quad = threadIdx.x % QUADS, team = threadIdx.x / QUADS, h = 4 * quad / DIM;
    float4* parts = reinterpret_cast<float4*>(room.sums);
    if (team < TEAMS) {
        float most = room.masses[0][h].x;
        float4 mixed = make_float4(0, 0, 0, 0);
        for (u32 first = team; first < count; first += AT_ONCE * TEAMS) {
            float4 sum[AT_ONCE];
            float share[AT_ONCE];
#pragma unroll
            for (u32 n = 0; n < AT_ONCE; ++n) {
                u32 i = first + n * TEAMS;
                size_t at = (size_t)min(i, count - 1) * query_heads;
                sum[n] = of_others(reinterpret_cast<const float4*>(sums + at * DIM) + quad);
                share[n] = i < count ? power_of_two(of_others(masses + at + h).x - most) : 0.0f;
            }
#pragma unroll
            for (u32 n = 0; n < AT_ONCE; ++n) {
                mixed.x += share[n] * sum[n].x, mixed.y += share[n] * sum[n].y;
                mixed.z += share[n] * sum[n].z, mixed.w += share[n] * sum[n].w;
            }
        }
        parts[threadIdx.x] = mixed;
    }
    barrier();
    if (team == 0) {
        float4 sum = parts[quad];
        for (u32 other = 1; other < TEAMS; ++other) {
            float4 more = parts[other * QUADS + quad];
            sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
        }
        float mass = room.masses[0][h].y;
        uint2 bits = {narrow2(sum.x / mass, sum.y / mass), narrow2(sum.z / mass, sum.w / mass)};
        *reinterpret_cast<uint2*>(out + 4 * quad) = bits;
    }
}

// Sums of splits that are alone go to `out`; the others' to `sums` `[slot][query head][DIM]`, with their greatest score (by
// the power of two) and mass in `masses`. Whoever is the last of a row and its heads puts them together, which
// saves a launch: `tickets` count who has come, for each entry of `joined` and each HEADS heads, and are zeros before and after.
KERNEL(THREADS) decode(const bf16* __restrict__ qkv, u32 stride, u32 query_heads, u32 group,
                          const Split* __restrict__ splits, const Joined* __restrict__ joined, const bf16* __restrict__ cache,
                          u64 page_stride, float scale, bf16* __restrict__ out, u32 out_stride, float* sums, float2* masses,
                          u32* tickets) {
    let_next_begin();
    __shared__ Room room;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, first_head = blockIdx.x * HEADS, item = blockIdx.y;
    cache += (size_t)(first_head / group) * 2 * 64 * DIM;
    auto fetch_split = [&](u32 item, u32 into) {
        if (threadIdx.x < sizeof(Split) / 16)
            start_copy(reinterpret_cast<uint4*>(&room.splits[into]) + threadIdx.x,
                       reinterpret_cast<const uint4*>(splits + item) + threadIdx.x, true);
    };
    auto fetch_queries = [&](u32 row, u32 into) {
        const bf16* from = qkv + (size_t)row * stride + first_head * DIM;
        for (u32 at = threadIdx.x; at < HEADS * DIM / 8; at += THREADS)
            start_copy(room.queries[into] + 8 * at / DIM * (DIM + 32) + 8 * at % DIM, from + 8 * at, true);
    };
    // The plan was copied before a step's first kernel, and what earlier steps have kept is there since then: all but the new tokens
    // is fetched while the kernel before this one ends.
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
    // Whether a ticket is drawn. What it says is looked at after the next item: an answer takes as long as a load.
    bool is_drawn = false;
    u32 before = 0;
    auto look = [&]() {
        if (!is_drawn || threadIdx.x != 0) return;
        room.is_last = before + 1 == room.count;
        if (room.is_last) tickets[room.ticket] = 0;
    };
    for (u32 turn = 0;;) {
        u32 next_turn = turn == 2 ? 0 : turn + 1;
        const Split &work = room.splits[turn], &next = room.splits[next_turn];
        bool goes_on = tokens_of(next) != 0;
        if (goes_on) {
            fetch_split(item + 2 * gridDim.y, turn == 0 ? 2 : turn - 1);
            fetch_queries(next.row, next_turn);
        }
        end_group();
        clear(mix);
        u32 rounds = (tokens_of(work) + ROUND - 1) / ROUND;
        for (u32 round = 0; round < rounds; ++round) {
            bool works = tile != nullptr;
            u32 tokens = tokens_of(work) - round * ROUND - warp * TILE;
            float scores[4];
            if (works) score(scores, keys, room.queries[turn], lane);
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
        put(room.sums[warp], room.masses[warp], mix, lane);
        look();
        wait_for_groups<0>();
        barrier();
        bool alone = work.slot == ALONE;
        size_t at_slot = (size_t)work.slot * query_heads + first_head;
        for (u32 at = 2 * threadIdx.x; at < HEADS * DIM; at += 2 * THREADS) {
            u32 h = at / DIM, d = at % DIM;
            float top = -INFINITY, mass = 0, first = 0, second = 0;
#pragma unroll
            for (u32 w = 0; w < WARPS; ++w) top = fmaxf(top, room.masses[w][h].x);
#pragma unroll
            for (u32 w = 0; w < WARPS; ++w) {
                float share = power_of_two(room.masses[w][h].x - top);
                float2 pair = *reinterpret_cast<const float2*>(&room.sums[w][h][d]);
                mass += share * room.masses[w][h].y;
                first += share * pair.x, second += share * pair.y;
            }
            if (alone) {
                bf16* to = out + (size_t)work.row * out_stride + (size_t)first_head * DIM + at;
                *reinterpret_cast<u32*>(to) = narrow2(first / mass, second / mass);
            } else {
                *reinterpret_cast<float2*>(sums + at_slot * DIM + at) = make_float2(first, second);
                if (d == 0) masses[at_slot + h] = make_float2(top, mass);
            }
        }
        bool joins = is_drawn && room.is_last;
        // Behind this, all sums are written and nobody reads any more what they were put together through.
        barrier();
        if (joins) {
            join<4>(room, query_heads, sums, masses, out, out_stride);
            barrier();
        }
        is_drawn = !alone;
        if (is_drawn && threadIdx.x == 0) {
            Joined whole = joined[work.joined];
            room.row = whole.row, room.first = whole.first, room.count = whole.count, room.head = first_head;
            room.ticket = work.joined * gridDim.x + blockIdx.x;
            before = arrive(tickets + room.ticket);
        }
        if (!goes_on) break;
        item += gridDim.y;
        turn = next_turn;
    }
    look();
    barrier();
    if (is_drawn && room.is_last) join<16>(room, query_heads, sums, masses, out, out_stride);
}

// Puts the splits of a row, or the pieces of a tile's row, and HEADS heads together, a block each; rows of no slots are none.
// Floor: 4 (DIM + 2) bytes a slot and head read once.
KERNEL(THREADS) combine(const Joined* __restrict__ all, u32 query_heads, const float* sums, const float2* masses,
                        bf16* __restrict__ out, u32 out_stride) {
    __shared__ Room room;
    begin();
    Joined joined = all[blockIdx.x];
    if (joined.count == 0) return;
    if (threadIdx.x == 0) {
        room.row = joined.row, room.first = joined.first, room.count = joined.count;
        room.head = blockIdx.y * HEADS;
    }
    barrier();
    join<8>(room, query_heads, sums, masses, out, out_stride);
}
