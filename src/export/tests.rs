mod gate;
mod play;

use super::*;
use legwork_protocol::call::Call;
use legwork_protocol::coordinator::CoordinatorEvent;
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::id::Scope;
use legwork_protocol::message::Role;
use legwork_protocol::profile::CoordinatorKind;
use legwork_protocol::worker::WorkerEvent;
use legwork_training::JsonlReader;
use legwork_training::trajectory::{ChatRow, IdRow, SpanKind, Why};
use play::{Lines, finishes, play, question, says, searches, with_ids};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Four questions of a direct run: right, wrong, failed, never begun.
fn direct() -> (TempDir, LedgerReader) {
    let folder = tempfile::tempdir().unwrap();
    let questions = [question("q1", "easy"), question("q2", "easy"), question("q 3", "hard"), question("q4", "hard")];
    let workers = |turns| Lines { workers: vec![turns], ..Lines::default() };
    let lines = [
        workers(vec![
            searches("ada"),
            says("read", Call::new("open_page", [("docid", "d1")])),
            finishes("Ada Lovelace"),
        ]),
        workers(vec![searches("bob"), finishes("=Bob, \"the\" other")]),
        workers(vec![searches("cut")]),
    ];
    let reader = play(&folder.path().join("run"), CoordinatorKind::Direct, 1, &questions, &lines);
    (folder, reader)
}

/// One question of a run whose coordinator asks two workers, of which the second is wrong, and answers rightly.
fn delegated(second: Vec<legwork_protocol::generation::Completion>) -> (TempDir, LedgerReader) {
    let folder = tempfile::tempdir().unwrap();
    let delegate = Call::new("delegate", [("brief", "the first part"), ("brief", "the second part")]);
    let answer = Call::new("answer", [("answer", "Ada Lovelace"), ("explanation", "both agree"), ("confidence", "80")]);
    let first = vec![
        with_ids(searches("ada"), &[1, 2], &[3, 4]),
        with_ids(finishes("ada lovelace"), &[1, 2, 3, 4, 9, 9], &[5]),
    ];
    let lines =
        Lines { coordinator: vec![says("plan", delegate), says("sum up", answer)], workers: vec![first, second] };
    let reader = play(&folder.path().join("run"), CoordinatorKind::Model, 1, &[question("q1", "easy")], &[lines]);
    (folder, reader)
}

fn written(
    folder: &TempDir,
    reader: &LedgerReader,
    format: Format,
    options: &Options,
) -> (std::path::PathBuf, Summary) {
    let out = folder.path().join(format!("out.{format}"));
    let summary = export(reader, format, &out, options).unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("making")), "nothing is left behind: {left:?}");
    (out, summary)
}

fn json_of(folder: &TempDir, reader: &LedgerReader, format: Format) -> (Value, Summary) {
    let (out, summary) = written(folder, reader, format, &Options::default());
    (serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap(), summary)
}

fn chat_rows(folder: &TempDir, reader: &LedgerReader, options: &Options) -> (Vec<ChatRow>, Summary) {
    let (out, summary) = written(folder, reader, Format::Trajectories, options);
    let rows = JsonlReader::open(&out).unwrap().map(Result::unwrap).collect();
    std::fs::remove_file(out).unwrap();
    (rows, summary)
}

#[test]
fn trajectories_are_the_conversations_of_workers_that_finished_in_episodes_that_were_right() {
    let (folder, reader) = direct();
    let options = Options { split: Some("train".into()), ..Options::default() };
    let (rows, summary) = chat_rows(&folder, &reader, &options);
    assert_eq!((summary.planned, summary.ended, summary.written, rows.len()), (4, 3, 1, 1));
    assert_eq!(
        summary.left_out,
        BTreeMap::from([("episodes not graded correct", 2), ("episodes that have not ended", 1)])
    );
    let row = &rows[0];
    let roles: Vec<Role> = row.messages.iter().map(|message| message.role).collect();
    assert_eq!(
        roles,
        [Role::System, Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User, Role::Assistant]
    );
    assert!(row.messages[1].content.contains("Which answer has q1?"));
    assert!(row.messages[2].content.starts_with("<think>\nlook\n</think>"), "thinking is kept");
    assert!(row.messages[3].content.contains("the text of d2"));
    assert!(row.messages[6].content.contains("<function=finish>"));
    assert_eq!(row.supervised(), 3);
    let metadata = &row.metadata;
    assert_eq!(
        metadata.question_hash.as_deref(),
        Some(legwork_worlds::contamination::question_hash("Which answer has q1?").as_str())
    );
    let named = [&metadata.episode, &metadata.scope, &metadata.outcome, &metadata.split, &metadata.source];
    assert_eq!(named.map(|name| name.as_deref().unwrap()), ["q1", "worker/0", "correct", "train", "core"]);
    assert_eq!((metadata.round, metadata.turns), (Some(0), Some(3)));
}

