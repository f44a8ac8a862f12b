//! Where a slot's samples come from: a prepared list in a given order, or a live stream, of which each slot is the next so many
//! that came. Of a stream, samples beyond the next slot wait at a door of a named size, and their senders with them.
//! It refuses to know what is done with a slot.

use crate::address::Reply;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_training::Sample;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Samples that wait at the door of a live trainer, with their senders.
pub const DOOR_MAX: usize = 64;
/// Samples of a stream that are kept at most until a checkpoint is written of them: they may have to be stepped over again.
pub const KEPT_MAX: u64 = 65_536;

/// The order of a list: a slot's samples, by their places in the list.
pub type SlotOrder = Arc<dyn Fn(u64) -> Vec<usize> + Send + Sync>;

/// What is trained on.
pub enum Feed {
    /// A whole list.
    List {
        /// The samples.
        samples: Arc<Vec<Sample>>,
        /// Those of each slot.
        order: SlotOrder,
        /// Slots.
        slots: u64,
    },
    /// What comes by [`super::TrainerMsg::Trajectory`].
    Live {
        /// Samples of a slot.
        batch: usize,
        /// What a sample may be.
        limits: SampleLimits,
    },
}

/// What the model can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleLimits {
    /// Tokens of a sample.
    pub tokens_max: usize,
    /// Ids below this are tokens.
    pub vocabulary: u32,
}

impl SampleLimits {
    /// Whether a sample may be trained on, or why not.
    ///
    /// # Errors
    /// The sample's place, what is wrong and the cure.
    pub fn check(&self, sample: &Sample) -> Result<(), String> {
        let place = &sample.place;
        if sample.ids.len() != sample.supervised.len() {
            let (ids, marks) = (sample.ids.len(), sample.supervised.len());
            return Err(format!("{place}: expected a mark for each of {ids} tokens, got {marks}"));
        }
        if sample.ids.len() > self.tokens_max {
            return Err(format!(
                "{place}: expected at most {} tokens, got {}; a sample is never cut, leave it out",
                self.tokens_max,
                sample.ids.len()
            ));
        }
        if let Some(id) = sample.ids.iter().find(|id| **id >= self.vocabulary) {
            return Err(format!(
                "{place}: token {id} is not of the model, whose vocabulary has {}; encode it with this model's tokenizer",
                self.vocabulary
            ));
        }
        if sample.supervised.iter().skip(1).all(|supervised| !supervised) {
            return Err(format!("{place}: no token is in the loss; leave it out"));
        }
        Ok(())
    }
}

/// A slot's samples, without a copy.
#[derive(Clone)]
pub(super) struct SlotSamples {
    all: Arc<Vec<Sample>>,
    places: Option<Vec<usize>>,
}

impl SlotSamples {
    pub(super) fn get(&self) -> Vec<&Sample> {
        match &self.places {
            Some(places) => places.iter().filter_map(|place| self.all.get(*place)).collect(),
            None => self.all.iter().collect(),
        }
    }
}

/// What is known of a slot that is wanted.
pub(super) enum Wanted {
    There(SlotSamples),
    NotYet,
    NoMore,
}

/// The feed as the trainer has it.
pub(super) enum Store {
    List { samples: Arc<Vec<Sample>>, order: SlotOrder, slots: u64 },
    Live(Stream),
}

impl Store {
    pub(super) fn new(feed: Feed) -> Self {
        match feed {
            Feed::List { samples, order, slots } => Store::List { samples, order, slots },
            Feed::Live { batch, limits } => Store::Live(Stream::new(batch, limits)),
        }
    }

    pub(super) fn slot(&mut self, slot: u64) -> Wanted {
        match self {
            Store::List { slots, .. } if slot >= *slots => Wanted::NoMore,
            Store::List { samples, order, .. } => {
                Wanted::There(SlotSamples { all: Arc::clone(samples), places: Some(order(slot)) })
            }
            Store::Live(stream) => stream.slot(slot),
        }
    }
}

type Taken = Reply<Result<(), Failure>>;

/// A live stream.
pub(super) struct Stream {
    batch: usize,
    limits: SampleLimits,
    /// Slots that were formed and of which there is no checkpoint yet.
    formed: BTreeMap<u64, Arc<Vec<Sample>>>,
    /// Of the next slot.
    pool: Vec<Sample>,
    door: VecDeque<(Box<Sample>, Taken)>,
    is_closed: bool,
}

impl Stream {
    fn new(batch: usize, limits: SampleLimits) -> Self {
        let (formed, pool, door) = (BTreeMap::new(), Vec::new(), VecDeque::new());
        Self { batch: batch.max(1), limits, formed, pool, door, is_closed: false }
    }

