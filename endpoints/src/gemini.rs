//! The endpoint for Gemini's `generateContent`, whole and streamed.
//!
//! Facts of the wire form: the API reference of `models.generateContent` (v1beta).

use crate::Endpoint;
use crate::call::{Caller, Reader};
use crate::config::{Checked, EndpointConfig, ReasoningBack};
use crate::draft::Draft;
use crate::error::EndpointError;
use crate::fault::{Fault, is_error_body, one_line};
use crate::http::{Ask, Scheme, join};
use crate::json::{self, count, number};
use crate::openai::BYTES_PER_TOKEN_ESTIMATE;
use crate::openai::request::{check_sampling, misconfigured, sealed};
use crate::shared::{Shared, Tally};
use futures::future::BoxFuture;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{Completion, FinishReason, GenerateRequest, Usage};
use legwork_protocol::message::{Message, Role};
use reqwest::Url;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(crate) struct Gemini {
    caller: Caller,
    config: EndpointConfig,
    url: Url,
}

impl Gemini {
    pub(crate) fn new(
        name: &str,
        config: &EndpointConfig,
        checked: Checked,
        shared: &Shared,
    ) -> Result<Self, EndpointError> {
        let model = config.model.strip_prefix("models/").unwrap_or(&config.model);
        if !model.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
            return Err(EndpointError::Field {
                name: name.to_owned(),
                field: "model",
                expected: "a model's name of letters, digits, `-`, `.` and `_`".to_owned(),
                got: one_line(model),
            });
        }
        let method = if config.stream { "streamGenerateContent" } else { "generateContent" };
        let mut url = join(&checked.url, &format!("/models/{model}:{method}"));
        if config.stream {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        let caller = Caller::new(name, config, &checked, Scheme::Goog, shared)?;
        Ok(Self { caller, config: config.clone(), url })
    }

    async fn generate(&self, request: GenerateRequest) -> Result<Completion, Failure> {
        let body = body(&self.config, &request)?;
        let estimate = body.len() as u64 / BYTES_PER_TOKEN_ESTIMATE + u64::from(request.sampling.max_tokens);
        let prepare = || (Ask { url: self.url.clone(), body: body.clone() }, GeminiReader::default());
        let served = self.caller.call(request.timeout_ms, estimate, prepare).await?;
        Ok(Completion {
            queued_ms: served.queued_ms,
            served_ms: served.served_ms,
            attempts: served.attempts,
            ..served.out
        })
    }
}

impl Endpoint for Gemini {
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

fn body(config: &EndpointConfig, request: &GenerateRequest) -> Result<Vec<u8>, Failure> {
    let sampling = &request.sampling;
    check_sampling(sampling)?;
    if request.tools.is_some() {
        return Err(misconfigured("the request offers native tools: kind `gemini` takes the XML-style grammar only"));
    }
    let contents = contents(&request.messages, config.reasoning);
    if contents.is_empty() {
        return Err(misconfigured("a conversation with at least one user message was expected, none came"));
    }
    let mut generation = Map::new();
    generation.insert("maxOutputTokens".into(), json!(sampling.max_tokens));
    generation.insert("temperature".into(), number(sampling.temperature));
    generation.insert("topP".into(), number(sampling.top_p));
    if let Some(top_k) = sampling.top_k {
        generation.insert("topK".into(), json!(top_k));
    }
    if let Some(seed) = sampling.seed {
        // A signed 32-bit number on this wire.
        generation.insert("seed".into(), json!(seed & 0x7fff_ffff));
    }
    if !sampling.stop.is_empty() {
        generation.insert("stopSequences".into(), json!(sampling.stop));
    }
    for field in &config.omit {
        generation.shift_remove(field);
    }
    let mut body = Map::new();
    let system: Vec<Value> =
        request.messages.iter().filter(|m| m.role == Role::System).map(|m| part(&m.content)).collect();
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({"parts": system}));
    }
    body.insert("contents".into(), Value::Array(contents));
    body.insert("generationConfig".into(), Value::Object(generation));
    Ok(sealed(config, body))
}

