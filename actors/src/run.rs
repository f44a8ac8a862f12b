//! The run: the root supervisor. It lets planned episodes in as permits allow, restarts what dies within its budget,
//! and is over when every planned episode has ended or the door was closed and the last one has left.

mod shared;

use crate::address::Reply;
use crate::admission::Admission;
use crate::board::BoardMsg;
use crate::episode::{EpisodeActor, EpisodeArgs, EpisodeMsg};
use crate::errand::Errand;
use crate::ledger::{History, LedgerMsg};
use crate::stage::Stage;
use crate::supervision::RestartBudget;
use futures::FutureExt;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::{EpisodeKey, QuestionId};
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use shared::start_shared;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// A ledger that gave no reply is heard to be dead within so long, or the run ends without knowing of what.
pub const LEDGER_DEATH_HEARD_WITHIN: Duration = Duration::from_secs(30);

/// What a run is given when it starts.
pub struct RunArgs {
    /// The stage, with nobody on it yet.
    pub stage: Arc<Stage>,
    /// The questions by id.
    pub questions: HashMap<QuestionId, Arc<Question>>,
    /// Episodes to run, in order.
    pub waiting: Vec<EpisodeKey>,
    /// Of these, those that have events already.
    pub begun: HashSet<EpisodeKey>,
    /// Records of episodes that have ended before, for the board.
    pub ended: Vec<EpisodeRecord>,
    /// Planned episodes in all.
    pub planned: u64,
    /// Paid when the run is over.
    pub over: Reply<RunEnd>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Every planned episode has ended.
    Complete,
    /// The door was closed before all had entered, or episodes were stopped.
    Incomplete {
        /// Episodes that have not ended.
        left: u64,
    },
    /// It could not go on.
    Failed(Failure),
}

/// A run under way.
pub struct RunningRun {
    /// Whom to tell to drain or to stop.
    pub run: ActorRef<RunMsg>,
    /// Resolves when it is over.
    pub over: tokio::sync::oneshot::Receiver<RunEnd>,
}

/// What is to be run.
pub struct RunPlan {
    /// The stage, with nobody on it yet.
    pub stage: Arc<Stage>,
    /// The questions.
    pub questions: Vec<Arc<Question>>,
    /// Episodes to run, in order.
    pub waiting: Vec<EpisodeKey>,
    /// Of these, those that have events already.
    pub begun: HashSet<EpisodeKey>,
    /// Records of episodes that have ended before, for the board.
    pub ended: Vec<EpisodeRecord>,
}

/// Starts a run.
///
/// # Errors
/// If one of the shared actors cannot be started.
pub async fn start(plan: RunPlan) -> Result<RunningRun, Failure> {
    let (over, waits) = crate::address::reply();
    let args = RunArgs {
        stage: plan.stage,
        questions: plan.questions.into_iter().map(|question| (question.id.clone(), question)).collect(),
        planned: (plan.waiting.len() + plan.ended.len()) as u64,
        waiting: plan.waiting,
        begun: plan.begun,
        ended: plan.ended,
        over,
    };
    let (run, _join) = Actor::spawn(None, Run, args)
        .await
        .map_err(|error| Failure::new(FailureKind::ActorDied, format!("the run cannot be started: {error}")))?;
    Ok(RunningRun { run, over: waits })
}

/// What a run is told.
#[derive(Debug)]
pub enum RunMsg {
    /// Let the first episodes in.
    Begin,
    /// An episode has ended and is durable.
    EpisodeEnded(Box<EpisodeRecord>),
    /// The ledger has recalled the events of an episode that goes on.
    Recalled(EpisodeKey, Result<History, Failure>, Option<Failure>),
    /// The ledger gave no reply, and nothing was heard of its death.
    LedgerSilent(Failure),
    /// Work beside it panicked.
    ErrandFailed(String),
    /// Time to let every episode say again what it said last: nothing that is said within a process is lost, and if it
    /// is all the same, it must not stand still for ever.
    Remind,
    /// Let nobody in any more; those inside go on to their end.
    Drain,
    /// Stop at once; what was acknowledged is kept and can be resumed.
    Stop,
}

/// A run's door, its children and what it waits for.
pub struct RunState {
    stage: Arc<Stage>,
    questions: HashMap<QuestionId, Arc<Question>>,
    begun: HashSet<EpisodeKey>,
    door: Admission,
    inside: BTreeMap<EpisodeKey, ActorRef<EpisodeMsg>>,
    keys: HashMap<ActorId, EpisodeKey>,
    restarts: BTreeMap<EpisodeKey, RestartBudget>,
    /// Those that died too often and were started once more, to write that as their end.
    given_up: HashSet<EpisodeKey>,
    shared_restarts: RestartBudget,
    errands: HashMap<EpisodeKey, Errand>,
    /// Waits for the ledger's death, once it gave no reply.
    silence: Option<Errand>,
    reminder: Errand,
    stopped: u64,
    planned: u64,
    over: Option<Reply<RunEnd>>,
    ending: bool,
}

