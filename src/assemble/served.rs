//! Models in this process as the HTTP edge asks for them: requests become token ids and an engine's sampling, and what the
//! engine says becomes pieces of an answer.
//!
//! It refuses to know HTTP, and how tokens are made.

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use legwork_actors::clock::Clock;
use legwork_actors::local::{Answering, Heard, LocalEmbedder, LocalModel};
use legwork_edge::model_server::{
    Candidate, ChatAsk, Embedded, Finish, Gauge, Matched, ModelCard, Prompt, Refused, Said, Sampling, Speaking, Spoken,
    TextAsk, TextModel, Tokenizable,
};
use legwork_endpoints::Embedder;
use legwork_engine::{Drawn, Reason, Refusal, Usage as Used};
use legwork_model::{EmbedKind, ModelError, Tokenizer};
use legwork_protocol::failure::FailureKind;
use legwork_protocol::generation::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds after which a client may try a full queue again.
const RETRY_AFTER_S: u32 = 1;
/// The tag that opens a thought.
const THOUGHT: &str = "<think>";
/// Tokens at the end of a prompt among which that tag is looked for.
const THOUGHT_TOKENS: usize = 8;

/// A model in this process, behind the edge.
pub struct ServedModel {
    model: Arc<LocalModel>,
    aliases: Vec<String>,
    loaded_s: u64,
    /// Where seeds come from for requests that bring none.
    seeds: AtomicU64,
}

impl ServedModel {
    /// Serves `model` under its own name and `aliases`. The seeds of requests without one begin at `seed`.
    pub fn new(model: Arc<LocalModel>, aliases: Vec<String>, clock: &Clock, seed: u64) -> Self {
        Self { model, aliases, loaded_s: clock.epoch_ms() / 1000, seeds: AtomicU64::new(seed) }
    }

    fn prompt_of(&self, ask: &ChatAsk) -> Result<Vec<u32>, Refused> {
        let prompt = self.model.prompt(&ask.messages, ask.tools.as_deref(), &ask.template, ask.continue_final);
        prompt.map_err(|error| asked("messages", &error))
    }

    /// The text of a prompt as ids, with what the tokenizer puts before a text.
    fn ids_of(&self, prompt: Prompt) -> Result<Vec<u32>, Refused> {
        match prompt {
            Prompt::Ids(ids) => Ok(ids),
            Prompt::Text(text) => self.model.tokenizer().encode_rendered(&text).map_err(|e| asked("prompt", &e)),
        }
    }

    fn speak(&self, prompt: Vec<u32>, asked: &Sampling) -> Result<Speaking, Refused> {
        let sampling = self.sampling(&prompt, asked)?;
        let keep_stop = asked.keep_stop;
        let bytes = asked.logprobs.is_some();
        let prompt_ids: Arc<[u32]> = prompt.clone().into();
        let tail = &prompt[prompt.len().saturating_sub(THOUGHT_TOKENS)..];
        let tail = self.model.tokenizer().decode(tail, false).unwrap_or_default();
        let in_thought = tail.trim_end().ends_with(THOUGHT);
        let limits = self.limits_of(&prompt_ids, &sampling);
        let answering = self.model.begin(prompt, sampling, None, None).map_err(|error| refused(&error, limits))?;
        let state = Some((answering, self.model.tokenizer().clone()));
        let said = stream::unfold(state, move |state| async move {
            let (mut answering, tokenizer): (Answering, Tokenizer) = state?;
            let piece = match answering.next().await {
                Some(Heard::Tokens { tokens, text }) => {
                    let tokens = tokens.into_iter().map(|drawn| spoken(&tokenizer, drawn, bytes)).collect();
                    return Some((vec![Ok(Said::Piece { text, tokens })], Some((answering, tokenizer))));
                }
                Some(Heard::Done { reason, usage }) => end(reason, usage, keep_stop),
                Some(Heard::Refused(refusal)) => vec![Err(refused(&refusal, limits))],
                None => vec![Err(Refused::failed("the engine ended without a word; see /health"))],
            };
            Some((piece, None))
        });
        Ok(Speaking { prompt_ids, in_thought, said: said.flat_map(stream::iter).boxed() })
    }

