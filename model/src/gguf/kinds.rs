//! Kinds of numbers in GGUF files: those that are computed on as they are, and those that are unpacked first, with
//! candle's routines. It refuses to know files.

use crate::error::ModelError;
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Result as CandleResult};
use half::{bf16, f16};
use legwork_kernels::{Dtype, SharedBytes};
use std::borrow::Cow;
use std::sync::Arc;

/// The kinds that are read, as messages name them.
pub(super) const KINDS_READ: &str = "one of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k";
/// Values that are unpacked at once: what that needs beside the result stays below 16 MiB.
const PIECE_VALUES: usize = 1 << 20;

/// How the numbers of a tensor are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are ggml's")]
pub enum TensorKind {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

/// Kinds that are known by their number in the file and not read.
const NOT_READ: &[(u32, &str)] = &[
    (9, "q8_1"),
    (15, "q8_k"),
    (16, "iq2_xxs"),
    (17, "iq2_xs"),
    (18, "iq3_xxs"),
    (19, "iq1_s"),
    (20, "iq4_nl"),
    (21, "iq3_s"),
    (22, "iq2_s"),
    (23, "iq4_xs"),
    (24, "i8"),
    (25, "i16"),
    (26, "i32"),
    (27, "i64"),
    (28, "f64"),
    (29, "iq1_m"),
    (34, "tq1_0"),
    (35, "tq2_0"),
    (39, "mxfp4"),
];

impl TensorKind {
    /// The kind by its number in a file; what it is instead in words.
    pub(super) fn of_code(code: u32) -> Result<Self, String> {
        Ok(match code {
            0 => TensorKind::F32,
            1 => TensorKind::F16,
            2 => TensorKind::Q4_0,
            3 => TensorKind::Q4_1,
            6 => TensorKind::Q5_0,
            7 => TensorKind::Q5_1,
            8 => TensorKind::Q8_0,
            10 => TensorKind::Q2K,
            11 => TensorKind::Q3K,
            12 => TensorKind::Q4K,
            13 => TensorKind::Q5K,
            14 => TensorKind::Q6K,
            30 => TensorKind::Bf16,
            _ => {
                let name = NOT_READ.iter().find(|(number, _)| *number == code).map(|(_, name)| *name);
                return Err(name.map_or_else(|| format!("the unknown kind {code}"), str::to_owned));
            }
        })
    }

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            TensorKind::F32 => "f32",
            TensorKind::F16 => "f16",
            TensorKind::Bf16 => "bf16",
            TensorKind::Q4_0 => "q4_0",
            TensorKind::Q4_1 => "q4_1",
            TensorKind::Q5_0 => "q5_0",
            TensorKind::Q5_1 => "q5_1",
            TensorKind::Q8_0 => "q8_0",
            TensorKind::Q2K => "q2_k",
            TensorKind::Q3K => "q3_k",
            TensorKind::Q4K => "q4_k",
            TensorKind::Q5K => "q5_k",
            TensorKind::Q6K => "q6_k",
        }
    }

    /// As kernels compute on it; none for a kind that is unpacked first.
    pub fn stored(self) -> Option<Dtype> {
        Some(match self {
            TensorKind::F32 => Dtype::F32,
            TensorKind::F16 => Dtype::F16,
            TensorKind::Bf16 => Dtype::Bf16,
            TensorKind::Q4_0 => Dtype::Q4_0,
            TensorKind::Q4_1 => Dtype::Q4_1,
            TensorKind::Q8_0 => Dtype::Q8_0,
            _ => return None,
        })
    }

    /// The kind of floats.
    pub(crate) fn of_floats(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::F32 => TensorKind::F32,
            Dtype::F16 => TensorKind::F16,
            Dtype::Bf16 => TensorKind::Bf16,
            _ => return None,
        })
    }

    /// Values of a block, and its bytes.
    fn block(self) -> (usize, usize) {
        match self {
            TensorKind::F32 => (1, 4),
            TensorKind::F16 | TensorKind::Bf16 => (1, 2),
            TensorKind::Q4_0 => (32, 18),
            TensorKind::Q4_1 => (32, 20),
            TensorKind::Q5_0 => (32, 22),
            TensorKind::Q5_1 => (32, 24),
            TensorKind::Q8_0 => (32, 34),
            TensorKind::Q2K => (256, 84),
            TensorKind::Q3K => (256, 110),
            TensorKind::Q4K => (256, 144),
            TensorKind::Q5K => (256, 176),
            TensorKind::Q6K => (256, 210),
        }
    }

    fn candle(self) -> Option<GgmlDType> {
        Some(match self {
            TensorKind::Q5_0 => GgmlDType::Q5_0,
            TensorKind::Q5_1 => GgmlDType::Q5_1,
            TensorKind::Q2K => GgmlDType::Q2K,
            TensorKind::Q3K => GgmlDType::Q3K,
            TensorKind::Q4K => GgmlDType::Q4K,
            TensorKind::Q5K => GgmlDType::Q5K,
            TensorKind::Q6K => GgmlDType::Q6K,
            _ => return None,
        })
    }

    /// Bytes of a tensor, its innermost dimension first as in the file.
    pub(super) fn bytes_of(self, innermost_first: &[usize]) -> Result<u64, String> {
        let (values, bytes) = self.block();
        let row = innermost_first.first().copied().unwrap_or(0);
        if !row.is_multiple_of(values) {
            return Err(format!("expected rows of whole blocks of {values} values, got rows of {row}"));
        }
        let total = innermost_first.iter().try_fold(1_u64, |total, size| total.checked_mul(*size as u64));
        let total = total.and_then(|total| (total / values as u64).checked_mul(bytes as u64));
        total.ok_or_else(|| format!("expected a shape that can be counted, got {innermost_first:?}"))
    }
}

