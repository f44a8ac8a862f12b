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

// Pairs of one lane: heads of up to 256 values.
static const u32 PAIRS = 4;

// A warp takes one head of one row; blocks of 4 warps lie over the heads. Norms may be null.
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
