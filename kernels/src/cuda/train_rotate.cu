//! Norms of query and key heads and their rotation by position on rows that are kept nowhere, and the way back.
//!
//! Floors of a row with h query and key heads of d values: rotate_rows 4hd bytes, rotate_back 6hd; both are bound by memory. The
//! cosines come from a table made once a pass. A warp takes one head of one row; what it adds to the gradients of the norms
//! stays in its registers over all heads and rows of its block.

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
