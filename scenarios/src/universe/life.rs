//! One life of a universe: from an open ledger to the end of the run, or to the moment when the power goes.

use super::{Recast, STUCK_AFTER};
use crate::desk::{Desk, Signal};
use crate::fault::{DiskTrouble, Player};
use crate::links;
use crate::mocks::{GoldLibrary, MockCoordinatorModel, MockGateModel, MockJudge, OracleModel, Skill};
use crate::probe::Probe;
use crate::scenario::{Scenario, ScenarioError};
use crate::troubled::{TroubledCounter, TroubledLibrary, TroubledModel};
use crate::world;
use legwork_actors::cast::real_cast;
use legwork_actors::clock::Clock;
use legwork_actors::ledger::{LedgerReader, Manifest, Pace, RUN_DB, Store, WriterHandle};
use legwork_actors::run::{RunEnd, RunMsg, RunPlan, start};
use legwork_actors::stage::{RunLimits, Stage, StageParts};
use legwork_actors::supervision::RestartLimit;
use legwork_endpoints::Endpoint;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::Route;
use legwork_protocol::profile::{ExactRule, JudgeKind, Profile};
use legwork_protocol::tokens::{QuarterBytes, TokenCounter};
use legwork_protocol::untrusted::ControlTokens;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// When every universe begins, in milliseconds since the Unix epoch.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// A batch of the ledger takes at most so long, if nothing is wrong.
const WRITING_MOST: Duration = Duration::from_millis(4);
/// After a run's end everybody has so long to leave, by its clock: longer than any patience and any disk.
const LEAVING: Duration = Duration::from_secs(3 * 3600);

/// Where a life takes place.
pub struct Seat<'a> {
    /// What is played.
    pub scenario: &'a Scenario,
    /// The run's folder.
    pub folder: &'a Path,
    /// Where faults are struck from.
    pub desk: Arc<Desk>,
    /// What the checkers see.
    pub probe: Arc<Probe>,
    /// Who plays other roles.
    pub recast: &'a Recast,
    /// Milliseconds that earlier lives took.
    pub elapsed_ms: u64,
}

/// How a life ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifeEnd {
    /// Every planned episode has ended.
    Complete,
    /// So many episodes have not.
    Incomplete(u64),
    /// The run could not go on.
    Failed(Failure),
    /// The power went.
    PowerCut,
    /// It never ended.
    Stuck,
}

/// A life that is over.
pub(super) struct Life {
    pub(super) end: LifeEnd,
    pub(super) took_ms: u64,
    /// Tasks that were still alive after the end, if there were any.
    pub(super) left_behind: Option<usize>,
}

/// The profile of a scenario.
pub(super) fn profile(scenario: &Scenario) -> Profile {
    let archive = include_str!("../../../src/profiles/archive-mock.toml");
    let mut profile: Profile = toml::from_str(archive).expect("the embedded profile reads: a test reads it");
    profile.coordinator.kind = scenario.coordinator;
    profile.gate.mode = scenario.gate;
    if scenario.judge {
        profile.grader.exact = ExactRule::None;
        profile.grader.judge = JudgeKind::Foldagent;
    }
    if let Some(turns) = scenario.worker_turns_max {
        profile.worker.turns_max = turns;
    }
    if let Some(tokens) = scenario.worker_budget_tokens {
        profile.worker.budget_tokens = tokens;
    }
    profile
}

/// Lives one life through.
pub(super) fn live(seat: &Seat<'_>, number: u32) -> Result<Life, ScenarioError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let life = runtime.block_on(live_on(seat, number));
    seat.desk.disarm();
    // The power goes: whatever was not durable goes with it.
    drop(runtime);
    life
}

async fn live_on(seat: &Seat<'_>, number: u32) -> Result<Life, ScenarioError> {
    let began = Instant::now();
    let (signals, mut heard) = mpsc::unbounded_channel();
    let stage = stage(seat, number)?;
    let reader = LedgerReader::open(seat.folder)?;
    let ended = reader.ended()?;
    let plan = RunPlan {
        waiting: reader.planned()?.into_iter().filter(|key| !ended.contains(key)).collect(),
        questions: reader.questions()?.into_iter().map(Arc::new).collect(),
        begun: reader.begun()?,
        ended: reader.records()?,
        stage,
    };
    drop(reader);
    seat.probe.begins();
    seat.desk.arm(signals);
    let took_ms = |began: Instant| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let running = match start(plan).await {
        Ok(running) => running,
        Err(failure) => {
            return Ok(Life { end: LifeEnd::Failed(failure), took_ms: took_ms(began), left_behind: None });
        }
    };
    let mut over = running.over;
    let stuck = tokio::time::sleep(STUCK_AFTER);
    tokio::pin!(stuck);
    let end = loop {
        tokio::select! {
            biased;
            signal = heard.recv() => match signal {
                Some(Signal::Jump(by)) => tokio::time::advance(by).await,
                Some(Signal::PowerCut) => break LifeEnd::PowerCut,
                Some(Signal::Drain) => drop(running.run.cast(RunMsg::Drain)),
                Some(Signal::Stop) => drop(running.run.cast(RunMsg::Stop)),
                None => {}
            },
            end = &mut over => break match end {
                Ok(RunEnd::Complete) => LifeEnd::Complete,
                Ok(RunEnd::Incomplete { left }) => LifeEnd::Incomplete(left),
                Ok(RunEnd::Failed(failure)) => LifeEnd::Failed(failure),
                Err(_dropped) => LifeEnd::Failed(Failure::new(FailureKind::ActorDied, "the run died")),
            },
            () = &mut stuck => break LifeEnd::Stuck,
        }
    };
    let took_ms = took_ms(began);
    let mut left_behind = None;
    if !matches!(end, LifeEnd::PowerCut | LifeEnd::Stuck) {
        drop(running.run);
        tokio::time::sleep(LEAVING).await;
        let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        left_behind = (alive > 0).then_some(alive);
    }
    Ok(Life { end, took_ms, left_behind })
}

