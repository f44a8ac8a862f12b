//! Our reader: calls count only after the thinking and outside code fences, values are trimmed, a call
//! that is not closed is a fault with its name, and a forgotten `</parameter>` costs nothing.

use super::{CALLS_MAX, Call, ReadFault, Reading, json};
use crate::message::ToolCall;
use serde_json::Value;
use std::borrow::Cow;

const OPEN: &str = "<function=";
const CLOSE: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_CLOSE: &str = "</parameter>";
const JSON_OPEN: &str = "<tool_call>";
const JSON_CLOSE: &str = "</tool_call>";
const THINK: &str = "<think>";
const THINK_CLOSE: &str = "</think>";

/// Openings looked at in one text; a flood of broken ones costs no more than this.
const SCANNED_MAX: usize = 4 * CALLS_MAX;

/// What may not follow a `<` within a rendered value; written with a backslash between.
const ESCAPED: [&str; 8] =
    ["/parameter>", "parameter=", "/function>", "function=", "/think>", "think>", "/tool_call>", "tool_call>"];

pub(super) fn read(text: &str, native: &[ToolCall]) -> Reading {
    let mut found = Found::default();
    if !native.is_empty() {
        for call in native {
            found.native(&call.name, json::arguments(&call.arguments));
        }
        return found.reading();
    }
    let answer = text.rfind(THINK_CLOSE).map_or(text, |at| &text[at + THINK_CLOSE.len()..]);
    if answer.contains(THINK) {
        return Reading { calls: Vec::new(), fault: Some(ReadFault::UnclosedThink) };
    }
    scan(answer, &mut found);
    found.reading()
}

pub(super) fn render(calls: &[Call]) -> String {
    let mut text = String::new();
    for call in calls {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{OPEN}{}>\n", call.name.replace('>', "")));
        for (key, value) in &call.arguments {
            text.push_str(&format!("{PARAMETER}{}>{}{PARAMETER_CLOSE}\n", key.replace('>', ""), escape(value)));
        }
        text.push_str(CLOSE);
    }
    text
}

/// What a scan has found so far. Only the first fault is kept: it is the one to mend first.
#[derive(Default)]
struct Found {
    calls: Vec<Call>,
    fault: Option<ReadFault>,
    fenced: Option<String>,
}

impl Found {
    fn call(&mut self, call: Call) {
        if self.calls.len() < CALLS_MAX {
            self.calls.push(call);
        } else {
            self.fault(ReadFault::TooMany { limit: CALLS_MAX });
        }
    }

    fn native(&mut self, name: &str, arguments: Result<Vec<(String, String)>, String>) {
        match arguments {
            Ok(mut arguments) => {
                for (_, value) in &mut arguments {
                    *value = value.trim().to_owned();
                }
                self.call(Call { name: bare(name), arguments });
            }
            Err(detail) => self.fault(ReadFault::BadArguments { name: bare(name), detail }),
        }
    }

    fn fault(&mut self, fault: ReadFault) {
        self.fault.get_or_insert(fault);
    }

    fn reading(self) -> Reading {
        let fault = match (self.fault, self.fenced) {
            (Some(fault), _) => Some(fault),
            (None, _) if !self.calls.is_empty() => None,
            (None, Some(name)) => Some(ReadFault::InCodeFence { name }),
            (None, None) => Some(ReadFault::NoCall),
        };
        Reading { calls: self.calls, fault }
    }
}

