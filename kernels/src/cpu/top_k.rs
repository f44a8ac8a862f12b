//! The `k` rows of a matrix with the greatest inner product, for each of a batch of queries.
//!
//! Exact, and the same for any number of threads: equal scores are ordered by row number. It refuses to
//! know what the rows stand for.

use super::panel::{Level, MAX_LANES, Panel};
use crate::matrix::{KernelError, Matrix};
use rayon::prelude::*;
use std::cmp::Ordering;

/// Bytes of rows worked on at a time by one thread: half of a common second-level cache. All panels of queries
/// pass over a block before the next one is read.
const BLOCK_BYTES: usize = 512 * 1024;
/// Fewest rows of a block, for rows so long that few fit.
const MIN_BLOCK_ROWS: usize = 24;

/// A row and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Row number, from zero.
    pub row: u32,
    /// Inner product with the query.
    pub score: f32,
}

impl Scored {
    /// Best first: by score downwards, then by row number upwards.
    pub fn best_first(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.row.cmp(&other.row))
    }
}

/// For each query the `k` best rows of `matrix`, best first; fewer where the matrix has fewer rows.
///
/// # Errors
/// [`KernelError::DimensionMismatch`] if matrix and queries differ in dimension.
pub fn top_k<M, Q>(matrix: &Matrix<M>, queries: &Matrix<Q>, k: usize) -> Result<Vec<Vec<Scored>>, KernelError>
where
    M: AsRef<[f32]> + Sync,
    Q: AsRef<[f32]> + Sync,
{
    top_k_at(Level::detect(), matrix, queries, k)
}

/// As [`top_k`], at a stated level of the processor.
///
/// # Errors
/// As [`top_k`].
pub fn top_k_at<M, Q>(
    level: Level,
    matrix: &Matrix<M>,
    queries: &Matrix<Q>,
    k: usize,
) -> Result<Vec<Vec<Scored>>, KernelError>
where
    M: AsRef<[f32]> + Sync,
    Q: AsRef<[f32]> + Sync,
{
    let dim = matrix.dim();
    if queries.dim() != dim {
        return Err(KernelError::DimensionMismatch { expected: dim, got: queries.dim() });
    }
    let k = k.min(matrix.rows());
    let empty = || (0..queries.rows()).map(|_| Best::new(k)).collect::<Vec<_>>();
    if k == 0 {
        return Ok(vec![Vec::new(); queries.rows()]);
    }
    let panels: Vec<Panel> =
        queries.values().chunks(MAX_LANES * dim).map(|queries| Panel::pack(queries, dim)).collect();
    let block_rows = (BLOCK_BYTES / (dim * size_of::<f32>())).max(MIN_BLOCK_ROWS);
    let best = matrix
        .values()
        .par_chunks(block_rows * dim)
        .enumerate()
        .fold(empty, |mut best, (block, rows)| {
            score_block(level, rows, block * block_rows, &panels, dim, &mut best);
            best
        })
        .reduce(empty, |mut left, right| {
            for (left, right) in left.iter_mut().zip(right) {
                left.absorb(right);
            }
            left
        });
    Ok(best.into_iter().map(Best::into_sorted).collect())
}

/// Offers every product of a block of rows to the best lists of the queries.
fn score_block(level: Level, rows: &[f32], first_row: usize, panels: &[Panel], dim: usize, best: &mut [Best]) {
    let mut products = vec![0.0; rows.len() / dim * MAX_LANES];
    for (panel, best) in panels.iter().zip(best.chunks_mut(MAX_LANES)) {
        let products = &mut products[..rows.len() / dim * panel.lanes()];
        panel.products(level, rows, products);
        // Lanes without a query must not be offered: nothing reaches infinity.
        let mut floors = [f32::INFINITY; MAX_LANES];
        best.iter().zip(&mut floors).for_each(|(best, floor)| *floor = best.floor);
        for (r, scores) in products.chunks_exact(panel.lanes()).enumerate() {
            // Most rows are among the best of no query; this comparison is one instruction or two.
            let any = scores.iter().zip(&floors).fold(false, |any, (score, floor)| any | (score >= floor));
            if any {
                for ((best, score), floor) in best.iter_mut().zip(scores).zip(&mut floors) {
                    // Adding zero turns -0.0 into 0.0, which are one score and must tie.
                    best.offer(Scored { row: (first_row + r) as u32, score: score + 0.0 });
                    *floor = best.floor;
                }
            }
        }
    }
}

/// The best `k` offered so far, found by cutting a buffer of twice that size in half when it is full.
struct Best {
    k: usize,
    kept: Vec<Scored>,
    /// What an offer must beat or tie; known once `k` were kept.
    floor: f32,
}

impl Best {
    fn new(k: usize) -> Self {
        Self { k, kept: Vec::new(), floor: f32::NEG_INFINITY }
    }

