//! A play of the trainer with ranks that learn a handful of numbers together and die when they are told to, over real files.
//! They meet as ranks of a real group do: whoever leaves wakes those who wait.

use super::super::*;
use legwork_training::pack::Normalisation;
use legwork_training::rank::{Rank, StepDone, Update};
use legwork_training::{Place, TrainingError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Ranks of a group.
pub(super) const RANKS: usize = 2;
/// Samples of a slot.
const BATCH: usize = 3;
/// How often a group may be made anew.
pub(super) const RESTARTS: RestartLimit = RestartLimit { restarts_max: 6, window_ms: 600_000 };
/// Numbers that each rank learns.
const WEIGHTS: usize = 5;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    PanicBefore,
    PanicAfter,
    Error,
    /// At this update, again and again.
    Always,
    NotMade,
    DiskFull,
    Disagree,
    NotFinite,
}

/// Where it goes wrong: for a save, the update before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strike {
    pub(super) update: u64,
    pub(super) rank: usize,
    pub(super) fault: Fault,
}

/// Strikes that are still to come, and how many there were.
#[derive(Default)]
struct Plan {
    strikes: Vec<Strike>,
    struck: usize,
}

type Planned = Arc<Mutex<Plan>>;

fn strike(plan: &Planned, update: u64, rank: usize, wanted: &[Fault]) -> Option<Fault> {
    let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |strike: &Strike| strike.update == update && strike.rank == rank && wanted.contains(&strike.fault);
    let at = plan.strikes.iter().position(is_it)?;
    plan.struck += 1;
    let fault = plan.strikes[at].fault;
    if fault != Fault::Always {
        plan.strikes.remove(at);
    }
    Some(fault)
}

/// Where ranks meet to sum a number.
#[derive(Default)]
struct Meeting {
    table: Mutex<Table>,
    turn: Condvar,
}

#[derive(Default)]
struct Table {
    round: u64,
    put: [Option<f64>; RANKS],
    taken: usize,
    left: Option<usize>,
}

struct Member {
    meeting: Arc<Meeting>,
    rank: usize,
}

impl Member {
    fn sum(&self, number: f64) -> Result<f64, TrainingError> {
        let mut table = self.meeting.table.lock().unwrap();
        while table.put[self.rank].is_some() && table.left.is_none() {
            table = self.meeting.turn.wait(table).unwrap();
        }
        table.put[self.rank] = Some(number);
        self.meeting.turn.notify_all();
        while table.put.iter().any(Option::is_none) && table.left.is_none() {
            table = self.meeting.turn.wait(table).unwrap();
        }
        if let Some(rank) = table.left.filter(|_| table.put.iter().any(Option::is_none)) {
            return Err(TrainingError::Ops(legwork_kernels::OpsError::Device(format!("rank {rank} left"))));
        }
        let sum = table.put.iter().flatten().sum();
        table.taken += 1;
        if table.taken == RANKS {
            (table.put, table.taken) = ([None; RANKS], 0);
            table.round += 1;
        } else {
            let round = table.round;
            // Nobody begins the next sum before all have this one.
            while table.round == round && table.left.is_none() {
                table = self.meeting.turn.wait(table).unwrap();
            }
        }
        self.meeting.turn.notify_all();
        Ok(sum)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.meeting.table.lock().unwrap_or_else(PoisonError::into_inner).left.get_or_insert(self.rank);
        self.meeting.turn.notify_all();
    }
}

struct Learner {
    member: Member,
    plan: Planned,
    weights: Vec<f64>,
    momentum: Vec<f64>,
    updates: u64,
}

impl Learner {
    /// The loss over all packs and this rank's part of its gradient.
    fn loss(&self, packs: &[Pack]) -> Result<(f64, Vec<f64>), TrainingError> {
        let (mut loss, mut gradient) = (0.0, vec![0.0; WEIGHTS]);
        for pack in packs {
            for ((row, target), weight) in pack.rows.iter().zip(&pack.targets).zip(&pack.weights) {
                let at = pack.ids[*row as usize] as usize % WEIGHTS;
                let miss = self.weights[at] - f64::from(*target) / 7.0;
                loss += f64::from(*weight) * miss * miss;
                gradient[at] += 2.0 * f64::from(*weight) * miss;
            }
        }
        Ok((self.member.sum(loss)?, gradient))
    }
}

