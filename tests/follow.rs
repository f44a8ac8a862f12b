//! `legwork train --follow` as a user meets it: a training beside an eval that goes on, one of a run that was broken off and gone
//! on with, and one that is killed and resumed; each is held to the export of the same run and to an undisturbed training.

use crate::program::{Place, err, out};
use crate::training::{Came, came};
use legwork_actors::ledger::LedgerReader;
use legwork_actors::trainer::{Record, TrainingRecords, read_records};
use legwork_protocol::id::EpisodeKey;
use std::collections::BTreeMap;

const INCOMPLETE: Option<i32> = Some(3);
/// Rows of a slot.
const BATCH: usize = 2;
/// Questions of a run; the perfect worker makes one row of each.
const QUESTIONS: usize = 7;
/// Slots that they fill: one row is left.
const STEPS: u64 = 3;

/// A place with an untrained model that knows the archive's words.
fn furnished() -> Place {
    let place = Place::new();
    let seed = place.run(&eval("words", 0, &["--questions", "3"]));
    assert!(seed.status.success(), "{}", err(&seed));
    let exported = place.run(&["ledger", "export", "trajectories", "runs/words", "--out", "words.jsonl"]);
    assert!(exported.status.success(), "{}", err(&exported));
    let init = "init --out model --texts words.jsonl --vocabulary 1024 --hidden 16 --ffn 24 --layers 1 --heads 2 --kv-heads 1 \
                --context 16384";
    let made = place.run(&init.split_whitespace().collect::<Vec<_>>());
    assert!(made.status.success(), "{}", err(&made));
    place
}

fn eval(run: &str, latency_ms: u32, more: &[&str]) -> Vec<String> {
    let (folder, latency) = (format!("runs/{run}"), format!("models.worker.latency_ms={latency_ms}"));
    let skill = "models.worker.skill=\"perfect\"";
    let args = ["eval", "-p", "archive-mock", "--tier", "easy", "--set", skill, "--set", &latency, "--plain"];
    let place = if more.contains(&"--resume") { [].as_slice() } else { &["--run", folder.as_str()] };
    let pace = if more.contains(&"--concurrency") { [].as_slice() } else { &["--concurrency", "3"] };
    args.iter().chain(place).chain(pace).chain(more).map(|arg| (*arg).to_owned()).collect()
}

fn train(training: &str, run: &str, more: &[&str]) -> Vec<String> {
    let line = format!(
        "train --follow runs/{run} --split train --model model --out trained/{training} --batch {BATCH} --lr 1e-2 --save-every 2 \
         --tokens-max 4096 --pad-multiple 8 --peak-tflops 0.1 --plain"
    );
    line.split_whitespace().chain(more.iter().copied()).map(str::to_owned).collect()
}

