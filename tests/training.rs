//! `legwork train` as a user meets it: a tiny model that learns a handful of rows through the program, killed at random moments
//! and resumed to the weights of an undisturbed run, stopped by a signal, and refused where its inputs are not the same.
//! `LEGWORK_KILLS` says how many runs are killed.

use crate::program::{Mount, Place, err, out};
use legwork_actors::trainer::{Record, TrainingRecords, read_records};
use legwork_training::checkpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Rows to train on, and rows that are held out.
const ROWS: [usize; 2] = [36, 6];
/// Steps of the whole run: three rows each.
pub(crate) const STEPS: u64 = 12;
pub(crate) const INCOMPLETE: Option<i32> = Some(3);

/// What is said when a run of this kind is under way, so that it can be killed there.
const MOMENTS: [&str; 9] = [
    "training runs/",
    "MFU is of",
    "step 0/12  held out",
    "step 3/12  held out",
    "step 4/12  checkpoint",
    "step 6/12  held out",
    "step 8/12  checkpoint",
    "step 9/12  held out",
    "step 12/12  held out",
];

/// How far losses may be apart, of themselves, where sums are taken in another order.
const NEAR: f64 = 1e-4;

/// A place with rows and an untrained model.
pub(crate) fn furnished() -> Place {
    let place = Place::new();
    let row = |row: usize| {
        let (a, b) = (row * 7 % 10, row * 3 % 10);
        let source = if row.is_multiple_of(3) { "core" } else { "gate" };
        let messages = serde_json::json!([
            {"role": "user", "content": format!("What is {a} and {b}?")},
            {"role": "assistant", "content": format!("The sum of {a} and {b} is {}.", a + b), "reasoning_content": ""},
        ]);
        serde_json::json!({"messages": messages, "metadata": {"source": source}}).to_string()
    };
    let lines = |rows: std::ops::Range<usize>| rows.map(row).collect::<Vec<_>>().join("\n") + "\n";
    place.write("rows.jsonl", &lines(0..ROWS[0]));
    place.write("held.jsonl", &lines(ROWS[0]..ROWS[0] + ROWS[1]));
    let init =
        ["init", "--out", "model", "--texts", "rows.jsonl", "--vocabulary", "288", "--hidden", "32", "--ffn", "48"];
    let made = place.run(&init);
    assert!(made.status.success(), "{}", err(&made));
    place
}

