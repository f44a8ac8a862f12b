//! Readers of a model's weights and of what it says of itself. Whatever is read lies inside its file and within the limits of
//! the house; everything else is refused in words.

use super::files;
use legwork_model::config_limits::{ATTENTION_WIDTH_MAX, VOCABULARY_MAX};
use legwork_model::{DecoderConfig, EncoderConfig, Finite, GenerationDefaults, Gguf, ModelError, ModelFiles, Weights};
use std::path::{Path, PathBuf};

/// A shard with one tensor `w` of one f32, for an index to name.
const SHARD: &[u8] = b"\x36\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}\0\0\x80\x3f";
/// Values of a tensor that is unpacked here at most, so that an input costs little time.
const UNPACKED_MAX: usize = 1 << 16;

/// The result, or nothing after a look at what the error says.
fn taken<T>(result: Result<T, ModelError>) -> Option<T> {
    result.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
}

/// The bytes are a GGUF file.
pub fn gguf(bytes: &[u8]) {
    let path = files::file("input.gguf", bytes);
    let Some(gguf) = taken(Gguf::open(&path)) else { return };
    let held: usize = gguf.tensors().iter().map(|tensor| tensor.bytes.len()).sum();
    assert!(held <= bytes.len(), "tensors of {held} bytes in a file of {}", bytes.len());
    if let Some(config) = taken(DecoderConfig::from_gguf(&gguf)) {
        sane(&config);
    }
    let Some(weights) = taken(Weights::of_gguf(&gguf)) else { return };
    take_all(weights);
    if let Some(model) = taken(ModelFiles::open(&path)) {
        assert!(model.decoder().is_ok());
    }
}

/// The bytes are a `model.safetensors`.
pub fn safetensors(bytes: &[u8]) {
    let path = folder("whole").join("model.safetensors");
    write(&path, bytes);
    let Some(weights) = taken(Weights::open_safetensors(&folder("whole"))) else { return };
    assert!(weights.costs().mapped_bytes <= bytes.len() as u64);
    take_all(weights);
}

/// The bytes are an index of shards; one shard is there, and a file beside the folder that no index may reach.
pub fn index(bytes: &[u8]) {
    let folder = folder("sharded");
    write(&folder.join("a.safetensors"), SHARD);
    write(&files::folder().join("a.safetensors"), SHARD);
    write(&folder.join("model.safetensors.index.json"), bytes);
    let Some(weights) = taken(Weights::open_safetensors(&folder)) else { return };
    assert_eq!(weights.rest(), ["w"]);
    assert!(weights.files().iter().all(|file| file.parent() == Some(&folder)), "{:?}", weights.files());
}

/// The bytes are a `config.json`, and a `generation_config.json`.
pub fn config(bytes: &[u8]) {
    let Ok(serde_json::Value::Object(map)) = serde_json::from_slice(bytes) else { return };
    let path = Path::new("config.json");
    if let Some(config) = taken(DecoderConfig::from_json(path, &map)) {
        sane(&config);
    }
    if let Some(config) = taken(EncoderConfig::from_json(path, &map)) {
        assert!(config.head_dim() * config.heads == config.hidden);
    }
    if let Some(defaults) = taken(GenerationDefaults::from_json(path, &map, 1000)) {
        assert!(defaults.eos.iter().all(|id| *id < 1000));
    }
}

fn sane(config: &DecoderConfig) {
    assert!(config.check(Path::new("again")).is_ok());
    assert!(config.q_width() <= ATTENTION_WIDTH_MAX && config.kv_width() <= config.q_width());
    assert!(config.vocabulary <= VOCABULARY_MAX && config.rope.theta.is_finite());
}

/// Takes every tensor by its own shape.
fn take_all(mut weights: Weights) {
    let finite = weights.check_finite(Finite::All).is_ok();
    let names: Vec<String> = weights.rest().into_iter().map(str::to_owned).collect();
    for name in names {
        let shape = weights.shape(&name).expect("it is not taken yet").to_vec();
        let ([rows, cols], true) = (
            match shape[..] {
                [] => [1, 1],
                [count] => [1, count],
                [rows, cols] => [rows, cols],
                _ => continue,
            },
            shape.iter().product::<usize>() <= UNPACKED_MAX,
        ) else {
            continue;
        };
        match weights.take(&name, [rows, cols]) {
            Ok(stored) => assert_eq!((stored.rows(), stored.cols()), (rows, cols)),
            // Scales that are finite may still make a weight that f16 cannot hold.
            Err(error) => assert!(!finite || matches!(error, ModelError::NotFinite { .. }), "{name}: {error}"),
        }
    }
}

fn folder(name: &str) -> PathBuf {
    let path = files::folder().join(name);
    std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
    path
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
