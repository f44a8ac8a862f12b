//! Draws a token from each row of logits, as exactly as the engine's sampler on the processor and equal to it bit by bit:
//! temperature, the nucleus of top-p with no top-k before it, min-p. Masses are whole numbers of 2^-44 of the greatest, so
//! sums are exact in any order; products and sums of doubles are never fused, so a mass is what the processor makes of the
//! same logit. The random bits are Philox4x32-10's at a request's seed and position (Salmon et al. 2011).
//!
//! A block takes one row: its greatest, sums by bucket of halvings below that, a search by halving within the bucket where
//! the nucleus ends (a bucket holds few different bf16 values), and the token at the drawn point. Floor: 2 bytes a token from
//! memory once; the five to twelve passes after the first read L2. About 30 operations on doubles a token and pass.

#define THREADS 1024
#define WARPS (THREADS / 32)
static const u32 NOBODY = 0xffffffffu;
// Tokens of a group, whose masses are summed together: a warp's at once.
static const u32 GROUP = 256;
static const u32 BUCKETS = 2048;
// Of temperature 1: log2(e).
static const double HALVINGS_OF_E = 1.4426950408889634074;
static const double HALVINGS_MAX = 60.0, BUCKETS_A_HALVING = 34.0;
// Adding this to a number below 2^51 leaves it, rounded to the nearest whole one, in the lowest bits.
static const double ROUNDER = 6755399441055744.0;

// The rules of one row.
struct Draw {
    double halvings; // log2(e) / temperature
    double part;     // top-p; 1 for all
    u64 least;       // min-p as a mass
    u64 seed, position;
    u64 greedy; // 1 for temperature 0
};

DEVICE double halvings_of(float top, float value, double halvings) {
    double down = times(plus((double)top, -(double)value), halvings);
    return down < HALVINGS_MAX ? down : HALVINGS_MAX;
}

// `2^-halvings` in units of 2^-44: the series of e^x to x^7 / 7!, and the power by its exponent.
DEVICE u64 mass_of(double halvings) {
    const double series[8] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
    double rounded_up = plus(halvings, ROUNDER);
    double rest = times(plus(plus(rounded_up, -ROUNDER), -halvings), 0.693147180559945309417);
    double power = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) power = plus(times(power, rest), series[i]);
    double unit = double_of((1023 + 44 - (double_bits(rounded_up) & 0xfff)) << 52);
    return double_bits(plus(times(power, unit), ROUNDER)) & ((1ull << 51) - 1);
}

DEVICE u32 bucket_of(double halvings) { return double_bits(plus(times(halvings, BUCKETS_A_HALVING), ROUNDER)) & 0xfff; }

// A number that grows with the logit; 0 and -0 are equal.
DEVICE u32 order_of(float value) {
    u32 bits = float_bits(value) >> 16;
    if (bits == 0x8000) bits = 0;
    return bits & 0x8000 ? ~bits & 0xffff : bits | 0x8000;
}

DEVICE u64 random_bits(u64 seed, u64 position) {
    u32 a = (u32)position, b = (u32)(position >> 32), c = 0, d = 0, k = (u32)seed, l = (u32)(seed >> 32);
    for (u32 round = 0; round < 10; ++round) {
        if (round > 0) k += 0x9E3779B9u, l += 0xBB67AE85u;
        u64 left = (u64)a * 0xD2511F53u, right = (u64)c * 0xCD9E8D57u;
        a = (u32)(right >> 32) ^ b ^ k;
        b = (u32)right;
        c = (u32)(left >> 32) ^ d ^ l;
        d = (u32)left;
    }
    return (u64)a | (u64)b << 32;
}

// Calls `look(value, id)` for all tokens; those of a group by one warp, eight a lane, in order.
template <typename Look>
DEVICE void over_row(const bf16* row, u32 count, Look look) {
    for (u32 at = threadIdx.x * 8; at < count; at += THREADS * 8) {
        Eight e = eight(row + at);
#pragma unroll
        for (u32 i = 0; i < 8; ++i)
            if (at + i < count) look(e.v[i], at + i);
    }
}