impl Rank for Learner {
    fn step(&mut self, packs: &[Pack], update: &Update) -> Result<StepDone, TrainingError> {
        let rank = self.member.rank;
        let all =
            [Fault::PanicBefore, Fault::PanicAfter, Fault::Error, Fault::Always, Fault::Disagree, Fault::NotFinite];
        let fault = strike(&self.plan, update.step, rank, &all);
        assert!(!matches!(fault, Some(Fault::PanicBefore | Fault::Always)), "struck at update {}", update.step);
        let (loss, gradient) = self.loss(packs)?;
        assert!(fault != Some(Fault::PanicAfter), "struck at update {}", update.step);
        let squares = gradient.iter().map(|value| value * value).sum::<f64>();
        let squares = if fault == Some(Fault::NotFinite) { f64::NAN } else { squares };
        let grad_norm = self.member.sum(squares)?.sqrt();
        if fault == Some(Fault::Error) {
            return Err(TrainingError::Ops(legwork_kernels::OpsError::Device("struck".to_owned())));
        }
        let updated = grad_norm.is_finite();
        if updated {
            self.updates = update.step;
            for ((weight, momentum), gradient) in self.weights.iter_mut().zip(&mut self.momentum).zip(&gradient) {
                *momentum = update.beta1 * *momentum + (1.0 - update.beta1) * gradient;
                *weight -= update.rate * *momentum;
            }
        }
        let loss = if fault == Some(Fault::Disagree) { loss + 1.0 } else { loss };
        Ok(StepDone { loss, grad_norm, updated })
    }

    fn evaluate(&mut self, packs: &[Pack]) -> Result<f64, TrainingError> {
        Ok(self.loss(packs)?.0)
    }

    fn save(&mut self, folder: &Path) -> Result<(), TrainingError> {
        let path = folder.join(format!("rank-{}.json", self.member.rank));
        if strike(&self.plan, self.updates, self.member.rank, &[Fault::DiskFull]).is_some() {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(TrainingError::Io { what: "write", path, source });
        }
        let state = serde_json::to_vec(&(&self.weights, &self.momentum, self.updates)).unwrap();
        std::fs::write(path, state).unwrap();
        Ok(())
    }

    fn restore(&mut self, folder: &Path) -> Result<(), TrainingError> {
        let state = std::fs::read(folder.join(format!("rank-{}.json", self.member.rank))).unwrap();
        (self.weights, self.momentum, self.updates) = serde_json::from_slice(&state).unwrap();
        Ok(())
    }
}

fn group(plan: &Planned) -> MakeGroup {
    let plan = Arc::clone(plan);
    Arc::new(move || {
        let meeting = Arc::new(Meeting::default());
        let maker = |rank| -> MakeRank {
            let (member, plan) = (Member { meeting: Arc::clone(&meeting), rank }, Arc::clone(&plan));
            Box::new(move || {
                if strike(&plan, 0, rank, &[Fault::NotMade]).is_some() {
                    let (expected, got) = ("a model".to_owned(), "none".to_owned());
                    return Err(TrainingError::Setting { setting: "model", expected, got });
                }
                let weights = (0..WEIGHTS).map(|at| (at + rank) as f64 / 3.0).collect();
                Ok(Box::new(Learner { member, plan, weights, momentum: vec![0.0; WEIGHTS], updates: 0 })
                    as Box<dyn Rank>)
            })
        };
        Ok((0..RANKS).map(maker).collect())
    })
}

/// Checkpoints as folders with a file of each rank.
struct Folders(PathBuf);

impl Folders {
    fn all(&self) -> BTreeMap<u64, PathBuf> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let numbered = entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
        numbered.collect()
    }
}

impl Shelf for Folders {
    fn begin(&mut self, step: u64) -> Result<PathBuf, TrainingError> {
        let folder = self.0.join(format!("{step}.partial"));
        let _from_before = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Ok(folder)
    }

    fn commit(&mut self, begun: &Path, state: &KeptState) -> Result<(), TrainingError> {
        std::fs::write(begun.join("state.json"), serde_json::to_vec(state).unwrap()).unwrap();
        std::fs::rename(begun, begun.with_extension("")).unwrap();
        Ok(())
    }

    fn latest(&mut self) -> Result<Option<KeptCheckpoint>, TrainingError> {
        let Some((_, folder)) = self.all().pop_last() else { return Ok(None) };
        let state = serde_json::from_slice(&std::fs::read(folder.join("state.json")).unwrap()).unwrap();
        Ok(Some(KeptCheckpoint { folder, state }))
    }
}

/// A run in a folder of its own.
pub(super) struct Play {
    folder: tempfile::TempDir,
    plan: Planned,
    slots: Option<u64>,
    save_every: u64,
    evaluate_every: u64,
}

/// A run under way.
pub(super) struct Running {
    pub(super) trainer: ActorRef<TrainerMsg>,
    over: oneshot::Receiver<CourseEnd>,
    records: mpsc::Receiver<Record>,
}

