//! Reciprocal rank fusion: several rankings of the same documents become one.
//!
//! Score of a document: the sum over lists of weight / (k + rank), rank from one (Cormack, Clarke and Büttcher,
//! 2009). It refuses to know scores: only places count. Equal sums are ordered by the key.

use crate::error::RetrievalError;
use serde::{Deserialize, Serialize};

/// Deepest list that is fused.
pub const MAX_DEPTH: usize = 100_000;

/// How words and vectors are fused.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FusionSettings {
    /// The constant k; how slowly places lose value. Above zero.
    pub k: f64,
    /// How many documents BM25 gives.
    pub bm25_depth: usize,
    /// How many documents the vectors give.
    pub dense_depth: usize,
    /// What a place in BM25's list is worth.
    pub bm25_weight: f64,
    /// What a place in the vectors' list is worth.
    pub dense_weight: f64,
}

impl Default for FusionSettings {
    /// k = 60 as in the paper, a hundred of each, weighed alike.
    fn default() -> Self {
        Self { k: 60.0, bm25_depth: 100, dense_depth: 100, bm25_weight: 1.0, dense_weight: 1.0 }
    }
}

impl FusionSettings {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn checked(self) -> Result<Self, RetrievalError> {
        let refuse = |name, expected, got: String| Err(RetrievalError::Setting { name, expected, got });
        if !(self.k > 0.0 && self.k.is_finite()) {
            return refuse("fusion k", "a finite number above zero", self.k.to_string());
        }
        for (name, depth) in [("bm25_depth", self.bm25_depth), ("dense_depth", self.dense_depth)] {
            if depth == 0 || depth > MAX_DEPTH {
                return refuse(name, "a number from 1 to 100000", depth.to_string());
            }
        }
        for (name, weight) in [("bm25_weight", self.bm25_weight), ("dense_weight", self.dense_weight)] {
            if !(weight >= 0.0 && weight.is_finite()) {
                return refuse(name, "a finite number, zero or above", weight.to_string());
            }
        }
        Ok(self)
    }
}

/// The `limit` best keys of the lists, best first. Each list is best first, holds a key once, and comes with its weight.
pub fn reciprocal_rank<K: Ord + Copy>(lists: &[(&[K], f64)], k: f64, limit: usize) -> Vec<(K, f64)> {
    let mut places: Vec<(K, f64)> = Vec::with_capacity(lists.iter().map(|(list, _)| list.len()).sum());
    for (list, weight) in lists {
        places.extend(list.iter().enumerate().map(|(i, key)| (*key, weight / (k + (i + 1) as f64))));
    }
    // A stable sort keeps the order of lists within a key, so that sums are always added in one order.
    places.sort_by_key(|(key, _)| *key);
    places.dedup_by(|later, first| {
        let same = later.0 == first.0;
        if same {
            first.1 += later.1;
        }
        same
    });
    places.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    places.truncate(limit);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_count_by_weight_and_ties_go_to_the_smaller_key() {
        let got = reciprocal_rank(&[(&["b", "a", "c"], 1.0), (&["a", "b", "d"], 1.0)], 60.0, 10);
        assert_eq!(got.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(got[0].1, 1.0 / 61.0 + 1.0 / 62.0);
        assert_eq!(got[2].1, 1.0 / 63.0);
        let got = reciprocal_rank(&[(&["b", "a"], 1.0), (&["a", "b"], 2.0)], 60.0, 1);
        assert_eq!(got.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["a"]);
        assert!(reciprocal_rank::<u32>(&[], 60.0, 3).is_empty());
    }

    #[test]
    fn settings_outside_their_range_are_refused() {
        let base = FusionSettings::default();
        assert!(base.checked().is_ok());
        for bad in [
            FusionSettings { k: 0.0, ..base },
            FusionSettings { k: f64::NAN, ..base },
            FusionSettings { bm25_depth: 0, ..base },
            FusionSettings { dense_depth: MAX_DEPTH + 1, ..base },
            FusionSettings { dense_weight: -1.0, ..base },
            FusionSettings { bm25_weight: f64::INFINITY, ..base },
        ] {
            assert!(bad.checked().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_key_comes_once_and_one_list_alone_keeps_its_order(
            mut list in proptest::collection::vec(0_u32..50, 0..40), other in proptest::collection::btree_set(0_u32..50, 0..30)
        ) {
            let mut seen = std::collections::HashSet::new();
            list.retain(|key| seen.insert(*key));
            let alone: Vec<u32> = reciprocal_rank(&[(&list, 1.0)], 60.0, 100).into_iter().map(|(key, _)| key).collect();
            prop_assert_eq!(&alone, &list);
            let other: Vec<u32> = other.into_iter().collect();
            let fused = reciprocal_rank(&[(&list, 1.0), (&other, 0.5)], 60.0, 100);
            let mut keys: Vec<u32> = fused.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            let mut all: Vec<u32> = list.iter().chain(&other).copied().collect();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(keys, all);
            for (key, score) in fused {
                let place = |l: &[u32]| l.iter().position(|k| *k == key).map(|i| 1.0 / (61.0 + i as f64));
                let truth = place(&list).unwrap_or(0.0) + 0.5 * place(&other).unwrap_or(0.0);
                prop_assert!((score - truth).abs() < 1e-12);
            }
        }
    }
}
