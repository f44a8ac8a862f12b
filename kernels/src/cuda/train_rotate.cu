//! Norms of query and key heads and their rotation by position on rows that are kept nowhere, and the way back.
//!
//! Floors of a row with h query and key heads of d values: rotate_rows 4hd bytes, rotate_back 6hd; both are bound by memory. The
//! cosines come from a table made once a pass. Of any heads a warp takes one of one row, of 64 or 128 values some of its threads
//! do; what it adds to the gradients of the norms stays in its registers over all heads and rows of its block.

// Pairs of one lane: heads of up to 256 values.
static const u32 PAIRS = 4;

KERNEL(128) rotate_rows(bf16* qkv, u32 stride, u32 query_heads, u32 kv_heads, u32 dim, const bf16* __restrict__ query_norm,
                        const bf16* __restrict__ key_norm, float eps, const float2* __restrict__ table, u32 neighbours) {
    begin();
    u32 head = blockIdx.y * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, pairs = dim / 2;
    if (head >= query_heads + kv_heads) return;
    bf16* values = qkv + (size_t)blockIdx.x * stride + (size_t)head * dim;
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
    float factor = weight != nullptr ? 1.0f / sqrtf(warp_sum(sum) / (float)dim + eps) : 1.0f;
#pragma unroll
    for (u32 i = 0; i < PAIRS; ++i) {
        u32 pair = lane + 32 * i;
        if (pair >= pairs) continue;
        if (weight != nullptr) {
            a[i] = rounded(rounded(a[i] * factor) * widen(weight[step * pair]));
            b[i] = rounded(rounded(b[i] * factor) * widen(weight[step * pair + partner]));
        }
        float2 angle = table[(size_t)blockIdx.x * pairs + pair];
        values[step * pair] = narrow(a[i] * angle.x - b[i] * angle.y);
        values[step * pair + partner] = narrow(b[i] * angle.x + a[i] * angle.y);
    }
}