/// Unpacks a matrix of one of the rarer kinds into the bytes of floats that are owned.
///
/// # Errors
/// A weight that is no number in `into`; what candle says, in words.
pub(crate) fn unpack(
    kind: TensorKind,
    [rows, cols]: [usize; 2],
    bytes: &SharedBytes,
    into: Dtype,
) -> Result<SharedBytes, Unpacked> {
    let other = |detail: String| Unpacked::Failed(detail);
    let candle = kind.candle().ok_or_else(|| other(format!("{} is computed on as it is", kind.name())))?;
    let width = match into {
        Dtype::F32 => 4,
        Dtype::F16 | Dtype::Bf16 => 2,
        _ => return Err(other(format!("expected f32, f16 or bf16 to unpack into, got {}", into.name()))),
    };
    let (block, block_bytes) = kind.block();
    let blocks = PIECE_VALUES / block;
    let mut out: Vec<u8> = Vec::with_capacity(rows * cols * width);
    for piece in bytes.chunks(blocks * block_bytes) {
        let values =
            floats(candle, piece, piece.len() / block_bytes * block).map_err(|error| other(error.to_string()))?;
        let before = out.len() / width;
        match into {
            Dtype::F16 => out.extend(values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes())),
            Dtype::Bf16 => out.extend(values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes())),
            _ => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        }
        let too_large = |value: f32| into == Dtype::F16 && !f16::from_f32(value).is_finite();
        if let Some(at) = values.iter().position(|value| !value.is_finite() || too_large(*value)) {
            return Err(Unpacked::NotFinite { at: before + at, value: values[at] });
        }
    }
    Ok(SharedBytes::new(Arc::new(out)))
}

/// Why a tensor was not unpacked.
pub(crate) enum Unpacked {
    /// A weight is no number of the kind that it was unpacked into.
    NotFinite {
        /// Where.
        at: usize,
        /// As f32.
        value: f32,
    },
    /// Anything else.
    Failed(String),
}

impl Unpacked {
    pub(crate) fn error(self, path: &std::path::Path, name: &str, into: Dtype) -> ModelError {
        let path = path.to_path_buf();
        match self {
            Unpacked::NotFinite { at, value } if value.is_finite() => {
                let got = format!("{value}, which is too large for {} (unpack into bf16 or f32),", into.name());
                ModelError::NotFinite { path, name: name.to_owned(), got, at }
            }
            Unpacked::NotFinite { at, value } => {
                ModelError::NotFinite { path, name: name.to_owned(), got: value.to_string(), at }
            }
            Unpacked::Failed(detail) => ModelError::File {
                path,
                detail: format!("cannot unpack the tensor `{name}`: {detail}; convert the model"),
            },
        }
    }
}

fn floats(kind: GgmlDType, bytes: &[u8], values: usize) -> CandleResult<Vec<f32>> {
    // Candle asserts that blocks stand at even addresses, which a piece of mapped bytes need not; a fresh vector does.
    let aligned = bytes.as_ptr().align_offset(align_of::<u64>()) == 0;
    let bytes = if aligned { Cow::Borrowed(bytes) } else { Cow::Owned(bytes.to_vec()) };
    let storage = QStorage::from_data(bytes, &Device::Cpu, kind)?;
    QTensor::new(storage, values)?.dequantize(&Device::Cpu)?.to_vec1()
}
