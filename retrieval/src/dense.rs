//! Exact search over the vectors of an index, in process.
//!
//! It refuses to know models and servers. Vectors lie in the order of ids, so that the kernel's order of equal
//! scores, by row, is the order of ids.

use crate::bm25::Ranked;
use crate::error::RetrievalError;
use legwork_kernels::{MappedF32, Matrix, top_k};
use std::path::Path;

/// The mapped vectors of an index, each checked to be finite.
pub struct Dense {
    matrix: Matrix<MappedF32>,
}

impl Dense {
    /// Maps `documents` vectors of `dim` values and checks every value.
    pub(crate) fn open(path: &Path, dim: usize, documents: usize) -> Result<Self, RetrievalError> {
        let values = MappedF32::open(path).map_err(RetrievalError::io("mapping", path))?;
        let matrix = Matrix::new(values, dim)?;
        if matrix.rows() != documents {
            let what = format!("expected {documents} vectors of {dim} values, got {}", matrix.rows());
            return Err(RetrievalError::file(path, what, "the index is damaged: give it its vectors anew"));
        }
        Ok(Self { matrix })
    }

    /// Values of one vector.
    pub fn dim(&self) -> usize {
        self.matrix.dim()
    }

    /// The vector of a document, by its number.
    pub fn vector(&self, number: u32) -> Option<&[f32]> {
        self.matrix.row(number as usize)
    }

    /// For each query, all of one dimension, the `k` documents of greatest inner product, best first.
    pub(crate) fn search(&self, queries: &[f32], k: usize) -> Result<Vec<Vec<Ranked>>, RetrievalError> {
        let queries = Matrix::new(queries, self.dim())?;
        let best = top_k(&self.matrix, &queries, k)?;
        let ranked = |list: Vec<legwork_kernels::Scored>| {
            list.into_iter().map(|s| Ranked { rank: s.row, score: f64::from(s.score) }).collect()
        };
        Ok(best.into_iter().map(ranked).collect())
    }
}
