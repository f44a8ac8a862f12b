//! The endpoint for OpenAI-compatible servers: chat completions, and completions over token ids.

pub(crate) mod answer;
pub(crate) mod embed;
pub(crate) mod request;

use crate::call::Caller;
use crate::config::{Api, Checked, EndpointConfig};
use crate::error::EndpointError;
use crate::http::{Ask, Scheme, join};
use crate::shared::{Shared, Tally};
use crate::{Endpoint, PromptEncoder};
use answer::ChatReader;
use futures::future::BoxFuture;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{Completion, GenerateRequest};
use reqwest::Url;
use std::sync::Arc;

/// Bytes of a request that are taken for one token when its rate is estimated; corrected after the call.
pub(crate) const BYTES_PER_TOKEN_ESTIMATE: u64 = 4;

pub(crate) struct OpenAi {
    caller: Caller,
    config: EndpointConfig,
    url: Url,
    encoder: Option<Arc<dyn PromptEncoder>>,
}

impl OpenAi {
    pub(crate) fn new(
        name: &str,
        config: &EndpointConfig,
        checked: Checked,
        shared: &Shared,
        encoder: Option<Arc<dyn PromptEncoder>>,
    ) -> Result<Self, EndpointError> {
        if config.api == Api::Completions && encoder.is_none() {
            return Err(EndpointError::EncoderMissing { name: name.to_owned() });
        }
        let route = match config.api {
            Api::Chat => "/chat/completions",
            Api::Completions => "/completions",
        };
        let url = join(&checked.url, route);
        let caller = Caller::new(name, config, &checked, Scheme::Bearer, shared)?;
        Ok(Self { caller, config: config.clone(), url, encoder })
    }

    async fn generate(&self, request: GenerateRequest) -> Result<Completion, Failure> {
        let body = match self.config.api {
            Api::Chat => request::chat(&self.config, &request)?,
            Api::Completions => {
                let encoder = self.encoder.clone().expect("the constructor refuses completions without an encoder");
                let messages = request.messages.clone();
                let ids = off_thread(move || encoder.encode(&messages)).await?;
                request::completions(&self.config, &request, &ids)?
            }
        };
        let estimate = body.len() as u64 / BYTES_PER_TOKEN_ESTIMATE + u64::from(request.sampling.max_tokens);
        let prepare = || (Ask { url: self.url.clone(), body: body.clone() }, ChatReader::default());
        let served = self.caller.call(request.timeout_ms, estimate, prepare).await?;
        Ok(Completion {
            queued_ms: served.queued_ms,
            served_ms: served.served_ms,
            attempts: served.attempts,
            ..served.out
        })
    }
}

impl Endpoint for OpenAi {
    fn name(&self) -> &str {
        self.caller.name()
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        Box::pin(self.generate(request))
    }

    fn tally(&self) -> Tally {
        self.caller.counters.tally()
    }
}

/// Runs what computes (a tokenizer over a long prompt) where it blocks no other call.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        // A panic of an encoder ends its call and nothing else.
        Err(Failure::new(FailureKind::Misconfigured, format!("the prompt encoder panicked ({error}): report it")))
    })
}
