//! Two runs, pair by pair. It refuses to pair runs that do not ask the same questions of the same data
//! unless told by name which difference to accept, and says then what was left out.

pub mod comparable;

pub use comparable::Difference;

use crate::error::ReportError;
use crate::number::Finite;
use crate::plan::{Placed, Plan};
use crate::provenance::Provenance;
use crate::statistics::bootstrap::{Bootstrap, Cluster, RESAMPLES, bootstrap_mean};
use crate::statistics::paired::{DetectableEffect, McNemar, detectable_effect, mcnemar};
use crate::statistics::proportion::Rate;
use crate::summary::behaviour::turns;
use legwork_protocol::id::{EpisodeKey, QuestionId};
use legwork_protocol::outcome::Outcome;
use legwork_protocol::record::EpisodeRecord;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One of the two runs.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What was planned.
    pub plan: &'a Plan,
    /// What came of it.
    pub records: &'a [EpisodeRecord],
    /// Its title names it in the tables; its digests decide whether it can be compared.
    pub provenance: &'a Provenance,
}

/// How to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Digests that both runs must state and share.
    pub must_match: Vec<String>,
    /// Names of differences to accept: digests of `must_match`, or one of [`comparable::STRUCTURAL`].
    pub accept: BTreeSet<String>,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Resamples of the bootstrap.
    pub resamples: u32,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            must_match: vec!["question_set".to_owned(), "corpus".to_owned()],
            accept: BTreeSet::new(),
            seed: 42,
            resamples: RESAMPLES,
        }
    }
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The first run's title.
    pub a: String,
    /// The second run's title.
    pub b: String,
    /// Questions compared.
    pub questions: u64,
    /// Rounds compared. Above 1, McNemar takes the rounds of one question for independent, which they
    /// are not; the bootstrap draws whole questions.
    pub rounds: u64,
    /// Tiers in the first plan's order.
    pub tiers: Vec<PairRow>,
    /// All tiers together.
    pub total: PairRow,
    /// Every episode that is right in one run only, in the first plan's order.
    pub flips: Vec<Flip>,
    /// Flips of which one side was not run, failed from outside, was cancelled or got no verdict: there
    /// the run may have changed rather than the worker.
    pub flips_from_outside: u64,
    /// Turns of the first run's pairs with a call that could be read.
    pub readable_a: Rate,
    /// Turns of the second run's pairs with a call that could be read.
    pub readable_b: Rate,
    /// Differences that were accepted.
    pub accepted: Vec<Difference>,
    /// Other digests that differ: what was changed between the runs.
    pub changed: Vec<Difference>,
    /// Episodes of the first plan only, left out.
    pub left_out_a: u64,
    /// Episodes of the second plan only, left out.
    pub left_out_b: u64,
}

/// One tier of pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRow {
    /// The tier, or `total`.
    pub tier: String,
    /// The first run over all pairs.
    pub a: Rate,
    /// The second run over all pairs.
    pub b: Rate,
    /// Right in the second only.
    pub improved: u64,
    /// Right in the first only.
    pub regressed: u64,
    /// Right in both.
    pub both: u64,
    /// Right in neither.
    pub neither: u64,
    /// Second accuracy minus first, −1 to 1.
    pub difference: Option<Finite>,
    /// The exact test.
    pub mcnemar: McNemar,
    /// The difference with its interval.
    pub bootstrap: Option<Bootstrap>,
    /// What this many pairs could have detected at the discordance observed.
    pub detectable: Option<DetectableEffect>,
}

/// An episode that is right in one run only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flip {
    /// Question and round.
    pub key: EpisodeKey,
    /// Its tier.
    pub tier: String,
    /// True if the second run is the right one.
    pub improved: bool,
    /// How it ended in the first run; none if it was not run.
    pub a: Option<Outcome>,
    /// How it ended in the second run; none if it was not run.
    pub b: Option<Outcome>,
}

struct Pair<'a> {
    key: &'a EpisodeKey,
    tier: &'a str,
    a: Option<Outcome>,
    b: Option<Outcome>,
}

impl Pair<'_> {
    fn right(&self) -> (bool, bool) {
        let right = |outcome: Option<Outcome>| outcome.is_some_and(Outcome::is_correct);
        (right(self.a), right(self.b))
    }
}

