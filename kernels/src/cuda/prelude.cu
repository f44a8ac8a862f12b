//! What several kernels share: eight values at a time, and sums over a warp and over a block. It refuses to know what they
//! are sums of.

// Eight bf16 values, 16 bytes: the widest access of a thread.
struct Eight {
    float v[8];
};

DEVICE Eight unpacked(uint4 bits) {
    Eight e;
    e.v[0] = widen(bits.x), e.v[1] = widen_upper(bits.x);
    e.v[2] = widen(bits.y), e.v[3] = widen_upper(bits.y);
    e.v[4] = widen(bits.z), e.v[5] = widen_upper(bits.z);
    e.v[6] = widen(bits.w), e.v[7] = widen_upper(bits.w);
    return e;
}

DEVICE uint4 packed(const Eight& e) {
    uint4 bits;
    bits.x = narrow2(e.v[0], e.v[1]);
    bits.y = narrow2(e.v[2], e.v[3]);
    bits.z = narrow2(e.v[4], e.v[5]);
    bits.w = narrow2(e.v[6], e.v[7]);
    return bits;
}

// `from` is a multiple of 8 values from an aligned start.
DEVICE uint4 bits_of_eight(const bf16* from) { return *reinterpret_cast<const uint4*>(from); }
DEVICE Eight eight(const bf16* from) { return unpacked(bits_of_eight(from)); }
DEVICE void put_eight(bf16* to, const Eight& e) { *reinterpret_cast<uint4*>(to) = packed(e); }

DEVICE float rounded(float value) { return widen(narrow(value)); }

DEVICE float warp_sum(float value) {
#pragma unroll
    for (u32 mask = 16; mask > 0; mask >>= 1) value += from_lane_xor(value, mask);
    return value;
}

DEVICE u64 warp_sum(u64 value) {
#pragma unroll
    for (u32 mask = 16; mask > 0; mask >>= 1) value += from_lane_xor(value, mask);
    return value;
}

DEVICE float warp_max(float value) {
#pragma unroll
    for (u32 mask = 16; mask > 0; mask >>= 1) value = fmaxf(value, from_lane_xor(value, mask));
    return value;
}

// The sum over all threads of a block, which all get. `room` has a place for each warp and may be used again at once.
template <typename T>
DEVICE T block_sum(T value, T* room) {
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
    barrier();
    T sum = 0;
    for (u32 warp = 0; warp < blockDim.x / 32; ++warp) sum += room[warp];
    barrier();
    return sum;
}
