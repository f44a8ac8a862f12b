//! The model in this process as an endpoint of episodes: a conversation's later turns send the very ids that the engine
//! used and made before, so that its pages are found and training sees what was drawn.

use super::{Heard, LocalModel};
use futures::future::BoxFuture;
use legwork_endpoints::{Endpoint, PromptEncoder, PromptPlan, Tally};
use legwork_engine::{Drawn, Reason, Refusal, Sampling, SessionId, Usage as Used};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{Completion, FinishReason, GenerateRequest, Session, TokenIds, Usage};
use legwork_protocol::message::Message;
use serde_json::Map;
use std::sync::{Arc, PoisonError};

impl Endpoint for LocalModel {
    fn name(&self) -> &str {
        LocalModel::name(self)
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        Box::pin(async move {
            self.count(|tally| {
                tally.requests += 1;
                tally.in_flight += 1;
                tally.in_flight_most = tally.in_flight_most.max(tally.in_flight);
            });
            let leaving = Leaving(self);
            let answer = self.answer(request).await;
            self.count(|tally| match &answer {
                Ok(_) => tally.answered += 1,
                Err(_) => tally.failed += 1,
            });
            drop(leaving);
            answer
        })
    }

    fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PromptEncoder for LocalModel {
    fn encode(&self, messages: &[Arc<Message>]) -> Result<Vec<u32>, Failure> {
        self.prompt(messages.iter().map(|message| &**message), None, &Map::new(), false)
            .map_err(|error| Failure::new(FailureKind::Misconfigured, error.to_string()))
    }

    fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        self.tokenizer().decode(ids, true).map_err(|error| Failure::new(FailureKind::BadResponse, error.to_string()))
    }
}

/// Counts a call as ended, however it ends.
struct Leaving<'a>(&'a LocalModel);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.count(|tally| tally.in_flight -= 1);
    }
}

impl LocalModel {
    fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    async fn answer(&self, request: GenerateRequest) -> Result<Completion, Failure> {
        if request.tools.is_some() {
            let detail = "the request offers native tools; a model in this process takes the XML-style grammar only";
            return Err(Failure::new(FailureKind::Misconfigured, detail));
        }
        let plan = self.plan(&request)?;
        if plan.reuse.is_reencoded() {
            self.count(|tally| tally.reencoded += 1);
        }
        let began_ms = self.clock.elapsed_ms();
        let session = request.session.as_ref().map(session_id);
        let sampling = sampling(&request, self.stop_ids());
        let mut answering = self
            .begin(plan.ids.clone(), sampling, session, Some(request.timeout_ms))
            .map_err(|error| refused(&error))?;
        let (mut text, mut drawn): (String, Vec<Drawn>) = Default::default();
        let (reason, used) = loop {
            match answering.next().await {
                Some(Heard::Tokens { tokens, text: more }) => {
                    drawn.extend(tokens);
                    text.push_str(&more);
                }
                Some(Heard::Done { reason, usage }) => break (reason, usage),
                Some(Heard::Refused(refusal)) => return Err(refused(&refusal)),
                None => {
                    let why = self.health().err().unwrap_or_else(|| "the engine ended without a word".to_owned());
                    return Err(Failure::new(FailureKind::ServerError, why));
                }
            }
        };
        let finish = finish(reason)?;
        if text.is_empty() {
            let detail = format!("an answer without text ({} tokens)", drawn.len());
            return Err(Failure::new(FailureKind::EmptyCompletion, detail));
        }
        let logprobs = drawn.iter().map_while(|drawn| drawn.logprob).collect();
        let completion: Vec<u32> = drawn.iter().map(|drawn| drawn.id).collect();
        if let Some(session) = &request.session {
            let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger.commit(session, &request.messages, &plan.ids, &text, &completion);
        }
        Ok(Completion {
            text,
            finish,
            usage: usage(used),
            ids: Some(TokenIds { prompt: plan.ids, completion, logprobs }),
            served_ms: self.clock.elapsed_ms().saturating_sub(began_ms),
            attempts: 1,
            ..Completion::default()
        })
    }

    fn plan(&self, request: &GenerateRequest) -> Result<PromptPlan, Failure> {
        let Some(session) = &request.session else { return PromptPlan::fresh(&request.messages, self) };
        // The entry is taken out of the lock: encoding is slow and other sessions must not wait.
        let past = self.ledger.lock().unwrap_or_else(PoisonError::into_inner).past(session);
        PromptPlan::new(past.as_deref(), &request.messages, self)
    }
}

/// A conversation's name among the engine's sessions.
fn session_id(session: &Session) -> SessionId {
    let name = format!("{:?} {:?}", session.episode, session.scope);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..16]);
    SessionId(u128::from_le_bytes(bytes))
}

fn sampling(request: &GenerateRequest, stop_ids: &[u32]) -> Sampling {
    let asked = &request.sampling;
    Sampling {
        max_new: asked.max_tokens as usize,
        temperature: f64::from(asked.temperature),
        top_p: f64::from(asked.top_p),
        top_k: asked.top_k.map(|k| k as usize),
        // As endpoints over the wire send it: the same run draws the same whether the model is here or behind a server.
        seed: asked.seed.unwrap_or_default() >> 1,
        stop: asked.stop.clone(),
        stop_ids: stop_ids.to_vec(),
        logprobs: Some(0),
        ..Sampling::default()
    }
}

fn refused(refusal: &Refusal) -> Failure {
    let kind = match refusal {
        Refusal::QueueFull { .. } => FailureKind::RateLimited,
        Refusal::DeadlinePassed { .. } => FailureKind::TimedOut,
        _ => FailureKind::Refused,
    };
    Failure::new(kind, refusal.to_string())
}

fn finish(reason: Reason) -> Result<FinishReason, Failure> {
    match reason {
        Reason::Stop(_) | Reason::StopString(_) => Ok(FinishReason::Stop),
        Reason::Length => Ok(FinishReason::Length),
        Reason::Cancelled => Err(Failure::new(FailureKind::Cancelled, "the engine was told to stop this answer")),
        Reason::Deadline => Err(Failure::new(FailureKind::TimedOut, "the answer was not complete in time")),
        Reason::Failed(why) => Err(Failure::new(FailureKind::ServerError, why)),
    }
}

fn usage(used: Used) -> Usage {
    let count = |tokens: usize| u32::try_from(tokens).unwrap_or(u32::MAX);
    Usage {
        prompt_tokens: count(used.prompt),
        cached_tokens: count(used.cached),
        completion_tokens: count(used.completion),
    }
}
