//! The episode actor: one question from asking to verdict. It starts the coordinator and the workers, supervises
//! them within a restart budget, and passes briefs, reports and the answer on. A child that dies is restarted from
//! the ledger's events; one that dies too often ends the episode as failed, which stays in the denominator.

use crate::board::BoardMsg;
use crate::coordinator::{CoordinatorArgs, CoordinatorMsg, Decision};
use crate::errand::Errand;
use crate::grader::{GraderMsg, Grading};
use crate::journal::Journal;
use crate::ledger::{Append, History, LedgerMsg};
use crate::run::RunMsg;
use crate::stage::Stage;
use crate::supervision::RestartBudget;
use crate::worker::{WorkerArgs, WorkerMsg};
use legwork_protocol::coordinator::FinalAnswer;
use legwork_protocol::episode::{Episode, EpisodeEffect, EpisodeEvent};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::outcome::{GradedBy, Verdict};
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use legwork_protocol::worker::{Brief, WorkerReport};
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::sync::Arc;

/// What an episode is given when it starts.
#[derive(Clone)]
pub struct EpisodeArgs {
    /// The run.
    pub stage: Arc<Stage>,
    /// Question and round.
    pub key: EpisodeKey,
    /// The question.
    pub question: Arc<Question>,
    /// All its events so far, if it goes on.
    pub history: History,
    /// Set if it may not go on: it is ended with this.
    pub lost: Option<Failure>,
    /// Whom it tells of its end.
    pub run: ActorRef<RunMsg>,
}

/// What an episode is told.
#[derive(Debug)]
pub enum EpisodeMsg {
    /// Begin, or go on.
    Begin,
    /// The coordinator has decided.
    Decided(Decision),
    /// A worker has reported.
    WorkerReported {
        /// The worker.
        worker: u32,
        /// Its report.
        report: Box<WorkerReport>,
    },
    /// The grader has spoken, or could not.
    Graded(Result<Verdict, Failure>),
    /// The ledger has recalled the events of a dead child.
    Recalled(Scope, Result<History, Failure>),
    /// Work beside it panicked or could not begin; it dies of it and is restarted.
    ErrandFailed(String),
    /// Say again what was said last, and let the children do so: it may have been lost.
    Remind,
    /// Stop: end as cancelled.
    Cancel,
}

struct Child {
    scope: Scope,
    actor: ChildActor,
}

enum ChildActor {
    Coordinator(ActorRef<CoordinatorMsg>),
    Worker(ActorRef<WorkerMsg>),
}

impl Child {
    fn cell(&self) -> ActorCell {
        match &self.actor {
            ChildActor::Coordinator(actor) => actor.get_cell(),
            ChildActor::Worker(actor) => actor.get_cell(),
        }
    }

    fn coordinator(&self) -> Option<&ActorRef<CoordinatorMsg>> {
        match &self.actor {
            ChildActor::Coordinator(actor) => Some(actor),
            ChildActor::Worker(_) => None,
        }
    }

    fn remind(&self) {
        let _dead = match &self.actor {
            ChildActor::Coordinator(actor) => actor.cast(CoordinatorMsg::Remind).is_err(),
            ChildActor::Worker(actor) => actor.cast(WorkerMsg::Remind).is_err(),
        };
    }
}

/// An episode's machine, its children and what it waits for.
pub struct EpisodeState {
    args: EpisodeArgs,
    machine: Episode,
    journal: Journal,
    children: Vec<Child>,
    /// The briefs of all delegations so far: worker n has the n-th.
    briefs: Vec<Brief>,
    restarts: RestartBudget,
    delegations: u32,
    last_reports: Option<Vec<WorkerReport>>,
    errands: Vec<Errand>,
    opening: Option<Opening>,
    /// The end, once it is durable.
    ended: Option<Box<EpisodeRecord>>,
}

/// What an episode begins with, until it does.
struct Opening {
    pending: Option<EpisodeEffect>,
    history: History,
    lost: Option<Failure>,
}

/// The episode actor.
pub struct EpisodeActor;

