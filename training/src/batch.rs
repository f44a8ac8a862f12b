//! A slot's samples as packs: first-fit-decreasing under a limit of tokens, padded to a multiple, with the weights that make
//! the slot's loss over all of its packs. Pure.
//! It refuses to know which samples make a slot, and to cut one.

use crate::pack::{Normalisation, Pack};
use crate::sample::Sample;
use std::borrow::Borrow;
use std::cmp::Reverse;

/// The token that fills a pack up to its multiple; it is never in the loss and attends to nothing but itself.
pub const PADDING: u32 = 0;

/// Packs the samples of a slot: each goes, the longest first, into the first pack that still has room under `tokens_max`; one
/// that is longer than that gets its own. Packs are padded to a multiple of `multiple` rows (0 is taken as 1) behind the limit,
/// so that a limit that is no multiple itself may be passed by less than one. Within a pack samples stand in the slot's order.
/// An empty sample has no sequence, but counts in the weights as one without loss does.
///
/// The weights of all packs together sum to one if every sample has a token in the loss.
pub fn pack<S: Borrow<Sample>>(
    samples: &[S],
    tokens_max: usize,
    multiple: usize,
    normalisation: Normalisation,
) -> Vec<Pack> {
    let lengths: Vec<usize> = samples.iter().map(|sample| sample.borrow().ids.len()).collect();
    let counts: Vec<usize> = samples.iter().map(|sample| in_loss(sample.borrow())).collect();
    let weights = weights(&counts, normalisation);
    let laid = bins(&lengths, tokens_max).into_iter().map(|bin| {
        let mut pack = Pack { starts: vec![0], ..Pack::default() };
        for place in bin {
            pack.lay(place as u32, samples[place].borrow(), weights[place]);
        }
        pack.pad(multiple.max(1));
        pack
    });
    laid.collect()
}

/// The weight of each token in the loss, sample by sample, when the samples have so many of them. Every sample counts as one
/// token at least, as Miles has it.
pub fn weights(counts: &[usize], normalisation: Normalisation) -> Vec<f32> {
    let counted = |count: usize| count.max(1) as f64;
    let total: f64 = counts.iter().map(|count| counted(*count)).sum();
    let weight = |count: &usize| match normalisation {
        Normalisation::Token => 1.0 / total,
        Normalisation::Sample => 1.0 / (counts.len() as f64 * counted(*count)),
    };
    counts.iter().map(|count| weight(count) as f32).collect()
}

/// Tokens of a sample in the loss; its first is never.
fn in_loss(sample: &Sample) -> usize {
    sample.supervised.iter().skip(1).filter(|supervised| **supervised).count()
}

/// Places by bin, ascending within each. Bins are in the order in which they were opened.
fn bins(lengths: &[usize], tokens_max: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).filter(|place| lengths[*place] > 0).collect();
    order.sort_by_key(|place| Reverse(lengths[*place]));
    let mut bins: Vec<(usize, Vec<usize>)> = Vec::new();
    for place in order {
        let length = lengths[place];
        match bins.iter_mut().find(|(held, _)| held.saturating_add(length) <= tokens_max) {
            Some((held, places)) => {
                *held += length;
                places.push(place);
            }
            None => bins.push((length, vec![place])),
        }
    }
    let sorted = bins.into_iter().map(|(_, mut places)| {
        places.sort_unstable();
        places
    });
    sorted.collect()
}

impl Pack {
    /// Lays a sample behind what there is.
    fn lay(&mut self, place: u32, sample: &Sample, weight: f32) {
        let start = self.ids.len() as u32;
        self.ids.extend_from_slice(&sample.ids);
        self.positions.extend(0..sample.ids.len() as u32);
        self.starts.push(self.ids.len() as u32);
        self.samples.push(place);
        let in_loss = sample.supervised.iter().enumerate().skip(1).filter(|(_, supervised)| **supervised);
        for (at, _) in in_loss {
            self.rows.push(start + at as u32 - 1);
            self.targets.push(sample.ids[at]);
            self.weights.push(weight);
        }
    }

