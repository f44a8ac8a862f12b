//! A group of ranks of which each is a process: the first has makers for all of them, of which those of the others have them made
//! over there; and what the others make their ranks by.
//! It refuses to know how processes find each other.

use super::super::places::RankPlaces;
use super::super::ranks::{MakeGroup, MakeRank};
use super::{Making, Seats};
use legwork_kernels::Member;
#[cfg(feature = "cuda")]
use legwork_kernels::cuda::GroupName;
use legwork_training::TrainingError;
use legwork_training::network::NetworkSettings;
use legwork_training::processes::{DistantRank, Line, Making as Told, Peers};
use legwork_training::rank::Rank;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes the group of all ranks, of which this process has the first and `peers` the others, in their order. It can be made once:
/// a process that is gone is started again by whoever started it.
pub fn decoder_group_of_processes(
    model: &Path,
    places: RankPlaces,
    settings: NetworkSettings,
    peers: Peers,
) -> MakeGroup {
    let making = Arc::new(Making { model: model.to_path_buf(), places, settings, made: AtomicU64::new(0) });
    Arc::new(move || {
        let mut seats = making.seats()?.into_iter().map(Seats::across_processes);
        let (Some(first), Some(place)) = (seats.next(), making.places.each().first()) else { return Ok(Vec::new()) };
        if making.made.fetch_add(1, Ordering::Relaxed) > 0 {
            return Err(TrainingError::Process {
                who: "the processes of this run".to_owned(),
                problem: "they are not made anew; start all of them again with --resume".to_owned(),
            });
        }
        let (here, place) = (Arc::clone(&making), *place);
        let mut makers: Vec<MakeRank> = vec![Box::new(move || here.in_place(place, true, first))];
        for (seats, line) in seats.zip(peers.lines()) {
            let (line, settings): (Arc<Line>, _) = (Arc::clone(line), making.settings);
            makers.push(Box::new(move || {
                let told = Told { names: seats.told(), settings };
                Ok(Box::new(DistantRank::make(line, [seats.rank, seats.replica], told)?))
            }));
        }
        Ok(makers)
    })
}

/// Makes the rank of a process that is not the first, as it is told.
pub fn served_decoder(
    model: &Path,
    places: RankPlaces,
) -> impl Fn(Told, [Member; 2]) -> Result<Box<dyn Rank>, TrainingError> + Send + 'static {
    let model = model.to_path_buf();
    move |told, members| {
        let making =
            Making { model: model.clone(), places: places.clone(), settings: told.settings, made: AtomicU64::new(0) };
        let Some(place) = making.places.each().first() else {
            return Err(TrainingError::Setting {
                setting: "device",
                expected: "a place for this rank".to_owned(),
                got: "none".to_owned(),
            });
        };
        making.in_place(*place, true, Seats::of_told(&told, members)?)
    }
}

impl Seats {
    fn across_processes(mut self) -> Self {
        self.rank = self.rank.across_processes();
        self.replica = self.replica.across_processes();
        self
    }

    /// The names of its groups, as another process is told them.
    #[cfg(feature = "cuda")]
    fn told(&self) -> [Option<Vec<u8>>; 2] {
        self.names.map(|name| name.map(|name| name.to_bytes().to_vec()))
    }

    #[cfg(not(feature = "cuda"))]
    fn told(&self) -> [Option<Vec<u8>>; 2] {
        [None, None]
    }

    #[cfg(feature = "cuda")]
    fn of_told(told: &Told, [rank, replica]: [Member; 2]) -> Result<Self, TrainingError> {
        let read = |name: &Option<Vec<u8>>| -> Result<Option<GroupName>, TrainingError> {
            let Some(name) = name else { return Ok(None) };
            let bytes = name.as_slice().try_into().map_err(|_| TrainingError::Process {
                who: "rank 0".to_owned(),
                problem: format!("expected a group's name of 128 bytes, got {}", name.len()),
            })?;
            Ok(Some(GroupName::from_bytes(bytes)))
        };
        let [of_rank, of_replica] = &told.names;
        Ok(Self { rank, replica, names: [read(of_rank)?, read(of_replica)?] })
    }

    #[cfg(not(feature = "cuda"))]
    fn of_told(_told: &Told, [rank, replica]: [Member; 2]) -> Result<Self, TrainingError> {
        Ok(Self { rank, replica })
    }
}
