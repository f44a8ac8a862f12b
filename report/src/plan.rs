//! The denominator: which episodes were planned before the run began, and which record, if any, each
//! of them got. What has no record is `not run` and stays in the denominator.

use crate::error::ReportError;
use legwork_protocol::id::{EpisodeKey, QuestionId};
use legwork_protocol::record::EpisodeRecord;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One episode that was to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedEpisode {
    /// Question and round.
    pub key: EpisodeKey,
    /// The question's stratum.
    pub tier: String,
}

/// All episodes that were to be run, each once, in the order of the question set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    episodes: Vec<PlannedEpisode>,
}

/// A planned episode with its record, if it was run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) planned: &'a PlannedEpisode,
    pub(crate) record: Option<&'a EpisodeRecord>,
}

impl Plan {
    /// A plan of these episodes; refuses an episode that stands there twice.
    pub fn new(episodes: Vec<PlannedEpisode>) -> Result<Plan, ReportError> {
        let mut seen = BTreeSet::new();
        for episode in &episodes {
            if !seen.insert(&episode.key) {
                return Err(ReportError::PlannedTwice(episode.key.clone()));
            }
        }
        Ok(Plan { episodes })
    }

    /// So many rounds, from 0, over questions with their tiers.
    pub fn of_questions(
        questions: impl IntoIterator<Item = (QuestionId, String)>,
        rounds: u32,
    ) -> Result<Plan, ReportError> {
        if rounds == 0 {
            return Err(ReportError::NoRounds);
        }
        let questions: Vec<_> = questions.into_iter().collect();
        let episodes = (0..rounds).flat_map(|round| {
            questions.iter().map(move |(question, tier)| PlannedEpisode {
                key: EpisodeKey { round, question: question.clone() },
                tier: tier.clone(),
            })
        });
        Plan::new(episodes.collect())
    }

    /// The episodes in planned order.
    pub fn episodes(&self) -> &[PlannedEpisode] {
        &self.episodes
    }

    /// The tiers in first-seen order.
    pub fn tiers(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        self.episodes.iter().map(|episode| episode.tier.as_str()).filter(|tier| seen.insert(*tier)).collect()
    }

    /// The rounds that occur, ascending.
    pub fn rounds(&self) -> Vec<u32> {
        self.episodes.iter().map(|episode| episode.key.round).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// How many different questions are planned.
    pub fn questions(&self) -> u64 {
        self.episodes.iter().map(|episode| &episode.key.question).collect::<BTreeSet<_>>().len() as u64
    }

    /// Gives each planned episode its record. Refuses records that were not planned, that come twice,
    /// or that contradict the plan: none of them may vanish from a table in silence.
    pub(crate) fn place<'a>(&'a self, records: &'a [EpisodeRecord]) -> Result<Vec<Placed<'a>>, ReportError> {
        let mut by_key = BTreeMap::new();
        for record in records {
            check_gate(record)?;
            if by_key.insert(&record.key, record).is_some() {
                return Err(ReportError::RecordedTwice(record.key.clone()));
            }
        }
        let mut placed = Vec::with_capacity(self.episodes.len());
        for planned in &self.episodes {
            let record = by_key.remove(&planned.key);
            if let Some(record) = record.filter(|record| record.tier != planned.tier) {
                return Err(ReportError::OtherTier {
                    key: planned.key.clone(),
                    planned: planned.tier.clone(),
                    recorded: record.tier.clone(),
                });
            }
            placed.push(Placed { planned, record });
        }
        match by_key.keys().next() {
            Some(first) => Err(ReportError::Unplanned { count: by_key.len(), first: (*first).clone() }),
            None => Ok(placed),
        }
    }
}

fn check_gate(record: &EpisodeRecord) -> Result<(), ReportError> {
    let gate = record.gate;
    if gate.asked < gate.stops || gate.stops < gate.right_stops {
        return Err(ReportError::GateTally {
            key: record.key.clone(),
            asked: gate.asked,
            stops: gate.stops,
            right_stops: gate.right_stops,
        });
    }
    let worth = gate.worth;
    let parts = [
        ("unreadable answers among those asked for", worth.unreadable, gate.asked),
        ("STOPs that can be judged among STOPs", worth.judged_stops, gate.stops),
        ("premature STOPs among those that can be judged", worth.premature_stops, worth.judged_stops),
        ("workers stopped when it was due among those due", worth.stopped_when_due, worth.due_workers),
    ];
    match parts.into_iter().find(|(_, part, whole)| part > whole) {
        Some((what, part, whole)) => Err(ReportError::GateWorth { key: record.key.clone(), what, part, whole }),
        None => Ok(()),
    }
}
