//! Weights as their files store them: a kind of number, a shape and shared bytes. Nothing is converted before it is
//! computed on, so a mapped file costs no memory of its own.
//!
//! It refuses to know file formats and names of tensors.

use crate::cpu::panel::Level;
use crate::cpu::unpack::unpack;
use std::sync::Arc;

/// Values of one block of the quantised kinds.
pub const BLOCK: usize = 32;

/// How the numbers of a stored matrix are written, little-endian. The quantised kinds are GGUF's (ggml's `block_q4_0`,
/// `block_q4_1`, `block_q8_0`): blocks of [`BLOCK`] values along a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 32-bit IEEE 754.
    F32,
    /// 16-bit IEEE 754.
    F16,
    /// The upper half of a 32-bit float.
    Bf16,
    /// Blocks of an f16 scale `d` and 16 bytes of nibbles `q`; a value is `d * (q - 8)`. Byte `i` holds value `i` in its
    /// lower and value `i + 16` in its upper half.
    Q4_0,
    /// As [`Dtype::Q4_0`] with a second f16, the least value `m`; a value is `d * q + m`.
    Q4_1,
    /// Blocks of an f16 scale `d` and 32 signed bytes `q`; a value is `d * q`.
    Q8_0,
}

impl Dtype {
    /// Values of one block: a row holds whole blocks.
    pub fn block(self) -> usize {
        match self {
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => 1,
            Dtype::Q4_0 | Dtype::Q4_1 | Dtype::Q8_0 => BLOCK,
        }
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::Q4_0 => 2 + BLOCK / 2,
            Dtype::Q4_1 => 4 + BLOCK / 2,
            Dtype::Q8_0 => 2 + BLOCK,
        }
    }

    /// Bytes of a row of `cols` values; none where these are no whole blocks, or too many.
    pub fn row_bytes(self, cols: usize) -> Option<usize> {
        cols.is_multiple_of(self.block()).then(|| (cols / self.block()).checked_mul(self.block_bytes()))?
    }

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::Q4_0 => "q4_0",
            Dtype::Q4_1 => "q4_1",
            Dtype::Q8_0 => "q8_0",
        }
    }
}

/// A piece of bytes that many may hold: of a mapped file, or of a vector.
#[derive(Clone)]
pub struct SharedBytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    start: usize,
    len: usize,
}

impl SharedBytes {
    /// All bytes of an owner.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let len = (*owner).as_ref().len();
        Self { owner, start: 0, len }
    }

    /// A piece of these; none where it would reach over the end.
    pub fn piece(&self, start: usize, len: usize) -> Option<Self> {
        let end = start.checked_add(len)?;
        (end <= self.len).then(|| Self { owner: Arc::clone(&self.owner), start: self.start + start, len })
    }
}

impl std::ops::Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.start..self.start + self.len]
    }
}

impl std::fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// A weight matrix `[rows, cols]`, row-major: `rows` outputs of `cols` inputs each, as in `y = x Wᵀ`.
#[derive(Clone, Debug)]
pub struct Stored {
    dtype: Dtype,
    rows: usize,
    cols: usize,
    bytes: SharedBytes,
}

/// Bytes that do not have the shape that they are said to have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    /// Rows of a quantised kind that are no whole blocks.
    #[error("expected rows of whole blocks of {block} values for {dtype}, got rows of {cols}; use another kind of number", dtype = dtype.name(), block = dtype.block())]
    Blocks {
        /// The kind of number.
        dtype: Dtype,
        /// Values of a row.
        cols: usize,
    },
    /// Too few or too many bytes.
    #[error("expected {expected} bytes for [{rows}, {cols}] of {dtype}, got {got}; the file is damaged or cut", dtype = dtype.name())]
    Bytes {
        /// The kind of number.
        dtype: Dtype,
        /// Rows.
        rows: usize,
        /// Values of a row.
        cols: usize,
        /// Bytes of such a matrix, in words where they cannot be counted.
        expected: String,
        /// Bytes given.
        got: usize,
    },
}

