//! The coordinator actor: carries its mind's wishes out and tells it what came of them. One an episode. It asks
//! the episode for workers and never meets them.

use crate::board::BoardMsg;
use crate::episode::EpisodeMsg;
use crate::errand::Errand;
use crate::journal::Journal;
use crate::ledger::Append;
use crate::stage::Stage;
use crate::worker::{completion_tokens, stumbled};
use legwork_protocol::coordinator::{Coordinator, CoordinatorEffect, CoordinatorEvent, FinalAnswer, coordinator};
use legwork_protocol::event::RecordedEvent;
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{GenerateRequest, Route, Sampling, Session};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::machine::TurnCall;
use legwork_protocol::question::Question;
use legwork_protocol::worker::{Brief, WorkerReport};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;

/// What a coordinator is given when it starts.
#[derive(Clone)]
pub struct CoordinatorArgs {
    /// The run.
    pub stage: Arc<Stage>,
    /// The episode.
    pub episode: EpisodeKey,
    /// The question; only its text reaches the mind.
    pub question: Arc<Question>,
    /// Its events so far, if it goes on from a dead one.
    pub history: Vec<RecordedEvent>,
    /// Whom it tells of its decisions.
    pub decide_to: ActorRef<EpisodeMsg>,
}

/// What a coordinator is told.
#[derive(Debug)]
pub enum CoordinatorMsg {
    /// Begin, or go on.
    Begin,
    /// All workers of its n-th delegation (from 0) have reported.
    Reports(u32, Vec<WorkerReport>),
    /// Something that it waited for has happened.
    Happened(Box<CoordinatorEvent>),
    /// Work beside it panicked or could not begin; it dies of it and is restarted.
    ErrandFailed(String),
    /// Its decision has been sent.
    Said(Box<Decision>),
    /// Say again what was said last: it may have been lost.
    Remind,
    /// Stop: answer as cancelled.
    Cancel,
}

/// What a coordinator decides.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Let workers work: its n-th delegation, from 0.
    Delegate(u32, Vec<Brief>),
    /// The end.
    Answer(Box<FinalAnswer>),
}

/// A coordinator's mind and what it waits for.
pub struct CoordinatorState {
    args: CoordinatorArgs,
    mind: Box<dyn Coordinator>,
    journal: Journal,
    errand: Option<Errand>,
    delegations: u32,
    reported: u32,
    answering: bool,
    said: Option<Box<Decision>>,
}

/// The coordinator over one of the minds of `protocol`.
pub struct MindCoordinator;

impl Actor for MindCoordinator {
    type Msg = CoordinatorMsg;
    type State = CoordinatorState;
    type Arguments = CoordinatorArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<CoordinatorMsg>,
        mut args: CoordinatorArgs,
    ) -> Result<CoordinatorState, ActorProcessingErr> {
        let mut mind = coordinator(&args.stage.profile, &args.question, args.stage.script.as_deref());
        let history = std::mem::take(&mut args.history);
        let mut journal = Journal::new(Arc::clone(&args.stage), args.episode.clone(), Scope::Coordinator);
        let (mut delegations, mut reported) = (0, 0);
        let pending = journal.replay(history, |event: &CoordinatorEvent| {
            reported += u32::from(matches!(event, CoordinatorEvent::Reported { .. }));
            let effect = mind.apply(event);
            delegations += u32::from(matches!(effect, Some(CoordinatorEffect::Delegate(_))));
            effect
        })?;
        let (errand, answering, said) = (None, false, None);
        let mut state = CoordinatorState { args, mind, journal, errand, delegations, reported, answering, said };
        match pending {
            Some(effect) => state.carry_out(&myself, None, effect),
            None if state.journal.is_empty() => drop(myself.cast(CoordinatorMsg::Begin)),
            None => {}
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<CoordinatorMsg>,
        message: CoordinatorMsg,
        state: &mut CoordinatorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CoordinatorMsg::Begin => {
                let question = state.args.question.text.clone();
                let counter = &state.args.stage.coordinator_tokens;
                let prompt_tokens = state.mind.opening(&question).iter().map(|text| counter.count(text)).sum();
                state.happened(&myself, CoordinatorEvent::Asked { question, prompt_tokens });
            }
            // Reports told again after a restart are known already.
            CoordinatorMsg::Reports(delegation, reports) if delegation == state.reported => {
                state.reported += 1;
                state.said = None;
                let tokens = state.args.stage.coordinator_tokens.count(&state.mind.report_text(&reports));
                state.happened(&myself, CoordinatorEvent::Reported { reports, tokens });
            }
            CoordinatorMsg::Reports(..) => {}
            CoordinatorMsg::Happened(event) => state.happened(&myself, *event),
            CoordinatorMsg::ErrandFailed(text) => return Err(text.into()),
            CoordinatorMsg::Said(decision) => state.said = Some(decision),
            CoordinatorMsg::Remind => {
                if let Some(decision) = &state.said {
                    let _episode_has_gone = state.args.decide_to.cast(EpisodeMsg::Decided((**decision).clone()));
                }
            }
            CoordinatorMsg::Cancel => state.happened(&myself, CoordinatorEvent::Cancelled),
        }
        Ok(())
    }
}

