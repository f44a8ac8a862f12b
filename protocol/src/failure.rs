//! Named failures of what is outside the machines: endpoints, retrieval, actors, the ledger.
//! A failure is data: it is recorded, counted and shown, and is never a wrong answer in silence.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What went wrong, in a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No connection, or it broke before an answer.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// 429 until the retries were used up.
    RateLimited,
    /// 5xx until the retries were used up.
    ServerError,
    /// A 4xx that cannot succeed by trying again.
    Refused,
    /// An answer that is not what the protocol promises: HTML, cut JSON, no choices, an error body under 200.
    BadResponse,
    /// An answer without text and without tool calls.
    EmptyCompletion,
    /// A stream that ended before it said why.
    TruncatedStream,
    /// The run's budget of retries was spent.
    RetriesSpent,
    /// The retriever failed.
    Retrieval,
    /// An actor died more often than its restart budget allows.
    ActorDied,
    /// The ledger could not write.
    Ledger,
    /// The configuration asks for what is not there.
    Misconfigured,
    /// Somebody asked for it to stop.
    Cancelled,
}

impl FailureKind {
    /// Every kind, in the order tables show them.
    pub const ALL: [FailureKind; 14] = [
        FailureKind::Unreachable,
        FailureKind::TimedOut,
        FailureKind::RateLimited,
        FailureKind::ServerError,
        FailureKind::Refused,
        FailureKind::BadResponse,
        FailureKind::EmptyCompletion,
        FailureKind::TruncatedStream,
        FailureKind::RetriesSpent,
        FailureKind::Retrieval,
        FailureKind::ActorDied,
        FailureKind::Ledger,
        FailureKind::Misconfigured,
        FailureKind::Cancelled,
    ];

    /// The name as tables print it.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Unreachable => "unreachable",
            FailureKind::TimedOut => "timed out",
            FailureKind::RateLimited => "rate limited",
            FailureKind::ServerError => "server error",
            FailureKind::Refused => "refused",
            FailureKind::BadResponse => "bad response",
            FailureKind::EmptyCompletion => "empty completion",
            FailureKind::TruncatedStream => "truncated stream",
            FailureKind::RetriesSpent => "retries spent",
            FailureKind::Retrieval => "retrieval",
            FailureKind::ActorDied => "actor died",
            FailureKind::Ledger => "ledger",
            FailureKind::Misconfigured => "misconfigured",
            FailureKind::Cancelled => "cancelled",
        }
    }
}

/// A failure with its story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which of the closed list.
    pub kind: FailureKind,
    /// What was expected, what came, what to do. Never holds a key.
    pub detail: String,
    /// Tries made before giving up.
    #[serde(default)]
    pub attempts: u32,
}

impl Failure {
    /// A failure after one try.
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), attempts: 1 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.detail)
    }
}

impl std::error::Error for Failure {}
