//! Whether two runs may be paired: the same questions, rounds, tiers and data, or a difference that
//! somebody accepted by its name.

use super::{CompareOptions, Run};
use crate::error::ReportError;
use crate::plan::Plan;
use crate::provenance::Provenance;
use legwork_protocol::id::QuestionId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Names of the differences that are found in the plans themselves.
pub const STRUCTURAL: [&str; 3] = ["question_ids", "rounds", "tiers"];

/// A difference between two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "difference", rename_all = "snake_case")]
pub enum Difference {
    /// A digest differs or is not stated.
    Digest {
        /// The digest's name.
        name: String,
        /// The first run's, if it states one.
        a: Option<String>,
        /// The second run's, if it states one.
        b: Option<String>,
    },
    /// Other questions were planned.
    QuestionIds {
        /// Questions of the first run only.
        only_a: u64,
        /// Questions of the second run only.
        only_b: u64,
        /// One of them.
        first: QuestionId,
    },
    /// The same questions, but in other rounds.
    Rounds {
        /// Rounds of the first run.
        a: u64,
        /// Rounds of the second run.
        b: u64,
    },
    /// A question stands in another tier.
    Tiers {
        /// How many do.
        questions: u64,
        /// The first of them.
        first: QuestionId,
    },
}

impl Difference {
    /// The name by which it is accepted.
    pub fn name(&self) -> &str {
        match self {
            Difference::Digest { name, .. } => name,
            Difference::QuestionIds { .. } => STRUCTURAL[0],
            Difference::Rounds { .. } => STRUCTURAL[1],
            Difference::Tiers { .. } => STRUCTURAL[2],
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stated = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "not stated".to_owned());
        match self {
            Difference::Digest { name, a, b } => write!(f, "{name}: {} against {}", stated(a), stated(b)),
            Difference::QuestionIds { only_a, only_b, first } => {
                write!(f, "question_ids: {only_a} only in the first run, {only_b} only in the second, such as {first}")
            }
            Difference::Rounds { a, b } => write!(f, "rounds: other rounds over the same questions ({a} against {b})"),
            Difference::Tiers { questions, first } => {
                write!(f, "tiers: {questions} questions in another tier, first {first}")
            }
        }
    }
}

/// The accepted differences, or an error with all the others.
pub(super) fn check(a: &Run<'_>, b: &Run<'_>, options: &CompareOptions) -> Result<Vec<Difference>, ReportError> {
    let known: Vec<&str> = options.must_match.iter().map(String::as_str).chain(STRUCTURAL).collect();
    if let Some(got) = options.accept.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.into_iter().map(str::to_owned).collect();
        return Err(ReportError::UnknownAccept { got: got.clone(), known });
    }
    let mut differences: Vec<Difference> = options
        .must_match
        .iter()
        .filter_map(|name| {
            let (a, b) = (a.provenance.digest(name), b.provenance.digest(name));
            // Two runs that both keep silent about their data cannot be known to share it.
            (a.is_none() || a != b).then(|| digest(name, a, b))
        })
        .collect();
    differences.extend(of_plans(a.plan, b.plan));
    let (accepted, refused): (Vec<_>, Vec<_>) =
        differences.into_iter().partition(|difference| options.accept.contains(difference.name()));
    if refused.is_empty() { Ok(accepted) } else { Err(ReportError::NotComparable(refused)) }
}

/// Digests outside `must_match` that differ: what was changed on purpose.
pub(super) fn changed(a: &Provenance, b: &Provenance, must_match: &[String]) -> Vec<Difference> {
    let mut seen = BTreeSet::new();
    a.digests
        .iter()
        .chain(&b.digests)
        .map(|stated| stated.name.as_str())
        .filter(|name| seen.insert(*name) && !must_match.iter().any(|must| must == name))
        .filter(|name| a.digest(name) != b.digest(name))
        .map(|name| digest(name, a.digest(name), b.digest(name)))
        .collect()
}

fn digest(name: &str, a: Option<&str>, b: Option<&str>) -> Difference {
    Difference::Digest { name: name.to_owned(), a: a.map(str::to_owned), b: b.map(str::to_owned) }
}

fn of_plans(a: &Plan, b: &Plan) -> Vec<Difference> {
    let (tiers_a, tiers_b) = (tiers(a), tiers(b));
    let only = |these: &BTreeMap<&QuestionId, &str>, those: &BTreeMap<&QuestionId, &str>| {
        these
            .keys()
            .filter(|question| !those.contains_key(*question))
            .map(|question| (*question).clone())
            .collect::<Vec<_>>()
    };
    let (only_a, only_b) = (only(&tiers_a, &tiers_b), only(&tiers_b, &tiers_a));
    let mut differences = Vec::new();
    if let Some(first) = only_a.first().or(only_b.first()) {
        differences.push(Difference::QuestionIds {
            only_a: only_a.len() as u64,
            only_b: only_b.len() as u64,
            first: first.clone(),
        });
    }
    let shared_rounds = |plan: &Plan, other: &BTreeMap<&QuestionId, &str>| {
        plan.episodes()
            .iter()
            .filter(|episode| other.contains_key(&episode.key.question))
            .map(|episode| episode.key.clone())
            .collect::<BTreeSet<_>>()
    };
    if shared_rounds(a, &tiers_b) != shared_rounds(b, &tiers_a) {
        differences.push(Difference::Rounds { a: a.rounds().len() as u64, b: b.rounds().len() as u64 });
    }
    let moved: Vec<&QuestionId> = tiers_a
        .iter()
        .filter(|(question, tier)| tiers_b.get(*question).is_some_and(|other| other != *tier))
        .map(|(question, _)| *question)
        .collect();
    if let Some(first) = moved.first() {
        differences.push(Difference::Tiers { questions: moved.len() as u64, first: (*first).clone() });
    }
    differences
}

fn tiers(plan: &Plan) -> BTreeMap<&QuestionId, &str> {
    plan.episodes().iter().map(|episode| (&episode.key.question, episode.tier.as_str())).collect()
}
