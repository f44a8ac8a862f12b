//! Tensors of safetensors files: eight bytes of length, a JSON header, then the values without gaps; one file, or shards that
//! an index lists. The crate `safetensors` is not used here: a name that stands twice is lost in its map, and sizes near the
//! end of 64 bits overflow where it adds them up.
//!
//! It refuses to know what the tensors are for.

use super::Tensor;
use super::names::is_buffer;
use crate::error::ModelError;
use crate::folder::{is_plain_name, json_object};
use crate::gguf::TensorKind;
use legwork_kernels::{MappedBytes, SharedBytes};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a header at most; the format's own limit.
const HEADER_MAX_BYTES: u64 = 100_000_000;
/// Tensors of a file at most.
const TENSORS_MAX: usize = 1 << 18;
/// Dimensions of a tensor at most.
const DIMENSIONS_MAX: usize = 8;
/// Shards of a model at most.
const SHARDS_MAX: usize = 1 << 10;
/// What to do about a file that is damaged.
const ANEW: &str = "fetch the model anew";
/// The file of a model in one piece.
const WHOLE: &str = "model.safetensors";
/// The list of shards.
const INDEX: &str = "model.safetensors.index.json";

/// One tensor of a header.
#[derive(Deserialize)]
struct Claimed {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// A header's tensors in its order, each name once.
struct Header(Vec<(String, Claimed)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Header;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut seen = BTreeSet::new();
                let mut tensors = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    if tensors.len() == TENSORS_MAX {
                        return Err(A::Error::custom(format!("expected at most {TENSORS_MAX} tensors, got more")));
                    }
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("expected each tensor once, got `{name}` twice")));
                    }
                    let claimed = map.next_value()?;
                    tensors.push((name, claimed));
                }
                Ok(Header(tensors))
            }
        }

        deserializer.deserialize_map(Names)
    }
}

/// The files of a folder, and their tensors.
pub(super) fn open(folder: &Path) -> Result<(Vec<PathBuf>, Vec<Tensor>), ModelError> {
    let whole = folder.join(WHOLE);
    if whole.exists() {
        let found = open_file(&whole)?;
        return Ok((vec![whole], found));
    }
    let index = folder.join(INDEX);
    if !index.exists() {
        return Err(without_weights(folder));
    }
    let by_shard = read_index(&index, &json_object(&index)?)?;
    let (mut files, mut tensors) = (vec![index.clone()], Vec::new());
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (shard, names) in by_shard {
        let path = folder.join(&shard);
        if !path.exists() {
            let detail = format!("expected the shard that {INDEX} lists, got no such file; {ANEW}");
            return Err(ModelError::File { path, detail });
        }
        let found = open_file(&path)?;
        let there: BTreeSet<&str> = found.iter().map(|tensor| tensor.stored_as.as_str()).collect();
        if let Some(lost) = names.iter().find(|name| !there.contains(name.as_str()) && !is_buffer(name)) {
            let detail =
                format!("expected the tensor `{lost}` that {INDEX} says is here, got none of that name; {ANEW}");
            return Err(ModelError::File { path, detail });
        }
        for tensor in &found {
            if let Some(other) = seen.insert(tensor.stored_as.clone(), shard.clone()) {
                let detail = format!("expected each tensor once, got `{}` in {other} also; {ANEW}", tensor.stored_as);
                return Err(ModelError::File { path, detail });
            }
        }
        tensors.extend(found);
        files.push(path);
    }
    Ok((files, tensors))
}

/// A folder without safetensors: pickles are named, as they are what is mostly there instead.
fn without_weights(folder: &Path) -> ModelError {
    let names = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut pickles: Vec<String> =
        names.filter(|name| [".bin", ".pt", ".pth"].iter().any(|ending| name.ends_with(ending))).collect();
    pickles.sort();
    let detail = match pickles.first() {
        Some(pickle) => {
            format!(
                "expected {WHOLE} or {INDEX}, got {pickle}, a pickle, which can run code when it is read; convert it to \
                 safetensors"
            )
        }
        None => format!("expected {WHOLE} or {INDEX}, got neither; {ANEW}"),
    };
    ModelError::File { path: folder.to_path_buf(), detail }
}

