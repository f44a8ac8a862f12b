//! Updates of learned tensors: sums of squares in double precision, in an order that depends on sizes alone; AdamW in one pass;
//! and the bf16 copy that products use.
//!
//! Floors a value: squares 4 bytes; adamw 34 (value, gradient and two moments read and written, the copy written), so 28 ms
//! for 4.02 billion values at 4.8 TB/s; narrow_copy 6. All are bound by memory. What lies between a row's width and its
//! stride is 0 in all of them, and stays so.

struct alignas(16) Four {
    float v[4];
};

struct alignas(8) Narrow {
    u32 low, high;
};

DEVICE Narrow narrowed(const Four& four) {
    Narrow bits;
    bits.low = narrow2(four.v[0], four.v[1]);
    bits.high = narrow2(four.v[2], four.v[3]);
    return bits;
}

DEVICE double block_sum_of(double value, double* room) {
#pragma unroll
    for (u32 mask = 16; mask > 0; mask >>= 1) value += double_of(from_lane_xor(double_bits(value), mask));
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
    barrier();
    value = 0;
    for (u32 warp = 0; warp < blockDim.x / 32; ++warp) value += room[warp];
    return value;
}

// A learned tensor: where its parts are, how many pieces of four values they have, what decay leaves of a value, and the first
// of the blocks that take it.
struct Tensor {
    u64 value, gradient, mean, square, copy, fours;
    float kept;
    u32 first;
};

// Which of so many tensors takes this block: the last whose first block is not behind it.
DEVICE u32 tensor_of(const Tensor* __restrict__ tensors, u32 count) {
    u32 low = 0, high = count;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (tensors[middle].first <= blockIdx.x) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// The sum of squares of every so many-th piece of 1,024 values of a tensor's gradient, of as many blocks as it has.
KERNEL(256) squares(const Tensor* __restrict__ tensors, u32 count, double* __restrict__ partial) {
    begin();
    __shared__ double room[8];
    u32 which = tensor_of(tensors, count), first = tensors[which].first;
    u32 end = which + 1 < count ? tensors[which + 1].first : gridDim.x, blocks = end - first;
    const Four* values = (const Four*)tensors[which].gradient;
    u64 fours = tensors[which].fours;
    double sum = 0;
#pragma unroll 4
    for (u64 at = (u64)(blockIdx.x - first) * 256 + threadIdx.x; at < fours; at += (u64)blocks * 256) {
        Four four = values[at];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) sum += (double)four.v[i] * (double)four.v[i];
    }
    sum = block_sum_of(sum, room);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block: the sum of all.
KERNEL(1024) sum_partials(const double* __restrict__ partial, u32 count, double* __restrict__ out) {
    begin();
    __shared__ double room[32];
    double sum = 0;
    for (u32 at = threadIdx.x; at < count; at += 1024) sum += partial[at];
    sum = block_sum_of(sum, room);
    if (threadIdx.x == 0) *out = sum;
}

// The update in torch's order of operations; the gradient becomes 0. A block takes 1,024 pieces of one tensor.
KERNEL(256) adamw(const Tensor* __restrict__ tensors, u32 count, float scale, float mean_share, float square_kept,
                  float square_share, float root_correction, float eps, float minus_rate) {
    begin();
    const Tensor* tensor = tensors + tensor_of(tensors, count);
    Four *values = (Four*)tensor->value, *gradients = (Four*)tensor->gradient;
    Four *means = (Four*)tensor->mean, *squares_of = (Four*)tensor->square;
    Narrow* copies = (Narrow*)tensor->copy;
    u64 fours = tensor->fours, begin_at = (u64)(blockIdx.x - tensor->first) * 1024 + threadIdx.x;
    float kept = tensor->kept;
#pragma unroll 1
    for (u64 at = begin_at; at < fours && at < begin_at + 1024; at += 256) {
        Four value = values[at], gradient = gradients[at], mean = means[at], square = squares_of[at];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            float g = gradient.v[i] * scale, way = g - mean.v[i];
            // torch's `lerp`, which goes from the nearer end.
            float m = mean_share < 0.5f ? mean.v[i] + mean_share * way : g - way * (1.0f - mean_share);
            float s = square.v[i] * square_kept + square_share * g * g;
            value.v[i] = value.v[i] * kept + minus_rate * m / (sqrtf(s) / root_correction + eps);
            mean.v[i] = m, square.v[i] = s, gradient.v[i] = 0;
        }
        values[at] = value, gradients[at] = gradient, means[at] = mean, squares_of[at] = square;
        copies[at] = narrowed(value);
    }
}

KERNEL(256) narrow_copy(const Four* __restrict__ values, Narrow* __restrict__ copies, u64 fours) {
    begin();
    u64 at = (u64)blockIdx.x * 256 + threadIdx.x;
    if (at < fours) copies[at] = narrowed(values[at]);
}