    /// A sample comes. Its sender hears when it is taken, or why it is not.
    pub(super) fn offer(&mut self, sample: Box<Sample>, taken: Taken) {
        let refused = |kind, why| taken_not(kind, why);
        if self.is_closed {
            return taken.send(refused(FailureKind::Cancelled, "the trainer takes no more samples".to_owned()));
        }
        if let Err(why) = self.limits.check(&sample) {
            return taken.send(refused(FailureKind::Refused, why));
        }
        self.door.retain(|(_, taken)| !taken.is_abandoned());
        if self.door.len() >= DOOR_MAX {
            let why = format!("{DOOR_MAX} samples wait for the trainer already; send this one later");
            return taken.send(refused(FailureKind::RateLimited, why));
        }
        self.door.push_back((sample, taken));
        self.let_in();
    }

    /// No more samples come. Those at the door are taken as far as they fill slots.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// A checkpoint was written: slots before this are never wanted again.
    pub(super) fn forget_before(&mut self, slot: u64) {
        self.formed = self.formed.split_off(&slot);
    }

    fn slot(&mut self, slot: u64) -> Wanted {
        if !self.formed.contains_key(&slot) {
            if self.pool.len() < self.batch {
                return if self.is_closed { Wanted::NoMore } else { Wanted::NotYet };
            }
            self.formed.insert(slot, Arc::new(std::mem::take(&mut self.pool)));
            self.let_in();
        }
        let all = Arc::clone(&self.formed[&slot]);
        Wanted::There(SlotSamples { all, places: None })
    }

    fn let_in(&mut self) {
        while self.pool.len() < self.batch
            && let Some((sample, taken)) = self.door.pop_front()
        {
            // Whoever no longer waits may have sent it elsewhere.
            if !taken.is_abandoned() {
                self.pool.push(*sample);
                taken.send(Ok(()));
            }
        }
    }
}

fn taken_not(kind: FailureKind, why: String) -> Result<(), Failure> {
    Err(Failure::new(kind, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::reply;
    use legwork_training::Place;

    fn sample(line: u64) -> Box<Sample> {
        let place = Place { file: "live".to_owned(), line };
        Box::new(Sample { ids: vec![1, 2], supervised: vec![false, true], place, source: String::new() })
    }

    fn stream(batch: usize) -> Stream {
        Stream::new(batch, SampleLimits { tokens_max: 4, vocabulary: 9 })
    }

    #[test]
    fn a_slot_is_there_when_its_samples_have_come_and_the_next_wait_at_the_door() {
        let mut stream = stream(2);
        let mut owed = Vec::new();
        for line in 1..=5 {
            assert!(line > 2 || matches!(stream.slot(0), Wanted::NotYet));
            let (taken, waits) = reply();
            stream.offer(sample(line), taken);
            owed.push(waits);
        }
        let is_taken = |waits: &mut tokio::sync::oneshot::Receiver<Result<(), Failure>>| waits.try_recv() == Ok(Ok(()));
        assert_eq!(owed.iter_mut().map(is_taken).collect::<Vec<_>>(), [true, true, false, false, false]);
        let Wanted::There(first) = stream.slot(0) else { panic!("two have come") };
        assert_eq!(first.get().iter().map(|sample| sample.place.line).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(owed[2..].iter_mut().map(is_taken).collect::<Vec<_>>(), [true, true, false]);
        let Wanted::There(second) = stream.slot(1) else { panic!("two more have come") };
        assert_eq!(second.get()[0].place.line, 3);
        let Wanted::There(again) = stream.slot(0) else { panic!("there is no checkpoint of it yet") };
        assert_eq!(again.get()[1].place.line, 2);
        stream.forget_before(1);
        assert_eq!(stream.formed.len(), 1);
        stream.close();
        assert!(matches!(stream.slot(2), Wanted::NoMore), "one sample is no slot");
    }

    #[test]
    fn a_full_door_a_closed_one_and_a_bad_sample_are_told() {
        let mut stream = stream(1);
        let mut offer = |sample: Box<Sample>| {
            let (taken, mut waits) = reply();
            stream.offer(sample, taken);
            let told = waits.try_recv();
            (told, waits)
        };
        let mut bad = sample(1);
        bad.ids[0] = 9;
        let refused = offer(bad).0.unwrap().unwrap_err();
        assert!(refused.kind == FailureKind::Refused && refused.detail.contains("live:1: token 9"), "{refused}");
        let mut bad = sample(1);
        bad.supervised = vec![true, false];
        assert!(offer(bad).0.unwrap().unwrap_err().detail.contains("no token is in the loss"));
        let mut bad = sample(1);
        (bad.ids, bad.supervised) = (vec![1; 5], vec![true; 5]);
        assert!(offer(bad).0.unwrap().unwrap_err().detail.contains("at most 4 tokens, got 5"));
        assert_eq!(offer(sample(2)).0, Ok(Ok(())));
        let waiting: Vec<_> = (0..DOOR_MAX).map(|_| offer(sample(3)).1).collect();
        assert_eq!(offer(sample(4)).0.unwrap().unwrap_err().kind, FailureKind::RateLimited);
        drop(waiting);
        assert!(offer(sample(5)).0.is_err(), "whoever gave up makes room at the door");
        stream.close();
        let (taken, mut waits) = reply();
        stream.offer(sample(6), taken);
        assert_eq!(waits.try_recv().unwrap().unwrap_err().kind, FailureKind::Cancelled);
    }
}
