//! Norms of query and key heads, rotation by position and the write to the paged cache, in one pass over the rows.
//!
//! A page of one layer is, for each key head, its keys `[64, dim]` and then its values `[64, dim]`; a slot is
//! `64 * page + position % 64`. Floor of a row with q query and k key heads of d values: 2(q + 2k)d bytes read, 2qd + 2kd
//! written back and 4kd written to the cache; about 8 operations a value, so memory decides. The cosines come from a table made
//! once a step, 8 bytes a pair, from L2 for all heads but the first.

// Cosine and sine of each row and pair, in f32 as the angle itself, by the precise functions: a row is read by every head of
// every layer.
KERNEL(128) angles(const u32* __restrict__ positions, const float* __restrict__ frequencies, u32 pairs, float scale,
                   float2* __restrict__ table) {
    begin();
    for (u32 pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
        float sine, cosine;
        sincosf((float)positions[blockIdx.x] * frequencies[pair], &sine, &cosine);
        table[(size_t)blockIdx.x * pairs + pair] = make_float2(cosine * scale, sine * scale);
    }
}

// Where the pairs `8 lane` to `8 lane + 7` of a head have their values: two pieces of 16 bytes, halves of the head apart or one
// behind the other.
struct Pairs {
    u32 first, second;
    bool neighbours;
};

DEVICE void take(float (&a)[8], float (&b)[8], const bf16* from, Pairs at) {
    Eight x = eight(from + at.first), y = eight(from + at.second);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        a[i] = !at.neighbours ? x.v[i] : i < 4 ? x.v[2 * i % 8] : y.v[2 * i % 8];
        b[i] = !at.neighbours ? y.v[i] : i < 4 ? x.v[2 * i % 8 + 1] : y.v[2 * i % 8 + 1];
    }
}

DEVICE void give(bf16* to, const float (&a)[8], const float (&b)[8], Pairs at) {
    Eight x, y;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        x.v[i] = !at.neighbours ? a[i] : i % 2 ? b[i / 2] : a[i / 2];
        y.v[i] = !at.neighbours ? b[i] : i % 2 ? b[4 + i / 2] : a[4 + i / 2];
    }
    put_eight(to + at.first, x);
    put_eight(to + at.second, y);
}

// For heads of 64 or 128 values: as many lanes take a head as it has times 16 values, and a block goes over the heads of one row
// in steps of all blocks of that row. Sums are those of the kernel below in the same order. Norms may be null.
KERNEL(128) rotate_and_keep_wide(bf16* qkv, u32 stride, u32 query_heads, u32 kv_heads, u32 dim,
                                 const bf16* __restrict__ query_norm, const bf16* __restrict__ key_norm, float eps,
                                 const float2* __restrict__ table, u32 neighbours, const u32* __restrict__ slots,
                                 bf16* __restrict__ cache, u64 page_stride) {
    let_next_begin();
    u32 lanes = dim / 16, lane = threadIdx.x % lanes, teams = blockDim.x / lanes, pairs = dim / 2;
    u32 all = query_heads + 2 * kv_heads, first = blockIdx.y * teams + threadIdx.x / lanes;
    Pairs at = {neighbours ? 16 * lane : 8 * lane, neighbours ? 16 * lane + 8 : pairs + 8 * lane, neighbours != 0};
    float of_a[8], of_b[8];
    // Weights do not change: those of the first head are fetched while the kernel before this one ends.
    if (query_norm != nullptr) take(of_a, of_b, first < query_heads ? query_norm : key_norm, at);
    after_previous();
    u32 slot = slots[blockIdx.x];
    float2 angles[8];
    const float4* of_row = reinterpret_cast<const float4*>(table + (size_t)blockIdx.x * pairs + 8 * lane);
#pragma unroll
    for (u32 i = 0; i < 8; i += 2) {
        float4 two = of_row[i / 2];
        angles[i] = make_float2(two.x, two.y), angles[i + 1] = make_float2(two.z, two.w);
    }
    // All lanes of a warp go round equally often: they sum together.
    for (u32 base = blockIdx.y * teams; base < all; base += gridDim.y * teams) {
        bool real = base + threadIdx.x / lanes < all;
        u32 head = real ? base + threadIdx.x / lanes : all - 1;
        bool turns = head < query_heads + kv_heads;
        bf16* values = qkv + (size_t)blockIdx.x * stride + (size_t)head * dim;
        float a[8], b[8];
        take(a, b, values, at);
        if (query_norm != nullptr) {
            if (base != blockIdx.y * teams) take(of_a, of_b, head < query_heads ? query_norm : key_norm, at);
            float sums[8];
#pragma unroll
            for (u32 i = 0; i < 8; ++i) sums[i] = a[i] * a[i] + b[i] * b[i];
            for (u32 mask = lanes / 2; mask > 0; mask >>= 1)
#pragma unroll
                for (u32 i = 0; i < 8; ++i) sums[i] += from_lane_xor(sums[i], mask);
            float sum = (sums[0] + sums[4] + (sums[2] + sums[6])) + (sums[1] + sums[5] + (sums[3] + sums[7]));
            float factor = 1.0f / sqrtf(sum / (float)dim + eps);
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                a[i] = turns ? rounded(rounded(a[i] * factor) * of_a[i]) : a[i];
                b[i] = turns ? rounded(rounded(b[i] * factor) * of_b[i]) : b[i];
            }
        }
        if (!real) continue;
        if (turns) {
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                float left = a[i] * angles[i].x - b[i] * angles[i].y, right = b[i] * angles[i].x + a[i] * angles[i].y;
                a[i] = left, b[i] = right;
            }
            give(values, a, b, at);
        }
        if (head >= query_heads) {
            u32 of_kv = (head - query_heads) % kv_heads, value = turns ? 0 : 1;
            give(cache + (size_t)(slot / 64) * page_stride + ((size_t)(2 * of_kv + value) * 64 + slot % 64) * dim, a, b, at);
        }
    }
}