#[test]
fn all_episodes_are_rows_where_that_is_asked_for() {
    let (folder, reader) = direct();
    let options = Options { episodes: Episodes::All, ..Options::default() };
    let (rows, summary) = chat_rows(&folder, &reader, &options);
    let sources: Vec<_> = rows.iter().map(|row| row.metadata.source.clone().unwrap()).collect();
    assert_eq!(sources, ["core", "unsuccessful"]);
    assert_eq!(
        summary.left_out,
        BTreeMap::from([("episodes that have not ended", 1), ("workers that did not finish", 1)])
    );
}

#[test]
fn the_last_report_of_a_worker_that_was_wrong_in_an_episode_that_was_right_is_out_of_the_loss() {
    let (folder, reader) = delegated(vec![searches("bob"), finishes("Bob")]);
    let (rows, _) = chat_rows(&folder, &reader, &Options::default());
    let masks = |row: &ChatRow| -> Vec<bool> {
        (0..row.messages.len())
            .filter(|place| row.messages[*place].role == Role::Assistant)
            .map(|place| row.is_supervised(place))
            .collect()
    };
    let got: Vec<_> = rows.iter().map(|row| (row.metadata.source.as_deref().unwrap(), masks(row))).collect();
    assert_eq!(got, [("core", vec![true, true]), ("process", vec![true, false])]);
    let (rows, summary) = chat_rows(&folder, &reader, &Options { process_rows: false, ..Options::default() });
    assert_eq!((rows.len(), summary.left_out["workers that concluded wrongly"]), (1, 1));
}

#[test]
fn of_each_conversation_only_the_first_turns_that_are_asked_for_are_kept() {
    let (folder, reader) = delegated(vec![searches("bob"), finishes("Bob")]);
    let (whole, _) = chat_rows(&folder, &reader, &Options::default());
    let options = |turns| Options { first_turns: NonZeroU32::new(turns), ..Options::default() };
    let (first, _) = chat_rows(&folder, &reader, &options(1));
    assert_eq!(first[1].messages, whole[1].messages[..3]);
    assert_eq!(chat_rows(&folder, &reader, &options(9)).0, whole);
}

#[test]
fn a_row_with_nothing_in_the_loss_is_left_out_and_counted() {
    let (folder, reader) = delegated(vec![finishes("Bob")]);
    let (rows, summary) = chat_rows(&folder, &reader, &Options::default());
    assert_eq!((rows.len(), summary.left_out["rows with nothing in the loss"]), (1, 1));
}

fn id_rows(folder: &TempDir, reader: &LedgerReader) -> (Vec<IdRow>, Summary) {
    let (out, summary) = written(folder, reader, Format::TokenIds, &Options::default());
    (JsonlReader::open(&out).unwrap().map(Result::unwrap).collect(), summary)
}

#[test]
fn ids_are_kept_as_the_server_gave_them_and_say_who_made_them() {
    let (folder, reader) = delegated(vec![searches("no ids"), finishes("Bob")]);
    let (rows, summary) = id_rows(&folder, &reader);
    assert_eq!(summary.left_out, BTreeMap::from([("conversations with a turn whose server gave no ids", 1)]));
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].prompt_ids, [1, 2]);
    let spans: Vec<_> = rows[0]
        .spans
        .iter()
        .map(|span| (span.actor.as_str(), span.turn, span.kind, span.ids.as_slice(), span.masked))
        .collect();
    assert_eq!(
        spans,
        [
            ("worker/0", 0, SpanKind::Sampled, &[3, 4][..], false),
            ("environment", 1, SpanKind::Injected, &[9, 9][..], true),
            ("worker/0", 1, SpanKind::Sampled, &[5][..], false),
        ]
    );
    assert_eq!(rows[0].spans[0].logprobs, [-0.5, -0.5]);
}