/// The lines of a training's list.
fn followed(place: &Place, training: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(place.path(&format!("trained/{training}/followed.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The digests of an export's lines, by the episodes' questions.
fn exported(place: &Place, run: &str) -> BTreeMap<String, String> {
    let path = format!("{run}.jsonl");
    let output =
        place.run(&["ledger", "export", "trajectories", &format!("runs/{run}"), "--out", &path, "--split", "train"]);
    assert!(output.status.success(), "{}", err(&output));
    let text = std::fs::read_to_string(place.path(&path)).unwrap();
    let row = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        (row["metadata"]["episode"].as_str().unwrap().to_owned(), blake3::hash(line.as_bytes()).to_hex().to_string())
    };
    text.lines().map(row).collect()
}

/// The list holds the export's rows, each once, in the order in which their episodes' records were written.
#[track_caller]
fn holds_the_export(place: &Place, training: &str, run: &str) {
    let list = followed(place, training);
    let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
    let rows: BTreeMap<String, String> = list.iter().map(|line| (text(line, "episode"), text(line, "row"))).collect();
    assert_eq!(rows.len(), list.len(), "each row once");
    assert_eq!(rows, exported(place, run));
    let reader = LedgerReader::open(&place.path("runs").join(run)).unwrap();
    let ended = reader.ended_after(0).unwrap();
    assert_eq!(ended.len(), reader.records().unwrap().len());
    let questions =
        |ended: &[(EpisodeKey, u64)]| ended.iter().map(|(key, _)| key.question.to_string()).collect::<Vec<_>>();
    assert_eq!(list.iter().map(|line| text(line, "episode")).collect::<Vec<_>>(), questions(&ended));
    for (at, (_, place)) in ended.iter().enumerate() {
        assert_eq!(reader.ended_after(*place).unwrap(), ended[at + 1..], "what was seen once is never seen again");
    }
}

#[test]
fn a_training_beside_an_eval_takes_the_rows_that_the_export_writes_afterwards() {
    let place = furnished();
    // The training is there first and waits for the run.
    let training = place.start(&train("live", "a", &["--eval", "words.jsonl", "--slots", "8"]));
    let running = place.start(&eval("a", 60, &["--questions", &QUESTIONS.to_string()]));
    training.must_say("on runs/a as its 7 episodes end: slots of 2; the rate is planned for 8 slots");
    training.must_say("step 1  ");
    assert_eq!(running.end().code, Some(0));
    let end = training.end();
    assert_eq!(end.code, Some(0), "{}", end.err);
    assert!(end.err.contains("step 3  held out: loss"), "{}", end.err);
    holds_the_export(&place, "live", "a");
    let list = followed(&place, "live");
    let TrainingRecords { manifest, records, .. } = read_records(&place.path("trained/live")).unwrap();
    assert_eq!(manifest.settings["follow"]["split"], "train");
    let steps: Vec<_> =
        records.iter().filter_map(|record| if let Record::Step(step) = record { Some(step) } else { None }).collect();
    assert_eq!(steps.len() as u64, STEPS, "the last row fills no slot");
    for (step, rows) in steps.iter().zip(list.chunks(BATCH)) {
        let tokens: u64 = rows.iter().map(|row| row["tokens"].as_u64().unwrap()).sum();
        assert_eq!(step.tokens, tokens, "step {}", step.step);
    }
    assert!(steps[0].rate == 0.0 && (9.9e-3..1e-2).contains(&steps[1].rate), "of 16 samples 1.6 are for the warm-up");
    let verified = place.run(&["verify", "trained/live"]);
    assert!(verified.status.success() && out(&verified).contains("checkpoint of step 3"), "{}", out(&verified));
}

#[test]
fn a_killed_training_of_a_run_resumes_to_the_weights_of_an_undisturbed_one() {
    let place = furnished();
    let run = place.run(&eval("a", 0, &["--questions", &QUESTIONS.to_string()]));
    assert!(run.status.success(), "{}", err(&run));
    let undisturbed = place.run(&train("undisturbed", "a", &[]));
    assert!(undisturbed.status.success(), "{}", err(&undisturbed));
    assert!(out(&undisturbed).contains("runs/a: 7 rows of 7 of 7 episodes, 6 used"), "{}", out(&undisturbed));
    let expected: Came = came(&place.path("trained/undisturbed"), STEPS);
    let list = followed(&place, "undisturbed");
    for moment in ["MFU is of", "step 2  checkpoint"] {
        let training = place.start(&train("killed", "a", &[]));
        training.says(moment);
        let _has_ended_perhaps = training.kill();
        let has_begun = place.path("trained/killed/manifest.json").exists();
        let output = place.run(&train("killed", "a", if has_begun { &["--resume"] } else { &[] }));
        assert!(output.status.success(), "{moment}: {}", err(&output));
        assert_eq!(came(&place.path("trained/killed"), STEPS), expected, "{moment}");
        assert_eq!(followed(&place, "killed"), list, "{moment}");
        std::fs::remove_dir_all(place.path("trained/killed")).unwrap();
    }
    // A list that says otherwise is no list of this run.
    let path = place.path("trained/undisturbed/followed.jsonl");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replacen("core", "gate", 1)).unwrap();
    let refused = place.run(&train("undisturbed", "a", &["--resume"]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("followed.jsonl:1: expected the run to have the row"), "{}", err(&refused));
}

#[test]
fn a_run_that_was_broken_off_is_trained_on_as_far_as_it_came_and_the_rest_when_it_was_gone_on_with() {
    let place = furnished();
    let questions = ["--questions", &QUESTIONS.to_string()];
    let training = place.start(&train("a", "a", &[]));
    // One after the other, so that much is left when the first slot is full.
    let running = place.start(&eval("a", 300, &[&questions[..], &["--concurrency", "1"]].concat()));
    training.must_say("step 1  ");
    running.signal("INT");
    assert_eq!(running.end().code, INCOMPLETE, "the one inside ends and no others enter");
    training.must_say("episodes have ended and are taken; the others are waited for, until Ctrl-C");
    training.signal("INT");
    let end = training.end();
    assert_eq!(end.code, INCOMPLETE, "{}", end.err);
    assert!(end.err.contains("--out trained/a and --resume"), "{}", end.err);
    let before = followed(&place, "a");
    assert!((BATCH..QUESTIONS).contains(&before.len()), "{before:?}");
    let TrainingRecords { records, .. } = read_records(&place.path("trained/a")).unwrap();
    let steps = records.iter().filter(|record| matches!(record, Record::Step(_))).count();
    assert!((1..=before.len() / BATCH).contains(&steps), "{steps} steps over {} rows", before.len());
    let checkpoint = format!("the checkpoint of step {steps} is as it was written");
    assert!(out(&place.run(&["verify", "trained/a"])).contains(&checkpoint));
    let rest = place.run(&eval("a", 300, &[&questions[..], &["--resume", "runs/a"]].concat()));
    assert!(rest.status.success(), "{}", err(&rest));
    let resumed = place.run(&train("a", "a", &["--resume"]));
    assert!(resumed.status.success(), "{}", err(&resumed));
    assert_eq!(followed(&place, "a")[..before.len()], before, "what was seen first stays first");
    holds_the_export(&place, "a", "a");
    let undisturbed = place.run(&train("b", "a", &[]));
    assert!(undisturbed.status.success(), "{}", err(&undisturbed));
    assert_eq!(came(&place.path("trained/a"), STEPS), came(&place.path("trained/b"), STEPS));
}

#[test]
fn a_run_that_is_not_there_or_another_one_is_told() {
    let place = furnished();
    let other = place.run(&train("a", "words", &["--bad-rows", "skip", "--length-max", "600"]));
    assert!(other.status.success(), "{}", err(&other));
    let list = followed(&place, "a");
    assert!(list.iter().all(|row| row["skipped"] == true), "each row is longer: {list:?}");
    let bad = std::fs::read_to_string(place.path("trained/a/bad-rows.json")).unwrap();
    assert!(bad.contains("followed.jsonl") && bad.contains("too_long"), "{bad}");
    let refused = place.run(&train("b", "words", &["--length-max", "600"]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("followed.jsonl:1: "), "{}", err(&refused));
    assert!(place.run(&eval("c", 0, &["--questions", "3"])).status.success());
    let other = place.run(&train("a", "c", &["--resume", "--bad-rows", "skip", "--length-max", "600"]));
    assert!(err(&other).contains("inputs.run was "), "{}", err(&other));
}
