//! NumPy's `.npy`, versions 1 to 3: a magic word, a Python literal that tells type and shape, then the values.
//! Refused: Fortran order, big-endian numbers, and any shape but a matrix.

use super::{Complaint, Kind, Layout};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest header that is read, in bytes.
const MAX_HEADER_BYTES: usize = 64 * 1024;

pub(super) fn layout(bytes: &[u8]) -> Result<Layout, Complaint> {
    let cut_off = || ("expected a .npy header, got the end of the file".to_owned(), "write the file anew");
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(("expected a .npy file, got another kind".to_owned(), "write it with numpy.save"));
    };
    let (length, header_start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), MAGIC.len() + 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, MAGIC.len() + 6),
        [version, _, ..] => {
            return Err((format!("expected .npy version 1 to 3, got {version}"), "write it with numpy.save"));
        }
        _ => return Err(cut_off()),
    };
    if length > MAX_HEADER_BYTES {
        return Err((
            format!("expected a header of at most {MAX_HEADER_BYTES} bytes, got {length}"),
            "write the file anew",
        ));
    }
    let header = bytes.get(header_start..header_start + length).ok_or_else(cut_off)?;
    let header = std::str::from_utf8(header).map_err(|_| cut_off())?;
    let (kind, rows, dim) = described(header)?;
    Ok(Layout { kind, rows, dim, start: header_start + length })
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
fn described(header: &str) -> Result<(Kind, usize, usize), Complaint> {
    let value = |key: &str| {
        let (_, after) = header.split_once(&format!("'{key}'"))?;
        Some(after.trim_start().strip_prefix(':')?.trim_start())
    };
    let quoted = |text: &str| Some(text.strip_prefix('\'')?.split_once('\'')?.0.to_owned());
    let malformed =
        |key: &str| (format!("expected {key:?} in the header, got {header:?}"), "write the file with numpy.save");
    let descr = value("descr").and_then(quoted).ok_or_else(|| malformed("descr"))?;
    let kind = match descr.as_str() {
        "<f2" => Kind::F16,
        "<f4" => Kind::F32,
        "<f8" => Kind::F64,
        _ => return Err((format!("expected type <f4, <f2 or <f8, got {descr:?}"), "convert with astype('<f4')")),
    };
    let order = value("fortran_order").ok_or_else(|| malformed("fortran_order"))?;
    if !order.starts_with("False") {
        return Err((
            "expected rows one after the other, got Fortran order".to_owned(),
            "convert with ascontiguousarray",
        ));
    }
    let shape = value("shape")
        .and_then(|text| Some(text.strip_prefix('(')?.split_once(')')?.0))
        .ok_or_else(|| malformed("shape"))?;
    let sizes: Result<Vec<usize>, _> =
        shape.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::parse).collect();
    match sizes.as_deref() {
        Ok(&[rows, dim]) => Ok((kind, rows, dim)),
        _ => Err((format!("expected a matrix of rows and values, got shape ({shape})"), "reshape the array")),
    }
}