/// Walks the text from one call or code fence to the next.
fn scan(text: &str, found: &mut Found) {
    let mut at = 0;
    let mut fence = next_fence(text, 0);
    for scanned in 0.. {
        let Some((start, tag)) = next_tag(text, at, &[OPEN, JSON_OPEN]) else { return };
        if scanned == SCANNED_MAX {
            return found.fault(ReadFault::TooMany { limit: CALLS_MAX });
        }
        while fence.as_ref().is_some_and(|fence| fence.end <= start) {
            fence = fence.and_then(|fence| next_fence(text, fence.end));
        }
        if let Some(block) = fence.as_ref().filter(|block| block.start < start) {
            if found.fenced.is_none() && tag == OPEN {
                found.fenced = Some(name_at(&text[start + OPEN.len()..]).0);
            }
            at = block.end;
            continue;
        }
        if text[..start].ends_with('`') {
            at = start + tag.len();
            continue;
        }
        at = start + if tag == OPEN { xml_call(&text[start..], found) } else { json_call(&text[start..], found) };
        // A fence that the call just read went over was part of a value.
        if fence.as_ref().is_some_and(|fence| fence.start < at) {
            fence = next_fence(text, at);
        }
    }
}

/// Reads the call that the text begins with and returns how far it goes.
fn xml_call(text: &str, found: &mut Found) -> usize {
    let (name, head) = name_at(&text[OPEN.len()..]);
    let body = head.ok_or(OPEN.len()).and_then(|head| xml_arguments(text, OPEN.len() + head));
    match body {
        Ok((arguments, end)) => {
            found.call(Call { name, arguments });
            end
        }
        Err(end) => {
            found.fault(ReadFault::Unclosed { name });
            end
        }
    }
}

/// Reads arguments from `at` through the closing tag: them and the end; or, if the call breaks off, where
/// the next one may begin.
fn xml_arguments(text: &str, mut at: usize) -> Result<(Vec<(String, String)>, usize), usize> {
    let mut arguments = Vec::new();
    loop {
        let (start, tag) = next_tag(text, at, &[PARAMETER, CLOSE, PARAMETER_CLOSE, OPEN]).ok_or(text.len())?;
        match tag {
            CLOSE => return Ok((arguments, start + CLOSE.len())),
            PARAMETER => {
                let (key, value, end) = parameter(text, start)?;
                arguments.push((key, value));
                at = end;
            }
            // A closing tag without its opening one is a slip that costs nothing.
            PARAMETER_CLOSE => at = start + PARAMETER_CLOSE.len(),
            _ => return Err(start),
        }
    }
}

/// Reads the parameter at `start`: its name, its value and where reading goes on; or, if the call breaks
/// off within it, where the next call may begin.
fn parameter(text: &str, start: usize) -> Result<(String, String, usize), usize> {
    let (key, head) = name_at(&text[start + PARAMETER.len()..]);
    let value_start = start + PARAMETER.len() + head.ok_or(start + PARAMETER.len())?;
    let mut at = value_start;
    loop {
        let (end, tag) = next_tag(text, at, &[PARAMETER_CLOSE, PARAMETER, CLOSE, OPEN]).ok_or(text.len())?;
        if tag == OPEN {
            // Inside a value that is closed it is only text; otherwise a new call begins here.
            match next_tag(text, end + OPEN.len(), &[PARAMETER_CLOSE, PARAMETER, CLOSE, OPEN]) {
                Some((_, PARAMETER_CLOSE)) => at = end + OPEN.len(),
                _ => return Err(end),
            }
            continue;
        }
        let next = if tag == PARAMETER_CLOSE { end + tag.len() } else { end };
        return Ok((key, unescape(text[value_start..end].trim()).into_owned(), next));
    }
}

/// Reads a `<tool_call>` with a JSON body, and only the opening tag where anything else follows it: the
/// XML form is often wrapped so.
fn json_call(text: &str, found: &mut Found) -> usize {
    let body = &text[JSON_OPEN.len()..];
    if !body.trim_start().starts_with('{') {
        return JSON_OPEN.len();
    }
    let Some(length) = body.find(JSON_CLOSE) else {
        found.fault(ReadFault::Unclosed { name: "tool_call".into() });
        return text.len();
    };
    let end = JSON_OPEN.len() + length + JSON_CLOSE.len();
    let bad = |detail: String| ReadFault::BadArguments { name: "tool_call".into(), detail };
    match json::parse(&body[..length]) {
        Ok(Value::Object(mut map)) => match (map.remove("name"), map.remove("arguments")) {
            (Some(Value::String(name)), Some(Value::String(arguments))) => {
                found.native(&name, json::arguments(&arguments));
            }
            (Some(Value::String(name)), Some(Value::Object(arguments))) => found.native(&name, json::pairs(arguments)),
            (Some(Value::String(name)), None | Some(Value::Null)) => found.native(&name, Ok(Vec::new())),
            (Some(Value::String(name)), Some(_)) => {
                found.native(&name, Err("expected an object under \"arguments\"".into()));
            }
            _ => found.fault(bad("expected a string under \"name\"".into())),
        },
        Ok(_) => found.fault(bad("expected a JSON object".into())),
        Err(detail) => found.fault(bad(detail)),
    }
    end
}