    fn limits_of(&self, prompt: &[u32], sampling: &legwork_engine::Sampling) -> [u64; 3] {
        [prompt.len() as u64, sampling.max_new as u64, self.model.limits().context as u64]
    }

    fn sampling(&self, prompt: &[u32], asked: &Sampling) -> Result<legwork_engine::Sampling, Refused> {
        if asked.min_tokens > 0 {
            return Err(Refused::unsupported("min_tokens is not offered: leave it out, or ban the end by logit_bias"));
        }
        if asked.show_special_tokens {
            return Err(Refused::unsupported("skip_special_tokens = false is not offered: read the token ids instead"));
        }
        let own = self.model.defaults();
        let greedy = own.sample == Some(false);
        let room = self.model.limits().context.saturating_sub(prompt.len());
        let mut stop_ids = asked.stop_token_ids.clone();
        if !asked.ignore_eos {
            stop_ids.extend(self.model.stop_ids());
        }
        let number = |asked: Option<f32>, own: Option<f64>, else_: f64| asked.map(f64::from).or(own).unwrap_or(else_);
        let top_k = asked.top_k.map(u64::from).or(own.top_k).filter(|k| *k > 0);
        Ok(legwork_engine::Sampling {
            max_new: asked.max_tokens.map_or(room, |tokens| tokens as usize).max(1),
            temperature: number(asked.temperature, own.temperature, if greedy { 0.0 } else { 1.0 }),
            top_p: number(asked.top_p, own.top_p, 1.0),
            top_k: top_k.and_then(|k| usize::try_from(k).ok()),
            min_p: number(asked.min_p, own.min_p, 0.0),
            repetition_penalty: number(asked.repetition_penalty, own.repetition_penalty, 1.0),
            presence_penalty: f64::from(asked.presence_penalty),
            frequency_penalty: f64::from(asked.frequency_penalty),
            seed: asked.seed.unwrap_or_else(|| self.seeds.fetch_add(1, Ordering::Relaxed)),
            stop_ids,
            stop: asked.stop.clone(),
            ignore_stop_ids: false,
            logprobs: asked.logprobs.map(|top| u8::try_from(top).unwrap_or(u8::MAX)),
            logit_bias: asked.logit_bias.iter().map(|(id, bias)| (*id, f64::from(*bias))).collect(),
        })
    }
}

impl TextModel for ServedModel {
    fn card(&self) -> ModelCard {
        let limits = self.model.limits();
        let count = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        ModelCard {
            id: self.model.name().to_owned(),
            aliases: self.aliases.clone(),
            context_tokens: count(limits.context),
            vocabulary: count(limits.vocabulary),
            created_s: self.loaded_s,
            owned_by: "legwork".to_owned(),
            speaks: true,
            embedding_dimensions: None,
        }
    }

