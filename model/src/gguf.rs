//! The header of a GGUF file, versions 2 and 3: metadata, and where each tensor lies. Counts and lengths are compared with
//! the bytes that are left before anything is allocated by them, so a file of n bytes costs a small multiple of n.
//!
//! It refuses to know what the metadata means and what is computed on the tensors.

mod cursor;
mod kinds;
mod value;

#[cfg(test)]
pub(crate) mod tests;

use crate::error::ModelError;
use cursor::Cursor;
pub use kinds::TensorKind;
pub(crate) use kinds::unpack;
use legwork_kernels::{MappedBytes, SharedBytes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub use value::Value;

/// Entries of the metadata at most.
const METADATA_MAX: u64 = 1 << 16;
/// Tensors at most.
const TENSORS_MAX: u64 = 1 << 18;
/// Bytes of a key at most, as the format has it.
const KEY_MAX_BYTES: u64 = (1 << 16) - 1;
/// Bytes of a tensor's name at most; ggml itself holds 64.
const NAME_MAX_BYTES: u64 = 256;
/// Dimensions of a tensor at most, as ggml has it.
const DIMENSIONS_MAX: u32 = 4;
/// Bytes that tensors are aligned to where the metadata does not say.
const ALIGNMENT_DEFAULT: u64 = 32;
/// Bytes that tensors are aligned to at most.
const ALIGNMENT_MAX: u64 = 1 << 16;
/// What to do about a file that is damaged.
const ANEW: &str = "fetch the file anew";

/// One tensor of a file.
#[derive(Clone, Debug)]
pub struct GgufTensor {
    /// Its name in the file.
    pub name: String,
    /// Rows first: the reverse of the order in the file.
    pub shape: Vec<usize>,
    /// How its numbers are written.
    pub kind: TensorKind,
    /// Its bytes, of the mapped file.
    pub bytes: SharedBytes,
}

/// A GGUF file that is mapped.
#[derive(Clone, Debug)]
pub struct Gguf {
    path: PathBuf,
    metadata: BTreeMap<String, Value>,
    tensors: Vec<GgufTensor>,
    by_name: BTreeMap<String, usize>,
}

/// A tensor as the header has it, its place not yet checked.
struct Claimed {
    name: String,
    shape: Vec<usize>,
    kind: TensorKind,
    offset: u64,
    bytes: u64,
}

impl Gguf {
    /// Maps a file and reads its header.
    ///
    /// # Errors
    /// A file that cannot be read, is cut or damaged, or has a tensor of a kind that is not read.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let mapped = MappedBytes::open(path)
            .map_err(|error| ModelError::File { path: path.to_path_buf(), detail: error.to_string() })?;
        Self::from_bytes(path, SharedBytes::new(Arc::new(mapped)))
    }

    /// As [`Gguf::open`], of bytes that are there already; `path` is named in messages only.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn from_bytes(path: &Path, bytes: SharedBytes) -> Result<Self, ModelError> {
        let damaged =
            |detail: String| ModelError::File { path: path.to_path_buf(), detail: format!("{detail}; {ANEW}") };
        let mut cursor = Cursor::new(&bytes);
        let (tensors, entries) = counts(&mut cursor).map_err(damaged)?;
        let metadata = metadata(&mut cursor, entries).map_err(damaged)?;
        let claimed = claims(&mut cursor, tensors, path)?;
        let alignment = alignment(&metadata).map_err(damaged)?;
        let data = cursor.position().next_multiple_of(alignment);
        let tensors = place(claimed, &bytes, data, alignment).map_err(damaged)?;
        let by_name = tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.clone(), index)).collect();
        Ok(Self { path: path.to_path_buf(), metadata, tensors, by_name })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All tensors, in the order of the header.
    pub fn tensors(&self) -> &[GgufTensor] {
        &self.tensors
    }

    /// A tensor by its name in the file.
    pub fn tensor(&self, name: &str) -> Option<&GgufTensor> {
        self.by_name.get(name).map(|index| &self.tensors[*index])
    }

    /// The keys of the metadata, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(String::as_str)
    }

    /// A value of the metadata.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// A text of the metadata, where there is one.
    ///
    /// # Errors
    /// A value of another kind.
    pub fn text(&self, key: &str) -> Result<Option<&str>, ModelError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let text = value.as_str();
        text.map(Some).ok_or_else(|| self.wrong(key, "a text".to_owned(), value.shown(), ANEW))
    }

    /// The numbers of a small tensor of f32, where there is one.
    pub(crate) fn floats(&self, name: &str) -> Result<Option<Vec<f32>>, ModelError> {
        let Some(tensor) = self.tensor(name) else { return Ok(None) };
        if tensor.kind != TensorKind::F32 {
            return Err(ModelError::TensorKind {
                path: self.path.clone(),
                name: name.to_owned(),
                expected: "f32",
                got: tensor.kind.name().to_owned(),
            });
        }
        let (numbers, _) = tensor.bytes.as_chunks::<4>();
        Ok(Some(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
    }

    pub(crate) fn wrong(&self, field: &str, expected: String, got: String, cure: &'static str) -> ModelError {
        ModelError::Field { path: self.path.clone(), field: field.to_owned(), expected, got, cure }
    }
}

/// Tensors and entries of the metadata.
fn counts(cursor: &mut Cursor<'_>) -> Result<(u64, u64), String> {
    let magic = cursor.take(4).map_err(|_| "expected a GGUF file, got fewer than four bytes".to_owned())?;
    if magic != b"GGUF" {
        return Err(format!("expected a file that begins with GGUF, got {:?}", String::from_utf8_lossy(magic)));
    }
    match cursor.u32()? {
        2 | 3 => {}
        version if matches!(version.swap_bytes(), 1..=3) => {
            return Err("expected a little-endian GGUF file, got a big-endian one".to_owned());
        }
        version => return Err(format!("expected GGUF version 2 or 3, got {version}")),
    }
    let (tensors, entries) = (cursor.u64()?, cursor.u64()?);
    if tensors > TENSORS_MAX {
        return Err(format!("expected at most {TENSORS_MAX} tensors, got {tensors}"));
    }
    if entries > METADATA_MAX {
        return Err(format!("expected at most {METADATA_MAX} entries of metadata, got {entries}"));
    }
    Ok((tensors, entries))
}

fn metadata(cursor: &mut Cursor<'_>, entries: u64) -> Result<BTreeMap<String, Value>, String> {
    let mut metadata = BTreeMap::new();
    for _ in 0..entries {
        let key = cursor.text(KEY_MAX_BYTES)?.to_owned();
        let value = Value::read(cursor).map_err(|detail| format!("in the metadata `{key}`: {detail}"))?;
        if let Some(_first) = metadata.insert(key.clone(), value) {
            return Err(format!("expected each key of the metadata once, got `{key}` twice"));
        }
    }
    Ok(metadata)
}

fn claims(cursor: &mut Cursor<'_>, tensors: u64, path: &Path) -> Result<Vec<Claimed>, ModelError> {
    let damaged = |detail: String| ModelError::File { path: path.to_path_buf(), detail: format!("{detail}; {ANEW}") };
    let mut claimed = Vec::new();
    for _ in 0..tensors {
        let name = cursor.text(NAME_MAX_BYTES).map_err(damaged)?.to_owned();
        let within = |detail: String| damaged(format!("in the tensor `{name}`: {detail}"));
        let dimensions = cursor.u32().map_err(within)?;
        if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
            return Err(within(format!("expected 1 to {DIMENSIONS_MAX} dimensions, got {dimensions}")));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let size = cursor.u64().map_err(within)?;
            let size = usize::try_from(size).ok().filter(|size| *size > 0);
            shape.push(size.ok_or_else(|| within("expected dimensions above 0 that can be counted".to_owned()))?);
        }
        let code = cursor.u32().map_err(within)?;
        let kind = TensorKind::of_code(code).map_err(|got| ModelError::TensorKind {
            path: path.to_path_buf(),
            name: name.clone(),
            expected: kinds::KINDS_READ,
            got,
        })?;
        let offset = cursor.u64().map_err(within)?;
        let bytes = kind.bytes_of(&shape).map_err(within)?;
        shape.reverse();
        claimed.push(Claimed { name, shape, kind, offset, bytes });
    }
    Ok(claimed)
}

