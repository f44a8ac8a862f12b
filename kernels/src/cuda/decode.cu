//! Attention of single new tokens over a paged cache, split along the context (Flash-Decoding). A block takes one split of one
//! sequence and HEADS query heads of one key head, so that keys and values are read once for all of them. Splits are of a
//! fixed size, so that a row's result does not depend on its batch.
//!
//! Floor: 4 DIM bytes of keys and values a token and key head, each read once; 4 DIM operations a query head and token, so
//! with four heads a group 4 operations a byte: memory decides. Partial sums add 8 HEADS (DIM + 2) bytes a split of SPLIT
//! tokens, for DIM 128 and HEADS 4 3 % of its 4 DIM SPLIT bytes.
//!
//! Defines: DIM (a multiple of 8, DIM / 8 a power of two up to 32), HEADS (at most 8, a divisor of the group), SPLIT.

#define THREADS 128
#define WARPS (THREADS / 32)
#define LANES (DIM / 8)        // that hold one token, 8 values each
#define TOKENS (THREADS / LANES) // at a time
#define AHEAD 4                // loads of a thread under way
static const u32 ALONE = 0xffffffffu;

// What a split is: its row, the first of its sequence's pages in `pages`, the tokens `begin..end`, and where its sums go.
struct Split {
    u32 row, first_page, begin, end, slot;
};

DEVICE const bf16* token_of(const bf16* cache, u64 page_stride, const u32* pages, u32 kv_head, u32 value, u32 token) {
    return cache + (size_t)pages[token / 64] * page_stride + ((size_t)(2 * kv_head + value) * 64 + token % 64) * DIM;
}

// Sums of splits that are alone go to `out`; the others' to `sums` `[slot][query head][DIM]`, with their greatest score (by
// the power of two) and mass in `masses`.
KERNEL(THREADS) decode(const bf16* __restrict__ qkv, u32 stride, u32 query_heads, u32 group, const Split* __restrict__ splits,
                       const u32* __restrict__ all_pages, const bf16* __restrict__ cache, u64 page_stride, float scale,
                       bf16* __restrict__ out, u32 out_stride, float* __restrict__ sums, float2* __restrict__ masses) {
    begin();
    __shared__ float scores[HEADS][SPLIT];
    __shared__ float most[HEADS], mass[HEADS];
    __shared__ float parts[WARPS][HEADS][DIM];
    Split split = splits[blockIdx.x];
    const u32* pages = all_pages + split.first_page;
    u32 head = blockIdx.y * HEADS, kv_head = head / group, count = split.end - split.begin;
    u32 lane = threadIdx.x % LANES, slice = threadIdx.x / LANES, warp = threadIdx.x / 32;

    Eight query[HEADS];
#pragma unroll
    for (u32 h = 0; h < HEADS; ++h) {
        query[h] = eight(qkv + (size_t)split.row * stride + (size_t)(head + h) * DIM + 8 * lane);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) query[h].v[i] *= scale;
    }
    // All lanes go round equally often: they sum together.
    for (u32 base = 0; base < count; base += AHEAD * TOKENS) {
        uint4 keys[AHEAD];
#pragma unroll
        for (u32 j = 0; j < AHEAD; ++j) {
            u32 token = min(base + j * TOKENS + slice, count - 1);
            keys[j] = bits_of_eight(token_of(cache, page_stride, pages, kv_head, 0, split.begin + token) + 8 * lane);
        }
#pragma unroll
        for (u32 j = 0; j < AHEAD; ++j) {
            u32 token = base + j * TOKENS + slice;
            Eight key = unpacked(keys[j]);
#pragma unroll
            for (u32 h = 0; h < HEADS; ++h) {
                float dot = 0;
#pragma unroll
                for (u32 i = 0; i < 8; ++i) dot += query[h].v[i] * key.v[i];
#pragma unroll
                for (u32 mask = LANES / 2; mask > 0; mask >>= 1) dot += from_lane_xor(dot, mask);
                if (lane == 0 && token < count) scores[h][token] = dot;
            }
        }
    }
    barrier();
    for (u32 h = warp; h < HEADS; h += WARPS) {
        float top = -INFINITY, sum = 0;
        for (u32 token = threadIdx.x % 32; token < count; token += 32) top = fmaxf(top, scores[h][token]);
        top = warp_max(top);
        for (u32 token = threadIdx.x % 32; token < count; token += 32) {
            float share = power_of_two(scores[h][token] - top);
            scores[h][token] = share;
            sum += share;
        }
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) most[h] = top, mass[h] = sum;
    }
    barrier();
    Eight mixed[HEADS];