    fn chat(&self, ask: ChatAsk) -> BoxFuture<'_, Result<Speaking, Refused>> {
        Box::pin(async move {
            let prompt = self.prompt_of(&ask)?;
            self.speak(prompt, &ask.sampling)
        })
    }

    fn complete(&self, ask: TextAsk) -> BoxFuture<'_, Result<Speaking, Refused>> {
        Box::pin(async move {
            if ask.score_from.is_some() {
                let detail = "log-probabilities of the prompt (echo with logprobs, logprob_start_len) are not offered";
                return Err(Refused::unsupported(detail));
            }
            let prompt = self.ids_of(ask.prompt)?;
            self.speak(prompt, &ask.sampling)
        })
    }

    fn tokenize(&self, what: Tokenizable) -> BoxFuture<'_, Result<Vec<u32>, Refused>> {
        Box::pin(async move {
            match what {
                Tokenizable::Text { text, .. } => self.ids_of(Prompt::Text(text)),
                Tokenizable::Chat(ask) => self.prompt_of(&ask),
            }
        })
    }

    fn detokenize(&self, ids: Vec<u32>) -> BoxFuture<'_, Result<String, Refused>> {
        Box::pin(async move { self.model.tokenizer().decode(&ids, false).map_err(|error| asked("tokens", &error)) })
    }

    fn health(&self) -> Result<(), String> {
        self.model.health()
    }

    fn gauges(&self) -> Vec<Gauge> {
        let seen = self.model.gauges();
        let gauge = |name, help, value: usize| Gauge { name, help, value: value as f64, device: None };
        let total = |name, help, value: u64| Gauge { name, help, value: value as f64, device: None };
        let mut all = vec![
            gauge("requests_running", "Requests that run.", seen.running),
            gauge("requests_waiting", "Requests that wait for pages or a place.", seen.waiting),
            gauge("cache_pages", "Pages of the key-value cache.", seen.pages),
            gauge("cache_pages_free", "Pages that hold nothing.", seen.pages_free),
            gauge("cache_pages_held", "Pages of running requests.", seen.pages_held),
            gauge("cache_pages_kept", "Pages kept for whoever comes with the same prefix.", seen.pages_cached),
            total("prompt_tokens_total", "Tokens of prompts that began.", seen.prompt_tokens),
            total("prefix_hit_tokens_total", "Of these, found computed already.", seen.prefix_hit_tokens),
            total("generated_tokens_total", "Tokens drawn.", seen.generated_tokens),
            total("steps_total", "Steps of the model.", seen.steps),
            total("steps_failed_total", "Steps that failed.", seen.failed_steps),
            total("cancelled_total", "Requests cancelled.", seen.cancelled),
            total("preemptions_total", "Requests set back for want of pages.", seen.preemptions),
            total("evictions_total", "Kept pages given up.", seen.evictions),
        ];
        for replica in self.model.replicas() {
            let mut of = |name, help, value: u64| {
                all.push(Gauge { name, help, value: value as f64, device: Some(replica.device.clone()) });
            };
            of("replica_up", "1 while an engine answers.", replica.trouble.is_none().into());
            of("replica_restarts_total", "Times that an engine was made anew.", replica.restarts);
            of("replica_requests_running", "Requests that run on it.", replica.gauges.running as u64);
            of("replica_requests_waiting", "Requests that wait on it.", replica.gauges.waiting as u64);
            of("replica_generated_tokens_total", "Tokens that it drew.", replica.gauges.generated_tokens);
        }
        all
    }
}

/// A sentence encoder in this process, behind the edge. What is asked for is embedded as it is: a client that wants a
/// model's prompt puts it there, as with OpenAI.
pub struct ServedEmbedder {
    embedder: LocalEmbedder,
    aliases: Vec<String>,
    loaded_s: u64,
}

impl ServedEmbedder {
    /// Serves `embedder` under its own name and `aliases`.
    pub fn new(embedder: LocalEmbedder, aliases: Vec<String>, clock: &Clock) -> Self {
        Self { embedder, aliases, loaded_s: clock.epoch_ms() / 1000 }
    }
}

impl TextModel for ServedEmbedder {
    fn card(&self) -> ModelCard {
        ModelCard {
            id: self.embedder.name().to_owned(),
            aliases: self.aliases.clone(),
            context_tokens: u32::try_from(self.embedder.tokens_max()).unwrap_or(u32::MAX),
            // Ids are not taken, so none is too large.
            vocabulary: u32::MAX,
            created_s: self.loaded_s,
            owned_by: "legwork".to_owned(),
            speaks: false,
            embedding_dimensions: Some(self.embedder.dimension()),
        }
    }