/// The run actor.
pub struct Run;

impl Actor for Run {
    type Msg = RunMsg;
    type State = RunState;
    type Arguments = RunArgs;

    async fn pre_start(&self, myself: ActorRef<RunMsg>, args: RunArgs) -> Result<RunState, ActorProcessingErr> {
        let stage = args.stage;
        let root = myself.get_cell();
        start_shared(&stage, &stage.cast.board, &stage.board, &root).await?;
        start_shared(&stage, &stage.cast.ledger, &stage.ledger, &root).await?;
        start_shared(&stage, &stage.cast.inference, &stage.inference, &root).await?;
        start_shared(&stage, &stage.cast.retriever, &stage.retriever, &root).await?;
        start_shared(&stage, &stage.cast.grader, &stage.grader, &root).await?;
        start_shared(&stage, &stage.cast.gate, &stage.gate, &root).await?;
        stage.board.tell(BoardMsg::Began { planned: args.planned, ended: args.ended });
        myself.cast(RunMsg::Begin)?;
        let shared_restarts = RestartBudget::new(stage.limits.shared_restarts);
        let reminder = remind_later(&stage, &myself);
        Ok(RunState {
            door: Admission::new(args.waiting, stage.limits.concurrency),
            stage,
            questions: args.questions,
            begun: args.begun,
            inside: BTreeMap::new(),
            keys: HashMap::new(),
            restarts: BTreeMap::new(),
            given_up: HashSet::new(),
            shared_restarts,
            errands: HashMap::new(),
            silence: None,
            reminder,
            stopped: 0,
            planned: args.planned,
            over: Some(args.over),
            ending: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<RunMsg>,
        message: RunMsg,
        state: &mut RunState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RunMsg::Begin => state.let_in(&myself).await,
            RunMsg::EpisodeEnded(record) => {
                state.episode_ended(record);
                state.let_in(&myself).await;
            }
            RunMsg::Recalled(key, recalled, lost) => {
                state.errands.remove(&key);
                match recalled {
                    Ok(history) => {
                        state.start_episode(&myself, key, history, lost).await;
                        // It may have left already.
                        state.let_in(&myself).await;
                    }
                    // A ledger that is dead cannot say of what. This run is its supervisor, hears that, and ends with it.
                    Err(failure) if failure.kind == FailureKind::ActorDied => state.await_ledger(&myself, failure),
                    Err(failure) => state.end(&myself, RunEnd::Failed(failure)).await,
                }
            }
            RunMsg::LedgerSilent(failure) => state.end(&myself, RunEnd::Failed(failure)).await,
            RunMsg::ErrandFailed(text) => {
                state.end(&myself, RunEnd::Failed(Failure::new(FailureKind::ActorDied, text))).await;
            }
            RunMsg::Remind => {
                for episode in state.inside.values() {
                    let _dead = episode.cast(EpisodeMsg::Remind);
                }
                state.reminder = remind_later(&state.stage, &myself);
            }
            RunMsg::Drain => {
                state.door.close();
                state.stage.board.tell(BoardMsg::Draining);
                state.let_in(&myself).await;
            }
            RunMsg::Stop => {
                state.door.close();
                let left = (state.door.inside() + state.door.waiting()) as u64 + state.stopped;
                state.end(&myself, RunEnd::Incomplete { left }).await;
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<RunMsg>,
        event: SupervisionEvent,
        state: &mut RunState,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, reason) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell, error.to_string()),
            SupervisionEvent::ActorTerminated(cell, _, reason) => (cell, reason.unwrap_or("stopped".to_owned())),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        if state.ending {
            return Ok(());
        }
        match state.keys.remove(&cell.get_id()) {
            Some(key) => {
                state.inside.remove(&key);
                state.episode_died(&myself, key, reason);
                // It may have been given up for good, and another has its permit.
                state.let_in(&myself).await;
            }
            None => state.shared_died(&myself, cell.get_id(), reason).await,
        }
        Ok(())
    }
}

impl RunState {
    async fn let_in(&mut self, myself: &ActorRef<RunMsg>) {
        if self.ending {
            return;
        }
        while let Some(key) = self.door.admit() {
            self.stage.board.tell(BoardMsg::Admitted(key.clone()));
            if self.begun.remove(&key) {
                self.recall(myself, key, None);
            } else {
                self.start_episode(myself, key, History::new(), None).await;
            }
        }
        if self.door.is_over() {
            let left = self.door.waiting() as u64 + self.stopped;
            self.end(myself, if left == 0 { RunEnd::Complete } else { RunEnd::Incomplete { left } }).await;
        }
    }

