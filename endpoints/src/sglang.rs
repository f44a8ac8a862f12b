//! The endpoint for SGLang's own `/generate`: token ids in, token ids out. Later turns of a session send
//! the very ids that the server used and made before; a call that is dropped is aborted on the server.
//!
//! Facts of the wire form: SGLang's `GenerateReqInput`, `SamplingParams` and `/abort_request` (v0.5).

mod abort;
pub(crate) mod ledger;
pub(crate) mod wire;

use crate::call::Caller;
use crate::config::{Checked, EndpointConfig};
use crate::error::EndpointError;
use crate::http::{Ask, Scheme, join};
use crate::openai::off_thread;
use crate::openai::request::{check_sampling, misconfigured};
use crate::shared::{Shared, Tally, count};
use crate::{Endpoint, PromptEncoder};
use abort::{Aborter, Watch};
use futures::future::BoxFuture;
use ledger::{LedgerLimits, PromptPlan, TokenLedger};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{Completion, GenerateRequest, TokenIds};
use reqwest::Url;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wire::{GenerateReader, Generated};

pub(crate) struct Sglang {
    caller: Arc<Caller>,
    config: EndpointConfig,
    url: Url,
    encoder: Arc<dyn PromptEncoder>,
    ledger: Arc<Mutex<TokenLedger>>,
    aborter: Arc<Aborter>,
    /// Distinguishes this process' requests from those of others on the same server.
    salt: u64,
    serial: AtomicU64,
}

impl Sglang {
    pub(crate) fn new(
        name: &str,
        config: &EndpointConfig,
        checked: Checked,
        shared: &Shared,
        encoder: Option<Arc<dyn PromptEncoder>>,
    ) -> Result<Self, EndpointError> {
        let encoder = encoder.ok_or_else(|| EndpointError::EncoderMissing { name: name.to_owned() })?;
        let caller = Arc::new(Caller::new(name, config, &checked, Scheme::Bearer, shared)?);
        Ok(Self {
            aborter: Aborter::new(caller.clone(), join(&checked.url, "/abort_request")),
            caller,
            config: config.clone(),
            url: join(&checked.url, "/generate"),
            encoder,
            ledger: Arc::new(Mutex::new(TokenLedger::new(LedgerLimits::default()))),
            salt: shared.throw(),
            serial: AtomicU64::new(0),
        })
    }

    async fn generate(&self, request: GenerateRequest) -> Result<Completion, Failure> {
        check_sampling(&request.sampling)?;
        if request.tools.is_some() {
            return Err(misconfigured(
                "the request offers native tools: kind `sglang` takes the XML-style grammar only",
            ));
        }
        let plan = self.plan(&request).await?;
        if plan.reuse.is_reencoded() {
            count(&self.caller.counters.reencoded);
        }
        let estimate = plan.ids.len() as u64 + u64::from(request.sampling.max_tokens);
        // Each try has an id of its own: the one before may still be running on the server.
        let prepare = || {
            let rid = self.next_rid();
            let body = wire::body(&self.config, &request, &plan.ids, &rid);
            let watch = Watch::new(self.aborter.clone(), rid);
            let reader = GenerateReader::new(plan.ids.len(), self.config.logprobs, Some(watch));
            (Ask { url: self.url.clone(), body }, reader)
        };
        let served = self.caller.call(request.timeout_ms, estimate, prepare).await?;
        let text = self.text(&served.out).await?;
        let completion = self.complete(&request, plan, served.out, text)?;
        Ok(Completion {
            queued_ms: served.queued_ms,
            served_ms: served.served_ms,
            attempts: served.attempts,
            ..completion
        })
    }

    async fn plan(&self, request: &GenerateRequest) -> Result<PromptPlan, Failure> {
        let (ledger, encoder) = (self.ledger.clone(), self.encoder.clone());
        let (session, messages) = (request.session.clone(), request.messages.clone());
        off_thread(move || {
            let Some(session) = session else { return PromptPlan::fresh(&messages, &*encoder) };
            // The entry is taken out of the lock: encoding is slow and other sessions must not wait.
            let past = ledger.lock().unwrap_or_else(PoisonError::into_inner).past(&session);
            PromptPlan::new(past.as_deref(), &messages, &*encoder)
        })
        .await
    }

    async fn text(&self, out: &Generated) -> Result<String, Failure> {
        let (encoder, ids) = (self.encoder.clone(), out.spoken().to_vec());
        let text = off_thread(move || encoder.decode(&ids)).await?;
        Ok(out.up_to_stop(text))
    }

    fn complete(
        &self,
        request: &GenerateRequest,
        plan: PromptPlan,
        out: Generated,
        text: String,
    ) -> Result<Completion, Failure> {
        if text.is_empty() {
            let detail = format!("an answer without text ({} tokens)", out.ids.len());
            return Err(Failure::new(FailureKind::EmptyCompletion, detail));
        }
        if let Some(session) = &request.session {
            let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger.commit(session, &request.messages, &plan.ids, &text, &out.ids);
        }
        let ids = TokenIds { prompt: plan.ids, completion: out.ids, logprobs: out.logprobs };
        Ok(Completion {
            text,
            finish: out.finish,
            usage: out.usage,
            ids: Some(ids),
            attempts: 1,
            ..Completion::default()
        })
    }

    /// A request id. All are of one length, since the server aborts every id that an aborted one is a
    /// prefix of.
    fn next_rid(&self) -> String {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        format!("legwork-{:016x}{serial:016x}", self.salt)
    }
}

impl Endpoint for Sglang {
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