#[test]
fn a_turn_that_is_no_continuation_begins_a_new_row_and_is_counted() {
    let drifted = vec![
        with_ids(searches("bob"), &[1, 2], &[3]),
        with_ids(searches("bob again"), &[1, 2, 8], &[4]),
        with_ids(finishes("Bob"), &[1, 2, 8, 4], &[6]),
    ];
    let (folder, reader) = delegated(drifted);
    let (rows, summary) = id_rows(&folder, &reader);
    let drift = "joins of turns whose prompt is no continuation: a new row begins there";
    assert_eq!(summary.left_out, BTreeMap::from([(drift, 1)]));
    let of_second: Vec<_> = rows.iter().filter(|row| row.metadata.scope.as_deref() == Some("worker/1")).collect();
    assert_eq!(of_second.len(), 2);
    assert_eq!((&of_second[0].prompt_ids[..], &of_second[1].prompt_ids[..]), (&[1, 2][..], &[1, 2, 8][..]));
    let whys: Vec<Why> = of_second[1].spans.iter().map(|span| span.why).collect();
    assert_eq!(whys, [Why::Sampled, Why::WrongConclusion], "nothing was put in between, and the last report is out");
    assert_eq!(of_second[1].metadata.other["part"], json!([1, 2]));
}

#[test]
fn browsecomp_plus_has_a_file_for_every_planned_question() {
    let (folder, reader) = direct();
    let (out, summary) = written(&folder, &reader, Format::BrowsecompPlus, &Options::default());
    assert_eq!(summary.written, 4);
    let read = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(out.join(name)).unwrap()).unwrap() };
    let right = read("q1.json");
    assert_eq!(right["query_id"], "q1");
    assert_eq!(
        (&right["status"], &right["tool_call_counts"]),
        (&json!("completed"), &json!({"search": 1, "open_page": 1}))
    );
    assert_eq!(right["retrieved_docids"], json!(["d2", "d1"]));
    let results = right["result"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    assert_eq!(
        results[0],
        json!({"type": "tool_call", "tool_name": "search", "arguments": "{\"query\":\"ada\"}", "output": null})
    );
    assert_eq!(results[2]["type"], "output_text");
    assert_eq!(results[2]["output"], "Explanation: as read, \"there\"\nExact Answer: Ada Lovelace\nConfidence: 90%");
    assert_eq!((&read("q2.json")["status"], &read("q4.json")["status"]), (&json!("completed"), &json!("not_ended")));
    let mut names: Vec<_> =
        std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names[3].starts_with("xq_3-"), "an id that is no file name is made one: {names:?}");
    assert_eq!(read(&names[3])["query_id"], "q 3");
    assert_eq!(read(&names[3])["status"], "failed");
}

#[test]
fn foldagents_results_count_every_planned_episode_and_call_a_failure_a_failure() {
    let (folder, reader) = direct();
    let (results, _) = json_of(&folder, &reader, Format::Foldagent);
    assert_eq!(
        results,
        json!({
            "avg_score": 0.25,
            "by_source": {"easy": {"avg_score": 0.5, "count": 2}, "hard": {"avg_score": 0.0, "count": 2}},
            "results": [
                {"instance_id": "q1", "data_source": "easy", "score": 1.0, "status": "correct"},
                {"instance_id": "q2", "data_source": "easy", "score": 0.0, "status": "wrong"},
                {"instance_id": "q 3", "data_source": "hard", "score": 0.0, "status": "failed"},
                {"instance_id": "q4", "data_source": "hard", "score": 0.0, "status": "not_ended"},
            ],
        })
    );
}

