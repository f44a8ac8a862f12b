//! What is done to rows one by one. Rows are bf16 at strides of whole 16 bytes; what lies between a row's width and its
//! stride is never read as a value. Sums are f32, and a norm rounds where Hugging Face rounds: the normed value to bf16, then
//! its product with the weight.
//!
//! Floors, with w the width in values: gather 4w bytes a row; rms_norm 4w; add_rms_norm 8w (x and delta read, x and out written);
//! swiglu 6w for w outputs; normalize 4w. All are bound by memory: fewer than three operations a byte.

// `out[i] = table[ids[i]]`: a block a row, `chunks` of 16 bytes. The host has checked the ids.
KERNEL(256) gather(const bf16* __restrict__ table, u32 table_stride, const u32* __restrict__ ids, u32 chunks,
                   bf16* __restrict__ out, u32 out_stride) {
    begin();
    const bf16* from = table + (size_t)ids[blockIdx.x] * table_stride;
    bf16* to = out + (size_t)blockIdx.x * out_stride;
    for (u32 chunk = threadIdx.x; chunk < chunks; chunk += blockDim.x)
        *reinterpret_cast<uint4*>(to + 8 * chunk) = bits_of_eight(from + 8 * chunk);
}

DEVICE float squares(const Eight& e, u32 count) {
    float sum = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) sum += i < count ? e.v[i] * e.v[i] : 0.0f;
    return sum;
}

// RMSNorm of a row, a block each, after `x += delta`, rounded, where there is one. What a thread holds of its row stays in
// registers; only what is wider than eight values a thread is read a second time, by who wrote it. `weight` has room for
// whole chunks, and is fetched before the kernels before have ended.
template <bool ADDS>
DEVICE void norm_row(bf16* x, const bf16* delta, u32 stride, u32 width, const bf16* weight, float eps, bf16* out) {
    let_next_begin();
    __shared__ float room[32];
    u32 at = 8 * threadIdx.x, step = 8 * blockDim.x;
    size_t begin = (size_t)blockIdx.x * stride;
    uint4 scale = {0, 0, 0, 0};
    if (at < width) scale = bits_of_eight(weight + at);
    after_previous();
    auto sum_at = [&](u32 from) {
        Eight e = eight(x + begin + from);
        if (!ADDS) return e;
        Eight d = eight(delta + begin + from);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) e.v[i] = rounded(e.v[i] + d.v[i]);
        put_eight(x + begin + from, e);
        return e;
    };
    auto put_scaled = [&](u32 to, Eight e, uint4 bits, float factor) {
        Eight w = unpacked(bits);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) e.v[i] = rounded(e.v[i] * factor) * w.v[i];
        put_eight(out + begin + to, e);
    };
    Eight held = {};
    float sum = 0;
    if (at < width) {
        held = sum_at(at);
        sum = squares(held, min(8u, width - at));
    }
    for (u32 more = at + step; more < width; more += step) sum += squares(sum_at(more), min(8u, width - more));
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = sum;
    barrier();
    sum = 0;
    for (u32 warp = 0; warp < blockDim.x / 32; ++warp) sum += room[warp];
    float factor = 1.0f / sqrtf(sum / (float)width + eps);
    if (at < width) put_scaled(at, held, scale, factor);
    for (u32 more = at + step; more < width; more += step)
        put_scaled(more, eight(x + begin + more), bits_of_eight(weight + more), factor);
}

KERNEL(1024) rms_norm(const bf16* __restrict__ x, u32 stride, u32 width, const bf16* __restrict__ weight, float eps,
                      bf16* __restrict__ out) {
    norm_row<false>(const_cast<bf16*>(x), nullptr, stride, width, weight, eps, out);
}

KERNEL(1024) add_rms_norm(bf16* x, const bf16* __restrict__ delta, u32 stride, u32 width, const bf16* __restrict__ weight,
                          float eps, bf16* __restrict__ out) {
    norm_row<true>(x, delta, stride, width, weight, eps, out);
}

DEVICE float gated(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }

// SwiGLU of rows `[gate, up]`: a thread takes 8 outputs, blocks lie side by side over a row and one below the other.
KERNEL(256) swiglu(const bf16* __restrict__ gate_up, u32 stride, u32 width, bf16* __restrict__ out, u32 out_stride) {
    begin();
    u32 at = 8 * (blockIdx.y * blockDim.x + threadIdx.x);
    if (at >= width) return;
    const bf16* gate = gate_up + (size_t)blockIdx.x * stride + at;
    out += (size_t)blockIdx.x * out_stride + at;
    if (width % 8 == 0) {
        Eight g = eight(gate), u = eight(gate + width);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) g.v[i] = gated(g.v[i], u.v[i]);
        put_eight(out, g);
    } else {
        // The second half does not begin at a whole chunk.
        for (u32 i = 0; i < 8 && at + i < width; ++i) out[i] = narrow(gated(widen(gate[i]), widen(gate[width + i])));
    }
}

// `x / max(‖x‖, 1e-12)`, in place.
KERNEL(1024) normalize(bf16* x, u32 stride, u32 width) {
    begin();
    __shared__ float room[32];
    x += (size_t)blockIdx.x * stride;
    float sum = 0;
    for (u32 chunk = threadIdx.x; 8 * chunk < width; chunk += blockDim.x)
        sum += squares(eight(x + 8 * chunk), min(8u, width - 8 * chunk));
    float factor = 1.0f / fmaxf(sqrtf(block_sum(sum, room)), 1e-12f);
    for (u32 chunk = threadIdx.x; 8 * chunk < width; chunk += blockDim.x) {
        Eight e = eight(x + 8 * chunk);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) e.v[i] *= factor;
        put_eight(x + 8 * chunk, e);
    }
}
