//! A chat row: messages, tools and lineage. Unknown fields of a message are refused, since a misspelled mask would
//! change what is trained on; unknown fields of the row are kept.

use super::Metadata;
use crate::jsonl::{Fault, Row};
use legwork_protocol::message::{Message, Role};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Messages of a row at most.
pub const MESSAGES_MAX: usize = 4096;

/// A row of chat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatRow {
    /// The conversation. Loss is on assistant messages whose mask is not 0.
    pub messages: Vec<ChatMessage>,
    /// Native tools offered, as the OpenAI `tools` list. A string that holds the list is read too.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "tools")]
    pub tools: Vec<Value>,
    /// Where the row comes from.
    #[serde(default, deserialize_with = "metadata")]
    pub metadata: Metadata,
    /// Columns of other tools.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One message of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// The text; null is read as nothing.
    #[serde(default, deserialize_with = "content")]
    pub content: String,
    /// Reasoning apart from the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Native tool calls of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_or")]
    pub tool_calls: Vec<ToolUse>,
    /// The call that a `tool` message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The function's or speaker's name, where a tool gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// 0 takes an assistant message out of the loss; 1, like nothing, leaves it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_loss_mask: Option<u8>,
}

/// A native tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The server's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Always `function`.
    #[serde(rename = "type", default = "function")]
    pub kind: String,
    /// What is called.
    pub function: FunctionCall,
}

/// What a native tool call calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The function.
    pub name: String,
    /// Its arguments: an object, or the text that a server sent and that ought to be one.
    #[serde(default)]
    pub arguments: Value,
}

impl ChatRow {
    /// Whether the message takes part in the loss.
    pub fn is_supervised(&self, place: usize) -> bool {
        self.messages.get(place).is_some_and(ChatMessage::is_supervised)
    }

    /// Assistant messages in the loss.
    pub fn supervised(&self) -> usize {
        self.messages.iter().filter(|message| message.is_supervised()).count()
    }
}

impl ChatMessage {
    /// A message of plain text.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            reasoning_content: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
            step_loss_mask: None,
        }
    }

    /// Whether it takes part in the loss.
    pub fn is_supervised(&self) -> bool {
        self.role == Role::Assistant && self.step_loss_mask.unwrap_or(1) == 1
    }

    fn check(&self, place: usize) -> Result<(), Fault> {
        let fault = |field: &str, problem: String| Err(Fault::new(format!("messages[{place}].{field}"), problem));
        let only = |role: Role| format!("belongs to {role} messages, this one is of {}: remove it", self.role);
        if let Some(mask) = self.step_loss_mask {
            if self.role != Role::Assistant {
                return fault("step_loss_mask", only(Role::Assistant));
            }
            if mask > 1 {
                return fault("step_loss_mask", format!("must be 0 or 1, got {mask}"));
            }
        }
        if self.reasoning_content.is_some() && self.role != Role::Assistant {
            return fault("reasoning_content", only(Role::Assistant));
        }
        if !self.tool_calls.is_empty() && self.role != Role::Assistant {
            return fault("tool_calls", only(Role::Assistant));
        }
        if self.tool_call_id.is_some() && self.role != Role::Tool {
            return fault("tool_call_id", only(Role::Tool));
        }
        for (at, call) in self.tool_calls.iter().enumerate() {
            if call.kind != "function" {
                let field = format!("tool_calls[{at}].type");
                return fault(&field, format!("must be `function`, got `{}`", call.kind.escape_debug()));
            }
            if !matches!(call.function.arguments, Value::Object(_) | Value::String(_)) {
                let field = format!("tool_calls[{at}].function.arguments");
                return fault(&field, "must be an object or its json text: write `{}` for none".to_owned());
            }
        }
        Ok(())
    }
}

impl Row for ChatRow {
    const WHAT: &'static str = "a chat row {messages: [{role, content}], tools?, metadata?}";

    fn check(&self) -> Result<(), Fault> {
        if self.messages.is_empty() || self.messages.len() > MESSAGES_MAX {
            let problem = format!("must hold 1 to {MESSAGES_MAX} messages, got {}", self.messages.len());
            return Err(Fault::new("messages", problem));
        }
        self.messages.iter().enumerate().try_for_each(|(place, message)| message.check(place))?;
        if self.supervised() == 0 {
            let problem = "hold no assistant message in the loss: remove the row, nothing can be learned from it";
            return Err(Fault::new("messages", problem));
        }
        Ok(())
    }
}

impl From<&Message> for ChatMessage {
    /// Arguments of native calls stay the text that the server sent, unless that is an object.
    fn from(message: &Message) -> Self {
        let tool_calls = message.tool_calls.iter().map(|call| ToolUse {
            id: Some(call.id.clone()).filter(|id| !id.is_empty()),
            kind: function(),
            function: FunctionCall {
                name: call.name.clone(),
                arguments: serde_json::from_str::<Map<String, Value>>(&call.arguments)
                    .map_or_else(|_| Value::String(call.arguments.clone()), Value::Object),
            },
        });
        Self {
            role: message.role,
            content: message.content.clone(),
            reasoning_content: message.reasoning.clone(),
            tool_calls: tool_calls.collect(),
            tool_call_id: message.tool_call_id.clone(),
            name: None,
            step_loss_mask: None,
        }
    }
}

fn function() -> String {
    "function".to_owned()
}

fn null_or<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
    let read = |value: Value| serde_json::from_value(value).map_err(D::Error::custom);
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(Metadata::default()),
        Value::String(text) if text.trim().is_empty() => Ok(Metadata::default()),
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| D::Error::custom(format_args!("`metadata` is text that holds no json object: {error}"))),
        other => read(other),
    }
}

fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text),
        Value::Array(_) => Err(D::Error::custom("`content` is a list of parts: join the text parts into one string")),
        other => Err(D::Error::custom(format_args!("`content` must be text, got {}", kind_of(&other)))),
    }
}

fn tools<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(tools) => Ok(tools),
        Value::String(text) if text.trim().is_empty() => Ok(Vec::new()),
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| D::Error::custom(format_args!("`tools` is text that holds no json list: {error}"))),
        other => Err(D::Error::custom(format_args!("`tools` must be a list, got {}", kind_of(&other)))),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