fn stage(seat: &Seat<'_>, number: u32) -> Result<Arc<Stage>, ScenarioError> {
    let scenario = seat.scenario;
    let profile = profile(scenario);
    let questions = world::questions(scenario.questions);
    let store = if seat.folder.join(RUN_DB).exists() {
        Store::open(seat.folder)?
    } else {
        let manifest = Manifest {
            run: scenario.name.clone(),
            began_epoch_ms: EPOCH_MS,
            legwork: "scenario".to_owned(),
            world: "boxes".to_owned(),
            profile: profile.clone(),
            seed: scenario.seed,
            rounds: scenario.rounds,
            questions: scenario.questions,
            mock: true,
            inputs: BTreeMap::new(),
            script: None,
            forked_from: None,
        };
        Store::create(seat.folder, &manifest, &questions)?
    };
    let disk = Arc::clone(&seat.desk);
    let writer = Arc::new(WriterHandle::start_unthreaded(store, move |_batch| pace(&disk)));
    let shared: Vec<_> = questions.iter().cloned().map(Arc::new).collect();
    let latency = Duration::from_millis(scenario.latency_ms);
    let model = |endpoint: Arc<dyn Endpoint>| -> Arc<dyn Endpoint> {
        Arc::new(TroubledModel::new(endpoint, latency, Arc::clone(&seat.desk), Arc::clone(&seat.probe)))
    };
    let routes = BTreeMap::from([
        (
            Route::Worker,
            model(Arc::new(OracleModel::new("oracle", profile.grammar, Skill::PERFECT, Duration::ZERO, &shared))),
        ),
        (Route::Coordinator, model(Arc::new(MockCoordinatorModel))),
        (Route::Gate, model(Arc::new(MockGateModel))),
        (Route::Judge, model(Arc::new(MockJudge))),
    ]);
    let library = Arc::new(TroubledLibrary::new(
        Arc::new(GoldLibrary::new(world::pages(scenario.questions), questions)),
        Arc::clone(&seat.desk),
    ));
    let mut cast = real_cast(routes, library, writer);
    seat.recast.apply(&mut cast);
    let cast = links::interpose(cast, &seat.desk, &seat.probe);
    let counter = |player| -> Arc<dyn TokenCounter> {
        Arc::new(TroubledCounter::new(Arc::new(QuarterBytes), player, Arc::clone(&seat.desk)))
    };
    let mut limits = RunLimits { concurrency: scenario.concurrency, ..RunLimits::default() };
    if let Some(restarts_max) = scenario.episode_restarts_max {
        limits.episode_restarts = RestartLimit { restarts_max, ..limits.episode_restarts };
    }
    let elapsed_ms = if number == 0 { 0 } else { seat.elapsed_ms };
    Ok(Stage::new(StageParts {
        profile: Arc::new(profile),
        limits,
        script: None,
        seed: scenario.seed,
        clock: Clock::from_epoch_ms(EPOCH_MS + elapsed_ms),
        worker_tokens: counter(Player::Worker),
        coordinator_tokens: counter(Player::Coordinator),
        control_tokens: ControlTokens::default(),
        cast,
    }))
}

fn pace(desk: &Desk) -> Pace {
    let refused = |detail: &str| Some(Failure::new(FailureKind::Ledger, detail));
    match desk.disk_trouble() {
        Some((DiskTrouble::Slow, takes)) => Pace { takes, refuses: None },
        Some((DiskTrouble::Full, _)) => {
            Pace { takes: Duration::ZERO, refuses: refused("mock: no space left on the disk") }
        }
        Some((DiskTrouble::Busy, _)) => {
            Pace { takes: Duration::ZERO, refuses: refused("mock: the database is locked") }
        }
        None => Pace { takes: desk.takes(WRITING_MOST), refuses: None },
    }
}
