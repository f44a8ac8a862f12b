//! The cross-entropy of rows of bf16 logits whose columns may lie with several ranks, and its gradient in their place: a pass
//! that finds each row's greatest logit and the sum of exponentials below it, and a pass that writes the gradient. Between
//! them ranks exchange a few floats a row.
//!
//! Floor: 2 bytes a logit read, then 2 read and 2 written: 6 bytes, bound by memory. Sums are f32: each thread adds up some
//! hundred exponentials of at most 1, and 16 warps are added in order.

#define THREADS 512
#define LOG2_E 1.4426950408889634f

// `2^((x - top) log2(e))`; of what is -infinity, 0.
DEVICE float share(float x, float top) { return x == -INFINITY ? 0.0f : power_of_two((x - top) * LOG2_E); }

// Of each row: its greatest logit here, twice; the sum of exponentials below it, the target's logit and whether it is here.
KERNEL(THREADS) loss_stats(const bf16* __restrict__ logits, u32 stride, u32 columns, const u32* __restrict__ targets,
                           u32 first, float* __restrict__ own, float* __restrict__ most, float* __restrict__ sums) {
    begin();
    __shared__ float tops[THREADS / 32], room[THREADS / 32];
    u32 row = blockIdx.x;
    logits += (size_t)row * stride;
    float top = -INFINITY, sum = 0;
    for (u32 at = 8 * threadIdx.x; at < columns; at += 8 * THREADS) {
        Eight e = eight(logits + at);
        float higher = top;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            if (at + i >= columns) e.v[i] = -INFINITY;
            higher = fmaxf(higher, e.v[i]);
        }
        sum *= share(top, higher);
        top = higher;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) sum += share(e.v[i], top);
    }
    float highest = warp_max(top);
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = highest;
    barrier();
#pragma unroll
    for (u32 w = 0; w < THREADS / 32; ++w) highest = fmaxf(highest, tops[w]);
    sum = block_sum(sum * share(top, highest), room);
    if (threadIdx.x > 0) return;
    u32 column = targets[row] - first;
    own[row] = most[row] = highest;
    sums[3 * row] = sum;
    sums[3 * row + 1] = column < columns ? widen(logits[column]) : 0.0f;
    sums[3 * row + 2] = column < columns ? 1.0f : 0.0f;
}

// Brings the sums of this rank below the greatest logit of all ranks.
KERNEL(256) loss_rescale(const float* __restrict__ own, const float* __restrict__ most, float* sums, u32 rows) {
    begin();
    u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) sums[3 * row] *= share(own[row], most[row]);
}

// `weight (softmax - onehot)`, and the loss of each row: infinite where not exactly one rank has its target.
KERNEL(THREADS) loss_gradient(bf16* logits, u32 stride, u32 columns, const u32* __restrict__ targets, u32 first,
                              const float* __restrict__ weights, const float* __restrict__ most,
                              const float* __restrict__ sums, float* __restrict__ losses) {
    begin();
    u32 row = blockIdx.x, target = targets[row] - first;
    logits += (size_t)row * stride;
    float top = most[row], sum = sums[3 * row], weight = weights[row], factor = weight / sum;
    for (u32 at = 8 * threadIdx.x; at < stride; at += 8 * THREADS) {
        Eight e = eight(logits + at);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            u32 column = at + i;
            float gradient = share(e.v[i], top) * factor - (column == target ? weight : 0.0f);
            e.v[i] = column < columns ? gradient : 0.0f;
        }
        put_eight(logits + at, e);
    }
    if (threadIdx.x > 0) return;
    losses[row] = sums[3 * row + 2] == 1.0f ? logf(sum) + (top - sums[3 * row + 1]) : INFINITY;
}
