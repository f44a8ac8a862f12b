//! Finds tool calls of the Hermes form, `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, in text as it comes. What is
//! no such call stays text, letter for letter.
//!
//! Qwen's and Hermes' templates ask models for this form.

use super::thoughts::beginning_of;
use serde_json::Value;

/// Opens a call.
const OPEN: &str = "<tool_call>";
/// Ends a call.
const CLOSE: &str = "</tool_call>";

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Text.
    Text(String),
    /// A call.
    Call(Call),
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// JSON as text.
    pub(super) arguments: String,
}

/// The state between two pieces of text.
#[derive(Debug, Default)]
pub(super) struct Calls {
    held: String,
    /// White space and tag before the call that is being read; none outside of one.
    opened: Option<String>,
    /// Where to look on for the end of a call: no end that counts begins before.
    looked_to: usize,
    count: usize,
}

impl Calls {
    /// Takes the next piece.
    pub(super) fn push(&mut self, text: &str) -> Vec<Heard> {
        self.held.push_str(text);
        let mut heard = Vec::new();
        while match self.opened {
            None => self.outside(&mut heard),
            Some(_) => self.inside(&mut heard),
        } {}
        heard
    }

    /// What was held back when the answer ended: a call that lacks only its end is one; white space after calls is none.
    pub(super) fn finish(&mut self) -> Vec<Heard> {
        let mut heard = Vec::new();
        while self.opened.is_some() {
            match read(&self.held) {
                Ok(call) => {
                    self.held.clear();
                    self.close(call, &mut heard);
                }
                Err(_) => {
                    let end = self.held.find(CLOSE).map_or(self.held.len(), |at| at + CLOSE.len());
                    self.give_back(end, &mut heard);
                    heard.extend(self.push(""));
                }
            }
        }
        let rest = std::mem::take(&mut self.held);
        if !(rest.is_empty() || self.count > 0 && rest.trim().is_empty()) {
            heard.push(Heard::Text(rest));
        }
        heard
    }

    fn outside(&mut self, heard: &mut Vec<Heard>) -> bool {
        if let Some(at) = self.held.find(OPEN) {
            let text = self.held[..at].trim_end().len();
            let rest = self.held.split_off(at + OPEN.len());
            let opened = self.held.split_off(text);
            say(std::mem::replace(&mut self.held, rest), heard);
            (self.opened, self.looked_to) = (Some(opened), 0);
            return true;
        }
        let safe = self.held.len() - beginning_of(OPEN, &self.held);
        let safe = self.held[..safe].trim_end().len();
        let rest = self.held.split_off(safe);
        say(std::mem::replace(&mut self.held, rest), heard);
        false
    }

    fn inside(&mut self, heard: &mut Vec<Heard>) -> bool {
        let Some(at) = self.held[self.looked_to..].find(CLOSE).map(|at| self.looked_to + at) else {
            let seen = self.held.len().saturating_sub(CLOSE.len());
            self.looked_to = self.held.floor_char_boundary(seen).max(self.looked_to);
            return false;
        };
        let end = at + CLOSE.len();
        match read(&self.held[..at]) {
            Ok(call) => {
                self.held.drain(..end);
                self.close(call, heard);
            }
            // The tag may stand within a string of the arguments.
            Err(Unread::Unfinished) => self.looked_to = end,
            Err(Unread::Wrong) => {
                let first = self.held.find(CLOSE).map_or(end, |at| at + CLOSE.len());
                self.give_back(first, heard);
            }
        }
        true
    }

    fn close(&mut self, call: Call, heard: &mut Vec<Heard>) {
        self.opened = None;
        self.count += 1;
        heard.push(Heard::Call(call));
    }

    /// Makes what looked like a call text again, up to `end`.
    fn give_back(&mut self, end: usize, heard: &mut Vec<Heard>) {
        let mut text = self.opened.take().unwrap_or_default();
        let rest = self.held.split_off(end);
        text.push_str(&std::mem::replace(&mut self.held, rest));
        say(text, heard);
    }
}

