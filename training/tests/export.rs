//! Exported folders against torch's rounding and transformers' logits (goldens of `goldens/make_export_goldens.py`), verified,
//! damaged in every way and verified again.
#![allow(clippy::unwrap_used, reason = "a test; clippy knows tests only by their attribute")]

use legwork_kernels::{Batch, Cpu};
use legwork_model::{Decoder, DecoderSettings, Forward, ModelFiles, Weights, train_tokenizer};
use legwork_training::TrainingError;
use legwork_training::checkpoint::{self, Checkpoint, Facts};
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::export::{
    Export, Exported, MANIFEST, NumberKind, SHARD_BYTES_MAX, SUMS, Source, Wanted, verify, verify_against_checkpoint,
    verify_against_original, verify_against_tensors, wanted,
};
use legwork_training::init::Initial;
use legwork_training::network::NetworkSettings;
use legwork_training::rank::Rank;
use legwork_training::tensor::NamedTensor;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const FAMILIES: [&str; 3] = ["tiny-qwen3", "tiny-qwen2", "tiny-llama"];
const PADDING_ROWS: usize = 128;
/// Largest difference of a logit that is taken as rounding, of logits around 30.
const LOGIT_TOLERANCE: f32 = 1e-4;

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/goldens/decoder").join(name)
}

/// A model's tensors as a checkpoint of a padded vocabulary has them.
fn checkpoint(folder: &Path) -> Vec<NamedTensor> {
    let files = ModelFiles::open(folder).unwrap();
    let mut weights = Weights::open_safetensors(folder).unwrap();
    let one = |wanted: Wanted| {
        let mut values = weights.take(&wanted.name, wanted.shape).unwrap().to_f32();
        let padding = if wanted.of_vocabulary { PADDING_ROWS } else { 0 };
        values.extend((0..padding * wanted.shape[1]).map(|value| value as f32 * 1e-3 - 0.5));
        let shape = [wanted.shape[0] + padding, wanted.shape[1]];
        NamedTensor { name: wanted.name, shape, is_vector: wanted.is_vector, values }
    };
    wanted(files.decoder().unwrap()).into_iter().map(one).collect()
}

fn given(tensors: &[NamedTensor]) -> impl Iterator<Item = Result<NamedTensor, TrainingError>> {
    tensors.iter().cloned().map(Ok)
}

struct Made {
    _room: TempDir,
    original: PathBuf,
    out: PathBuf,
    tensors: Vec<NamedTensor>,
}

impl Made {
    /// An original with a tokenizer beside it, and room for an export.
    fn of(name: &str) -> Self {
        let room = tempfile::tempdir().unwrap();
        let original = room.path().join("original");
        fs::create_dir_all(original.join("additional_chat_templates")).unwrap();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(model(name).join(file), original.join(file)).unwrap();
        }
        for (file, text) in [
            ("tokenizer.json", "{\"not\": \"read here\"}\r\n"),
            ("tokenizer_config.json", "{}"),
            ("generation_config.json", "{\"temperature\": 0.5}"),
            ("additional_chat_templates/tool_use.jinja", "x"),
        ] {
            fs::write(original.join(file), text).unwrap();
        }
        let (out, tensors) = (room.path().join("deep/er/out"), checkpoint(&original));
        Self { _room: room, original, out, tensors }
    }

    fn settings(&self, kind: Option<NumberKind>, shard_bytes_max: u64) -> Export<'_> {
        let source = Source { checkpoint: "step-00000012".to_owned(), step: 12, ..Source::default() };
        let run = json!({"rows": "sft.jsonl"});
        Export { original: &self.original, out: &self.out, kind, shard_bytes_max, source, run }
    }

    fn export(&self, kind: Option<NumberKind>) -> Exported {
        self.settings(kind, SHARD_BYTES_MAX).write(given(&self.tensors)).unwrap()
    }

    #[track_caller]
    fn refused(
        &self,
        kind: Option<NumberKind>,
        tensors: impl Iterator<Item = Result<NamedTensor, TrainingError>>,
        words: &str,
    ) {
        let error = self.settings(kind, SHARD_BYTES_MAX).write(tensors).unwrap_err().to_string();
        assert!(error.contains(words), "expected {words:?} in {error:?}");
        let left: Vec<_> = fs::read_dir(self.out.parent().unwrap()).unwrap().collect();
        assert!(left.is_empty(), "nothing is left behind: {left:?}");
    }

    #[track_caller]
    fn found(&self, words: &[&str]) {
        let found = verify(&self.out).unwrap();
        let told: Vec<String> = found.findings.iter().map(ToString::to_string).collect();
        for word in words {
            assert!(told.iter().any(|finding| finding.contains(word)), "expected {word:?} in {told:#?}");
        }
        assert_eq!(told.is_empty(), words.is_empty(), "{told:#?}");
    }
}

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("goldens/export_{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn logits(folder: &Path, ids: &[u32]) -> Vec<Vec<f32>> {
    let mut files = ModelFiles::open(folder).unwrap();
    let config = files.decoder().unwrap().clone();
    let settings = DecoderSettings { pages: 4, rows_max: 64, context_max: usize::MAX };
    let mut decoder = Decoder::load(Cpu::default(), &config, &mut files.weights, settings).unwrap();
    let (mut batch, mut logits) = (Batch::default(), Vec::new());
    batch.push(ids, 0, &[2, 0], false);
    batch.wanted = (0..ids.len() as u32).collect();
    decoder.forward(&batch, &mut logits).unwrap();
    logits.chunks_exact(config.vocabulary).map(<[f32]>::to_vec).collect()
}

