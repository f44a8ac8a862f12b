//! Model endpoints over HTTP: chat completions, SGLang's token-in/token-out `/generate`, Gemini, embeddings,
//! and the policy around a call (permits, rates, retries, time limits).
//!
//! It knows wire formats, and alone in the house it knows the HTTP client. It refuses to know episodes,
//! actors and retrieval: a request comes in, a completion or a named failure goes out.

mod admission;
mod call;
pub mod config;
mod draft;
mod error;
mod fault;
mod gemini;
mod http;
mod json;
mod openai;
mod secret;
mod sglang;
mod shared;
mod stream;

pub mod adaptive;
pub mod rate;
pub mod recorded;
pub mod retry;
pub mod search;
pub mod sse;

pub use config::{Api, EndpointConfig, Kind, Prices, ReasoningBack};
pub use error::EndpointError;
pub use fault::Fault;
pub use retry::RetryPolicy;
pub use secret::{BaseUrl, Redactor, Secret, redact_urls};
pub use sglang::ledger::{LedgerLimits, PromptPlan, Reuse, TokenLedger};
pub use shared::{Shared, Tally};

use futures::future::BoxFuture;
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, GenerateRequest};
use legwork_protocol::message::Message;
use std::sync::Arc;

/// Something that answers a conversation.
///
/// Dropping the future cancels the call: the HTTP request is dropped, permits return, and a server that
/// has an abort route is told.
pub trait Endpoint: Send + Sync {
    /// The name that the configuration gives it, for tables and failures.
    fn name(&self) -> &str;

    /// Asks once, retries included.
    ///
    /// # Errors
    /// A failure of one of the named kinds, with what was expected, what came and the cure; never a key.
    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>>;

    /// What has happened so far.
    fn tally(&self) -> Tally;
}

/// Something that turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// The name that the configuration gives it.
    fn name(&self) -> &str;

    /// One vector a text, in the texts' order, all of one length, every number finite.
    ///
    /// # Errors
    /// As [`Endpoint::generate`]; all or nothing.
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, Failure>>;
}

/// Renders a conversation into the token ids of a model and reads ids back; implemented where the
/// tokenizer lives.
pub trait PromptEncoder: Send + Sync {
    /// The ids of the whole prompt, generation prompt included. Text of documents must not become
    /// control tokens: that is the encoder's promise.
    ///
    /// # Errors
    /// Where the template refuses the conversation.
    fn encode(&self, messages: &[Arc<Message>]) -> Result<Vec<u32>, Failure>;

    /// The text of ids, control tokens left out.
    ///
    /// # Errors
    /// Where an id is not of the vocabulary.
    fn decode(&self, ids: &[u32]) -> Result<String, Failure>;
}

/// Builds the endpoint that `config` describes.
///
/// `encoder` is needed by `kind = "sglang"` and by `api = "completions"`, which send token ids.
///
/// # Errors
/// Where the configuration asks for what cannot be: the error names the field and the cure.
pub fn build(
    name: &str,
    config: &EndpointConfig,
    shared: &Shared,
    encoder: Option<Arc<dyn PromptEncoder>>,
) -> Result<Arc<dyn Endpoint>, EndpointError> {
    let checked = config.check(name)?;
    Ok(match config.kind {
        Kind::Openai => Arc::new(openai::OpenAi::new(name, config, checked, shared, encoder)?),
        Kind::Sglang => Arc::new(sglang::Sglang::new(name, config, checked, shared, encoder)?),
        Kind::Gemini => Arc::new(gemini::Gemini::new(name, config, checked, shared)?),
    })
}

/// Builds an embedder over the OpenAI-compatible `/embeddings` route.
///
/// # Errors
/// As [`build`]; a kind other than `openai` is refused.
pub fn build_embedder(
    name: &str,
    config: &EndpointConfig,
    shared: &Shared,
) -> Result<Arc<dyn Embedder>, EndpointError> {
    let checked = config.check(name)?;
    Ok(Arc::new(openai::embed::OpenAiEmbedder::new(name, config, checked, shared)?))
}