pub(crate) fn train(run: &str, more: &[&str]) -> Vec<String> {
    let out = format!("runs/{run}");
    let args = [
        "train",
        "--rows",
        "rows.jsonl",
        "--eval",
        "held.jsonl",
        "--model",
        "model",
        "--out",
        &out,
        "--batch",
        "3",
        "--lr",
        "1e-2",
        "--save-every",
        "4",
        "--eval-every",
        "3",
        "--tokens-max",
        "128",
        "--pad-multiple",
        "8",
        "--peak-tflops",
        "0.1",
        "--plain",
    ];
    args.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

/// What counts of a run: the figures of each step and each evaluation, to the bit, and the digests of the last checkpoint.
#[derive(Debug, PartialEq)]
pub(crate) struct Came {
    steps: BTreeMap<u64, [u64; 3]>,
    held_out: Vec<(u64, u64)>,
    files: BTreeMap<String, String>,
}

pub(crate) fn came(folder: &Path, steps_of_all: u64) -> Came {
    let TrainingRecords { records, .. } = read_records(folder).unwrap();
    let (mut steps, mut held_out) = (BTreeMap::new(), Vec::new());
    for record in &records {
        match record {
            Record::Step(step) => {
                let figures = [step.loss.unwrap(), step.grad_norm.unwrap(), step.rate].map(f64::to_bits);
                assert!(steps.insert(step.step, figures).is_none(), "step {} stands there twice", step.step);
            }
            Record::Evaluation { at, loss, .. } => held_out.push((at.slots, loss.unwrap().to_bits())),
            _ => {}
        }
    }
    let last = checkpoint::latest(&folder.join("checkpoints")).unwrap().checkpoint.unwrap();
    assert_eq!(last.state().step, steps_of_all);
    let files = last.state().files.iter().map(|(name, digest)| (name.clone(), digest.blake3.clone())).collect();
    Came { steps, held_out, files }
}

#[test]
fn a_killed_training_resumes_to_the_same_weights_bit_for_bit() {
    let kills: usize = std::env::var("LEGWORK_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let place = furnished();
    let output = place.run(&train("undisturbed", &[]));
    assert!(output.status.success(), "{}", err(&output));
    let undisturbed = came(&place.path("runs/undisturbed"), STEPS);
    assert_eq!(undisturbed.steps.len() as u64, STEPS);
    assert!(out(&output).contains("12 slots, 12 updates, loss "), "{}", out(&output));
    let mut rng = ChaCha8Rng::seed_from_u64(915);
    let mut hits: BTreeMap<&str, u32> = BTreeMap::new();
    for kill in 0..kills {
        let (run, folder) = (format!("kill-{kill}"), place.path(&format!("runs/kill-{kill}")));
        // Every third run is killed once more while it is resumed.
        for _ in 0..=u32::from(kill % 3 == 2) {
            let has_begun = folder.join("manifest.json").exists();
            let running = place.start(&train(&run, if has_begun { &["--resume"] } else { &[] }));
            let moment = MOMENTS[rng.random_range(0..MOMENTS.len())];
            running.says(moment);
            std::thread::sleep(Duration::from_micros(rng.random_range(0..20_000)));
            if running.kill().signal.is_some() {
                *hits.entry(moment).or_default() += 1;
            }
        }
        let has_begun = folder.join("manifest.json").exists();
        let output = place.run(&train(&run, if has_begun { &["--resume"] } else { &[] }));
        assert!(output.status.success(), "{run}: {}", err(&output));
        assert_eq!(came(&folder, STEPS), undisturbed, "{run}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
    eprintln!("{kills} trainings were killed: {hits:?}");
    assert!(kills == 0 || !hits.is_empty(), "none was killed in its midst");
}

#[test]
fn a_signal_finishes_the_step_writes_a_checkpoint_and_what_follows_is_the_same() {
    let place = furnished();
    assert!(place.run(&train("undisturbed", &[])).status.success());
    let undisturbed = came(&place.path("runs/undisturbed"), STEPS);
    for (signal, moment) in [("INT", "step 0/12  held out"), ("TERM", "step 4/12  checkpoint")] {
        let running = place.start(&train(signal, &[]));
        running.must_say(moment);
        running.signal(signal);
        let end = running.end();
        if end.code != Some(0) {
            assert_eq!(end.code, INCOMPLETE, "{}", end.err);
            assert!(end.err.contains(&format!("--out runs/{signal} and --resume")), "{}", end.err);
            let output = place.run(&train(signal, &["--resume"]));
            assert!(output.status.success(), "{}", err(&output));
        }
        assert_eq!(came(&place.path("runs").join(signal), STEPS), undisturbed, "{signal}");
    }
}

#[test]
fn a_run_is_not_begun_twice_and_not_resumed_with_other_inputs() {
    let place = furnished();
    let none = place.run(&train("a", &["--resume"]));
    assert_eq!(none.status.code(), Some(1));
    assert!(err(&none).contains("runs/a holds no training run"), "{}", err(&none));
    assert!(place.run(&train("a", &[])).status.success());
    let again = place.run(&train("a", &[]));
    assert!(err(&again).contains("holds a training run already; go on with it by --resume"), "{}", err(&again));
    let other = place.run(&train("a", &["--resume", "--seed", "7", "--decay", "0"]));
    assert_eq!(other.status.code(), Some(1));
    for told in ["settings.seed was 42, is 7", "settings.decay was 0.1, is 0.0"] {
        assert!(err(&other).contains(told), "{told:?} in {}", err(&other));
    }
    place.write("held.jsonl", &(std::fs::read_to_string(place.path("held.jsonl")).unwrap() + "\n"));
    let other = place.run(&train("a", &["--resume"]));
    assert!(err(&other).contains("inputs.eval was "), "{}", err(&other));
}

#[test]
fn a_trained_model_is_exported_and_has_learned() {
    let place = furnished();
    let mut rows = std::fs::read_to_string(place.path("rows.jsonl")).unwrap();
    rows.push_str("{\"messages\": []}\n");
    place.write("rows.jsonl", &rows);
    let refused = place.run(&train("sft", &["--tp", "2"]));
    assert!(err(&refused).contains("rows.jsonl:37"), "{}", err(&refused));
    let more = ["--tp", "2", "--bad-rows", "skip", "--epochs", "4", "--json"];
    let output = place.run(&train("sft", &more));
    assert!(output.status.success(), "{}", err(&output));
    let lines: Vec<serde_json::Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = lines.last().unwrap();
    let held_out = end["held_out"].as_array().unwrap();
    assert!(held_out[1].as_f64() < held_out[0].as_f64(), "it is better at what it never saw: {held_out:?}");
    let TrainingRecords { manifest, records, .. } = read_records(&place.path("runs/sft")).unwrap();
    assert_eq!((manifest.data.rows, manifest.data.slots, manifest.data.rows_never_used), (36, 48, 0));
    assert_eq!(manifest.data.skipped.values().sum::<u64>(), 1);
    let listed = std::fs::read_to_string(place.path("runs/sft/bad-rows.json")).unwrap();
    assert!(listed.contains("rows.jsonl"), "{listed}");
    let shares: f64 = manifest.data.sources.values().map(|share| share.gradient_share).sum();
    assert!((shares - 1.0).abs() < 1e-9 && manifest.data.sources.len() == 2);
    let has_mfu = |record: &Record| matches!(record, Record::Step(step) if step.mfu.is_some_and(|mfu| mfu > 0.0));
    assert!(records.iter().any(has_mfu));
    assert_eq!(std::fs::read_dir(place.path("runs/sft/tensorboard")).unwrap().count(), 1);
    let kept = place.run(&["verify", "runs/sft"]);
    assert!(kept.status.success() && out(&kept).contains("checkpoint of step 48"), "{}{}", out(&kept), err(&kept));
    let checkpoint = end["checkpoint"].as_str().unwrap();
    let exported = place.run(&["export", checkpoint, "--original", "model", "--out", "worker"]);
    assert!(exported.status.success(), "{}", err(&exported));
    let verified = place.run(&["verify", "worker", "--against", "model", "--checkpoint", checkpoint]);
    assert!(verified.status.success(), "{}{}", out(&verified), err(&verified));
}

#[test]
fn a_disk_that_fills_up_costs_no_more_than_the_steps_since_the_last_checkpoint() {
    let place = furnished();
    assert!(place.run(&train("undisturbed", &[])).status.success());
    let undisturbed = came(&place.path("runs/undisturbed"), STEPS);
    // Room for the manifest only, for no checkpoint, for one, and for nearly all.
    for (kib, kept) in [(12, None), (200, None), (500, Some(4)), (1_000, Some(8))] {
        let run = format!("full-{kib}");
        let folder = place.path("runs").join(&run);
        let Some(disk) = Mount::small(&folder, kib) else { return };
        let output = place.run(&train(&run, &[]));
        let said = err(&output);
        assert_eq!(output.status.code(), Some(1), "{run}: {said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(last.contains("has room") && last.contains("--resume"), "{run}: {last}");
        if let Some(step) = kept {
            assert!(last.contains(&format!("the checkpoint of step {step} is kept")), "{run}: {last}");
        }
        disk.grow(16_384);
        let output = place.run(&train(&run, &["--resume"]));
        assert!(output.status.success(), "{run}: {}", err(&output));
        assert_eq!(came(&folder, STEPS), undisturbed, "{run}");
    }
}

#[test]
fn two_replicas_learn_what_one_learns_and_the_manifest_names_them() {
    let place = furnished();
    for (run, more) in [("one", &[][..]), ("two", &["--dp", "2"])] {
        let done = place.run(&train(run, more));
        assert!(done.status.success(), "{}", err(&done));
    }
    let losses = |run: &str| -> Vec<f64> {
        let records = read_records(&place.path(&format!("runs/{run}"))).unwrap().records;
        let step = |record: &Record| if let Record::Step(step) = record { step.loss } else { None };
        records.iter().filter_map(step).collect()
    };
    let (one, two) = (losses("one"), losses("two"));
    assert_eq!((one.len() as u64, two.len()), (STEPS, one.len()));
    assert!(one.iter().zip(&two).all(|(one, two)| (one - two).abs() <= NEAR * one), "{one:?} {two:?}");
    let manifest: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("runs/two/manifest.json")).unwrap()).unwrap();
    let settings = &manifest["settings"];
    assert_eq!((&settings["dp"], &settings["device"]), (&serde_json::json!(2), &serde_json::json!("cpu")));
}

#[test]
fn a_card_that_is_not_there_is_refused_with_what_to_do_before_anything_is_made() {
    let place = furnished();
    // More cards than any machine has that this runs on.
    let refused = place.run(&train("cards", &["--device", "cuda:60,61", "--dp", "2"]));
    assert!(!refused.status.success());
    let told = err(&refused);
    assert!(told.contains("--features cuda") || told.contains("name others"), "{told}");
    assert!(!place.path("runs/cards").exists());
}
