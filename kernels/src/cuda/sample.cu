//! Draws a token from each row of logits, as exactly as the engine's sampler on the processor and equal to it bit by bit:
//! temperature, the nucleus of top-p with no top-k before it, min-p. Masses are whole numbers of 2^-44 of the greatest, so
//! sums are exact in any order; products and sums of doubles are never fused, so a mass is what the processor makes of the
//! same logit. Logits are counted by value first, so that a mass is computed once for each different value of a row and not
//! for each token. Floor: 2 bytes a token from memory once, and an addition to shared memory for each.

#define THREADS 1024
#define WARPS (THREADS / 32)
// Tokens of a group, whose masses are summed together: a warp's at once. And groups of a chunk at most.
static const u32 GROUP = 256, GROUPS = 128;
// Orders of a section, in which the end of the nucleus is looked for.
static const u32 SECTION = 64, SECTIONS = 65536 / SECTION;
// Of temperature 1: log2(e).
static const double HALVINGS_OF_E = 1.4426950408889634074;
static const double HALVINGS_MAX = 60.0;
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

// What is told of a row: its id, the id's logit, the greatest logit, and the mass of the whole row at temperature 1.
struct Drawn {
    u32 id;
    float logit, top;
    u32 none;
    u64 mass;
};

// Sections begin with the greatest orders, as do the orders of a section.
DEVICE u32 section_of(u32 order) { return SECTIONS - 1 - order / SECTION; }
DEVICE u32 order_at(u32 section, u32 place) { return (SECTIONS - section) * SECTION - 1 - place; }

DEVICE u64 random_bits(u64 seed, u64 position) {
    // Philox4x32-10 (Salmon et al. 2011).
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

DEVICE double halved(double down, double halvings) {
    down = times(down, halvings);
    return down < HALVINGS_MAX ? down : HALVINGS_MAX;
}

DEVICE double halvings_of(float top, float value, double halvings) {
    return halved(plus((double)top, -(double)value), halvings);
}

// `2^-halvings` in units of 2^-44: the series of e^x to x^7 / 7!, and the power by its exponent.
DEVICE u64 mass_of(double halvings) {
    const double series[8] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
    double rounded_up = plus(halvings, ROUNDER);
    double rest = times(plus(plus(rounded_up, -ROUNDER), -halvings), 0.693147180559945309417);
    double power = series[0];
#pragma unroll
    for (u32 i = 1; i < 8; ++i) power = plus(times(power, rest), series[i]);
    double unit = double_of((1023 + 44 - (double_bits(rounded_up) & 0xfff)) << 52);
    return double_bits(plus(times(power, unit), ROUNDER)) & ((1ull << 51) - 1);
}

// The sum of the values of the lanes below.
DEVICE u64 sum_before(u64 value) {
    u32 lane = threadIdx.x % 32;
    u64 sum = value;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
        u64 below = from_lane_below(sum, distance);
        if (lane >= distance) sum += below;
    }
    return sum - value;
}

// By one warp: the first place where loads, one after the other, come to `missing` (at least 1), and what is missing there.
DEVICE void cross(const u64* loads, u32 count, u64 missing, u32* place, u64* missing_there) {
    u32 each = (count + 31) / 32, begin = min(threadIdx.x % 32 * each, count), end = min(begin + each, count);
    u64 own = 0;
#pragma unroll 1
    for (u32 i = begin; i < end; ++i) own += loads[i];
    u64 before = sum_before(own);
    if (before < missing && before + own >= missing) {
        u64 left = missing - before;
        u32 i = begin;
        while (loads[i] < left) left -= loads[i++];
        *place = i;
        *missing_there = left;
    }
}

// Pairs of neighbouring bins of a thread.
static const u32 PAIRS = BINS / 2 / THREADS;

// What the threads of a block share about their row.
struct Shared {
    u64 masses[BINS]; // Of one token of each bin; in the end of those that are kept only.
    u64 sections[SECTIONS];
    u64 strays[GROUP], fine[SECTION], groups[GROUPS], of_chunks[WARPS], room[WARPS], missing;
    u32 counts[BINS];
    u32 equal[WARPS], kept[GROUPS], place, kept_there;
};
static_assert(sizeof(Counted) == 13312 && sizeof(Shared) <= 87 << 10, "the host reserves so much");