// Sums `load(value, id)` of each group into `sums`, and gives the sum of all.
template <typename Load>
DEVICE u64 sum_groups(const bf16* row, u32 count, u64* sums, u64* room, Load load) {
    u64 all = 0;
    for (u32 group = threadIdx.x / 32; group * GROUP < count; group += WARPS) {
        u32 at = group * GROUP + threadIdx.x % 32 * 8;
        u64 sum = 0;
        if (at < count) {
            Eight e = eight(row + at);
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
                if (at + i < count) sum += load(e.v[i], at + i);
        }
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) sums[group] = sum, all += sum;
    }
    return block_sum(all, room);
}

DEVICE u64 sum_before(u64 value, u64* all) {
    u32 lane = threadIdx.x % 32;
    u64 sum = value;
    for (u32 distance = 1; distance < 32; distance *= 2) {
        u64 below = from_lane_below(sum, distance);
        if (lane >= distance) sum += below;
    }
    *all = sum;
    return sum - value;
}

// By one warp: the first place where loads, one after the other, come to `missing` (at least 1), and what is missing there.
DEVICE void cross(const u64* loads, u32 count, u64 missing, u32* place, u64* missing_there) {
    u32 each = (count + 31) / 32, begin = min(threadIdx.x % 32 * each, count), end = min(begin + each, count);
    u64 own = 0, through;
    for (u32 i = begin; i < end; ++i) own += loads[i];
    u64 before = sum_before(own, &through);
    if (before < missing && through >= missing) {
        u64 left = missing - before;
        u32 i = begin;
        while (loads[i] < left) left -= loads[i++];
        *place = i;
        *missing_there = left;
    }
}

// By one warp: the id within a group where loads come to `missing`.
template <typename Load>
DEVICE void cross_group(const bf16* row, u32 count, u32 group, u64 missing, u32* id, Load load) {
    u32 at = group * GROUP + threadIdx.x % 32 * 8;
    u64 loads[8], own = 0, through;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        loads[i] = at + i < count ? load(widen(row[at + i]), at + i) : 0;
        own += loads[i];
    }
    u64 before = sum_before(own, &through);
    if (before < missing && through >= missing) {
        u64 sum = before;
        u32 found = NOBODY;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            sum += loads[i];
            if (found == NOBODY && sum >= missing) found = at + i;
        }
        *id = found;
    }
}

// What is told of a row: its id, the id's logit, the greatest logit, and the mass of the whole row at temperature 1.
struct Drawn {
    u32 id;
    float logit, top;
    u32 none;
    u64 mass;
};

