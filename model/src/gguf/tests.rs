use super::*;
use proptest::prelude::*;

/// Writes GGUF files, whole and hostile ones.
#[derive(Clone, Default)]
pub(crate) struct Writer {
    pub(crate) version: Option<u32>,
    metadata: Vec<Vec<u8>>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
    /// Offsets that are not where the values stand.
    pub(crate) offsets: BTreeMap<usize, u64>,
}

fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value.as_bytes()].concat()
}

impl Writer {
    fn entry(mut self, key: &str, code: u32, value: &[u8]) -> Self {
        self.metadata.push([&text(key)[..], &code.to_le_bytes(), value].concat());
        self
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.entry(key, 4, &value.to_le_bytes())
    }

    pub(crate) fn f32(self, key: &str, value: f32) -> Self {
        self.entry(key, 6, &value.to_le_bytes())
    }

    pub(crate) fn text(self, key: &str, value: &str) -> Self {
        self.entry(key, 8, &text(value))
    }

    pub(crate) fn texts(self, key: &str, values: &[&str]) -> Self {
        let items: Vec<u8> = values.iter().flat_map(|value| text(value)).collect();
        self.list(key, 8, values.len() as u64, &items)
    }

    pub(crate) fn list(self, key: &str, code: u32, count: u64, items: &[u8]) -> Self {
        self.entry(key, 9, &[&code.to_le_bytes()[..], &count.to_le_bytes(), items].concat())
    }

    /// A tensor, its shape rows first.
    pub(crate) fn tensor(mut self, name: &str, shape: &[u64], code: u32, bytes: &[u8]) -> Self {
        let innermost_first = shape.iter().rev().copied().collect();
        self.tensors.push((name.to_owned(), innermost_first, code, bytes.to_vec()));
        self
    }

    pub(crate) fn floats(self, name: &str, shape: &[u64], values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, shape, 0, &bytes)
    }

    /// The file, and the length of its header.
    pub(crate) fn bytes(&self) -> (Vec<u8>, usize) {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.unwrap_or(3).to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        out.extend(self.metadata.concat());
        let mut offset = 0_u64;
        for (index, (name, shape, code, bytes)) in self.tensors.iter().enumerate() {
            out.extend(text(name));
            out.extend((shape.len() as u32).to_le_bytes());
            out.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
            out.extend(code.to_le_bytes());
            out.extend(self.offsets.get(&index).copied().unwrap_or(offset).to_le_bytes());
            offset = (offset + bytes.len() as u64).next_multiple_of(ALIGNMENT_DEFAULT);
        }
        let header = out.len();
        for (.., bytes) in &self.tensors {
            out.resize(out.len().next_multiple_of(ALIGNMENT_DEFAULT as usize), 0);
            out.extend(bytes);
        }
        (out, header)
    }

    pub(crate) fn gguf(&self) -> Result<Gguf, ModelError> {
        read(self.bytes().0)
    }
}

fn read(bytes: Vec<u8>) -> Result<Gguf, ModelError> {
    Gguf::from_bytes(Path::new("a.gguf"), SharedBytes::new(Arc::new(bytes)))
}

fn whole() -> Writer {
    Writer::default()
        .text("general.architecture", "llama")
        .u32("a.number", 7)
        .f32("a.float", 0.5)
        .texts("a.list", &["x", "y z"])
        .floats("norm", &[3], &[1.0, 2.0, 3.0])
        .tensor("half", &[2, 2], 1, &[0; 8])
        .tensor("packed", &[2, 32], 2, &[1; 36])
}

#[track_caller]
fn refused(writer: &Writer, words: &str) {
    let error = writer.gguf().unwrap_err().to_string();
    assert!(error.contains(words), "expected {words:?} in {error:?}");
}

#[test]
fn what_was_written_is_read_with_rows_first() {
    let gguf = whole().gguf().unwrap();
    assert_eq!(gguf.text("general.architecture").unwrap(), Some("llama"));
    assert_eq!(gguf.value("a.number"), Some(&Value::Unsigned(7)));
    assert_eq!(gguf.value("a.float").and_then(Value::as_f64), Some(0.5));
    let list = gguf.value("a.list").and_then(Value::as_list).unwrap();
    assert_eq!(list, [Value::Text("x".to_owned()), Value::Text("y z".to_owned())]);
    assert_eq!(gguf.floats("norm").unwrap().unwrap(), [1.0, 2.0, 3.0]);
    let packed = gguf.tensor("packed").unwrap();
    assert_eq!(
        (packed.shape.as_slice(), packed.kind, &packed.bytes[..]),
        (&[2, 32][..], TensorKind::Q4_0, &[1; 36][..])
    );
    let second = Writer { version: Some(2), ..whole() };
    assert_eq!(second.gguf().unwrap().tensors().len(), 3, "versions 2 and 3 are laid out alike");
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    let (bytes, header) = whole().bytes();
    for end in (0..=header).chain([bytes.len() - 1]) {
        let error = read(bytes[..end].to_vec()).unwrap_err().to_string();
        assert!(error.contains("a.gguf") && error.contains("expected"), "cut at {end}: {error}");
    }
}

