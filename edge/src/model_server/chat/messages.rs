//! Reads the messages of a conversation. Text parts are joined by line feeds, as vLLM joins them for templates that take
//! text; what is not text is refused by its place.

use super::super::fields::{Fields, at_most, wrong};
use super::super::refused::Refused;
use legwork_protocol::message::{Message, Role, ToolCall};
use serde_json::Value;

/// Where reasoning is sent back; the first that says something counts.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

pub(super) fn read(fields: &mut Fields, most: usize) -> Result<Vec<Message>, Refused> {
    let Some(list) = fields.list("messages", most)? else {
        return Err(wrong("messages", "a list of at least one message", &Value::Null));
    };
    if list.is_empty() {
        return Err(wrong("messages", "a list of at least one message", &Value::Array(list)));
    }
    list.into_iter()
        .enumerate()
        .map(|(place, message)| read_message(&format!("messages[{place}]"), message, most))
        .collect()
}

fn read_message(path: &str, message: Value, most: usize) -> Result<Message, Refused> {
    let mut fields = Fields::of(path, message)?;
    let role = read_role(&mut fields)?;
    let content = fields.take("content").unwrap_or(Value::Null);
    let mut message = Message::new(role, read_content(&fields.path("content"), content, most)?);
    if role == Role::Assistant {
        for name in REASONING_FIELDS {
            let thought = fields.text(name)?.filter(|thought| !thought.is_empty());
            message.reasoning = message.reasoning.or(thought);
        }
        let calls_path = fields.path("tool_calls");
        let calls = fields.list("tool_calls", most)?.unwrap_or_default();
        let call = |(place, call)| read_call(&format!("{calls_path}[{place}]"), call);
        message.tool_calls = calls.into_iter().enumerate().map(call).collect::<Result<_, _>>()?;
        fields.not_offered("function_call", "use `tool_calls`")?;
    }
    message.tool_call_id = fields.text("tool_call_id")?.filter(|_| role == Role::Tool);
    fields.ignore_rest(&["name", "refusal", "annotations", "audio"]);
    Ok(message)
}

fn read_role(fields: &mut Fields) -> Result<Role, Refused> {
    let path = fields.path("role");
    let role = fields.take("role").unwrap_or(Value::Null);
    match role.as_str() {
        Some("system" | "developer") => Ok(Role::System),
        Some("user") => Ok(Role::User),
        Some("assistant") => Ok(Role::Assistant),
        Some("tool" | "function") => Ok(Role::Tool),
        _ => Err(wrong(&path, "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"", &role)),
    }
}

fn read_content(path: &str, content: Value, most: usize) -> Result<String, Refused> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text),
        Value::Array(parts) => {
            at_most(path, parts.len(), most)?;
            let part = |(place, part)| read_part(&format!("{path}[{place}]"), part);
            let texts: Vec<String> = parts.into_iter().enumerate().map(part).collect::<Result<_, _>>()?;
            Ok(texts.join("\n"))
        }
        other => Err(wrong(path, "a string or a list of parts", &other)),
    }
}

fn read_part(path: &str, part: Value) -> Result<String, Refused> {
    if let Value::String(text) = part {
        return Ok(text);
    }
    let mut fields = Fields::of(path, part)?;
    let kind = fields.text("type")?.unwrap_or_default();
    let name = match kind.as_str() {
        "text" | "input_text" | "output_text" => "text",
        "refusal" => "refusal",
        _ => {
            let shown: String = kind.chars().take(60).collect();
            let detail = format!(
                "`{path}` is of type {shown:?}, and this model reads text only: leave it out, or describe it in words"
            );
            return Err(Refused::Unsupported { param: Some(path.to_owned()), detail });
        }
    };
    fields.text(name)?.ok_or_else(|| wrong(&fields.path(name), "a string", &Value::Null))
}

fn read_call(path: &str, call: Value) -> Result<ToolCall, Refused> {
    let mut fields = Fields::of(path, call)?;
    let id = fields.text("id")?.unwrap_or_default();
    let function = fields.take("function").unwrap_or(Value::Null);
    let mut function = Fields::of(&fields.path("function"), function)?;
    let name = function.text("name")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| wrong(&function.path("name"), "a function's name", &Value::Null))?;
    let arguments = match function.take("arguments") {
        None => "{}".to_owned(),
        Some(Value::String(text)) => text,
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(other) => return Err(wrong(&function.path("arguments"), "JSON as a string", &other)),
    };
    Ok(ToolCall { id, name, arguments })
}
