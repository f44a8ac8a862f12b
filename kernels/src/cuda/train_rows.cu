//! What learning does to rows: copies and sums, tables of ids, norms and SwiGLU on the way back, and column sums in two
//! stages, whose order depends on the number of rows alone: no float is ever added by an atomic.
//!
//! Floors, with w the width in values: add 6w bytes a row, gather_some 4w, norm_back 8w and 4w of its block's sums,
//! swiglu_back 10w for w outputs, column_partials 2w, the scatters 2w and what they add to. All are bound by memory. Where a
//! row's last chunk of 8 is not whole, what lies behind its width is masked from sums, and gradients there stay 0.

// Pieces of 16 bytes become 0.
KERNEL(256) fill_zero(uint4* to, u64 pieces) {
    begin();
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < pieces) to[at] = uint4{0, 0, 0, 0};
}

KERNEL(256) copy_pieces(const uint4* __restrict__ from, uint4* __restrict__ to, u64 pieces) {
    begin();
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < pieces) to[at] = from[at];
}

// `x += delta`, rounded once.
KERNEL(256) add_rows(bf16* x, const bf16* delta, u64 pieces) {
    begin();
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= pieces) return;
    Eight e = eight(x + 8 * at), d = eight(delta + 8 * at);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) e.v[i] += d.v[i];
    put_eight(x + 8 * at, e);
}

// `out = x + delta`, rounded, of pieces of 8 values.
KERNEL(256) sum_rows(const uint4* __restrict__ x, const uint4* __restrict__ delta, uint4* __restrict__ out, u64 pieces) {
    begin();
    u64 at = (u64)blockIdx.x * 256 + threadIdx.x;
    if (at >= pieces) return;
    Eight e = unpacked(x[at]), d = unpacked(delta[at]);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) e.v[i] += d.v[i];
    out[at] = packed(e);
}

// `out[i] = table[ids[i] - first]`, zeros where the table has no such row.
KERNEL(256) gather_some(const bf16* __restrict__ table, u32 stride, u32 table_rows, u32 first, const u32* __restrict__ ids,
                        u32 chunks, bf16* __restrict__ out) {
    begin();
    u32 row = ids[blockIdx.x] - first;
    const bf16* from = table + (size_t)row * stride;
    bf16* to = out + (size_t)blockIdx.x * stride;
    for (u32 chunk = threadIdx.x; chunk < chunks; chunk += blockDim.x)
        *reinterpret_cast<uint4*>(to + 8 * chunk) = row < table_rows ? bits_of_eight(from + 8 * chunk) : uint4{0, 0, 0, 0};
}

// The values of a chunk that belong to the row.
DEVICE u32 values_of(u32 chunk, u32 width) { return min(8u, width - 8 * chunk); }

// All rows that are added to one: `order[begin..end]`, to row `to`.
struct Segment {
    u32 to, begin, end;
};

// Adds rows to those of a gradient, each in order.
KERNEL(64) scatter_single(const bf16* __restrict__ rows, u32 stride, u32 width, const Segment* __restrict__ segments,
                          const u32* __restrict__ order, float* gradient) {
    begin();
    Segment segment = segments[blockIdx.x];
    u32 chunk = blockIdx.y * blockDim.x + threadIdx.x;
    if (8 * chunk >= width) return;
    float* to = gradient + (size_t)segment.to * stride + 8 * chunk;
    u32 count = values_of(chunk, width);
    float sums[8];
#pragma unroll
    for (u32 i = 0; i < 8; ++i) sums[i] = to[i];
#pragma unroll 4
    for (u32 at = segment.begin; at < segment.end; ++at) {
        Eight e = eight(rows + (size_t)order[at] * stride + 8 * chunk);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) sums[i] += e.v[i];
    }
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        if (i < count) to[i] = sums[i];
}

// Adds rows to other rows, each in order, rounded once.
KERNEL(64) scatter_rows(const bf16* __restrict__ rows, u32 stride, u32 width, const Segment* __restrict__ segments,
                        const u32* __restrict__ order, bf16* out) {
    begin();
    Segment segment = segments[blockIdx.x];
    u32 chunk = blockIdx.y * blockDim.x + threadIdx.x;
    if (8 * chunk >= width) return;
    bf16* to = out + (size_t)segment.to * stride + 8 * chunk;
    Eight sums = eight(to);
    for (u32 at = segment.begin; at < segment.end; ++at) {
        Eight e = eight(rows + (size_t)order[at] * stride + 8 * chunk);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) sums.v[i] += e.v[i];
    }
    put_eight(to, sums);
}

