//! What only a card has: its number formats, exchanges within a warp, copies into shared memory that nobody waits for, and
//! products of small matrices (PTX ISA, `ldmatrix`, `mma.sync.m16n8k16`, `cp.async`; sm_80 and later, so Ampere, Hopper and
//! Blackwell alike). Kernels say everything else in plain C++. The emulator of the tests has another file of these names.

typedef unsigned short bf16; // The upper half of a float, as bits.
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__
// The threads of a block, and how many blocks a multiprocessor should hold at least, where that matters.
#define KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
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
// Counts one more there, and tells how many were counted before. Whatever this thread's block has written before a barrier and this,
// whoever counts later sees after it, by `of_others`.
DEVICE u32 arrive(u32* counter) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}
// The same among the threads of a block, for a counter in shared memory: what a warp's lanes have written before a warp's barrier
// and this, whoever counts or looks later sees.
DEVICE u32 arrive_in_block(u32* counter) {
    u32 before, shared = (u32)__cvta_generic_to_shared(counter);
    asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], 1;" : "=r"(before) : "r"(shared) : "memory");
    return before;
}
DEVICE u32 seen_in_block(u32* counter) {
    u32 count, shared = (u32)__cvta_generic_to_shared(counter);
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(count) : "r"(shared) : "memory");
    return count;
}
DEVICE void pause() { asm volatile("nanosleep.u32 40;"); }
DEVICE u32 from_first_lane(u32 value) { return __shfl_sync(EVERYONE, value, 0); }

// 16 bytes that no one in this launch writes and no one else of this multiprocessor reads.
DEVICE uint4 streamed(const bf16* from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}
DEVICE void add_shared(u64* to, u64 value) { atomicAdd(to, value); }
DEVICE u32 add_shared(u32* to, u32 value) { return atomicAdd(to, value); } // What was there before.

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

// Whether this block is the last of `count` to come here: what the others wrote before may then be read with `of_others`. The
// ticket is zero before and after. All threads of a block come, and once in a kernel.
DEVICE bool last_to_arrive(u32* ticket, u32 count) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(ticket, 1) == count - 1;
        __threadfence();
        if (last) *ticket = 0;
    }
    __syncthreads();
    return last;
}

DEVICE float2 of_others(const float2* from) { return __ldcg(from); }
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

// Sixteen bytes of weights that are read once; zeros where `real` is false.
DEVICE uint4 weights_once(const bf16* from, bool real) {
    uint4 bits;
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
        " @p ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4]; }"
        : "=&r"(bits.x), "=&r"(bits.y), "=&r"(bits.z), "=&r"(bits.w)
        : "l"(from), "r"((u32)real));
    return bits;
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

// An 8×8 matrix of which lane `i` holds the values `2 (i % 4)` and one on of row `i / 4`, transposed.
DEVICE u32 transposed(u32 pair) {
    u32 of_columns;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(of_columns) : "r"(pair));
    return of_columns;
}

// `c += a b` of 16×16 and 16×8 values. With `g = lane / 4` and `t = 2 (lane % 4)`, a lane holds of `a` rows `g`, `g + 8`,
// `g`, `g + 8` at columns `t`, `t`, `t + 8`, `t + 8` (and one on); of `b` rows `t`, `t + 8` (and one on) at column `g`; of
// `c` row `g` at columns `t`, `t + 1`, then row `g + 8`.
DEVICE void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