#[test]
fn exported_folders_have_the_bytes_of_torch_and_the_logits_of_transformers() {
    for name in FAMILIES {
        let golden = golden(name);
        let ids: Vec<u32> = golden["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        for kind in NumberKind::ALL {
            let made = Made::of(name);
            let exported = made.export(Some(kind));
            let expected = &golden["kinds"][kind.name()];
            for tensor in &exported.manifest.tensors {
                assert_eq!(tensor.sha256, expected["sha256"][&tensor.name].as_str().unwrap(), "{name} {}", tensor.name);
            }
            let got = logits(&made.out, &ids);
            for (row, expected) in golden["rows"].as_array().unwrap().iter().zip(expected["logits"].as_array().unwrap())
            {
                let got = &got[row.as_u64().unwrap() as usize];
                let expected = expected.as_array().unwrap();
                assert_eq!(got.len(), expected.len());
                let off =
                    got.iter().zip(expected).map(|(got, value)| (f64::from(*got) - value.as_f64().unwrap()).abs());
                let off = off.fold(0.0, f64::max);
                assert!(off < f64::from(LOGIT_TOLERANCE), "{name}, {kind:?}, row {row}: {off}");
            }
            made.found(&[]);
        }
    }
}

#[test]
fn padding_is_removed_and_the_rows_before_it_are_the_checkpoints() {
    let made = Made::of("tiny-llama");
    let exported = made.export(None);
    assert_eq!(exported.manifest.dtype, NumberKind::F32, "as the original says");
    for name in ["model.embed_tokens.weight", "lm_head.weight"] {
        let said = exported.manifest.tensors.iter().find(|said| said.name == name).unwrap();
        assert_eq!(said.shape, [163, 48]);
        assert_eq!(said.removed.as_ref().unwrap().rows, PADDING_ROWS);
        assert_eq!(said.sha256, said.source_sha256);
    }
    assert_eq!(exported.manifest.tensors.iter().filter(|said| said.removed.is_some()).count(), 2);
    assert_eq!(exported.manifest.source.step, 12);
    assert_eq!(exported.manifest.run["rows"], "sft.jsonl");
}

#[test]
fn what_the_original_has_beside_its_weights_is_kept_byte_for_byte() {
    let made = Made::of("tiny-qwen3");
    made.export(Some(NumberKind::Bf16));
    let same = |file: &str| fs::read(made.original.join(file)).unwrap() == fs::read(made.out.join(file)).unwrap();
    for file in [
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
        "additional_chat_templates/tool_use.jinja",
    ] {
        assert!(same(file), "{file}");
    }
    let config =
        |folder: &Path| -> Value { serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap() };
    let mut expected = config(&made.original);
    expected["dtype"] = "bfloat16".into();
    assert_eq!(config(&made.out), expected, "and the description but for its kind of number");
    assert!(!made.out.join("lm_head").exists());
    let as_it_is = Made::of("tiny-qwen3");
    as_it_is.export(None);
    assert_eq!(
        fs::read(as_it_is.original.join("config.json")).unwrap(),
        fs::read(as_it_is.out.join("config.json")).unwrap()
    );
}

