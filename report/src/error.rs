//! What a report refuses: plans that contradict themselves, records that do not belong to the plan,
//! runs that cannot be compared. Each says what was expected, what came and what to do.

use crate::compare::Difference;
use legwork_protocol::id::EpisodeKey;
use std::fmt;

/// Everything this crate refuses.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReportError {
    /// An episode stands twice in a plan.
    #[error("expected each episode once in the plan, got {0} twice: give the questions distinct ids")]
    PlannedTwice(EpisodeKey),
    /// A plan for no round at all.
    #[error("expected at least one round in the plan, got 0: plan one pass over the questions or more")]
    NoRounds,
    /// An episode has two records.
    #[error("expected at most one record for each episode, got two for {0}: rebuild the records from the ledger")]
    RecordedTwice(EpisodeKey),
    /// Records that the plan does not know.
    #[error(
        "expected records of planned episodes only, got {} that are not in the plan, first {first}: \
         pass the plan that was fixed before this run",
        .count
    )]
    Unplanned {
        /// How many.
        count: usize,
        /// The first of them.
        first: EpisodeKey,
    },
    /// A record in another tier than the plan says.
    #[error("expected tier {planned:?} for {key} as planned, got {recorded:?}: the question set changed under the run")]
    OtherTier {
        /// Which episode.
        key: EpisodeKey,
        /// The plan's tier.
        planned: String,
        /// The record's tier.
        recorded: String,
    },
    /// A record whose gate says more than it was asked.
    #[error(
        "expected asked >= stops >= right stops in the gate's tally of {key}, got {asked}, {stops} and {right_stops}: \
         rebuild the records from the ledger"
    )]
    GateTally {
        /// Which episode.
        key: EpisodeKey,
        /// Times asked.
        asked: u32,
        /// Times it said STOP.
        stops: u32,
        /// Of these, how many were right.
        right_stops: u32,
    },
    /// A record whose gate has more of a part than of the whole.
    #[error(
        "expected no more {what} than there are in the gate's tally of {key}, got {part} of {whole}: rebuild the records from the ledger"
    )]
    GateWorth {
        /// Which episode.
        key: EpisodeKey,
        /// What is counted among what.
        what: &'static str,
        /// The part.
        part: u32,
        /// The whole.
        whole: u32,
    },
    /// Two runs that do not ask the same of the same corpus.
    #[error("expected two runs over the same questions and data, got: {}; accept by name what is meant to differ", Listed(.0))]
    NotComparable(Vec<Difference>),
    /// A name in `accept` that names no difference there could be.
    #[error("expected the name of a possible difference to accept, got {got:?}: the names are {}", .known.join(", "))]
    UnknownAccept {
        /// What came.
        got: String,
        /// What could have come.
        known: Vec<String>,
    },
    /// Two gradings that are not of the same episodes.
    #[error(
        "expected two gradings of the same episodes, got {only_a} only in the first and {only_b} only in the second, \
         such as {first}: grade the same saved run twice"
    )]
    OtherEpisodes {
        /// Episodes of the first grading only.
        only_a: usize,
        /// Episodes of the second grading only.
        only_b: usize,
        /// One of them.
        first: EpisodeKey,
    },
    /// A grading that names an episode twice.
    #[error("expected one verdict for each episode and grading, got two for {0}: pass re-grades as repeats")]
    GradedTwice(EpisodeKey),
    /// JSON could not be written.
    #[error("expected a report that can be written as JSON, got: {0}")]
    Json(String),
}

struct Listed<'a>(&'a [Difference]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, difference) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{difference}")?;
        }
        Ok(())
    }
}