impl Actor for EpisodeActor {
    type Msg = EpisodeMsg;
    type State = EpisodeState;
    type Arguments = EpisodeArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<EpisodeMsg>,
        mut args: EpisodeArgs,
    ) -> Result<EpisodeState, ActorProcessingErr> {
        let mut machine = Episode::new(args.key.clone(), Arc::clone(&args.question));
        let mut journal = Journal::new(Arc::clone(&args.stage), args.key.clone(), Scope::Episode);
        let mut history = std::mem::take(&mut args.history);
        let (mut briefs, mut delegations) = (Vec::new(), 0);
        let own = history.remove(&Scope::Episode).unwrap_or_default();
        let pending = journal.replay(own, |event: &EpisodeEvent| {
            delegations += u32::from(matches!(event, EpisodeEvent::Delegated(_)));
            let effect = machine.apply(event);
            if let Some(EpisodeEffect::Start(start)) = &effect {
                briefs.extend(start.iter().map(|(_, brief)| brief.clone()));
            }
            effect
        })?;
        let restarts = RestartBudget::new(args.stage.limits.episode_restarts);
        let opening = Opening { pending, history, lost: args.lost.take() };
        // What needs the ledger waits for the first message: the run waits for this function, and with it every
        // episode behind this one.
        myself.cast(EpisodeMsg::Begin)?;
        Ok(EpisodeState {
            args,
            machine,
            journal,
            children: Vec::new(),
            briefs,
            restarts,
            delegations,
            last_reports: None,
            errands: Vec::new(),
            opening: Some(opening),
            ended: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<EpisodeMsg>,
        message: EpisodeMsg,
        state: &mut EpisodeState,
    ) -> Result<(), ActorProcessingErr> {
        // Boxed, so that an episode that waits for its worker does not hold the room of every handler.
        Box::pin(state.told(&myself, message)).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<EpisodeMsg>,
        event: SupervisionEvent,
        state: &mut EpisodeState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(cell, error) => {
                Box::pin(state.child_died(&myself, cell.get_id(), error.to_string())).await
            }
            // Killed from outside, or stopped by itself before it was done.
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                let reason = reason.unwrap_or_else(|| "stopped".to_owned());
                Box::pin(state.child_died(&myself, cell.get_id(), reason)).await
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => Ok(()),
        }
    }
}

impl EpisodeState {
    async fn told(&mut self, myself: &ActorRef<EpisodeMsg>, message: EpisodeMsg) -> Result<(), ActorProcessingErr> {
        match message {
            EpisodeMsg::Begin => self.begin(myself).await?,
            EpisodeMsg::Decided(Decision::Delegate(delegation, briefs)) => {
                // A delegation told again after a restart is known already.
                if delegation == self.delegations {
                    self.delegations += 1;
                    self.happened(myself, EpisodeEvent::Delegated(briefs)).await?;
                }
            }
            EpisodeMsg::Decided(Decision::Answer(answer)) => {
                // An answer told again is known already.
                if !self.machine.is_answered() {
                    self.happened(myself, EpisodeEvent::Answered(answer)).await?;
                }
            }
            EpisodeMsg::WorkerReported { worker, report } => {
                // A report told again after a restart is known already.
                if self.machine.owing().any(|owing| owing == worker) {
                    if let Some(child) = self.remove_child(|child| child.scope == Scope::Worker(worker)) {
                        child.cell().stop(None);
                    }
                    self.happened(myself, EpisodeEvent::Reported { worker, report }).await?;
                }
            }
            EpisodeMsg::Graded(graded) => {
                let verdict = graded.unwrap_or_else(|failure| self.ungraded(&failure));
                self.happened(myself, EpisodeEvent::Graded(verdict)).await?;
            }
            // Its report, or the end, was on the way when it died: nobody needs a successor.
            EpisodeMsg::Recalled(scope, Ok(_)) if !self.needs(scope) => {}
            // Recalled twice: whoever came first plays on.
            EpisodeMsg::Recalled(scope, Ok(_)) if self.children.iter().any(|child| child.scope == scope) => {}
            EpisodeMsg::Recalled(scope, Ok(mut history)) => {
                self.start_child(myself, scope, &mut history).await?;
                if scope == Scope::Coordinator && self.machine.owing().next().is_none() {
                    self.tell_reports();
                }
            }
            EpisodeMsg::Recalled(_, Err(failure)) => return Err(failure.into()),
            EpisodeMsg::ErrandFailed(text) => return Err(text.into()),
            EpisodeMsg::Remind => self.remind(),
            EpisodeMsg::Cancel => self.happened(myself, EpisodeEvent::Cancelled).await?,
        }
        Ok(())
    }

    async fn begin(&mut self, myself: &ActorRef<EpisodeMsg>) -> Result<(), ActorProcessingErr> {
        let Some(Opening { pending, history, lost }) = self.opening.take() else { return Ok(()) };
        // One that has ended and died before the run heard of it only has to say so again.
        if let Some(failure) = lost.filter(|_| !self.machine.ended()) {
            return self.happened(myself, EpisodeEvent::ActorLost(failure)).await;
        }
        if self.journal.is_empty() {
            return self.happened(myself, EpisodeEvent::Admitted).await;
        }
        self.go_on(myself, pending, history).await
    }