    fn chat(&self, _ask: ChatAsk) -> BoxFuture<'_, Result<Speaking, Refused>> {
        Box::pin(async { Err(Refused::unsupported("this model embeds and does not speak: ask /v1/embeddings")) })
    }

    fn complete(&self, _ask: TextAsk) -> BoxFuture<'_, Result<Speaking, Refused>> {
        Box::pin(async { Err(Refused::unsupported("this model embeds and does not speak: ask /v1/embeddings")) })
    }

    fn embed(&self, prompts: Vec<Prompt>) -> BoxFuture<'_, Result<Embedded, Refused>> {
        Box::pin(async move {
            let text = |prompt| match prompt {
                Prompt::Text(text) => Ok(text),
                Prompt::Ids(_) => Err(Refused::unsupported("token ids are not embedded here: send the text")),
            };
            let texts = prompts.into_iter().map(text).collect::<Result<_, _>>()?;
            let done =
                self.embedder.embed_counted(texts, EmbedKind::Bare).await.map_err(|failure| match failure.kind {
                    FailureKind::RateLimited => {
                        Refused::Busy { retry_after_s: RETRY_AFTER_S, detail: failure.detail.clone() }
                    }
                    _ => Refused::failed(failure.detail),
                })?;
            Ok(Embedded { vectors: done.vectors, prompt_tokens: done.tokens.iter().map(|count| *count as u64).sum() })
        })
    }
}

fn asked(param: &str, error: &ModelError) -> Refused {
    Refused::Asked { param: Some(param.to_owned()), detail: error.to_string() }
}

/// `limits`: tokens of the prompt, new tokens asked for, the context.
fn refused(refusal: &Refusal, [prompt_tokens, max_tokens, context_tokens]: [u64; 3]) -> Refused {
    match refusal {
        Refusal::QueueFull { .. } => Refused::Busy { retry_after_s: RETRY_AFTER_S, detail: refusal.to_string() },
        Refusal::TooLong { .. } => Refused::TooLong { prompt_tokens, max_tokens, context_tokens },
        Refusal::DeadlinePassed { .. } => Refused::Late { detail: refusal.to_string() },
        other => Refused::Asked { param: None, detail: other.to_string() },
    }
}

fn end(reason: Reason, used: Used, keep_stop: bool) -> Vec<Result<Said, Refused>> {
    let count = |tokens: usize| u32::try_from(tokens).unwrap_or(u32::MAX);
    let usage = Usage {
        prompt_tokens: count(used.prompt),
        cached_tokens: count(used.cached),
        completion_tokens: count(used.completion),
    };
    let mut said = Vec::new();
    let finish = match reason {
        Reason::Stop(id) => Finish::Stop { matched: Some(Matched::Token(id)) },
        Reason::StopString(text) => {
            if keep_stop {
                said.push(Ok(Said::Piece { text: text.clone(), tokens: Vec::new() }));
            }
            Finish::Stop { matched: Some(Matched::Text(text)) }
        }
        Reason::Length => Finish::Length,
        Reason::Cancelled => Finish::Aborted { detail: "the engine was told to stop this answer".to_owned() },
        Reason::Deadline => return vec![Err(Refused::Late { detail: "not complete in time".to_owned() })],
        Reason::Failed(why) => return vec![Err(Refused::failed(&why))],
    };
    said.push(Ok(Said::End { finish, usage }));
    said
}

fn spoken(tokenizer: &Tokenizer, drawn: Drawn, bytes: bool) -> Spoken {
    let text =
        |id: u32| if bytes { tokenizer.decode(&[id], false).unwrap_or_default().into_bytes() } else { Vec::new() };
    Spoken {
        id: drawn.id,
        bytes: text(drawn.id),
        logprob: drawn.logprob,
        top: drawn.top.iter().map(|(id, logprob)| Candidate { id: *id, bytes: text(*id), logprob: *logprob }).collect(),
    }
}
