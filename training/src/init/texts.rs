//! What a tokenizer is trained on, of a file of chat rows: everything that a prompt will hold. It refuses to know other files.

use crate::error::{TrainingError, TrajectoryError};
use crate::jsonl::{JsonlReader, LINE_BYTES_MAX};
use crate::trajectory::{ChatMessage, ChatRow};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Whether a file begins with a chat row.
///
/// # Errors
/// A file that cannot be read.
pub fn holds_chat_rows(path: &Path) -> Result<bool, TrainingError> {
    let mut line = Vec::new();
    let read = File::open(path).and_then(|file| BufReader::new(file.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line));
    read.map_err(|source| TrajectoryError::Unreadable { file: path.to_path_buf(), source })?;
    let row: Option<Map<String, Value>> = serde_json::from_slice(&line).ok();
    Ok(row.is_some_and(|row| row.contains_key("messages")))
}

/// The texts of a file of chat rows, one a row: what is said and thought, tools, calls and who speaks.
///
/// # Errors
/// A file that cannot be opened; then, as an item, the first row that is none, with its place.
pub fn chat_texts(path: &Path) -> Result<impl Iterator<Item = Result<String, TrainingError>>, TrainingError> {
    let rows = JsonlReader::<ChatRow>::open(path)?;
    Ok(rows.map(|row| Ok(text_of(&row?))))
}

fn text_of(row: &ChatRow) -> String {
    let mut text = String::new();
    let mut add = |piece: &str| {
        text.push_str(piece);
        text.push('\n');
    };
    for tool in &row.tools {
        add(&tool.to_string());
    }
    for message in &row.messages {
        let ChatMessage { role, content, reasoning_content, tool_calls, .. } = message;
        add(&role.to_string());
        if let Some(thought) = reasoning_content {
            add(thought);
        }
        add(content);
        for call in tool_calls {
            let arguments = match &call.function.arguments {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            add(&format!("{{\"name\": \"{}\", \"arguments\": {arguments}}}", call.function.name));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_prompt_will_hold_is_in_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let row = r#"{"messages": [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "", "reasoning_content": "hm",
            "tool_calls": [{"type": "function", "function": {"name": "search", "arguments": {"q": 1}}}]}],
            "tools": [{"type": "function", "function": {"name": "search"}}]}"#;
        let line = row.replace('\n', " ");
        std::fs::write(&path, format!("{line}\n{line}\n")).unwrap();
        assert!(holds_chat_rows(&path).unwrap());
        let texts: Vec<String> = chat_texts(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(texts.len(), 2);
        for piece in [
            "user\nwho?\n",
            "assistant\nhm\n",
            "{\"name\": \"search\", \"arguments\": {\"q\":1}}",
            "\"type\":\"function\"",
        ] {
            assert!(texts[0].contains(piece), "{piece:?} in {:?}", texts[0]);
        }
        std::fs::write(&path, "{\"docid\": \"1\", \"text\": \"x\"}\n").unwrap();
        assert!(!holds_chat_rows(&path).unwrap());
        let error = chat_texts(&path).unwrap().next().unwrap().unwrap_err().to_string();
        assert!(error.contains("rows.jsonl:1"), "{error}");
    }
}
