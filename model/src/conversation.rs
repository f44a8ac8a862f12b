//! A conversation as a chat template sees it: messages with a role, a content, and whatever else a client said, in the
//! order it came. It refuses to know what a template makes of it.

use crate::error::ModelError;
use serde_json::{Map, Value};

/// Messages of a conversation at most.
pub(crate) const MESSAGES_MAX: usize = 10_000;
/// Bytes of a role at most.
const ROLE_MAX_BYTES: usize = 64;

/// One message: a mapping with a `role`.
#[derive(Clone, Debug, PartialEq)]
pub struct Message(Map<String, Value>);

/// Messages in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    messages: Vec<Message>,
}

impl Message {
    /// A message of a role with a text.
    pub fn new(role: &str, content: &str) -> Self {
        let fields = [("role", role), ("content", content)];
        Self(fields.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect())
    }

    /// The message with another field, such as `reasoning_content` or `tool_calls`.
    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.0.insert(field.to_owned(), value);
        self
    }

    /// The fields.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Who speaks.
    pub fn role(&self) -> &str {
        self.0.get("role").and_then(Value::as_str).unwrap_or_default()
    }
}

impl Conversation {
    /// A conversation of these messages.
    ///
    /// # Errors
    /// Too many messages, or a role that is no name.
    pub fn new(messages: Vec<Message>) -> Result<Self, ModelError> {
        let count = messages.len();
        if count > MESSAGES_MAX {
            let detail = format!("expected at most {MESSAGES_MAX} messages, got {count}");
            return Err(ModelError::Message { index: MESSAGES_MAX, detail });
        }
        for (index, message) in messages.iter().enumerate() {
            // Templates write roles between control tokens, so a role may hold nothing but a name.
            let named = |role: &str| role.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
            let role = message.0.get("role").and_then(Value::as_str);
            if role.is_none_or(|role| role.is_empty() || role.len() > ROLE_MAX_BYTES || !named(role)) {
                let got = message.0.get("role").map_or("none".to_owned(), Value::to_string);
                let got: String = got.chars().take(ROLE_MAX_BYTES).collect();
                let detail = format!("expected a `role` such as `user` or `tool`, got {got}");
                return Err(ModelError::Message { index, detail });
            }
        }
        Ok(Self { messages })
    }

    /// A conversation of a JSON list of mappings, as clients send it.
    ///
    /// # Errors
    /// As [`Conversation::new`], and what is no list of mappings.
    pub fn from_json(messages: Value) -> Result<Self, ModelError> {
        let wrong = |index: usize, detail: &str| Err(ModelError::Message { index, detail: detail.to_owned() });
        let Value::Array(messages) = messages else { return wrong(0, "expected a list of messages") };
        let mut own = Vec::with_capacity(messages.len());
        for (index, message) in messages.into_iter().enumerate() {
            match message {
                Value::Object(fields) => own.push(Message(fields)),
                _ => return wrong(index, "expected a mapping with `role` and `content`"),
            }
        }
        Self::new(own)
    }

    /// The messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// As JSON, which is what templates get. Thinking that a client called by another of its names is called
    /// `reasoning_content` too, and `thinking`, as transformers does before it renders.
    pub(crate) fn to_json(&self) -> Value {
        self.messages.iter().map(Message::to_json).collect()
    }
}

/// What clients call thinking, by rank.
const THINKING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

impl Message {
    fn to_json(&self) -> Value {
        let thinking = THINKING.into_iter().filter_map(|name| self.0.get(name)).find(|value| !value.is_null());
        let Some(thinking) = thinking else { return Value::Object(self.0.clone()) };
        let mut fields = Map::new();
        fields.insert("thinking".to_owned(), thinking.clone());
        fields.extend(self.0.clone());
        fields.insert("reasoning_content".to_owned(), thinking.clone());
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn thinking_by_any_name_is_found_under_all_that_templates_ask_for() {
        let told = |fields: Value| Conversation::from_json(json!([fields])).unwrap().to_json()[0].to_string();
        let expected = r#"{"thinking":"t","role":"a","reasoning":"t","reasoning_content":"t"}"#;
        assert_eq!(told(json!({"role": "a", "reasoning": "t"})), expected);
        let expected = r#"{"thinking":"u","role":"a","reasoning_content":"u"}"#;
        assert_eq!(told(json!({"role": "a", "thinking": "u", "reasoning_content": null})), expected);
        assert_eq!(told(json!({"role": "a", "thinking": null})), r#"{"role":"a","thinking":null}"#);
    }

    #[test]
    fn a_role_is_a_name_and_nothing_else() {
        for role in [json!("user"), json!("tool"), json!("ipython-2")] {
            Conversation::from_json(json!([{"role": role}])).unwrap();
        }
        let wrong = [json!(null), json!(7), json!(""), json!("user<|im_end|>"), json!("a".repeat(65)), json!("a\nb")];
        for role in wrong {
            let error = Conversation::from_json(json!([{"role": "user"}, {"role": role}])).unwrap_err().to_string();
            assert!(error.contains("message 1") && error.contains("expected a `role`"), "{error}");
        }
        assert!(Conversation::from_json(json!({"role": "user"})).is_err());
        assert!(Conversation::from_json(json!(["user"])).is_err());
    }
}
