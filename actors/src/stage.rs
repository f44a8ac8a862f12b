//! What all actors of one run share: the profile, the limits, the clock, token counters and one another's
//! addresses. One stage a run, no globals: many runs can live in one process.

use crate::address::Address;
use crate::board::BoardMsg;
use crate::cast::Cast;
use crate::clock::Clock;
use crate::gate::GateMsg;
use crate::grader::GraderMsg;
use crate::inference::InferenceMsg;
use crate::ledger::LedgerMsg;
use crate::retriever::RetrieverMsg;
use crate::supervision::RestartLimit;
use legwork_protocol::coordinator::Script;
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::profile::Profile;
use legwork_protocol::tokens::TokenCounter;
use legwork_protocol::untrusted::ControlTokens;
use legwork_protocol::worker::StandingOrders;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Limits of a run that do not change what is measured, only how it is carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunLimits {
    /// Episodes at once.
    pub concurrency: usize,
    /// Restarts of an episode's children, all of them together, and apart from these of the episode itself.
    pub episode_restarts: RestartLimit,
    /// Restarts of the shared actors (retriever, grader, gate, inference, board), all of them together.
    pub shared_restarts: RestartLimit,
    /// A reply of inference, grader or gate that takes longer than this is lost, queueing included.
    pub reply_lost_after_ms: u64,
    /// A reply of the retriever that takes longer than this is a time-out.
    pub lookup_timeout_ms: u64,
    /// So often every actor of an episode says again what it said last.
    pub remind_after_ms: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            concurrency: 64,
            episode_restarts: RestartLimit { restarts_max: 3, window_ms: 600_000 },
            shared_restarts: RestartLimit { restarts_max: 20, window_ms: 60_000 },
            reply_lost_after_ms: 3_600_000,
            lookup_timeout_ms: 120_000,
            remind_after_ms: 60_000,
        }
    }
}

/// What all actors of one run share.
pub struct Stage {
    /// Every constant of the experiment.
    pub profile: Arc<Profile>,
    /// Limits of carrying it out.
    pub limits: RunLimits,
    /// Lines of the scripted coordinator, if there is one.
    pub script: Option<Arc<Script>>,
    /// Where every draw of the run comes from.
    pub seed: u64,
    /// The run's clock.
    pub clock: Clock,
    /// Counts a worker's tokens.
    pub worker_tokens: Arc<dyn TokenCounter>,
    /// Counts a coordinator's tokens.
    pub coordinator_tokens: Arc<dyn TokenCounter>,
    /// What every worker is told.
    pub worker_orders: Arc<StandingOrders>,
    /// Tokens of a worker's first message.
    pub worker_system_tokens: u64,
    /// Tokens of the message that asks a worker to wrap up.
    pub worker_wrap_up_tokens: u64,
    /// What may not stand in a page's text within a prompt.
    pub control_tokens: ControlTokens,
    /// Who plays each role.
    pub cast: Cast,
    /// Where inference lives.
    pub inference: Address<InferenceMsg>,
    /// Where the retriever lives.
    pub retriever: Address<RetrieverMsg>,
    /// Where the grader lives.
    pub grader: Address<GraderMsg>,
    /// Where the gate lives.
    pub gate: Address<GateMsg>,
    /// Where the ledger lives.
    pub ledger: Address<LedgerMsg>,
    /// Where the board lives.
    pub board: Address<BoardMsg>,
}

/// What a stage is made of.
pub struct StageParts {
    /// Every constant of the experiment.
    pub profile: Arc<Profile>,
    /// Limits of carrying it out.
    pub limits: RunLimits,
    /// Lines of the scripted coordinator, if there is one.
    pub script: Option<Arc<Script>>,
    /// Where every draw of the run comes from.
    pub seed: u64,
    /// The run's clock.
    pub clock: Clock,
    /// Counts a worker's tokens.
    pub worker_tokens: Arc<dyn TokenCounter>,
    /// Counts a coordinator's tokens.
    pub coordinator_tokens: Arc<dyn TokenCounter>,
    /// What may not stand in a page's text within a prompt.
    pub control_tokens: ControlTokens,
    /// Who plays each role.
    pub cast: Cast,
}

impl Stage {
    /// A stage on which nobody stands yet.
    pub fn new(parts: StageParts) -> Arc<Self> {
        let worker_orders = Arc::new(StandingOrders::new(Arc::clone(&parts.profile)));
        Arc::new(Self {
            worker_system_tokens: parts.worker_tokens.count(worker_orders.system_text()),
            worker_wrap_up_tokens: parts.worker_tokens.count(worker_orders.wrap_up_text()),
            worker_orders,
            profile: parts.profile,
            limits: parts.limits,
            script: parts.script,
            seed: parts.seed,
            clock: parts.clock,
            worker_tokens: parts.worker_tokens,
            coordinator_tokens: parts.coordinator_tokens,
            control_tokens: parts.control_tokens,
            cast: parts.cast,
            inference: Address::vacant("inference"),
            retriever: Address::vacant("retriever"),
            grader: Address::vacant("grader"),
            gate: Address::vacant("gate"),
            ledger: Address::not_waited_for("ledger"),
            board: Address::not_waited_for("board"),
        })
    }

    /// After which silence a reply counts as lost.
    pub fn reply_lost_after(&self) -> Duration {
        Duration::from_millis(self.limits.reply_lost_after_ms)
    }

    /// After which silence a lookup has timed out.
    pub fn lookup_timeout(&self) -> Duration {
        Duration::from_millis(self.limits.lookup_timeout_ms)
    }

    /// The seed of one draw: the same run, episode, scope, turn and attempt always draw the same, and others do not.
    pub fn draw_seed(&self, episode: &EpisodeKey, scope: Scope, turn: u32, attempt: u32) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes());
        hasher.update(&episode.round.to_le_bytes());
        hasher.update(&turn.to_le_bytes());
        hasher.update(&attempt.to_le_bytes());
        hasher.update(scope.to_string().as_bytes());
        hasher.update(&[0]);
        hasher.update(episode.question.as_str().as_bytes());
        let bytes = hasher.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&bytes.as_bytes()[..8]);
        // Servers take seeds as signed 64-bit numbers at most.
        u64::from_le_bytes(first) >> 1
    }
}
