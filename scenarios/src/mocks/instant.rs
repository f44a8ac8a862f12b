//! A worker's model for measuring the harness: so many searches, each another query, then a finish. It thinks of
//! nothing and costs nothing but the latency that it is given.

use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, FinishReason, GenerateRequest, Usage};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So many searches, then a finish.
#[derive(Debug)]
pub struct InstantModel {
    turns: u32,
    latency: Duration,
    calls: AtomicU64,
}

impl InstantModel {
    /// A model whose worker finishes in its `turns`-th turn, each after `latency`.
    pub fn new(turns: u32, latency: Duration) -> Self {
        Self { turns: turns.max(1), latency, calls: AtomicU64::new(0) }
    }

    /// Calls answered so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Endpoint for InstantModel {
    fn name(&self) -> &str {
        "mock: instant"
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        async move {
            if !self.latency.is_zero() {
                tokio::time::sleep(self.latency).await;
            }
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            let turn = request.session.as_ref().map_or(0, |session| session.turn);
            let text = if turn + 1 < self.turns {
                format!(
                    "<think>Turn {turn}.</think>\n<function=search>\n<parameter=query>query {turn} of call {call}</parameter>\n</function>"
                )
            } else {
                "<think>Enough.</think>\n<function=finish>\n<parameter=answer>mock</parameter>\n</function>".to_owned()
            };
            let completion_tokens = u32::try_from(text.len() / 4).unwrap_or(u32::MAX);
            Ok(Completion {
                text,
                finish: FinishReason::Stop,
                usage: Usage { completion_tokens, ..Usage::default() },
                served_ms: u64::try_from(self.latency.as_millis()).unwrap_or(u64::MAX),
                attempts: 1,
                ..Completion::default()
            })
        }
        .boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}
