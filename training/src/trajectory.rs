//! The rows: chat rows in the form that fine-tuning tools read (`messages`, `tools`, `metadata`), and token rows that
//! keep the very ids that a server used and made. A row says which of its turns are trained on.

mod chat;
mod ids;
mod metadata;
#[cfg(test)]
mod tests;

pub use chat::{ChatMessage, ChatRow, FunctionCall, MESSAGES_MAX, ToolUse};
pub use ids::{IDS_MAX, IdRow, Span, SpanKind, Why};
pub use metadata::Metadata;

pub use crate::jsonl::Fault;
