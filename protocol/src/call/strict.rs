//! Our reader.
use super::{Call, Reading};
use crate::message::ToolCall;
pub(super) fn read(_text: &str, _native: &[ToolCall]) -> Reading {
    Reading::default()
}
pub(super) fn render(_calls: &[Call]) -> String {
    String::new()
}
