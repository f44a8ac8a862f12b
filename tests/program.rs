//! The program itself, run as a user runs it.

mod mounts;
mod running;

pub(crate) use mounts::Mount;
pub(crate) use running::{End, Running};

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder to run the program in.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// The program with these arguments, not yet started.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_legwork"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_remove("LEGWORK_LOG").env_remove("RANK");
        command
    }

    /// Starts it, to be watched.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: &[S]) -> Running {
        Running::start(self.command(args))
    }

    /// Starts it with these variables beside its environment, to be watched.
    pub(crate) fn start_with<S: AsRef<OsStr>>(&self, args: &[S], variables: &[(&str, String)]) -> Running {
        let mut command = self.command(args);
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        Running::start(command)
    }

    /// Runs it to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Output {
        self.command(args).output().unwrap()
    }
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {} {}", out(output), err(output)))
}

#[test]
fn the_main_job_prints_a_table_and_writes_its_report() {
    let place = Place::new();
    let output = place.run(&["eval", "-p", "archive-mock", "--questions-per-tier", "4", "--run", "runs/a"]);
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    for expected in ["easy", "medium", "hard", "MOCK WORKER"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    for file in ["report.html", "report.md", "report.json"] {
        assert!(place.path("runs/a").join(file).exists(), "{file}");
    }
    let replayed = place.run(&["replay", "runs/a", "--json"]);
    assert_eq!(replayed.status.code(), Some(0), "{}", out(&replayed));
    let replayed = json(&replayed);
    assert_eq!((&replayed["episodes"], &replayed["model_calls"]), (&12.into(), &0.into()));
    assert!(place.run(&["verify", "runs/a"]).status.success());
    let rebuilt = place.run(&["ledger", "rebuild", "runs/a"]);
    assert!(out(&rebuilt).contains("they equal those that were there"), "{}{}", out(&rebuilt), err(&rebuilt));
}

#[test]
fn a_run_is_exported_in_every_form() {
    let place = Place::new();
    assert!(place.run(&["eval", "-p", "archive-mock", "--questions", "3", "--run", "runs/a"]).status.success());
    for format in ["trajectories", "gate", "browsecomp-plus", "foldagent", "trec", "inspect", "csv"] {
        let output = place.run(&["ledger", "export", format, "runs/a", "--out", format, "--all", "--json"]);
        assert!(output.status.success(), "{format}: {}", err(&output));
        assert!(json(&output)["written"].as_u64().unwrap() > 0, "{format}: {}", out(&output));
        assert!(place.path(format).exists());
    }
    let again = place.run(&["ledger", "export", "csv", "runs/a", "--out", "csv"]);
    assert!(err(&again).contains("is there already"), "{}", err(&again));
}

#[test]
fn a_changed_record_breaks_the_chain_and_a_changed_file_is_named() {
    let place = Place::new();
    assert!(place.run(&["eval", "-p", "archive-mock", "--questions", "2", "--run", "runs/a"]).status.success());
    let database = place.path("runs/a/run.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let needle = b"<function=search>";
    let at = bytes.windows(needle.len()).rposition(|window| window == needle).unwrap();
    bytes[at + 1] = b'F';
    std::fs::write(&database, bytes).unwrap();
    let output = place.run(&["verify", "runs/a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("the chain breaks at event"), "{}", err(&output));
}

#[test]
fn two_skills_are_compared_question_by_question() {
    let place = Place::new();
    for (run, skill) in [("runs/a", "novice"), ("runs/b", "perfect")] {
        let set = format!("models.worker.skill=\"{skill}\"");
        let output =
            place.run(&["eval", "-p", "archive-mock", "--questions-per-tier", "5", "--run", run, "--set", &set]);
        assert!(output.status.success(), "{}", err(&output));
    }
    let output = place.run(&["compare", "runs/a", "runs/b", "--html", "compare.html"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).to_lowercase().contains("mcnemar"), "{}", out(&output));
    assert!(place.path("compare.html").exists());
    let refused = place.run(&["eval", "-p", "archive-mock", "--questions-per-tier", "4", "--run", "runs/c"]);
    assert!(refused.status.success());
    let refused = place.run(&["compare", "runs/a", "runs/c"]);
    assert_eq!(refused.status.code(), Some(1), "different question sets are not compared");
    assert!(err(&refused).contains("question_set"), "{}", err(&refused));
}

#[test]
fn a_resumed_run_refuses_another_manifest_and_names_the_difference() {
    let place = Place::new();
    assert!(place.run(&["eval", "-p", "archive-mock", "--questions", "3", "--run", "runs/a"]).status.success());
    let again = ["eval", "-p", "archive-mock", "--questions", "3", "--resume", "runs/a", "--set", "worker.turns_max=9"];
    let output = place.run(&again);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("profile.worker.turns_max was 20, is 9"), "{}", err(&output));
    let mut accepted = again.to_vec();
    accepted.extend(["--accept", "profile.worker"]);
    let output = place.run(&accepted);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&place.run(&["verify", "runs/a"])).contains("accepted on resume: profile.worker.turns_max"));
}

#[test]
fn a_fork_keeps_what_came_before_its_turn() {
    let place = Place::new();
    let run = ["eval", "-p", "archive-mock", "--questions", "3", "--coordinator", "model", "--run", "runs/a"];
    let output = place.run(&run);
    assert!(output.status.success(), "{}", err(&output));
    let fork = [
        "fork",
        "runs/a",
        "-p",
        "archive-mock",
        "--turn",
        "1",
        "--run",
        "runs/b",
        "--set",
        "coordinator.kind=model",
        "--set",
        "run.questions=3",
    ];
    let output = place.run(&fork);
    assert!(output.status.success(), "{}", err(&output));
    let replayed = json(&place.run(&["replay", "runs/b", "--json"]));
    assert_eq!(replayed["ended"], 3);
    let events = out(&place.run(&["ledger", "events", "runs/b", "--question", "nobody"]));
    assert!(events.is_empty());
}

#[test]
fn what_is_wrong_is_said_in_one_line_with_its_exit_code() {
    let place = Place::new();
    let bad: [(&[&str], i32, &str); 6] = [
        (&["eval", "--set", "worker.turn_max=3"], 2, "did you mean `turns_max`"),
        (&["eval", "-p", "crad"], 2, "did you mean `card`"),
        (&["eval", "-p", "archive-mock", "--tier", "impossible"], 1, "no question is left"),
        (&["report", "nowhere"], 1, "holds no run"),
        (
            &["eval", "-p", "archive-mock", "--set", "models.worker.mock=\"genius\""],
            1,
            "expected oracle, teacher, trail, instant, believing or comparing",
        ),
        (&["evaluate"], 2, "unrecognized subcommand"),
    ];
    for (args, code, text) in bad {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(text), "{args:?}: {}", err(&output));
    }
}

