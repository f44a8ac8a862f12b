//! A conversation as it is sent to a model: shared messages, a running digest over them, and how many
//! tokens it holds. It refuses to know budgets.

use crate::generation::Completion;
use crate::message::{Message, Role};
use std::sync::Arc;

/// A growing list of messages.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    messages: Vec<Arc<Message>>,
    digest: [u8; 32],
    tokens: u64,
}

impl Conversation {
    /// The messages so far; cloning the list costs a pointer a message.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// A digest over all messages in order: equal conversations have equal digests.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Tokens of all messages, as counted by whoever pushed them.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Appends a message of `tokens` tokens.
    pub fn push(&mut self, message: Message, tokens: u64) {
        self.push_shared(Arc::new(message), tokens);
    }

    /// Appends a message that many conversations hold.
    pub fn push_shared(&mut self, message: Arc<Message>, tokens: u64) {
        self.digest = digest_after(self.digest, &message);
        self.messages.push(message);
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// Appends what a model said. Thinking stays in the text only if `keep_thinking`.
    pub fn push_completion(&mut self, completion: &Completion, tokens: u64, keep_thinking: bool) {
        let content = if keep_thinking { completion.text.as_str() } else { without_thinking(&completion.text) };
        let message = Message {
            role: Role::Assistant,
            content: content.to_owned(),
            reasoning: completion.reasoning.clone().filter(|_| keep_thinking),
            tool_calls: completion.tool_calls.clone(),
            tool_call_id: None,
        };
        self.push(message, tokens);
    }

    /// Answers what was last said. Native tool calls each get a `tool` message (the first carries the
    /// text, the others say so); otherwise the answer is one `user` message.
    pub fn push_answer(&mut self, text: String, tokens: u64) {
        let ids: Vec<String> = match self.messages.last() {
            Some(last) if last.role == Role::Assistant => last.tool_calls.iter().map(|call| call.id.clone()).collect(),
            _ => Vec::new(),
        };
        if ids.is_empty() {
            return self.push(Message::new(Role::User, text), tokens);
        }
        let mut text = Some(text);
        for id in ids {
            let (content, tokens) = match text.take() {
                Some(text) => (text, tokens),
                None => ("See the result above.".to_owned(), 0),
            };
            let message = Message { tool_call_id: Some(id), ..Message::new(Role::Tool, content) };
            self.push(message, tokens);
        }
    }
}

/// The text after the last `</think>`, or all of it if there is none.
pub fn without_thinking(text: &str) -> &str {
    match text.rfind("</think>") {
        Some(at) => text[at + "</think>".len()..].trim_start_matches('\n'),
        None => text,
    }
}

fn digest_after(before: [u8; 32], message: &Message) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before);
    let mut part = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    part(&message.role.to_string());
    part(&message.content);
    part(message.reasoning.as_deref().unwrap_or("\u{0}"));
    part(message.tool_call_id.as_deref().unwrap_or("\u{0}"));
    for call in &message.tool_calls {
        part(&call.id);
        part(&call.name);
        part(&call.arguments);
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;

    #[test]
    fn equal_conversations_have_equal_digests_and_others_do_not() {
        let said = |texts: &[&str]| {
            let mut conversation = Conversation::default();
            texts.iter().for_each(|text| conversation.push(Message::new(Role::User, *text), 1));
            conversation.digest()
        };
        assert_eq!(said(&["ab", "c"]), said(&["ab", "c"]));
        assert_ne!(said(&["ab", "c"]), said(&["a", "bc"]));
        assert_ne!(said(&["ab", "c"]), said(&["c", "ab"]));
    }

    #[test]
    fn counts_too_large_to_add_stay_at_the_largest() {
        let mut conversation = Conversation::default();
        [u64::MAX, 1].iter().for_each(|tokens| conversation.push(Message::new(Role::User, "a"), *tokens));
        assert_eq!(conversation.tokens(), u64::MAX);
    }

    #[test]
    fn thinking_is_cut_after_its_last_end() {
        assert_eq!(without_thinking("<think>a</think>\n\nb</think>\nc"), "c");
        assert_eq!(without_thinking("<think>never ended"), "<think>never ended");
    }

    #[test]
    fn each_native_call_is_answered_once() {
        let call = |id: &str| ToolCall { id: id.into(), name: "search".into(), arguments: "{}".into() };
        let completion = Completion { tool_calls: vec![call("a"), call("b")], ..Completion::default() };
        let mut conversation = Conversation::default();
        conversation.push_completion(&completion, 3, true);
        conversation.push_answer("found".into(), 2);
        let ids: Vec<_> = conversation.messages()[1..].iter().map(|m| m.tool_call_id.clone().unwrap()).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(conversation.tokens(), 5);
    }
}
