//! Models in this process. One that speaks: its files, its tokenizer and chat template, and engines, each on a thread and a
//! device of its own. Token ids go in and come out; whoever drops an answer cancels it, and the pages are free at once. One
//! that embeds has a thread likewise.
//!
//! It refuses to know who asks: an episode through `Endpoint`, or a server.

mod apart;
mod device;
#[cfg(test)]
mod double;
mod embedder;
mod endpoint;
mod gauges;
mod loading;
mod maker;
mod memory;
#[cfg(feature = "cuda")]
#[cfg(test)]
mod on_card;
mod opening;
mod replicas;
mod routing;
#[cfg(test)]
mod tests;
mod thread;

pub use apart::serve as serve_model_apart;
pub(crate) use device::Place;
pub use device::{Device, DeviceError};
pub use embedder::LocalEmbedder;
pub use opening::{LocalError, LocalSettings, TemplateChoice};
pub use replicas::Replica;
pub use thread::Heard;

use crate::clock::Clock;
use legwork_endpoints::{LedgerLimits, TokenLedger};
use legwork_engine::{Gauges, Refusal, Request, RequestId, Sampling, SessionId};
use legwork_model::{
    Conversation, GenerationDefaults, Message, ModelError, ModelLimits, PromptTemplate, RenderOptions, Tokenizer,
};
use legwork_protocol::message::{Message as Said, Role};
pub(crate) use loading::cards;
use maker::{Make, Maker};
use opening::Opened;
use replicas::Replicas;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// The first argument of a program that is started to serve one model to this process: it calls [`serve_model_apart`].
pub const PROCESS_VERB: &str = "model-process";

/// A model in this process, or in one of its own that ends with this.
pub struct LocalModel {
    name: String,
    digest: String,
    limits: ModelLimits,
    prompts: Option<PromptTemplate>,
    tokenizer: Tokenizer,
    defaults: GenerationDefaults,
    stop_ids: Vec<u32>,
    settings: LocalSettings,
    engines: Replicas,
    ledger: Mutex<TokenLedger>,
    clock: Clock,
    next_id: AtomicU64,
    tally: Mutex<legwork_endpoints::Tally>,
}

/// An answer as it is made. Dropped, it is cancelled.
#[derive(Debug)]
pub struct Answering {
    heard: mpsc::UnboundedReceiver<Heard>,
}

impl Answering {
    /// The next piece; none once it has ended, or if the engine died without a word.
    pub async fn next(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }

    /// The next piece, where a stream is polled.
    pub fn poll_next(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<Option<Heard>> {
        self.heard.poll_recv(context)
    }
}

impl LocalModel {
    /// Opens a model: a Hugging Face folder, a GGUF file, or a folder with one. It is read and its engine started before
    /// this returns, so nobody waits for weights in a handler.
    ///
    /// # Errors
    /// Files that are no such model, with the cure; too little memory; a template that is missing or does not parse.
    pub fn open(path: &Path, settings: LocalSettings, clock: Clock) -> Result<Arc<Self>, LocalError> {
        let sites = settings.device.sites(loading::cards())?;
        let Opened { tokenizer, prompts, defaults, stop_ids, digest, name } = opening::open(path, &settings)?;
        let maker = |site: &device::Site| {
            let (path, settings) = (path.to_path_buf(), settings.clone());
            let maker = Maker { path, settings, tokenizer: tokenizer.clone(), site: site.clone() };
            let mut has_made = false;
            let make = move || {
                let made = if has_made { maker.make_again() } else { maker.make() };
                has_made |= made.is_ok();
                made
            };
            (site.to_string(), Box::new(make) as Make)
        };
        let makers = sites.iter().map(maker).collect();
        let (engines, limits) = Replicas::start(makers, settings.step_max_ms(), clock)?;
        Ok(Arc::new(Self {
            name,
            digest,
            limits,
            prompts,
            tokenizer,
            defaults,
            stop_ids,
            settings,
            engines,
            ledger: Mutex::new(TokenLedger::new(LedgerLimits::default())),
            clock,
            next_id: AtomicU64::new(0),
            tally: Mutex::default(),
        }))
    }