/// Compares `b` against `a`.
pub fn compare(a: &Run<'_>, b: &Run<'_>, options: &CompareOptions) -> Result<Comparison, ReportError> {
    let (placed_a, placed_b) = (a.plan.place(a.records)?, b.plan.place(b.records)?);
    let accepted = comparable::check(a, b, options)?;
    let pairs = pair(&placed_a, &placed_b);
    let tiers = a
        .plan
        .tiers()
        .into_iter()
        .map(|tier| row(tier, &pairs.iter().filter(|pair| pair.tier == tier).collect::<Vec<_>>(), options))
        .filter(|row| row.a.of > 0)
        .collect();
    let flips: Vec<Flip> = pairs.iter().filter_map(flip).collect();
    let distinct = |of: fn(&EpisodeKey) -> String| pairs.iter().map(|pair| of(pair.key)).collect::<BTreeSet<_>>().len();
    Ok(Comparison {
        a: a.provenance.title.clone(),
        b: b.provenance.title.clone(),
        questions: distinct(|key| key.question.to_string()) as u64,
        rounds: distinct(|key| key.round.to_string()) as u64,
        tiers,
        total: row("total", &pairs.iter().collect::<Vec<_>>(), options),
        flips_from_outside: flips.iter().filter(|flip| from_outside(flip.a) || from_outside(flip.b)).count() as u64,
        flips,
        readable_a: readable(&placed_a, &pairs),
        readable_b: readable(&placed_b, &pairs),
        accepted,
        changed: comparable::changed(a.provenance, b.provenance, &options.must_match),
        left_out_a: (placed_a.len() - pairs.len()) as u64,
        left_out_b: (placed_b.len() - pairs.len()) as u64,
    })
}

/// Turns with a call that could be read, over the episodes that are in a pair.
fn readable(placed: &[Placed<'_>], pairs: &[Pair<'_>]) -> Rate {
    let paired: BTreeSet<&EpisodeKey> = pairs.iter().map(|pair| pair.key).collect();
    let records =
        || placed.iter().filter(|placed| paired.contains(&placed.planned.key)).filter_map(|placed| placed.record);
    let all: u64 = records().map(turns).sum();
    let malformed: u64 = records().map(|record| u64::from(record.malformed_turns)).sum();
    Rate::new(all.saturating_sub(malformed), all)
}

/// Whether the end of an episode says nothing of its worker.
fn from_outside(outcome: Option<Outcome>) -> bool {
    match outcome {
        None | Some(Outcome::Failed(_) | Outcome::Cancelled | Outcome::Ungraded) => true,
        Some(Outcome::Correct | Outcome::Wrong | Outcome::NoAnswer | Outcome::Exhausted | Outcome::Malformed) => false,
    }
}

fn pair<'a>(a: &[Placed<'a>], b: &[Placed<'a>]) -> Vec<Pair<'a>> {
    let outcome = |placed: &Placed<'_>| placed.record.map(|record| record.outcome);
    let others: BTreeMap<&EpisodeKey, Option<Outcome>> =
        b.iter().map(|placed| (&placed.planned.key, outcome(placed))).collect();
    a.iter()
        .filter_map(|placed| {
            let key = &placed.planned.key;
            let b = *others.get(key)?;
            Some(Pair { key, tier: &placed.planned.tier, a: outcome(placed), b })
        })
        .collect()
}

fn row(tier: &str, pairs: &[&Pair<'_>], options: &CompareOptions) -> PairRow {
    let mut counts = [[0u64; 2]; 2];
    let mut clusters: BTreeMap<&QuestionId, Cluster> = BTreeMap::new();
    for pair in pairs {
        let (a, b) = pair.right();
        counts[usize::from(a)][usize::from(b)] += 1;
        let cluster = clusters.entry(&pair.key.question).or_insert(Cluster { sum: 0, size: 0 });
        cluster.sum += i64::from(b) - i64::from(a);
        cluster.size += 1;
    }
    let [[neither, improved], [regressed, both]] = counts;
    let n = pairs.len() as u64;
    let clusters: Vec<Cluster> = clusters.into_values().collect();
    PairRow {
        tier: tier.to_owned(),
        a: Rate::new(regressed + both, n),
        b: Rate::new(improved + both, n),
        improved,
        regressed,
        both,
        neither,
        difference: Finite::new((improved as f64 - regressed as f64) / n as f64),
        mcnemar: mcnemar(improved, regressed),
        bootstrap: bootstrap_mean(&clusters, options.seed, options.resamples),
        detectable: Finite::ratio(improved + regressed, n).and_then(|share| detectable_effect(n, share.get())),
    }
}

fn flip(pair: &Pair<'_>) -> Option<Flip> {
    let (a, b) = pair.right();
    (a != b).then(|| Flip { key: pair.key.clone(), tier: pair.tier.to_owned(), improved: b, a: pair.a, b: pair.b })
}