impl CoordinatorState {
    fn happened(&mut self, myself: &ActorRef<CoordinatorMsg>, event: CoordinatorEvent) {
        if self.answering {
            // Too late: the answer is on its way.
            return;
        }
        let effect = self.mind.apply(&event);
        self.delegations += u32::from(matches!(effect, Some(CoordinatorEffect::Delegate(_))));
        let record = self.journal.record(event, effect.as_ref());
        match effect {
            Some(effect) => self.carry_out(myself, Some(record), effect),
            None => self.journal.append_only(record),
        }
    }

    /// Sends out for what the mind wants, after `record` is durable.
    fn carry_out(&mut self, myself: &ActorRef<CoordinatorMsg>, record: Option<Append>, effect: CoordinatorEffect) {
        let stage = Arc::clone(&self.args.stage);
        let durable = self.journal.durable(record);
        let failed = CoordinatorMsg::ErrandFailed;
        // What is not known to be durable is not carried out: the coordinator dies, and its successor knows what is.
        let undurable = |failure: Failure| Some(CoordinatorMsg::ErrandFailed(failure.to_string()));
        let happened = |event| Some(CoordinatorMsg::Happened(Box::new(event)));
        let decision = match effect {
            CoordinatorEffect::Generate(call) => {
                let request = self.request(&call);
                let episode = self.args.episode.clone();
                let work = async move {
                    if let Err(failure) = durable.await {
                        return undurable(failure);
                    }
                    happened(generate(&stage, episode, request).await)
                };
                self.errand = Some(Errand::run(myself.clone(), work, failed));
                return;
            }
            CoordinatorEffect::Observe(lookups) => {
                let Some((environment, reading)) = self.mind.tools() else { return };
                let environment = environment.clone().with_control_tokens(stage.control_tokens.clone());
                let reading = reading.clone();
                let work = async move {
                    if let Err(failure) = durable.await {
                        return undurable(failure);
                    }
                    let (answers, served_ms) = stage.look_up(lookups).await;
                    let observed = environment.observe(&reading, &answers);
                    let tokens = stage.coordinator_tokens.count(&observed.text);
                    happened(CoordinatorEvent::Observed { observed, tokens, served_ms })
                };
                self.errand = Some(Errand::run(myself.clone(), work, failed));
                return;
            }
            CoordinatorEffect::Delegate(briefs) => Decision::Delegate(self.delegations - 1, briefs),
            CoordinatorEffect::Answer(answer) => {
                self.answering = true;
                Decision::Answer(answer)
            }
        };
        let decide_to = self.args.decide_to.clone();
        let work = async move {
            if let Err(failure) = durable.await {
                return undurable(failure);
            }
            let _episode_has_gone = decide_to.cast(EpisodeMsg::Decided(decision.clone()));
            Some(CoordinatorMsg::Said(Box::new(decision)))
        };
        self.errand = Some(Errand::run(myself.clone(), work, failed));
    }

    fn request(&self, call: &TurnCall) -> GenerateRequest {
        let stage = &self.args.stage;
        let settings = &stage.profile.coordinator;
        let seed = stage.draw_seed(&self.args.episode, Scope::Coordinator, call.turn, call.attempt);
        let messages = self.mind.conversation().map(|talk| talk.messages().to_vec()).unwrap_or_default();
        GenerateRequest {
            route: Route::Coordinator,
            session: Some(Session { episode: self.args.episode.clone(), scope: Scope::Coordinator, turn: call.turn }),
            messages,
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

async fn generate(stage: &Stage, episode: EpisodeKey, request: GenerateRequest) -> CoordinatorEvent {
    let timeout_ms = request.timeout_ms;
    match stage.generate(request).await {
        Ok(completion) => {
            let tokens = completion_tokens(stage.coordinator_tokens.as_ref(), &completion);
            stage.board.tell(BoardMsg::Turned {
                episode,
                route: Route::Coordinator,
                tokens,
                served_ms: completion.served_ms,
                queued_ms: completion.queued_ms,
            });
            CoordinatorEvent::Generated { completion, tokens }
        }
        Err(failure) => {
            let served_ms = stumbled(stage, &failure, timeout_ms);
            CoordinatorEvent::GenerationFailed { failure, served_ms }
        }
    }
}