    #[inline]
    fn offer(&mut self, scored: Scored) {
        if scored.score >= self.floor {
            self.kept.push(scored);
            if self.kept.len() >= self.k * 2 {
                self.cut();
            }
        }
    }

    #[cold]
    fn cut(&mut self) {
        if self.kept.len() > self.k {
            self.kept.select_nth_unstable_by(self.k - 1, Scored::best_first);
            self.kept.truncate(self.k);
        }
        if self.kept.len() == self.k {
            self.floor = self.kept.iter().map(|s| s.score).fold(f32::INFINITY, f32::min);
        }
    }

    fn absorb(&mut self, other: Best) {
        self.kept.extend(other.kept);
        self.cut();
    }

    fn into_sorted(mut self) -> Vec<Scored> {
        self.cut();
        self.kept.sort_unstable_by(Scored::best_first);
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every product, sorted whole: what `top_k` must agree with.
    fn sorted_truth(matrix: &Matrix<Vec<f32>>, query: &[f32], k: usize) -> Vec<Scored> {
        let mut scores: Vec<f32> = vec![0.0; matrix.rows()];
        for (row, score) in matrix.values().chunks(matrix.dim()).zip(&mut scores) {
            *score = row.iter().zip(query).map(|(a, b)| a * b).sum();
        }
        let mut all: Vec<_> =
            scores.iter().enumerate().map(|(row, s)| Scored { row: row as u32, score: s + 0.0 }).collect();
        all.sort_by(Scored::best_first);
        all.truncate(k);
        all
    }

    /// Small whole numbers: every sum is exact, so ties are real and every level must agree to the bit.
    fn whole_numbers(n: usize) -> impl Strategy<Value = Vec<f32>> {
        proptest::collection::vec((-3_i8..4).prop_map(f32::from), n)
    }

    proptest! {
        #[test]
        fn every_level_ranks_as_a_whole_sort_does(
            (dim, rows, queries, k) in (1_usize..20, 0_usize..300, 0_usize..9, 0_usize..40).prop_flat_map(
                |(dim, rows, queries, k)| (Just(dim), whole_numbers(dim * rows), whole_numbers(dim * queries), Just(k))
            )
        ) {
            let matrix = Matrix::new(rows, dim).unwrap();
            let queries = Matrix::new(queries, dim).unwrap();
            for level in Level::available() {
                let got = top_k_at(level, &matrix, &queries, k).unwrap();
                prop_assert_eq!(got.len(), queries.rows());
                for (q, got) in got.iter().enumerate() {
                    prop_assert_eq!(got, &sorted_truth(&matrix, queries.row(q).unwrap(), k));
                }
            }
        }
    }

    #[test]
    fn many_blocks_give_one_ranking() {
        // 5,000 rows of 400 are some fifteen blocks; whole numbers keep the sums exact.
        let dim = 400;
        let values: Vec<f32> = (0..5_000 * dim).map(|i| ((i * 7_919) % 13) as f32 - 6.0).collect();
        let matrix = Matrix::new(values, dim).unwrap();
        let queries: Vec<f32> = (0..70 * dim).map(|i| ((i * 104_729) % 7) as f32 - 3.0).collect();
        let queries = Matrix::new(queries, dim).unwrap();
        let got = top_k(&matrix, &queries, 25).unwrap();
        for q in [0, 1, 15, 16, 63, 64, 69] {
            assert_eq!(got[q], sorted_truth(&matrix, queries.row(q).unwrap(), 25), "query {q}");
        }
    }

    #[test]
    fn equal_rows_are_ordered_by_number_and_k_is_bounded_by_rows() {
        let matrix = Matrix::new(vec![1.0; 12], 3).unwrap();
        let query = Matrix::new(vec![1.0, 1.0, 1.0], 3).unwrap();
        let rows = |k| top_k(&matrix, &query, k).unwrap()[0].iter().map(|s| s.row).collect::<Vec<_>>();
        assert_eq!(rows(2), [0, 1]);
        assert_eq!(rows(usize::MAX), [0, 1, 2, 3]);
        assert!(rows(0).is_empty());
    }

    #[test]
    fn zero_and_negative_zero_tie() {
        let matrix = Matrix::new(vec![-0.0, 0.0, -0.0], 1).unwrap();
        let query = Matrix::new(vec![1.0], 1).unwrap();
        let got = top_k(&matrix, &query, 3).unwrap();
        assert_eq!(got[0].iter().map(|s| s.row).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn another_dimension_is_refused() {
        let matrix = Matrix::new(vec![1.0; 6], 3).unwrap();
        let query = Matrix::new(vec![1.0; 2], 2).unwrap();
        let error = top_k(&matrix, &query, 1).unwrap_err();
        assert_eq!(error, KernelError::DimensionMismatch { expected: 3, got: 2 });
    }
}
