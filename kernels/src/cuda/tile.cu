//! Attention of single new tokens over a paged cache, split along the context (Flash-Decoding): what one warp does. It takes 16
//! tokens at a time: scores are keys times queries and results are values times shares, by products of small matrices with the
//! heads as their 8 columns. Keys and values go from memory to registers, 16 bytes a lane, in the places that the products want:
//! which of a head's values meet at which step of a sum is arbitrary, and so is their order in a result.
//!
//! Defines: DIM (64 or 128), HEADS (at most 8, a divisor of the group).

#define WARPS 8
#define THREADS (32 * WARPS)
#define TILE 16                // tokens of a warp at a time
#define ROUND (TILE * WARPS)   // tokens of a block at a time
#define PAGES 16               // of a split at most
#define OF_KEY (DIM / 32)      // 16-byte pieces of a token's key that a lane has
#define OF_VALUE (DIM / 64)    // of a token's value
static const u32 ALONE = 0xffffffffu;

// What a split is: its row, its tokens and whether the last of them is new, where its sums go, which entry of `joined` its row
// has, and its pages. One of no tokens is behind the last.
struct alignas(16) Split {
    u32 row, tokens_and_new, slot, joined, pages[PAGES];
};
static const u32 IS_NEW = 0x10000;

DEVICE u32 tokens_of(const Split& split) { return split.tokens_and_new % IS_NEW; }

// Where the keys of this warp's tile of a round are, if it has one: the cache is that of the item's key head.
DEVICE const bf16* tile_of(const Split& split, u32 round, u32 warp, const bf16* cache, u64 page_stride) {
    if (round * ROUND + warp * TILE >= tokens_of(split)) return nullptr;
    u32 page = split.pages[round * (ROUND / 64) + warp / (64 / TILE)];
    return cache + (size_t)page * page_stride + warp % (64 / TILE) * TILE * DIM;
}

// A lane's part of the keys of tokens `lane / 4` and 8 on.
DEVICE void load_keys(uint4 (&keys)[2][OF_KEY], const bf16* tile, u32 lane) {
    const bf16* from = tile + lane / 4 * DIM + 8 * (lane % 4);
#pragma unroll
    for (u32 half = 0; half < 2; ++half)
#pragma unroll
        for (u32 j = 0; j < OF_KEY; ++j) keys[half][j] = streamed(from + half * 8 * DIM + 32 * j);
}

// A lane's part of the values of tokens `2 (lane % 4)`, one on, and 8 on of both.
DEVICE void load_values(uint4 (&values)[4][OF_VALUE], const bf16* tile, u32 lane) {
    const bf16* from = tile + 64 * DIM + 2 * (lane % 4) * DIM + 8 * (lane / 4);
#pragma unroll
    for (u32 n = 0; n < 4; ++n)
#pragma unroll
        for (u32 j = 0; j < OF_VALUE; ++j) values[n][j] = streamed(from + (n % 2 + 8 * (n / 2)) * DIM + 64 * j);
}

// What a warp knows of an item so far; of heads `2 (lane % 4)` and one on: the greatest score (by the power of two), the mass of
// this lane's tokens, and the mixed values `64 j + 8 (lane / 4) + 2 p` and one on, first of both heads, then of both.
struct Mix {
    float most[2], mass[2], values[OF_VALUE][4][4];
};

DEVICE void clear(Mix& mix) {
#pragma unroll
    for (u32 h = 0; h < 2; ++h) mix.most[h] = -INFINITY, mix.mass[h] = 0;
#pragma unroll
    for (u32 j = 0; j < OF_VALUE; ++j)
#pragma unroll
        for (u32 p = 0; p < 4; ++p)
#pragma unroll
            for (u32 i = 0; i < 4; ++i) mix.values[j][p][i] = 0;
}

// Scores of tokens `lane / 4` (both heads) and 8 on. `queries` are rows of DIM + 32 values.
DEVICE void score(float (&scores)[4], const uint4 (&keys)[2][OF_KEY], const bf16* queries, u32 lane) {
    // Two sums, so that a product need not wait for the one before it.
    float sums[2][4] = {};
    const bf16* query = queries + min(lane / 4, (u32)HEADS - 1) * (DIM + 32) + 8 * (lane % 4);
#pragma unroll
    for (u32 j = 0; j < OF_KEY; ++j) {
        uint4 a = keys[0][j], b = keys[1][j], q = bits_of_eight(query + 32 * j);
        u32 first[4] = {a.x, b.x, a.y, b.y}, second[4] = {a.z, b.z, a.w, b.w};
        multiply(sums[0], first, q.x, q.y);
        multiply(sums[1], second, q.z, q.w);
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) scores[i] = sums[0][i] + sums[1][i];
}

