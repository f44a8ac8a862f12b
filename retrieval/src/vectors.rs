//! Files of precomputed vectors: NumPy's `.npy` and safetensors, read row by row as `f32`.
//!
//! It refuses to know documents. A file is mapped and checked against its own header before any row is
//! read; nothing is allocated that only a header claims.

mod npy;
mod safetensors;

use crate::error::RetrievalError;
use legwork_kernels::MappedBytes;
use legwork_kernels::matrix::{MAX_DIM, MAX_ROWS};
use std::path::Path;

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    F16,
    Bf16,
    F32,
    F64,
}

/// Where the rows lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    kind: Kind,
    rows: usize,
    dim: usize,
    /// Offset of the first value.
    start: usize,
}

/// A mapped file of vectors.
#[derive(Debug)]
pub struct VectorFile {
    bytes: MappedBytes,
    layout: Layout,
}

impl VectorFile {
    /// Opens a file by its ending, `.npy` or `.safetensors`. `tensor` names one of several in the latter.
    ///
    /// # Errors
    /// Another ending, or a header that does not describe a two-dimensional matrix that the file holds.
    pub fn open(path: &Path, tensor: Option<&str>) -> Result<Self, RetrievalError> {
        let bytes = MappedBytes::open(path).map_err(RetrievalError::io("mapping", path))?;
        let layout = match path.extension().and_then(|e| e.to_str()) {
            Some("npy") => npy::layout(&bytes),
            Some("safetensors") => safetensors::layout(&bytes, tensor),
            other => {
                Err((format!("expected a file ending in .npy or .safetensors, got {other:?}"), "convert the file"))
            }
        };
        match layout.and_then(|layout| layout.checked(bytes.len())) {
            Ok(layout) => Ok(Self { bytes, layout }),
            Err((what, cure)) => Err(RetrievalError::file(path, what, cure)),
        }
    }

    /// Number of vectors.
    pub fn rows(&self) -> usize {
        self.layout.rows
    }

    /// Values of one vector.
    pub fn dim(&self) -> usize {
        self.layout.dim
    }

    /// Writes a row into `vector`, as far as that reaches.
    ///
    /// # Panics
    /// If `row` is not below [`VectorFile::rows`].
    pub fn read(&self, row: usize, vector: &mut [f32]) {
        assert!(row < self.rows(), "a row of the file");
        let Layout { kind, dim, start, .. } = self.layout;
        let width = kind.bytes();
        let bytes = &self.bytes[start + row * dim * width..start + (row + 1) * dim * width];
        for (value, bytes) in vector.iter_mut().zip(bytes.chunks_exact(width)) {
            *value = kind.decode(bytes);
        }
    }
}

/// What is wrong with a file, and the cure.
type Complaint = (String, &'static str);

impl Layout {
    /// Compares what the header says with the limits and the length of the file.
    fn checked(self, file_bytes: usize) -> Result<Self, Complaint> {
        let Layout { kind, rows, dim, start } = self;
        if dim == 0 || dim > MAX_DIM || rows > MAX_ROWS {
            let what = format!("expected up to {MAX_ROWS} rows of 1 to {MAX_DIM} values, got {rows} of {dim}");
            return Err((what, "check the shape of the vectors"));
        }
        let end = rows.checked_mul(dim).and_then(|n| n.checked_mul(kind.bytes())).and_then(|n| n.checked_add(start));
        match end {
            Some(end) if end <= file_bytes => Ok(self),
            _ => {
                let what =
                    format!("expected {rows} rows of {dim} values as the header says, got a file too short for them");
                Err((what, "the file may be cut off: write it anew"))
            }
        }
    }
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Kind::F16 | Kind::Bf16 => 2,
            Kind::F32 => 4,
            Kind::F64 => 8,
        }
    }

    /// One little-endian number; `bytes` is as long as the kind says.
    fn decode(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Kind::F16, &[a, b]) => half(u16::from_le_bytes([a, b])),
            (Kind::Bf16, &[a, b]) => f32::from_bits(u32::from(u16::from_le_bytes([a, b])) << 16),
            (Kind::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Kind::F64, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32,
            _ => f32::NAN,
        }
    }
}

/// An IEEE half as `f32`.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        // Zero and subnormals: the fraction counts in units of 2^-24.
        0 => f32::from_bits(sign | (fraction as f32 * 2.0_f32.powi(-24)).to_bits()),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests;