impl Stored {
    /// Takes bytes as a matrix.
    ///
    /// # Errors
    /// Bytes that are not exactly those of such a matrix.
    pub fn new(dtype: Dtype, rows: usize, cols: usize, bytes: SharedBytes) -> Result<Self, StoredError> {
        if !cols.is_multiple_of(dtype.block()) {
            return Err(StoredError::Blocks { dtype, cols });
        }
        let expected = dtype.row_bytes(cols).and_then(|row| row.checked_mul(rows));
        if expected != Some(bytes.len()) {
            let expected = expected.map_or_else(|| "more than can be counted".to_owned(), |bytes| bytes.to_string());
            return Err(StoredError::Bytes { dtype, rows, cols, expected, got: bytes.len() });
        }
        Ok(Self { dtype, rows, cols, bytes })
    }

    /// A matrix of `f32` that is owned.
    ///
    /// # Errors
    /// As [`Stored::new`].
    pub fn from_f32(rows: usize, cols: usize, values: &[f32]) -> Result<Self, StoredError> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(Dtype::F32, rows, cols, SharedBytes::new(Arc::new(bytes)))
    }

    /// How its numbers are written.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All values as `f32`, rounded nowhere but where its kind is.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.rows * self.cols];
        unpack(Level::detect(), self.dtype, &self.bytes, &mut values);
        values
    }

    /// Some columns of all rows, copied; whole blocks, where numbers are stored in blocks.
    pub fn col_range(&self, cols: std::ops::Range<usize>) -> Option<Self> {
        let row = self.dtype.row_bytes(self.cols)?;
        let is_whole = |at: usize| at.is_multiple_of(self.dtype.block());
        if cols.start > cols.end || cols.end > self.cols || !is_whole(cols.start) || !is_whole(cols.end) {
            return None;
        }
        let (start, end) = (self.dtype.row_bytes(cols.start)?, self.dtype.row_bytes(cols.end)?);
        let rows = self.bytes.chunks_exact(row.max(1)).take(self.rows);
        let bytes: Vec<u8> = rows.flat_map(|row| &row[start..end]).copied().collect();
        let bytes = SharedBytes::new(Arc::new(bytes));
        Some(Self { dtype: self.dtype, rows: self.rows, cols: cols.len(), bytes })
    }

    /// The bytes of some rows, shared.
    pub fn row_range(&self, rows: std::ops::Range<usize>) -> Option<Self> {
        let row = self.dtype.row_bytes(self.cols)?;
        let bytes = self.bytes.piece(rows.start.checked_mul(row)?, rows.len().checked_mul(row)?)?;
        Some(Self { dtype: self.dtype, rows: rows.len(), cols: self.cols, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_must_be_those_of_the_shape() {
        let bytes = |len: usize| SharedBytes::new(Arc::new(vec![0_u8; len]));
        assert!(Stored::new(Dtype::Q4_1, 3, 64, bytes(3 * 2 * 20)).is_ok());
        let error = Stored::new(Dtype::Q4_1, 3, 64, bytes(119)).unwrap_err().to_string();
        assert!(error.contains("expected 120 bytes for [3, 64] of q4_1, got 119"), "{error}");
        assert_eq!(
            Stored::new(Dtype::Q8_0, 1, 33, bytes(34)).unwrap_err(),
            StoredError::Blocks { dtype: Dtype::Q8_0, cols: 33 }
        );
        assert!(Stored::new(Dtype::F32, usize::MAX, 4, bytes(16)).is_err());
    }

    #[test]
    fn rows_are_shared_and_stay_inside() {
        let stored = Stored::from_f32(3, 2, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let middle = stored.row_range(1..2).unwrap();
        assert_eq!(middle.bytes(), [2.0_f32.to_le_bytes(), 3.0_f32.to_le_bytes()].concat());
        assert!(stored.row_range(2..4).is_none());
        let right = stored.col_range(1..2).unwrap();
        assert_eq!((right.rows(), right.cols(), right.to_f32()), (3, 1, vec![1.0, 3.0, 5.0]));
        assert!(stored.col_range(1..3).is_none());
        let blocks = Stored::new(Dtype::Q8_0, 1, 64, SharedBytes::new(Arc::new(vec![0_u8; 68]))).unwrap();
        assert!(blocks.col_range(32..64).is_some() && blocks.col_range(16..64).is_none());
    }
}
