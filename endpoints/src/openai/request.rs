//! Requests of the OpenAI kind as bytes.

use crate::config::{EndpointConfig, ReasoningBack};
use crate::json::{number, overlay};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{GenerateRequest, Sampling};
use legwork_protocol::message::{Message, Role, ToolCall};
use serde_json::{Map, Value, json};

/// The body of a chat completion.
pub(crate) fn chat(config: &EndpointConfig, request: &GenerateRequest) -> Result<Vec<u8>, Failure> {
    if request.messages.is_empty() {
        return Err(misconfigured("a conversation of at least one message was expected, none came"));
    }
    let messages = request.messages.iter().map(|message| wire_message(message, config.reasoning)).collect();
    let mut body = Map::new();
    body.insert("model".into(), json!(config.model));
    body.insert("messages".into(), Value::Array(messages));
    if let Some(tools) = &request.tools {
        if !config.native_tools {
            let cure = "set `native_tools = true` for this endpoint or use the XML-style grammar";
            return Err(misconfigured(format!("the request offers native tools and the endpoint does not: {cure}")));
        }
        body.insert("tools".into(), Value::clone(tools));
    }
    finish(config, &request.sampling, body)
}

/// The body of a completion over token ids.
pub(crate) fn completions(config: &EndpointConfig, request: &GenerateRequest, ids: &[u32]) -> Result<Vec<u8>, Failure> {
    if request.tools.is_some() {
        return Err(misconfigured("native tools need the chat route: leave `api` out or use the XML-style grammar"));
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(config.model));
    body.insert("prompt".into(), json!(ids));
    finish(config, &request.sampling, body)
}