// Where the nucleus ends: greater logits than that of this order are kept, and the first few of those equal to it.
struct Cut {
    u32 order;
    u64 each, kept;
};

// A row as a thread sees it. The strays of a chunk are those of the warp of its number.
struct Row {
    const bf16* logits;
    const Counted* counted;
    u32 count, chunk, chunks, strays, top;
    Draw draw;
};

DEVICE u64 mass_at(const Row& row, u32 order) {
    return mass_of(halvings_of(value_of(row.top), value_of(order), row.draw.halvings));
}

DEVICE u64 mass_if_enough(const Row& row, u32 order) {
    u64 own = mass_at(row, order);
    return own >= row.draw.least ? own : 0;
}

DEVICE Chunk chunk_of(const Row& row, u32 number) {
    u32 begin = number * row.chunk;
    return Chunk{row.logits, begin, min(begin + row.chunk, row.count), row.counted + number};
}

// Counts the whole row by value; gives the order of its greatest, 0 where there is none and 2^16 where a logit is wrong.
DEVICE u32 count_row(const Row& row, Shared& shared) {
    u32 warp = threadIdx.x / 32, top = 0;
    u32 even[PAIRS] = {}, odd[PAIRS] = {};
#pragma unroll 4
    for (u32 chunk = 0; chunk < row.chunks; ++chunk) {
#pragma unroll
        for (u32 i = 0; i < PAIRS; ++i) {
            u32 both = row.counted[chunk].pairs[threadIdx.x + i * THREADS];
            even[i] += both & 0xffff;
            odd[i] += both >> 16;
        }
    }
#pragma unroll
    for (u32 i = 0; i < PAIRS; ++i) {
        u32 bin = 2 * (threadIdx.x + i * THREADS);
        shared.counts[bin] = even[i];
        shared.counts[bin + 1] = odd[i];
        if (even[i] + odd[i] > 0) top = max(top, order_of_bin(even[i] > 0 ? bin : bin + 1));
    }
    shared.sections[threadIdx.x] = 0;
    if (warp < row.chunks) {
        if (row.counted[warp].wrong) top = 0x10000;
        over_strays(chunk_of(row, warp), row.strays, [&](u32 order, u32) { top = max(top, order); });
    }
#pragma unroll
    for (u32 mask = 16; mask > 0; mask >>= 1) top = max(top, (u32)from_lane_xor((u64)top, mask));
    if (threadIdx.x % 32 == 0) shared.room[warp] = top;
    barrier();
    top = (u32)shared.room[threadIdx.x % 32];
#pragma unroll
    for (u32 mask = 16; mask > 0; mask >>= 1) top = max(top, (u32)from_lane_xor((u64)top, mask));
    barrier();
    return top;
}

// Lays down the mass of a token of each bin and the loads of all sections; gives the row's mass at temperature 1.
DEVICE u64 weigh_row(const Row& row, Shared& shared) {
    u64 raw = 0;
    // Greedy draws need no masses of their own but the greatest's, which is the same at every temperature.
    bool plain = row.draw.halvings == HALVINGS_OF_E || row.draw.greedy;
    // A warp takes a section at a time. Both bins of a thread are weighed where one has tokens, so that they go side by side.
#pragma unroll 1
    for (u32 bin = 2 * threadIdx.x; bin < BINS; bin += 2 * THREADS) {
        u64 tokens[2] = {shared.counts[bin], shared.counts[bin + 1]}, masses[2] = {0, 0}, load = 0;
        if (tokens[0] + tokens[1] > 0) {
            u64 at_one[2];
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                double down = plus((double)value_of(row.top), -(double)value_of(order_of_bin(bin + i)));
                at_one[i] = masses[i] = mass_of(halved(down, HALVINGS_OF_E));
                if (!plain) masses[i] = mass_of(halved(down, row.draw.halvings));
            }
            raw += tokens[0] * at_one[0] + tokens[1] * at_one[1];
            load = tokens[0] * masses[0] + tokens[1] * masses[1];
        }
        shared.masses[bin] = masses[0];
        shared.masses[bin + 1] = masses[1];
        load = warp_sum(load);
        if (threadIdx.x % 32 == 0) shared.sections[section_of(order_of_bin(bin))] = load;
    }
    over_strays(chunk_of(row, threadIdx.x / 32), row.strays, [&](u32 order, u32 tokens) {
        raw += tokens * mass_of(halvings_of(value_of(row.top), value_of(order), HALVINGS_OF_E));
        add_shared(&shared.sections[section_of(order)], tokens * mass_at(row, order));
    });
    return block_sum(raw, shared.room);
}

