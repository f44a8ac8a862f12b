//! What only Hopper has (sm_90a; PTX ISA, `mbarrier`, `cp.async.bulk.tensor`, `wgmma`, `setmaxnreg`): gates that threads and
//! copies pass, copies of boxes, products of a warpgroup whose matrices lie in shared memory, and registers that one warpgroup
//! gives another. It refuses to know how matrices lie there: `panels.cu` does.

#define MEMBER __device__ __forceinline__ // Of a struct.

// Shared memory that panels may begin with.
#define SHARED_PANELS(name) extern __shared__ __align__(1024) unsigned char name[]

DEVICE u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

// A gate opens, and its phase changes, when so many have arrived.
DEVICE void make_gate(u32 gate, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(gate), "r"(arrivals) : "memory");
}

DEVICE void arrive(u32 gate) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(gate) : "memory"); }

// Arrives, and lets the gate open only when so many more bytes have come.
DEVICE void arrive_for_bytes(u32 gate, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(gate), "r"(bytes) : "memory");
}

// Waits until the phase of this parity is over.
DEVICE void pass(u32 gate, u32 parity) {
    u32 open = 0;
    while (!open)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(open)
                     : "r"(gate), "r"(parity)
                     : "memory");
}

// Before boxes are copied by a description that the host wrote.
DEVICE void know_boxes(const void* boxes) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(boxes) : "memory");
}

// Starts to copy a box of 64 rows and 64 columns into a panel; its bytes count for the gate.
DEVICE void copy_box(u32 to, const void* boxes, u32 column, u32 row, u32 gate) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(boxes), "r"(column), "r"(row), "r"(gate)
                 : "memory");
}

// What this thread wrote to shared memory may be read by products after this, and a barrier.
DEVICE void for_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier of `threads` threads, with a number from 1 to 15.
DEVICE void barrier_of(u32 number, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }

template <int REGISTERS>
DEVICE void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
DEVICE void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Before the first product of a batch, whose registers may have been written before; behind its last one; and until at
// most so many batches are under way.
DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
DEVICE void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// That registers are read behind this line only: the compiler does not know that products write them late.
template <int COUNT>
DEVICE void settle(float (&values)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

#define FLOATS8(d, i)                                                                                                  \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7])
#define FLOATS32(d, i) FLOATS8(d, i), FLOATS8(d, i + 8), FLOATS8(d, i + 16), FLOATS8(d, i + 24)
#define NAMES32                                                                                                        \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"    \
    "%30,%31"
#define NAMES64                                                                                                        \
    NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"     \
            "%57,%58,%59,%60,%61,%62,%63"

// `c = a bᵀ` or `c += a bᵀ` of 64×16 and 128×16 values, or 64×16 and 64×16, both with their columns in one panel. Of `c`, warp `w` of the group
// has rows 16 w to 16 w + 15, and a lane of these what it has of 16 results of `multiply`, one behind the other.
DEVICE void multiply_both(float (&c)[64], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES64 "}, %64, %65, p, 1, 1, 0, 0;\n}"
                 : FLOATS32(c, 0), FLOATS32(c, 32)
                 : "l"(a), "l"(b), "r"((u32)add));
}

DEVICE void multiply_both(float (&c)[32], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES32 "}, %32, %33, p, 1, 1, 0, 0;\n}"
                 : FLOATS32(c, 0)
                 : "l"(a), "l"(b), "r"((u32)add));
}

// `c = a bᵀ` or `c += a bᵀ` of 64×16 values in registers, a lane's as `multiply` has them, and 64×16 in a panel.
DEVICE void multiply_columns(float (&c)[32], const u32 (&a)[4], u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;\n}"
                 : FLOATS32(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((u32)add));
}

// `c += a b` of 64×16 values in registers, a lane's as `multiply` has them, and 16 rows of 64 or 128 columns.
DEVICE void multiply_rows(float (&c)[32], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES32 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : FLOATS32(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
DEVICE void multiply_rows(float (&c)[64], const u32 (&a)[4], u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES64 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
        : FLOATS32(c, 0), FLOATS32(c, 32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
