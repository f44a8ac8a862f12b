//! Rows for a gate from a run of the archive's oracle, in which workers slip, give up and are wrong: each label is
//! checked against sums over the ledger's events that share no code with the export.

use crate::stage;
use legwork::export::{Format, GateRows, Options, export};
use legwork_actors::ledger::LedgerReader;
use legwork_protocol::call::Grammar;
use legwork_protocol::event::Event;
use legwork_protocol::gate::{GateDecision, GateSaid};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::question::Question;
use legwork_protocol::worker::WorkerEvent;
use legwork_scenarios::mocks::{OracleModel, Skill};
use legwork_training::JsonlReader;
use legwork_training::trajectory::ChatRow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A moment's name: the episode's question, the worker, the turn.
type Name = (String, String, u64);

/// Whether STOP was due at each moment, by the plainest count: a gold document opened so far, and an answer that the
/// episode was graded right for. Moments are observations of turns that could be read and that were not the last thing.
fn due(reader: &LedgerReader) -> BTreeMap<Name, bool> {
    let questions: BTreeMap<_, Question> =
        reader.questions().unwrap().into_iter().map(|question| (question.id.clone(), question)).collect();
    let mut due = BTreeMap::new();
    for record in reader.records().unwrap() {
        let key = EpisodeKey { round: 0, question: record.key.question.clone() };
        for (scope, events) in reader.history(&key).unwrap() {
            let Scope::Worker(_) = scope else { continue };
            let (mut turn, mut opened) = (0, false);
            for recorded in &events {
                match &recorded.event {
                    Event::Worker(WorkerEvent::Generated { .. }) => turn += 1,
                    Event::Worker(WorkerEvent::Observed { observed, .. }) => {
                        opened |= observed.opened.iter().any(|docid| questions[&key.question].gold.contains(docid));
                        if !observed.malformed && observed.finish.is_none() {
                            let name = (key.question.to_string(), scope.to_string(), turn);
                            due.insert(name, opened && record.outcome.is_correct());
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    due
}

fn rows(reader: &LedgerReader, out: &Path, repeat_hard: u32) -> (Vec<ChatRow>, legwork::export::Summary) {
    let gate = GateRows { repeat_hard, ..GateRows::default() };
    let options = Options { gate, split: Some("train".into()), overwrite: true, ..Options::default() };
    let summary = export(reader, Format::Gate, out, &options).unwrap();
    (JsonlReader::open(out).unwrap().map(Result::unwrap).collect(), summary)
}

#[tokio::test]
async fn a_run_of_the_archives_oracle_becomes_rows_whose_labels_can_be_counted_again() {
    let folder = tempfile::tempdir().unwrap();
    let questions = stage::questions(60);
    let novice = OracleModel::new("novice", Grammar::Strict, Skill::NOVICE, Duration::ZERO, &questions);
    let (_, records) = stage::run(&folder.path().join("run"), &questions, Arc::new(novice), |_| {}).await;
    let right = records.iter().filter(|record| record.outcome.is_correct()).count();
    assert!((10..60).contains(&right), "a novice is right now and then: {right}");
    let reader = LedgerReader::open(&folder.path().join("run")).unwrap();
    let expected = due(&reader);
    let (once, summary) = rows(&reader, &folder.path().join("gate.jsonl"), 1);
    let mut got = BTreeMap::new();
    for row in &once {
        let text = &row.messages[2].content;
        let said = GateSaid::read(text, 0).decision;
        assert!(matches!(said, GateDecision::Stop | GateDecision::Continue), "{text}");
        assert!(text.len() < 600, "a decision and not a report: {text}");
        let metadata = &row.metadata;
        let turn = metadata.other["turn"].as_u64().unwrap();
        let name = (metadata.episode.clone().unwrap(), metadata.scope.clone().unwrap(), turn);
        assert!(got.insert(name, said == GateDecision::Stop).is_none(), "each moment once");
        assert!(row.messages[1].content.contains(&format!("Turns used: {turn} of ")));
        assert!(metadata.question_hash.is_some() && metadata.split.as_deref() == Some("train"));
    }
    let left_out: u64 = summary.left_out.values().sum();
    assert_eq!(once.len() as u64 + left_out, expected.len() as u64, "nothing vanishes: {summary}");
    for (name, stop) in &got {
        assert_eq!(expected[name], *stop, "{name:?}");
    }
    let stops = got.values().filter(|stop| **stop).count() as u64;
    assert_eq!((summary.kinds["STOP"], summary.kinds["CONTINUE"]), (stops, once.len() as u64 - stops));
    assert!(stops >= 10 && summary.kinds.len() >= 4, "{summary}");
    let hard = once.iter().filter(|row| row.metadata.other["hard_negative"] == true).count();
    let (thrice, summary) = rows(&reader, &folder.path().join("gate.jsonl"), 3);
    assert_eq!(
        (thrice.len(), summary.kinds["of these, repeats of hard rows"]),
        (once.len() + 2 * hard, 2 * hard as u64)
    );
}