#[test]
fn a_trec_run_ranks_what_was_shown_and_refuses_an_id_that_is_two_columns() {
    let (folder, reader) = delegated(vec![searches("more"), finishes("Bob")]);
    let (out, summary) = written(&folder, &reader, Format::Trec, &Options::default());
    assert_eq!(summary.written, 2);
    let run = std::fs::read_to_string(out).unwrap();
    let lines: Vec<Vec<&str>> = run.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.iter().map(|line| line[..5].join(" ")).collect::<Vec<_>>(), ["q1 Q0 d2 1 2", "q1 Q0 d1 2 1"]);
    assert!(lines.iter().all(|line| line.len() == 6), "{run}");
    let (folder, reader) = direct();
    let refused = export(&reader, Format::Trec, &folder.path().join("run.trec"), &Options::default()).unwrap_err();
    assert!(refused.to_string().contains("the question `q 3` is blank or holds white space"), "{refused}");
    assert!(!folder.path().join("run.trec").exists());
}

#[test]
fn an_inspect_log_holds_results_before_samples_and_every_conversation() {
    let (folder, reader) = delegated(vec![searches("bob"), finishes("Bob")]);
    let (out, _) = written(&folder, &reader, Format::Inspect, &Options::default());
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.find("\"results\"").unwrap() < text.find("\"samples\":[").unwrap());
    let log: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&log["version"], &log["status"], &log["eval"]["created"]),
        (&json!(2), &json!("success"), &json!("2026-11-30T08:55:11.042+00:00"))
    );
    assert_eq!(log["results"]["scores"][0]["metrics"]["accuracy"]["value"], 1.0);
    let sample = &log["samples"][0];
    assert_eq!(
        (&sample["id"], &sample["epoch"], &sample["scores"]["legwork"]["value"]),
        (&json!("q1"), &json!(1), &json!("C"))
    );
    let scopes: Vec<&str> = sample["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["metadata"]["scope"].as_str().unwrap())
        .collect();
    assert_eq!(scopes, [vec!["coordinator"; 5], vec!["worker/0"; 5], vec!["worker/1"; 5]].concat());
    assert_eq!(
        sample["model_usage"]["worker: mock lines"],
        json!({"input_tokens": 160, "input_tokens_cache_read": 40, "output_tokens": 20, "total_tokens": 220})
    );
    assert_eq!(sample["output"]["completion"], "Explanation: both agree\nExact Answer: Ada Lovelace\nConfidence: 80%");
}

