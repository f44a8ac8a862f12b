//! A row-major matrix of `f32` whose every value was checked when it was made.
//!
//! It refuses to know where the numbers came from: a vector, a slice and a mapped file are all welcome.

use rayon::prelude::*;

/// Largest dimension of a row.
pub const MAX_DIM: usize = 65_536;
/// Largest magnitude of a value. With [`MAX_DIM`] it keeps every inner product finite in `f32`.
pub const MAX_MAGNITUDE: f32 = 1e15;
/// Most rows: row numbers are `u32`.
pub const MAX_ROWS: usize = u32::MAX as usize;

/// Rows checked together by one task.
const CHECK_ROWS: usize = 4_096;

/// What the numeric operations refuse.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KernelError {
    /// A dimension of zero, or beyond the limit.
    #[error("expected a dimension of 1 to {MAX_DIM}, got {0}; check the shape of the vectors")]
    Dimension(usize),
    /// The values do not fill whole rows.
    #[error("expected whole rows of {dim} values, got {values} values; check the shape of the vectors")]
    Ragged {
        /// Values given.
        values: usize,
        /// Values of one row.
        dim: usize,
    },
    /// More rows than a row number can name.
    #[error("expected at most {MAX_ROWS} rows, got {0}; split the matrix")]
    TooManyRows(usize),
    /// NaN, infinite or far too large.
    #[error(
        "expected finite values up to {MAX_MAGNITUDE:e} in magnitude, got {value} in row {row}, column {column}; compute that vector anew"
    )]
    Value {
        /// Row, from zero.
        row: usize,
        /// Column, from zero.
        column: usize,
        /// What stands there.
        value: f32,
    },
    /// Query and matrix differ in dimension.
    #[error(
        "expected queries of dimension {expected}, got {got}; embed queries with the model that embedded the corpus"
    )]
    DimensionMismatch {
        /// Dimension of the matrix.
        expected: usize,
        /// Dimension of the queries.
        got: usize,
    },
}

/// A row-major matrix; its values are finite and at most [`MAX_MAGNITUDE`] in magnitude.
#[derive(Clone, Debug)]
pub struct Matrix<S> {
    values: S,
    rows: usize,
    dim: usize,
}

impl<S: AsRef<[f32]>> Matrix<S> {
    /// Takes `values` as rows of `dim` and checks each of them, once.
    ///
    /// # Errors
    /// A bad dimension, ragged rows, too many rows, or the first bad value in row order.
    pub fn new(values: S, dim: usize) -> Result<Self, KernelError> {
        if dim == 0 || dim > MAX_DIM {
            return Err(KernelError::Dimension(dim));
        }
        let all = values.as_ref();
        if !all.len().is_multiple_of(dim) {
            return Err(KernelError::Ragged { values: all.len(), dim });
        }
        let rows = all.len() / dim;
        if rows > MAX_ROWS {
            return Err(KernelError::TooManyRows(rows));
        }
        let chunk = CHECK_ROWS * dim;
        let bad =
            all.par_chunks(chunk).enumerate().find_map_first(|(i, part)| first_bad(part).map(|at| i * chunk + at));
        match bad {
            Some(at) => Err(KernelError::Value { row: at / dim, column: at % dim, value: all[at] }),
            None => Ok(Self { values, rows, dim }),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values of one row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        self.values.as_ref()
    }

    /// One row, or `None` past the end.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        self.values().chunks_exact(self.dim).nth(row)
    }
}

/// Index of the first value that is NaN, infinite or too large.
fn first_bad(values: &[f32]) -> Option<usize> {
    // For magnitudes the order of floats is that of their bits, and NaN and infinity lie above every number.
    let limit = MAX_MAGNITUDE.to_bits();
    let is_bad = |x: &f32| x.to_bits() & 0x7fff_ffff > limit;
    let any = values.iter().fold(false, |any, x| any | is_bad(x));
    if any { values.iter().position(is_bad) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bad_value_is_named_by_row() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2e15] {
            let mut values = vec![0.5; 30_000];
            values[20_001] = bad;
            values[29_000] = f32::NAN;
            match Matrix::new(values, 3).unwrap_err() {
                KernelError::Value { row, column, value } => {
                    assert_eq!((row, column), (6_667, 0));
                    assert_eq!(value.to_bits(), bad.to_bits());
                }
                other => panic!("expected a value error, got {other}"),
            }
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        assert_eq!(Matrix::new(vec![], 0).unwrap_err(), KernelError::Dimension(0));
        assert_eq!(Matrix::new(vec![0.0; 7], 3).unwrap_err(), KernelError::Ragged { values: 7, dim: 3 });
        assert_eq!(Matrix::new(vec![], MAX_DIM + 1).unwrap_err(), KernelError::Dimension(MAX_DIM + 1));
    }

    #[test]
    fn negative_zero_and_subnormals_are_numbers() {
        let matrix = Matrix::new(vec![-0.0, f32::MIN_POSITIVE / 2.0, MAX_MAGNITUDE, -MAX_MAGNITUDE], 2).unwrap();
        assert_eq!((matrix.rows(), matrix.dim()), (2, 2));
        assert_eq!(matrix.row(1), Some(&[MAX_MAGNITUDE, -MAX_MAGNITUDE][..]));
        assert_eq!(matrix.row(2), None);
    }
}
