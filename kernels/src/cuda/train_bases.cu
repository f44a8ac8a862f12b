//! What attention's way back takes from the scores of a row and from the gradients of its shares, rows behind one another for each
//! head, so that those of a step lie together. It refuses to know who asks.
//!
//! Floor, by bytes: 4 DIM a query head and row.
//!
//! Defines: DIM (64 or 128).

#define EACH (DIM / 64) // 16-byte pieces of a row that a lane has
#define LOG2_E 1.4426950408889634f

// The logarithm of a row's sum, by the power of two, and the row's sum of `d_out * out` (Dao 2023, D): eight lanes a row.
KERNEL(256) bases(const bf16* __restrict__ out, const bf16* __restrict__ d_out, u32 stride, u32 rows, u32 query_heads,
                  const float* __restrict__ lse, float2* __restrict__ to) {
    begin();
    u32 row = 32 * blockIdx.x + threadIdx.x / 8, head = blockIdx.y, lane = threadIdx.x % 8;
    size_t at = (size_t)min(row, rows - 1) * stride + (size_t)head * DIM + 8 * lane;
    float sum = 0;
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        Eight a = eight(out + at + 64 * i), b = eight(d_out + at + 64 * i);
#pragma unroll
        for (u32 j = 0; j < 8; ++j) sum += a.v[j] * b.v[j];
    }
#pragma unroll
    for (u32 mask = 1; mask < 8; mask <<= 1) sum += from_lane_xor(sum, mask);
    if (lane == 0 && row < rows)
        to[(size_t)head * rows + row] = make_float2(lse[(size_t)row * query_heads + head] * LOG2_E, sum);
}
