//! Finds where a row of tokens, ordered by logit and then by id, has had enough mass or enough tokens, without sorting it:
//! a floor leaves few candidates of most rows, sums by bucket lead to one bucket, and halving that to the token. It refuses
//! to know why it cuts.

use super::LANES;
use super::weights::{BUCKETS, ONE, Weights};
use std::cmp::Ordering;

/// Room for finding cuts.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    tops: Vec<f32>,
    candidates: Vec<Entry>,
    loads: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    logit: f32,
    id: u32,
    load: u64,
}

/// Entries up to which sorting is quicker than halving.
const SORTED_MAX: usize = 32;

impl Cutter {
    /// Keeps so many tokens, best first, and takes the mass of all others.
    pub(super) fn keep_count(&mut self, logits: &[f32], weights: &mut Weights, most: usize) {
        // So many groups have a token that is at least this great, so those that are kept are too.
        self.tops.clear();
        self.tops.extend(logits.chunks(LANES).map(|group| group.iter().copied().fold(f32::NEG_INFINITY, f32::max)));
        let floor = match most <= self.tops.len() {
            true => *self.tops.select_nth_unstable_by(most - 1, |one, other| other.total_cmp(one)).1,
            false => f32::NEG_INFINITY,
        };
        self.cut(logits, weights, |_| 1, most as u64, floor);
    }

    /// Keeps the fewest tokens, best first, that make up this part of the mass, and takes the mass of all others.
    pub(super) fn keep_mass(&mut self, logits: &[f32], weights: &mut Weights, part: f64) {
        let all = weights.sum() as f64;
        let enough = ((part * all).ceil() as u64).max(1);
        // All tokens below this mass together make up less than what may be left away. It is lowered by what masses are off
        // their logits, and more.
        let least = (1.0 - part) * all / logits.len() as f64 * 0.999;
        let floor = weights.scale.value_of(least / ONE as f64);
        self.cut(logits, weights, |mass| mass, enough, floor);
    }

    /// Keeps the fewest tokens, best first, whose loads come to `enough`; all, when they do not come to it. None that is
    /// kept is below `floor`.
    fn cut(&mut self, logits: &[f32], weights: &mut Weights, load: fn(u64) -> u64, enough: u64, floor: f32) {
        self.candidates.clear();
        for (number, group) in logits.chunks(LANES).enumerate() {
            if !group.iter().fold(false, |some, logit| some | (*logit >= floor)) {
                continue;
            }
            for (logit, id) in group.iter().zip(number * LANES..) {
                let mass = weights.mass[id];
                if *logit >= floor && mass > 0 {
                    self.candidates.push(Entry { logit: *logit, id: id as u32, load: load(mass) });
                }
            }
        }
        let Some(last) = self.last(weights, enough) else { return };
        for (id, (mass, logit)) in weights.mass.iter_mut().zip(logits).enumerate() {
            let kept = *logit > last.logit || *logit == last.logit && id as u32 <= last.id;
            *mass = if kept { *mass } else { 0 };
        }
    }

    /// The last candidate that is kept.
    fn last(&mut self, weights: &Weights, enough: u64) -> Option<Entry> {
        self.loads.clear();
        self.loads.resize(BUCKETS, 0);
        for entry in &self.candidates {
            self.loads[weights.scale.bucket(entry.logit)] += entry.load;
        }
        let mut missing = enough;
        let crossing = self.loads.iter().position(|load| {
            let crosses = *load >= missing;
            missing -= if crosses { 0 } else { *load };
            crosses
        })?;
        self.candidates.retain(|entry| weights.scale.bucket(entry.logit) == crossing);
        halve(&mut self.candidates, missing)
    }
}

/// The entry at which loads, best first, come to `missing`.
fn halve(mut entries: &mut [Entry], mut missing: u64) -> Option<Entry> {
    while entries.len() > SORTED_MAX {
        let middle = entries.len() / 2;
        entries.select_nth_unstable_by(middle, best_first);
        let (better, worse) = entries.split_at_mut(middle);
        let load: u64 = better.iter().map(|entry| entry.load).sum();
        if load >= missing {
            entries = better;
        } else {
            missing -= load;
            entries = worse;
        }
    }
    entries.sort_unstable_by(best_first);
    entries.iter().copied().find(|entry| {
        let crosses = entry.load >= missing;
        missing -= if crosses { 0 } else { entry.load };
        crosses
    })
}

/// By logit, greatest first, and then by id. Logits are numbers here; 0 and -0 are equal.
fn best_first(one: &Entry, other: &Entry) -> Ordering {
    other.logit.partial_cmp(&one.logit).unwrap_or(Ordering::Equal).then(one.id.cmp(&other.id))
}