DEVICE Cut end_of_nucleus(const Row& row, Shared& shared) {
    u32 warp = threadIdx.x / 32;
    u64 own = shared.sections[threadIdx.x], before = sum_before(own);
    if (threadIdx.x % 32 == 31) shared.room[warp] = before + own;
    barrier();
    u64 of_warp = shared.room[threadIdx.x % 32], all = warp_sum(of_warp);
    before += warp_sum(threadIdx.x % 32 < warp ? of_warp : 0);
    u64 enough = min(max((u64)ceil(times(row.draw.part, (double)all)), 1ull), all);
    if (before < enough && before + own >= enough) {
        shared.place = threadIdx.x;
        shared.missing = enough - before;
    }
    barrier();
    u32 section = shared.place;
    u64 missing = shared.missing;
    if (threadIdx.x < SECTION) {
        u32 bin = bin_of_order(order_at(section, threadIdx.x));
        shared.fine[threadIdx.x] = bin < BINS ? shared.counts[bin] * shared.masses[bin] : 0;
    }
    barrier();
    over_strays(chunk_of(row, warp), row.strays, [&](u32 order, u32 tokens) {
        if (section_of(order) == section) add_shared(&shared.fine[SECTION - 1 - order % SECTION], tokens * mass_at(row, order));
    });
    barrier();
    if (warp == 0) cross(shared.fine, SECTION, missing, &shared.place, &shared.missing);
    barrier();
    u32 order = order_at(section, shared.place);
    u64 each = mass_at(row, order);
    return Cut{order, each, (shared.missing + each - 1) / each};
}

// Sums what is kept of each chunk, and by how many tokens of the cut's own order it has. Afterwards the bins hold masses of
// what is kept whatever its id.
DEVICE void sum_chunks(const Row& row, Shared& shared, const Cut& cut) {
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (u32 bin = threadIdx.x; bin < BINS; bin += THREADS)
        if (order_of_bin(bin) <= cut.order || shared.masses[bin] < row.draw.least) shared.masses[bin] = 0;
    if (threadIdx.x < WARPS) shared.of_chunks[threadIdx.x] = 0;
    barrier();
    if (threadIdx.x == 0) shared.place = NOBODY;
    u64 sum = 0, equal = 0;
    over_strays(chunk_of(row, warp), row.strays, [&](u32 order, u32 tokens) {
        if (order > cut.order) sum += tokens * mass_if_enough(row, order);
        if (order == cut.order) equal += tokens;
    });
    u32 bin = bin_of_order(cut.order);
    if (lane == 0 && warp < row.chunks && bin < BINS) equal = row.counted[warp].pairs[bin / 2] >> 16 * (bin % 2) & 0xffff;
    equal = warp_sum(equal);
    if (lane == 0) shared.equal[warp] = (u32)equal;
    // Several warps a chunk: one takes it a section at a time.
    sum = warp_sum(sum);
    if (lane == 0) add_shared(&shared.of_chunks[warp], sum);
    u32 share = WARPS / row.chunks, number = warp / share;
    if (number >= row.chunks) return;
    const u32* pairs = row.counted[number].pairs;
    sum = 0;
    // Several loads of a thread are under way at once.
    const u32 LOADS = 6;
    for (u32 from = warp % share; from < BINS / SECTION; from += LOADS * share) {
        // Sections begin with the greatest.
        if (order_of_bin(from * SECTION) <= cut.order) break;
        u32 both[LOADS];
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i) {
            u32 at = from + i * share;
            bool some = at < BINS / SECTION && shared.sections[section_of(order_of_bin(at * SECTION))] > 0;
            both[i] = some && order_of_bin(at * SECTION) > cut.order ? pairs[at * SECTION / 2 + lane] : 0;
        }
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i) {
            u32 bin = (from + i * share) * SECTION + 2 * lane;
            if (both[i] > 0) sum += (both[i] & 0xffff) * shared.masses[bin] + (both[i] >> 16) * shared.masses[bin + 1];
        }
    }
    sum = warp_sum(sum);
    if (lane == 0) add_shared(&shared.of_chunks[number], sum);
}

