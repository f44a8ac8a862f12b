//! The trainer: takes samples, forms slots, tells the ranks each step, keeps records and checkpoints. It carries the pure
//! [`Course`](legwork_training::course::Course); ranks compute on threads of their own, a clerk has the disk, and what comes of
//! both arrives as messages. A rank that dies ends the step for all: all are made anew from the last checkpoint and the same slots
//! are done again.
//! It refuses to know models, devices and where samples come from.

mod clerk;
mod decoder;
mod error;
mod feed;
mod folder;
mod manifest;
mod peak;
mod places;
mod ranks;
mod record;
mod shelf;
mod show;
mod steps;
#[cfg(test)]
mod tests;

pub use clerk::{CountFlops, Done, FormedSlot, Packing};
pub use decoder::{Checkpoints, decoder_group, decoder_group_of_processes, served_decoder};
pub use error::TrainerError;
pub use feed::{DOOR_MAX, Feed, KEPT_MAX, SampleLimits, SlotOrder};
pub use folder::{MANIFEST, METRICS, TrainingFolder, TrainingRecords, read_records};
pub use manifest::{SourceShare, TrainingData, TrainingManifest};
pub use peak::measured_peak;
pub use places::RankPlaces;
pub use ranks::{Answer, MakeGroup, MakeRank, Trouble};
pub use record::{Record, StepRecord};
pub use shelf::{KeptCheckpoint, KeptState, Shelf};
pub use show::{SHOWN_MAX, Show};

use crate::address::Reply;
use crate::clock::Clock;
use crate::supervision::RestartLimit;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_training::Sample;
use legwork_training::course::{CourseEnd, CourseEvent, CourseSettings, Progress};
use legwork_training::pack::Pack;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;
use std::time::Duration;
use steps::TrainerState;

/// Ranks that are dropped must be gone within this time; what is in the midst of a long product ends it first.
pub const GONE_WITHIN: Duration = Duration::from_secs(600);

/// The learning rate from the samples of all updates so far.
pub type Rate = Arc<dyn Fn(u64) -> f64 + Send + Sync>;

/// How each update is made.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UpdateSettings {
    /// The global gradient norm is clipped to this.
    pub clip: f64,
    /// AdamW's decay of the first moment.
    pub beta1: f64,
    /// AdamW's decay of the second moment.
    pub beta2: f64,
    /// AdamW's epsilon.
    pub eps: f64,
    /// Weight decay of tensors of more than one dimension.
    pub decay: f64,
}

impl Default for UpdateSettings {
    /// Those of the card.
    fn default() -> Self {
        Self { clip: 1.0, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1 }
    }
}

/// What a trainer is given when it starts.
pub struct TrainerArgs {
    /// What is trained on.
    pub feed: Feed,
    /// Samples of a slot, as the rate counts them.
    pub batch: u64,
    /// How they become packs.
    pub packing: Packing,
    /// What is held out, packed as one slot. Empty: nothing is evaluated.
    pub held_out: Arc<Vec<Pack>>,
    /// How each update is made.
    pub update: UpdateSettings,
    /// The learning rate.
    pub rate: Rate,
    /// Slots between two checkpoints; 0 for one at the end only.
    pub save_every: u64,
    /// Slots between two evaluations; 0 for those at the beginning and at the end only.
    pub evaluate_every: u64,
    /// How often ranks may be made anew.
    pub restarts: RestartLimit,
    /// Makes them.
    pub make: MakeGroup,
    /// The run's folder.
    pub folder: TrainingFolder,
    /// Its checkpoints.
    pub shelf: Box<dyn Shelf>,
    /// What the last of them is of, or the beginning.
    pub saved: Progress,
    /// Who looks on.
    pub show: Show,
    /// Operations a second of all ranks together, where that is known: what MFU is a share of.
    pub peak_flops: Option<f64>,
    /// The run's clock.
    pub clock: Clock,
    /// Paid when training is over. Whoever looks on must go on looking until then.
    pub over: Reply<CourseEnd>,
}

