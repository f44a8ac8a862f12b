//! Causal attention within packed rows and its way back, for heads of any even size up to 256: what shapes get that the fast
//! kernels do not take. And the row sums of `d_out * out`, which both ways back need (Dao 2023, D).
//!
//! Floors: the attentions read 4d bytes a visible token for each query head where the fast ones share a tile, and are bound by
//! that; deltas reads 4d bytes a query head and row.

#define WARPS 4
#define LOG2_E 1.4426950408889634f
static const u32 VALUES = 8; // of a lane: heads of up to 256

// Of each row: the first row of its sequence, and the one after its last.
struct Reach {
    u32 begin, end;
};

struct Lane {
    float v[VALUES];
};

DEVICE Lane lane_values(const bf16* head, u32 dim) {
    Lane values;
#pragma unroll
    for (u32 i = 0; i < VALUES; ++i) {
        u32 d = threadIdx.x % 32 + 32 * i;
        values.v[i] = d < dim ? widen(head[d]) : 0.0f;
    }
    return values;
}

DEVICE Lane no_values() {
    Lane values;
#pragma unroll
    for (u32 i = 0; i < VALUES; ++i) values.v[i] = 0;
    return values;
}

DEVICE float dot(const Lane& a, const Lane& b) {
    float sum = 0;
#pragma unroll
    for (u32 i = 0; i < VALUES; ++i) sum += a.v[i] * b.v[i];
    return warp_sum(sum);
}

DEVICE void add_times(Lane& sums, float factor, const Lane& values) {
#pragma unroll
    for (u32 i = 0; i < VALUES; ++i) sums.v[i] += factor * values.v[i];
}

// Adds up what the warps have, in order, times a factor.
DEVICE void put_sums(const Lane& own, float factor, u32 dim, bf16* out, float (*room)[32 * VALUES]) {
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (u32 i = 0; i < VALUES; ++i) room[warp][lane + 32 * i] = own.v[i];
    barrier();
    for (u32 d = threadIdx.x; d < dim; d += 32 * WARPS) {
        float sum = 0;
        for (u32 w = 0; w < WARPS; ++w) sum += room[w][d];
        out[d] = narrow(sum * factor);
    }
    barrier();
}

// The sum of `d_out * out` of each row and head: a warp each.
KERNEL(256) deltas(const bf16* __restrict__ out, const bf16* __restrict__ d_out, u32 stride, u32 query_heads, u32 dim,
                   float* __restrict__ delta) {
    begin();
    u32 head = blockIdx.y * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (head >= query_heads) return;
    size_t begins = (size_t)blockIdx.x * stride + (size_t)head * dim;
    const u32* a = reinterpret_cast<const u32*>(out + begins);
    const u32* b = reinterpret_cast<const u32*>(d_out + begins);
    float sum = 0;
    for (u32 pair = lane; pair < dim / 2; pair += 32)
        sum += widen(a[pair]) * widen(b[pair]) + widen_upper(a[pair]) * widen_upper(b[pair]);
    sum = warp_sum(sum);
    if (lane == 0) delta[(size_t)blockIdx.x * query_heads + head] = sum;
}

// A block takes a row and query head; its warps take turns at the keys, each with an online softmax. `scale` is for powers of two.
KERNEL(128) attend_rows(const bf16* __restrict__ qkv, u32 stride, u32 query_heads, u32 kv_heads, u32 dim,
                        const Reach* __restrict__ reaches, float scale, bf16* __restrict__ out, u32 out_stride,
                        float* __restrict__ lse) {
    begin();
    __shared__ float tops[WARPS], masses[WARPS], room[WARPS][32 * VALUES];
    u32 row = blockIdx.x, head = blockIdx.y, warp = threadIdx.x / 32;
    const bf16* keys = qkv + (size_t)(query_heads + head / (query_heads / kv_heads)) * dim;
    const bf16* values = keys + (size_t)kv_heads * dim;
    Lane query = lane_values(qkv + (size_t)row * stride + (size_t)head * dim, dim), mixed = no_values();
    float top = -INFINITY, mass = 0;
    for (u32 key = reaches[row].begin + warp; key <= row; key += WARPS) {
        float score = dot(query, lane_values(keys + (size_t)key * stride, dim)) * scale;
        float higher = fmaxf(top, score), kept = power_of_two(top - higher), share = power_of_two(score - higher);
        mass = mass * kept + share;
        top = higher;
#pragma unroll
        for (u32 i = 0; i < VALUES; ++i) mixed.v[i] *= kept;
        add_times(mixed, share, lane_values(values + (size_t)key * stride, dim));
    }
    if (threadIdx.x % 32 == 0) tops[warp] = top, masses[warp] = mass;
    barrier();
    float highest = tops[0], all = 0;
    for (u32 w = 1; w < WARPS; ++w) highest = fmaxf(highest, tops[w]);
    // A warp that saw no key has no top, and so no share.
    for (u32 w = 0; w < WARPS; ++w) all += power_of_two(tops[w] - highest) * masses[w];
    float kept = power_of_two(top - highest);
#pragma unroll
    for (u32 i = 0; i < VALUES; ++i) mixed.v[i] *= kept;
    put_sums(mixed, 1.0f / all, dim, out + (size_t)row * out_stride + (size_t)head * dim, room);
    if (threadIdx.x == 0) lse[(size_t)row * query_heads + head] = (highest + log2f(all)) / LOG2_E;
}