/// The tensors of each shard.
pub(crate) fn read_index(
    path: &Path,
    index: &serde_json::Map<String, serde_json::Value>,
) -> Result<BTreeMap<String, Vec<String>>, ModelError> {
    let wrong = |detail: String| ModelError::File { path: path.to_path_buf(), detail: format!("{detail}; {ANEW}") };
    let Some(map) = index.get("weight_map").and_then(serde_json::Value::as_object) else {
        return Err(wrong("expected an object `weight_map`, got none".to_owned()));
    };
    let mut by_shard: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, shard) in map {
        let plain = shard.as_str().filter(|shard| is_plain_name(shard) && shard.ends_with(".safetensors"));
        let expected = || format!("expected the name of a .safetensors file of this folder for `{name}`, got {shard}");
        let shard = plain.ok_or_else(|| wrong(expected()))?;
        by_shard.entry(shard.to_owned()).or_default().push(name.clone());
        if by_shard.len() > SHARDS_MAX {
            return Err(wrong(format!("expected at most {SHARDS_MAX} shards, got more")));
        }
    }
    if by_shard.is_empty() { Err(wrong("expected tensors in `weight_map`, got none".to_owned())) } else { Ok(by_shard) }
}

fn open_file(path: &Path) -> Result<Vec<Tensor>, ModelError> {
    let mapped = MappedBytes::open(path)
        .map_err(|error| ModelError::File { path: path.to_path_buf(), detail: error.to_string() })?;
    read(path, &SharedBytes::new(Arc::new(mapped)))
}

/// The tensors of one file.
pub(crate) fn read(path: &Path, bytes: &SharedBytes) -> Result<Vec<Tensor>, ModelError> {
    let damaged = |detail: String| ModelError::File { path: path.to_path_buf(), detail: format!("{detail}; {ANEW}") };
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(damaged(format!("expected a length of eight bytes, got a file of {}", bytes.len())));
    };
    let length = u64::from_le_bytes(*length);
    if length > HEADER_MAX_BYTES || length > rest.len() as u64 {
        let most = HEADER_MAX_BYTES.min(rest.len() as u64);
        return Err(damaged(format!("expected a header of at most {most} bytes, got one of {length}")));
    }
    let (header, values) = rest.split_at(length as usize);
    let Header(claimed) =
        serde_json::from_slice(header).map_err(|error| damaged(format!("expected a JSON header: {error}")))?;
    let start = bytes.len() - values.len();
    let mut spans = Vec::with_capacity(claimed.len());
    let mut tensors = Vec::with_capacity(claimed.len());
    for (name, claimed) in claimed {
        let [from, to] = claimed.data_offsets;
        let within = |detail: String| damaged(format!("in the tensor `{name}`: {detail}"));
        if from > to || to > values.len() as u64 {
            let expected = format!("expected bytes within the {} of the values", values.len());
            return Err(within(format!("{expected}, got {from} to {to}; the file is cut")));
        }
        spans.push((from, to, name.clone()));
        if is_buffer(&name) {
            continue;
        }
        let kind = kind(&claimed.dtype).ok_or_else(|| ModelError::TensorKind {
            path: path.to_path_buf(),
            name: name.clone(),
            expected: "F32, F16 or BF16",
            got: format!("{:?}", claimed.dtype),
        })?;
        let shape = shape(&claimed.shape).ok_or_else(|| {
            within(format!("expected at most {DIMENSIONS_MAX} dimensions above 0, got {:?}", claimed.shape))
        })?;
        let width: u64 = if kind == TensorKind::F32 { 4 } else { 2 };
        let size = shape.iter().try_fold(width, |size, count| size.checked_mul(*count as u64));
        if size != Some(to - from) {
            let expected = format!("expected the bytes of {shape:?} {}", kind.name());
            return Err(within(format!("{expected}, got {} of them", to - from)));
        }
        let piece = bytes.piece(start + from as usize, (to - from) as usize);
        let bytes = piece.expect("its end was compared with the length of the values");
        tensors.push(Tensor { stored_as: name, shape, kind, bytes });
    }
    without_gaps(spans, values.len() as u64).map_err(damaged)?;
    Ok(tensors)
}

/// The format allows neither gaps nor overlaps: bytes that no tensor has could hide something, and those that two have are
/// a mistake.
fn without_gaps(mut spans: Vec<(u64, u64, String)>, length: u64) -> Result<(), String> {
    spans.sort();
    let mut at = 0;
    for (from, to, name) in spans {
        if from != at {
            return Err(format!(
                "expected the tensor `{name}` to begin at {at}, where the one before ends, got {from}"
            ));
        }
        at = to;
    }
    if at == length { Ok(()) } else { Err(format!("expected tensors up to the end at {length}, got them up to {at}")) }
}

fn kind(dtype: &str) -> Option<TensorKind> {
    Some(match dtype {
        "F32" => TensorKind::F32,
        "F16" => TensorKind::F16,
        "BF16" => TensorKind::Bf16,
        _ => return None,
    })
}

fn shape(claimed: &[u64]) -> Option<Vec<usize>> {
    let count = |size: &u64| usize::try_from(*size).ok().filter(|size| *size > 0);
    (claimed.len() <= DIMENSIONS_MAX).then(|| claimed.iter().map(count).collect())?
}
