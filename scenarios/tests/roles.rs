//! Every role can be a mock that takes the real actor's messages: a run in which nobody is real but the run and its
//! episodes, and which needs no file.

use legwork_actors::cast::{Cast, role};
use legwork_actors::clock::Clock;
use legwork_actors::run::{RunEnd, RunPlan, start};
use legwork_actors::stage::{RunLimits, Stage, StageParts};
use legwork_actors::worker::ModelWorker;
use legwork_protocol::gate::GateDecision;
use legwork_protocol::generation::{Completion, FinishReason};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::outcome::Outcome;
use legwork_protocol::profile::{GateMode, Profile};
use legwork_protocol::tokens::QuarterBytes;
use legwork_protocol::untrusted::ControlTokens;
use legwork_scenarios::mocks::{
    ConstantGate, ConstantGrader, MemoryLedger, MockCoordinator, MockInference, MockRetriever, Move, RecordingBoard,
};
use legwork_scenarios::world;
use std::collections::HashSet;
use std::sync::Arc;

#[tokio::test(start_paused = true)]
async fn a_run_of_mocks_in_every_role() {
    let mut profile: Profile = toml::from_str(include_str!("../../src/profiles/archive-mock.toml")).unwrap();
    profile.gate.mode = GateMode::On;
    let (ledger, board) = (MemoryLedger::default(), RecordingBoard::default());
    let coordinator = MockCoordinator::new(|question, delegations, reports| match delegations {
        0 => Move::brief(&question.text),
        _ => Move::answer_of(reports),
    });
    // Searches until somebody tells it to wrap up: the gate does, after the first observation.
    let inference = MockInference::new(|request| {
        let told = request.messages.last().is_some_and(|message| message.content.contains("last turn"));
        let call = if told { ("finish", "answer", "stopped") } else { ("search", "query", "anything") };
        let text = format!("<function={0}>\n<parameter={1}>{2}</parameter>\n</function>", call.0, call.1, call.2);
        Ok(Completion { text, finish: FinishReason::Stop, ..Completion::default() })
    });
    let cast = Cast {
        coordinator: coordinator.role(),
        worker: role("model", |args| (ModelWorker, args)),
        retriever: MockRetriever::empty().role(),
        grader: role("mock: all is right", |_: Arc<Stage>| (ConstantGrader(Some(true)), ())),
        gate: ConstantGate(GateDecision::Stop).role(),
        inference: inference.role(),
        ledger: ledger.role(),
        board: board.role(),
    };
    let stage = Stage::new(StageParts {
        profile: Arc::new(profile),
        limits: RunLimits::default(),
        script: None,
        seed: 1,
        clock: Clock::from_epoch_ms(0),
        worker_tokens: Arc::new(QuarterBytes),
        coordinator_tokens: Arc::new(QuarterBytes),
        control_tokens: ControlTokens::default(),
        cast,
    });
    let questions: Vec<_> = world::questions(4).into_iter().map(Arc::new).collect();
    let waiting = questions.iter().map(|question| EpisodeKey { round: 0, question: question.id.clone() }).collect();
    let plan = RunPlan { stage, questions, waiting, begun: HashSet::new(), ended: Vec::new() };
    assert_eq!(start(plan).await.unwrap().over.await.unwrap(), RunEnd::Complete);

    let records = ledger.records();
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_eq!((record.outcome, record.answer.as_deref()), (Outcome::Correct, Some("stopped")));
        assert_eq!((record.searches, record.gate.stops), (1, 1), "the gate stops the worker after its first search");
    }
    assert!(ledger.history(&records[0].key).contains_key(&Scope::Worker(0)));
    assert_eq!(board.told().iter().filter(|told| told.starts_with("Ended")).count(), 4);
}
