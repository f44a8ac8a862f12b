use super::*;
use crate::RopeScaling;
use crate::weights::Finite;
use legwork_kernels::Dtype;
use serde_json::json;
use sha2::{Digest, Sha256};

/// A whole small decoder as a folder.
pub(crate) fn decoder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 6, "max_position_embeddings": 32,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "eos_token_id": 2, "bos_token_id": 1
    });
    let bytes = [0_u8; 96];
    let weights = crate::weights::tests::safetensors_file(&[("model.embed_tokens.weight", "F32", &[6, 4], &bytes)]);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), weights).unwrap();
    folder
}

fn put(folder: &tempfile::TempDir, name: &str, text: &str) {
    std::fs::write(folder.path().join(name), text).unwrap();
}

#[track_caller]
fn refused(path: &Path, words: &str) {
    let error = ModelFiles::open(path).unwrap_err().to_string();
    assert!(error.contains(words), "expected {words:?} in {error:?}");
}

#[test]
fn a_folder_is_read_together() {
    let folder = decoder();
    put(&folder, "tokenizer.json", "{}");
    put(
        &folder,
        "generation_config.json",
        r#"{"do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 20,
        "eos_token_id": [2, 3], "pad_token_id": 0}"#,
    );
    put(
        &folder,
        "tokenizer_config.json",
        r#"{"chat_template": "{{ messages }}", "bos_token": {"content": "<s>"},
        "eos_token": "</s>"}"#,
    );
    let mut model = ModelFiles::open(folder.path()).unwrap();
    assert_eq!(model.decoder().unwrap().hidden, 4);
    assert!(model.encoder().unwrap_err().to_string().contains("expected a sentence encoder, got a decoder"));
    assert_eq!(model.tokenizer, TokenizerSource::Json(folder.path().join("tokenizer.json")));
    let template = model.chat_template.as_ref().unwrap();
    assert_eq!(
        (template.source.as_str(), template.bos.as_deref(), template.eos.as_deref()),
        ("{{ messages }}", Some("<s>"), Some("</s>"))
    );
    let expected = GenerationDefaults {
        sample: Some(true),
        temperature: Some(0.6),
        top_p: Some(0.95),
        top_k: Some(20),
        eos: vec![2, 3],
        bos: Some(1),
        pad: Some(0),
        ..GenerationDefaults::default()
    };
    assert_eq!(model.generation, expected);
    assert!(model.weights.take("lm_head.weight", [6, 4]).is_ok(), "a tied head is the embedding");
    assert_eq!(model.sentence, None);
}

#[test]
fn a_template_of_its_own_file_comes_first_and_named_ones_are_kept() {
    let folder = decoder();
    let template = |folder: &tempfile::TempDir| ModelFiles::open(folder.path()).map(|model| model.chat_template);
    assert_eq!(template(&folder).unwrap(), None);
    put(
        &folder,
        "tokenizer_config.json",
        r#"{"chat_template": [{"name": "default", "template": "a"},
        {"name": "tool_use", "template": "b"}]}"#,
    );
    let found = template(&folder).unwrap().unwrap();
    assert_eq!((found.source.as_str(), found.named["tool_use"].as_str()), ("a", "b"));
    put(&folder, "chat_template.jinja", "c");
    assert_eq!(template(&folder).unwrap().unwrap().source, "c");
    std::fs::remove_file(folder.path().join("chat_template.jinja")).unwrap();
    put(&folder, "tokenizer_config.json", r#"{"chat_template": [{"name": "tool_use", "template": "b"}]}"#);
    assert!(template(&folder).unwrap_err().to_string().contains("named ones with a default"));
}