// Two sums over a block at once.
DEVICE float2 block_sums(float a, float b, float2* room) {
    a = warp_sum(a), b = warp_sum(b);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = make_float2(a, b);
    barrier();
    float2 sums = make_float2(0, 0);
    for (u32 warp = 0; warp < blockDim.x / 32; ++warp) sums.x += room[warp].x, sums.y += room[warp].y;
    barrier();
    return sums;
}

// Chunks of a thread: rows of up to 16,384 values.
static const u32 CHUNKS = 2;

// With `y = x r w` and `r = 1 / sqrt(mean(x²) + eps)`: `dx += r (d w - x r² mean(d w x))`, and a block's sum of `d x r`. Block b
// takes rows b, b + blocks and so on. A row is held in registers between its two uses.
KERNEL(1024) norm_back(const bf16* __restrict__ x, u32 stride, u32 width, u32 rows, u32 blocks,
                       const bf16* __restrict__ weight, float eps, const bf16* __restrict__ d_out, bf16* dx,
                       float* __restrict__ partial) {
    begin();
    __shared__ float2 room[32];
    float sums[CHUNKS][8];
    uint4 weights[CHUNKS];
#pragma unroll
    for (u32 c = 0; c < CHUNKS; ++c) {
        u32 chunk = threadIdx.x + c * blockDim.x;
        weights[c] = 8 * chunk < width ? bits_of_eight(weight + 8 * chunk) : uint4{0, 0, 0, 0};
#pragma unroll
        for (u32 i = 0; i < 8; ++i) sums[c][i] = 0;
    }
    for (u32 row = blockIdx.x; row < rows; row += blocks) {
        size_t begins = (size_t)row * stride;
        uint4 of_x[CHUNKS], of_d[CHUNKS], before[CHUNKS];
        float squares = 0, dot = 0;
#pragma unroll
        for (u32 c = 0; c < CHUNKS; ++c) {
            u32 chunk = threadIdx.x + c * blockDim.x;
            if (8 * chunk >= width) continue;
            of_x[c] = bits_of_eight(x + begins + 8 * chunk), of_d[c] = bits_of_eight(d_out + begins + 8 * chunk);
            before[c] = bits_of_eight(dx + begins + 8 * chunk);
            Eight e = unpacked(of_x[c]), d = unpacked(of_d[c]), w = unpacked(weights[c]);
            u32 count = values_of(chunk, width);
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                squares += i < count ? e.v[i] * e.v[i] : 0.0f;
                dot += i < count ? d.v[i] * w.v[i] * e.v[i] : 0.0f;
            }
        }
        float2 both = block_sums(squares, dot, room);
        float factor = 1.0f / sqrtf(both.x / (float)width + eps);
        float along = factor * factor * both.y / (float)width;
#pragma unroll
        for (u32 c = 0; c < CHUNKS; ++c) {
            u32 chunk = threadIdx.x + c * blockDim.x;
            if (8 * chunk >= width) continue;
            Eight e = unpacked(of_x[c]), d = unpacked(of_d[c]), w = unpacked(weights[c]), to = unpacked(before[c]);
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                to.v[i] += factor * (d.v[i] * w.v[i] - e.v[i] * along);
                sums[c][i] += d.v[i] * e.v[i] * factor;
            }
            put_eight(dx + begins + 8 * chunk, to);
        }
    }
#pragma unroll
    for (u32 c = 0; c < CHUNKS; ++c) {
        u32 chunk = threadIdx.x + c * blockDim.x;
        if (8 * chunk >= width) continue;
        u32 count = values_of(chunk, width);
#pragma unroll
        for (u32 i = 0; i < 8; ++i)
            if (i < count) partial[(size_t)blockIdx.x * width + 8 * chunk + i] = sums[c][i];
    }
}

// `sum = x + delta`, rounded, and `out` its RMSNorm: a block a row, which is held in registers.
KERNEL(1024) sum_norm(const bf16* __restrict__ x, const bf16* __restrict__ delta, u32 stride, u32 width,
                      const bf16* __restrict__ weight, float eps, bf16* __restrict__ sum, bf16* __restrict__ out) {
    begin();
    __shared__ float room[32];
    size_t begins = (size_t)blockIdx.x * stride;
    Eight held[CHUNKS];
    float squares = 0;
#pragma unroll
    for (u32 c = 0; c < CHUNKS; ++c) {
        u32 chunk = threadIdx.x + c * blockDim.x;
        held[c] = Eight{};
        if (8 * chunk >= width) continue;
        Eight d = eight(delta + begins + 8 * chunk);
        held[c] = eight(x + begins + 8 * chunk);
        u32 count = values_of(chunk, width);
        float of_chunk = 0;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            held[c].v[i] = rounded(held[c].v[i] + d.v[i]);
            of_chunk += i < count ? held[c].v[i] * held[c].v[i] : 0.0f;
        }
        squares += of_chunk;
        put_eight(sum + begins + 8 * chunk, held[c]);
    }
    float factor = 1.0f / sqrtf(block_sum(squares, room) / (float)width + eps);
