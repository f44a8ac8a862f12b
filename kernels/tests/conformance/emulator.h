//! A card made of one thread: what `device.cu` gives kernels, in plain C++ (GCC or Clang on Linux). Each thread of a block is a
//! context of its own that runs until it must wait for others. Exchanges within a warp and products of small matrices
//! follow the PTX ISA's tables, written here from the side of the matrices and not from that of the lanes; copies
//! into shared memory come as late as they may in one block and at once in the next, so that a missing wait is seen, and a
//! missing barrier too.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include <setjmp.h>
#include <ucontext.h>

typedef unsigned short bf16;
typedef unsigned int u32;
typedef unsigned long long u64;
using std::max;
using std::min;

struct alignas(16) uint4 {
    u32 x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct alignas(8) float2 {
    float x, y;
};
struct alignas(8) uint2 {
    u32 x, y;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }

struct Place {
    u32 x, y, z;
};
static Place threadIdx, blockIdx, blockDim, gridDim;

#define __shared__ static
#define DEVICE static inline
#define KERNEL(...) static void
#define CLUSTER_KERNEL(threads, blocks) KERNEL(threads)
#define SHARED_BYTES(name) unsigned char* name = emulator::dynamic_shared

namespace emulator {

constexpr u32 THREADS_MAX = 1024, STACK = 64 << 10, SHARED_MAX = 228 << 10;
// Turns of all threads after which a block that does not get on is given up.
constexpr u32 TURNS_MAX = 1000;

struct Copy {
    void* to;
    const void* from;
    bool real;
};

struct Thread {
    // Where it begins; from then on it is left and entered by jumps, which ask nothing of the kernel.
    ucontext_t context;
    jmp_buf place;
    std::vector<char> stack;
    bool begun, done;
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
};

// Those who wait for one another: all threads of a block, or of a warp.
struct Meeting {
    u32 live = 0, arrived = 0, number = 0;
};

struct Warp {
    Meeting meeting;
    u64 values[32];
    const bf16* rows[32];
    u32 a[32][4], b[32][2];
};

alignas(16) static unsigned char dynamic_shared[SHARED_MAX];
static std::vector<Thread> threads(THREADS_MAX);
static Meeting block;
static Warp warps[THREADS_MAX / 32];
static jmp_buf scheduler;
static u32 current;
static u64 progress;
// Whether copies of this block come at once.
static bool eager;
static void (*run)(void**);
static void** arguments;

static void yield() {
    if (_setjmp(threads[current].place) == 0) _longjmp(scheduler, 1);
}

static void enter(Thread& thread) {
    if (_setjmp(scheduler) != 0) return;
    if (thread.begun) _longjmp(thread.place, 1);
    thread.begun = true;
    setcontext(&thread.context);
}

static void meet(Meeting& meeting) {
    u32 number = meeting.number;
    ++meeting.arrived;
    while (meeting.number == number) {
        // Whoever has left is not waited for.
        if (meeting.arrived >= meeting.live) {
            meeting.arrived = 0;
            ++meeting.number;
            ++progress;
        } else {
            yield();
        }
    }
}

static Warp& warp() { return warps[threadIdx.x / 32]; }
static u32 lane() { return threadIdx.x % 32; }
static void meet_warp() { meet(warp().meeting); }

static void entry() {
    run(arguments);
    threads[current].done = true;
    --block.live;
    --warp().meeting.live;
    ++progress;
    _longjmp(scheduler, 1);
}

static int run_block(u32 count) {
    memset(dynamic_shared, 0xff, sizeof dynamic_shared);
    block = Meeting{count, 0, 0};
    eager = !eager;
    for (u32 w = 0; w < count / 32; ++w) warps[w].meeting = Meeting{32, 0, 0};
    for (u32 i = 0; i < count; ++i) {
        Thread& thread = threads[i];
        if (thread.stack.empty()) thread.stack.resize(STACK);
        thread.begun = thread.done = false;
        thread.open.clear();
        thread.groups.clear();
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = STACK;
        thread.context.uc_link = nullptr;
        makecontext(&thread.context, entry, 0);
    }
    u32 idle = 0;
    while (block.live > 0) {
        u64 before = progress;
        for (u32 i = 0; i < count; ++i) {
            if (threads[i].done) continue;
            current = i;
            threadIdx = Place{i, 0, 0};
            enter(threads[i]);
        }
        idle = progress == before ? idle + 1 : 0;
        if (idle > TURNS_MAX) return 3;
    }
    return 0;
}

template <typename... A, size_t... I>
static void call(void (*kernel)(A...), void** args, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<A>*>(args[I])...);
}

// 0, or what is wrong: 1 the number of arguments or the size of one, 2 the shape of the launch, 3 threads that wait for ever.
template <typename... A>
static int launch(void (*kernel)(A...), void (*trampoline)(void**), const u32* shape, u32 count, const u32* sizes,
                  void** args) {
    const u32 expected[] = {sizeof(A)...};
    if (count != sizeof...(A) || memcmp(expected, sizes, sizeof expected) != 0) return 1;
    u32 grid_x = shape[0], grid_y = shape[1], block_x = shape[2], shared = shape[3];
    if (grid_x == 0 || grid_y == 0 || grid_y > 65535 || block_x % 32 != 0 || block_x == 0) return 2;
    if (block_x > THREADS_MAX || shared > SHARED_MAX) return 2;
    blockDim = Place{block_x, 1, 1};
    gridDim = Place{grid_x, grid_y, 1};
    run = trampoline;
    arguments = args;
    for (u32 y = 0; y < grid_y; ++y)
        for (u32 x = 0; x < grid_x; ++x) {
            blockIdx = Place{x, y, 0};
            if (int failed = run_block(block_x)) return failed;
        }
    return 0;
}

template <typename... A>
static std::index_sequence_for<A...> places(void (*)(A...)) {
    return {};
}

template <typename T>
static T from_lane(T value, u32 from) {
    u64 bits = 0;
    memcpy(&bits, &value, sizeof value);
    warp().values[lane()] = bits;
    meet_warp();
    memcpy(&value, &warp().values[from], sizeof value);
    meet_warp();
    return value;
}

// Value `i % 2` of register `i / 2`.
static float half_of(const u32* registers, u32 at) {
    u32 bits = (at % 2 ? registers[at / 2] >> 16 : registers[at / 2] & 0xffff) << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

} // namespace emulator

#define EMULATE(name)                                                                                                  \
    static void trampoline_##name(void** args) { emulator::call(name, args, emulator::places(name)); }                 \
    extern "C" int emulate_##name(const u32* shape, u32 count, const u32* sizes, void** args) {                        \
        return emulator::launch(name, trampoline_##name, shape, count, sizes, args);                                   \
    }

DEVICE u32 float_bits(float value) {
    u32 bits;
    memcpy(&bits, &value, 4);
    return bits;
}
DEVICE u64 double_bits(double value) {
    u64 bits;
    memcpy(&bits, &value, 8);
    return bits;
}
DEVICE double double_of(u64 bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
DEVICE float widen_upper(u32 bits) {
    bits &= 0xffff0000u;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
DEVICE float widen(u32 bits) { return widen_upper(bits << 16); }
DEVICE bf16 narrow(float value) {
    u32 bits = float_bits(value);
    if (value != value) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
DEVICE u32 narrow2(float first, float second) { return narrow(first) | (u32)narrow(second) << 16; }
DEVICE float power_of_two(float x) { return exp2f(x); }
DEVICE double times(double a, double b) { return a * b; }
DEVICE double plus(double a, double b) { return a + b; }
DEVICE u64 upper_half(u64 a, u64 b) { return (unsigned __int128)a * b >> 64; }

DEVICE void after_previous() {}
DEVICE void let_next_begin() {}
DEVICE void begin() {}
DEVICE void barrier() { emulator::meet(emulator::block); }
DEVICE void warp_barrier() { emulator::meet_warp(); }
DEVICE float from_lane_xor(float value, u32 mask) { return emulator::from_lane(value, emulator::lane() ^ mask); }
DEVICE u64 from_lane_xor(u64 value, u32 mask) { return emulator::from_lane(value, emulator::lane() ^ mask); }
DEVICE u64 from_lane_below(u64 value, u32 distance) {
    u32 lane = emulator::lane();
    return emulator::from_lane(value, lane >= distance ? lane - distance : lane);
}
DEVICE u32 arrive(u32* counter) { return (*counter)++; }
DEVICE u32 arrive_in_block(u32* counter) { return (*counter)++; }
DEVICE u32 seen_in_block(u32* counter) { return *counter; }
DEVICE void pause() { emulator::yield(); }
DEVICE u32 from_first_lane(u32 value) { return emulator::from_lane(value, 0); }
DEVICE uint4 streamed(const bf16* from) { return *reinterpret_cast<const uint4*>(from); }
DEVICE void add_shared(u64* to, u64 value) { *to += value; }
DEVICE u32 add_shared(u32* to, u32 value) { return (*to += value) - value; }

// Blocks come one after the other, so there are none that see each other's shared memory.
#define CLUSTERS false
DEVICE void cluster_barrier() {}
DEVICE float of_block(const float*, u32) { return NAN; }
DEVICE bool last_to_arrive(u32* ticket, u32 count) {
    static bool last;
    emulator::meet(emulator::block);
    if (threadIdx.x == 0) {
        last = ++*ticket == count;
        if (last) *ticket = 0;
    }
    emulator::meet(emulator::block);
    return last;
}
DEVICE float2 of_others(const float2* from) { return *from; }
DEVICE float of_others(const float* from) { return *from; }
DEVICE float4 of_others(const float4* from) { return *from; }

DEVICE void copy_now(const emulator::Copy& copy) {
    copy.real ? memcpy(copy.to, copy.from, 16) : memset(copy.to, 0, 16);
}
DEVICE void start_copy(void* to, const void* from, bool real) {
    emulator::Copy copy = {to, from, real};
    if (emulator::eager) copy_now(copy);
    else emulator::threads[emulator::current].open.push_back(copy);
}
DEVICE void start_weights(void* to, const void* from, bool real) { start_copy(to, from, real); }
DEVICE uint4 weights_once(const bf16* from, bool real) {
    return real ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
}
DEVICE void end_group() {
    emulator::Thread& thread = emulator::threads[emulator::current];
    thread.groups.push_back(std::move(thread.open));
    thread.open.clear();
}
template <int PENDING>
DEVICE void wait_for_groups() {
    auto& groups = emulator::threads[emulator::current].groups;
    while (groups.size() > PENDING) {
        for (const emulator::Copy& copy : groups.front()) copy_now(copy);
        groups.erase(groups.begin());
    }
}

// Row `r` of matrix `m` is where lane `8 m + r` says; value `c` of row `r` goes to lane `4 r + c / 2`.
DEVICE void load_matrices(u32 (&r)[4], const bf16* row) {
    emulator::Warp& warp = emulator::warp();
    u32 lane = emulator::lane();
    warp.rows[lane] = row;
    emulator::meet_warp();
    for (u32 m = 0; m < 4; ++m) {
        const bf16* from = warp.rows[8 * m + lane / 4];
        r[m] = from[2 * (lane % 4)] | (u32)from[2 * (lane % 4) + 1] << 16;
    }
    emulator::meet_warp();
}
DEVICE void load_transposed(u32 (&r)[4], const bf16* row) {
    emulator::Warp& warp = emulator::warp();
    u32 lane = emulator::lane();
    warp.rows[lane] = row;
    emulator::meet_warp();
    for (u32 m = 0; m < 4; ++m) {
        u32 first = 8 * m + 2 * (lane % 4);
        r[m] = warp.rows[first][lane / 4] | (u32)warp.rows[first + 1][lane / 4] << 16;
    }
    emulator::meet_warp();
}

DEVICE u32 transposed(u32 pair) {
    emulator::Warp& warp = emulator::warp();
    u32 lane = emulator::lane(), row = lane / 4, column = 2 * (lane % 4);
    warp.values[lane] = pair;
    emulator::meet_warp();
    // Row `row` and columns `column` and one on of the result are column `row` and these rows of what was given.
    u32 first = (u32)warp.values[4 * column + row / 2] >> 16 * (row % 2) & 0xffff;
    u32 second = (u32)warp.values[4 * (column + 1) + row / 2] >> 16 * (row % 2) & 0xffff;
    emulator::meet_warp();
    return first | second << 16;
}

// By the matrices' side of the tables of `mma.m16n8k16`: where element (row, k) of A and element (k, column) of B are kept.
DEVICE void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    emulator::Warp& warp = emulator::warp();
    u32 lane = emulator::lane();
    memcpy(warp.a[lane], a, sizeof a);
    warp.b[lane][0] = b0;
    warp.b[lane][1] = b1;
    emulator::meet_warp();
    for (u32 i = 0; i < 4; ++i) {
        u32 row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        float sum = c[i];
        for (u32 k = 0; k < 16; ++k) {
            u32 of_a = row % 8 * 4 + k % 8 / 2, register_a = row / 8 + 2 * (k / 8);
            u32 of_b = column * 4 + k % 8 / 2, register_b = k / 8;
            sum += emulator::half_of(warp.a[of_a], 2 * register_a + k % 2) *
                   emulator::half_of(warp.b[of_b], 2 * register_b + k % 2);
        }
        c[i] = sum;
    }
    emulator::meet_warp();
}
