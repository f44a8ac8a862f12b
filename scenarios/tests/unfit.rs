//! Episodes that cannot go on, and cannot even be ended: they leave, others have their permits, and the run ends.

#![allow(clippy::unwrap_used, reason = "a test ends where its run does")]

use legwork_actors::cast::{Cast, SharedRole, role};
use legwork_actors::clock::Clock;
use legwork_actors::ledger::{Append, History, LedgerMsg};
use legwork_actors::run::{RunEnd, RunPlan, start};
use legwork_actors::stage::{RunLimits, Stage, StageParts};
use legwork_actors::worker::ModelWorker;
use legwork_protocol::episode::EpisodeEvent;
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::gate::GateDecision;
use legwork_protocol::generation::{Completion, FinishReason};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::profile::Profile;
use legwork_protocol::tokens::QuarterBytes;
use legwork_protocol::untrusted::ControlTokens;
use legwork_scenarios::mocks::{
    ConstantGate, ConstantGrader, MockCoordinator, MockInference, MockRetriever, Move, RecordingBoard,
};
use legwork_scenarios::world;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;
use std::time::Duration;

/// A run that takes longer, by its own clock, stands still.
const STANDS_STILL: Duration = Duration::from_secs(3_600);

/// Keeps nothing: of some episodes it recalls what no episode is made of, of others it takes no event.
#[derive(Clone)]
struct BadLedger {
    unfit: Vec<EpisodeKey>,
    refused: Vec<EpisodeKey>,
}

impl BadLedger {
    fn recall(&self, episode: &EpisodeKey) -> History {
        if !self.unfit.contains(episode) {
            return History::new();
        }
        // Admitted as its fifth event.
        let event = RecordedEvent { seq: 5, event: Event::Episode(EpisodeEvent::Admitted), effect: None };
        History::from([(Scope::Episode, vec![event])])
    }

    fn keep(&self, append: &Append) -> Result<(), Failure> {
        let refusal = Failure::new(FailureKind::Ledger, "this episode's events are refused");
        if self.refused.contains(&append.episode) { Err(refusal) } else { Ok(()) }
    }
}

impl Actor for BadLedger {
    type Msg = LedgerMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<LedgerMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<LedgerMsg>, message: LedgerMsg, (): &mut ()) -> Result<(), ActorProcessingErr> {
        match message {
            LedgerMsg::Append(append, reply) => reply.send(self.keep(&append)),
            LedgerMsg::Recall(episode, _, reply) => reply.send(Ok(self.recall(&episode))),
            LedgerMsg::Broken(failure) => return Err(failure.into()),
            LedgerMsg::Close(reply) => reply.send(()),
        }
        Ok(())
    }
}

fn keys(questions: u32) -> Vec<EpisodeKey> {
    world::questions(questions).into_iter().map(|question| EpisodeKey { round: 0, question: question.id }).collect()
}

/// A run of so many questions, one at a time, over a ledger; episodes of `begun` have begun before.
async fn end_of(questions: u32, ledger: BadLedger, begun: Vec<EpisodeKey>) -> RunEnd {
    let profile: Profile = toml::from_str(include_str!("../../src/profiles/archive-mock.toml")).unwrap();
    let coordinator = MockCoordinator::new(|question, delegations, reports| match delegations {
        0 => Move::brief(&question.text),
        _ => Move::answer_of(reports),
    });
    let inference = MockInference::new(|_request| {
        let text = "<function=finish>\n<parameter=answer>it</parameter>\n</function>".to_owned();
        Ok(Completion { text, finish: FinishReason::Stop, ..Completion::default() })
    });
    let ledger: SharedRole<LedgerMsg> = role("a bad ledger", move |_: Arc<Stage>| (ledger.clone(), ()));
    let stage = Stage::new(StageParts {
        profile: Arc::new(profile),
        limits: RunLimits { concurrency: 1, ..RunLimits::default() },
        script: None,
        seed: 1,
        clock: Clock::from_epoch_ms(0),
        worker_tokens: Arc::new(QuarterBytes),
        coordinator_tokens: Arc::new(QuarterBytes),
        control_tokens: ControlTokens::default(),
        cast: Cast {
            coordinator: coordinator.role(),
            worker: role("model", |args| (ModelWorker, args)),
            retriever: MockRetriever::empty().role(),
            grader: role("mock: all is right", |_: Arc<Stage>| (ConstantGrader(Some(true)), ())),
            gate: ConstantGate(GateDecision::Continue).role(),
            inference: inference.role(),
            ledger,
            board: RecordingBoard::default().role(),
        },
    });
    let waiting = keys(questions);
    let questions = world::questions(questions).into_iter().map(Arc::new).collect();
    let plan = RunPlan { stage, questions, waiting, begun: begun.into_iter().collect(), ended: Vec::new() };
    let over = start(plan).await.unwrap().over;
    tokio::time::timeout(STANDS_STILL, over).await.expect("the run stands still").unwrap()
}

#[tokio::test(start_paused = true)]
async fn begun_episodes_that_cannot_be_replayed_leave_and_those_behind_them_enter() {
    let unfit = keys(4)[..2].to_vec();
    let ledger = BadLedger { unfit: unfit.clone(), refused: Vec::new() };
    assert_eq!(end_of(4, ledger, unfit).await, RunEnd::Incomplete { left: 2 });
}

#[tokio::test(start_paused = true)]
async fn an_episode_whose_end_cannot_be_written_is_not_started_for_ever() {
    let ledger = BadLedger { unfit: Vec::new(), refused: keys(3)[1..2].to_vec() };
    assert_eq!(end_of(3, ledger, Vec::new()).await, RunEnd::Incomplete { left: 1 });
}
