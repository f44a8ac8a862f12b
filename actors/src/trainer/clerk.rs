//! The trainer's clerk: a thread of its own for all that takes a disk or a moment's computing. It packs slots, writes records,
//! begins and closes checkpoints, and finds where to go on after a death. Jobs come through a bounded queue and are done in
//! order; each that owes an answer gives it as a message.
//! It refuses to know when anything is due.

use super::TrainerMsg;
use super::feed::SlotSamples;
use super::folder::TrainingFolder;
use super::record::Record;
use super::shelf::{KeptState, Shelf};
use super::show::Show;
use crate::address::Reply;
use crate::errand::panic_text;
use legwork_training::batch::pack;
use legwork_training::course::Progress;
use legwork_training::pack::{Normalisation, Pack};
use ractor::ActorRef;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Jobs that wait for the clerk.
const JOBS_MAX: usize = 16;

/// How samples become packs.
#[derive(Clone)]
pub struct Packing {
    /// Tokens of a pack; a longer sample has its own.
    pub tokens_max: usize,
    /// Packs are padded to a multiple of this.
    pub multiple: usize,
    /// How the loss of a slot is normalised.
    pub normalisation: Normalisation,
    /// Floating-point operations of a step over sequences of these lengths with so many rows in the loss, where it is known.
    pub flops: Option<CountFlops>,
}

/// Counts a step's operations from its sequences' lengths and its rows in the loss.
pub type CountFlops = Arc<dyn Fn(&[usize], usize) -> f64 + Send + Sync>;

/// A slot, packed.
#[derive(Clone, Debug)]
pub struct FormedSlot {
    pub(super) packs: Arc<Vec<Pack>>,
    pub(super) tokens: u64,
    pub(super) supervised: u64,
    pub(super) padding: u64,
    pub(super) flops: Option<f64>,
}

/// What the clerk is to do. Tickets tell an answer that is waited for from one that no longer is.
pub(super) enum Job {
    /// Owes [`Done::Formed`].
    Form { ticket: u64, samples: SlotSamples },
    /// Owes nothing unless it fails.
    Keep(Record),
    /// Owes [`Done::Begun`].
    Begin { ticket: u64, step: u64 },
    /// Owes [`Done::Committed`].
    Commit { ticket: u64, at: Progress, begun: PathBuf },
    /// Owes [`Done::Rewound`].
    Rewind { ticket: u64, at_ms: u64 },
    /// Owes: when all is written.
    Close(Reply<()>),
}

/// What the clerk has done.
#[derive(Clone, Debug)]
pub enum Done {
    /// A slot is packed.
    Formed(FormedSlot),
    /// The ranks may write here.
    Begun(PathBuf),
    /// The checkpoint is there.
    Committed,
    /// Records stand at the last checkpoint.
    Rewound {
        /// Its folder, if there is one.
        checkpoint: Option<PathBuf>,
        /// What it is of.
        at: Progress,
        /// Whether that was evaluated.
        is_evaluated: bool,
    },
}

/// What the clerk works with.
pub(super) struct Desk {
    pub(super) folder: TrainingFolder,
    pub(super) shelf: Box<dyn Shelf>,
    pub(super) packing: Packing,
    pub(super) show: Show,
}

/// Starts the clerk.
pub(super) fn start(desk: Desk, trainer: ActorRef<TrainerMsg>) -> std::io::Result<mpsc::Sender<Job>> {
    let (jobs, queue) = mpsc::channel(JOBS_MAX);
    let builder = std::thread::Builder::new().name("trainer-clerk".to_owned());
    builder.spawn(move || work(desk, queue, &trainer))?;
    Ok(jobs)
}

fn work(mut desk: Desk, mut queue: mpsc::Receiver<Job>, trainer: &ActorRef<TrainerMsg>) {
    while let Some(job) = queue.blocking_recv() {
        let job = match job {
            Job::Close(reply) => {
                let _as_far_as_it_goes = desk.folder.sync();
                // The folder's lock is given back before anybody hears that it is closed.
                drop(desk);
                return reply.send(());
            }
            job => job,
        };
        let ticket = match &job {
            Job::Form { ticket, .. }
            | Job::Begin { ticket, .. }
            | Job::Commit { ticket, .. }
            | Job::Rewind { ticket, .. } => Some(*ticket),
            Job::Keep(_) | Job::Close(_) => None,
        };
        let done = catch_unwind(AssertUnwindSafe(|| desk.carry_out(job)))
            .unwrap_or_else(|panic| Err(format!("the trainer's clerk panicked: {}", panic_text(panic.as_ref()))));
        let (ticket, done) = match (ticket, done) {
            (_, Ok(None)) => continue,
            (ticket, Ok(Some(done))) => (ticket, Ok(done)),
            (ticket, Err(why)) => (ticket, Err(why)),
        };
        let _trainer_has_gone = trainer.cast(TrainerMsg::Clerk { ticket, done });
    }
}

impl Desk {
    fn carry_out(&mut self, job: Job) -> Result<Option<Done>, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        match job {
            Job::Form { samples, .. } => Ok(Some(Done::Formed(self.packing.form(&samples)))),
            Job::Keep(record) => {
                self.folder.append(&record).map_err(|error| text(&error))?;
                self.show.tell(record);
                Ok(None)
            }
            Job::Begin { step, .. } => Ok(Some(Done::Begun(self.shelf.begin(step).map_err(|error| text(&error))?))),
            Job::Commit { at, begun, .. } => {
                // Whoever finds the checkpoint finds every record that led to it.
                self.folder.sync().map_err(|error| text(&error))?;
                let state = KeptState::new(at, self.folder.last());
                self.shelf.commit(&begun, &state).map_err(|error| text(&error))?;
                Ok(Some(Done::Committed))
            }
            Job::Rewind { at_ms, .. } => {
                let latest = self.shelf.latest().map_err(|error| text(&error))?;
                let at = latest.as_ref().map_or(Progress::default(), |latest| latest.state.at);
                let link = latest.as_ref().and_then(|latest| latest.state.link());
                let is_evaluated = self.folder.rewind(at.slots, link).map_err(|error| text(&error))?;
                self.show.rewound(self.folder.path(), at_ms);
                let checkpoint = latest.map(|latest| latest.folder);
                Ok(Some(Done::Rewound { checkpoint, at, is_evaluated }))
            }
            Job::Close(_) => Ok(None),
        }
    }
}

impl Packing {
    fn form(&self, samples: &SlotSamples) -> FormedSlot {
        let samples = samples.get();
        let packs = pack(&samples, self.tokens_max, self.multiple, self.normalisation);
        let lengths: Vec<usize> = samples.iter().map(|sample| sample.ids.len()).collect();
        let tokens: usize = lengths.iter().sum();
        let rows: usize = packs.iter().map(|pack| pack.ids.len()).sum();
        let supervised: usize = packs.iter().map(|pack| pack.rows.len()).sum();
        FormedSlot {
            packs: Arc::new(packs),
            tokens: tokens as u64,
            supervised: supervised as u64,
            padding: (rows - tokens.min(rows)) as u64,
            flops: self.flops.as_ref().map(|flops| flops(&lengths, supervised)),
        }
    }
}