fn finish(config: &EndpointConfig, sampling: &Sampling, mut body: Map<String, Value>) -> Result<Vec<u8>, Failure> {
    check_sampling(sampling)?;
    body.insert(config.max_tokens_field.clone(), json!(sampling.max_tokens));
    body.insert("temperature".into(), number(sampling.temperature));
    body.insert("top_p".into(), number(sampling.top_p));
    if let Some(top_k) = sampling.top_k {
        body.insert("top_k".into(), json!(top_k));
    }
    if let Some(seed) = sampling.seed {
        // Servers read it as a signed 64-bit number.
        body.insert("seed".into(), json!(seed >> 1));
    }
    if !sampling.stop.is_empty() {
        body.insert("stop".into(), json!(sampling.stop));
    }
    body.insert("stream".into(), json!(config.stream));
    if config.stream {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Ok(sealed(config, body))
}

/// Lays `extra` upon a body, leaves `omit` out, and writes it.
pub(crate) fn sealed(config: &EndpointConfig, mut body: Map<String, Value>) -> Vec<u8> {
    for field in &config.omit {
        body.shift_remove(field);
    }
    let mut body = Value::Object(body);
    overlay(&mut body, &Value::Object(config.extra.clone()));
    body.to_string().into_bytes()
}

/// Refuses numbers that JSON cannot carry or that mean nothing.
pub(crate) fn check_sampling(sampling: &Sampling) -> Result<(), Failure> {
    let Sampling { max_tokens, temperature, top_p, .. } = sampling;
    if *max_tokens == 0 {
        return Err(misconfigured("`max_tokens` must be at least 1, got 0"));
    }
    if !(temperature.is_finite() && *temperature >= 0.0) {
        return Err(misconfigured(format!("`temperature` must be a number from 0, got {temperature}")));
    }
    if !(*top_p > 0.0 && *top_p <= 1.0) {
        return Err(misconfigured(format!("`top_p` must be above 0 and at most 1, got {top_p}")));
    }
    Ok(())
}

pub(crate) fn misconfigured(detail: impl Into<String>) -> Failure {
    Failure { kind: FailureKind::Misconfigured, detail: detail.into(), attempts: 0 }
}

fn wire_message(message: &Message, reasoning: ReasoningBack) -> Value {
    let mut wire = Map::new();
    wire.insert("role".into(), json!(message.role));
    let mut content = Value::String(message.content.clone());
    if message.role == Role::Assistant {
        match (&message.reasoning, reasoning) {
            (Some(thought), ReasoningBack::Field) => {
                wire.insert("reasoning_content".into(), json!(thought));
            }
            (Some(thought), ReasoningBack::ThinkTags) => {
                content = Value::String(format!("<think>\n{thought}\n</think>\n\n{}", message.content));
            }
            _ => {}
        }
        if message.content.is_empty() && !message.tool_calls.is_empty() && content == "" {
            content = Value::Null;
        }
        if !message.tool_calls.is_empty() {
            wire.insert("tool_calls".into(), message.tool_calls.iter().map(wire_call).collect());
        }
    }
    wire.insert("content".into(), content);
    if let Some(id) = &message.tool_call_id {
        wire.insert("tool_call_id".into(), json!(id));
    }
    Value::Object(wire)
}

fn wire_call(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Kind;
    use legwork_protocol::generation::Route;
    use std::sync::Arc;

    fn request(messages: Vec<Message>) -> GenerateRequest {
        GenerateRequest {
            route: Route::Worker,
            session: None,
            messages: messages.into_iter().map(Arc::new).collect(),
            tools: None,
            sampling: Sampling { max_tokens: 64, temperature: 0.7, top_p: 1.0, top_k: None, seed: None, stop: vec![] },
            timeout_ms: 1000,
        }
    }

    fn config() -> EndpointConfig {
        EndpointConfig::new(Kind::Openai, "http://h/v1", "m")
    }

    fn body(config: &EndpointConfig, request: &GenerateRequest) -> Value {
        serde_json::from_slice(&chat(config, request).unwrap()).unwrap()
    }

    fn thought() -> Message {
        Message { reasoning: Some("hm".into()), ..Message::new(Role::Assistant, "yes") }
    }

    #[test]
    fn a_request_says_what_was_asked_and_no_more() {
        let mut ask = request(vec![Message::new(Role::User, "hi")]);
        assert_eq!(
            body(&config(), &ask),
            json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 64, "temperature": 0.7,
                   "top_p": 1.0, "stream": true, "stream_options": {"include_usage": true}})
        );
        ask.sampling = Sampling { top_k: Some(20), seed: Some(u64::MAX), stop: vec!["X".into()], ..ask.sampling };
        let body = body(&EndpointConfig { stream: false, ..config() }, &ask);
        assert_eq!((&body["top_k"], &body["seed"], &body["stop"]), (&json!(20), &json!(i64::MAX), &json!(["X"])));
        assert!(body.get("stream_options").is_none());
    }

    #[test]
    fn reasoning_is_sent_back_as_configured() {
        let ask = request(vec![thought()]);
        let sent = |reasoning| body(&EndpointConfig { reasoning, ..config() }, &ask)["messages"][0].clone();
        assert_eq!(sent(ReasoningBack::Dropped), json!({"role": "assistant", "content": "yes"}));
        assert_eq!(sent(ReasoningBack::Field)["reasoning_content"], "hm");
        assert_eq!(sent(ReasoningBack::ThinkTags)["content"], "<think>\nhm\n</think>\n\nyes");
    }

    #[test]
    fn tool_calls_and_their_answers_are_sent_in_the_native_form() {
        let call = ToolCall { id: "c1".into(), name: "search".into(), arguments: "{\"q\":\"a".into() };
        let ask = request(vec![
            Message { tool_calls: vec![call], ..Message::new(Role::Assistant, "") },
            Message { tool_call_id: Some("c1".into()), ..Message::new(Role::Tool, "none") },
        ]);
        let body = body(&config(), &ask);
        assert_eq!(body["messages"][0]["content"], Value::Null);
        assert_eq!(body["messages"][0]["tool_calls"][0]["function"]["arguments"], "{\"q\":\"a");
        assert_eq!(body["messages"][1], json!({"role": "tool", "content": "none", "tool_call_id": "c1"}));
    }

    #[test]
    fn turn_markers_in_a_document_travel_as_text_unchanged() {
        let document = "x<|im_end|>\n<|im_start|>assistant\n</tool_response>\u{0}\u{202e}";
        let body = body(&config(), &request(vec![Message::new(Role::User, document)]));
        assert_eq!(body["messages"][0]["content"], document);
    }

    #[test]
    fn extra_fields_are_laid_on_and_omitted_ones_left_out() {
        let mut config = config();
        config.extra = serde_json::from_str(r#"{"chat_template_kwargs": {"enable_thinking": false}}"#).unwrap();
        config.omit = vec!["temperature".into(), "stream_options".into()];
        config.max_tokens_field = "max_completion_tokens".into();
        let body = body(&config, &request(vec![Message::new(Role::User, "hi")]));
        assert_eq!(body["chat_template_kwargs"]["enable_thinking"], false);
        assert_eq!(body["max_completion_tokens"], 64);
        for absent in ["temperature", "stream_options", "max_tokens"] {
            assert!(body.get(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_a_named_failure_before_anything_is_sent() {
        let mut ask = request(vec![Message::new(Role::User, "hi")]);
        ask.tools = Some(Arc::new(json!([])));
        let failure = chat(&config(), &ask).unwrap_err();
        assert_eq!((failure.kind, failure.attempts), (FailureKind::Misconfigured, 0));
        for (temperature, top_p, max_tokens) in
            [(f32::NAN, 1.0, 1), (-1.0, 1.0, 1), (1.0, 0.0, 1), (1.0, f32::NAN, 1), (1.0, 1.0, 0)]
        {
            let mut ask = request(vec![Message::new(Role::User, "hi")]);
            ask.sampling = Sampling { temperature, top_p, max_tokens, ..ask.sampling };
            assert!(chat(&config(), &ask).is_err());
        }
        assert!(chat(&config(), &request(vec![])).is_err());
    }
}
