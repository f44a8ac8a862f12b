//! What workers did and how long serving took: counters and averages over records, each
//! with what it divides by.

use super::spending::sum;
use crate::statistics::percentile::nearest_rank;
use crate::statistics::recall::{MeanRecall, mean_recall, recall};
use legwork_protocol::id::DocId;
use legwork_protocol::record::EpisodeRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Calls made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// Episodes with a record.
    pub episodes: u64,
    /// Searches.
    pub searches: u64,
    /// Of these, answered by a part of the retriever only.
    pub degraded_searches: u64,
    /// Episodes with a degraded search.
    pub degraded_episodes: u64,
    /// Pages opened.
    pub opens: u64,
    /// Turns without a readable call.
    pub malformed_turns: u64,
    /// Turns of all roles. Reports of older versions lack it.
    #[serde(default)]
    pub turns: u64,
    /// Calls that repeated an earlier one word for word.
    pub repeated_calls: u64,
}

/// Serving times, in milliseconds; percentiles by the nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Of one turn.
    pub turn: Option<Percentiles>,
    /// Of one episode, coordinator and workers together, queueing left out.
    pub episode: Option<Percentiles>,
}

/// A distribution's landmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Values measured.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 95 %.
    pub p95: u64,
    /// 99 %.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

/// Recall of documents by episodes with a record.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retrieval {
    /// Evidence among what searches showed: BrowseComp-Plus' figure.
    pub evidence_shown: MeanRecall,
    /// Gold among what searches showed.
    pub gold_shown: MeanRecall,
    /// Evidence among what was opened.
    pub evidence_opened: MeanRecall,
    /// Gold among what was opened.
    pub gold_opened: MeanRecall,
}

/// Turns of all roles of an episode.
pub(crate) fn turns(record: &EpisodeRecord) -> u64 {
    u64::from(record.coordinator_spent.turns) + u64::from(record.workers_spent.turns)
}

pub(super) fn activity(ran: &[&EpisodeRecord]) -> Activity {
    Activity {
        episodes: ran.len() as u64,
        searches: sum(ran, |record| record.searches),
        degraded_searches: sum(ran, |record| record.degraded_searches),
        degraded_episodes: sum(ran, |record| u32::from(record.degraded_searches > 0)),
        opens: sum(ran, |record| record.opens),
        malformed_turns: sum(ran, |record| record.malformed_turns),
        turns: ran.iter().map(|record| turns(record)).sum(),
        repeated_calls: sum(ran, |record| record.repeated_calls),
    }
}

pub(super) fn latency(ran: &[&EpisodeRecord]) -> Latency {
    let turns = ran.iter().flat_map(|record| record.turn_served_ms.iter().copied()).collect();
    let episodes = ran.iter().map(|record| record.coordinator_spent.plus(&record.workers_spent).served_ms).collect();
    Latency { turn: percentiles(turns), episode: percentiles(episodes) }
}

fn percentiles(mut values: Vec<u64>) -> Option<Percentiles> {
    values.sort_unstable();
    Some(Percentiles {
        count: values.len() as u64,
        p50: nearest_rank(&values, 0.5)?,
        p90: nearest_rank(&values, 0.9)?,
        p95: nearest_rank(&values, 0.95)?,
        p99: nearest_rank(&values, 0.99)?,
        max: *values.last()?,
    })
}

pub(super) fn retrieval(ran: &[&EpisodeRecord]) -> Retrieval {
    let over = |found: fn(&EpisodeRecord) -> &[DocId], wanted: fn(&EpisodeRecord) -> &[DocId]| {
        mean_recall(ran.iter().map(|record| {
            let found: BTreeSet<&DocId> = found(record).iter().collect();
            recall(&found, wanted(record))
        }))
    };
    Retrieval {
        evidence_shown: over(|record| &record.retrieved, |record| &record.evidence),
        gold_shown: over(|record| &record.retrieved, |record| &record.gold),
        evidence_opened: over(|record| &record.opened, |record| &record.evidence),
        gold_opened: over(|record| &record.opened, |record| &record.gold),
    }
}