// `d` becomes the gradient of what was before norm and rotation. Block b takes rows b, b + blocks and so on; its sums for both
// norms, `[query, key]`, go to `partial`, which is null where there are no norms.
KERNEL(256) rotate_back(const bf16* __restrict__ before, bf16* d, u32 stride, u32 rows, u32 blocks, u32 query_heads,
                        u32 kv_heads, u32 dim, const bf16* __restrict__ query_norm, const bf16* __restrict__ key_norm,
                        float eps, const float2* __restrict__ table, u32 neighbours, float* __restrict__ partial) {
    begin();
    __shared__ float room[8][4 * 32 * PAIRS];
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, pairs = dim / 2;
    u32 step = neighbours ? 2 : 1, partner = neighbours ? 1 : pairs;
    float of_query[2 * PAIRS], of_key[2 * PAIRS];
#pragma unroll
    for (u32 i = 0; i < 2 * PAIRS; ++i) of_query[i] = of_key[i] = 0;
    for (u32 row = blockIdx.x; row < rows; row += blocks)
        for (u32 head = warp; head < query_heads + kv_heads; head += 8) {
            size_t begins = (size_t)row * stride + (size_t)head * dim;
            const bf16* x = before + begins;
            bf16* to = d + begins;
            bool is_query = head < query_heads;
            const bf16* weight = is_query ? query_norm : key_norm;
            float a[PAIRS], b[PAIRS], da[PAIRS], db[PAIRS], squares = 0, dot = 0;
#pragma unroll
            for (u32 i = 0; i < PAIRS; ++i) {
                u32 pair = lane + 32 * i;
                a[i] = b[i] = da[i] = db[i] = 0;
                if (pair >= pairs) continue;
                float first = widen(to[step * pair]), second = widen(to[step * pair + partner]);
                float2 angle = table[(size_t)row * pairs + pair];
                da[i] = first * angle.x + second * angle.y;
                db[i] = second * angle.x - first * angle.y;
                if (weight == nullptr) continue;
                a[i] = widen(x[step * pair]), b[i] = widen(x[step * pair + partner]);
                squares += a[i] * a[i] + b[i] * b[i];
            }
            if (weight != nullptr) {
                float factor = 1.0f / sqrtf(warp_sum(squares) / (float)dim + eps);
#pragma unroll
                for (u32 i = 0; i < PAIRS; ++i) {
                    u32 pair = lane + 32 * i;
                    if (pair >= pairs) continue;
                    a[i] *= factor, b[i] *= factor;
                    of_query[2 * i] += is_query ? da[i] * a[i] : 0.0f;
                    of_query[2 * i + 1] += is_query ? db[i] * b[i] : 0.0f;
                    of_key[2 * i] += is_query ? 0.0f : da[i] * a[i];
                    of_key[2 * i + 1] += is_query ? 0.0f : db[i] * b[i];
                    da[i] *= widen(weight[step * pair]), db[i] *= widen(weight[step * pair + partner]);
                    dot += da[i] * a[i] + db[i] * b[i];
                }
                float along = warp_sum(dot) / (float)dim;
#pragma unroll
                for (u32 i = 0; i < PAIRS; ++i) {
                    da[i] = factor * (da[i] - a[i] * along);
                    db[i] = factor * (db[i] - b[i] * along);
                }
            }
#pragma unroll
            for (u32 i = 0; i < PAIRS; ++i) {
                u32 pair = lane + 32 * i;
                if (pair >= pairs) continue;
                to[step * pair] = narrow(da[i]);
                to[step * pair + partner] = narrow(db[i]);
            }
        }
    if (partial == nullptr) return;
#pragma unroll
    for (u32 i = 0; i < PAIRS; ++i) {
        u32 pair = lane + 32 * i;
        if (pair >= pairs) continue;
        room[warp][step * pair] = of_query[2 * i];
        room[warp][step * pair + partner] = of_query[2 * i + 1];
        room[warp][dim + step * pair] = of_key[2 * i];
        room[warp][dim + step * pair + partner] = of_key[2 * i + 1];
    }
    barrier();
    for (u32 at = threadIdx.x; at < 2 * dim; at += blockDim.x) {
        float sum = 0;
#pragma unroll
        for (u32 w = 0; w < 8; ++w) sum += room[w][at];
        partial[(size_t)blockIdx.x * 2 * dim + at] = sum;
    }
}

// Heads of 64 or 128 values whose halves turn, from rows to others or in place: a thread takes 16 bytes of either half, as many
// threads as that makes a head. Values come along as they are.
KERNEL(128) rotate_rows_wide(const bf16* from, bf16* to, u32 stride, u32 query_heads, u32 kv_heads, u32 dim,
                             const bf16* __restrict__ query_norm, const bf16* __restrict__ key_norm, float eps,
                             const float2* __restrict__ table) {
    begin();
    u32 threads = dim / 16, half = dim / 2, lane = threadIdx.x % threads;
    u32 head = blockIdx.y * (128 / threads) + threadIdx.x / threads;
    bool real = head < query_heads + 2 * kv_heads, turns = head < query_heads + kv_heads;
    size_t begins = (size_t)blockIdx.x * stride + (size_t)head * dim + 8 * lane;
    Eight a = {}, b = {};
    if (real) a = eight(from + begins), b = eight(from + begins + half);
    float sum = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) sum += a.v[i] * a.v[i] + b.v[i] * b.v[i];
    for (u32 mask = threads / 2; mask > 0; mask >>= 1) sum += from_lane_xor(sum, mask);
    if (!real) return;
    if (turns) {
        const bf16* weight = head < query_heads ? query_norm : key_norm;
        if (weight != nullptr) {
            float factor = 1.0f / sqrtf(sum / (float)dim + eps);
            Eight of_a = eight(weight + 8 * lane), of_b = eight(weight + half + 8 * lane);
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                a.v[i] = rounded(rounded(a.v[i] * factor) * of_a.v[i]);
                b.v[i] = rounded(rounded(b.v[i] * factor) * of_b.v[i]);
            }
        }
        const float2* angles = table + (size_t)blockIdx.x * half + 8 * lane;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            float2 angle = angles[i];
            float first = a.v[i] * angle.x - b.v[i] * angle.y;
            b.v[i] = b.v[i] * angle.x + a.v[i] * angle.y;
            a.v[i] = first;
        }
    }
    put_eight(to + begins, a);
    put_eight(to + begins + half, b);
}

