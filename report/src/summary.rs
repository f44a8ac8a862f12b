//! One run summed up: from the plan fixed before it and the records it left. Every planned episode is
//! placed exactly once; both denominators are always given. Refuses to know how any of it is shown.

pub mod behaviour;
pub mod gate;
pub mod outcomes;
pub mod over_rounds;
pub mod spending;

use crate::error::ReportError;
use crate::plan::{Placed, Plan};
use crate::statistics::bootstrap::RESAMPLES;
use crate::statistics::calibration::{BINS, Calibration, Confident, calibration};
use crate::statistics::citations::{Citations, citations};
use crate::statistics::proportion::Rate;
use behaviour::{Activity, Latency, Retrieval};
use gate::GateSummary;
use legwork_protocol::budget::Amount;
use legwork_protocol::profile::GateMode;
use legwork_protocol::record::EpisodeRecord;
use outcomes::{FailureCause, OutcomeCounts};
use over_rounds::OverRounds;
use serde::{Deserialize, Serialize};
use spending::Spending;

/// What a summary needs beside plan and records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SummaryOptions {
    /// What each worker was lent, if the share of it used is to be told.
    pub worker_budget: Option<Amount>,
    /// What the coordinator was lent for itself.
    pub coordinator_budget: Option<Amount>,
    /// Whether a gate was asked and obeyed, if that is to be told.
    pub gate: Option<GateMode>,
    /// Bins of the corrected calibration error.
    pub calibration_bins: usize,
    /// Seed of the bootstrap over rounds.
    pub seed: u64,
    /// Resamples of the bootstrap.
    pub resamples: u32,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self {
            worker_budget: None,
            coordinator_budget: None,
            gate: None,
            calibration_bins: BINS,
            seed: 42,
            resamples: RESAMPLES,
        }
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Different questions planned.
    pub questions: u64,
    /// Rounds planned.
    pub rounds: u64,
    /// Tiers in the order in which the plan names them first.
    pub tiers: Vec<TierRow>,
    /// All tiers together.
    pub total: TierRow,
    /// Failures by cause, the most frequent first.
    pub failures: Vec<FailureCause>,
    /// Only when more than one round was planned.
    pub over_rounds: Option<OverRounds>,
    /// Tokens, turns, time and money.
    pub spending: Spending,
    /// What the workers did.
    pub activity: Activity,
    /// How long serving took.
    pub latency: Latency,
    /// What searches found.
    pub retrieval: Retrieval,
    /// Citations in answers, by the published rule.
    pub citations: Citations,
    /// Calibration of graded answers.
    pub calibration: Calibration,
    /// Only when a gate was asked, or was to be.
    pub gate: Option<GateSummary>,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierRow {
    /// The tier, or `total`.
    pub tier: String,
    /// Where each planned episode is placed.
    pub outcomes: OutcomeCounts,
    /// Correct over everything planned.
    pub over_planned: Rate,
    /// Correct over what a grader judged.
    pub over_graded: Rate,
}

/// Sums up a run. Refuses records that the plan does not know, that come twice, or that contradict it.
pub fn summarise(plan: &Plan, records: &[EpisodeRecord], options: &SummaryOptions) -> Result<Summary, ReportError> {
    let placed = plan.place(records)?;
    let ran: Vec<&EpisodeRecord> = placed.iter().filter_map(|placed| placed.record).collect();
    let tiers = plan
        .tiers()
        .into_iter()
        .map(|tier| tier_row(tier, placed.iter().filter(|placed| placed.planned.tier == tier)))
        .collect();
    Ok(Summary {
        questions: plan.questions(),
        rounds: plan.rounds().len() as u64,
        tiers,
        total: tier_row("total", placed.iter()),
        failures: outcomes::failures(&ran),
        over_rounds: over_rounds::over_rounds(plan, &placed, options),
        spending: spending::spending(&ran, options),
        activity: behaviour::activity(&ran),
        latency: behaviour::latency(&ran),
        retrieval: behaviour::retrieval(&ran),
        citations: citations(
            ran.iter().filter_map(|record| Some((record.answer.as_deref()?, record.evidence.as_slice()))),
        ),
        calibration: calibration(&confidences(&ran), options.calibration_bins),
        gate: gate::gate(&ran, options.gate),
    })
}

fn tier_row<'a, 'b: 'a>(tier: &str, placed: impl Iterator<Item = &'a Placed<'b>>) -> TierRow {
    let mut outcomes = OutcomeCounts::default();
    for placed in placed {
        outcomes.place(placed.record.map(|record| record.outcome));
    }
    TierRow {
        tier: tier.to_owned(),
        over_planned: Rate::new(outcomes.correct, outcomes.planned()),
        over_graded: Rate::new(outcomes.correct, outcomes.graded()),
        outcomes,
    }
}

fn confidences(ran: &[&EpisodeRecord]) -> Vec<Confident> {
    ran.iter()
        .filter(|record| record.outcome.is_graded())
        .map(|record| Confident {
            confidence: record.verdict.as_ref().and_then(|verdict| verdict.confidence),
            correct: record.outcome.is_correct(),
        })
        .collect()
}