/// The turns but the standing orders; what one side says in a row is one content of several parts.
fn contents(messages: &[Arc<Message>], reasoning: ReasoningBack) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::System => continue,
            Role::User | Role::Tool => "user",
            Role::Assistant => "model",
        };
        let text = match (&message.reasoning, reasoning) {
            // This wire has no field for reasoning that is sent back: tags are the nearest.
            (Some(thought), ReasoningBack::Field | ReasoningBack::ThinkTags) => {
                part(&format!("<think>\n{thought}\n</think>\n\n{}", message.content))
            }
            _ => part(&message.content),
        };
        match turns.last_mut() {
            Some((last, parts)) if *last == role => parts.push(text),
            _ => turns.push((role, vec![text])),
        }
    }
    turns.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
}

fn part(text: &str) -> Value {
    json!({"text": text})
}

#[derive(Default)]
pub(crate) struct GeminiReader {
    draft: Draft,
}

impl GeminiReader {
    fn take(&mut self, value: &Value) -> Result<(), Fault> {
        if is_error_body(value) {
            return Err(Fault::from_error_body(value));
        }
        if let Some(usage) = value.get("usageMetadata") {
            self.draft.usage = Usage {
                prompt_tokens: count(usage.get("promptTokenCount")),
                cached_tokens: count(usage.get("cachedContentTokenCount")),
                completion_tokens: count(usage.get("candidatesTokenCount"))
                    .saturating_add(count(usage.get("thoughtsTokenCount"))),
            };
        }
        if let Some(reason) = value.get("promptFeedback").and_then(|feedback| feedback.get("blockReason")) {
            let reason = one_line(reason.as_str().unwrap_or("without a reason"));
            let detail = format!("the prompt was blocked ({reason}): change it, or `safetySettings` in `extra`");
            return Err(Fault::new(FailureKind::Refused, false, detail));
        }
        let candidate = value.get("candidates").and_then(|candidates| candidates.get(0)).unwrap_or(&Value::Null);
        let parts = candidate.get("content").and_then(|content| content.get("parts")).and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            self.take_part(part)?;
        }
        if let Some(reason) = candidate.get("finishReason").and_then(Value::as_str) {
            self.draft.finish = Some(finish_reason(reason));
        }
        Ok(())
    }

    fn take_part(&mut self, part: &Value) -> Result<(), Fault> {
        let thought = part.get("thought").and_then(Value::as_bool).unwrap_or(false);
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            let target = if thought { &mut self.draft.reasoning } else { &mut self.draft.text };
            target.push_str(text);
        }
        if let Some(wire) = part.get("functionCall") {
            let index = self.draft.next_call();
            let call = self.draft.call(index)?;
            call.id = wire.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            call.name = wire.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            call.arguments = wire.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
        }
        Ok(())
    }
}

impl Reader for GeminiReader {
    type Out = Completion;

    fn event(&mut self, data: &str) -> Result<(), Fault> {
        let value = json::parse(data.as_bytes())
            .map_err(|error| Fault::cut(format!("a JSON event was expected ({error}): {}", one_line(data))))?;
        self.take(&value)
    }

    fn complete(&self) -> bool {
        self.draft.finish.is_some()
    }

    fn finish(self) -> Result<Completion, Fault> {
        self.draft.finish()
    }

    fn whole(mut self, body: &[u8]) -> Result<Completion, Fault> {
        let told = || one_line(&String::from_utf8_lossy(body));
        let value = json::parse(body)
            .map_err(|error| Fault::cut(format!("a JSON answer was expected ({error}): {}", told())))?;
        self.take(&value)?;
        if value.get("candidates").and_then(|candidates| candidates.get(0)).is_none() {
            return Err(Fault::bad(format!("one candidate was expected, none came: {}", told())));
        }
        self.draft.finish()
    }

    fn tokens(out: &Completion) -> Option<u64> {
        let all = u64::from(out.usage.prompt_tokens) + u64::from(out.usage.completion_tokens);
        (all > 0).then_some(all)
    }
}

fn finish_reason(reason: &str) -> FinishReason {
    match reason {
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            FinishReason::ContentFilter
        }
        _ => FinishReason::Other,
    }
}

#[cfg(test)]
mod tests;