/// What a trainer is told.
#[derive(Debug)]
pub enum TrainerMsg {
    /// Begin, or go on.
    Begin,
    /// A sample of a live feed. Owes: when it is taken, or why it is not.
    Trajectory(Box<Sample>, Reply<Result<(), Failure>>),
    /// No more samples of a live feed come.
    NoMoreTrajectories,
    /// Finish the step, write a checkpoint, end.
    Stop,
    /// A fault: this rank dies at its next order, as if it had panicked.
    KillRank(usize),
    /// A rank has answered, or is no more.
    Rank {
        /// Which making of the group.
        generation: u64,
        /// The rank.
        rank: usize,
        /// What it says.
        news: RankNews,
    },
    /// The clerk has done a job, or could not.
    Clerk {
        /// The job, if somebody waits for it.
        ticket: Option<u64>,
        /// What came of it.
        done: Result<Done, String>,
    },
    /// Ranks of this generation were to be gone by now.
    GoneOverdue(u64),
}

/// What a rank's thread says.
#[derive(Clone, Debug)]
pub enum RankNews {
    /// It has done what it was told, or not.
    Answered(Result<Answer, Trouble>),
    /// Its thread has ended and let go of all it had.
    Gone,
}

/// The trainer actor.
pub struct Trainer;

impl Actor for Trainer {
    type Msg = TrainerMsg;
    type State = TrainerState;
    type Arguments = TrainerArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<TrainerMsg>,
        args: TrainerArgs,
    ) -> Result<TrainerState, ActorProcessingErr> {
        Ok(TrainerState::new(args, &myself)?)
    }

    async fn handle(
        &self,
        myself: ActorRef<TrainerMsg>,
        message: TrainerMsg,
        state: &mut TrainerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            TrainerMsg::Begin => state.advance(&myself, CourseEvent::Begun).await,
            TrainerMsg::Trajectory(sample, taken) => {
                state.offered(sample, taken);
                state.look_for_slot(&myself).await;
            }
            TrainerMsg::NoMoreTrajectories => {
                state.close_feed();
                state.look_for_slot(&myself).await;
            }
            TrainerMsg::Stop => state.advance(&myself, CourseEvent::StopAsked).await,
            TrainerMsg::KillRank(rank) => state.doom(rank),
            TrainerMsg::Rank { generation, rank, news } => state.heard(&myself, generation, rank, news).await,
            TrainerMsg::Clerk { ticket, done } => state.clerk_done(&myself, ticket, done).await,
            TrainerMsg::GoneOverdue(generation) => state.overdue(&myself, generation).await,
        }
        Ok(())
    }
}

/// Starts a trainer; it waits for [`TrainerMsg::Begin`].
///
/// # Errors
/// Settings that cannot be, or a thread that the system does not give.
pub async fn start(args: TrainerArgs) -> Result<ActorRef<TrainerMsg>, Failure> {
    check(&args)?;
    let started = Actor::spawn(None, Trainer, args).await;
    let (trainer, _join) = started
        .map_err(|error| Failure::new(FailureKind::ActorDied, format!("the trainer cannot be started: {error}")))?;
    Ok(trainer)
}

fn check(args: &TrainerArgs) -> Result<(), Failure> {
    if let Feed::Live { batch, .. } = &args.feed {
        let kept = (*batch as u64).saturating_mul(args.save_every);
        if kept == 0 || kept > KEPT_MAX {
            let detail = format!(
                "samples of a live feed are kept until a checkpoint is written of them, at most {KEPT_MAX}: expected from 1 to \
                 {} slots of {batch} samples between two checkpoints, got {}",
                KEPT_MAX / (*batch).max(1) as u64,
                args.save_every
            );
            return Err(Failure::new(FailureKind::Misconfigured, detail));
        }
    }
    Ok(())
}

fn course_settings(args: &TrainerArgs) -> CourseSettings {
    let slots = match &args.feed {
        Feed::List { slots, .. } => Some(*slots),
        Feed::Live { .. } => None,
    };
    let evaluate_every = (!args.held_out.is_empty()).then_some(args.evaluate_every);
    CourseSettings { slots, save_every: args.save_every, evaluate_every }
}
