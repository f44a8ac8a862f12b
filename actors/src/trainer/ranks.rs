//! Ranks on threads of their own: each is made there, takes one order at a time, and tells the trainer what came of it. An
//! order that is taken is answered in any case, and a thread that ends says so, however it ends.
//! It refuses to know in which order things are done.

use super::{RankNews, TrainerMsg};
use crate::errand::panic_text;
use legwork_training::TrainingError;
use legwork_training::pack::Pack;
use legwork_training::rank::{Rank, StepDone, Update};
use ractor::ActorRef;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Orders that wait for a rank. It is told the next when it has answered the last.
const ORDERS_MAX: usize = 1;

/// Makes one rank, on its own thread.
pub type MakeRank = Box<dyn FnOnce() -> Result<Box<dyn Rank>, TrainingError> + Send>;
/// Makes the makers of one group of ranks, who will know one another; called again after a death.
pub type MakeGroup = Arc<dyn Fn() -> Result<Vec<MakeRank>, TrainingError> + Send + Sync>;

/// What ranks are told; all of a group the same.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Step(Arc<Vec<Pack>>, Update),
    Evaluate(Arc<Vec<Pack>>),
    Save(PathBuf),
}

/// What came of an order.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// It is made and has the state of the checkpoint.
    Made,
    /// A step.
    Stepped(StepDone),
    /// An evaluation.
    Evaluated(f64),
    /// A part of a checkpoint.
    Saved,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// It says why not, and trying again is of no use: a model that cannot be read, a checkpoint that cannot be written.
    Refused(String),
    /// It is no more: it panicked, failed in the midst of a step, or never answered.
    Died(String),
}

/// A group of ranks. Dropping it ends their threads after what they are at.
pub(super) struct Ranks {
    doors: Vec<Door>,
}

struct Door {
    orders: SyncSender<Order>,
    is_doomed: Arc<AtomicBool>,
}

impl Ranks {
    /// Starts a thread for each rank of a new group. Each will answer when it is made and holds the checkpoint's state.
    pub(super) fn start(
        generation: u64,
        makers: Vec<MakeRank>,
        checkpoint: Option<PathBuf>,
        trainer: &ActorRef<TrainerMsg>,
    ) -> std::io::Result<Self> {
        let mut doors = Vec::with_capacity(makers.len());
        for (rank, make) in makers.into_iter().enumerate() {
            let (orders, door) = sync_channel(ORDERS_MAX);
            let is_doomed = Arc::new(AtomicBool::new(false));
            let speaker = Speaker { generation, rank, trainer: trainer.clone(), owes: true };
            let (doomed, checkpoint) = (Arc::clone(&is_doomed), checkpoint.clone());
            let builder = std::thread::Builder::new().name(format!("rank-{rank}"));
            builder.spawn(move || live(make, checkpoint, &door, &doomed, speaker))?;
            doors.push(Door { orders, is_doomed });
        }
        Ok(Self { doors })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.doors.len()
    }

    /// Tells all of them; those who are no more are named.
    pub(super) fn tell(&self, order: &Order) -> Vec<usize> {
        let told = self.doors.iter().map(|door| door.orders.try_send(order.clone()).is_ok());
        told.enumerate().filter(|(_, is_told)| !is_told).map(|(rank, _)| rank).collect()
    }

    /// Lets a rank die at its next order, as if it had panicked.
    pub(super) fn doom(&self, rank: usize) {
        if let Some(door) = self.doors.get(rank) {
            door.is_doomed.store(true, Ordering::Relaxed);
        }
    }
}

/// Tells the trainer. Dropped, it says what is still owed, and that its thread has ended.
struct Speaker {
    generation: u64,
    rank: usize,
    trainer: ActorRef<TrainerMsg>,
    owes: bool,
}

impl Speaker {
    fn answer(&mut self, answer: Result<Answer, Trouble>) {
        self.owes = false;
        self.say(RankNews::Answered(answer));
    }

    fn say(&self, news: RankNews) {
        let (generation, rank) = (self.generation, self.rank);
        let _trainer_has_gone = self.trainer.cast(TrainerMsg::Rank { generation, rank, news });
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        if self.owes {
            self.say(RankNews::Answered(Err(Trouble::Died("its thread ended without an answer".to_owned()))));
        }
        self.say(RankNews::Gone);
    }
}

/// The life of a rank's thread. The speaker is dropped last: who says that a rank is gone has let go of all it had.
fn live(
    make: MakeRank,
    checkpoint: Option<PathBuf>,
    door: &Receiver<Order>,
    is_doomed: &AtomicBool,
    mut speaker: Speaker,
) {
    let made = caught(|| {
        let mut rank = make()?;
        if let Some(folder) = checkpoint {
            rank.restore(&folder)?;
        }
        Ok(rank)
    });
    let mut rank = match made {
        Ok(rank) => rank,
        Err(trouble) => return speaker.answer(Err(trouble)),
    };
    speaker.answer(Ok(Answer::Made));
    while let Ok(order) = door.recv() {
        speaker.owes = true;
        let answer = caught(|| {
            assert!(!is_doomed.load(Ordering::Relaxed), "it was told to die");
            carry_out(&mut *rank, &order)
        });
        // What a rank is after an error in the midst of a step, nobody knows. One that could not save is what it was.
        let answer = match (answer, &order) {
            (Err(Trouble::Refused(why)), Order::Step(..) | Order::Evaluate(_)) => Err(Trouble::Died(why)),
            (answer, _) => answer,
        };
        let is_over = matches!(answer, Err(Trouble::Died(_)));
        if is_over {
            // Its peers, who may wait for it, hear of it before anybody else.
            drop(rank);
            return speaker.answer(answer);
        }
        speaker.answer(answer);
    }
}

fn carry_out(rank: &mut dyn Rank, order: &Order) -> Result<Answer, TrainingError> {
    Ok(match order {
        Order::Step(packs, update) => Answer::Stepped(rank.step(packs, update)?),
        Order::Evaluate(packs) => Answer::Evaluated(rank.evaluate(packs)?),
        Order::Save(folder) => {
            rank.save(folder)?;
            Answer::Saved
        }
    })
}

fn caught<T>(work: impl FnOnce() -> Result<T, TrainingError>) -> Result<T, Trouble> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Trouble::Refused(error.to_string())),
        Err(panic) => Err(Trouble::Died(format!("it panicked: {}", panic_text(panic.as_ref())))),
    }
}