// Writes what was drawn of each row, the id NOBODY where a logit is no number or infinite, or all are -infinity.
KERNEL(THREADS) sample(const bf16* __restrict__ logits, u32 stride, u32 count, const Draw* __restrict__ draws,
                       Drawn* __restrict__ drawn) {
    begin();
    __shared__ u64 loads[BUCKETS], room[WARPS], missing_there;
    __shared__ float tops[WARPS];
    __shared__ u32 lowest[WARPS], highest[WARPS], place, found;
    const bf16* row = logits + (size_t)blockIdx.x * stride;
    Draw draw = draws[blockIdx.x];
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    float top = -INFINITY;
    u64 wrong = 0;
    over_row(row, count, [&](float value, u32) {
        top = fmaxf(top, value);
        if (!(value < INFINITY)) wrong = 1;
    });
    top = warp_max(top);
    if (lane == 0) tops[warp] = top;
    wrong = block_sum(wrong, room);
    for (u32 w = 0; w < WARPS; ++w) top = fmaxf(top, tops[w]);
    if (wrong > 0 || top == -INFINITY) {
        if (threadIdx.x == 0) drawn[blockIdx.x].id = NOBODY;
        return;
    }
    u64 raw = 0;
    over_row(row, count, [&](float value, u32) { raw += mass_of(halvings_of(top, value, HALVINGS_OF_E)); });
    raw = block_sum(raw, room);
    auto tell = [&](u32 id) { drawn[blockIdx.x] = Drawn{id, widen(row[id]), top, 0, raw}; };
    auto mass = [&](float value) { return mass_of(halvings_of(top, value, draw.halvings)); };
    // What is kept: greater logits than that of this order, and those equal to it up to this id.
    u32 order = 0, last = NOBODY;

    if (draw.greedy) {
        u32 first = NOBODY;
        over_row(row, count, [&](float value, u32 id) {
            if (value == top) first = min(first, id);
        });
        for (u32 mask = 16; mask > 0; mask >>= 1) first = min(first, (u32)from_lane_xor((u64)first, mask));
        if (lane == 0) lowest[warp] = first;
        barrier();
        for (u32 w = 0; w < WARPS; ++w) first = min(first, lowest[w]);
        if (threadIdx.x == 0) tell(first);
        return;
    }
    if (draw.part < 1.0) {
        for (u32 i = threadIdx.x; i < BUCKETS; i += THREADS) loads[i] = 0;
        barrier();
        u64 all = 0;
        over_row(row, count, [&](float value, u32) {
            double down = halvings_of(top, value, draw.halvings);
            u64 load = mass_of(down);
            if (load > 0) {
                add_shared(&loads[bucket_of(down)], load);
                all += load;
            }
        });
        all = block_sum(all, room);
        u64 enough = max((u64)ceil(times(draw.part, (double)all)), 1ull);
        if (warp == 0) cross(loads, BUCKETS, enough, &place, &missing_there);
        barrier();
        u32 bucket = place;
        u64 missing = missing_there;
        // The orders of the bucket where the nucleus ends: a logit between them is of that bucket, since buckets follow logits.
        u32 low = 0xffff, high = 0;
        over_row(row, count, [&](float value, u32) {
            double down = halvings_of(top, value, draw.halvings);
            if (bucket_of(down) != bucket || mass_of(down) == 0) return;
            low = min(low, order_of(value));
            high = max(high, order_of(value));
        });
        for (u32 mask = 16; mask > 0; mask >>= 1) {
            low = min(low, (u32)from_lane_xor((u64)low, mask));
            high = max(high, (u32)from_lane_xor((u64)high, mask));
        }
        if (lane == 0) lowest[warp] = low, highest[warp] = high;
        barrier();
        for (u32 w = 0; w < WARPS; ++w) low = min(low, lowest[w]), high = max(high, highest[w]);
        // The greatest order whose tokens, and those above, come to what is missing.
        u32 end = high + 1;
        auto from = [&](u32 least) {
            u64 sum = 0;
            over_row(row, count, [&](float value, u32) {
                u32 at = order_of(value);
                if (at >= least && at <= high) sum += mass(value);
            });
            return block_sum(sum, room);
        };
        while (end - low > 1) {
            u32 middle = low + (end - low) / 2;
            if (from(middle) >= missing) low = middle;
            else end = middle;
        }
        order = low;
        missing -= low < high ? from(low + 1) : 0;
        // So many equal ones are kept, by id.
        auto equal = [&](float value, u32) { return (u64)(order_of(value) == order ? 1 : 0); };
        u32 bits = order & 0x8000 ? order & 0x7fff : ~order & 0xffff;
        u64 each = mass(widen(bits)), kept = (missing + each - 1) / each;
        sum_groups(row, count, loads, room, equal);
        if (warp == 0) {
            cross(loads, (count + GROUP - 1) / GROUP, kept, &place, &missing_there);
            warp_barrier();
            cross_group(row, count, place, missing_there, &found, equal);
        }
        barrier();
        last = found;
    }
    auto load = [&](float value, u32 id) {
        u32 at = order_of(value);
        u64 own = at > order || (at == order && id <= last) ? mass(value) : 0;
        return own >= draw.least ? own : 0;
    };
    barrier();
    u64 all = sum_groups(row, count, loads, room, load);
    u64 point = upper_half(random_bits(draw.seed, draw.position), all);
    if (warp == 0) {
        cross(loads, (count + GROUP - 1) / GROUP, point + 1, &place, &missing_there);
        warp_barrier();
        cross_group(row, count, place, missing_there, &found, load);
        warp_barrier();
        if (lane == 0) tell(found);
    }
}