    async fn happened(&mut self, myself: &ActorRef<EpisodeMsg>, event: EpisodeEvent) -> Result<(), ActorProcessingErr> {
        if self.machine.ended() {
            return Ok(());
        }
        let effect = self.machine.apply(&event);
        let record = self.journal.record(event, effect.as_ref());
        match effect {
            Some(effect) => self.carry_out(myself, Some(record), effect).await,
            None => {
                self.journal.append_only(record);
                Ok(())
            }
        }
    }

    /// Goes on from a history: the coordinator unless it has answered, the workers that owe a report, and the last
    /// effect, which may not have been carried out.
    async fn go_on(
        &mut self,
        myself: &ActorRef<EpisodeMsg>,
        pending: Option<EpisodeEffect>,
        mut history: History,
    ) -> Result<(), ActorProcessingErr> {
        let deciding = !matches!(pending, Some(EpisodeEffect::Grade(_) | EpisodeEffect::End(_)));
        if deciding {
            self.start_child(myself, Scope::Coordinator, &mut history).await?;
        }
        for worker in self.machine.owing().collect::<Vec<_>>() {
            self.start_child(myself, Scope::Worker(worker), &mut history).await?;
        }
        match pending {
            Some(EpisodeEffect::Ask | EpisodeEffect::Start(_)) | None => Ok(()),
            Some(effect) => self.carry_out(myself, None, effect).await,
        }
    }

    async fn carry_out(
        &mut self,
        myself: &ActorRef<EpisodeMsg>,
        record: Option<Append>,
        effect: EpisodeEffect,
    ) -> Result<(), ActorProcessingErr> {
        match effect {
            EpisodeEffect::Ask => {
                self.journal.durable(record).await?;
                self.start_child(myself, Scope::Coordinator, &mut History::new()).await
            }
            EpisodeEffect::Start(start) => {
                self.briefs.extend(start.iter().map(|(_, brief)| brief.clone()));
                self.journal.durable(record).await?;
                for (worker, _) in start {
                    self.start_child(myself, Scope::Worker(worker), &mut History::new()).await?;
                }
                self.let_coordinator_rest();
                Ok(())
            }
            EpisodeEffect::Tell(reports) => {
                self.last_reports = Some(reports);
                self.journal.durable(record).await?;
                if self.children.iter().any(|child| child.coordinator().is_some()) {
                    self.tell_reports();
                } else {
                    self.recall(myself, Scope::Coordinator);
                }
                Ok(())
            }
            EpisodeEffect::Grade(answer) => {
                self.grade(myself, record, *answer);
                Ok(())
            }
            EpisodeEffect::End(end) => {
                self.dismiss();
                let record = record.map(|append| Append { finished: Some(end.clone()), ..append });
                self.journal.durable(record).await?;
                // The run stops it: a supervisor hears of a death before it reads its messages.
                self.ended = Some(end.clone());
                let _run_has_gone = self.args.run.cast(RunMsg::EpisodeEnded(end));
                Ok(())
            }
        }
    }

    /// Tells the coordinator of the last delegation's reports. One that knows them already takes no notice, so a
    /// restarted one is simply told again.
    fn tell_reports(&self) {
        let coordinator = self.children.iter().find_map(Child::coordinator);
        if let (Some(coordinator), Some(reports)) = (coordinator, &self.last_reports) {
            let _dead = coordinator.cast(CoordinatorMsg::Reports(self.delegations - 1, reports.clone()));
        }
    }

    fn remind(&self) {
        self.children.iter().for_each(Child::remind);
        if let Some(end) = &self.ended {
            let _run_has_gone = self.args.run.cast(RunMsg::EpisodeEnded(end.clone()));
        }
    }

    fn grade(&mut self, myself: &ActorRef<EpisodeMsg>, record: Option<Append>, answer: FinalAnswer) {
        let grading = Grading {
            episode: self.args.key.clone(),
            question: Arc::clone(&self.args.question),
            answer: answer.answer.unwrap_or_default(),
            text: answer.text,
            confidence: answer.confidence,
        };
        let stage = Arc::clone(&self.args.stage);
        let durable = self.journal.durable(record);
        let work = async move {
            if let Err(failure) = durable.await {
                return Some(EpisodeMsg::ErrandFailed(failure.to_string()));
            }
            let mut graded = Err(Failure::new(FailureKind::ActorDied, "the grader was not asked"));
            // A grader that died will have been restarted: it is asked as often as a judge would be.
            for _ in 0..stage.profile.grader.attempts_max.max(2) {
                let grading = Box::new(grading.clone());
                graded = stage.grader.ask(stage.reply_lost_after(), |reply| GraderMsg::Grade(grading, reply)).await;
                if graded.is_ok() {
                    break;
                }
            }
            Some(EpisodeMsg::Graded(graded))
        };
        self.errands.push(Errand::run(myself.clone(), work, EpisodeMsg::ErrandFailed));
    }