    /// The name of its folder or file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A digest over its files, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What bounds it.
    pub fn limits(&self) -> ModelLimits {
        self.limits
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Its chat template, if it has one or was given one.
    pub fn prompts(&self) -> Option<&PromptTemplate> {
        self.prompts.as_ref()
    }

    /// How its files say that it wants to be sampled.
    pub fn defaults(&self) -> &GenerationDefaults {
        &self.defaults
    }

    /// Ids that end an answer.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }

    /// How it was opened.
    pub fn settings(&self) -> &LocalSettings {
        &self.settings
    }

    /// Where its engines stand, all as one.
    pub fn gauges(&self) -> Gauges {
        self.engines.gauges()
    }

    /// Its engines, each for itself.
    pub fn replicas(&self) -> Vec<Replica> {
        self.engines.each()
    }

    /// Whether an engine answers. One that is made anew, or has been at one step for too long, does not.
    ///
    /// # Errors
    /// Why none does.
    pub fn health(&self) -> Result<(), String> {
        self.engines.health()
    }

    /// The ids of a conversation and of the opening of its answer.
    ///
    /// # Errors
    /// No template, one that refuses the conversation, or a text that cannot be encoded.
    pub fn prompt<'a>(
        &self,
        messages: impl IntoIterator<Item = &'a Said>,
        tools: Option<&Value>,
        extra: &Map<String, Value>,
        continue_final: bool,
    ) -> Result<Vec<u32>, ModelError> {
        let prompts = self.prompts.as_ref().ok_or_else(|| ModelError::Template {
            name: self.name.clone(),
            line: 0,
            detail: "the model has no chat template; name one of legwork's with `template`".to_owned(),
        })?;
        let conversation = Conversation::new(messages.into_iter().map(in_template).collect())?;
        let options = RenderOptions {
            add_generation_prompt: !continue_final,
            tools: tools.cloned(),
            extra: extra.clone(),
            now_unix_s: i64::try_from(self.clock.epoch_ms() / 1000).ok(),
            ..RenderOptions::default()
        };
        let mut ids = prompts.encode(&conversation, &options)?;
        if continue_final {
            // The template has closed the last message: what stands behind its last end of turn goes, and that too.
            let end = ids.iter().rposition(|id| self.stop_ids.contains(id));
            ids.truncate(end.unwrap_or(ids.len()));
        }
        Ok(ids)
    }

    /// Begins an answer.
    ///
    /// # Errors
    /// An engine whose door is crowded. Whether the request itself can be served is the first thing heard; where all engines
    /// are gone nothing is heard, and [`LocalModel::health`] says why.
    pub fn begin(
        &self,
        prompt: Vec<u32>,
        sampling: Sampling,
        session: Option<SessionId>,
        within_ms: Option<u64>,
    ) -> Result<Answering, Refusal> {
        let deadline_ms = within_ms.map(|within| self.clock.elapsed_ms().saturating_add(within));
        let id = RequestId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (speaker, heard) = mpsc::unbounded_channel();
        self.engines.submit(Request { id, prompt, sampling, deadline_ms, session }, speaker)?;
        Ok(Answering { heard })
    }
}

/// A message with the fields that templates of Hugging Face look for.
fn in_template(message: &Said) -> Message {
    let mut told = Message::new(message.role.name(), &message.content);
    if let Some(reasoning) = &message.reasoning {
        told = told.with("reasoning_content", json!(reasoning));
    }
    if !message.tool_calls.is_empty() {
        let call = |call: &legwork_protocol::message::ToolCall| {
            // Templates write arguments as JSON; text that is none stays text.
            let arguments = serde_json::from_str::<Value>(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        };
        told = told.with("tool_calls", message.tool_calls.iter().map(call).collect());
    }
    match (&message.tool_call_id, message.role) {
        (Some(id), Role::Tool) => told.with("tool_call_id", json!(id)),
        _ => told,
    }
}