// The gradient of a row's query: a block a row and query head, whose warps take turns at the keys.
KERNEL(128) back_rows(const bf16* __restrict__ qkv, u32 stride, u32 query_heads, u32 kv_heads, u32 dim,
                      const Reach* __restrict__ reaches, float scale, const bf16* __restrict__ d_out, u32 out_stride,
                      const float* __restrict__ lse, const float* __restrict__ delta, bf16* __restrict__ d_qkv) {
    begin();
    __shared__ float room[WARPS][32 * VALUES];
    u32 row = blockIdx.x, head = blockIdx.y;
    const bf16* keys = qkv + (size_t)(query_heads + head / (query_heads / kv_heads)) * dim;
    const bf16* values = keys + (size_t)kv_heads * dim;
    size_t at = (size_t)row * stride + (size_t)head * dim, of_row = (size_t)row * query_heads + head;
    Lane query = lane_values(qkv + at, dim), sums = no_values();
    Lane d = lane_values(d_out + (size_t)row * out_stride + (size_t)head * dim, dim);
    for (u32 key = reaches[row].begin + threadIdx.x / 32; key <= row; key += WARPS) {
        Lane of_key = lane_values(keys + (size_t)key * stride, dim);
        float share = power_of_two(dot(query, of_key) * scale - lse[of_row] * LOG2_E);
        float d_share = dot(d, lane_values(values + (size_t)key * stride, dim));
        add_times(sums, share * (d_share - delta[of_row]), of_key);
    }
    put_sums(sums, scale / LOG2_E, dim, d_qkv + at, room);
}

// The gradients of a row's key and value: a block a row and key head, whose warps take turns at the rows and query heads that
// see it.
KERNEL(128) back_seen(const bf16* __restrict__ qkv, u32 stride, u32 query_heads, u32 kv_heads, u32 dim,
                      const Reach* __restrict__ reaches, float scale, const bf16* __restrict__ d_out, u32 out_stride,
                      const float* __restrict__ lse, const float* __restrict__ delta, bf16* __restrict__ d_qkv) {
    begin();
    __shared__ float room[WARPS][32 * VALUES];
    u32 key = blockIdx.x, kv_head = blockIdx.y, group = query_heads / kv_heads;
    size_t at = (size_t)key * stride + (size_t)(query_heads + kv_head) * dim;
    Lane of_key = lane_values(qkv + at, dim), of_value = lane_values(qkv + at + (size_t)kv_heads * dim, dim);
    Lane d_key = no_values(), d_value = no_values();
    u32 end = (reaches[key].end - key) * group;
    for (u32 packed = threadIdx.x / 32; packed < end; packed += WARPS) {
        u32 row = key + packed / group, head = kv_head * group + packed % group;
        size_t of_row = (size_t)row * query_heads + head;
        Lane query = lane_values(qkv + (size_t)row * stride + (size_t)head * dim, dim);
        Lane d = lane_values(d_out + (size_t)row * out_stride + (size_t)head * dim, dim);
        float share = power_of_two(dot(query, of_key) * scale - lse[of_row] * LOG2_E);
        add_times(d_value, share, d);
        add_times(d_key, share * (dot(d, of_value) - delta[of_row]), query);
    }
    put_sums(d_key, scale / LOG2_E, dim, d_qkv + at, room);
    put_sums(d_value, 1.0f, dim, d_qkv + at + (size_t)kv_heads * dim, room);
}