#[test]
fn generation_defaults_are_within_reason() {
    for (text, word) in [
        (r#"{"temperature": -1}"#, "a number from 0 to 100 for `temperature`, got -1"),
        (r#"{"top_p": 1.5}"#, "a number from 0 to 1 for `top_p`"),
        (r#"{"top_k": -1}"#, "`top_k`, got -1"),
        (r#"{"eos_token_id": 6}"#, "ids below the vocabulary of 6 for `eos_token_id`, got 6"),
        (r#"{"eos_token_id": [1, "2"]}"#, "`eos_token_id`"),
        (r#"[]"#, "a JSON object, got []"),
        ("{", "expected JSON"),
    ] {
        let folder = decoder();
        put(&folder, "generation_config.json", text);
        refused(folder.path(), word);
    }
}

#[test]
fn a_path_that_is_no_model_is_told_what_one_is() {
    let folder = tempfile::tempdir().unwrap();
    refused(&folder.path().join("nowhere"), "nowhere");
    refused(folder.path(), "expected config.json or a .gguf file, got neither");
    put(&folder, "model.bin", "x");
    refused(&folder.path().join("model.bin"), "a folder or a .gguf file");
    put(&folder, "a.gguf", "x");
    refused(folder.path(), "expected a GGUF file, got fewer than four bytes");
    put(&folder, "b.gguf", "x");
    refused(folder.path(), "expected one .gguf file, got 2 (a.gguf, b.gguf)");
}

#[test]
fn plain_names_stay_in_their_folder() {
    for name in ["a", "a.b", "..a", "model-1.safetensors", "1_Pooling"] {
        assert!(is_plain_name(name), "{name:?}");
    }
    for name in ["", ".", "..", "a/b", "/a", "a\\b", "c:a", "a\0", "a\nb", "../a"] {
        assert!(!is_plain_name(name), "{name:?}");
    }
}

#[test]
fn a_digest_tells_models_apart_and_not_where_they_lie() {
    let (one, same, other) = (decoder(), decoder(), decoder());
    put(&other, "generation_config.json", "{}");
    let digest = |folder: &tempfile::TempDir| {
        let mut seen = Vec::new();
        let model = ModelFiles::open(folder.path()).unwrap();
        let digest = model.digest(&mut |done, total| seen.push((done, total))).unwrap();
        let (done, total) = *seen.last().unwrap();
        assert_eq!(done, total);
        digest
    };
    let first = digest(&one);
    let names: Vec<&str> = first.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["config.json", "model.safetensors"]);
    let bytes = std::fs::read(one.path().join("config.json")).unwrap();
    assert_eq!(first.files[0].blake3, blake3::hash(&bytes).to_hex().to_string());
    assert_eq!(first, digest(&same));
    assert_ne!(first.blake3, digest(&other).blake3);
}

/// SmolLM2-135M-Instruct as GGUF, where it was fetched.
fn smollm2() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = root.join("target/fixtures/smollm2");
    let found = with_ending(&folder, "gguf").ok().and_then(|found| found.into_iter().next());
    if found.is_none() {
        println!("skipped: no .gguf in {}", folder.display());
    }
    found
}

fn golden() -> Value {
    serde_json::from_str(include_str!("../../goldens/smollm2_gguf.json")).unwrap()
}

#[test]
fn a_real_gguf_has_the_metadata_and_tensors_that_the_reference_reads() {
    let Some(path) = smollm2() else { return };
    let gguf = Gguf::open(&path).unwrap();
    let golden = golden();
    let metadata = golden["metadata"].as_object().unwrap();
    assert_eq!(gguf.keys().count(), metadata.len());
    for (key, expected) in metadata {
        let found = gguf.value(key).unwrap_or_else(|| panic!("no {key}"));
        match expected {
            Value::String(text) => assert_eq!(found.as_str(), Some(text.as_str()), "{key}"),
            Value::Bool(flag) => assert_eq!(found.as_bool(), Some(*flag), "{key}"),
            Value::Number(number) => assert_eq!(found.as_f64(), number.as_f64(), "{key}"),
            other => {
                let lines = match found.as_list() {
                    Some(list) => {
                        list.iter().map(|item| item.as_str().map_or_else(|| item.shown(), str::to_owned)).collect()
                    }
                    None => found.as_str().unwrap().split('\n').map(str::to_owned).collect::<Vec<String>>(),
                };
                assert_eq!(lines.len() as u64, other["lines"].as_u64().unwrap(), "{key}");
                let digest = Sha256::digest(lines.join("\n").as_bytes());
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(hex, other["sha256"].as_str().unwrap(), "{key}");
            }
        }
    }
    let tensors = golden["tensors"].as_object().unwrap();
    assert_eq!(gguf.tensors().len(), tensors.len());
    for tensor in gguf.tensors() {
        assert_eq!(json!([tensor.shape, tensor.kind.name()]), tensors[&tensor.name], "{}", tensor.name);
    }
}

#[test]
fn a_real_gguf_is_a_whole_model_whose_numbers_are_those_of_the_reference() {
    let Some(path) = smollm2() else { return };
    let mut model = ModelFiles::open(path.parent().unwrap()).unwrap();
    let config = model.decoder().unwrap().clone();
    assert_eq!((config.hidden, config.layers, config.heads, config.kv_heads, config.head_dim), (576, 30, 9, 3, 64));
    assert_eq!((config.ffn, config.vocabulary, config.context), (1536, 49_152, 8192));
    assert!(config.tied && config.rope.interleaved && config.rope.theta == 100_000.0);
    assert_eq!(config.rope.scaling, RopeScaling::None);
    assert_eq!((model.generation.bos, model.generation.eos.as_slice()), (Some(1), &[2][..]));
    let TokenizerSource::Gguf(tokenizer) = &model.tokenizer else { panic!("expected a tokenizer in the file") };
    assert_eq!((tokenizer.model.as_str(), tokenizer.pre.as_deref()), ("gpt2", Some("smollm")));
    assert_eq!((tokenizer.tokens.len(), tokenizer.merges.len(), tokenizer.kinds.len()), (49_152, 48_900, 49_152));
    assert!(model.chat_template.as_ref().unwrap().source.contains("<|im_start|>"));
    model.weights.check_finite(Finite::All).unwrap();
    let golden = golden();
    for (name, expected) in golden["sums"].as_object().unwrap() {
        let shape = golden["tensors"][name][0].as_array().unwrap();
        let shape: Vec<usize> = shape.iter().map(|size| size.as_u64().unwrap() as usize).collect();
        let [rows, cols] = if let [count] = shape[..] { [1, count] } else { [shape[0], shape[1]] };
        let stored = model.weights.take(&crate::weights::names::to_hugging_face(name).unwrap(), [rows, cols]).unwrap();
        let values = unpacked(&stored);
        let sums = [values.iter().sum::<f64>(), values.iter().map(|value| value.abs()).sum()];
        for (sum, field) in sums.iter().zip(["sum", "sum_of_absolutes"]) {
            let expected = expected[field].as_f64().unwrap();
            assert!((sum - expected).abs() <= 1e-7 * sums[1], "{name}: {sum} and {expected}");
        }
        for (value, expected) in values.iter().zip(expected["first"].as_array().unwrap()) {
            assert!((value - expected.as_f64().unwrap()).abs() < 1e-6, "{name}");
        }
    }
}

/// Numbers of the kinds of that file, by their definition.
fn unpacked(stored: &legwork_kernels::Stored) -> Vec<f64> {
    let half = |bytes: &[u8]| f64::from(half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32());
    let blocks = stored.bytes().chunks(stored.dtype().block_bytes());
    match stored.dtype() {
        Dtype::F32 => blocks.map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect(),
        Dtype::Q8_0 => blocks.flat_map(|b| b[2..].iter().map(move |q| half(b) * f64::from(q.cast_signed()))).collect(),
        Dtype::Q4_1 => blocks
            .flat_map(|b| {
                let value = move |q: u8| half(b) * f64::from(q) + half(&b[2..]);
                let low = b[4..].iter().map(move |byte| value(byte & 15));
                low.chain(b[4..].iter().map(move |byte| value(byte >> 4)))
            })
            .collect(),
        other => panic!("{other:?} is not in that file"),
    }
}