fn alignment(metadata: &BTreeMap<String, Value>) -> Result<u64, String> {
    let Some(value) = metadata.get("general.alignment") else { return Ok(ALIGNMENT_DEFAULT) };
    let alignment = value.as_u64().filter(|bytes| bytes.is_power_of_two() && (8..=ALIGNMENT_MAX).contains(bytes));
    let expected = || format!("a power of two from 8 to {ALIGNMENT_MAX}");
    alignment.ok_or_else(|| format!("expected {} for `general.alignment`, got {}", expected(), value.shown()))
}

/// Checks that every tensor lies inside the file and none over another.
fn place(claimed: Vec<Claimed>, bytes: &SharedBytes, data: u64, alignment: u64) -> Result<Vec<GgufTensor>, String> {
    let length = bytes.len() as u64;
    let mut spans = Vec::with_capacity(claimed.len());
    let mut tensors = Vec::with_capacity(claimed.len());
    for Claimed { name, shape, kind, offset, bytes: size } in claimed {
        if !offset.is_multiple_of(alignment) {
            return Err(format!("expected the tensor `{name}` at a multiple of {alignment} bytes, got {offset}"));
        }
        let start = data.checked_add(offset);
        let end = start.and_then(|start| start.checked_add(size));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= length)) else {
            return Err(format!(
                "expected the {size} bytes of the tensor `{name}` inside the file of {length} bytes, got them at {offset} of \
                 its data; the file is cut"
            ));
        };
        let inside = "the end was compared with the file's length, which is a usize";
        let piece = bytes.piece(usize::try_from(start).expect(inside), usize::try_from(size).expect(inside));
        spans.push((start, end, tensors.len()));
        tensors.push(GgufTensor { name, shape, kind, bytes: piece.expect(inside) });
    }
    spans.sort_unstable();
    let over = spans.windows(2).find(|pair| pair[0].1 > pair[1].0);
    if let Some([(.., first), (.., second)]) = over.and_then(|pair| pair.first_chunk::<2>()) {
        let (first, second) = (&tensors[*first].name, &tensors[*second].name);
        return Err(format!("expected tensors beside one another, got `{first}` and `{second}` on the same bytes"));
    }
    let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("expected each tensor once, got `{}` twice", pair[0]));
    }
    Ok(tensors)
}
