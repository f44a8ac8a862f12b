//! Models as folders, through the program: a new one is made, an export is verified and its damage named, and whatever goes
//! wrong leaves nothing under the name that was asked for.

use crate::program::{Mount, Place, err, out};
use legwork_model::{ModelFiles, Weights};
use legwork_training::TrainingError;
use legwork_training::export::{Export, SHARD_BYTES_MAX, Source, wanted};
use legwork_training::tensor::NamedTensor;
use std::path::Path;

const INIT: [&str; 7] = ["init", "--texts", "rows.jsonl", "--vocabulary", "280", "--out", "models/new"];

/// Chat rows with enough words for a small vocabulary.
fn rows() -> String {
    let row = |number: u32| {
        let question = format!("Which of the {number} gates of the northern theatre was there first?");
        let row = serde_json::json!({"messages": [
            {"role": "user", "content": question}, {"role": "assistant", "content": format!("The gate of {number}.")},
        ]});
        format!("{row}\n")
    };
    (0..40).map(row).collect()
}

/// Exports a model as if it were a checkpoint of itself with a padded vocabulary.
fn export(model: &Path, out: &Path) {
    let config = ModelFiles::open(model).unwrap().decoder().unwrap().clone();
    let mut weights = Weights::open_safetensors(model).unwrap();
    let tensors = wanted(&config).into_iter().map(|wanted| -> Result<NamedTensor, TrainingError> {
        let mut values = weights.take(&wanted.name, wanted.shape)?.to_f32();
        let rows = wanted.shape[0] + if wanted.of_vocabulary { 128 } else { 0 };
        values.resize(rows * wanted.shape[1], 0.5);
        Ok(NamedTensor { name: wanted.name, shape: [rows, wanted.shape[1]], is_vector: wanted.is_vector, values })
    });
    let source = Source { checkpoint: "step-00000001".to_owned(), step: 1, ..Source::default() };
    let run = serde_json::Value::Null;
    Export { original: model, out, kind: None, shard_bytes_max: SHARD_BYTES_MAX, source, run }.write(tensors).unwrap();
}

fn made() -> Place {
    let place = Place::new();
    place.write("rows.jsonl", &rows());
    let output = place.run(&INIT);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("280 tokens learnt from 40 texts"), "{}", out(&output));
    place
}

#[test]
fn a_new_model_is_the_same_from_the_same_texts_and_is_not_written_over() {
    let (place, again) = (made(), made());
    for file in ["model.safetensors", "tokenizer.json", "config.json", "legwork.init.json"] {
        let read = |place: &Place| std::fs::read(place.path("models/new").join(file)).unwrap();
        assert_eq!(read(&place), read(&again), "{file}");
    }
    let output = place.run(&INIT);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("it is there already; remove it or give another name"), "{}", err(&output));
}

#[test]
fn a_corpus_is_learnt_from_as_rows_are() {
    let place = Place::new();
    let document = |n: u32| {
        format!(
            "{}\n",
            serde_json::json!({"docid": format!("d{n}"), "text": format!("the {n} gates of the northern theatre, and between them stand trees")})
        )
    };
    place.write("rows.jsonl", &(0..60).map(document).collect::<String>());
    let output = place.run(&INIT);
    assert!(output.status.success() && out(&output).contains("from 60 texts"), "{}{}", out(&output), err(&output));
    place.write("rows.jsonl", &document(1));
    let output = place.run(&["init", "--texts", "rows.jsonl", "--vocabulary", "5000", "--out", "models/other"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("give more text, or ask for at most"), "{}", err(&output));
    assert!(!place.path("models/other").exists());
}

#[test]
fn an_export_is_verified_by_itself_and_against_its_original_and_damage_is_named() {
    let place = made();
    export(&place.path("models/new"), &place.path("models/trained"));
    let output = place.run(&["verify", "models/trained", "--against", "models/new"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    assert!(out(&output).contains("are as they were written; it agrees with the original"), "{}", out(&output));
    place.write("models/trained/merges.txt", "#version: 0.2\n");
    place.write("models/trained/notes.txt", "x");
    let output = place.run(&["verify", "models/trained", "--against", "models/new"]);
    assert_eq!(output.status.code(), Some(1));
    for told in [
        "notes.txt is not listed in SHA256SUMS",
        "merges.txt: expected the digest",
        "merges.txt: expected the original's bytes",
    ] {
        assert!(out(&output).contains(told), "{told:?} in {}", out(&output));
    }
    let output = place.run(&["verify", "models/new", "--against", "models/trained"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("models/new is no exported model"), "{}", err(&output));
}

#[test]
fn a_trained_model_goes_from_its_checkpoint_to_a_folder_and_agrees_with_both_its_ends() {
    let place = made();
    let trained = place.run(&[
        "train",
        "--rows",
        "rows.jsonl",
        "--model",
        "models/new",
        "--out",
        "runs/sft",
        "--batch",
        "10",
        "--lr",
        "1e-2",
        "--tp",
        "2",
    ]);
    assert!(trained.status.success(), "{}", err(&trained));
    let checkpoints = std::fs::read_dir(place.path("runs/sft/checkpoints")).unwrap();
    let mut checkpoints: Vec<_> = checkpoints.map(|entry| entry.unwrap().path()).collect();
    checkpoints.sort();
    let checkpoint = checkpoints.last().unwrap().to_str().unwrap();
    for (dtype, out_folder) in [("bf16", "models/half"), ("f32", "models/whole")] {
        let output =
            place.run(&["export", checkpoint, "--original", "models/new", "--out", out_folder, "--dtype", dtype]);
        assert!(output.status.success(), "{}", err(&output));
        assert!(out(&output).contains("232 rows of padding left out"), "280 of 512 are used: {}", out(&output));
        let output =
            place.run(&["verify", out_folder, "--against", "models/new", "--checkpoint", checkpoint, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&said["tensors"], &said["source"]["step"]), (&24.into(), &4.into()));
        let manifest = std::fs::read_to_string(place.path(out_folder).join("legwork.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        assert!(manifest["run"]["inputs"].as_object().is_some_and(|inputs| inputs.len() >= 2), "{}", manifest["run"]);
    }
    let read = |folder: &str| std::fs::read(place.path(folder).join("model.safetensors")).unwrap();
    assert_ne!(read("models/whole"), read("models/new"), "it has learnt something");
    let output = place.run(&["verify", "models/half", "--checkpoint", checkpoints[0].to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(i32::from(checkpoints.len() > 1)), "{}", out(&output));
}

#[test]
fn what_is_no_checkpoint_is_not_exported() {
    let place = made();
    let output = place.run(&["export", "models/new", "--original", "models/new", "--out", "models/trained"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("state.json"), "{}", err(&output));
    assert!(!place.path("models/trained").exists());
}

#[test]
fn a_disk_that_is_full_leaves_nothing_under_the_models_name() {
    let place = Place::new();
    place.write("rows.jsonl", &rows());
    let Some(_disk) = Mount::small(&place.path("models"), 96) else { return };
    let output = place.run(&INIT);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("cannot write") && err(&output).contains("has room"), "{}", err(&output));
    assert_eq!(std::fs::read_dir(place.path("models")).unwrap().count(), 0, "and nothing beside it");
}