#[test]
fn lengths_that_a_header_only_claims_are_compared_with_the_file_first() {
    let huge = 1_u64 << 60;
    refused(&Writer::default().list("a", 10, huge, &[]), "in the metadata `a`: expected a list of at most");
    refused(&Writer::default().list("a", 8, 1 << 22, &[]), "33554432 bytes or more, got the end of the file after 0");
    refused(&Writer::default().entry("a", 8, &huge.to_le_bytes()), "expected a text of at most");
    refused(&Writer::default().tensor("t", &[huge, 1 << 40], 0, &[]), "expected a shape that can be counted");
    refused(&Writer::default().tensor("t", &[huge], 2, &[]), "inside the file");
    let (mut bytes, _) = whole().bytes();
    bytes[8..16].copy_from_slice(&huge.to_le_bytes());
    assert!(read(bytes.clone()).unwrap_err().to_string().contains("expected at most 262144 tensors"));
    bytes[8..16].copy_from_slice(&3_u64.to_le_bytes());
    bytes[16..24].copy_from_slice(&huge.to_le_bytes());
    assert!(read(bytes).unwrap_err().to_string().contains("entries of metadata"));
}

#[test]
fn tensors_lie_inside_the_file_beside_one_another_and_once() {
    let offset = |at: u64| Writer { offsets: BTreeMap::from([(2, at)]), ..whole() };
    refused(&offset(1 << 40), "the tensor `packed` inside the file");
    refused(&offset(u64::MAX - 31), "the tensor `packed` inside the file");
    refused(&offset(33), "`packed` at a multiple of 32 bytes, got 33");
    refused(&offset(32), "got `half` and `packed` on the same bytes");
    refused(&whole().tensor("half", &[2, 2], 1, &[0; 8]), "expected each tensor once, got `half` twice");
    refused(&whole().u32("a.number", 8), "got `a.number` twice");
}

#[test]
fn shapes_and_kinds_that_are_not_read_are_named() {
    refused(&Writer::default().tensor("t", &[], 0, &[]), "`t`: expected 1 to 4 dimensions, got 0");
    refused(&Writer::default().tensor("t", &[1; 5], 0, &[0; 4]), "expected 1 to 4 dimensions, got 5");
    refused(&Writer::default().tensor("t", &[2, 0], 0, &[]), "expected dimensions above 0");
    refused(&Writer::default().tensor("t", &[1, 33], 8, &[0; 34]), "whole blocks of 32 values, got rows of 33");
    refused(&Writer::default().tensor("t", &[1, 256], 23, &[0; 136]), "for the tensor `t`, got iq4_xs");
    refused(&Writer::default().tensor("t", &[1, 4], 99, &[0; 4]), "got the unknown kind 99");
}

#[test]
fn other_formats_and_versions_are_named() {
    for (at, bytes, words) in [
        (0, *b"GGML", "begins with GGUF"),
        (4, 1_u32.to_le_bytes(), "version 2 or 3, got 1"),
        (4, 3_u32.to_be_bytes(), "a big-endian one"),
    ] {
        let mut whole = whole().bytes().0;
        whole[at..at + 4].copy_from_slice(&bytes);
        let error = read(whole).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    refused(&whole().u32("general.alignment", 12), "a power of two from 8 to 65536");
    refused(&Writer::default().entry("a", 7, &[2]), "expected 0 or 1 for true or false, got 2");
    refused(&Writer::default().entry("a", 13, &[2]), "expected a kind of value from 0 to 12, got 13");
}

#[test]
fn lists_within_lists_end_somewhere() {
    let nested = |depth: usize| {
        let mut items = 5_u32.to_le_bytes().to_vec();
        let (mut code, mut count) = (5_u32, 1_u64);
        for _ in 1..depth {
            items = [&code.to_le_bytes()[..], &count.to_le_bytes(), &items].concat();
            (code, count) = (9, 1);
        }
        Writer::default().list("a", code, count, &items)
    };
    assert!(nested(4).gguf().is_ok());
    refused(&nested(5), "at most 4 lists within one another");
    refused(&nested(500), "at most 4 lists within one another");
}

#[test]
fn packed_kinds_become_the_numbers_that_the_reference_unpacks() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../../goldens/packed_kinds.json")).unwrap();
    let kinds = [5_u32, 6, 7, 10, 11, 12, 13, 14].into_iter().filter_map(|code| TensorKind::of_code(code).ok());
    let mut seen = 0;
    for kind in kinds {
        let found = &golden[kind.name()];
        let bytes: Vec<u8> = found["bytes"].as_str().unwrap().as_bytes().chunks(2).map(hex).collect();
        let values: Vec<f32> = found["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
        let shared = SharedBytes::new(Arc::new(bytes));
        let unpacked = unpack(kind, [1, values.len()], &shared, legwork_kernels::Dtype::F32).ok().unwrap();
        let (numbers, _) = unpacked.as_chunks::<4>();
        for (at, (number, value)) in numbers.iter().zip(&values).enumerate() {
            let number = f32::from_le_bytes(*number);
            assert!(
                (number - value).abs() <= 1e-6 * value.abs().max(1e-3),
                "{}: {number} and {value} at {at}",
                kind.name()
            );
        }
        assert_eq!(numbers.len(), values.len());
        seen += 1;
    }
    assert_eq!(seen, 7);
}

fn hex(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
}

proptest! {
    #[test]
    fn the_reader_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = whole().bytes().0;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() * 4).max(1));
        if let Ok(gguf) = read(bytes) {
            let _ = crate::DecoderConfig::from_gguf(&gguf);
            if let Ok(mut weights) = crate::Weights::of_gguf(&gguf) {
                let _ = weights.check_finite(crate::Finite::All);
                for tensor in gguf.tensors() {
                    if let [rows, cols] = tensor.shape[..] {
                        let _ = weights.take(&tensor.name, [rows, cols]);
                    }
                }
            }
        }
    }

    #[test]
    fn any_bytes_behind_the_magic_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read([&b"GGUF\x03\0\0\0"[..], &bytes].concat());
    }
}
