//! Inner products for x86-64: tiles of rows by queries whose sums stay in registers.
//!
//! It refuses to know ranking. A product is summed lane by lane along the row, the lanes are then added,
//! and last the values that fill no whole register, one by one: the same order in every tile shape.

/// Writes one module of tiles for a register type. `$rows` × `$queries` sums, the rows and one query must
/// fit the register file.
macro_rules! tiles {
    ($module:ident, $feature:literal, $lanes:literal, $rows:literal, $queries:literal,
     $zero:ident, $load:ident, $fma:ident, $reduce:ident) => {
        pub(super) mod $module {
            #[allow(unused_imports)]
            use super::reduce_256;
            use std::arch::x86_64::*;

            /// All products of `rows` and `queries`; see [`crate::cpu::dot::products`].
            ///
            /// The caller has checked that the slices are whole rows of `dim` and `out` is rows × queries long.
            #[target_feature(enable = $feature)]
            pub(crate) fn products(rows: &[f32], queries: &[f32], dim: usize, out: &mut [f32]) {
                let count = queries.len() / dim;
                let mut first = 0;
                let mut blocks = rows.chunks_exact(dim * $rows);
                for block in &mut blocks {
                    strip::<$rows>(block, queries, dim, &mut out[first * count..(first + $rows) * count]);
                    first += $rows;
                }
                for row in blocks.remainder().chunks_exact(dim) {
                    strip::<1>(row, queries, dim, &mut out[first * count..(first + 1) * count]);
                    first += 1;
                }
            }

            /// `R` rows against all queries.
            #[target_feature(enable = $feature)]
            fn strip<const R: usize>(rows: &[f32], queries: &[f32], dim: usize, out: &mut [f32]) {
                let count = queries.len() / dim;
                let mut first = 0;
                let mut blocks = queries.chunks_exact(dim * $queries);
                for block in &mut blocks {
                    tile::<R, $queries>(rows, block, dim, count, first, out);
                    first += $queries;
                }
                for query in blocks.remainder().chunks_exact(dim) {
                    tile::<R, 1>(rows, query, dim, count, first, out);
                    first += 1;
                }
            }

            /// `R` rows against `Q` queries; product (r, q) goes to `out[r * stride + first + q]`.
            #[target_feature(enable = $feature)]
            #[inline]
            #[allow(unsafe_code)]
            fn tile<const R: usize, const Q: usize>(
                rows: &[f32],
                queries: &[f32],
                dim: usize,
                stride: usize,
                first: usize,
                out: &mut [f32],
            ) {
                assert!(rows.len() == R * dim && queries.len() == Q * dim, "a tile is R rows and Q queries of dim");
                let mut sums = [[$zero(); Q]; R];
                let whole = dim - dim % $lanes;
                let mut at = 0;
                while at < whole {
                    let mut row_lanes = [$zero(); R];
                    for r in 0..R {
                        // SAFETY: r < R and at + lanes <= dim, so the load ends at or before R * dim.
                        row_lanes[r] = unsafe { $load(rows.as_ptr().add(r * dim + at)) };
                    }
                    for q in 0..Q {
                        // SAFETY: q < Q and at + lanes <= dim, so the load ends at or before Q * dim.
                        let query = unsafe { $load(queries.as_ptr().add(q * dim + at)) };
                        for r in 0..R {
                            sums[r][q] = $fma(row_lanes[r], query, sums[r][q]);
                        }
                    }
                    at += $lanes;
                }
                for r in 0..R {
                    for q in 0..Q {
                        let mut sum = $reduce(sums[r][q]);
                        for d in whole..dim {
                            sum += rows[r * dim + d] * queries[q * dim + d];
                        }
                        out[r * stride + first + q] = sum;
                    }
                }
            }

            #[cfg(test)]
            mod tests {
                /// Sums and rows must leave one register of the feature for the query.
                #[test]
                fn a_tile_fits_the_register_file() {
                    let registers = if $lanes == 8 { 16 } else { 32 };
                    assert!($rows * $queries + $rows < registers, "one register is left for the query");
                }
            }
        }
    };
}

/// The sum of eight lanes, always in the same order.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn reduce_256(lanes: std::arch::x86_64::__m256) -> f32 {
    use std::arch::x86_64::*;
    let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    let one = _mm_add_ss(two, _mm_shuffle_ps::<1>(two, two));
    _mm_cvtss_f32(one)
}

tiles!(avx2, "avx2,fma", 8, 3, 4, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_fmadd_ps, reduce_256);
tiles!(avx512, "avx512f", 16, 4, 4, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_fmadd_ps, _mm512_reduce_add_ps);
