//! What only a card has: its number formats, exchanges within a warp, copies into shared memory that nobody waits for, and
//! products of small matrices (PTX ISA, `ldmatrix`, `mma.sync.m16n8k16`, `cp.async`; sm_80 and later, so Ampere, Hopper and
//! Blackwell alike). Kernels say everything else in plain C++. The emulator of the tests has another file of these names.

typedef unsigned short bf16; // The upper half of a float, as bits.
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
// Blocks below one another, `blocks` of them, may read each other's shared memory where CLUSTERS is true.
#if __CUDA_ARCH__ >= 900
#define CLUSTER_KERNEL(threads, blocks) KERNEL(threads) __cluster_dims__(1, blocks, 1)
#define CLUSTERS true
#else
#define CLUSTER_KERNEL(threads, blocks) KERNEL(threads)
#define CLUSTERS false
#endif
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[]

#define INFINITY __int_as_float(0x7f800000)
static const u32 EVERYONE = 0xffffffffu;

DEVICE float widen(u32 bits) { return __uint_as_float(bits << 16); }
DEVICE float widen_upper(u32 bits) { return __uint_as_float(bits & 0xffff0000u); }

// Rounds to nearest, ties to even.
DEVICE bf16 narrow(float value) {
    bf16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Two at once, the first in the lower half.
DEVICE u32 narrow2(float first, float second) {
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
}

DEVICE float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

DEVICE u32 float_bits(float value) { return __float_as_uint(value); }
DEVICE u64 double_bits(double value) { return (u64)__double_as_longlong(value); }
DEVICE double double_of(u64 bits) { return __longlong_as_double((long long)bits); }
// Each rounded once: never fused, so that they are what the processor computes.
DEVICE double times(double a, double b) { return __dmul_rn(a, b); }
DEVICE double plus(double a, double b) { return __dadd_rn(a, b); }
DEVICE u64 upper_half(u64 a, u64 b) { return __umul64hi(a, b); }

// A kernel may begin before the one before it in the stream has ended (programmatic dependent launch, from sm_90 on): whatever
// that one wrote may be read, and whatever it read overwritten, after this only. Every kernel calls it, so that
// each waits for all before it. What never changes, the weights, may be read before.
DEVICE void after_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The kernel behind this one may begin once all blocks of this one have said so or ended.
DEVICE void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// What a kernel without weights to fetch ahead begins with.
DEVICE void begin() {
    let_next_begin();
    after_previous();
}

// Ends the whole grid as an error of the device.
DEVICE void give_up() { asm volatile("trap;"); }

DEVICE void barrier() { __syncthreads(); }
DEVICE void warp_barrier() { __syncwarp(); }
DEVICE float from_lane_xor(float value, u32 mask) { return __shfl_xor_sync(EVERYONE, value, mask); }
DEVICE u64 from_lane_xor(u64 value, u32 mask) { return __shfl_xor_sync(EVERYONE, value, mask); }
DEVICE u64 from_lane_below(u64 value, u32 distance) { return __shfl_up_sync(EVERYONE, value, distance); }
DEVICE void add_shared(u64* to, u64 value) { atomicAdd(to, value); }

// All threads of all blocks of a cluster meet.
DEVICE void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// What another block of the cluster has where `from` is in this one's shared memory.
DEVICE float of_block(const float* from, u32 block) {
    float value = 0;
#if __CUDA_ARCH__ >= 900
    u32 shared = (u32)__cvta_generic_to_shared(from), there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(block));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
#endif
    return value;
}

// Of which of two tickets this block is the last of so many to come: bits 0 and 1. What the others wrote before may then be read
// with `of_others`. Tickets are zero before and after; one of a single block is not touched. All threads of a block come,
// and once in a kernel.
DEVICE u32 last_to_arrive(u32* first, u32 first_count, u32* second, u32 second_count) {
    __shared__ bool last[2];
    __syncthreads();
    if (threadIdx.x < 2) {
        u32 *ticket = threadIdx.x ? second : first, count = threadIdx.x ? second_count : first_count;
        last[threadIdx.x] = false;
        if (count > 1) {
            __threadfence();
            last[threadIdx.x] = atomicAdd(ticket, 1) == count - 1;
            __threadfence();
            if (last[threadIdx.x]) *ticket = 0;
        }
    }
    __syncthreads();
    return last[0] | (u32)last[1] << 1;
}

DEVICE float of_others(const float* from) { return __ldcg(from); }
DEVICE float4 of_others(const float4* from) { return __ldcg(from); }

// Starts to copy 16 bytes into shared memory; zeros where `real` is false.
DEVICE void start_copy(void* to, const void* from, bool real) {
    u32 shared = (u32)__cvta_generic_to_shared(to), bytes = real ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}

// The same of weights, of which each byte is read once: half a line asks for the whole of it.
DEVICE void start_weights(void* to, const void* from, bool real) {
    u32 shared = (u32)__cvta_generic_to_shared(to), bytes = real ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}

DEVICE void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most so many groups of this thread are under way.
template <int PENDING>
DEVICE void wait_for_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8×8 matrices: lane `i` gives the address of row `i % 8` of matrix `i / 8`, and gets of each matrix the values
// `2 (lane % 4)` and one on of row `lane / 4`.
DEVICE void load_matrices(u32 (&r)[4], const bf16* row) {
    u32 shared = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

// The same of the transposed matrices: rows `2 (lane % 4)` and one on of column `lane / 4`.
DEVICE void load_transposed(u32 (&r)[4], const bf16* row) {
    u32 shared = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

// `c += a b` of 16×16 and 16×8 values. With `g = lane / 4` and `t = 2 (lane % 4)`, a lane holds of `a` rows `g`, `g + 8`,
// `g`, `g + 8` at columns `t`, `t`, `t + 8`, `t + 8` (and one on); of `b` rows `t`, `t + 8` (and one on) at column `g`; of
// `c` row `g` at columns `t`, `t + 1`, then row `g + 8`.
DEVICE void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
