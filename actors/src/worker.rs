//! The worker actor: carries its machine's wishes out and tells it what came of them. One a brief. Its events
//! are in the ledger before anything is carried out, so a successor goes on where it died.

use crate::board::BoardMsg;
use crate::episode::EpisodeMsg;
use crate::errand::Errand;
use crate::gate::GateMsg;
use crate::journal::Journal;
use crate::stage::Stage;
use legwork_protocol::event::RecordedEvent;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::gate::{GateSaid, gate_messages};
use legwork_protocol::generation::{Completion, GenerateRequest, Route, Sampling, Session};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::machine::TurnCall;
use legwork_protocol::worker::{Brief, StandingOrders, Worker, WorkerEffect, WorkerEvent, WorkerReport};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;
use std::time::Duration;

/// What a worker is given when it starts.
#[derive(Clone)]
pub struct WorkerArgs {
    /// The run.
    pub stage: Arc<Stage>,
    /// The episode.
    pub episode: EpisodeKey,
    /// Its number within the episode.
    pub worker: u32,
    /// What it is asked.
    pub brief: Brief,
    /// Its events so far, if it goes on from a dead one.
    pub history: Vec<RecordedEvent>,
    /// To whom it reports.
    pub report_to: ActorRef<EpisodeMsg>,
}

/// What a worker is told.
#[derive(Debug)]
pub enum WorkerMsg {
    /// Begin, or go on.
    Begin,
    /// Something that it waited for has happened.
    Happened(Box<WorkerEvent>),
    /// Work beside it panicked or could not begin; it dies of it and is restarted.
    ErrandFailed(String),
    /// Its report has been sent.
    Said(Box<WorkerReport>),
    /// Say again what was said last: it may have been lost.
    Remind,
    /// Stop: report as cancelled.
    Cancel,
}

/// A worker's machine and what it waits for.
pub struct WorkerState {
    args: WorkerArgs,
    machine: Worker,
    journal: Journal,
    errand: Option<Errand>,
    reporting: bool,
    said: Option<Box<WorkerReport>>,
}

/// The worker that a model plays.
pub struct ModelWorker;

impl Actor for ModelWorker {
    type Msg = WorkerMsg;
    type State = WorkerState;
    type Arguments = WorkerArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<WorkerMsg>,
        mut args: WorkerArgs,
    ) -> Result<WorkerState, ActorProcessingErr> {
        let machine = Worker::under(Arc::clone(&args.stage.worker_orders));
        let history = std::mem::take(&mut args.history);
        let journal = Journal::new(Arc::clone(&args.stage), args.episode.clone(), Scope::Worker(args.worker));
        let mut state = WorkerState { args, machine, journal, errand: None, reporting: false, said: None };
        let pending = state.journal.replay(history, |event: &WorkerEvent| state.machine.apply(event))?;
        match pending {
            Some(effect) => state.carry_out(&myself, None, effect),
            None => drop(myself.cast(WorkerMsg::Begin)),
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<WorkerMsg>,
        message: WorkerMsg,
        state: &mut WorkerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            WorkerMsg::Begin => state.happened(&myself, state.briefed()),
            WorkerMsg::Happened(event) => state.happened(&myself, *event),
            WorkerMsg::ErrandFailed(text) => return Err(text.into()),
            WorkerMsg::Said(report) => state.said = Some(report),
            WorkerMsg::Remind => state.say_again(),
            WorkerMsg::Cancel => state.happened(&myself, WorkerEvent::Cancelled),
        }
        Ok(())
    }
}

impl WorkerState {
    fn briefed(&self) -> WorkerEvent {
        let stage = &self.args.stage;
        let brief_tokens = stage.worker_tokens.count(&StandingOrders::brief_text(&self.args.brief.text));
        WorkerEvent::Briefed {
            brief: self.args.brief.clone(),
            prompt_tokens: stage.worker_system_tokens + brief_tokens,
            wrap_up_tokens: stage.worker_wrap_up_tokens,
        }
    }

    fn happened(&mut self, myself: &ActorRef<WorkerMsg>, event: WorkerEvent) {
        if self.reporting {
            // Too late: the report is on its way.
            return;
        }
        let effect = self.machine.apply(&event);
        let record = self.journal.record(event, effect.as_ref());
        match effect {
            Some(effect) => self.carry_out(myself, Some(record), effect),
            None => self.journal.append_only(record),
        }
    }

