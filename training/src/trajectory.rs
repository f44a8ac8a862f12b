//! The rows: chat rows in the form that fine-tuning tools read (`messages`, `tools`, `metadata`), token rows that keep
//! the very ids that a server used and made, and rows of plain text. A row says what of it is trained on.

mod chat;
mod ids;
mod metadata;
#[cfg(test)]
mod tests;
mod text;

pub use chat::{ChatMessage, ChatRow, FunctionCall, MESSAGES_MAX, ToolUse};
pub use ids::{IDS_MAX, IdRow, Span, SpanKind, Why};
pub use metadata::Metadata;
pub use text::TextRow;

pub use crate::jsonl::Fault;
