//! Counts the logits of rows by value, for the sampler: bf16 has few different values, so what is then done for each value need
//! not be done for each token. The commonest values have bins in shared memory; all others are listed one by one.
//!
//! Floor: 2 bytes a token from memory once, and an addition to shared memory for each.

#define COUNTERS 512
static const u32 NOBODY = 0xffffffffu;
// Values that have a bin: those whose size is from 2^-14 to below 2^10. All others but -infinity are strays.
static const u32 LOWEST = (127 - 14) << 7, SIZES = 24 << 7, BINS = 2 * SIZES;
static const u32 MINUS_INFINITY = 0xff80, INFINITE = 0x7f80;

// The tokens of a chunk by value, fewer than 2^16 of them: how many have the values of bins 2i and 2i + 1, and the strays as
// order << 16 | tokens. Where there are more strays than have room, none is there, and the tokens tell.
static const u32 STRAYS = 252;
struct Counted {
    u32 strays;
    u32 wrong; // 1 where a logit is no number or +infinity
    u32 none[2];
    u32 stray[STRAYS];
    u32 pairs[BINS / 2];
};

// A number that grows with the logit of these bits; 0 and -0 are equal.
DEVICE u32 order_of(u32 bits) {
    if (bits == 0x8000) bits = 0;
    return bits & 0x8000 ? ~bits & 0xffff : bits | 0x8000;
}

DEVICE float value_of(u32 order) { return widen(order & 0x8000 ? order & 0x7fff : ~order & 0xffff); }

// The bin of a logit's bits, BINS or more for one that has none; bins begin with the greatest value.
DEVICE u32 bin_of(u32 bits) {
    u32 size = (bits & 0x7fff) - LOWEST, negative = bits >> 15;
    return size < SIZES ? (size ^ (negative - 1)) + SIZES : NOBODY;
}

DEVICE u32 order_of_bin(u32 bin) { return bin < SIZES ? 0x8000 + LOWEST + SIZES - 1 - bin : 0x7fff - LOWEST + SIZES - bin; }
DEVICE u32 bin_of_order(u32 order) { return bin_of(order & 0x8000 ? order & 0x7fff : ~order & 0xffff); }
// Where a bin is counted: sizes upwards, those of negative numbers behind the others.
DEVICE u32 place_of(u32 bin) { return bin < SIZES ? SIZES - 1 - bin : bin; }
DEVICE bool is_stray(u32 bits) { return bin_of(bits) >= BINS && bits != MINUS_INFINITY; }

// Counts a chunk of a row by value: blocks are rows side by side and their chunks one below the other.
KERNEL(COUNTERS) count_logits(const bf16* __restrict__ logits, u32 stride, u32 count, u32 chunk,
                              Counted* __restrict__ counted) {
    let_next_begin();
    __shared__ uint4 of_four_bins[BINS / 4];
    __shared__ u32 strays, zeros, wrong;
    u32* counts = reinterpret_cast<u32*>(of_four_bins);
    for (u32 i = threadIdx.x; i < BINS / 4; i += COUNTERS) of_four_bins[i] = uint4{0, 0, 0, 0};
    if (threadIdx.x == 0) strays = zeros = wrong = 0;
    barrier();
    after_previous();
    const bf16* row = logits + (size_t)blockIdx.x * stride;
    Counted* own = counted + (size_t)blockIdx.x * ((count + chunk - 1) / chunk) + blockIdx.y;
    u32 end = min((blockIdx.y + 1) * chunk, count);
    auto take_stray = [&](u32 bits) {
        if ((bits & 0x7fff) == 0) {
            add_shared(&zeros, 1u);
        } else if (bits == INFINITE || (bits & 0x7fff) > INFINITE) {
            wrong = 1;
        } else if (is_stray(bits)) {
            u32 place = add_shared(&strays, 1u);
            if (place < STRAYS) own->stray[place] = order_of(bits) << 16 | 1;
        }
    };
    for (u32 at = blockIdx.y * chunk + 8 * threadIdx.x; at < end; at += 8 * COUNTERS) {
        uint4 bits = bits_of_eight(row + at);
        u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
        bool whole = at + 8 <= end, all = whole;
        if (whole) {
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                u32 down = (words[i / 2] >> 16 * (i % 2)) - LOWEST, size = down & 0x7fff;
                if (size < SIZES) add_shared(counts + size + (down >> 15 & 1) * SIZES, 1u);
                else all = false;
            }
        }
        if (all) continue;
        // Strays, and what is before the row's end.
#pragma unroll 1
        for (u32 i = at; i < min(at + 8, end); ++i) {
            u32 own = row[i], size = (own & 0x7fff) - LOWEST;
            if (size >= SIZES) take_stray(own);
            else if (!whole) add_shared(counts + size + (own >> 15) * SIZES, 1u);
        }
    }
    barrier();
    for (u32 pair = threadIdx.x; pair < BINS / 2; pair += COUNTERS)
        own->pairs[pair] = counts[place_of(2 * pair)] | counts[place_of(2 * pair + 1)] << 16;
    if (threadIdx.x == 0) {
        // Zeros are many where a vocabulary is padded: one stray for all of them.
        if (zeros > 0) {
            if (strays < STRAYS) own->stray[strays] = 0x80000000u | zeros;
            ++strays;
        }
        own->strays = strays;
        own->wrong = wrong;
    }
}

// Part of a row: its tokens from `begin` to before `end`, and how they were counted.
struct Chunk {
    const bf16* row;
    u32 begin, end;
    const Counted* counted;
};

// By one warp: calls `look(order, tokens)` for the strays of a chunk. They are few: what is done for them is kept short, not fast.
template <typename Look>
DEVICE void over_strays(const Chunk& chunk, u32 strays, Look look) {
    bool listed = strays <= STRAYS;
    u32 count = listed ? strays : chunk.end - chunk.begin;
#pragma unroll 1
    for (u32 i = threadIdx.x % 32; i < count; i += 32) {
        u32 order = 0, tokens = 1;
        if (listed) {
            order = chunk.counted->stray[i] >> 16;
            tokens = chunk.counted->stray[i] & 0xffff;
        } else {
            u32 bits = chunk.row[chunk.begin + i];
            if (!is_stray(bits)) continue;
            order = order_of(bits);
        }
        look(order, tokens);
    }
}