fn say(text: String, heard: &mut Vec<Heard>) {
    if !text.is_empty() {
        heard.push(Heard::Text(text));
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Unread {
    /// JSON that goes on.
    Unfinished,
    /// No call.
    Wrong,
}

fn read(text: &str) -> Result<Call, Unread> {
    let value: Value = serde_json::from_str(text).map_err(|error| match error.is_eof() {
        true => Unread::Unfinished,
        false => Unread::Wrong,
    })?;
    let name = value.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()).ok_or(Unread::Wrong)?;
    let arguments = match value.get("arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        // Some models write the arguments as the text that they become.
        Some(Value::String(text)) => text.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(_) => return Err(Unread::Wrong),
    };
    Ok(Call { name: name.to_owned(), arguments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is heard in these pieces, neighbouring texts joined.
    fn hear<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Vec<Heard> {
        let mut calls = Calls::default();
        let mut heard: Vec<Heard> = pieces.into_iter().flat_map(|piece| calls.push(piece)).collect();
        heard.extend(calls.finish());
        let mut joined: Vec<Heard> = Vec::new();
        for next in heard {
            match (joined.last_mut(), next) {
                (Some(Heard::Text(text)), Heard::Text(more)) => text.push_str(&more),
                (_, next) => joined.push(next),
            }
        }
        joined
    }

    fn call(name: &str, arguments: &str) -> Heard {
        Heard::Call(Call { name: name.into(), arguments: arguments.into() })
    }

    fn text(text: &str) -> Heard {
        Heard::Text(text.into())
    }

    #[test]
    fn calls_are_found_between_text() {
        let answer = "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"q\": 1}}\n</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>\n";
        assert_eq!(hear([answer]), [text("I look."), call("f", "{\"q\":1}"), call("g", "{}")]);
    }

    #[test]
    fn what_is_no_call_stays_text_letter_for_letter() {
        for answer in [
            "a \n<tool_call>{\"q\": \"a</tool_call> b",
            "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
            "<tool_call>{\"name\": \"\"}</tool_call>",
            "<tool_call>\nnothing",
            "<tool_call",
            "a < b \n ",
            "<tool_call></tool_call>",
        ] {
            assert_eq!(hear([answer]), [text(answer)], "{answer:?}");
        }
    }

    #[test]
    fn a_call_after_a_broken_one_is_heard() {
        let broken = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"q\": \"a}\n</tool_call>";
        let answer = format!("{broken}\n<tool_call>{{\"name\":\"g\"}}</tool_call>");
        assert_eq!(hear([answer.as_str()]), [text(broken), call("g", "{}")]);
    }

    #[test]
    fn an_end_tag_in_a_string_does_not_end_a_call_and_a_missing_one_is_forgiven() {
        let inner = "{\"name\":\"f\",\"arguments\":{\"q\":\"</tool_call>\"}}";
        let arguments = "{\"q\":\"</tool_call>\"}";
        assert_eq!(hear([format!("<tool_call>{inner}</tool_call>").as_str()]), [call("f", arguments)]);
        assert_eq!(hear([format!("<tool_call>{inner}").as_str()]), [call("f", arguments)]);
        assert_eq!(hear(["<tool_call>{\"name\":\"f\",\"arguments\":\"{}\"}</tool_call>"]), [call("f", "{}")]);
    }

    #[test]
    fn text_before_a_call_is_told_at_once() {
        let mut calls = Calls::default();
        assert_eq!(calls.push("ab <to"), [text("ab")]);
        assert_eq!(calls.push("day"), [text(" <today")]);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_and_nothing_is_lost(
            words in prop::collection::vec(prop::sample::select(vec![
                "<tool_call>", "</tool_call>", "{\"name\":\"f\"}", "{\"name\":\"f\",\"arguments\":{\"q\":\"", "\"}}", "\n", "é", "<", "a ",
            ]), 0..9),
            size in 1usize..6,
        ) {
            let answer = words.concat();
            let letters: Vec<char> = answer.chars().collect();
            let pieces: Vec<String> = letters.chunks(size).map(|piece| piece.iter().collect()).collect();
            let whole = hear([answer.as_str()]);
            prop_assert_eq!(&whole, &hear(pieces.iter().map(String::as_str)));
            if !whole.iter().any(|heard| matches!(heard, Heard::Call(_))) {
                let said = whole.iter().map(|heard| match heard { Heard::Text(text) => text.as_str(), Heard::Call(_) => "" });
                prop_assert_eq!(said.collect::<String>(), answer);
            }
        }
    }
}
