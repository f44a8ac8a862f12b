//! The board: what a run is doing right now, for whoever watches. It counts facts that actors tell it and owns
//! no truth: losing one costs a number on a screen, never a result.

use crate::address::Reply;
use crate::stage::Stage;
use legwork_protocol::generation::Route;
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::outcome::Outcome;
use legwork_protocol::record::EpisodeRecord;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Finished episodes that a snapshot lists.
pub const RECENT_MAX: usize = 16;
/// Running episodes that a snapshot lists.
pub const RUNNING_LISTED_MAX: usize = 64;

/// What the board is told and asked.
#[derive(Debug)]
pub enum BoardMsg {
    /// A run of this size has begun; `ended` episodes had ended before it was resumed.
    Began {
        /// Planned episodes.
        planned: u64,
        /// Records of those that had ended before.
        ended: Vec<EpisodeRecord>,
    },
    /// An episode has entered.
    Admitted(EpisodeKey),
    /// A model has answered.
    Turned {
        /// Whose episode.
        episode: EpisodeKey,
        /// The part it plays.
        route: Route,
        /// New tokens.
        tokens: u64,
        /// Time being served, in milliseconds.
        served_ms: u64,
        /// Time waiting before, in milliseconds.
        queued_ms: u64,
    },
    /// A lookup was answered.
    LookedUp,
    /// Something failed and may be tried again.
    Stumbled(&'static str),
    /// An actor was restarted.
    Restarted(&'static str),
    /// An episode has ended.
    Ended(Box<EpisodeRecord>),
    /// The run takes no more episodes in.
    Draining,
    /// Owes: how it stands.
    Look(Reply<Snapshot>),
}

/// How a run stands.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Planned episodes.
    pub planned: u64,
    /// Episodes that have ended.
    pub ended: u64,
    /// Of these, before the run was resumed.
    pub ended_before: u64,
    /// Episodes under way, with the turns they have made.
    pub running: Vec<(EpisodeKey, u32)>,
    /// How many are under way.
    pub running_count: u64,
    /// Correct and ended, by tier in order of first sight.
    pub tiers: Vec<(String, u64, u64)>,
    /// Ends by kind.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Correct ends.
    pub correct: u64,
    /// Model calls answered.
    pub turns: u64,
    /// Lookups answered.
    pub lookups: u64,
    /// New tokens by the part a model plays.
    pub tokens: BTreeMap<Route, u64>,
    /// Millionths of a currency unit spent by ended episodes.
    pub micros: u64,
    /// Failures that may have been tried again, by kind.
    pub stumbles: BTreeMap<&'static str, u64>,
    /// Restarts, by actor.
    pub restarts: BTreeMap<&'static str, u64>,
    /// Milliseconds that the run has taken.
    pub elapsed_ms: u64,
    /// The last ends, newest first.
    pub recent: VecDeque<(EpisodeKey, Outcome)>,
    /// The run takes no more episodes in.
    pub draining: bool,
}

/// The board's own state.
pub struct BoardState {
    stage: Arc<Stage>,
    snapshot: Snapshot,
    running: BTreeMap<EpisodeKey, u32>,
}

/// The board.
pub struct Board;

impl Actor for Board {
    type Msg = BoardMsg;
    type State = BoardState;
    type Arguments = Arc<Stage>;

    async fn pre_start(
        &self,
        _myself: ActorRef<BoardMsg>,
        stage: Arc<Stage>,
    ) -> Result<BoardState, ActorProcessingErr> {
        Ok(BoardState { stage, snapshot: Snapshot::default(), running: BTreeMap::new() })
    }

    async fn handle(
        &self,
        _myself: ActorRef<BoardMsg>,
        message: BoardMsg,
        state: &mut BoardState,
    ) -> Result<(), ActorProcessingErr> {
        let board = &mut state.snapshot;
        match message {
            BoardMsg::Began { planned, ended } => {
                board.planned = planned;
                board.ended_before = ended.len() as u64;
                ended.iter().for_each(|record| board.count(record));
            }
            BoardMsg::Admitted(key) => drop(state.running.insert(key, 0)),
            BoardMsg::Turned { episode, route, tokens, .. } => {
                board.turns += 1;
                *board.tokens.entry(route).or_default() += tokens;
                if let Some(turns) = state.running.get_mut(&episode) {
                    *turns += 1;
                }
            }
            BoardMsg::LookedUp => board.lookups += 1,
            BoardMsg::Stumbled(kind) => *board.stumbles.entry(kind).or_default() += 1,
            BoardMsg::Restarted(actor) => *board.restarts.entry(actor).or_default() += 1,
            BoardMsg::Ended(record) => {
                state.running.remove(&record.key);
                board.count(&record);
                board.recent.push_front((record.key.clone(), record.outcome));
                board.recent.truncate(RECENT_MAX);
            }
            BoardMsg::Draining => board.draining = true,
            BoardMsg::Look(reply) => {
                board.elapsed_ms = state.stage.clock.elapsed_ms();
                board.running_count = state.running.len() as u64;
                let listed = state.running.iter().take(RUNNING_LISTED_MAX);
                board.running = listed.map(|(key, turns)| (key.clone(), *turns)).collect();
                reply.send(board.clone());
            }
        }
        Ok(())
    }
}

impl Snapshot {
    fn count(&mut self, record: &EpisodeRecord) {
        let correct = u64::from(record.outcome.is_correct());
        self.ended += 1;
        self.correct += correct;
        self.micros = self.micros.saturating_add(record.coordinator_spent.plus(&record.workers_spent).micros);
        *self.outcomes.entry(record.outcome.name()).or_default() += 1;
        match self.tiers.iter_mut().find(|(tier, ..)| *tier == record.tier) {
            Some((_, right, ended)) => {
                *right += correct;
                *ended += 1;
            }
            None => self.tiers.push((record.tier.clone(), correct, 1)),
        }
    }
}
