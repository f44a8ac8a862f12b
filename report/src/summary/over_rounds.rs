//! What several rounds over the same questions add: the accuracy of each, their mean and spread,
//! pass@k, and an interval that draws whole questions because their rounds are not independent.

use super::SummaryOptions;
use crate::number::Finite;
use crate::plan::{Placed, Plan};
use crate::statistics::agreement::{Repeats, repeats};
use crate::statistics::bootstrap::{Bootstrap, Cluster, bootstrap_mean};
use crate::statistics::proportion::Rate;
use crate::statistics::rounds::{Spread, pass_at_k, spread};
use legwork_protocol::id::QuestionId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Several rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverRounds {
    /// Each round over what was planned in it.
    pub rounds: Vec<RoundRate>,
    /// Mean and spread of their accuracies.
    pub spread: Option<Spread>,
    /// Accuracy over all rounds with its interval, questions drawn whole.
    pub clustered: Option<Bootstrap>,
    /// pass@1 to pass@(rounds).
    pub pass_at: Vec<PassAt>,
    /// How far the rounds of one question differ; what is not run counts as not correct.
    pub repeats: Repeats,
}

/// One round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundRate {
    /// Which.
    pub round: u32,
    /// Correct over planned.
    pub rate: Rate,
}

/// One pass@k.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassAt {
    /// Rounds that may be tried.
    pub k: u32,
    /// Mean over the questions planned in at least `k` rounds.
    pub value: Option<Finite>,
    /// How many those are.
    pub questions: u64,
}

/// The most pass@k figures that are told.
const PASS_AT_MAX: u32 = 64;

pub(super) fn over_rounds(plan: &Plan, placed: &[Placed<'_>], options: &SummaryOptions) -> Option<OverRounds> {
    let numbers = plan.rounds();
    if numbers.len() < 2 {
        return None;
    }
    let mut by_round: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut by_question: BTreeMap<&QuestionId, Vec<bool>> = BTreeMap::new();
    for placed in placed {
        let correct = placed.record.is_some_and(|record| record.outcome.is_correct());
        let round = by_round.entry(placed.planned.key.round).or_default();
        round.0 += u64::from(correct);
        round.1 += 1;
        by_question.entry(&placed.planned.key.question).or_default().push(correct);
    }
    let rounds: Vec<RoundRate> =
        by_round.into_iter().map(|(round, (correct, of))| RoundRate { round, rate: Rate::new(correct, of) }).collect();
    let rates: Vec<Finite> = rounds.iter().filter_map(|round| round.rate.rate).collect();
    let tallies: Vec<(u32, u32)> = by_question.values().map(|verdicts| tally(verdicts)).collect();
    let clusters: Vec<Cluster> =
        tallies.iter().map(|(of, correct)| Cluster { sum: i64::from(*correct), size: *of }).collect();
    let most = tallies.iter().map(|(of, _)| *of).max().unwrap_or(0).min(PASS_AT_MAX);
    Some(OverRounds {
        spread: spread(&rates),
        rounds,
        clustered: bootstrap_mean(&clusters, options.seed, options.resamples),
        pass_at: (1..=most).map(|k| pass_at(&tallies, k)).collect(),
        repeats: repeats(by_question.values().map(Vec::as_slice)),
    })
}

fn tally(verdicts: &[bool]) -> (u32, u32) {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (count(verdicts.len()), count(verdicts.iter().filter(|correct| **correct).count()))
}

fn pass_at(tallies: &[(u32, u32)], k: u32) -> PassAt {
    let values: Vec<f64> =
        tallies.iter().filter_map(|(of, correct)| pass_at_k(*of, *correct, k)).map(Finite::get).collect();
    PassAt { k, value: Finite::mean(&values), questions: values.len() as u64 }
}
