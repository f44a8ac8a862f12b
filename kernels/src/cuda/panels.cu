//! How matrices lie in shared memory for the products of Hopper (PTX ISA, `wgmma`, the 128-byte swizzle), in plain C++: where
//! a value is, how a matrix is described, and what a product leaves in a lane. It refuses to know the instructions.
//!
//! Matrices lie in panels of 64 columns: 128 bytes a row, rows behind one another, 8 rows a block of 1,024 bytes whose 16-byte
//! chunks are exchanged by row (chunk `c` of row `r` lies at `c ^ (r % 8)`). A panel begins at a multiple of 1,024 bytes.

// Where 16 bytes lie within a panel.
DEVICE u32 in_panel(u32 row, u32 chunk) { return row * 128 + 16 * (chunk ^ (row % 8)); }

// Describes a matrix of panels. Where products sum along the columns, `next` is not looked at; where they sum along the
// rows it is how many bytes further the next panel lies.
DEVICE u64 matrix_at(u32 address, u32 next) {
    return (u64)(address & 0x3ffff) >> 4 | (u64)(next >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// What a product of `16 COUNT` columns leaves in a lane, as the left side of the next product.
template <int COUNT>
DEVICE void narrow_rows(u32 (&rows)[COUNT][4], const float (&values)[8 * COUNT]) {
#pragma unroll
    for (u32 s = 0; s < COUNT; ++s)
#pragma unroll
        for (u32 r = 0; r < 4; ++r) {
            const float* pair = &values[4 * (2 * s + r / 2) + 2 * (r % 2)];
            rows[s][r] = narrow2(pair[0], pair[1]);
        }
}

// Zeros in rows `first` to `end` of panels, `panel` bytes each, by the 256 threads behind the first 128.
DEVICE void clear_rows(unsigned char* panels, u32 panel, u32 first, u32 end) {
    for (u32 at = threadIdx.x - 128 + first * (DIM / 8); at < end * (DIM / 8); at += 256) {
        u32 row = at / (DIM / 8), chunk = at % (DIM / 8);
        *reinterpret_cast<uint4*>(panels + chunk / 8 * panel + in_panel(row, chunk % 8)) = uint4{0, 0, 0, 0};
    }
}