#pragma unroll
    for (u32 h = 0; h < HEADS; ++h)
#pragma unroll
        for (u32 i = 0; i < 8; ++i) mixed[h].v[i] = 0;
    for (u32 base = 0; base < count; base += AHEAD * TOKENS) {
        uint4 values[AHEAD];
#pragma unroll
        for (u32 j = 0; j < AHEAD; ++j) {
            u32 token = min(base + j * TOKENS + slice, count - 1);
            values[j] = bits_of_eight(token_of(cache, page_stride, pages, kv_head, 1, split.begin + token) + 8 * lane);
        }
#pragma unroll
        for (u32 j = 0; j < AHEAD; ++j) {
            u32 token = base + j * TOKENS + slice;
            Eight value = unpacked(values[j]);
#pragma unroll
            for (u32 h = 0; h < HEADS; ++h) {
                float share = token < count ? scores[h][token] : 0.0f;
#pragma unroll
                for (u32 i = 0; i < 8; ++i) mixed[h].v[i] += share * value.v[i];
            }
        }
    }
#pragma unroll
    for (u32 h = 0; h < HEADS; ++h)
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
#pragma unroll
            for (u32 mask = LANES; mask < 32; mask <<= 1) mixed[h].v[i] += from_lane_xor(mixed[h].v[i], mask);
            if (threadIdx.x % 32 < LANES) parts[warp][h][8 * lane + i] = mixed[h].v[i];
        }
    barrier();
    for (u32 at = threadIdx.x; at < HEADS * DIM; at += THREADS) {
        u32 h = at / DIM, d = at % DIM;
        float sum = 0;
#pragma unroll
        for (u32 w = 0; w < WARPS; ++w) sum += parts[w][h][d];
        if (split.slot == ALONE)
            out[(size_t)split.row * out_stride + (size_t)(head + h) * DIM + d] = narrow(sum / mass[h]);
        else
            sums[((size_t)split.slot * query_heads + head + h) * DIM + d] = sum;
    }
    if (split.slot != ALONE && threadIdx.x < HEADS)
        masses[(size_t)split.slot * query_heads + head + threadIdx.x] = make_float2(most[threadIdx.x], mass[threadIdx.x]);
}

// A row whose splits are to be put together: `count` slots from `first`.
struct Joined {
    u32 row, first, count;
};

// Puts the splits of one row and head together, or the pieces of a tile's row, a block each. Floor: 4 (DIM + 2) bytes a split and head read once.
KERNEL(DIM) combine(const Joined* __restrict__ all, u32 query_heads, const float* __restrict__ sums,
                    const float2* __restrict__ masses, bf16* __restrict__ out, u32 out_stride) {
    begin();
    Joined joined = all[blockIdx.x];
    u32 head = blockIdx.y;
    float top = -INFINITY, mass = 0, sum = 0;
    for (u32 i = 0; i < joined.count; ++i) top = fmaxf(top, masses[(size_t)(joined.first + i) * query_heads + head].x);
    for (u32 i = 0; i < joined.count; ++i) {
        size_t at = (size_t)(joined.first + i) * query_heads + head;
        float share = power_of_two(masses[at].x - top);
        mass += share * masses[at].y;
        sum += share * sums[at * DIM + threadIdx.x];
    }
    out[(size_t)joined.row * out_stride + (size_t)head * DIM + threadIdx.x] = narrow(sum / mass);
}