impl Play {
    pub(super) fn new(slots: u64, save_every: u64, evaluate_every: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, plan: Planned::default(), slots: Some(slots), save_every, evaluate_every }
    }

    pub(super) fn live(save_every: u64) -> Self {
        Self { slots: None, ..Self::new(0, save_every, 0) }
    }

    /// The samples, slot by slot.
    pub(super) fn in_order(&self) -> Vec<Sample> {
        (0..self.slots.unwrap_or(0)).flat_map(slot_rows).map(sample).collect()
    }

    pub(super) fn records(&self) -> Vec<Record> {
        read_records(&self.folder.path().join("run")).unwrap().records
    }

    pub(super) fn checkpoints(&self) -> Vec<u64> {
        Folders(self.folder.path().join("checkpoints")).all().into_keys().collect()
    }

    /// What the ranks wrote into the last checkpoint.
    pub(super) fn weights(&self) -> Vec<String> {
        let (_, last) = Folders(self.folder.path().join("checkpoints")).all().pop_last().unwrap();
        (0..RANKS).map(|rank| std::fs::read_to_string(last.join(format!("rank-{rank}.json"))).unwrap()).collect()
    }

    pub(super) fn struck(&self) -> usize {
        self.plan.lock().unwrap().struck
    }

    pub(super) async fn run(&self, strikes: &[Strike]) -> CourseEnd {
        self.start(strikes).await.end().await
    }

    pub(super) async fn start(&self, strikes: &[Strike]) -> Running {
        self.try_start(strikes).await.unwrap()
    }

    pub(super) async fn try_start(&self, strikes: &[Strike]) -> Result<Running, Failure> {
        let running = self.start_unbegun(strikes).await?;
        running.trainer.cast(TrainerMsg::Begin).unwrap();
        Ok(running)
    }

    pub(super) async fn start_unbegun(&self, strikes: &[Strike]) -> Result<Running, Failure> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).strikes = strikes.to_vec();
        let manifest = TrainingManifest::new("play".to_owned(), 7, "0".to_owned());
        let path = self.folder.path().join("run");
        let folder = if path.join(MANIFEST).exists() {
            TrainingFolder::resume(&path, &manifest)
        } else {
            TrainingFolder::create(&path, &manifest)
        };
        let mut shelf = Folders(self.folder.path().join("checkpoints"));
        let saved = shelf.latest().unwrap().map_or(Progress::default(), |latest| latest.state.at);
        let feed = match self.slots {
            Some(slots) => Feed::List {
                samples: Arc::new((0..slots as usize * BATCH).map(sample).collect()),
                order: Arc::new(slot_rows),
                slots,
            },
            None => Feed::Live { batch: BATCH, limits: SampleLimits { tokens_max: 9, vocabulary: 99 } },
        };
        // A looker-on who takes one record after the other holds the run back: what is done to it is done in its midst.
        let (records, shown) = mpsc::channel(if self.slots.is_some() { 1 } else { SHOWN_MAX });
        let (over, ended) = crate::address::reply();
        let packing = Packing {
            tokens_max: 6,
            multiple: 8,
            normalisation: Normalisation::Token,
            flops: Some(Arc::new(|lengths, rows| lengths.iter().sum::<usize>() as f64 * 250.0 + rows as f64 * 100.0)),
        };
        let held_out = legwork_training::batch::pack(&[sample(1), sample(4)], 6, 8, Normalisation::Token);
        let args = TrainerArgs {
            feed,
            batch: BATCH as u64,
            packing,
            held_out: Arc::new(if self.slots.is_some() { held_out } else { Vec::new() }),
            update: UpdateSettings::default(),
            rate: Arc::new(|samples| samples as f64 / 100.0),
            save_every: self.save_every,
            evaluate_every: self.evaluate_every,
            restarts: RESTARTS,
            make: group(&self.plan),
            folder: folder.unwrap(),
            shelf: Box::new(shelf),
            saved,
            show: Show::new(Some(records), Some(path.join("tensorboard"))),
            peak_flops: Some(1e9),
            clock: Clock::from_epoch_ms(1_000),
            over,
        };
        Ok(Running { trainer: start(args).await?, over: ended, records: shown })
    }
}

impl Running {
    /// Waits until this step is kept.
    pub(super) async fn until_step(&mut self, step: u64) {
        while let Some(record) = self.records.recv().await {
            if matches!(&record, Record::Step(kept) if kept.step >= step) {
                return;
            }
        }
        panic!("it ended before step {step}");
    }

    /// Waits for its end.
    pub(super) async fn end(mut self) -> CourseEnd {
        let looks_on = async { while self.records.recv().await.is_some() {} };
        tokio::join!(self.over, looks_on).0.unwrap()
    }

    /// Ends the actor as a killed process would: nothing is finished. Returns when its threads have let go of the folder.
    pub(super) async fn kill(mut self) {
        self.trainer.kill();
        while self.records.recv().await.is_some() {}
    }
}

/// Rows of a slot, not in their order.
fn slot_rows(slot: u64) -> Vec<usize> {
    let first = slot as usize * BATCH;
    vec![first + 1, first + 2, first]
}

fn sample(row: usize) -> Sample {
    let ids = (0..4).map(|at| ((row * 5 + at * at * 3 + row * at) % 90) as u32).collect();
    let place = Place { file: "play".to_owned(), line: row as u64 + 1 };
    Sample { ids, supervised: vec![true; 4], place, source: String::new() }
}
