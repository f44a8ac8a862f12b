//! What a decoder needs to be trained: the makers of a group of ranks over one model's files, on the processor or on cards, and
//! its checkpoints.
//! It refuses to know when it is used.

mod processes;

use super::places::RankPlaces;
use super::ranks::{MakeGroup, MakeRank};
use super::shelf::{KeptCheckpoint, KeptState, Shelf};
use crate::local::Place;
#[cfg(feature = "cuda")]
use legwork_kernels::cuda::{GroupName, Seat};
use legwork_kernels::{Cpu, Group, Learn, Member, OpsError};
use legwork_model::ModelFiles;
use legwork_training::TrainingError;
use legwork_training::checkpoint::{self, Facts};
use legwork_training::decoder_rank::DecoderRank;
use legwork_training::network::NetworkSettings;
use legwork_training::rank::Rank;
pub use processes::{decoder_group_of_processes, served_decoder};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes groups of ranks over a model's folder, each in its place. Each rank reads its part of the weights by itself.
pub fn decoder_group(model: &Path, places: RankPlaces, settings: NetworkSettings) -> MakeGroup {
    let making = Arc::new(Making { model: model.to_path_buf(), places, settings, made: AtomicU64::new(0) });
    Arc::new(move || {
        let is_first = making.made.fetch_add(1, Ordering::Relaxed) == 0;
        let seats = making.seats()?;
        let maker = |(seats, place): (Seats, &Place)| -> MakeRank {
            let (making, place) = (Arc::clone(&making), *place);
            Box::new(move || making.in_place(place, is_first, seats))
        };
        Ok(seats.into_iter().zip(making.places.each()).map(maker).collect())
    })
}

/// A pack that takes a card longer than this is taken for one that hangs. Cards of a group also wait for each other's packs.
#[cfg(feature = "cuda")]
const PACK_MAX: std::time::Duration = std::time::Duration::from_secs(300);

/// Where a rank meets those among which the model is cut, and its replicas.
struct Seats {
    rank: Member,
    replica: Member,
    /// The names by which cards find each other, of groups of more than one.
    #[cfg(feature = "cuda")]
    names: [Option<GroupName>; 2],
}

/// What ranks are made of.
struct Making {
    model: PathBuf,
    places: RankPlaces,
    settings: NetworkSettings,
    /// Groups that were made.
    made: AtomicU64,
}

impl Making {
    /// A rank in its place.
    fn in_place(&self, place: Place, is_first: bool, seats: Seats) -> Result<Box<dyn Rank>, TrainingError> {
        match place {
            Place::Processor => self.rank(Cpu::new().with_member(seats.rank).with_replica(seats.replica)),
            Place::Card(number) => self.on_card(number, is_first, seats),
        }
    }

    /// A rank whose part of the weights is read.
    fn rank<B: Learn + Send + 'static>(&self, ops: B) -> Result<Box<dyn Rank>, TrainingError>
    where
        B::Rows: Send,
        B::Sums: Send,
    {
        let mut files = ModelFiles::open(&self.model)?;
        let config = files.decoder()?.clone();
        Ok(Box::new(DecoderRank::open(ops, &config, &mut files.weights, self.settings)?))
    }

    /// Those of all ranks, in the order of their places.
    fn seats(&self) -> Result<Vec<Seats>, TrainingError> {
        let (tp, dp) = (self.places.tp(), self.places.dp());
        let mut of_replicas: Vec<_> = (0..tp).map(|_| Group::of(dp).into_iter()).collect();
        let mut seats = Vec::with_capacity(tp * dp);
        for _ in 0..dp {
            for (rank, of_replicas) in Group::of(tp).into_iter().zip(&mut of_replicas) {
                let replica = of_replicas.next().expect("a group has a member for each replica");
                seats.push(Seats {
                    rank,
                    replica,
                    #[cfg(feature = "cuda")]
                    names: [None; 2],
                });
            }
        }
        #[cfg(feature = "cuda")]
        {
            let (of_ranks, of_replicas) = (self.names(dp, tp)?, self.names(tp, dp)?);
            seats.iter_mut().enumerate().for_each(|(at, seat)| seat.names = [of_ranks[at / tp], of_replicas[at % tp]]);
        }
        Ok(seats)
    }