    /// Sends out for what the machine wants, after `record` is durable.
    fn carry_out(&mut self, myself: &ActorRef<WorkerMsg>, record: Option<crate::ledger::Append>, effect: WorkerEffect) {
        let stage = Arc::clone(&self.args.stage);
        let episode = self.args.episode.clone();
        let scope = Scope::Worker(self.args.worker);
        let durable = self.journal.durable(record);
        let happened = |event| Some(WorkerMsg::Happened(Box::new(event)));
        let failed = WorkerMsg::ErrandFailed;
        // What is not known to be durable is not carried out: the worker dies, and its successor knows what is.
        let undurable = |failure: Failure| Some(WorkerMsg::ErrandFailed(failure.to_string()));
        self.errand = Some(match effect {
            WorkerEffect::Generate(call) => {
                let request = self.request(&call);
                let work = async move {
                    if let Err(failure) = durable.await {
                        return undurable(failure);
                    }
                    happened(generate(&stage, episode, request).await)
                };
                Errand::run(myself.clone(), work, failed)
            }
            WorkerEffect::Observe(lookups) => {
                let environment = self.machine.environment().clone().with_control_tokens(stage.control_tokens.clone());
                let reading = self.machine.reading().clone();
                let work = async move {
                    if let Err(failure) = durable.await {
                        return undurable(failure);
                    }
                    let (answers, served_ms) = stage.look_up(lookups).await;
                    let observed = environment.observe(&reading, &answers);
                    let tokens = stage.worker_tokens.count(&observed.text);
                    happened(WorkerEvent::Observed { observed, tokens, served_ms })
                };
                Errand::run(myself.clone(), work, failed)
            }
            WorkerEffect::AskGate => {
                let (brief, machine) = (&self.args.brief.text, &self.machine);
                let so_far = machine.conversation().messages();
                let messages = gate_messages(brief, so_far, machine.meter(), &stage.profile.gate);
                let session = Session { episode, scope, turn: self.machine.meter().turns() };
                let work = async move {
                    if let Err(failure) = durable.await {
                        return undurable(failure);
                    }
                    let patience = Duration::from_millis(stage.profile.gate.timeout_ms);
                    let said = stage.gate.ask(patience, |reply| GateMsg::Ask { session, messages, reply }).await;
                    happened(WorkerEvent::GateSaid(said.unwrap_or_else(|_| GateSaid::unreadable())))
                };
                Errand::run(myself.clone(), work, failed)
            }
            WorkerEffect::Report(report) => {
                self.reporting = true;
                let (worker, report_to) = (self.args.worker, self.args.report_to.clone());
                // It does not stop itself: a supervisor hears of a death before it reads its messages, so a report
                // could seem to come from the dead. The episode stops it.
                let work = async move {
                    if let Err(failure) = durable.await {
                        return undurable(failure);
                    }
                    let _episode_has_gone =
                        report_to.cast(EpisodeMsg::WorkerReported { worker, report: report.clone() });
                    Some(WorkerMsg::Said(report))
                };
                Errand::run(myself.clone(), work, failed)
            }
        });
    }

    fn say_again(&self) {
        if let Some(report) = &self.said {
            let (worker, report) = (self.args.worker, report.clone());
            let _episode_has_gone = self.args.report_to.cast(EpisodeMsg::WorkerReported { worker, report });
        }
    }

    fn request(&self, call: &TurnCall) -> GenerateRequest {
        let stage = &self.args.stage;
        let settings = &stage.profile.worker;
        let scope = Scope::Worker(self.args.worker);
        let seed = stage.draw_seed(&self.args.episode, scope, call.turn, call.attempt);
        GenerateRequest {
            route: Route::Worker,
            session: Some(Session { episode: self.args.episode.clone(), scope, turn: call.turn }),
            messages: self.machine.conversation().messages().to_vec(),
            tools: None,
            sampling: Sampling {
                max_tokens: call.max_tokens,
                temperature: settings.temperature,
                top_p: settings.top_p,
                top_k: settings.top_k,
                seed: Some(seed),
                stop: Vec::new(),
            },
            timeout_ms: call.timeout_ms,
        }
    }
}

async fn generate(stage: &Stage, episode: EpisodeKey, request: GenerateRequest) -> WorkerEvent {
    let timeout_ms = request.timeout_ms;
    match stage.generate(request).await {
        Ok(completion) => {
            let tokens = completion_tokens(stage.worker_tokens.as_ref(), &completion);
            stage.board.tell(BoardMsg::Turned {
                episode,
                route: Route::Worker,
                tokens,
                served_ms: completion.served_ms,
                queued_ms: completion.queued_ms,
            });
            WorkerEvent::Generated { completion, tokens }
        }
        Err(failure) => {
            let served_ms = stumbled(stage, &failure, timeout_ms);
            WorkerEvent::GenerationFailed { failure, served_ms }
        }
    }
}

/// Tells the board of a failed call; returns what it costs of the episode's clock, in milliseconds: a time-out costs
/// all of its time, anything else nothing.
pub(crate) fn stumbled(stage: &Stage, failure: &Failure, timeout_ms: u64) -> u64 {
    stage.board.tell(BoardMsg::Stumbled(failure.kind.name()));
    if failure.kind == FailureKind::TimedOut { timeout_ms } else { 0 }
}

/// New tokens of a completion: the server's own count where it gave one, since it made them; else ours.
pub(crate) fn completion_tokens(counter: &dyn legwork_protocol::tokens::TokenCounter, completion: &Completion) -> u64 {
    match completion.usage.completion_tokens {
        0 => {
            let calls =
                completion.tool_calls.iter().map(|call| counter.count(&call.name) + counter.count(&call.arguments));
            counter.count(&completion.text)
                + completion.reasoning.as_deref().map_or(0, |text| counter.count(text))
                + calls.sum::<u64>()
        }
        tokens => u64::from(tokens),
    }
}
