//! A conversation's messages in Inspect's shapes.

use crate::export::walk::Talk;
use legwork_protocol::message::{Message, Role, ToolCall};
use serde_json::{Map, Value, json};

/// The messages of a conversation, each with its scope.
pub(super) fn messages(talk: &Talk<'_>) -> Vec<Value> {
    let scope = talk.scope.to_string();
    talk.messages.iter().map(|said| message(said, &scope)).collect()
}

fn message(said: &Message, scope: &str) -> Value {
    let mut message = Map::from_iter([
        ("role".to_owned(), json!(said.role)),
        ("content".to_owned(), content(said)),
        ("metadata".to_owned(), json!({ "scope": scope })),
    ]);
    match said.role {
        Role::Assistant => {
            message.insert("source".into(), json!("generate"));
            if !said.tool_calls.is_empty() {
                message.insert("tool_calls".into(), said.tool_calls.iter().map(tool_call).collect());
            }
        }
        Role::Tool => {
            message.insert("tool_call_id".into(), json!(said.tool_call_id));
        }
        Role::System | Role::User => {}
    }
    Value::Object(message)
}

/// Reasoning that came apart from the text is a part of its own.
fn content(said: &Message) -> Value {
    match &said.reasoning {
        Some(reasoning) => json!([
            { "type": "reasoning", "reasoning": reasoning },
            { "type": "text", "text": said.content },
        ]),
        None => json!(said.content),
    }
}

/// Arguments are an object in Inspect; what was not one is kept as an error.
fn tool_call(call: &ToolCall) -> Value {
    let mut written = json!({ "id": call.id, "function": call.name, "type": "function" });
    match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
        Ok(arguments) => written["arguments"] = Value::Object(arguments),
        Err(error) => {
            written["arguments"] = json!({});
            written["parse_error"] = json!(format!("{error}: {}", call.arguments));
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_no_object_are_kept_as_an_error() {
        let call = |arguments: &str| {
            tool_call(&ToolCall { id: "1".into(), name: "search".into(), arguments: arguments.into() })
        };
        assert_eq!(call(r#"{"q":1}"#)["arguments"], json!({"q": 1}));
        let cut = call(r#"{"q": "a"#);
        assert_eq!(cut["arguments"], json!({}));
        assert!(cut["parse_error"].as_str().unwrap().ends_with(r#": {"q": "a"#));
    }

    #[test]
    fn reasoning_is_a_part_of_its_own() {
        let said = Message { reasoning: Some("r".into()), ..Message::new(Role::Assistant, "t") };
        let written = message(&said, "worker/0");
        assert_eq!(written["content"], json!([{"type": "reasoning", "reasoning": "r"}, {"type": "text", "text": "t"}]));
        assert_eq!(message(&Message::new(Role::User, "t"), "worker/0")["content"], json!("t"));
    }
}
