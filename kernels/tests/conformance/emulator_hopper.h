//! What only Hopper has, for the card that is made of one thread: what `hopper.cu` gives kernels, in plain C++. Matrices are read as
//! their descriptions say (PTX ISA, `wgmma`: start, strides and the 128-byte swizzle), boxes are copied by descriptions that the
//! emulated driver writes: an address, rows, and values of a row.
//!
//! As copies of `emulator.h`, copies of boxes and products come as late as they may in one block and at once in the next, so that
//! a missing wait is seen, and a gate that is passed too early too.

#include <map>

#define MEMBER inline
#define SHARED_PANELS(name) unsigned char* name = emulator::dynamic_shared

namespace emulator {

struct BoxCopy {
    u32 to, column, row, gate;
    const u64* boxes;
};

struct Gate {
    u32 expected = 0, pending = 0, phase = 0;
    long long bytes = 0;
};

// Of 64 rows and `columns` columns; where `rows` is null, the left side lies in shared memory.
struct WarpgroupProduct {
    float* c;
    const u32* rows;
    u64 a, b;
    u32 columns;
    bool across, add;
};

static std::map<u32, Gate> gates;
static std::vector<BoxCopy> copies;
static std::map<u32, Meeting> numbered;
static Meeting warpgroups[THREADS_MAX / 128];
static std::vector<std::vector<WarpgroupProduct>> batches[THREADS_MAX];
static std::vector<WarpgroupProduct> unfinished[THREADS_MAX];

static void meet_warpgroup() {
    Meeting& meeting = warpgroups[threadIdx.x / 128];
    meeting.live = 128;
    meet(meeting);
}

static void look(Gate& gate) {
    if (gate.pending != 0 || gate.bytes != 0) return;
    gate.phase ^= 1;
    gate.pending = gate.expected;
    ++progress;
}

static void copy_now(const BoxCopy& copy) {
    const bf16* from = reinterpret_cast<const bf16*>(copy.boxes[0]);
    u64 rows = copy.boxes[1], width = copy.boxes[2];
    for (u32 row = 0; row < 64; ++row)
        for (u32 column = 0; column < 64; ++column) {
            u32 at = copy.to + row * 128 + column * 2;
            at ^= (at >> 7 & 7) << 4;
            bool there = copy.row + row < rows && copy.column + column < width;
            bf16 value = there ? from[(copy.row + row) * width + copy.column + column] : 0;
            memcpy(dynamic_shared + at, &value, 2);
        }
    Gate& gate = gates[copy.gate];
    gate.bytes -= 64 * 64 * 2;
    look(gate);
}

static float shared_value(u32 at) {
    at ^= (at >> 7 & 7) << 4;
    bf16 bits;
    memcpy(&bits, dynamic_shared + at, 2);
    u32 wide = (u32)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

// Of a matrix whose products sum along the columns: its row, and which of the 16 columns.
static float along(u64 matrix, u32 row, u32 k) {
    u32 start = (matrix & 0x3fff) << 4, blocks = (matrix >> 32 & 0x3fff) << 4;
    return shared_value(start + row / 8 * blocks + row % 8 * 128 + 2 * k);
}

// Of one whose products sum along the rows: which of the 16 rows, and its column.
static float down(u64 matrix, u32 k, u32 column) {
    u32 start = (matrix & 0x3fff) << 4, next = (matrix >> 16 & 0x3fff) << 4, blocks = (matrix >> 32 & 0x3fff) << 4;
    return shared_value(start + column / 64 * next + k / 8 * blocks + k % 8 * 128 + column % 64 * 2);
}

// The oldest batch, of which every thread computes what it has. All threads of the group come.
static void finish_batch() {
    u32 first = threadIdx.x / 128 * 128, own = threadIdx.x % 128, lane = own % 32;
    meet_warpgroup();
    const auto& batch = batches[first + own].front();
    for (size_t number = 0; number < batch.size(); ++number) {
        const WarpgroupProduct& product = batch[number];
        float left[2][16];
        for (u32 half = 0; half < 2; ++half)
            for (u32 k = 0; k < 16; ++k) {
                // Column `k` of this row is with lane `k % 8 / 2` of the four that have it.
                u32 of = own / 4 * 4 + k % 8 / 2;
                left[half][k] = product.rows
                                    ? half_of(batches[first + of].front()[number].rows, 2 * (half + 2 * (k / 8)) + k % 2)
                                    : along(product.a, own / 32 * 16 + lane / 4 + 8 * half, k);
            }
        for (u32 n = 0; n < product.columns / 8; ++n)
            for (u32 i = 0; i < 2; ++i) {
                u32 column = 8 * n + 2 * (lane % 4) + i;
                float right[16];
                for (u32 k = 0; k < 16; ++k)
                    right[k] = product.across ? down(product.b, k, column) : along(product.b, column, k);
                for (u32 half = 0; half < 2; ++half) {
                    float& c = product.c[4 * n + 2 * half + i];
                    float sum = product.add ? c : 0.0f;
                    for (u32 k = 0; k < 16; ++k) sum += left[half][k] * right[k];
                    c = sum;
                }
            }
    }
    meet_warpgroup();
    batches[first + own].erase(batches[first + own].begin());
}

static void add_product(float* c, const u32* rows, u64 a, u64 b, u32 columns, bool across, bool add) {
    unfinished[threadIdx.x].push_back(WarpgroupProduct{c, rows, a, b, columns, across, add});
}

} // namespace emulator

DEVICE u32 shared_address(const void* at) {
    return static_cast<const unsigned char*>(at) - emulator::dynamic_shared;
}
// Before any other, so it forgets those of the block before, all of which are over.
DEVICE void make_gate(u32 gate, u32 arrivals) {
    emulator::Gate made;
    made.expected = made.pending = arrivals;
    emulator::gates[gate] = made;
    emulator::numbered.clear();
}
DEVICE void arrive(u32 gate) {
    emulator::Gate& at = emulator::gates[gate];
    if (at.pending == 0) abort();
    --at.pending;
    emulator::look(at);
}
DEVICE void arrive_for_bytes(u32 gate, u32 bytes) {
    emulator::gates[gate].bytes += bytes;
    arrive(gate);
}
DEVICE void pass(u32 gate, u32 parity) {
    while (emulator::gates[gate].phase == parity) {
        // Whoever waits makes late copies come.
        std::vector<emulator::BoxCopy> late;
        for (const emulator::BoxCopy& copy : emulator::copies)
            if (copy.gate == gate) late.push_back(copy);
        auto of_gate = [gate](const emulator::BoxCopy& copy) { return copy.gate == gate; };
        emulator::copies.erase(std::remove_if(emulator::copies.begin(), emulator::copies.end(), of_gate),
                               emulator::copies.end());
        for (const emulator::BoxCopy& copy : late) emulator::copy_now(copy);
        if (emulator::gates[gate].phase == parity) emulator::yield();
    }
}
DEVICE void know_boxes(const void*) {}
DEVICE void copy_box(u32 to, const void* boxes, u32 column, u32 row, u32 gate) {
    emulator::BoxCopy copy = {to, column, row, gate, static_cast<const u64*>(boxes)};
    if (emulator::eager) emulator::copy_now(copy);
    else emulator::copies.push_back(copy);
}
DEVICE void for_products() {}
DEVICE void barrier_of(u32 number, u32 threads) {
    emulator::Meeting& meeting = emulator::numbered[number];
    meeting.live = threads;
    emulator::meet(meeting);
}
template <int REGISTERS>
DEVICE void give_registers() {}
template <int REGISTERS>
DEVICE void take_registers() {}

DEVICE void begin_products() {}
DEVICE void end_products() {
    u32 own = threadIdx.x;
    emulator::batches[own].push_back(std::move(emulator::unfinished[own]));
    emulator::unfinished[own].clear();
    if (emulator::eager) emulator::finish_batch();
}
template <int PENDING>
DEVICE void wait_for_products() {
    while (emulator::batches[threadIdx.x].size() > PENDING) emulator::finish_batch();
}
template <int COUNT>
DEVICE void settle(float (&)[COUNT]) {}

template <int COUNT>
DEVICE void multiply_both(float (&c)[COUNT], u64 a, u64 b, bool add) {
    emulator::add_product(c, nullptr, a, b, 2 * COUNT, false, add);
}
DEVICE void multiply_columns(float (&c)[32], const u32 (&a)[4], u64 b, bool add) {
    emulator::add_product(c, a, 0, b, 64, false, add);
}
template <int COUNT>
DEVICE void multiply_rows(float (&c)[COUNT], const u32 (&a)[4], u64 b) {
    emulator::add_product(c, a, 0, b, 2 * COUNT, true, true);
}
