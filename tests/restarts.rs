//! What dies is restarted from the ledger's events within its budget; what dies too often is a named failure that stays
//! in the denominator.

use crate::stage;
use legwork_actors::cast::role;
use legwork_actors::grader::{Grader, GraderMsg};
use legwork_actors::inference::{Inference, InferenceMsg};
use legwork_actors::run::RunEnd;
use legwork_actors::stage::Stage;
use legwork_actors::worker::{ModelWorker, WorkerArgs, WorkerMsg, WorkerState};
use legwork_endpoints::Endpoint;
use legwork_protocol::failure::FailureKind;
use legwork_protocol::generation::Route;
use legwork_protocol::outcome::Outcome;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The real worker, which panics before its `at`-th message as often as there are panics left.
struct Fragile {
    at: u32,
    panics_left: Arc<AtomicU32>,
}

impl Actor for Fragile {
    type Msg = WorkerMsg;
    type State = (WorkerState, u32);
    type Arguments = WorkerArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<WorkerMsg>,
        args: WorkerArgs,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok((ModelWorker.pre_start(myself, args).await?, 0))
    }

    async fn handle(
        &self,
        myself: ActorRef<WorkerMsg>,
        message: WorkerMsg,
        (state, handled): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        *handled += 1;
        let take = |left: u32| left.checked_sub(1);
        if *handled == self.at && self.panics_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            panic!("a planned panic");
        }
        ModelWorker.handle(myself, message, state).await
    }
}

async fn with_panics(at: u32, panics: u32) -> Vec<Outcome> {
    let folder = tempfile::tempdir().unwrap();
    let questions = stage::questions(4);
    let panics_left = Arc::new(AtomicU32::new(panics));
    let left = Arc::clone(&panics_left);
    let (end, records) = stage::run(folder.path(), &questions, stage::oracle(&questions), move |cast| {
        cast.worker = role("mock: fragile", move |args| (Fragile { at, panics_left: Arc::clone(&left) }, args));
    })
    .await;
    assert_eq!(end, RunEnd::Complete);
    records.iter().map(|record| record.outcome).collect()
}

#[tokio::test]
async fn a_worker_that_panics_goes_on_where_it_died() {
    assert_eq!(with_panics(3, 2).await, [Outcome::Correct; 4]);
}

#[tokio::test]
async fn a_worker_that_always_panics_is_a_named_failure() {
    assert_eq!(with_panics(1, u32::MAX).await, [Outcome::Failed(FailureKind::ActorDied); 4]);
}

/// The real grader, which dies of its first message and then lives.
struct DiesOnce(Arc<AtomicU32>);

impl Actor for DiesOnce {
    type Msg = GraderMsg;
    type State = Arc<Stage>;
    type Arguments = Arc<Stage>;

    async fn pre_start(
        &self,
        myself: ActorRef<GraderMsg>,
        stage: Arc<Stage>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Grader.pre_start(myself, stage).await
    }

    async fn handle(
        &self,
        myself: ActorRef<GraderMsg>,
        message: GraderMsg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err("a planned death".into());
        }
        Grader.handle(myself, message, state).await
    }
}

#[tokio::test]
async fn a_grader_that_dies_is_restarted_and_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let questions = stage::questions(1);
    let asked = Arc::new(AtomicU32::new(0));
    let (_, records) = stage::run(folder.path(), &questions, stage::oracle(&questions), move |cast| {
        cast.grader = role("mock: dies once", move |stage: Arc<Stage>| (DiesOnce(Arc::clone(&asked)), stage));
    })
    .await;
    assert_eq!(records[0].outcome, Outcome::Correct);
}

/// The real inference, which dies of every n-th request.
struct DiesOften(BTreeMap<Route, Arc<dyn Endpoint>>, Arc<AtomicU32>);

impl Actor for DiesOften {
    type Msg = InferenceMsg;
    type State = BTreeMap<Route, Arc<dyn Endpoint>>;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<InferenceMsg>, (): ()) -> Result<Self::State, ActorProcessingErr> {
        Ok(self.0.clone())
    }

    async fn handle(
        &self,
        myself: ActorRef<InferenceMsg>,
        message: InferenceMsg,
        routes: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if self.1.fetch_add(1, Ordering::SeqCst) % 9 == 8 {
            panic!("a planned panic");
        }
        Inference.handle(myself, message, routes).await
    }
}

#[tokio::test]
async fn inference_that_dies_costs_a_try_and_no_episode() {
    let folder = tempfile::tempdir().unwrap();
    let questions = stage::questions(8);
    let routes = BTreeMap::from([(Route::Worker, stage::oracle(&questions))]);
    let (end, records) = stage::run(folder.path(), &questions, stage::oracle(&questions), move |cast| {
        let asked = Arc::new(AtomicU32::new(0));
        cast.inference =
            role("mock: dies often", move |_: Arc<Stage>| (DiesOften(routes.clone(), Arc::clone(&asked)), ()));
    })
    .await;
    assert_eq!(end, RunEnd::Complete);
    assert!(records.iter().all(|record| record.outcome == Outcome::Correct), "{records:#?}");
}
