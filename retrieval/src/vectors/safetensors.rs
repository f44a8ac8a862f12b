//! A matrix of a safetensors file: eight bytes of length, a JSON header, then the values.

use super::{Complaint, Kind, Layout};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Longest header that is read, in bytes; the format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

pub(super) fn layout(bytes: &[u8], wanted: Option<&str>) -> Result<Layout, Complaint> {
    const ANEW: &str = "write the file anew";
    let (length, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or(("expected a safetensors header, got the end of the file".to_owned(), ANEW))?;
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER_BYTES || length > rest.len() as u64 {
        return Err((format!("expected a header within the file, got one of {length} bytes"), ANEW));
    }
    let (header, values) = rest.split_at(length as usize);
    let header: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|e| (format!("expected a JSON header: {e}"), ANEW))?;
    let names: Vec<&str> = header.keys().map(String::as_str).filter(|name| *name != "__metadata__").collect();
    let name = match (wanted, names.as_slice()) {
        (Some(name), _) if names.contains(&name) => name,
        (None, [only]) => only,
        (wanted, _) => {
            let what =
                format!("expected {} among the tensors {names:?}", wanted.unwrap_or("one tensor, or the name of one"));
            return Err((what, "name the tensor that holds the vectors"));
        }
    };
    let tensor: Tensor = serde_json::from_value(header[name].clone())
        .map_err(|e| (format!("expected dtype, shape and data_offsets of {name:?}: {e}"), ANEW))?;
    let kind = match tensor.dtype.as_str() {
        "F16" => Kind::F16,
        "BF16" => Kind::Bf16,
        "F32" => Kind::F32,
        "F64" => Kind::F64,
        other => return Err((format!("expected F32, F16, BF16 or F64, got {other:?}"), "convert the vectors")),
    };
    let &[rows, dim] = tensor.shape.as_slice() else {
        return Err((
            format!("expected a matrix of rows and values, got shape {:?}", tensor.shape),
            "reshape the tensor",
        ));
    };
    let [start, end] = tensor.data_offsets;
    let claimed = rows.checked_mul(dim).and_then(|n| n.checked_mul(kind.bytes()));
    if start > end || end > values.len() || claimed != Some(end - start) {
        return Err((format!("expected the bytes of {name:?} to fit its shape, got {start} to {end}"), ANEW));
    }
    Ok(Layout { kind, rows, dim, start: 8 + length as usize + start })
}