    fn ungraded(&self, failure: &Failure) -> Verdict {
        Verdict {
            correct: None,
            extracted: None,
            confidence: None,
            how: GradedBy::Nobody,
            judge_text: Some(format!("[no judgement: {failure}]")),
            attempts: 0,
        }
    }

    async fn start_child(
        &mut self,
        myself: &ActorRef<EpisodeMsg>,
        scope: Scope,
        history: &mut History,
    ) -> Result<(), ActorProcessingErr> {
        let stage = Arc::clone(&self.args.stage);
        let history = history.remove(&scope).unwrap_or_default();
        let child = match scope {
            Scope::Episode => return Ok(()),
            Scope::Coordinator => {
                let args = CoordinatorArgs {
                    stage: Arc::clone(&stage),
                    episode: self.args.key.clone(),
                    question: Arc::clone(&self.args.question),
                    history,
                    decide_to: myself.clone(),
                };
                let actor = stage.cast.coordinator.start(args, myself.get_cell()).await?;
                Child { scope, actor: ChildActor::Coordinator(actor) }
            }
            Scope::Worker(worker) => {
                let Some(brief) = self.briefs.get(worker as usize).cloned() else { return Ok(()) };
                let args = WorkerArgs {
                    stage: Arc::clone(&stage),
                    episode: self.args.key.clone(),
                    worker,
                    brief,
                    history,
                    report_to: myself.clone(),
                };
                let actor = stage.cast.worker.start(args, myself.get_cell()).await?;
                Child { scope, actor: ChildActor::Worker(actor) }
            }
        };
        self.children.push(child);
        Ok(())
    }

    /// A child has died before it was done: recall its events and start a successor, within the budget.
    async fn child_died(
        &mut self,
        myself: &ActorRef<EpisodeMsg>,
        id: ActorId,
        reason: String,
    ) -> Result<(), ActorProcessingErr> {
        let Some(Child { scope, .. }) = self.remove_child(|child| child.cell().get_id() == id) else { return Ok(()) };
        if self.machine.ended() {
            return Ok(());
        }
        let stage = Arc::clone(&self.args.stage);
        if !self.restarts.take(stage.clock.elapsed_ms()) {
            let failure = Failure::new(FailureKind::ActorDied, format!("{scope} died too often, last of: {reason}"));
            return self.happened(myself, EpisodeEvent::ActorLost(failure)).await;
        }
        tracing::warn!(episode = %self.args.key, %scope, %reason, "restarting");
        stage.board.tell(BoardMsg::Restarted(match scope {
            Scope::Worker(_) => "worker",
            Scope::Coordinator | Scope::Episode => "coordinator",
        }));
        self.recall(myself, scope);
        Ok(())
    }

    /// Asks the ledger for a child's events, to start its successor from them.
    fn recall(&mut self, myself: &ActorRef<EpisodeMsg>, scope: Scope) {
        let (stage, key) = (Arc::clone(&self.args.stage), self.args.key.clone());
        let work = async move {
            let lost_after = stage.reply_lost_after();
            let recalled = stage.ledger.ask(lost_after, |reply| LedgerMsg::Recall(key, Some(scope), reply)).await;
            Some(EpisodeMsg::Recalled(scope, recalled.and_then(|recalled| recalled)))
        };
        self.errands.push(Errand::run(myself.clone(), work, EpisodeMsg::ErrandFailed));
    }

    /// While workers work, a coordinator that the ledger can bring back holds its conversation for nothing.
    fn let_coordinator_rest(&mut self) {
        if self.args.stage.cast.coordinator.may_rest()
            && let Some(child) = self.remove_child(|child| child.coordinator().is_some())
        {
            child.cell().stop(None);
        }
    }

    /// Whether anything can still come of a child.
    fn needs(&self, scope: Scope) -> bool {
        !self.machine.ended()
            && match scope {
                Scope::Worker(worker) => self.machine.owing().any(|owing| owing == worker),
                Scope::Coordinator | Scope::Episode => !self.machine.is_answered(),
            }
    }

    fn remove_child(&mut self, is_it: impl Fn(&Child) -> bool) -> Option<Child> {
        let place = self.children.iter().position(is_it)?;
        Some(self.children.swap_remove(place))
    }

    /// Ends all children: nothing they could still say matters.
    fn dismiss(&mut self) {
        for child in std::mem::take(&mut self.children) {
            child.cell().stop(None);
        }
        self.errands.clear();
    }
}
