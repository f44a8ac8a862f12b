//! Answers of the OpenAI kind, whole or in events, in the shapes that servers really give them.

use crate::call::Reader;
use crate::draft::Draft;
use crate::fault::{Fault, is_error_body, one_line};
use crate::json::{self, count, push_text};
use legwork_protocol::failure::FailureKind;
use legwork_protocol::generation::{Completion, FinishReason, Usage};
use serde_json::Value;

/// Where servers put reasoning that they return apart from the text; the first that says something counts.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

/// Reads a chat completion or a text completion.
#[derive(Default)]
pub(crate) struct ChatReader {
    draft: Draft,
}

impl Reader for ChatReader {
    type Out = Completion;

    fn event(&mut self, data: &str) -> Result<(), Fault> {
        let value = parse(data.as_bytes())?;
        self.take_top(&value);
        match value.get("choices").and_then(Value::as_array).map(Vec::as_slice) {
            // The event that carries the usage has no choices.
            None | Some([]) => Ok(()),
            Some(choices) => self.take_choice(first(choices), false),
        }
    }

    fn complete(&self) -> bool {
        self.draft.finish.is_some()
    }

    fn finish(self) -> Result<Completion, Fault> {
        if !self.complete() {
            return Err(Fault::truncated("the stream said that it was done and gave no finish reason"));
        }
        self.draft.finish()
    }

    fn whole(mut self, body: &[u8]) -> Result<Completion, Fault> {
        let value = parse(body)?;
        self.take_top(&value);
        match value.get("choices").and_then(Value::as_array).map(Vec::as_slice) {
            None => {
                return Err(Fault::bad(format!(
                    "`choices` were expected, there are none: {}",
                    one_line(&value.to_string())
                )));
            }
            Some([]) => return Err(Fault::bad("one choice was expected, `choices` is empty")),
            Some(choices) => self.take_choice(first(choices), true)?,
        }
        self.draft.finish()
    }

    fn tokens(out: &Completion) -> Option<u64> {
        let Usage { prompt_tokens, completion_tokens, .. } = out.usage;
        let all = u64::from(prompt_tokens) + u64::from(completion_tokens);
        (all > 0).then_some(all)
    }
}

impl ChatReader {
    fn take_top(&mut self, value: &Value) {
        if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) {
            let details = usage.get("prompt_tokens_details").and_then(|details| details.get("cached_tokens"));
            self.draft.usage = Usage {
                prompt_tokens: count(usage.get("prompt_tokens")),
                // DeepSeek names it in its own way.
                cached_tokens: count(details.or_else(|| usage.get("prompt_cache_hit_tokens"))),
                completion_tokens: count(usage.get("completion_tokens")),
            };
        }
        self.draft.ids.prompt.extend(ids(value.get("prompt_token_ids")));
    }

    fn take_choice(&mut self, choice: &Value, is_whole: bool) -> Result<(), Fault> {
        // Parts of a whole answer are paragraphs; of a stream they are pieces of one text.
        let (message, between) = if is_whole { ("message", "\n") } else { ("delta", "") };
        let message = choice.get(message).unwrap_or(&Value::Null);
        self.take_content(message.get("content").or_else(|| choice.get("text")).unwrap_or(&Value::Null), between);
        let thought = REASONING_FIELDS.iter().find_map(|field| {
            let mut thought = String::new();
            push_text(message.get(*field)?, between, &mut thought);
            Some(thought).filter(|thought| !thought.is_empty())
        });
        self.draft.reasoning.extend(thought);
        let calls = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (place, call) in (0..).zip(calls) {
            let index = call.get("index").and_then(Value::as_u64);
            self.take_call(call, index.or(is_whole.then_some(place)))?;
        }
        if let Some(call) = message.get("function_call").filter(|call| call.is_object()) {
            // The older form has one call and no index.
            take_function(self.draft.call(0)?, call);
        }
        if self.draft.ids.prompt.is_empty() {
            self.draft.ids.prompt.extend(ids(choice.get("prompt_token_ids")));
        }
        self.draft.ids.completion.extend(ids(choice.get("token_ids")));
        match choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
            None => Ok(()),
            Some(reason) => {
                self.draft.finish = Some(finish_reason(reason)?);
                Ok(())
            }
        }
    }

    /// Text, or a list of parts of which those of type `thinking` are reasoning.
    fn take_content(&mut self, content: &Value, between: &str) {
        let Value::Array(parts) = content else {
            return push_text(content, between, &mut self.draft.text);
        };
        for part in parts {
            let thinking = part.get("type").and_then(Value::as_str).is_some_and(|kind| kind.contains("thinking"));
            push_text(part, between, if thinking { &mut self.draft.reasoning } else { &mut self.draft.text });
        }
    }

    /// A call, or a fragment of one. Fragments belong together by index; where a server gives none, by
    /// id, and a fragment with neither id nor name goes on with the last call.
    fn take_call(&mut self, wire: &Value, index: Option<u64>) -> Result<(), Fault> {
        let id = wire.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let named = wire.get("function").and_then(|function| function.get("name")).and_then(Value::as_str);
        let begun = || match (id, named) {
            (None, Some(name)) if !name.is_empty() => None,
            _ => self.draft.find_call(id),
        };
        let index = index.or_else(begun).unwrap_or_else(|| self.draft.next_call());
        let call = self.draft.call(index)?;
        if let Some(id) = id
            && call.id.is_empty()
        {
            call.id = id.to_owned();
        }
        if let Some(function) = wire.get("function") {
            take_function(call, function);
        }
        Ok(())
    }
}

fn take_function(call: &mut legwork_protocol::message::ToolCall, function: &Value) {
    // Some servers repeat the name in every fragment; none splits it.
    if let Some(name) = function.get("name").and_then(Value::as_str)
        && call.name.is_empty()
    {
        call.name = name.to_owned();
    }
    match function.get("arguments") {
        None | Some(Value::Null) => {}
        Some(Value::String(fragment)) => call.arguments.push_str(fragment),
        // Against the protocol, and clear: the arguments as an object.
        Some(object) => call.arguments.push_str(&object.to_string()),
    }
}

/// The choice of index 0; only one was asked for.
fn first(choices: &[Value]) -> &Value {
    choices.iter().find(|choice| choice.get("index").is_none_or(|index| index == 0)).unwrap_or(&Value::Null)
}

fn ids(value: Option<&Value>) -> impl Iterator<Item = u32> + '_ {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(|id| u32::try_from(id.as_u64()?).ok())
}

/// Reads one JSON body; an `error` in it is a fault whatever else it says.
fn parse(body: &[u8]) -> Result<Value, Fault> {
    let value = json::parse(body).map_err(|error| {
        let told = one_line(&String::from_utf8_lossy(body));
        Fault::cut(format!("a JSON answer was expected, it cannot be read ({error}): {told}"))
    })?;
    if is_error_body(&value) { Err(Fault::from_error_body(&value)) } else { Ok(value) }
}

fn finish_reason(reason: &str) -> Result<FinishReason, Fault> {
    Ok(match reason {
        "stop" | "eos" | "end_turn" | "stop_sequence" => FinishReason::Stop,
        "length" | "max_tokens" => FinishReason::Length,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        "abort" | "error" => {
            let detail = format!("the server gave the answer up (finish reason `{reason}`)");
            return Err(Fault::new(FailureKind::ServerError, true, detail));
        }
        _ => FinishReason::Other,
    })
}

#[cfg(test)]
mod tests;
