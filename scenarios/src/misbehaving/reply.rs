//! Replies as bytes: whole ones and streams of events, as OpenAI-compatible servers write them. It writes what it is
//! told and knows no misbehaviour.

use legwork_protocol::generation::{Completion, FinishReason};
use serde_json::{Value, json};

/// Characters of a text that one event carries.
const CHUNK_CHARS: usize = 24;
/// The date that the server says it is: all of its dates are told from it, so that it needs no clock.
pub(super) const NOW_EPOCH_S: u64 = 1_780_000_000;

/// A whole reply. `headers` are lines without line ends.
pub(super) fn whole(status: u16, headers: &[String], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status} {}\r\ncontent-length: {}\r\n", reason(status), body.len()).into_bytes();
    for header in headers {
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// A whole reply in JSON.
pub(super) fn json_reply(status: u16, body: &Value) -> Vec<u8> {
    whole(status, &["content-type: application/json".to_owned()], body.to_string().as_bytes())
}

/// An error as most servers tell it.
pub(super) fn error(status: u16, message: &str) -> Vec<u8> {
    json_reply(status, &json!({"error": {"message": message, "type": "server", "code": status}}))
}

/// The head of a stream in chunks that says to be of this type.
pub(super) fn stream_head(content_type: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes()
}

/// One piece of a body in chunks; never empty, which would end it.
pub(super) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut piece = format!("{:x}\r\n", bytes.len()).into_bytes();
    piece.extend_from_slice(bytes);
    piece.extend_from_slice(b"\r\n");
    piece
}

/// What ends a body in chunks.
pub(super) const END: &[u8] = b"0\r\n\r\n";

/// A completion as one JSON value.
pub(super) fn completion(id: &str, said: &Completion) -> Value {
    let mut message = json!({"role": "assistant", "content": said.text});
    if let Some(thought) = &said.reasoning {
        message["reasoning_content"] = json!(thought);
    }
    if !said.tool_calls.is_empty() {
        message["tool_calls"] = calls(said);
    }
    json!({
        "id": id,
        "object": "chat.completion",
        "created": NOW_EPOCH_S,
        "choices": [{"index": 0, "message": message, "finish_reason": finish(said.finish)}],
        "usage": usage(said),
    })
}

/// A stream's events, each whole with its blank line: those of the text first, then the end of three.
pub(super) struct Events {
    /// Pieces of reasoning, text and calls.
    pub(super) pieces: Vec<Vec<u8>>,
    /// The finish reason, the usage, `[DONE]`.
    pub(super) end: Vec<Vec<u8>>,
}

/// A completion as events.
pub(super) fn events(id: &str, said: &Completion) -> Events {
    let chunk = |delta: Value, reason: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        event(&json!({"id": id, "object": "chat.completion.chunk", "created": NOW_EPOCH_S, "choices": choices}))
    };
    let mut pieces = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    let thought = said.reasoning.as_deref().unwrap_or_default();
    for (field, text) in [("reasoning_content", thought), ("content", said.text.as_str())] {
        let letters: Vec<char> = text.chars().collect();
        for part in letters.chunks(CHUNK_CHARS) {
            pieces.push(chunk(json!({(field): part.iter().collect::<String>()}), Value::Null));
        }
    }
    if !said.tool_calls.is_empty() {
        pieces.push(chunk(json!({"tool_calls": calls(said)}), Value::Null));
    }
    let usage = event(&json!({"id": id, "choices": [], "usage": usage(said)}));
    let end = vec![chunk(json!({}), json!(finish(said.finish))), usage, b"data: [DONE]\n\n".to_vec()];
    Events { pieces, end }
}

/// One event with this value.
pub(super) fn event(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

fn calls(said: &Completion) -> Value {
    let call = |(index, call): (usize, &legwork_protocol::message::ToolCall)| {
        let function = json!({"name": call.name, "arguments": call.arguments});
        json!({"index": index, "id": call.id, "type": "function", "function": function})
    };
    said.tool_calls.iter().enumerate().map(call).collect()
}

fn usage(said: &Completion) -> Value {
    let usage = said.usage;
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": u64::from(usage.prompt_tokens) + u64::from(usage.completion_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

fn finish(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop | FinishReason::Other => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        404 => "Not Found",
        411 => "Length Required",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
