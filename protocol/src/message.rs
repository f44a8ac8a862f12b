//! Chat messages, as models are prompted with them and as trajectories keep them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Standing orders.
    System,
    /// The one who asks; observations of the XML-style grammar also come as `user`.
    User,
    /// The model.
    Assistant,
    /// A tool's answer, where the native tool-call protocol is used.
    Tool,
}

impl Role {
    /// The name in chat protocols and templates.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text, without the reasoning that came apart from it.
    pub content: String,
    /// Reasoning that the server returned apart from the text (`reasoning_content`), kept so that it
    /// can be sent back where the profile says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Native tool calls of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a `tool` message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message of plain text.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), reasoning: None, tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// A call in the native tool protocol of chat-completion servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The server's id of the call, echoed in the answer.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// The arguments as the server sent them: text that ought to be JSON and may be cut short.
    pub arguments: String,
}