#[test]
fn shards_are_written_in_any_order_and_hold_the_same_tensors() {
    let made = Made::of("tiny-qwen2");
    let exported =
        made.settings(None, 40_000).write(given(&made.tensors).collect::<Vec<_>>().into_iter().rev()).unwrap();
    assert!(exported.shards > 2, "{}", exported.shards);
    made.found(&[]);
    let whole = Made::of("tiny-qwen2");
    whole.export(None);
    let ids: Vec<u32> = (0..20).collect();
    assert_eq!(logits(&made.out, &ids), logits(&whole.out, &ids));
    assert!(verify_against_tensors(&made.out, given(&made.tensors)).unwrap().is_empty());
}

#[test]
fn tensors_that_do_not_fit_the_original_are_named_and_nothing_is_left() {
    let made = Made::of("tiny-qwen3");
    let with = |change: &dyn Fn(&mut Vec<NamedTensor>)| {
        let mut tensors = made.tensors.clone();
        change(&mut tensors);
        tensors.into_iter().map(Ok)
    };
    let last = made.tensors.len() - 1;
    let missing = with(&|tensors| drop(tensors.drain(3..5)));
    made.refused(None, missing, "k_proj.weight, model.layers.0.self_attn.v_proj.weight");
    made.refused(
        None,
        with(&|tensors| tensors.push(tensors[4].clone())),
        "`model.layers.0.self_attn.v_proj.weight` twice",
    );
    made.refused(None, with(&|tensors| tensors[last].name = "lm_head.weight".to_owned()), "got `lm_head.weight` also");
    made.refused(None, with(&|tensors| tensors[2].shape = [1, 1]), "expected the shape [96, 48]");
    made.refused(None, with(&|tensors| tensors[2].values.truncate(4607)), "got 4607 of them");
    made.refused(None, with(&|tensors| tensors[last].is_vector = false), "`model.norm.weight`, got [1, 48]");
    let few = with(&|tensors| {
        tensors[0].shape[0] = 162;
        tensors[0].values.truncate(162 * 48);
    });
    made.refused(None, few, "up to 8191 rows of padding");
    for (kind, value) in
        [(NumberKind::F32, f32::NAN), (NumberKind::Bf16, f32::NEG_INFINITY), (NumberKind::F16, 70_000.0)]
    {
        let words = format!("got {value} at value 17 of `model.layers.0.self_attn.q_proj.weight`");
        made.refused(Some(kind), with(&|tensors| tensors[2].values[17] = value), &words);
    }
    let broken = || Err(TrainingError::Checkpoint { path: "rank-0".into(), problem: "it is cut".to_owned() });
    made.refused(None, given(&made.tensors).take(4).chain(std::iter::once_with(broken)), "rank-0: it is cut");
}

#[test]
fn a_place_that_is_taken_is_left_as_it_is() {
    let made = Made::of("tiny-qwen3");
    fs::create_dir_all(&made.out).unwrap();
    let error = made.settings(None, SHARD_BYTES_MAX).write(given(&made.tensors)).unwrap_err().to_string();
    assert!(error.contains("it is there already"), "{error}");
    assert_eq!(fs::read_dir(&made.out).unwrap().count(), 0);
}

#[test]
fn every_damage_is_a_finding_that_names_what_is_damaged() {
    let fresh = || {
        let made = Made::of("tiny-qwen3");
        made.export(Some(NumberKind::Bf16));
        made
    };
    let path = |made: &Made, file: &str| made.out.join(file);
    let edit = |made: &Made, file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(path(made, file)).unwrap();
        assert!(text.contains(from));
        fs::write(path(made, file), text.replacen(from, to, 1)).unwrap();
    };
    let made = fresh();
    let mut bytes = fs::read(path(&made, "model.safetensors")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path(&made, "model.safetensors"), &bytes).unwrap();
    made.found(&["model.safetensors: expected the digest", "tensor `model.norm.weight`: expected the digest"]);
    bytes.truncate(bytes.len() - 2);
    fs::write(path(&made, "model.safetensors"), &bytes).unwrap();
    made.found(&["model.safetensors: expected the digest", "opens as no decoder"]);

    let made = fresh();
    fs::write(path(&made, "pytorch_model.bin"), "x").unwrap();
    fs::write(path(&made, "additional_chat_templates/other.jinja"), "x").unwrap();
    made.found(&["pytorch_model.bin is not listed", "additional_chat_templates/other.jinja is not listed"]);

    let made = fresh();
    fs::remove_file(path(&made, "tokenizer.json")).unwrap();
    made.found(&["tokenizer.json is listed in SHA256SUMS and not there"]);

    let made = fresh();
    edit(&made, "config.json", "163", "162");
    made.found(&["config.json: expected the digest", "expected the 162 rows", "tensor `model.embed_tokens.weight`: "]);

    let made = fresh();
    edit(&made, "config.json", "bfloat16", "float32");
    made.found(&["expected config.json to say bfloat16, got f32"]);

    let made = fresh();
    edit(&made, MANIFEST, "model.norm.weight", "model.norm.bias");
    made.found(&[
        "tensor `model.norm.weight`: expected it in legwork.json",
        "tensor `model.norm.bias`: expected no such",
    ]);
    fs::write(path(&made, MANIFEST), "{}").unwrap();
    made.found(&["legwork.json: expected a manifest"]);

    let made = fresh();
    edit(&made, SUMS, "  config.json", "  ../config.json");
    made.found(&["SHA256SUMS: line 2: expected the name of a file in this folder"]);
    fs::remove_file(path(&made, SUMS)).unwrap();
    made.found(&["SHA256SUMS: cannot read"]);
}

