use super::*;
use legwork_kernels::{Batch, Cpu};
use legwork_model::{Decoder, DecoderSettings, Forward, ModelFiles, Templates, Tokenizer, Weights, train_tokenizer};

fn tokenizer() -> TrainedTokenizer {
    let texts = (0..60).map(|number| {
        Ok::<_, TrainingError>(format!(
            "the theatre of the north has {number} gates, and between them stand many trees"
        ))
    });
    train_tokenizer(texts, 300, 2048).unwrap()
}

fn values(folder: &Path, name: &str) -> Vec<f32> {
    let mut weights = Weights::open_safetensors(folder).unwrap();
    let shape = match weights.shape(name).unwrap() {
        [rows, cols] => [*rows, *cols],
        other => [1, other[0]],
    };
    weights.take(name, shape).unwrap().to_f32()
}

fn made(initial: &Initial) -> (tempfile::TempDir, PathBuf) {
    let room = tempfile::tempdir().unwrap();
    let out = room.path().join("new");
    initial.write(&tokenizer(), &out).unwrap();
    (room, out)
}

#[test]
fn a_new_model_opens_and_continues_a_text() {
    let (_room, out) = made(&Initial::tiny());
    let mut files = ModelFiles::open(&out).unwrap();
    let config = files.decoder().unwrap().clone();
    assert_eq!((config.vocabulary, config.head_dim, config.qk_norm, config.context), (300, 16, true, 2048));
    assert_eq!(files.generation.eos.len(), 2);
    let settings = DecoderSettings { pages: 2, rows_max: 32, context_max: 64 };
    let mut decoder = Decoder::load(Cpu::default(), &config, &mut files.weights, settings).unwrap();
    let ids = Tokenizer::open(&out.join("tokenizer.json")).unwrap().encode("the north").unwrap();
    let (mut batch, mut logits) = (Batch::default(), Vec::new());
    batch.push(&ids, 0, &[0], true);
    decoder.forward(&batch, &mut logits).unwrap();
    assert_eq!(logits.len(), 300);
    assert!(logits.iter().all(|logit| logit.is_finite() && logit.abs() < 2.0), "nothing is learnt yet");
    assert!(Templates::of_folder(&out).unwrap().choose(true).is_some());
}

#[test]
fn the_seed_alone_decides_the_weights() {
    let (_a, first) = made(&Initial::tiny());
    let (_b, again) = made(&Initial::tiny());
    let (_c, other) = made(&Initial { seed: 2, ..Initial::tiny() });
    let (_d, deeper) = made(&Initial { layers: 3, ..Initial::tiny() });
    let read = |folder: &Path, file: &str| std::fs::read(folder.join(file)).unwrap();
    for file in ["model.safetensors", "config.json", "tokenizer.json", INIT_MANIFEST] {
        assert_eq!(read(&first, file), read(&again, file), "{file}");
    }
    let name = "model.layers.1.self_attn.q_proj.weight";
    assert_ne!(values(&first, name), values(&other, name));
    assert_eq!(values(&first, name), values(&deeper, name), "a tensor's weights depend on no other tensor");
    assert_ne!(values(&first, name), values(&first, &name.replace("layers.1", "layers.0")));
}

#[test]
fn weights_are_normal_and_those_into_the_stream_narrower() {
    let (_room, out) = made(&Initial { hidden: 128, ..Initial::tiny() });
    for (name, expected) in [
        ("model.embed_tokens.weight", 0.02),
        ("model.layers.0.mlp.up_proj.weight", 0.02),
        ("model.layers.1.mlp.down_proj.weight", 0.01),
        ("model.layers.1.self_attn.o_proj.weight", 0.01),
    ] {
        let values: Vec<f64> = values(&out, name).iter().map(|value| f64::from(*value) / expected).collect();
        let moment = |power: i32| values.iter().map(|value| value.powi(power)).sum::<f64>() / values.len() as f64;
        // Four standard errors of the least tensor's 16,384 values.
        assert!(moment(1).abs() < 0.032, "{name}: mean {}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.045, "{name}: variance {}", moment(2));
        assert!((moment(4) - 3.0).abs() < 0.31, "{name}: fourth moment {}", moment(4));
    }
    assert!(values(&out, "model.layers.0.self_attn.q_norm.weight").iter().all(|value| *value == 1.0));
}

#[test]
fn shapes_that_cannot_be_are_refused_and_nothing_is_left() {
    let room = tempfile::tempdir().unwrap();
    let tokenizer = tokenizer();
    for (initial, words) in [
        (Initial { heads: 5, ..Initial::tiny() }, "a divisor of the 5 heads"),
        (Initial { heads: 5, kv_heads: 1, ..Initial::tiny() }, "hidden: expected a multiple of 5 heads"),
        (Initial { heads: 0, ..Initial::tiny() }, "num_attention_heads"),
        (Initial { layers: 0, ..Initial::tiny() }, "num_hidden_layers"),
        (Initial { hidden: usize::MAX, ..Initial::tiny() }, "hidden_size"),
        (
            Initial { hidden: 1 << 16, ffn: 1 << 19, head_dim: Some(16), ..Initial::tiny() },
            "at most 2000000000 weights",
        ),
        (Initial { head_dim: Some(7), ..Initial::tiny() }, "an even number"),
    ] {
        let error = initial.write(&tokenizer, &room.path().join("new")).unwrap_err().to_string();
        assert!(error.contains(words), "expected {words:?} in {error:?}");
    }
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 0);
}
