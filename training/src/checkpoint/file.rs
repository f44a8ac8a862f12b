//! A rank's file, in the form of safetensors: written and read one tensor at a time, so that memory holds one and not a model.
//! The crate `safetensors` wants all tensors at once to write, and all bytes at once to read; a test reads these files with it.
//! It refuses to know what a tensor is for.

use super::{broken, io};
use crate::error::TrainingError;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes of a header at most; a model of 1,024 layers needs about 10 MB.
const HEADER_MAX_BYTES: u64 = 64 << 20;
/// The header's length is padded to this, so that values are aligned.
const ALIGNMENT: usize = 8;
/// Values that are turned into bytes at once.
const CHUNK_VALUES: usize = 1 << 14;
/// Bytes of a value.
const VALUE_BYTES: u64 = 4;

/// Writes a rank's file: a header that says all of its tensors, then their values in the same order.
pub(crate) struct RankWriter {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: Vec<u8>,
    left: u64,
}

impl RankWriter {
    /// Begins a file of tensors of these names and shapes.
    ///
    /// # Errors
    /// A file that cannot be made.
    pub(crate) fn create<'a>(
        path: &Path,
        tensors: impl Iterator<Item = (&'a str, [usize; 2])>,
    ) -> Result<Self, TrainingError> {
        let mut header = Map::new();
        let mut end = 0_u64;
        for (name, shape) in tensors {
            let begin = end;
            end += shape.iter().product::<usize>() as u64 * VALUE_BYTES;
            header.insert(name.to_owned(), json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, end] }));
        }
        let mut header = Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
        let mut out = BufWriter::new(File::create(path).map_err(io("write", path))?);
        let head = out.write_all(&(header.len() as u64).to_le_bytes()).and_then(|()| out.write_all(&header));
        head.map_err(io("write", path))?;
        Ok(Self { path: path.to_path_buf(), out, bytes: Vec::new(), left: end })
    }

    /// Writes the values of the next tensor.
    ///
    /// # Errors
    /// A disk that is full, or more values than the header has room for.
    pub(crate) fn push(&mut self, values: &[f32]) -> Result<(), TrainingError> {
        let Some(left) = self.left.checked_sub(values.len() as u64 * VALUE_BYTES) else {
            let problem = format!("expected at most {} bytes more, got {} values", self.left, values.len());
            return Err(broken(&self.path, format!("{problem}; this is a fault of the writer")));
        };
        for chunk in values.chunks(CHUNK_VALUES) {
            self.bytes.clear();
            self.bytes.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
            self.out.write_all(&self.bytes).map_err(io("write", &self.path))?;
        }
        self.left = left;
        Ok(())
    }

    /// Has the file on disk.
    ///
    /// # Errors
    /// A disk that is full, or values that are missing.
    pub(crate) fn finish(self) -> Result<(), TrainingError> {
        let Self { path, out, left, .. } = self;
        if left > 0 {
            return Err(broken(&path, format!("expected {left} bytes more; this is a fault of the writer")));
        }
        let whole = out.into_inner().map_err(std::io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        whole.map_err(io("write", &path))
    }
}

/// One tensor of a header.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// A rank's file whose header was read and checked: tensors lie in it one behind the other, from the header to its end.
pub(crate) struct RankFile {
    path: PathBuf,
    file: BufReader<File>,
    data: u64,
    tensors: BTreeMap<String, (Vec<u64>, u64)>,
}

impl RankFile {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that is torn or no such file.
    pub(crate) fn open(path: &Path) -> Result<Self, TrainingError> {
        let failed = || io("read", path);
        let wrong = |problem: String| broken(path, format!("{problem}; use an older checkpoint"));
        let file = File::open(path).map_err(failed())?;
        let size = file.metadata().map_err(failed())?.len();
        let mut file = BufReader::new(file);
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(failed())?;
        let length = u64::from_le_bytes(length);
        let room = size.saturating_sub(8);
        if length > room.min(HEADER_MAX_BYTES) {
            let most = room.min(HEADER_MAX_BYTES);
            return Err(wrong(format!("expected a header of at most {most} bytes, got one of {length}")));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(failed())?;
        let mut entries: BTreeMap<String, Value> = serde_json::from_slice(&header)
            .map_err(|error| wrong(format!("expected a header of tensors, got {error}")))?;
        entries.remove("__metadata__");
        let tensors = tensors(entries, room - length).map_err(wrong)?;
        Ok(Self { path: path.to_path_buf(), file, data: 8 + length, tensors })
    }

    /// Reads a tensor of this shape.
    ///
    /// # Errors
    /// A tensor that is not there or has another shape, or a file that cannot be read.
    pub(crate) fn tensor(&mut self, name: &str, shape: [usize; 2]) -> Result<Vec<f32>, TrainingError> {
        let expected = shape.map(|size| size as u64);
        let begin = match self.tensors.get(name) {
            Some((got, begin)) if *got == expected => *begin,
            other => {
                let got = other.map_or("none of that name".to_owned(), |(got, _)| format!("the shape {got:?}"));
                let problem =
                    format!("expected `{name}` of shape {expected:?}, got {got}; use a checkpoint of this model");
                return Err(broken(&self.path, problem));
            }
        };
        // The header's check makes sure that so many values are in the file.
        let mut left = shape[0] * shape[1];
        let mut values = Vec::with_capacity(left);
        let mut bytes = vec![0; left.min(CHUNK_VALUES) * VALUE_BYTES as usize];
        self.file.seek(SeekFrom::Start(self.data + begin)).map_err(io("read", &self.path))?;
        while left > 0 {
            let bytes = &mut bytes[..left.min(CHUNK_VALUES) * VALUE_BYTES as usize];
            self.file.read_exact(bytes).map_err(io("read", &self.path))?;
            values.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            left -= bytes.len() / VALUE_BYTES as usize;
        }
        Ok(values)
    }
}

/// Shapes and first bytes of tensors that fill so many bytes without gaps.
fn tensors(entries: BTreeMap<String, Value>, data: u64) -> Result<BTreeMap<String, (Vec<u64>, u64)>, String> {
    let mut found = BTreeMap::new();
    let mut spans = Vec::new();
    for (name, entry) in entries {
        let Entry { dtype, shape, data_offsets: [begin, end] } =
            serde_json::from_value(entry).map_err(|error| format!("expected a tensor as `{name}`, got {error}"))?;
        let bytes = shape.iter().try_fold(VALUE_BYTES, |bytes, size| bytes.checked_mul(*size));
        if dtype != "F32" || bytes.is_none() || end.checked_sub(begin) != bytes || end > data {
            let got = format!("{dtype} of shape {shape:?} at {begin} to {end} of {data}");
            return Err(format!("expected `{name}` as F32 within the file, got {got}"));
        }
        spans.push([begin, end]);
        found.insert(name, (shape, begin));
    }
    spans.sort_unstable();
    let end = spans.iter().try_fold(0, |next, [begin, end]| (*begin == next).then_some(*end));
    match end == Some(data) {
        true => Ok(found),
        false => Err(format!("expected tensors that fill {data} bytes one behind the other, got gaps or overlaps")),
    }
}