#[test]
fn a_mind_that_searches_itself_is_trained_on_by_its_main_line() {
    let folder = tempfile::tempdir().unwrap();
    let branch = Call::new("branch", [("description", "d"), ("prompt", "look into it")]);
    let back = Call::new("return", [("message", "it is Ada")]);
    let coordinator =
        vec![searches("ada"), says("split", branch), searches("closer"), says("back", back), finishes("Ada Lovelace")];
    let lines = [Lines { coordinator, ..Lines::default() }];
    let reader = play(&folder.path().join("run"), CoordinatorKind::Fold, 1, &[question("q1", "easy")], &lines);
    let (rows, summary) = chat_rows(&folder, &reader, &Options::default());
    assert_eq!(summary.left_out, BTreeMap::new());
    let metadata = &rows[0].metadata;
    assert_eq!((metadata.scope.as_deref(), metadata.source.as_deref()), (Some("coordinator"), Some("core")));
    let said: Vec<&str> = rows[0].messages.iter().map(|message| message.content.as_str()).collect();
    assert!(!said.iter().any(|text| text.contains("closer")), "what a branch did is not on the main line");
    assert!(said.iter().any(|text| text.contains("it is Ada")));
    let (out, _) = written(&folder, &reader, Format::BrowsecompPlus, &Options::default());
    let file: Value = serde_json::from_slice(&std::fs::read(out.join("q1.json")).unwrap()).unwrap();
    let calls: Vec<&str> =
        file["result"].as_array().unwrap().iter().filter_map(|step| step["arguments"].as_str()).collect();
    assert_eq!(calls, [r#"{"query":"ada"}"#, r#"{"query":"closer"}"#], "each call once, a branch's too");
}

#[test]
fn an_inspect_log_in_a_folder_has_a_name_that_inspect_lists() {
    let (folder, reader) = direct();
    let logs = folder.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let summary = export(&reader, Format::Inspect, &logs, &Options::default()).unwrap();
    let name = summary.out.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("2026-11-30T08-55-11-042-00-00_toy_xa-test-s-run-") && name.ends_with(".json"), "{name}");
    let again = export(&reader, Format::Inspect, &logs, &Options::default()).unwrap_err();
    assert!(matches!(again, ExportError::Exists { .. }), "{again}");
}

#[test]
fn an_inspect_log_of_a_run_that_was_stopped_says_so_and_keeps_the_denominator() {
    let (folder, reader) = direct();
    let (log, summary) = json_of(&folder, &reader, Format::Inspect);
    assert_eq!(
        (&log["status"], &log["results"]["total_samples"], &log["results"]["completed_samples"]),
        (&json!("cancelled"), &json!(4), &json!(3))
    );
    assert_eq!(log["results"]["scores"][0]["metrics"]["accuracy"]["value"], 0.25);
    assert_eq!(log["samples"].as_array().unwrap().len(), 3);
    assert!(log["samples"][2]["error"]["message"].as_str().unwrap().contains("no line is left"));
    assert_eq!(summary.left_out["episodes that have not ended"], 1);
    assert!(summary.to_string().contains("do not publish it"));
}

#[test]
fn a_table_has_a_line_for_every_planned_episode_and_no_formula() {
    let (folder, reader) = direct();
    let (out, _) = written(&folder, &reader, Format::Csv, &Options::default());
    let table = std::fs::read_to_string(out).unwrap();
    let lines: Vec<&str> = table.split("\r\n").collect();
    assert_eq!(lines.len(), 6, "a header, four episodes, and nothing after the last line's end");
    assert!(lines[1].starts_with("q1,0,easy,correct,,1,Ada Lovelace,exact_match,90,0,"), "{}", lines[1]);
    assert!(lines[2].starts_with("q2,0,easy,wrong,,0,\"'=Bob, \"\"the\"\" other\",exact_match,"), "{}", lines[2]);
    assert!(lines[3].starts_with("q 3,0,hard,failed,unreachable,0,,,,,"), "{}", lines[3]);
    assert_eq!(lines[4], format!("q4,0,hard,not ended{}", ",".repeat(39)));
    let columns = lines[0].split(',').count();
    assert_eq!((columns, lines[1].split(',').count(), lines[4].split(',').count()), (43, 43, 43));
    assert!(!table.contains("Which answer"), "questions are not in it");
}

#[test]
fn several_rounds_are_kept_apart_or_one_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let line = |answer: &str| Lines { workers: vec![vec![searches("x"), finishes(answer)]], ..Lines::default() };
    let lines = [line("Ada Lovelace"), line("Bob")];
    let reader = play(&folder.path().join("run"), CoordinatorKind::Direct, 2, &[question("q1", "easy")], &lines);
    let refused = export(&reader, Format::Trec, &folder.path().join("t"), &Options::default()).unwrap_err().to_string();
    assert!(
        refused.contains("the run has 2 rounds and trec holds each question once; choose one with --round"),
        "{refused}"
    );
    let second = Options { round: Some(1), ..Options::default() };
    assert_eq!(export(&reader, Format::Trec, &folder.path().join("t"), &second).unwrap().planned, 1);
    let none = Options { round: Some(2), ..Options::default() };
    let refused = export(&reader, Format::Csv, &folder.path().join("c"), &none).unwrap_err().to_string();
    assert!(refused.contains("there is no round 2: the run has 2, counted from 0"), "{refused}");
    let (out, _) = written(&folder, &reader, Format::BrowsecompPlus, &Options::default());
    assert!(out.join("round-0/q1.json").exists() && out.join("round-1/q1.json").exists());
    let (results, _) = json_of(&folder, &reader, Format::Foldagent);
    let rounds: Vec<_> =
        results["results"].as_array().unwrap().iter().map(|row| (row["round"].clone(), row["score"].clone())).collect();
    assert_eq!(rounds, [(json!(0), json!(1.0)), (json!(1), json!(0.0))]);
    let (log, _) = json_of(&folder, &reader, Format::Inspect);
    let epochs: Vec<_> = log["samples"].as_array().unwrap().iter().map(|sample| sample["epoch"].clone()).collect();
    assert_eq!((epochs, &log["eval"]["dataset"]["samples"]), (vec![json!(1), json!(2)], &json!(1)));
}