#pragma unroll
    for (u32 c = 0; c < CHUNKS; ++c) {
        u32 chunk = threadIdx.x + c * blockDim.x;
        if (8 * chunk >= width) continue;
        Eight w = eight(weight + 8 * chunk);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) held[c].v[i] = rounded(held[c].v[i] * factor) * w.v[i];
        put_eight(out + begins + 8 * chunk, held[c]);
    }
}

// Sums of the columns of some rows: a block takes 256 columns, block row b of the grid rows b * count and on.
KERNEL(256) column_partials(const bf16* __restrict__ x, u32 stride, u32 width, u32 rows, u32 count,
                            float* __restrict__ partial) {
    begin();
    __shared__ float room[8][256];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, chunk = blockIdx.x * 32 + lane;
    u32 end = min(rows, (blockIdx.y + 1) * count);
    float sums[8];
#pragma unroll
    for (u32 i = 0; i < 8; ++i) sums[i] = 0;
    if (8 * chunk < width)
        for (u32 row = blockIdx.y * count + warp; row < end; row += 8) {
            Eight e = eight(x + (size_t)row * stride + 8 * chunk);
#pragma unroll
            for (u32 i = 0; i < 8; ++i) sums[i] += e.v[i];
        }
#pragma unroll
    for (u32 i = 0; i < 8; ++i) room[warp][8 * lane + i] = sums[i];
    barrier();
    u32 column = blockIdx.x * 256 + threadIdx.x;
    if (column >= width) return;
    float sum = 0;
#pragma unroll
    for (u32 w = 0; w < 8; ++w) sum += room[w][threadIdx.x];
    partial[(size_t)blockIdx.y * width + column] = sum;
}

// Adds the sums of blocks to a gradient: 32 columns a block, whose warps take every eighth row of sums.
KERNEL(256) add_columns(const float* __restrict__ partial, u32 stride, u32 width, u32 count, float* gradient) {
    begin();
    __shared__ float room[8][32];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    float sum = 0;
    if (column < width)
        for (u32 row = warp; row < count; row += 8) sum += partial[(size_t)row * stride + column];
    room[warp][lane] = sum;
    barrier();
    if (warp > 0 || column >= width) return;
    sum = gradient[column];
#pragma unroll
    for (u32 w = 0; w < 8; ++w) sum += room[w][lane];
    gradient[column] = sum;
}

// With `s = sigmoid(gate)`: `dgate = d up s (1 + gate (1 - s))`, `dup = d gate s`.
DEVICE float2 gate_back(float gate, float up, float d) {
    float s = 1.0f / (1.0f + expf(-gate));
    return make_float2(d * up * s * (1.0f + gate * (1.0f - s)), d * gate * s);
}

// Rows `[gate, up]` and their gradient; `width` is that of each half.
KERNEL(256) swiglu_back(const bf16* __restrict__ gate_up, u32 stride, u32 width, const bf16* __restrict__ d_out, u32 d_stride,
                        bf16* __restrict__ d_gate_up) {
    begin();
    u32 at = 8 * (blockIdx.y * blockDim.x + threadIdx.x);
    if (at >= width) return;
    const bf16* gate = gate_up + (size_t)blockIdx.x * stride + at;
    bf16* to = d_gate_up + (size_t)blockIdx.x * stride + at;
    d_out += (size_t)blockIdx.x * d_stride + at;
    if (width % 8 == 0) {
        Eight g = eight(gate), u = eight(gate + width), d = eight(d_out);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            float2 both = gate_back(g.v[i], u.v[i], d.v[i]);
            g.v[i] = both.x, u.v[i] = both.y;
        }
        put_eight(to, g);
        put_eight(to + width, u);
    } else {
        // The second half does not begin at a whole chunk.
        for (u32 i = 0; i < 8 && at + i < width; ++i) {
            float2 both = gate_back(widen(gate[i]), widen(gate[width + i]), widen(d_out[i]));
            to[i] = narrow(both.x), to[width + i] = narrow(both.y);
        }
    }
}
