//! What every answer of a request bears: its id, its time, its model; and the parts that the routes write alike: usage,
//! reasons to end, tokens as text.

use super::model::{Finish, Matched};
use legwork_protocol::generation::Usage;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

/// What stands for a log-probability of minus infinity, which JSON cannot write; OpenAI's and vLLM's number.
const LOGPROB_LEAST: f32 = -9999.0;

/// What an answer bears.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) id: Arc<str>,
    pub(super) created_s: u64,
    pub(super) model: Arc<str>,
}

/// The sum over a request's choices: the prompt counts once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
}

impl Total {
    /// Adds a choice; `is_first` of its prompt.
    pub(super) fn add(&mut self, usage: &Usage, is_first: bool) {
        if is_first {
            self.prompt_tokens += u64::from(usage.prompt_tokens);
            self.cached_tokens += u64::from(usage.cached_tokens);
        }
        self.completion_tokens += u64::from(usage.completion_tokens);
    }

    pub(super) fn json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": { "cached_tokens": self.cached_tokens },
        })
    }
}

/// OpenAI's reason; `abort` is vLLM's.
pub(super) fn reason(finish: &Finish) -> &'static str {
    match finish {
        Finish::Stop { .. } => "stop",
        Finish::Length => "length",
        Finish::Aborted { .. } => "abort",
    }
}

/// vLLM's `stop_reason`: the stop string or the stop id that was asked for; null for the model's own end.
pub(super) fn stop_reason(finish: &Finish, stop_ids: &[u32]) -> Value {
    match finish {
        Finish::Stop { matched: Some(Matched::Text(text)) } => json!(text),
        Finish::Stop { matched: Some(Matched::Token(id)) } if stop_ids.contains(id) => json!(id),
        _ => Value::Null,
    }
}

/// A log-probability that JSON can write.
pub(super) fn logprob(value: f32) -> f32 {
    if value.is_finite() { value } else { LOGPROB_LEAST }
}

/// A token as text; one that is part of a character as `bytes:\xe2\x80`, OpenAI's form.
pub(super) fn token_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
            text
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_is_told_by_its_bytes() {
        assert_eq!(token_text("é".as_bytes()), "é");
        assert_eq!(token_text(&[0xe2, 0x80]), "bytes:\\xe2\\x80");
        assert_eq!((logprob(-1.5), logprob(f32::NEG_INFINITY)), (-1.5, -9999.0));
    }

    #[test]
    fn the_stop_that_was_asked_for_is_told_and_the_models_own_end_is_not() {
        let at = |matched| Finish::Stop { matched: Some(matched) };
        assert_eq!(stop_reason(&at(Matched::Text("x".into())), &[]), json!("x"));
        assert_eq!(stop_reason(&at(Matched::Token(7)), &[7]), json!(7));
        assert_eq!(stop_reason(&at(Matched::Token(7)), &[]), Value::Null);
        assert_eq!((reason(&Finish::Length), stop_reason(&Finish::Length, &[])), ("length", Value::Null));
    }
}
