//! Where the ranks of a training run compute: all on the processor, or each on a card of its own.
//! It refuses to know how a card is opened, and what ranks do there.

use super::error::TrainerError;
use crate::local::{Device, Place, cards};
use std::path::PathBuf;

/// The places of a run's ranks: those of the first replica first, each replica in the order of its tensor-parallel ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlaces {
    /// Of this process.
    places: Vec<Place>,
    tp: usize,
    dp: usize,
    device: Device,
    kernels: Option<PathBuf>,
}

impl RankPlaces {
    /// Places for `tp` ranks among which the model is cut, times `dp` replicas. The processor has room for any number; of cards
    /// each rank needs one, and of all cards that there are the first are taken. Kernels are kept in a folder, where one is
    /// given.
    ///
    /// # Errors
    /// Cards where this program was built without them or where they are not, or a number of cards that is not that of the ranks.
    pub fn new(device: &Device, [tp, dp]: [usize; 2], kernels: Option<PathBuf>) -> Result<Self, TrainerError> {
        Self::among(device, [tp, dp], kernels, cards())
    }

    /// The place of one rank of so many, where the others are processes of their own and have places of theirs.
    ///
    /// # Errors
    /// A card that there is not, or more than one.
    pub fn of_process(device: &Device, [tp, dp]: [usize; 2], kernels: Option<PathBuf>) -> Result<Self, TrainerError> {
        let one = Self::among(device, [1, 1], kernels, cards())?;
        Ok(Self { tp, dp, ..one })
    }

    fn among(
        device: &Device,
        [tp, dp]: [usize; 2],
        kernels: Option<PathBuf>,
        cards: Option<usize>,
    ) -> Result<Self, TrainerError> {
        let ranks = tp.saturating_mul(dp);
        let mut places = device.places(cards)?;
        match device {
            Device::Processor => places = vec![Place::Processor; ranks],
            Device::AllCards if places.len() >= ranks => places.truncate(ranks),
            _ if places.len() == ranks => {}
            _ => return Err(TrainerError::Cards { device: device.clone(), cards: places.len(), tp, dp }),
        }
        Ok(Self { places, tp, dp, device: device.clone(), kernels })
    }

    /// All of them that are of this process.
    pub(super) fn each(&self) -> &[Place] {
        &self.places
    }

    /// Ranks among which the model is cut.
    pub(super) fn tp(&self) -> usize {
        self.tp
    }

    /// Replicas of the model.
    pub(super) fn dp(&self) -> usize {
        self.dp
    }

    /// All ranks, of this process and others.
    pub(super) fn ranks(&self) -> usize {
        self.tp * self.dp
    }

    /// The folder that keeps kernels once they are compiled for a card.
    #[cfg(feature = "cuda")]
    pub(super) fn kernels(&self) -> Option<PathBuf> {
        self.kernels.clone()
    }

    /// What numbers depend on of the device: `cpu`, in `f32`, or `cuda`, in bf16 over master weights of `f32`. Another card gives
    /// the same.
    pub fn kind(&self) -> &'static str {
        if self.device.is_cards() { "cuda" } else { "cpu" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str, grid: [usize; 2], cards: Option<usize>) -> Result<Vec<String>, String> {
        let places = RankPlaces::among(&word.parse().unwrap(), grid, None, cards).map_err(|error| error.to_string())?;
        Ok(places.each().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_processor_has_room_for_all_ranks_and_each_card_for_one() {
        assert_eq!(of("cpu", [2, 2], None).unwrap(), ["cpu"; 4]);
        assert_eq!(of("cuda", [1, 1], Some(2)).unwrap(), ["cuda:0"]);
        assert_eq!(of("cuda:1,0", [1, 2], Some(2)).unwrap(), ["cuda:1", "cuda:0"]);
        assert_eq!(of("cuda:all", [2, 1], Some(8)).unwrap(), ["cuda:0", "cuda:1"]);
        let places = RankPlaces::among(&"cuda:all".parse().unwrap(), [2, 3], None, Some(6)).unwrap();
        assert_eq!((places.tp(), places.dp(), places.kind()), (2, 3, "cuda"));
    }

    #[test]
    fn a_process_has_the_place_of_its_own_rank_among_all() {
        let places = RankPlaces::of_process(&Device::Processor, [2, 3], None).unwrap();
        assert_eq!((places.each().len(), places.tp(), places.dp(), places.ranks()), (1, 2, 3, 6));
        assert!(RankPlaces::of_process(&"cuda:60,61".parse().unwrap(), [1, 2], None).is_err());
    }

    #[test]
    fn ranks_without_a_card_are_refused_with_what_to_do() {
        for (word, grid, cards, told) in [
            ("cuda", [1, 1], None, "cargo build --release --features cuda"),
            ("cuda", [1, 1], Some(0), "there are 0 cards"),
            ("cuda:0", [2, 1], Some(2), "name 2 cards"),
            ("cuda:0,1", [1, 1], Some(2), "name 1 card"),
            ("cuda:all", [2, 2], Some(2), "name 4 cards"),
            ("cuda:0+1", [2, 1], Some(2), "training cuts by --tp"),
        ] {
            let refused = of(word, grid, cards).unwrap_err();
            assert!(refused.contains(told), "{told:?} in {refused:?}");
        }
    }
}