// Pairs of one lane: heads of up to 256 values.
static const u32 PAIRS = 4;

// For any heads: a warp takes one head of one row; blocks of 4 warps lie over the heads. Norms may be null.
KERNEL(128) rotate_and_keep(bf16* qkv, u32 stride, u32 query_heads, u32 kv_heads, u32 dim,
                            const bf16* __restrict__ query_norm, const bf16* __restrict__ key_norm, float eps,
                            const float2* __restrict__ table, u32 neighbours, const u32* __restrict__ slots,
                            bf16* __restrict__ cache, u64 page_stride) {
    begin();
    u32 head = blockIdx.y * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, pairs = dim / 2;
    if (head >= query_heads + 2 * kv_heads) return;
    bf16* values = qkv + (size_t)blockIdx.x * stride + (size_t)head * dim;
    bool turns = head < query_heads + kv_heads;
    // Without rotation it does not matter which values make a pair.
    u32 step = neighbours ? 2 : 1, partner = neighbours ? 1 : pairs;
    float a[PAIRS], b[PAIRS], sum = 0;
#pragma unroll
    for (u32 i = 0; i < PAIRS; ++i) {
        u32 pair = lane + 32 * i;
        bool real = pair < pairs;
        a[i] = real ? widen(values[step * pair]) : 0.0f;
        b[i] = real ? widen(values[step * pair + partner]) : 0.0f;
        sum += a[i] * a[i] + b[i] * b[i];
    }
    const bf16* weight = head < query_heads ? query_norm : key_norm;
    if (turns && weight != nullptr) {
        float factor = 1.0f / sqrtf(warp_sum(sum) / (float)dim + eps);
#pragma unroll
        for (u32 i = 0; i < PAIRS; ++i) {
            u32 pair = lane + 32 * i;
            if (pair >= pairs) continue;
            a[i] = rounded(rounded(a[i] * factor) * widen(weight[step * pair]));
            b[i] = rounded(rounded(b[i] * factor) * widen(weight[step * pair + partner]));
        }
    }
    // Where this head is kept: none for a query.
    bf16* kept = nullptr;
    if (head >= query_heads) {
        u32 slot = slots[blockIdx.x], of_kv = (head - query_heads) % kv_heads, value = turns ? 0 : 1;
        kept = cache + (size_t)(slot / 64) * page_stride + ((size_t)(2 * of_kv + value) * 64 + slot % 64) * dim;
    }
#pragma unroll
    for (u32 i = 0; i < PAIRS; ++i) {
        u32 pair = lane + 32 * i;
        if (pair >= pairs) continue;
        if (turns) {
            float2 angle = table[(size_t)blockIdx.x * pairs + pair];
            float first = a[i] * angle.x - b[i] * angle.y, second = b[i] * angle.x + a[i] * angle.y;
            a[i] = first, b[i] = second;
            values[step * pair] = narrow(first);
            values[step * pair + partner] = narrow(second);
        }
        if (kept != nullptr) {
            kept[step * pair] = narrow(a[i]);
            kept[step * pair + partner] = narrow(b[i]);
        }
    }
}