/// A name up to `>`, and the length up to behind it: none if the line or the text ends first.
fn name_at(text: &str) -> (String, Option<usize>) {
    match text.find(['>', '\n', '<']) {
        Some(end) if text[end..].starts_with('>') => (bare(&text[..end]), Some(end + 1)),
        end => (bare(&text[..end.unwrap_or(text.len())]), None),
    }
}

/// A name without spaces and quotes around it.
fn bare(name: &str) -> String {
    let quoted = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '“' | '”');
    name.trim_matches(quoted).to_owned()
}

/// The first of some tags at or after `at`.
fn next_tag<'t>(text: &str, at: usize, tags: &[&'t str]) -> Option<(usize, &'t str)> {
    let mut from = at;
    while let Some(offset) = text[from..].find('<') {
        let start = from + offset;
        if let Some(tag) = tags.iter().find(|tag| text[start..].starts_with(**tag)) {
            return Some((start, tag));
        }
        from = start + 1;
    }
    None
}

struct Fence {
    start: usize,
    end: usize,
}

/// The first code fence that opens at a line start at or after `at`; one never closed goes to the end.
fn next_fence(text: &str, at: usize) -> Option<Fence> {
    let mut open: Option<(usize, char, usize)> = None;
    let at_line_start = at == 0 || text[..at].ends_with('\n');
    let mut start = if at_line_start { at } else { at + text[at..].find('\n')? + 1 };
    for line in text[start..].split_inclusive('\n') {
        let trimmed = line.trim();
        let mark = trimmed.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let length = mark.map_or(0, |mark| trimmed.chars().take_while(|c| *c == mark).count());
        match (open, mark) {
            (None, Some(mark)) if length >= 3 => open = Some((start, mark, length)),
            (Some((from, mark, opened)), Some(other))
                if other == mark && length >= opened && length == trimmed.len() =>
            {
                return Some(Fence { start: from, end: start + line.len() });
            }
            _ => {}
        }
        start += line.len();
    }
    open.map(|(from, ..)| Fence { start: from, end: text.len() })
}

/// Puts a backslash behind each `<` that would begin a tag of the grammar, and one more where a
/// backslash already stands there, so that [`unescape`] gives the value back.
fn escape(value: &str) -> Cow<'_, str> {
    rewrite(value, |slashes| Some(slashes + 1))
}

fn unescape(value: &str) -> Cow<'_, str> {
    rewrite(value, |slashes| slashes.checked_sub(1))
}

/// Changes the number of backslashes between `<` and a tag's rest.
fn rewrite(value: &str, change: impl Fn(usize) -> Option<usize>) -> Cow<'_, str> {
    let mut written = String::new();
    let mut copied = 0;
    for (at, _) in value.match_indices('<') {
        let after = &value[at + 1..];
        let word = after.trim_start_matches('\\');
        let slashes = after.len() - word.len();
        if !ESCAPED.iter().any(|tag| word.starts_with(tag)) {
            continue;
        }
        if let Some(slashes_new) = change(slashes) {
            written.push_str(&value[copied..=at]);
            written.extend(std::iter::repeat_n('\\', slashes_new));
            copied = at + 1 + slashes;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(value);
    }
    written.push_str(&value[copied..]);
    Cow::Owned(written)
}