    fn episode_ended(&mut self, record: Box<EpisodeRecord>) {
        let Some(actor) = self.inside.remove(&record.key) else {
            // Ended twice: it died while its end was on the way, and its successor has ended as well.
            return;
        };
        actor.stop(None);
        self.keys.remove(&actor.get_id());
        self.restarts.remove(&record.key);
        self.given_up.remove(&record.key);
        self.stage.board.tell(BoardMsg::Ended(record));
        self.door.leave();
    }

    async fn start_episode(
        &mut self,
        myself: &ActorRef<RunMsg>,
        key: EpisodeKey,
        history: History,
        lost: Option<Failure>,
    ) {
        if self.ending {
            return;
        }
        let Some(question) = self.questions.get(&key.question).map(Arc::clone) else {
            let failure = Failure::new(FailureKind::Misconfigured, format!("episode {key} has no question"));
            return self.end(myself, RunEnd::Failed(failure)).await;
        };
        if lost.is_some() {
            self.given_up.insert(key.clone());
        }
        let args = EpisodeArgs {
            stage: Arc::clone(&self.stage),
            key: key.clone(),
            question,
            history,
            lost,
            run: myself.clone(),
        };
        match Actor::spawn_linked(None, EpisodeActor, args, myself.get_cell()).await {
            Ok((episode, _join)) => {
                self.keys.insert(episode.get_id(), key.clone());
                self.inside.insert(key, episode);
            }
            Err(error) => self.episode_died(myself, key, error.to_string()),
        }
    }

    /// Restarts an episode from the ledger's events, or has it ended as failed if it died too often.
    fn episode_died(&mut self, myself: &ActorRef<RunMsg>, key: EpisodeKey, reason: String) {
        // Not even its end could be written: it stays without a record, and every table shows it as not run.
        if self.given_up.remove(&key) {
            tracing::error!(episode = %key, %reason, "cannot be ended");
            self.restarts.remove(&key);
            self.stopped += 1;
            self.door.leave();
            return;
        }
        let limit = self.stage.limits.episode_restarts;
        let budget = self.restarts.entry(key.clone()).or_insert_with(|| RestartBudget::new(limit));
        let lost = (!budget.take(self.stage.clock.elapsed_ms()))
            .then(|| Failure::new(FailureKind::ActorDied, format!("the episode died too often, last of: {reason}")));
        tracing::warn!(episode = %key, %reason, given_up = lost.is_some(), "episode died");
        self.stage.board.tell(BoardMsg::Restarted("episode"));
        self.recall(myself, key, lost);
    }

    fn recall(&mut self, myself: &ActorRef<RunMsg>, key: EpisodeKey, lost: Option<Failure>) {
        let stage = Arc::clone(&self.stage);
        let asked = key.clone();
        let work = async move {
            let of = asked.clone();
            let recalled = stage.ledger.ask(stage.reply_lost_after(), |reply| LedgerMsg::Recall(of, None, reply)).await;
            Some(RunMsg::Recalled(asked, recalled.and_then(|recalled| recalled), lost))
        };
        self.errands.insert(key, Errand::run(myself.clone(), work, RunMsg::ErrandFailed));
    }

    /// The ledger's death says why it gave no reply, and is heard a moment before or after that; if it is never heard, the run
    /// ends by the missing reply.
    fn await_ledger(&mut self, myself: &ActorRef<RunMsg>, failure: Failure) {
        let silent = tokio::time::sleep(LEDGER_DEATH_HEARD_WITHIN).map(|()| Some(RunMsg::LedgerSilent(failure)));
        self.silence.get_or_insert_with(|| Errand::run(myself.clone(), silent, RunMsg::ErrandFailed));
    }

    /// Lets the ledger write what it has, then ends everything.
    async fn end(&mut self, myself: &ActorRef<RunMsg>, end: RunEnd) {
        if std::mem::replace(&mut self.ending, true) {
            return;
        }
        self.errands.clear();
        self.silence = None;
        // Episodes that are still inside are cut off here; their events are kept and a resume goes on with them.
        self.inside.values().for_each(|episode| episode.kill());
        let _dead_already = self.stage.ledger.ask(self.stage.reply_lost_after(), LedgerMsg::Close).await;
        if let Some(over) = self.over.take() {
            over.send(end);
        }
        myself.stop(None);
    }
}

fn remind_later(stage: &Stage, myself: &ActorRef<RunMsg>) -> Errand {
    let after = Duration::from_millis(stage.limits.remind_after_ms);
    let work = tokio::time::sleep(after).map(|()| Some(RunMsg::Remind));
    Errand::run(myself.clone(), work, RunMsg::ErrandFailed)
}