// Makes scores shares, of which `tokens` from the tile's first on are real, and gives them back as columns of a product.
DEVICE void weigh(Mix& mix, float (&scores)[4], u32 tokens, float scale, u32 (&shares)[2], u32 lane) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) scores[i] = lane / 4 + 8 * (i / 2) < tokens ? scores[i] * scale : -INFINITY;
    float kept[2];
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        float top = fmaxf(scores[h], scores[2 + h]);
#pragma unroll
        for (u32 mask = 4; mask < 32; mask <<= 1) top = fmaxf(top, from_lane_xor(top, mask));
        // A tile has at least one token, so this is a number.
        top = fmaxf(top, mix.most[h]);
        kept[h] = power_of_two(mix.most[h] - top);
        mix.most[h] = top;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) scores[2 * half + h] = power_of_two(scores[2 * half + h] - top);
        mix.mass[h] = mix.mass[h] * kept[h] + scores[h] + scores[2 + h];
    }
#pragma unroll
    for (u32 half = 0; half < 2; ++half) shares[half] = transposed(narrow2(scores[2 * half], scores[2 * half + 1]));
#pragma unroll
    for (u32 j = 0; j < OF_VALUE; ++j)
#pragma unroll
        for (u32 p = 0; p < 4; ++p)
#pragma unroll
            for (u32 i = 0; i < 4; ++i) mix.values[j][p][i] *= kept[i % 2];
}

DEVICE u32 word_of(const uint4& bits, u32 p) { return p == 0 ? bits.x : p == 1 ? bits.y : p == 2 ? bits.z : bits.w; }

DEVICE void mix_in(Mix& mix, uint4 (&values)[4][OF_VALUE], const u32 (&shares)[2], u32 tokens, u32 lane) {
    // What is not there yet may hold anything, and zero times that must be zero.
    if (tokens < TILE) {
#pragma unroll
        for (u32 n = 0; n < 4; ++n)
            if (2 * (lane % 4) + n % 2 + 8 * (n / 2) >= tokens)
#pragma unroll
                for (u32 j = 0; j < OF_VALUE; ++j) values[n][j] = uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (u32 j = 0; j < OF_VALUE; ++j)
#pragma unroll
        for (u32 p = 0; p < 4; ++p) {
            u32 of[4];
#pragma unroll
            for (u32 n = 0; n < 4; ++n) of[n] = word_of(values[n][j], p);
            // Two tokens each: of the lower value, of the upper one; then the tokens 8 on.
            u32 pairs[4] = {(of[0] & 0xffff) | of[1] << 16, of[0] >> 16 | (of[1] & 0xffff0000u),
                            (of[2] & 0xffff) | of[3] << 16, of[2] >> 16 | (of[3] & 0xffff0000u)};
            multiply(mix.values[j][p], pairs, shares[0], shares[1]);
        }
}

DEVICE void put(float (&sums)[HEADS][DIM + 8], float2 (&masses)[HEADS], Mix& mix, u32 lane) {
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
#pragma unroll
        for (u32 mask = 4; mask < 32; mask <<= 1) mix.mass[h] += from_lane_xor(mix.mass[h], mask);
        u32 head = 2 * (lane % 4) + h;
        if (head >= HEADS) continue;
        if (lane < 4) masses[head] = make_float2(mix.most[h], mix.mass[h]);
#pragma unroll
        for (u32 j = 0; j < OF_VALUE; ++j) {
            float4* to = reinterpret_cast<float4*>(&sums[head][64 * j + 8 * (lane / 4)]);
#pragma unroll
            for (u32 p = 0; p < 4; p += 2)
                to[p / 2] = make_float4(mix.values[j][p][h], mix.values[j][p][2 + h], mix.values[j][p + 1][h],
                                        mix.values[j][p + 1][2 + h]);
        }
    }
}