#[test]
fn what_is_there_is_not_replaced_unless_that_is_asked_for() {
    let (folder, reader) = direct();
    let out = folder.path().join("taken");
    std::fs::write(&out, "mine").unwrap();
    let refused = export(&reader, Format::Csv, &out, &Options::default()).unwrap_err();
    assert!(matches!(refused, ExportError::Exists { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "mine");
    let overwrite = Options { overwrite: true, ..Options::default() };
    export(&reader, Format::Csv, &out, &overwrite).unwrap();
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("stale.json"), "{}").unwrap();
    let refused = export(&reader, Format::BrowsecompPlus, &full, &overwrite).unwrap_err();
    assert!(matches!(refused, ExportError::Exists { .. }), "a stale file would enter the denominator");
    std::fs::remove_file(full.join("stale.json")).unwrap();
    export(&reader, Format::BrowsecompPlus, &full, &Options::default()).unwrap();
    assert_eq!(std::fs::read_dir(&full).unwrap().count(), 4);
}

#[test]
fn events_that_lead_elsewhere_stop_the_export_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let line = Lines { workers: vec![vec![finishes("Ada Lovelace")]], ..Lines::default() };
    let reader = play(&run, CoordinatorKind::Direct, 1, &[question("q1", "easy")], &[line]);
    let key = reader.planned().unwrap()[0].clone();
    drop(reader);
    let mut store = legwork_actors::ledger::Store::open(&run).unwrap();
    let event = Event::Coordinator(CoordinatorEvent::Cancelled);
    let odd = RecordedEvent { seq: 9, event, effect: None };
    store.append(&[Box::new(legwork_actors::ledger::Append::new(key, Scope::Coordinator, 0, &odd))]).unwrap();
    drop(store);
    let reader = LedgerReader::open(&run).unwrap();
    let refused = export(&reader, Format::Csv, &folder.path().join("c"), &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("q1#0 coordinator event 9") && refused.contains("export with legwork 0.1.0"), "{refused}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn rows_of_single_episodes_are_the_lines_of_the_export() {
    let second = vec![with_ids(searches("bob"), &[7], &[8]), with_ids(finishes("nobody"), &[7, 8, 9], &[6])];
    let (folder, reader) = delegated(second);
    let options = Options { process_rows: true, split: Some("train".into()), ..Options::default() };
    for format in [Format::Trajectories, Format::TokenIds] {
        let (out, expected) = written(&folder, &reader, format, &options);
        let mut summary = Summary::new(format, &out, 1);
        let rows = rows_of(&reader, &reader.planned().unwrap(), &options, &mut summary).unwrap();
        let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
        let text = std::fs::read_to_string(&out).unwrap();
        assert_eq!(lines, text.lines().collect::<Vec<_>>());
        assert_eq!((summary, lines.len()), (expected, 2));
        assert!(rows.iter().all(|row| row.metadata().split.as_deref() == Some("train")));
    }
}

#[test]
fn what_a_worker_writes_behind_the_end_of_its_episode_is_in_no_row() {
    let (folder, reader) = direct();
    let (before, _) = chat_rows(&folder, &reader, &Options::default());
    let key = reader.planned().unwrap()[0].clone();
    let seq = u32::try_from(reader.history(&key).unwrap()[&Scope::Worker(0)].len()).unwrap();
    drop(reader);
    let run = folder.path().join("run");
    let mut store = legwork_actors::ledger::Store::open(&run).unwrap();
    let event = Event::Worker(WorkerEvent::Generated { completion: finishes("late"), tokens: 5 });
    let late = RecordedEvent { seq, event, effect: None };
    store.append(&[Box::new(legwork_actors::ledger::Append::new(key, Scope::Worker(0), 0, &late))]).unwrap();
    drop(store);
    let reader = LedgerReader::open(&run).unwrap();
    assert_eq!(chat_rows(&folder, &reader, &Options::default()).0, before);
}

#[test]
fn every_format_has_a_name_that_is_read_back() {
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
        assert_eq!(serde_json::to_value(format).unwrap(), format.name());
    }
    let refused = "parquet".parse::<Format>().unwrap_err().to_string();
    assert!(refused.starts_with("there is no format `parquet`; known are trajectories, token-ids, gate"), "{refused}");
}