// By one warp: the chunk in which the drawn point is, none where nothing is kept, and what is missing at its begin.
DEVICE void choose_chunk(const Row& row, Shared& shared, const Cut& cut, u64 each) {
    u32 lane = threadIdx.x;
    u64 equal = lane < row.chunks ? shared.equal[lane] : 0, before = sum_before(equal);
    u64 kept = min(equal, cut.kept - min(cut.kept, before));
    u64 load = shared.of_chunks[lane] + kept * each;
    u64 missing = upper_half(random_bits(row.draw.seed, row.draw.position), warp_sum(load)) + 1;
    before = sum_before(load);
    if (before < missing && before + load >= missing) {
        shared.place = lane;
        shared.missing = missing - before;
        shared.kept_there = (u32)kept;
    }
}

// Eight tokens' bits; -infinity behind a chunk's end.
DEVICE uint4 words_at(const Chunk& chunk, u32 at) { return at < chunk.end ? bits_of_eight(chunk.row + at) : uint4{0, 0, 0, 0}; }

DEVICE void unpack_tokens(const Chunk& chunk, u32 at, uint4 words, u32 (&bits)[8]) {
    bits[0] = words.x & 0xffff, bits[1] = words.x >> 16, bits[2] = words.y & 0xffff, bits[3] = words.y >> 16;
    bits[4] = words.z & 0xffff, bits[5] = words.z >> 16, bits[6] = words.w & 0xffff, bits[7] = words.w >> 16;
    if (at + 8 <= chunk.end) return;
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        if (at + i >= chunk.end) bits[i] = MINUS_INFINITY;
}

// Equal ones of a group are counted above the sum of its masses, which are at most 2^44 each.
static const u32 SUM_BITS = 54;

// What a token adds to its group's sum; a stray that is kept adds nothing and is told of.
DEVICE u64 load_of(const Shared& shared, const Cut& cut, u32 bits, bool& stray) {
    u32 order = order_of(bits), bin = bin_of(bits);
    if (order <= cut.order) return order == cut.order ? 1ull << SUM_BITS : 0;
    if (bin < BINS) return shared.masses[bin];
    stray = stray || bits != MINUS_INFINITY;
    return 0;
}

// The token of a chunk where what is kept, by id, comes to what is missing.
DEVICE void find_token(const Row& row, Shared& shared, const Cut& cut, u64 each, const Chunk& chunk, Drawn drawn, Drawn* out) {
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, groups = (chunk.end - chunk.begin + GROUP - 1) / GROUP, bits[8];
    auto kept_stray = [&](u32 at) -> u64 {
        u32 own = at < chunk.end ? chunk.row[at] : MINUS_INFINITY;
        return is_stray(own) && order_of(own) > cut.order ? mass_if_enough(row, order_of(own)) : 0;
    };
    // No number where all are kept, which nothing is less than.
    float least = value_of(cut.order);
    u32 at = chunk.begin + warp * GROUP + 8 * lane;
    uint4 words = words_at(chunk, at);
#pragma unroll 1
    for (u32 group = warp; group < groups; group += WARPS, at += WARPS * GROUP) {
        unpack_tokens(chunk, at, words, bits);
        words = words_at(chunk, at + WARPS * GROUP);
        u64 sum = 0;
        bool stray = false;
        float greatest = -INFINITY;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) greatest = fmaxf(greatest, widen(bits[i]));
        if (!(greatest < least)) {
#pragma unroll
            for (u32 i = 0; i < 8; ++i) sum += load_of(shared, cut, bits[i], stray);
        }
        if (stray) {
#pragma unroll 1
            for (u32 i = 0; i < 8; ++i) sum += kept_stray(at + i);
        }
        sum = warp_sum(sum);
        if (lane == 0) shared.groups[group] = sum;
    }
    u64 missing = shared.missing, kept = shared.kept_there;
    barrier();
    if (warp > 0) return;
    u32 some = (groups + 31) / 32, begin = min(lane * some, groups), end = min(begin + some, groups);
    u64 equal = 0;