// The way back of the same heads: as `rotate_back`, whose rows a block takes; its threads go over heads of all of them.
KERNEL(256) rotate_back_wide(const bf16* __restrict__ before, bf16* d, u32 stride, u32 rows, u32 blocks, u32 query_heads,
                             u32 kv_heads, u32 dim, const bf16* __restrict__ query_norm, const bf16* __restrict__ key_norm,
                             float eps, const float2* __restrict__ table, float* __restrict__ partial) {
    begin();
    __shared__ float room[8192];
    u32 threads = dim / 16, half = dim / 2, lane = threadIdx.x % threads, group = threadIdx.x / threads;
    u32 groups = 256 / threads, heads = query_heads + kv_heads;
    u32 items = blockIdx.x < rows ? ((rows - 1 - blockIdx.x) / blocks + 1) * heads : 0;
    float of_query[16], of_key[16];
#pragma unroll
    for (u32 i = 0; i < 16; ++i) of_query[i] = of_key[i] = 0;
    for (u32 base = 0; base < items; base += groups) {
        u32 item = base + group, head = item % heads;
        size_t row = blockIdx.x + (size_t)(item / heads) * blocks;
        bool real = item < items, is_query = head < query_heads;
        size_t begins = row * stride + (size_t)head * dim + 8 * lane;
        const bf16* weight = is_query ? query_norm : key_norm;
        Eight a = {}, b = {}, da = {}, db = {};
        if (real) {
            da = eight(d + begins), db = eight(d + begins + half);
            if (weight != nullptr) a = eight(before + begins), b = eight(before + begins + half);
            const float2* angles = table + row * half + 8 * lane;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                float2 angle = angles[i];
                float first = da.v[i] * angle.x + db.v[i] * angle.y;
                db.v[i] = db.v[i] * angle.x - da.v[i] * angle.y;
                da.v[i] = first;
            }
        }
        if (weight != nullptr) {
            Eight of_a = eight(weight + 8 * lane), of_b = eight(weight + half + 8 * lane);
            float squares = 0, dot = 0;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                squares += a.v[i] * a.v[i] + b.v[i] * b.v[i];
                dot += da.v[i] * of_a.v[i] * a.v[i] + db.v[i] * of_b.v[i] * b.v[i];
            }
            for (u32 mask = threads / 2; mask > 0; mask >>= 1) {
                squares += from_lane_xor(squares, mask);
                dot += from_lane_xor(dot, mask);
            }
            float factor = 1.0f / sqrtf(squares / (float)dim + eps), along = factor * factor * dot / (float)dim;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                float in_a = real ? da.v[i] * a.v[i] * factor : 0.0f, in_b = real ? db.v[i] * b.v[i] * factor : 0.0f;
                of_query[i] += is_query ? in_a : 0.0f;
                of_query[8 + i] += is_query ? in_b : 0.0f;
                of_key[i] += is_query ? 0.0f : in_a;
                of_key[8 + i] += is_query ? 0.0f : in_b;
                da.v[i] = factor * (da.v[i] * of_a.v[i] - a.v[i] * along);
                db.v[i] = factor * (db.v[i] * of_b.v[i] - b.v[i] * along);
            }
        }
        if (real) {
            put_eight(d + begins, da);
            put_eight(d + begins + half, db);
        }
    }
    if (partial == nullptr) return;
    float* own = room + group * 2 * dim;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        own[8 * lane + i] = of_query[i];
        own[half + 8 * lane + i] = of_query[8 + i];
        own[dim + 8 * lane + i] = of_key[i];
        own[dim + half + 8 * lane + i] = of_key[8 + i];
    }
    barrier();
    for (u32 at = threadIdx.x; at < 2 * dim; at += blockDim.x) {
        float sum = 0;
        for (u32 g = 0; g < groups; ++g) sum += room[g * 2 * dim + at];
        partial[(size_t)blockIdx.x * 2 * dim + at] = sum;
    }
}
