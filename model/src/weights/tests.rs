use super::*;
use crate::gguf::tests::Writer;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// A safetensors file: tensors of a kind, a shape and bytes.
pub(crate) fn safetensors_file(tensors: &[(&str, &str, &[usize], &[u8])]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut values = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let from = values.len();
        values.extend_from_slice(bytes);
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [from, values.len()]});
        header.insert((*name).to_owned(), entry);
    }
    with_header(&Value::Object(header).to_string(), &values)
}

fn with_header(header: &str, values: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), values].concat()
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn read(bytes: Vec<u8>) -> Result<Vec<Tensor>, ModelError> {
    safetensors::read(Path::new("m.safetensors"), &SharedBytes::new(Arc::new(bytes)))
}

#[track_caller]
fn refused(bytes: Vec<u8>, words: &str) {
    let error = read(bytes).unwrap_err().to_string();
    assert!(error.contains(words) && error.contains("m.safetensors"), "expected {words:?} in {error:?}");
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn one_file() -> Vec<u8> {
    safetensors_file(&[
        ("model.embed_tokens.weight", "F32", &[3, 2], &f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("model.norm.weight", "BF16", &[2], &[0, 0, 0x80, 0x3f]),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", "I64", &[1], &[0; 8]),
    ])
}

#[test]
fn tensors_are_taken_by_name_and_shape_and_the_rest_is_listed() {
    let folder = folder(&[("model.safetensors", &one_file())]);
    let mut weights = Weights::open_safetensors(folder.path()).unwrap();
    assert_eq!(weights.rest(), ["model.embed_tokens.weight", "model.norm.weight"], "buffers are no weights");
    assert_eq!(weights.costs(), Costs { mapped_bytes: 28, unpacked_bytes: 0 });
    let norm = weights.take_vector("model.norm.weight", 2).unwrap();
    assert_eq!((norm.dtype(), norm.rows(), norm.cols(), norm.bytes()), (Dtype::Bf16, 1, 2, &[0, 0, 0x80, 0x3f][..]));
    assert_eq!(weights.rest(), ["model.embed_tokens.weight"]);
    let error = weights.take("model.embed_tokens.weight", [2, 3]).unwrap_err().to_string();
    assert!(
        error.contains("expected the shape [2, 3] for the tensor `model.embed_tokens.weight`, got [3, 2]"),
        "{error}"
    );
    let error = weights.take("lm_head.weight", [3, 2]).unwrap_err().to_string();
    assert!(error.contains("expected a tensor `lm_head.weight` of shape [3, 2], got none"), "{error}");
    weights.tie_head();
    assert_eq!(weights.costs().mapped_bytes, 24, "a head that is the embedding costs nothing");
    let embedding = weights.take("model.embed_tokens.weight", [3, 2]).unwrap();
    let head = weights.take("lm_head.weight", [3, 2]).unwrap();
    assert!(std::ptr::eq(embedding.bytes(), head.bytes()));
    assert!(weights.rest().is_empty());
}

#[test]
fn a_head_of_its_own_gives_way_to_the_tie() {
    let file = safetensors_file(&[
        ("lm_head.weight", "F32", &[1, 1], &f32s(&[9.0])),
        ("model.embed_tokens.weight", "F32", &[1, 1], &f32s(&[1.0])),
    ]);
    let folder = folder(&[("model.safetensors", &file)]);
    let mut weights = Weights::open_safetensors(folder.path()).unwrap();
    weights.tie_head();
    assert_eq!(weights.take("lm_head.weight", [1, 1]).unwrap().bytes(), f32s(&[1.0]));
}

#[test]
fn a_header_that_is_wrong_is_refused_by_name() {
    let offsets = |from: u64, to: u64| format!(r#"{{"w":{{"dtype":"F32","shape":[1],"data_offsets":[{from},{to}]}}}}"#);
    refused(vec![1, 2, 3], "a length of eight bytes, got a file of 3");
    refused((1_u64 << 60).to_le_bytes().to_vec(), "a header of at most 0 bytes, got one of 1152921504606846976");
    refused(with_header("{", &[]), "expected a JSON header");
    refused(with_header("[]", &[]), "expected a JSON header");
    refused(with_header(&offsets(0, 8), &[0; 4]), "within the 4 of the values, got 0 to 8; the file is cut");
    refused(with_header(&offsets(4, 0), &[0; 4]), "got 4 to 0");
    refused(with_header(&offsets(0, u64::MAX), &[0; 4]), "within the 4 of the values");
    refused(with_header(&offsets(0, 4), &[0; 6]), "tensors up to the end at 6, got them up to 4");
    refused(with_header(&offsets(2, 6), &[0; 6]), "`w` to begin at 0");
    refused(with_header(&offsets(0, 8), &[0; 8]), "expected the bytes of [1] f32, got 8 of them");
    let shaped = |shape: &str| {
        with_header(&format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":[0,4]}}}}"#), &[0; 4])
    };
    refused(shaped("[18446744073709551615,4]"), "expected the bytes of");
    refused(shaped("[0]"), "dimensions above 0");
    refused(shaped("[1,1,1,1,1,1,1,1,1]"), "at most 8 dimensions");
    let tensor = r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    refused(with_header(&format!(r#"{{"w":{tensor},"w":{tensor}}}"#), &[0; 4]), "got `w` twice");
    refused(with_header(&format!(r#"{{"v":{tensor},"w":{tensor}}}"#), &[0; 4]), "`w` to begin at 4");
    let other = safetensors_file(&[("w", "F8_E4M3", &[4], &[0; 4])]);
    refused(other, "expected F32, F16 or BF16 for the tensor `w`, got \"F8_E4M3\"");
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    let whole = one_file();
    for end in 0..whole.len() {
        assert!(read(whole[..end].to_vec()).is_err(), "cut at {end}");
    }
    assert_eq!(read(whole).unwrap().len(), 2);
}

fn index(map: &Value) -> Vec<u8> {
    json!({"metadata": {"total_size": 1}, "weight_map": map}).to_string().into_bytes()
}

#[test]
fn shards_are_one_model() {
    let first = safetensors_file(&[("model.norm.weight", "F32", &[1], &f32s(&[1.0]))]);
    let second = safetensors_file(&[("lm_head.weight", "F16", &[2, 1], &[0; 4])]);
    let map = index(&json!({"model.norm.weight": "model-00001-of-00002.safetensors",
        "lm_head.weight": "model-00002-of-00002.safetensors"}));
    let names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let whole = folder(&[(names[0], &first), (names[1], &second), ("model.safetensors.index.json", &map)]);
    let weights = Weights::open_safetensors(whole.path()).unwrap();
    assert_eq!(weights.rest(), ["lm_head.weight", "model.norm.weight"]);
    assert_eq!(weights.files().len(), 3);

    let told = |files: &[(&str, &[u8])], words: &str| {
        let folder = folder(files);
        let error = Weights::open_safetensors(folder.path()).unwrap_err().to_string();
        assert!(error.contains(words), "expected {words:?} in {error:?}");
    };
    let index_name = "model.safetensors.index.json";
    told(&[(names[0], &first), (index_name, &map)], "model-00002-of-00002.safetensors: expected the shard");
    told(&[(names[0], &first), (names[1], &first), (index_name, &map)], "expected the tensor `lm_head.weight`");
    let both = safetensors_file(&[
        ("lm_head.weight", "F32", &[1], &f32s(&[1.0])),
        ("model.norm.weight", "F32", &[1], &f32s(&[1.0])),
    ]);
    told(
        &[(names[0], &first), (names[1], &both), (index_name, &map)],
        "got `model.norm.weight` in model-00001-of-00002",
    );
    told(&[(index_name, b"{}")], "expected an object `weight_map`");
    told(&[(index_name, &index(&json!({})))], "expected tensors in `weight_map`");
}

#[test]
fn an_index_leads_nowhere_but_its_folder() {
    for shard in [
        "../a.safetensors",
        "/etc/a.safetensors",
        "a/b.safetensors",
        "..",
        "",
        "a\\b.safetensors",
        "c:a.safetensors",
        "a\0.safetensors",
        "pytorch_model.bin",
    ] {
        let folder = folder(&[("model.safetensors.index.json", &index(&json!({"w": shard})))]);
        let error = Weights::open_safetensors(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("expected the name of a .safetensors file of this folder for `w`"),
            "{shard:?}: {error}"
        );
    }
    let folder = folder(&[("model.safetensors.index.json", &index(&json!({"w": 5})))]);
    assert!(Weights::open_safetensors(folder.path()).is_err());
}

#[test]
fn pickles_are_refused_by_name() {
    let folder = folder(&[("pytorch_model.bin", b"x")]);
    let error = Weights::open_safetensors(folder.path()).unwrap_err().to_string();
    assert!(error.contains("got pytorch_model.bin, a pickle"), "{error}");
}

#[test]
fn gguf_tensors_have_the_names_of_hugging_face() {
    let gguf = Writer::default()
        .floats("token_embd.weight", &[2, 2], &[1.0, 2.0, 3.0, 4.0])
        .floats("blk.3.attn_q.weight", &[1, 2], &[1.0, 2.0])
        .floats("output_norm.weight", &[2], &[1.0, 2.0])
        .gguf()
        .unwrap();
    let mut weights = Weights::of_gguf(&gguf).unwrap();
    assert_eq!(
        weights.rest(),
        ["model.embed_tokens.weight", "model.layers.3.self_attn.q_proj.weight", "model.norm.weight"]
    );
    let error = weights.take("model.layers.3.self_attn.q_proj.weight", [2, 2]).unwrap_err().to_string();
    assert!(error.contains("q_proj.weight (blk.3.attn_q.weight)`, got [1, 2]"), "{error}");
    assert_eq!(weights.take("model.norm.weight", [1, 2]).unwrap().bytes(), f32s(&[1.0, 2.0]));
}

#[test]
fn a_packed_embedding_that_is_the_head_is_unpacked_once() {
    let block = [&half::f16::from_f32(0.5).to_le_bytes()[..], &[0xff; 20]].concat();
    let gguf = Writer::default().tensor("token_embd.weight", &[2, 32], 6, &block.repeat(2)).gguf().unwrap();
    let mut weights = Weights::of_gguf(&gguf).unwrap();
    weights.tie_head();
    assert_eq!(weights.costs(), Costs { mapped_bytes: 44, unpacked_bytes: 128 });
    let embedding = weights.take(names::EMBEDDING, [2, 32]).unwrap();
    let head = weights.take(names::HEAD, [2, 32]).unwrap();
    assert!(std::ptr::eq(embedding.bytes(), head.bytes()));
    // Nibbles of 15 and a fifth bit: 31 - 16, times a half.
    assert_eq!(embedding.dtype(), Dtype::F16);
    assert_eq!(embedding.bytes(), half::f16::from_f32(7.5).to_le_bytes().repeat(64));
}

#[test]
fn weights_that_are_no_numbers_are_found() {
    let bf16_nan = [0, 0, 0xc0, 0x7f];
    let file = safetensors_file(&[("a", "F32", &[2], &f32s(&[1.0, 2.0])), ("b", "BF16", &[1, 2], &bf16_nan)]);
    let folder = folder(&[("model.safetensors", &file)]);
    let weights = Weights::open_safetensors(folder.path()).unwrap();
    let error = weights.check_finite(Finite::Small).unwrap_err().to_string();
    assert!(error.contains("tensor `b`, got NaN at value 1"), "{error}");

    let whole = |scale: f32| [&half::f16::from_f32(scale).to_le_bytes()[..], &[3; 32]].concat();
    let bytes = [whole(1.0), whole(f32::INFINITY)].concat();
    let gguf = Writer::default().tensor("t", &[1, 64], 8, &bytes).gguf().unwrap();
    let error = Weights::of_gguf(&gguf).unwrap().check_finite(Finite::All).unwrap_err().to_string();
    assert!(error.contains("tensor `t`, got inf at value 32"), "{error}");

    let block = [&half::f16::INFINITY.to_le_bytes()[..], &[0xff; 20]].concat();
    let gguf = Writer::default().tensor("t", &[1, 32], 6, &block).gguf().unwrap();
    let error = Weights::of_gguf(&gguf).unwrap().take("t", [1, 32]).unwrap_err().to_string();
    assert!(error.contains("tensor `t`, got inf at value 0"), "{error}");
    let large = [&half::f16::from_f32(60_000.0).to_le_bytes()[..], &[0xff; 20]].concat();
    let gguf = Writer::default().tensor("t", &[1, 32], 6, &large).gguf().unwrap();
    let mut weights = Weights::of_gguf(&gguf).unwrap();
    let error = weights.take("t", [1, 32]).unwrap_err().to_string();
    assert!(error.contains("too large for f16 (unpack into bf16 or f32)"), "{error}");
    weights.unpack_into(Dtype::F32);
    assert!(weights.take("t", [1, 32]).is_ok(), "a tensor that was refused can be taken otherwise");
}

proptest! {
    #[test]
    fn the_reader_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = one_file();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() * 4));
        let _ = read(bytes);
    }

    #[test]
    fn any_header_is_read_or_refused(header in "[\\{\\}\\[\\]\":,0-9a-zF_]{0,80}", values in prop::collection::vec(any::<u8>(), 0..8)) {
        let _ = read(with_header(&header, &values));
    }
}
