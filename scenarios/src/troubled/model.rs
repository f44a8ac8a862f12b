//! A model that misbehaves when the desk says so.

use crate::desk::{Desk, Occasion};
use crate::fault::ModelTrouble;
use crate::probe::Probe;
use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{Completion, GenerateRequest, Route};
use std::sync::Arc;
use std::time::Duration;

/// A model under the desk's eyes.
pub struct TroubledModel {
    inner: Arc<dyn Endpoint>,
    latency_most: Duration,
    desk: Arc<Desk>,
    probe: Arc<Probe>,
}

impl TroubledModel {
    /// This model, a turn of which takes at most so long, or trouble.
    pub fn new(inner: Arc<dyn Endpoint>, latency_most: Duration, desk: Arc<Desk>, probe: Arc<Probe>) -> Self {
        Self { inner, latency_most, desk, probe }
    }

    async fn answer(&self, request: GenerateRequest) -> Result<Completion, Failure> {
        let _call = self.probe.asked(&request);
        tokio::time::sleep(self.desk.takes(self.latency_most)).await;
        let judged = request.route == Route::Judge;
        if judged && !self.desk.strike(Occasion::Judge).is_empty() {
            return Ok(Completion { text: "I would rather not say.".to_owned(), ..Completion::default() });
        }
        let trouble = if judged { None } else { self.desk.model_trouble() };
        let Some((trouble, takes)) = trouble else { return self.inner.generate(request).await };
        let failed = |kind: FailureKind, detail: &str| Err(Failure::new(kind, format!("mock: {detail}")));
        match trouble {
            ModelTrouble::Slow => {
                tokio::time::sleep(takes).await;
                let mut completion = self.inner.generate(request).await?;
                completion.served_ms += u64::try_from(takes.as_millis()).unwrap_or(u64::MAX);
                Ok(completion)
            }
            ModelTrouble::Hang => std::future::pending().await,
            ModelTrouble::OutOfMemory => failed(FailureKind::ServerError, "the device is out of memory"),
            ModelTrouble::Unreachable => failed(FailureKind::Unreachable, "connection refused"),
            ModelTrouble::RateLimited => failed(FailureKind::RateLimited, "429 until the retries were used up"),
            ModelTrouble::ServerError => failed(FailureKind::ServerError, "500 until the retries were used up"),
            ModelTrouble::TimedOut => {
                tokio::time::sleep(Duration::from_millis(request.timeout_ms)).await;
                failed(FailureKind::TimedOut, "no answer in time")
            }
            ModelTrouble::TruncatedStream => failed(FailureKind::TruncatedStream, "the stream ended early"),
            ModelTrouble::Garbage => failed(FailureKind::BadResponse, "the body is no JSON"),
            ModelTrouble::EmptyText => failed(FailureKind::EmptyCompletion, "no text and no calls"),
            ModelTrouble::Malformed => Ok(Completion {
                text: "I think that I shall look for the answer.".to_owned(),
                ..self.inner.generate(request).await?
            }),
            ModelTrouble::HalfCall => {
                let mut completion = self.inner.generate(request).await?;
                let half = completion.text.len() / 2;
                let cut = (0..=half).rev().find(|place| completion.text.is_char_boundary(*place)).unwrap_or(0);
                completion.text.truncate(cut);
                Ok(completion)
            }
            ModelTrouble::Overrun => {
                let asked = request.sampling.max_tokens;
                let mut completion = self.inner.generate(request).await?;
                completion.usage.completion_tokens = asked.saturating_mul(3);
                Ok(completion)
            }
            ModelTrouble::Panic => panic!("a planned panic"),
        }
    }
}

impl Endpoint for TroubledModel {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        self.answer(request).boxed()
    }

    fn tally(&self) -> Tally {
        self.inner.tally()
    }
}
