//! Requests as they come off a socket, bounded, and what they ask of a model. It believes no header that claims a
//! length, and refuses to know replies.

use legwork_protocol::generation::{GenerateRequest, Route, Sampling, Session};
use legwork_protocol::id::{EpisodeKey, QuestionId, Scope};
use legwork_protocol::message::{Message, Role, ToolCall};
use serde_json::Value;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

/// Bytes of a request's head at most.
pub const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Bytes of a request's body at most.
pub const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// How long a request may take to arrive, in milliseconds; idle connections end by it too.
const ARRIVAL_MAX_MS: u64 = 60_000;
/// New tokens where a request names no limit.
const MAX_TOKENS_DEFAULT: u32 = 4096;
/// How long the endpoint behind may take, in milliseconds.
const SERVED_MAX_MS: u64 = 600_000;

/// One request off the wire.
pub(super) struct Arrived {
    pub(super) method: String,
    pub(super) path: String,
    /// All of the head, keys included: it is kept to be searched and never printed.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    /// The client wants the connection closed behind the reply.
    pub(super) last: bool,
}

/// A request that is answered by a status at once: its reason.
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) why: String,
}

/// What a chat request asks.
#[derive(Debug)]
pub(super) struct ChatRequest {
    pub(super) ask: GenerateRequest,
    pub(super) model: String,
    pub(super) stream: bool,
}

/// Reads the next request; none if the client has left. `held` keeps what came beyond it.
pub(super) async fn next(socket: &mut TcpStream, held: &mut Vec<u8>) -> Result<Option<Arrived>, Refused> {
    match timeout(Duration::from_millis(ARRIVAL_MAX_MS), arrive(socket, held)).await {
        Ok(arrived) => arrived,
        Err(_) => Ok(None),
    }
}

async fn arrive(socket: &mut TcpStream, held: &mut Vec<u8>) -> Result<Option<Arrived>, Refused> {
    let end = loop {
        if let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if held.len() > HEAD_MAX_BYTES {
            return Err(refused(431, format!("a head of at most {HEAD_MAX_BYTES} bytes was expected")));
        }
        if !matches!(socket.read_buf(held).await, Ok(read) if read > 0) {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&held[..end]).into_owned();
    if field(&head, "transfer-encoding").is_some() {
        return Err(refused(411, "a content-length was expected, a body in chunks came".to_owned()));
    }
    let length = field(&head, "content-length").unwrap_or("0").parse::<usize>();
    let Some(length) = length.ok().filter(|length| *length <= BODY_MAX_BYTES) else {
        return Err(refused(413, format!("a content-length of at most {BODY_MAX_BYTES} was expected")));
    };
    while held.len() < end + length {
        if !matches!(socket.read_buf(held).await, Ok(read) if read > 0) {
            return Ok(None);
        }
    }
    let body = held[end..end + length].to_vec();
    held.drain(..end + length);
    let mut words = head.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let last = field(&head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(Some(Arrived { method, path, head, body, last }))
}

fn refused(status: u16, why: String) -> Refused {
    Refused { status, why }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let named = |line: &'a str| line.split_once(':').filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    head.lines().skip(1).find_map(named).map(|(_, value)| value.trim())
}

/// Reads the body of a chat request. A mock that asks for its turn gets the number of assistant messages before; a
/// model called `coordinator`, `judge` or `gate` is asked in that part, any other in the worker's.
pub(super) fn read_chat(body: &[u8]) -> Result<ChatRequest, String> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body cannot be read as JSON: {error}"))?;
    let wire = value.get("messages").and_then(Value::as_array).filter(|list| !list.is_empty());
    let wire = wire.ok_or("`messages` must be a list of at least one message")?;
    let messages = wire.iter().map(|message| read_message(message).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    let model = value.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let route = match model.as_str() {
        "coordinator" => Route::Coordinator,
        "judge" => Route::Judge,
        "gate" => Route::Gate,
        _ => Route::Worker,
    };
    let scope = if route == Route::Coordinator { Scope::Coordinator } else { Scope::Worker(0) };
    let turns = messages.iter().filter(|message| message.role == Role::Assistant).count();
    let turn = u32::try_from(turns).unwrap_or(u32::MAX);
    let episode = EpisodeKey { round: 0, question: QuestionId::new("over http") };
    let ask = GenerateRequest {
        route,
        session: Some(Session { episode, scope, turn }),
        messages,
        tools: value.get("tools").filter(|tools| !tools.is_null()).cloned().map(Arc::new),
        sampling: read_sampling(&value),
        timeout_ms: SERVED_MAX_MS,
    };
    let stream = value.get("stream").and_then(Value::as_bool).unwrap_or(false);
    Ok(ChatRequest { ask, model, stream })
}

fn read_sampling(value: &Value) -> Sampling {
    let whole = |name: &str| value.get(name).and_then(Value::as_u64);
    let number = |name: &str| value.get(name).and_then(Value::as_f64);
    let most = whole("max_tokens").or_else(|| whole("max_completion_tokens"));
    let stop = match value.get("stop") {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    Sampling {
        max_tokens: most.and_then(|most| u32::try_from(most).ok()).unwrap_or(MAX_TOKENS_DEFAULT),
        temperature: number("temperature").unwrap_or(1.0) as f32,
        top_p: number("top_p").unwrap_or(1.0) as f32,
        top_k: whole("top_k").and_then(|top_k| u32::try_from(top_k).ok()),
        seed: whole("seed"),
        stop,
    }
}

fn read_message(wire: &Value) -> Result<Message, String> {
    let role = match wire.get("role").and_then(Value::as_str).unwrap_or_default() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => return Err(format!("a role was expected: system, user, assistant or tool; got `{other}`")),
    };
    let content = match wire.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        Some(_) => return Err("`content` must be a text or a list of parts".to_owned()),
    };
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let calls = wire.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let tool_calls = calls
        .iter()
        .map(|call| {
            let function = call.get("function").unwrap_or(&Value::Null);
            ToolCall { id: text(call, "id"), name: text(function, "name"), arguments: text(function, "arguments") }
        })
        .collect();
    let optional = |name: &str| wire.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(Message {
        reasoning: optional("reasoning_content"),
        tool_calls,
        tool_call_id: optional("tool_call_id"),
        ..Message::new(role, content)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_request_becomes_what_the_endpoint_behind_is_asked() {
        let body = r#"{"model": "coordinator", "stream": true, "max_tokens": 9, "temperature": 0, "stop": "X", "seed": 5,
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "t"}]}"#;
        let read = read_chat(body.as_bytes()).unwrap();
        assert!(read.stream && read.ask.route == Route::Coordinator);
        assert_eq!(read.ask.session.unwrap().turn, 1);
        assert_eq!((read.ask.sampling.max_tokens, read.ask.sampling.seed), (9, Some(5)));
        let texts: Vec<&str> = read.ask.messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(texts, ["s", "u", "", "t"]);
        assert_eq!(read.ask.messages[2].tool_calls[0].name, "f");
        assert_eq!(read.ask.messages[3].tool_call_id.as_deref(), Some("c"));
    }

    #[test]
    fn what_is_no_chat_request_says_what_was_expected() {
        for (body, word) in [
            ("{", "JSON"),
            (r#"{"messages": []}"#, "at least one"),
            (r#"{"messages": [{"role": "elf"}]}"#, "got `elf`"),
            (r#"{"messages": [{"role": "user", "content": 7}]}"#, "list of parts"),
        ] {
            let told = read_chat(body.as_bytes()).unwrap_err();
            assert!(told.contains(word), "{told}");
        }
    }
}