#[test]
fn the_configuration_is_shown_with_origins_and_without_keys() {
    let place = Place::new();
    let file = "[models.worker]\nkind = \"openai\"\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nkey = \"sk-very-secret\"\n";
    place.write("bad.toml", file);
    let output = place.run(&["config", "show", "-c", "bad.toml"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(!format!("{}{}", out(&output), err(&output)).contains("sk-very-secret"), "{}", err(&output));
    let output = place.run(&["config", "show", "-p", "card", "--set", "world={kind=\"archive\",seed=1}"]);
    assert!(out(&output).contains("worker.budget_tokens = 24576"), "{}{}", out(&output), err(&output));
}

#[test]
fn how_many_run_at_once_does_not_change_a_score() {
    let place = Place::new();
    let mut seen = Vec::new();
    for at_once in ["1", "8", "64"] {
        let run = format!("runs/{at_once}");
        let args = [
            "eval",
            "-p",
            "archive-mock",
            "--questions-per-tier",
            "6",
            "--concurrency",
            at_once,
            "--run",
            &run,
            "--quiet",
        ];
        assert!(place.run(&args).status.success());
        let mut records = legwork_actors::ledger::LedgerReader::open(&place.path(&run)).unwrap().records().unwrap();
        // Time is the machine's own; everything else must be equal.
        records.iter_mut().for_each(|record| {
            record.turn_served_ms.clear();
            record.workers_spent.served_ms = 0;
        });
        seen.push(records);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}

#[test]
fn completions_are_printed_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let output = place.run(&["completions", shell]);
        assert!(output.status.success() && out(&output).contains("legwork"), "{shell}");
    }
}

#[test]
fn an_index_is_built_searched_and_measured() {
    let place = Place::new();
    assert!(place.run(&["world", "--out", "world"]).status.success());
    let output = place.run(&["index", "world/corpus.jsonl", "--out", "index"]);
    assert!(output.status.success(), "{}", err(&output));
    let found = json(&place.run(&["retrieve", "index", "founder of the observatory", "-k", "3", "--json"]));
    assert_eq!(found.as_array().unwrap().len(), 3);
    let docid = found[0]["docid"].as_str().unwrap();
    place.write("queries.jsonl", "{\"id\": \"1\", \"text\": \"founder of the observatory\"}\n");
    place.write("qrels.tsv", &format!("1\t0\t{docid}\t1\n"));
    let args =
        ["retrieve", "index", "--queries", "queries.jsonl", "--qrels", "qrels.tsv", "--out", "run.trec", "--json"];
    let measures = json(&place.run(&args));
    assert_eq!(measures["recip_rank"], 1.0);
    assert!(Path::new(&place.path("run.trec")).exists());
    place.write("broken.jsonl", "{\"docid\": \"1\", \"text\": \"a\"}\n{\"docid\": 12, \"text\": \"b\"}\n");
    let output = place.run(&["index", "broken.jsonl", "--out", "other"]);
    assert!(err(&output).contains("broken.jsonl") && err(&output).contains('2'), "{}", err(&output));
}