#pragma unroll 1
    for (u32 i = begin; i < end; ++i) equal += shared.groups[i] >> SUM_BITS;
    u64 before = sum_before(equal);
#pragma unroll 1
    for (u32 i = begin; i < end; ++i) {
        u64 sum = shared.groups[i], left = kept - min(kept, before), own = min(sum >> SUM_BITS, left);
        before += sum >> SUM_BITS;
        shared.kept[i] = (u32)own;
        shared.groups[i] = (sum & ((1ull << SUM_BITS) - 1)) + own * each;
    }
    cross(shared.groups, groups, missing, &shared.place, &shared.missing);
    warp_barrier();
    u32 group = shared.place;
    missing = shared.missing;
    kept = shared.kept[group];
    at = chunk.begin + group * GROUP + 8 * lane;
    unpack_tokens(chunk, at, words_at(chunk, at), bits);
    u64 loads[8], own = 0;
    bool stray = false;
    equal = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        loads[i] = load_of(shared, cut, bits[i], stray);
        equal += loads[i] >> SUM_BITS;
    }
    before = sum_before(equal);
    if (stray) {
#pragma unroll 1
        for (u32 i = 0; i < 8; ++i) shared.strays[8 * lane + i] = kept_stray(at + i);
    }
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        if (loads[i] >> SUM_BITS) loads[i] = before++ < kept ? each : 0;
        if (stray && is_stray(bits[i])) loads[i] += shared.strays[8 * lane + i];
        own += loads[i];
    }
    u64 sum = sum_before(own);
    if (sum >= missing || sum + own < missing) return;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        if (sum < missing && sum + loads[i] >= missing) {
            drawn.id = at + i;
            drawn.logit = widen(bits[i]);
        }
        sum += loads[i];
    }
    *out = drawn;
}

// A block a row, after its tokens were counted. Writes what was drawn, the id NOBODY where a logit is no number or infinite, or
// all are -infinity.
KERNEL(THREADS) sample(const bf16* __restrict__ logits, u32 stride, u32 count, u32 chunk, const Counted* __restrict__ counted,
                       const Draw* __restrict__ draws, Drawn* __restrict__ drawn) {
    begin();
    SHARED_BYTES(bytes);
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    u32 chunks = (count + chunk - 1) / chunk, warp = threadIdx.x / 32;
    Row row = {logits + (size_t)blockIdx.x * stride, counted + (size_t)blockIdx.x * chunks, count, chunk, chunks, 0, 0,
               draws[blockIdx.x]};
    if (warp < chunks) row.strays = row.counted[warp].strays;
    row.top = count_row(row, shared);
    if (row.top == 0 || row.top >= 0x10000) {
        if (threadIdx.x == 0) drawn[blockIdx.x].id = NOBODY;
        return;
    }
    u64 raw = weigh_row(row, shared);
    Cut cut = {0, 0, 0};
    if (row.draw.greedy) cut = Cut{row.top, mass_at(row, row.top), 1};
    else if (row.draw.part < 1.0) cut = end_of_nucleus(row, shared);
    u64 each = cut.each >= row.draw.least ? cut.each : 0;
    sum_chunks(row, shared, cut);
    barrier();
    if (warp == 0) choose_chunk(row, shared, cut, each);
    barrier();
    u32 chosen = shared.place;
    Drawn told = {NOBODY, 0.0f, value_of(row.top), 0, raw};
    if (chosen >= chunks) {
        if (threadIdx.x == 0) drawn[blockIdx.x] = told;
        return;
    }
    find_token(row, shared, cut, each, chunk_of(row, chosen), told, drawn + blockIdx.x);
}
