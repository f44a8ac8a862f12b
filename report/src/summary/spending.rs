//! What a run cost: tokens, turns, served time and money by role, and how much of a lent budget was
//! used. Refuses to know prices: records carry what was spent.

use super::SummaryOptions;
use crate::number::Finite;
use crate::statistics::percentile::nearest_rank;
use legwork_protocol::budget::Amount;
use legwork_protocol::outcome::Outcome;
use legwork_protocol::record::EpisodeRecord;
use serde::{Deserialize, Serialize};

/// Bins of a budget histogram below and up to the whole budget, each a tenth; one more holds what lies above.
pub const BUDGET_BINS: usize = 10;

/// A run's spending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// Episodes with a record: what all averages here divide by.
    pub episodes: u64,
    /// The coordinator's own.
    pub coordinator: RoleSpending,
    /// All workers' together.
    pub workers: RoleSpending,
    /// Workers asked.
    pub workers_asked: u64,
    /// Of these, how many ran out of budget.
    pub workers_exhausted: u64,
    /// Episodes that ended exhausted.
    pub episodes_exhausted: u64,
    /// Use of each limited budget.
    pub budgets: Vec<BudgetUse>,
    /// Money, if anything had a price.
    pub cost: Option<Cost>,
}

/// One role's spending.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoleSpending {
    /// Sum over all episodes.
    pub total: Amount,
    /// Tokens for an episode, on average.
    pub tokens_mean: Option<Finite>,
    /// Tokens of the median episode.
    pub tokens_median: Option<u64>,
    /// Turns for an episode, on average.
    pub turns_mean: Option<Finite>,
    /// Turns of the median episode.
    pub turns_median: Option<u32>,
}

/// How much of one budget episodes used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// `worker` (the mean over an episode's workers) or `coordinator`.
    pub role: String,
    /// `tokens` or `turns`.
    pub resource: String,
    /// What was lent to one.
    pub limit: u64,
    /// Episodes counted: those in which the role was asked at all.
    pub episodes: u64,
    /// Mean share of the limit used; 1 is all of it.
    pub mean: Option<Finite>,
    /// Episodes by share used: ten tenths (upper end included), then more than everything.
    pub histogram: Vec<u64>,
}

/// Money, in units of whatever currency the prices had.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Millionths, all roles.
    pub micros: u64,
    /// Millionths for an episode.
    pub micros_per_episode: Option<Finite>,
    /// Millionths for a correct answer.
    pub micros_per_correct: Option<Finite>,
}

pub(super) fn spending(ran: &[&EpisodeRecord], options: &SummaryOptions) -> Spending {
    let coordinator = role(ran, |record| record.coordinator_spent);
    let workers = role(ran, |record| record.workers_spent);
    Spending {
        episodes: ran.len() as u64,
        coordinator,
        workers,
        workers_asked: sum(ran, |record| record.workers),
        workers_exhausted: sum(ran, |record| record.workers_exhausted),
        episodes_exhausted: ran.iter().filter(|record| matches!(record.outcome, Outcome::Exhausted)).count() as u64,
        budgets: budgets(ran, options),
        cost: cost(ran, coordinator.total.micros.saturating_add(workers.total.micros)),
    }
}

/// The sum of one counter over all records.
pub(super) fn sum(ran: &[&EpisodeRecord], of: impl Fn(&EpisodeRecord) -> u32) -> u64 {
    ran.iter().map(|record| u64::from(of(record))).sum()
}

fn role(ran: &[&EpisodeRecord], of: impl Fn(&EpisodeRecord) -> Amount) -> RoleSpending {
    let total = ran.iter().fold(Amount::default(), |total, record| total.plus(&of(record)));
    let mut tokens: Vec<u64> = ran.iter().map(|record| of(record).tokens).collect();
    let mut turns: Vec<u32> = ran.iter().map(|record| of(record).turns).collect();
    tokens.sort_unstable();
    turns.sort_unstable();
    RoleSpending {
        total,
        tokens_mean: Finite::ratio(total.tokens, ran.len() as u64),
        tokens_median: nearest_rank(&tokens, 0.5),
        turns_mean: Finite::ratio(u64::from(total.turns), ran.len() as u64),
        turns_median: nearest_rank(&turns, 0.5),
    }
}

fn budgets(ran: &[&EpisodeRecord], options: &SummaryOptions) -> Vec<BudgetUse> {
    let mut budgets = Vec::new();
    if let Some(limit) = options.worker_budget {
        let asked = |of: fn(&Amount) -> u64| {
            ran.iter().map(move |record| (of(&record.workers_spent), u64::from(record.workers))).collect::<Vec<_>>()
        };
        budgets.extend(budget_use("worker", "tokens", limit.tokens, u64::MAX, &asked(|spent| spent.tokens)));
        let turns = asked(|spent| u64::from(spent.turns));
        budgets.extend(budget_use("worker", "turns", u64::from(limit.turns), u64::from(u32::MAX), &turns));
    }
    if let Some(limit) = options.coordinator_budget {
        let one =
            |of: fn(&Amount) -> u64| ran.iter().map(|record| (of(&record.coordinator_spent), 1)).collect::<Vec<_>>();
        budgets.extend(budget_use("coordinator", "tokens", limit.tokens, u64::MAX, &one(|spent| spent.tokens)));
        let turns = one(|spent| u64::from(spent.turns));
        budgets.extend(budget_use("coordinator", "turns", u64::from(limit.turns), u64::from(u32::MAX), &turns));
    }
    budgets
}

/// None for a budget of nothing or without limit: there is no share of those.
fn budget_use(role: &str, resource: &str, limit: u64, unlimited: u64, spent: &[(u64, u64)]) -> Option<BudgetUse> {
    if limit == 0 || limit == unlimited {
        return None;
    }
    let mut histogram = vec![0; BUDGET_BINS + 1];
    let mut shares = Vec::new();
    for (spent, lent_to) in spent.iter().filter(|(_, lent_to)| *lent_to > 0) {
        let share = *spent as f64 / (limit as f64 * *lent_to as f64);
        let bin = ((share * BUDGET_BINS as f64).ceil() as usize).saturating_sub(1).min(BUDGET_BINS);
        histogram[bin] += 1;
        shares.push(share);
    }
    Some(BudgetUse {
        role: role.to_owned(),
        resource: resource.to_owned(),
        limit,
        episodes: shares.len() as u64,
        mean: Finite::mean(&shares),
        histogram,
    })
}

fn cost(ran: &[&EpisodeRecord], micros: u64) -> Option<Cost> {
    if micros == 0 {
        return None;
    }
    let correct = ran.iter().filter(|record| record.outcome.is_correct()).count() as u64;
    Some(Cost {
        micros,
        micros_per_episode: Finite::ratio(micros, ran.len() as u64),
        micros_per_correct: Finite::ratio(micros, correct),
    })
}
