//! Attention for heads of any even size up to 256 and any row of any batch: what shapes get that the fast kernels do not
//! take. A block takes one row and query head; its warps take turns at the tokens, each with an online softmax (Milakov and
//! Gimelshein 2018).
//!
//! It reads 4d bytes a token for each query head and not for each key head, so it stays below the floor of the other kernels
//! by the size of a group, and more where prompts share tiles.

#define WARPS 4
static const u32 VALUES = 8; // of a lane: heads of up to 256

// Of each row: the first of its sequence's pages in `pages`, and the tokens that it sees.
struct Reach {
    u32 first_page, seen;
};

KERNEL(128) attend_plain(const bf16* __restrict__ qkv, u32 stride, u32 group, u32 dim, const Reach* __restrict__ reaches,
                         const u32* __restrict__ all_pages, const bf16* __restrict__ cache, u64 page_stride, float scale,
                         bf16* __restrict__ out, u32 out_stride) {
    begin();
    __shared__ float tops[WARPS], masses[WARPS], sums[WARPS][32 * VALUES];
    u32 row = blockIdx.x, head = blockIdx.y, kv_head = head / group, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Reach reach = reaches[row];
    const u32* pages = all_pages + reach.first_page;
    float query[VALUES], mixed[VALUES], top = -INFINITY, mass = 0;
#pragma unroll
    for (u32 i = 0; i < VALUES; ++i) {
        u32 d = lane + 32 * i;
        query[i] = d < dim ? widen(qkv[(size_t)row * stride + (size_t)head * dim + d]) * scale : 0.0f;
        mixed[i] = 0;
    }
    for (u32 token = warp; token < reach.seen; token += WARPS) {
        const bf16* page = cache + (size_t)pages[token / 64] * page_stride + (size_t)2 * kv_head * 64 * dim;
        const bf16* key = page + (size_t)(token % 64) * dim;
        const bf16* value = key + (size_t)64 * dim;
        float score = 0;
#pragma unroll
        for (u32 i = 0; i < VALUES; ++i) {
            u32 d = lane + 32 * i;
            if (d < dim) score += query[i] * widen(key[d]);
        }
        score = warp_sum(score);
        float higher = fmaxf(top, score), kept = power_of_two(top - higher), share = power_of_two(score - higher);
        mass = mass * kept + share;
        top = higher;
#pragma unroll
        for (u32 i = 0; i < VALUES; ++i) {
            u32 d = lane + 32 * i;
            mixed[i] = mixed[i] * kept + (d < dim ? share * widen(value[d]) : 0.0f);
        }
    }
    if (lane == 0) tops[warp] = top, masses[warp] = mass;
#pragma unroll
    for (u32 i = 0; i < VALUES; ++i) sums[warp][lane + 32 * i] = mixed[i];
    barrier();
    float highest = tops[0], all = 0;
    for (u32 w = 1; w < WARPS; ++w) highest = fmaxf(highest, tops[w]);
    // A warp that saw no token has no top, and so no share.
    for (u32 w = 0; w < WARPS; ++w) all += power_of_two(tops[w] - highest) * masses[w];
    for (u32 d = threadIdx.x; d < dim; d += blockDim.x) {
        float sum = 0;
        for (u32 w = 0; w < WARPS; ++w) sum += power_of_two(tops[w] - highest) * sums[w][d];
        out[(size_t)row * out_stride + (size_t)head * dim + d] = narrow(sum / all);
    }
}
