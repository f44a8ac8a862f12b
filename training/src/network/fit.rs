//! Whether a pack can be computed: everything that a backend relies on is checked here, before ranks begin to wait for one
//! another.
//! It refuses to compute.

use crate::error::TrainingError;
use crate::pack::Pack;

/// What a network can take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rows_max: usize,
    pub(super) context: usize,
    pub(super) vocabulary: usize,
}

impl Limits {
    /// Finds the first thing that does not fit.
    pub(super) fn check(&self, pack: &Pack) -> Result<(), TrainingError> {
        let rows = pack.ids.len();
        if rows > self.rows_max {
            return wrong(format!("at most the {} rows that there is room for", self.rows_max), rows);
        }
        if pack.positions.len() != rows {
            return wrong(format!("{rows} positions"), pack.positions.len());
        }
        self.check_ids("ids", &pack.ids)?;
        self.check_ids("targets", &pack.targets)?;
        self.check_sequences(pack)?;
        let supervised = pack.rows.len();
        if pack.targets.len() != supervised || pack.weights.len() != supervised {
            let got = format!("{} targets and {} weights", pack.targets.len(), pack.weights.len());
            return wrong(format!("{supervised} targets and weights, as rows in the loss"), got);
        }
        let ascending = pack.rows.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || pack.rows.last().is_some_and(|last| *last as usize >= rows) {
            return wrong(format!("ascending rows of the loss below {rows}"), format!("{:?}", pack.rows));
        }
        match pack.weights.iter().find(|weight| !weight.is_finite()) {
            Some(weight) => wrong("weights that are numbers".to_owned(), weight),
            None => Ok(()),
        }
    }

    fn check_ids(&self, what: &str, ids: &[u32]) -> Result<(), TrainingError> {
        match ids.iter().find(|id| **id as usize >= self.vocabulary) {
            Some(id) => wrong(format!("{what} below {}, the vocabulary of the model", self.vocabulary), id),
            None => Ok(()),
        }
    }

    fn check_sequences(&self, pack: &Pack) -> Result<(), TrainingError> {
        let rows = pack.ids.len();
        let (first, last) = (pack.starts.first().copied(), pack.starts.last().copied());
        let ordered = pack.starts.windows(2).all(|pair| pair[0] < pair[1]);
        if first != Some(0) || last != Some(rows as u32) || !ordered {
            return wrong(format!("starts that go up from 0 to the {rows} rows"), format!("{:?}", pack.starts));
        }
        for (place, sequence) in pack.starts.windows(2).enumerate() {
            let positions = &pack.positions[sequence[0] as usize..sequence[1] as usize];
            // Padding is a sequence of no sample, and may be longer than the context of a tiny model.
            if positions.len() > self.context && place < pack.samples.len() {
                return wrong(
                    format!("sequences of at most {} tokens, the model's context", self.context),
                    positions.len(),
                );
            }
            if let Some((at, position)) = (0_u32..).zip(positions).find(|(at, position)| at != *position) {
                return wrong(format!("positions that count up from 0 in each sequence, so {at}"), position);
            }
        }
        Ok(())
    }
}

fn wrong<T>(expected: String, got: impl ToString) -> Result<T, TrainingError> {
    Err(TrainingError::Setting { setting: "a pack of rows", expected, got: got.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn pack() -> Pack {
        Pack {
            ids: vec![1, 2, 3, 4, 5],
            positions: vec![0, 1, 2, 0, 1],
            starts: vec![0, 3, 5],
            rows: vec![0, 1, 3],
            targets: vec![2, 3, 5],
            weights: vec![0.25, 0.25, 0.5],
            samples: vec![0, 1],
        }
    }

    #[test]
    fn padding_may_be_longer_than_the_context() {
        let mut pack = pack();
        (pack.starts, pack.positions) = (vec![0, 1, 5], vec![0, 0, 1, 2, 3]);
        pack.samples.truncate(1);
        assert!(Limits { rows_max: 5, context: 3, vocabulary: 6 }.check(&pack).is_ok());
    }

    #[test]
    fn a_pack_that_does_not_fit_is_refused_by_what_is_wrong() {
        let limits = Limits { rows_max: 5, context: 3, vocabulary: 6 };
        assert!(limits.check(&pack()).is_ok());
        assert!(limits.check(&Pack::default()).is_err());
        type Spoil = fn(&mut Pack);
        let cases: &[(&str, Spoil)] = &[
            ("at most the 5 rows", |pack| pack.ids.push(1)),
            ("5 positions", |pack| pack.positions.truncate(4)),
            ("ids below 6", |pack| pack.ids[4] = 6),
            ("targets below 6", |pack| pack.targets[0] = u32::MAX),
            ("starts that go up", |pack| pack.starts = vec![0, 3, 3, 5]),
            ("starts that go up", |pack| pack.starts = vec![0, 3]),
            ("at most 3 tokens", |pack| (pack.starts, pack.positions) = (vec![0, 5], (0..5).collect())),
            ("count up from 0", |pack| pack.positions[3] = 3),
            ("3 targets and weights", |pack| pack.targets.truncate(2)),
            ("ascending rows", |pack| pack.rows[2] = 1),
            ("ascending rows", |pack| pack.rows[2] = 5),
            ("weights that are numbers", |pack| pack.weights[1] = f32::NAN),
        ];
        for (expected, spoil) in cases {
            let mut pack = pack();
            spoil(&mut pack);
            let refused = limits.check(&pack).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused} instead of {expected}");
        }
    }

    proptest! {
        #[test]
        fn packs_of_any_kind_fit_or_are_refused(
            ids in vec(0_u32..8, 0..7), positions in vec(0_u32..4, 0..7), starts in vec(0_u32..8, 0..5),
            rows in vec(0_u32..8, 0..4), targets in vec(0_u32..8, 0..4), weight in any::<f32>(),
        ) {
            let weights = vec![weight; rows.len()];
            let pack = Pack { ids, positions, starts, rows, targets, weights, samples: Vec::new() };
            let limits = Limits { rows_max: 5, context: 3, vocabulary: 6 };
            if limits.check(&pack).is_ok() {
                prop_assert!(pack.rows.iter().all(|row| (*row as usize) < pack.ids.len()));
                prop_assert_eq!(*pack.starts.last().unwrap() as usize, pack.positions.len());
            }
        }
    }
}