    /// Fills up to a multiple with a sequence of its own.
    fn pad(&mut self, multiple: usize) {
        let missing = self.ids.len().next_multiple_of(multiple) - self.ids.len();
        if missing > 0 {
            self.ids.resize(self.ids.len() + missing, PADDING);
            self.positions.extend(0..missing as u32);
            self.starts.push(self.ids.len() as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;
    use proptest::prelude::*;

    fn sample(ids: Vec<u32>, supervised: Vec<bool>) -> Sample {
        Sample { ids, supervised, place: Place { file: "x".to_owned(), line: 1 }, source: String::new() }
    }

    /// Ids from `first`, of which the last `count` are in the loss.
    fn counted(first: u32, length: usize, count: usize) -> Sample {
        let supervised = (0..length).map(|at| at + count >= length && at > 0).collect();
        sample((first..first + length as u32).collect(), supervised)
    }

    #[test]
    fn the_longest_go_first_into_the_first_pack_with_room_and_an_over_long_one_stands_alone() {
        let samples =
            [counted(100, 3, 1), counted(200, 12, 2), counted(300, 6, 1), counted(400, 4, 1), counted(500, 5, 1)];
        let packs = pack(&samples, 10, 1, Normalisation::Token);
        let places: Vec<_> = packs.iter().map(|pack| pack.samples.clone()).collect();
        assert_eq!(places, [vec![1], vec![2, 3], vec![0, 4]]);
        assert_eq!(packs[2].ids, [100, 101, 102, 500, 501, 502, 503, 504]);
        assert_eq!(packs[2].positions, [0, 1, 2, 0, 1, 2, 3, 4]);
        assert_eq!(packs[2].starts, [0, 3, 8]);
        assert_eq!((packs[2].rows.as_slice(), packs[2].targets.as_slice()), (&[1, 6][..], &[102, 504][..]));
    }

    #[test]
    fn padding_is_a_sequence_of_its_own_without_loss() {
        let packs = pack(&[counted(7, 5, 2)], 100, 4, Normalisation::Token);
        let expected = Pack {
            ids: vec![7, 8, 9, 10, 11, 0, 0, 0],
            positions: vec![0, 1, 2, 3, 4, 0, 1, 2],
            starts: vec![0, 5, 8],
            rows: vec![2, 3],
            targets: vec![10, 11],
            weights: vec![0.5, 0.5],
            samples: vec![0],
        };
        assert_eq!(packs, [expected]);
        assert_eq!(pack(&[counted(7, 8, 2)], 100, 4, Normalisation::Token)[0].starts, [0, 8]);
    }

    #[test]
    fn every_token_weighs_the_same_or_every_sample_does() {
        let samples = [counted(1, 5, 1), counted(10, 9, 3)];
        let weights = |normalisation| pack(&samples, 100, 1, normalisation)[0].weights.clone();
        assert_eq!(weights(Normalisation::Token), [0.25, 0.25, 0.25, 0.25]);
        let third = 1.0 / 6.0;
        assert_eq!(weights(Normalisation::Sample), [0.5, third, third, third]);
    }

    #[test]
    fn a_sample_without_loss_counts_as_one_token() {
        let samples = [counted(1, 5, 3), sample(vec![1, 2], vec![false, false]), sample(vec![], vec![])];
        let packs = pack(&samples, 100, 1, Normalisation::Token);
        assert_eq!(packs[0].weights, [0.2, 0.2, 0.2]);
        assert_eq!(packs[0].samples, [0, 1]);
        assert!(pack::<Sample>(&[], 100, 512, Normalisation::Token).is_empty());
    }

    #[test]
    fn the_first_token_of_a_sample_is_never_in_the_loss() {
        let packs = pack(&[sample(vec![5, 6], vec![true, true])], 10, 1, Normalisation::Token);
        assert_eq!((packs[0].rows.as_slice(), packs[0].targets.as_slice()), (&[0][..], &[6][..]));
        assert_eq!(packs[0].weights, [1.0]);
    }

    /// Samples with at least one token in the loss each; ids tell the samples apart.
    fn slot() -> impl Strategy<Value = Vec<Sample>> {
        let one = (2_usize..60).prop_flat_map(|length| {
            let mask = proptest::collection::vec(any::<bool>(), length);
            (mask, 1..length).prop_map(|(mut mask, always)| {
                (mask[0], mask[always]) = (false, true);
                mask
            })
        });
        proptest::collection::vec(one, 1..40).prop_map(|masks| {
            let made = masks.into_iter().enumerate();
            made.map(|(at, mask)| sample((0..mask.len() as u32).map(|id| at as u32 * 1000 + id + 1).collect(), mask))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn every_sample_is_in_one_pack_whole_with_its_targets_and_weights(
            samples in slot(), tokens_max in 0_usize..120, multiple in 0_usize..20, by_token in any::<bool>()
        ) {
            let normalisation = if by_token { Normalisation::Token } else { Normalisation::Sample };
            let packs = pack(&samples, tokens_max, multiple, normalisation);
            let mut seen = vec![0; samples.len()];
            let mut sum = 0.0_f64;
            for pack in &packs {
                prop_assert_eq!(pack.ids.len() % multiple.max(1), 0);
                prop_assert_eq!(pack.positions.len(), pack.ids.len());
                prop_assert_eq!(*pack.starts.last().unwrap() as usize, pack.ids.len());
                prop_assert!(pack.starts.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(pack.rows.windows(2).all(|pair| pair[0] < pair[1]));
                let padded = pack.starts.len() - 1 - pack.samples.len();
                prop_assert!(padded <= 1);
                let own: usize = pack.samples.iter().map(|place| samples[*place as usize].ids.len()).sum();
                prop_assert!(own <= tokens_max || pack.samples.len() == 1);
                prop_assert!(pack.ids[own..].iter().all(|id| *id == PADDING));
                let mut expected = Vec::new();
                for (at, place) in pack.samples.iter().enumerate() {
                    let (from, to) = (pack.starts[at] as usize, pack.starts[at + 1] as usize);
                    let sample = &samples[*place as usize];
                    seen[*place as usize] += 1;
                    prop_assert_eq!(&pack.ids[from..to], sample.ids.as_slice());
                    prop_assert!(pack.positions[from..to].iter().copied().eq(0..(to - from) as u32));
                    let own = (1..sample.ids.len()).filter(|at| sample.supervised[*at]);
                    expected.extend(own.map(|at| ((from + at - 1) as u32, sample.ids[at])));
                }
                let laid: Vec<_> = pack.rows.iter().copied().zip(pack.targets.iter().copied()).collect();
                prop_assert_eq!(laid, expected);
                prop_assert_eq!(pack.weights.len(), pack.rows.len());
                sum += pack.weights.iter().map(|weight| f64::from(*weight)).sum::<f64>();
            }
            prop_assert!(seen.iter().all(|times| *times == 1), "{:?}", seen);
            prop_assert!((sum - 1.0).abs() < 1e-5, "{}", sum);
            // First-fit: no two packs could have shared one.
            for (at, one) in packs.iter().enumerate() {
                let tokens = |pack: &Pack| pack.samples.iter().map(|p| samples[*p as usize].ids.len()).sum::<usize>();
                prop_assert!(packs[..at].iter().all(|other| tokens(one) + tokens(other) > tokens_max));
            }
        }
    }
}
