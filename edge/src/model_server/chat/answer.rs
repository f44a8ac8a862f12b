//! Writes answers of the chat route, whole or in chunks: what is said, thought and called, with log-probabilities and usage
//! where asked for.

use super::super::calls::{Call, Calls, Heard};
use super::super::model::{Candidate, Finish, Said, Spoken};
use super::super::pump::{Form, Prompted};
use super::super::stamp::{Stamp, Total, logprob, reason, stop_reason, token_text};
use super::super::thoughts::{Part, Thoughts};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What was asked of the answer's form.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Style {
    pub(super) streams: bool,
    pub(super) include_usage: bool,
    pub(super) logprobs: bool,
    pub(super) token_ids: bool,
    /// Whether calls are looked for.
    pub(super) tools: bool,
    /// Whether one call is told at most, as vLLM does it for `parallel_tool_calls: false`.
    pub(super) one_call: bool,
    /// Whether thoughts are told apart.
    pub(super) is_split: bool,
    /// Stop ids that the request gave.
    pub(super) stop_ids: Vec<u32>,
}

/// The answer of one request.
pub(in super::super) struct ChatForm {
    stamp: Stamp,
    style: Style,
    choices: Vec<Choice>,
    /// What is still to be told of the prompt; vLLM tells it in the first chunk.
    prompt_ids: Option<Arc<[u32]>>,
    total: Total,
}

#[derive(Default)]
struct Choice {
    index: usize,
    thoughts: Option<Thoughts>,
    calls: Option<Calls>,
    /// What is told and, in a stream, not yet sent.
    said: String,
    thought: String,
    called: Vec<Value>,
    calls_told: usize,
    logprobs: Vec<Value>,
    ids: Vec<u32>,
    end: Option<(&'static str, Value)>,
}

impl ChatForm {
    pub(in super::super) fn new(stamp: Stamp, style: Style, choices: usize) -> Self {
        let choices = (0..choices).map(|index| Choice { index, ..Choice::default() }).collect();
        Self { stamp, style, choices, prompt_ids: None, total: Total::default() }
    }

    fn chunk(&self, choices: Value) -> Map<String, Value> {
        let mut chunk = Map::new();
        chunk.insert("id".into(), json!(self.stamp.id));
        chunk.insert("object".into(), json!("chat.completion.chunk"));
        chunk.insert("created".into(), json!(self.stamp.created_s));
        chunk.insert("model".into(), json!(self.stamp.model));
        chunk.insert("choices".into(), choices);
        if self.style.include_usage {
            chunk.insert("usage".into(), Value::Null);
        }
        chunk
    }

    /// A chunk of one choice; log-probabilities and ids that wait go with it.
    fn delta(&mut self, index: usize, delta: Value, events: &mut Vec<String>) {
        let choice = &mut self.choices[index];
        let logprobs = match self.style.logprobs && !choice.logprobs.is_empty() {
            true => json!({"content": std::mem::take(&mut choice.logprobs), "refusal": null}),
            false => Value::Null,
        };
        let mut wire = json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": null});
        if self.style.token_ids {
            wire["token_ids"] = json!(std::mem::take(&mut choice.ids));
        }
        if let Some((reason, stop)) = &choice.end {
            wire["finish_reason"] = json!(reason);
            wire["stop_reason"] = stop.clone();
        }
        let mut chunk = self.chunk(json!([wire]));
        if let Some(ids) = self.prompt_ids.take() {
            chunk.insert("prompt_token_ids".into(), json!(&*ids));
        }
        events.push(Value::Object(chunk).to_string());
    }

    /// Sends what is told and not yet sent.
    fn flush(&mut self, index: usize, events: &mut Vec<String>) {
        let choice = &mut self.choices[index];
        let (thought, said) = (std::mem::take(&mut choice.thought), std::mem::take(&mut choice.said));
        let called = std::mem::take(&mut choice.called);
        if !thought.is_empty() {
            self.delta(index, json!({"reasoning_content": thought}), events);
        }
        if !said.is_empty() {
            self.delta(index, json!({"content": said}), events);
        }
        for call in called {
            self.delta(index, json!({"tool_calls": [call]}), events);
        }
    }

    fn end(&mut self, index: usize, finish: &Finish) {
        let style = &self.style;
        let choice = &mut self.choices[index];
        choice.finish_text(&self.stamp, style);
        let calls = choice.calls_told > 0 && matches!(finish, Finish::Stop { .. });
        let reason = if calls { "tool_calls" } else { reason(finish) };
        choice.end = Some((reason, stop_reason(finish, &style.stop_ids)));
    }
}

impl Form for ChatForm {
    fn open(&mut self, prompts: &[Prompted], events: &mut Vec<String>) {
        let keep = !self.style.is_split;
        for (choice, prompt) in self.choices.iter_mut().zip(prompts) {
            // Kept thoughts are text like any other, unless calls are looked for: a thought calls nothing.
            choice.thoughts = (self.style.is_split || self.style.tools).then(|| Thoughts::new(prompt.in_thought, keep));
            choice.calls = self.style.tools.then(Calls::default);
        }
        self.prompt_ids = prompts.first().filter(|_| self.style.token_ids).map(|prompt| Arc::clone(&prompt.ids));
        if self.style.streams {
            for index in 0..self.choices.len() {
                self.delta(index, json!({"role": "assistant", "content": ""}), events);
            }
        }
    }

