//! Swapping an actor for a mock: one line in a test, one line in a TOML file. The README shows both.

use crate::program::{Place, err};
use crate::stage;
use legwork_actors::cast::role;
use legwork_actors::coordinator::{CoordinatorArgs, CoordinatorMsg, Decision};
use legwork_actors::episode::EpisodeMsg;
use legwork_actors::ledger::LedgerReader;
use legwork_actors::run::RunEnd;
use legwork_actors::stage::Stage;
use legwork_protocol::budget::Amount;
use legwork_protocol::coordinator::{AnswerEnd, FinalAnswer};
use legwork_protocol::outcome::Outcome;
use legwork_scenarios::mocks::{ConstantGrader, OracleWorker};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;

#[tokio::test]
async fn with_the_real_cast_an_oracle_answers_everything() {
    let folder = tempfile::tempdir().unwrap();
    let questions = stage::questions(30);
    let (end, records) = stage::run(folder.path(), &questions, stage::oracle(&questions), |_| {}).await;
    assert_eq!((end, records.len()), (RunEnd::Complete, 30));
    let wrong: Vec<_> = records.iter().filter(|record| !record.outcome.is_correct()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(records.iter().all(|record| record.searches > 0 && record.workers_spent.tokens > 0));
}

#[tokio::test]
async fn a_grader_is_swapped_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let questions = stage::questions(5);
    let (_, records) = stage::run(folder.path(), &questions, stage::oracle(&questions), |cast| {
        cast.grader = role("mock: nobody can tell", |_: Arc<Stage>| (ConstantGrader(None), ()));
    })
    .await;
    assert!(records.iter().all(|record| record.outcome == Outcome::Ungraded));
}

#[tokio::test]
async fn a_worker_is_swapped_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let questions = stage::questions(5);
    let key = questions.clone();
    let oracle = OracleWorker::new(move |brief| Some(key.iter().find(|q| brief.contains(&q.text))?.answers[0].clone()));
    let (_, records) = stage::run(folder.path(), &questions, stage::oracle(&questions), |cast| {
        cast.worker = role("mock: answer key", move |args| (oracle.clone(), args));
    })
    .await;
    assert!(records.iter().all(|record| record.outcome == Outcome::Correct && record.searches == 0));
}

/// A coordinator of one's own: it takes the real actor's messages and answers at once.
struct Unhelpful;

impl Actor for Unhelpful {
    type Msg = CoordinatorMsg;
    type State = ();
    type Arguments = CoordinatorArgs;

    async fn pre_start(&self, _: ActorRef<CoordinatorMsg>, args: CoordinatorArgs) -> Result<(), ActorProcessingErr> {
        let answer = FinalAnswer::without_answer(AnswerEnd::NoAnswer, Amount::default());
        args.decide_to.cast(EpisodeMsg::Decided(Decision::Answer(Box::new(answer))))?;
        Ok(())
    }
}

#[tokio::test]
async fn a_coordinator_of_ones_own_is_swapped_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let questions = stage::questions(5);
    let (end, records) = stage::run(folder.path(), &questions, stage::oracle(&questions), |cast| {
        cast.coordinator = role("mock: unhelpful", |args| (Unhelpful, args));
    })
    .await;
    assert_eq!(end, RunEnd::Complete);
    assert!(records.iter().all(|record| record.outcome == Outcome::NoAnswer && record.workers == 0));
}

#[test]
fn a_coordinator_of_lines_and_a_gate_are_swapped_by_a_line_of_toml_each() {
    let place = Place::new();
    place.write("lines.toml", "[[line]]\nbriefs = [[\"{question}\", \"{question}\"]]\nanswer = \"from the lines\"\n");
    place.write("run.toml", "profile = \"archive-mock\"\n[cast]\ncoordinator = \"mock:lines.toml\"\ngate = \"mock:stop\"\n[gate]\nmode = \"on\"\n");
    let output = place.run(&["eval", "-c", "run.toml", "--questions", "3", "--plain", "--run", "runs/lines"]);
    assert!(output.status.success(), "{}", err(&output));
    let reader = LedgerReader::open(&place.path("runs/lines")).unwrap();
    assert!(reader.manifest().unwrap().mock && reader.manifest().unwrap().inputs.contains_key("coordinator.lines"));
    for record in reader.records().unwrap() {
        assert_eq!((record.answer.as_deref(), record.workers), (Some("from the lines"), 2));
        assert_eq!(record.gate.stops, 2, "each worker is stopped after its first observation");
    }
    let replayed = place.run(&["replay", "runs/lines"]);
    assert!(replayed.status.success(), "what the real actors did replays: {}", err(&replayed));
}