    /// Names of so many groups of cards; one alone, and the processor, needs none.
    #[cfg(feature = "cuda")]
    fn names(&self, groups: usize, ranks: usize) -> Result<Vec<Option<GroupName>>, TrainingError> {
        if ranks == 1 || matches!(self.places.each(), [Place::Processor, ..]) {
            return Ok(vec![None; groups]);
        }
        (0..groups).map(|_| Ok(Some(GroupName::new().map_err(OpsError::from)?))).collect()
    }

    #[cfg(feature = "cuda")]
    fn on_card(&self, number: usize, is_first: bool, seats: Seats) -> Result<Box<dyn Rank>, TrainingError> {
        let [of_rank, of_replica] = seats.names;
        let seat = |name: Option<GroupName>, member: Member| {
            let (rank, ranks) = (member.rank(), member.ranks());
            name.map(|name| Seat { name, rank, ranks, meeting: Some(member) })
        };
        let (rank, replica) = (seat(of_rank, seats.rank), seat(of_replica, seats.replica));
        let made = legwork_kernels::Cuda::open_seated(number, self.places.kernels(), rank, replica);
        let made = made.inspect(|card| card.driver().wait_at_most(PACK_MAX));
        made.map_err(TrainingError::from).and_then(|card| self.rank(card)).map_err(|error| match is_first {
            true => error,
            // The driver serves no process whose card has failed, whatever is given back.
            false => OpsError::Device(format!(
                "card {number} cannot be used again after a rank died on it: {error}; a card that failed is lost to this \
                 process, so end it and resume the run in a new one"
            ))
            .into(),
        })
    }

    #[cfg(not(feature = "cuda"))]
    fn on_card(&self, number: usize, _is_first: bool, _seats: Seats) -> Result<Box<dyn Rank>, TrainingError> {
        Err(OpsError::Device(format!("card {number} is of no use to a program that was built without cards")).into())
    }
}

/// A run's checkpoints on disk.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// Where they are.
    pub root: PathBuf,
    /// The model's `config.json`.
    pub model: Map<String, Value>,
    /// Ranks that save their part.
    pub ranks: usize,
    /// Samples of a slot.
    pub batch: u64,
    /// So many are kept; the last one in any case.
    pub keep_last: usize,
    /// What else a checkpoint says of the run it is of, such as the digest of its manifest.
    pub run: Map<String, Value>,
}

/// The name under which a checkpoint keeps what the trainer says.
const TRAINER: &str = "trainer";

impl Shelf for Checkpoints {
    fn begin(&mut self, step: u64) -> Result<PathBuf, TrainingError> {
        checkpoint::begin(&self.root, step)
    }

    fn commit(&mut self, partial: &Path, state: &KeptState) -> Result<(), TrainingError> {
        let mut run = self.run.clone();
        run.insert(TRAINER.to_owned(), serde_json::to_value(state).expect("a state holds only what JSON can write"));
        let samples = state.at.slots.saturating_mul(self.batch);
        let facts = Facts { samples, ranks: self.ranks, model: self.model.clone(), run: Value::Object(run) };
        checkpoint::commit(partial, facts)?;
        checkpoint::keep_last(&self.root, self.keep_last)
    }

    fn latest(&mut self) -> Result<Option<KeptCheckpoint>, TrainingError> {
        let found = checkpoint::latest(&self.root)?;
        for (_, why) in &found.damaged {
            tracing::warn!("a checkpoint is damaged and an older one is taken: {why}");
        }
        let Some(checkpoint) = found.checkpoint else {
            return match found.damaged.into_iter().next() {
                // Beginning anew over what is damaged would be no resuming.
                Some((_, why)) => Err(why),
                None => Ok(None),
            };
        };
        let folder = checkpoint.folder().to_path_buf();
        let said = checkpoint.state().run.get(TRAINER).cloned().unwrap_or(Value::Null);
        let state: KeptState = serde_json::from_value(said).map_err(|error| TrainingError::Checkpoint {
            path: folder.clone(),
            problem: format!(
                "expected a checkpoint of `legwork train`, got one that does not say where it stood: {error}"
            ),
        })?;
        Ok(Some(KeptCheckpoint { folder, state }))
    }
}