    fn take(&mut self, index: usize, said: Said, events: &mut Vec<String>) {
        match said {
            Said::Scored(_) => {}
            Said::Piece { text, tokens } => {
                let choice = &mut self.choices[index];
                if self.style.logprobs {
                    choice.logprobs.extend(tokens.iter().map(token));
                }
                if self.style.token_ids {
                    choice.ids.extend(tokens.iter().map(|token| token.id));
                }
                choice.hear(&text, &self.stamp, &self.style);
                if self.style.streams {
                    self.flush(index, events);
                }
            }
            Said::End { finish, usage } => {
                self.total.add(&usage, index == 0);
                self.end(index, &finish);
                if self.style.streams {
                    let end = self.choices[index].end.take();
                    self.flush(index, events);
                    self.choices[index].end = end;
                    self.delta(index, json!({}), events);
                }
            }
        }
    }

    fn close(&mut self, events: &mut Vec<String>) {
        if self.style.include_usage {
            let mut chunk = self.chunk(json!([]));
            chunk.insert("usage".into(), self.total.json());
            events.push(Value::Object(chunk).to_string());
        }
    }

    fn whole(self: Box<Self>) -> Value {
        let style = &self.style;
        let choices: Vec<Value> = self.choices.into_iter().map(|choice| choice.whole(style)).collect();
        let mut body = json!({
            "id": self.stamp.id,
            "object": "chat.completion",
            "created": self.stamp.created_s,
            "model": self.stamp.model,
            "choices": choices,
            "usage": self.total.json(),
            "system_fingerprint": null,
        });
        if let Some(ids) = self.prompt_ids {
            body["prompt_token_ids"] = json!(&*ids);
        }
        body
    }
}

impl Choice {
    fn hear(&mut self, text: &str, stamp: &Stamp, style: &Style) {
        let parts = match &mut self.thoughts {
            Some(thoughts) => thoughts.push(text),
            None => vec![Part::Text(text.to_owned())],
        };
        self.tell_parts(parts, stamp, style);
    }

    fn finish_text(&mut self, stamp: &Stamp, style: &Style) {
        let parts = self.thoughts.as_mut().map(Thoughts::finish).unwrap_or_default();
        self.tell_parts(parts, stamp, style);
        let heard = self.calls.as_mut().map(Calls::finish).unwrap_or_default();
        self.tell_heard(heard, stamp, style);
    }

    fn tell_parts(&mut self, parts: Vec<Part>, stamp: &Stamp, style: &Style) {
        for part in parts {
            match (part, &mut self.calls) {
                (Part::Thought(thought), _) if style.is_split => self.thought.push_str(&thought),
                (Part::Thought(text), _) | (Part::Text(text), None) => self.said.push_str(&text),
                (Part::Text(text), Some(calls)) => {
                    let heard = calls.push(&text);
                    self.tell_heard(heard, stamp, style);
                }
            }
        }
    }

    fn tell_heard(&mut self, heard: Vec<Heard>, stamp: &Stamp, style: &Style) {
        for heard in heard {
            match heard {
                Heard::Text(text) => self.said.push_str(&text),
                Heard::Call(_) if style.one_call && self.calls_told > 0 => {}
                Heard::Call(Call { name, arguments }) => {
                    let (index, place) = (self.index, self.calls_told);
                    let id = format!("call_{}_{index}_{place}", stamp.id.trim_start_matches("chatcmpl-"));
                    let mut call =
                        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
                    if style.streams {
                        call["index"] = json!(place);
                    }
                    self.called.push(call);
                    self.calls_told += 1;
                }
            }
        }
    }

    fn whole(self, style: &Style) -> Value {
        let index = self.index;
        let content = if self.said.is_empty() && !self.called.is_empty() { Value::Null } else { json!(self.said) };
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if style.is_split {
            message["reasoning_content"] = if self.thought.is_empty() { Value::Null } else { json!(self.thought) };
        }
        if !self.called.is_empty() {
            message["tool_calls"] = Value::Array(self.called);
        }
        let logprobs = match style.logprobs {
            true => json!({"content": self.logprobs, "refusal": null}),
            false => Value::Null,
        };
        let (reason, stop) = self.end.unwrap_or(("abort", Value::Null));
        let mut choice = json!({"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason, "stop_reason": stop});
        if style.token_ids {
            choice["token_ids"] = json!(self.ids);
        }
        choice
    }
}

fn token(spoken: &Spoken) -> Value {
    let top: Vec<Value> = spoken
        .top
        .iter()
        .map(|Candidate { bytes, logprob: value, .. }| {
            json!({"token": token_text(bytes), "logprob": logprob(*value), "bytes": bytes})
        })
        .collect();
    let value = logprob(spoken.logprob.unwrap_or(f32::NEG_INFINITY));
    json!({"token": token_text(&spoken.bytes), "logprob": value, "bytes": spoken.bytes, "top_logprobs": top})
}