#[test]
fn no_bit_of_an_export_can_change_unseen() {
    let made = Made::of("tiny-llama");
    made.settings(Some(NumberKind::Bf16), 40_000).write(given(&made.tensors)).unwrap();
    let mut files: Vec<PathBuf> = fs::read_dir(&made.out).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    // A bit every so far along each file, so that every part of every format is hit.
    for path in files {
        let whole = fs::read(&path).unwrap();
        for nth in 0..12_usize {
            let mut bytes = whole.clone();
            let at = (whole.len() - 1) * nth / 11;
            bytes[at] ^= 1 << (nth % 8);
            fs::write(&path, &bytes).unwrap();
            let found = verify(&made.out).unwrap();
            assert!(!found.findings.is_empty(), "{} at byte {at}, bit {}", path.display(), nth % 8);
        }
        fs::write(&path, &whole).unwrap();
    }
    made.found(&[]);
}

#[test]
fn shards_too_small_for_any_reader_are_refused() {
    let made = Made::of("tiny-qwen3");
    let words = "at most 1024 files, got 0 bytes";
    let mut fields: Value = serde_json::from_slice(&fs::read(made.original.join("config.json")).unwrap()).unwrap();
    fields["num_hidden_layers"] = 1000.into();
    fields["layer_types"] = Value::Null;
    fs::write(made.original.join("config.json"), fields.to_string()).unwrap();
    let error = made.settings(None, 0).write(given(&made.tensors)).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
    assert_eq!(fs::read_dir(made.out.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn another_tokenizer_or_another_checkpoint_is_found() {
    let made = Made::of("tiny-qwen3");
    made.export(Some(NumberKind::Bf16));
    assert!(verify_against_original(&made.out, &made.original).unwrap().is_empty());
    assert!(verify_against_tensors(&made.out, given(&made.tensors)).unwrap().is_empty());

    fs::write(made.original.join("tokenizer.json"), "{}").unwrap();
    fs::write(made.original.join("merges.txt"), "").unwrap();
    fs::remove_file(made.original.join("generation_config.json")).unwrap();
    fs::copy(model("tiny-qwen2").join("config.json"), made.original.join("config.json")).unwrap();
    let told: Vec<String> =
        verify_against_original(&made.out, &made.original).unwrap().iter().map(ToString::to_string).collect();
    for file in [
        "tokenizer.json: expected the original's bytes",
        "merges.txt: expected the original's file",
        "generation_config.json: expected no such file",
        "config.json: expected the original's description",
    ] {
        assert!(told.iter().any(|told| told.starts_with(file)), "{file:?} in {told:#?}");
    }
    assert_eq!(told.len(), 4);

    let mut other = made.tensors.clone();
    other[2].values[48 * 3 + 7] += 0.5;
    // Too little to change what it is rounded to.
    other[3].values[0] = f32::from_bits(other[3].values[0].to_bits() ^ 1);
    *other[0].values.last_mut().unwrap() = 9.0;
    other.remove(4);
    let told: Vec<String> =
        verify_against_tensors(&made.out, given(&other)).unwrap().iter().map(ToString::to_string).collect();
    for words in [
        "q_proj.weight`: expected the checkpoint's values as bfloat16, got another in row 3, column 7",
        "k_proj.weight`: expected the digest of the checkpoint's rows",
        "embed_tokens.weight`: expected the checkpoint's padding",
        "v_proj.weight`: expected it in the checkpoint",
    ] {
        assert!(told.iter().any(|told| told.contains(words)), "{words:?} in {told:#?}");
    }
    assert_eq!(told.len(), 4);
}

#[test]
fn the_list_of_digests_is_read_by_sha256sum() {
    let made = Made::of("tiny-qwen3");
    made.export(None);
    let run = std::process::Command::new("sha256sum")
        .args(["-c", "--strict", "--quiet", SUMS])
        .current_dir(&made.out)
        .status();
    match run {
        Ok(status) => assert!(status.success()),
        Err(error) => eprintln!("skipped: sha256sum cannot be run here: {error}"),
    }
}

/// A new model, its weights taken by one rank and saved, and the checkpoint of that.
fn saved(room: &Path) -> (PathBuf, Checkpoint) {
    let model = room.join("model");
    let texts = (0..90).map(|n| Ok::<_, TrainingError>(format!("the gates of the northern theatre: {n}, {}", n * n)));
    Initial::tiny().write(&train_tokenizer(texts, 280, 2048).unwrap(), &model).unwrap();
    let config = ModelFiles::open(&model).unwrap().decoder().unwrap().clone();
    let settings =
        NetworkSettings { rows_max: 64, keep_attention: false, keep_products: false, softmax_over_padding: false };
    let mut weights = Weights::open_safetensors(&model).unwrap();
    let mut rank = DecoderRank::open(Cpu::default(), &config, &mut weights, settings).unwrap();
    let partial = checkpoint::begin(&room.join("checkpoints"), 7).unwrap();
    rank.save(&partial).unwrap();
    let said = serde_json::from_slice(&fs::read(model.join("config.json")).unwrap()).unwrap();
    let facts = Facts { samples: 224, ranks: 1, model: said, run: json!({"rows": "blake3:00"}) };
    (model, checkpoint::open(&checkpoint::commit(&partial, facts).unwrap()).unwrap())
}

#[test]
fn a_model_that_is_saved_before_it_learns_is_exported_as_the_same_bytes() {
    let room = tempfile::tempdir().unwrap();
    let (model, checkpoint) = saved(room.path());
    let out = room.path().join("out");
    let exported =
        Export::of_checkpoint(&checkpoint, &model, &out).unwrap().write(checkpoint.tensors().unwrap()).unwrap();
    assert_eq!(fs::read(model.join("model.safetensors")).unwrap(), fs::read(out.join("model.safetensors")).unwrap());
    for file in
        ["tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "generation_config.json", "config.json"]
    {
        assert_eq!(fs::read(model.join(file)).unwrap(), fs::read(out.join(file)).unwrap(), "{file}");
    }
    let removed = exported.manifest.tensors[0].removed.as_ref().unwrap();
    assert_eq!(removed.rows, 384 - 280);
    assert_eq!((exported.manifest.source.checkpoint.as_str(), exported.manifest.source.step), ("step-00000007", 7));
    assert_eq!(exported.manifest.run["rows"], "blake3:00");
    assert!(verify(&out).unwrap().findings.is_empty());
    assert!(verify_against_original(&out, &model).unwrap().is_empty());
    assert!(verify_against_checkpoint(&out, &checkpoint).unwrap().is_empty());
}

#[test]
fn a_checkpoint_of_another_shape_than_the_original_is_refused_by_the_field() {
    let room = tempfile::tempdir().unwrap();
    let (original, checkpoint) = saved(room.path());
    let text = fs::read_to_string(original.join("config.json")).unwrap();
    fs::write(original.join("config.json"), text.replace("1000000.0", "500000.0")).unwrap();
    let error = Export::of_checkpoint(&checkpoint, &original, &room.path().join("out")).unwrap_err().to_string();
    assert!(error.contains("`theta: 500000.0`, got `theta: 1000000.0`"), "{error}");
}

#[test]
fn an_export_of_another_checkpoint_is_found_by_its_digests() {
    let room = tempfile::tempdir().unwrap();
    let (model, checkpoint) = saved(room.path());
    let out = room.path().join("out");
    let mut export = Export::of_checkpoint(&checkpoint, &model, &out).unwrap();
    export.source.step = 8;
    export.write(checkpoint.tensors().unwrap()).unwrap();
    let told = verify_against_checkpoint(&out, &checkpoint).unwrap();
    assert_eq!(told.len(), 1);
    assert!(told[0].to_string().contains("expected the digests of step-00000007 at step 7"), "{}", told[0]);
}
