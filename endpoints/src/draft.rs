//! A completion as it grows, whatever protocol tells it, and what may leave as a whole one.

use crate::fault::Fault;
use crate::json::unite;
use legwork_protocol::failure::FailureKind;
use legwork_protocol::generation::{Completion, FinishReason, TokenIds, Usage};
use legwork_protocol::message::ToolCall;
use std::collections::BTreeMap;

/// The most tool calls of one answer.
pub(crate) const TOOL_CALLS_MAX: usize = 256;

/// A completion that is still being told.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    calls: BTreeMap<u64, ToolCall>,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) usage: Usage,
    pub(crate) ids: TokenIds,
}

impl Draft {
    /// The tool call at `index`, made if it is new. The index is the server's and only orders.
    pub(crate) fn call(&mut self, index: u64) -> Result<&mut ToolCall, Fault> {
        if self.calls.len() >= TOOL_CALLS_MAX && !self.calls.contains_key(&index) {
            return Err(Fault::bad(format!("at most {TOOL_CALLS_MAX} tool calls were expected, more came")));
        }
        let blank = || ToolCall { id: String::new(), name: String::new(), arguments: String::new() };
        Ok(self.calls.entry(index).or_insert_with(blank))
    }

    /// The index of the call with this id, or of the last one.
    pub(crate) fn find_call(&self, id: Option<&str>) -> Option<u64> {
        let same = |call: &ToolCall| id.is_none_or(|id| call.id == id);
        self.calls.iter().rev().find(|(_, call)| same(call)).map(|(index, _)| *index)
    }

    /// An index behind all others.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.keys().next_back().map_or(0, |last| last.saturating_add(1))
    }

    /// Ends the draft.
    ///
    /// An answer with reasoning alone is a completion with empty text: the model did speak, and whether
    /// that is of use is the caller's to say. Only an answer without text, call and reasoning is an
    /// `EmptyCompletion`; one that the server's filter emptied is `Refused`. Neither is tried again: the
    /// server did its work, and the next draw is the caller's decision and cost.
    pub(crate) fn finish(self) -> Result<Completion, Fault> {
        let finish = self.finish.unwrap_or(FinishReason::Other);
        let tool_calls =
            self.calls.into_iter().map(|(index, call)| whole_call(index, call)).collect::<Result<_, _>>()?;
        let completion = Completion {
            text: unite(self.text),
            reasoning: Some(unite(self.reasoning)).filter(|reasoning| !reasoning.is_empty()),
            tool_calls,
            finish,
            usage: self.usage,
            ids: Some(self.ids).filter(|ids| !ids.completion.is_empty()),
            served_ms: 0,
            queued_ms: 0,
            attempts: 1,
        };
        if completion.text.is_empty() && completion.tool_calls.is_empty() && completion.reasoning.is_none() {
            return Err(nothing(&completion));
        }
        Ok(completion)
    }
}

fn whole_call(index: u64, mut call: ToolCall) -> Result<ToolCall, Fault> {
    if call.name.is_empty() {
        return Err(Fault::bad(format!("a tool call with a name was expected, call {index} has none")));
    }
    if call.id.is_empty() {
        call.id = format!("call_{index}");
    }
    call.arguments = unite(call.arguments);
    Ok(call)
}

fn nothing(completion: &Completion) -> Fault {
    let spent = completion.usage.completion_tokens;
    match completion.finish {
        FinishReason::ContentFilter => {
            let detail = "the server's content filter left nothing of the answer: change the prompt or the model";
            Fault::new(FailureKind::Refused, false, detail)
        }
        FinishReason::Length => Fault::new(
            FailureKind::EmptyCompletion,
            false,
            format!("{spent} tokens were made and none shown, up to the limit: raise `max_tokens`"),
        ),
        _ => Fault::new(
            FailureKind::EmptyCompletion,
            false,
            format!("an answer without text, tool call and reasoning ({spent} tokens)"),
        ),
    }
}
