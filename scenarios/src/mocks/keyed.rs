//! What models with an answer key share: whose question a brief is, which queries a conversation holds, the calls that they make and
//! what these cost. It refuses to know how any of them goes on.

use legwork_protocol::call::Call;
use legwork_protocol::generation::{Completion, FinishReason, GenerateRequest, Usage};
use legwork_protocol::message::Message;
use legwork_protocol::question::Question;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Questions by their text, by which a brief is known.
pub(super) fn by_text(questions: &[Arc<Question>]) -> BTreeMap<String, Arc<Question>> {
    questions.iter().map(|question| (question.text.clone(), Arc::clone(question))).collect()
}

/// The brief's own text.
pub(super) fn brief_of(messages: &[Arc<Message>]) -> &str {
    let brief = messages.get(1).map(|message| message.content.as_str()).unwrap_or_default();
    brief.trim_start_matches("Brief:\n").trim()
}

/// The query that a turn asks, if it searches.
pub(super) fn query_of(said: &str) -> Option<String> {
    let query = said.split("<parameter=query>").nth(1)?.split("</").next()?;
    Some(query.trim().to_owned())
}

/// What a step asks, in words that stand alone; nothing where there is no such step.
pub(super) fn asked(question: &Question, step: usize) -> String {
    question.step_alone(step).unwrap_or_default()
}

/// The end of a conversation.
pub(super) fn finish(answer: &str, explanation: &str, confidence: u32) -> Call {
    let confidence = confidence.to_string();
    Call::new("finish", [("answer", answer), ("explanation", explanation), ("confidence", confidence.as_str())])
}

/// A turn at once, with a token for every four bytes.
pub(super) fn completed(request: &GenerateRequest, text: String) -> Completion {
    let tokens = |bytes: usize| u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX);
    let usage = Usage {
        prompt_tokens: tokens(request.messages.iter().map(|message| message.content.len()).sum()),
        cached_tokens: 0,
        completion_tokens: tokens(text.len()),
    };
    Completion { text, finish: FinishReason::Stop, usage, attempts: 1, ..Completion::default() }
}
