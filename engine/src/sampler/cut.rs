//! Finds where a row of tokens, ordered by logit and then by id, has had enough mass or enough tokens, without sorting it:
//! sums by bucket lead to one bucket, and within that one halving leads to the token. It refuses to know why it cuts.

use super::weights::{BUCKETS, NOWHERE, Weights};
use std::cmp::Ordering;

/// Room for finding cuts.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    loads: Vec<u64>,
    within: Vec<Entry>,
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
    /// Keeps the fewest tokens, best first, whose loads come to `enough`, and takes the mass of all others; keeps all when
    /// they do not come to it. `load` says what a token of a mass counts.
    pub(super) fn cut(&mut self, logits: &[f32], weights: &mut Weights, load: fn(u64) -> u64, enough: u64) {
        let Some(last) = self.last(logits, weights, load, enough) else { return };
        let tokens = weights.mass.iter_mut().zip(&mut weights.bucket).zip(logits).enumerate();
        for (id, ((mass, bucket), logit)) in tokens {
            let kept = *logit > last.logit || *logit == last.logit && id as u32 <= last.id;
            if !kept {
                (*mass, *bucket) = (0, NOWHERE);
            }
        }
    }

    /// The last token that is kept.
    fn last(&mut self, logits: &[f32], weights: &Weights, load: fn(u64) -> u64, enough: u64) -> Option<Entry> {
        self.loads.clear();
        self.loads.resize(BUCKETS, 0);
        for (mass, bucket) in weights.mass.iter().zip(&weights.bucket) {
            if *bucket != NOWHERE {
                self.loads[usize::from(*bucket)] += load(*mass);
            }
        }
        let mut missing = enough;
        let crossing = self.loads.iter().position(|load| {
            let crosses = *load >= missing;
            missing -= if crosses { 0 } else { *load };
            crosses
        })?;
        self.within.clear();
        let tokens = weights.bucket.iter().enumerate().filter(|(_, bucket)| usize::from(**bucket) == crossing);
        self.within.extend(tokens.map(|(id, _)| Entry {
            logit: logits[id],
            id: id as u32,
            load: load(weights.mass[id]),
        }));
        halve(&mut self.within, missing)
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
