//! FoldAgent's two parsers (envs/local_search.py and agents/fold_agent.py at cc09646), quirk for quirk:
//! JSON tool bodies before XML, only the last group of XML calls, values as they stand. It judges nothing.

use super::python::{literal, trim};
use super::{CALLS_MAX, Call, ReadFault, Reading, json};
use crate::message::ToolCall;
use regex::Regex;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// Calls join a group while fewer newlines than this lie between them.
const GROUP_GAP_NEWLINES: usize = 4;
/// Entries that a JSON search shares out among its queries.
const JSON_TOPK_SHARED: usize = 10;
/// Entries of each query of a JSON search at least.
const JSON_TOPK_MIN: usize = 2;

static MARKER: LazyLock<Regex> = LazyLock::new(|| pattern(r"<\[[^\]]+\]>"));
static CALL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?ms)^[ \t]*<function=([^>]+)>(.*?)</function>"));
static FUNCTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"<function=([^>]+)>"));
static PARAMETER: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)<parameter=([^>]+)>(.*?)</parameter>"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this file are constants, and each is used by a test")
}

/// The main loop's parser, which only looks for `branch` and `return`: the last `<function=NAME>`
/// anywhere, also within thinking, whether closed or not, with all whole parameters after it.
pub fn last_function(text: &str) -> Option<Call> {
    let name = FUNCTION.captures_iter(text).last()?.get(1)?.as_str();
    let start = text.rfind(&format!("<function={name}>"))?;
    Some(Call { name: name.to_owned(), arguments: parameters(&text[start..]) })
}

/// A response without what comes before its last `<function=return>`, or else before its last
/// `<[…]>` marker: what the main line sees of a branch that did not return.
pub fn last_part(text: &str) -> &str {
    match text.rsplit_once("<function=return>") {
        Some((_, after)) => after,
        None => after_marker(text),
    }
}

pub(super) fn read(text: &str, native: &[ToolCall]) -> Reading {
    let mut calls = aligned(native.iter().map(|call| (call.name.clone(), object(&call.arguments))));
    if calls.is_empty() && (text.contains("<tool_call>") || text.contains("<answer>")) {
        calls = aligned(bodies(text).into_iter().filter_map(from_body));
    }
    if calls.is_empty() {
        calls = last_group(trim(after_marker(text)));
    }
    let fault = match calls.len() {
        0 => Some(ReadFault::NoCall),
        count if count > CALLS_MAX => Some(ReadFault::TooMany { limit: CALLS_MAX }),
        _ => None,
    };
    calls.truncate(CALLS_MAX);
    Reading { calls, fault }
}

pub(super) fn render(calls: &[Call]) -> String {
    let mut text = String::new();
    for call in calls {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("<function={}>\n", call.name));
        for (key, value) in &call.arguments {
            text.push_str(&format!("<parameter={key}>{value}</parameter>\n"));
        }
        text.push_str("</function>");
    }
    text
}

fn after_marker(text: &str) -> &str {
    MARKER.find_iter(text).last().map_or(text, |marker| &text[marker.end()..])
}

fn parameters(text: &str) -> Vec<(String, String)> {
    PARAMETER.captures_iter(text).map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

/// The calls at line starts, of which only the last run without a wide gap counts.
fn last_group(text: &str) -> Vec<Call> {
    let mut group = Vec::new();
    let mut last_end = None;
    for found in CALL.captures_iter(text) {
        let whole = found.get_match();
        let gap = last_end.map_or(0, |end: usize| text[end..whole.start()].matches('\n').count());
        if gap >= GROUP_GAP_NEWLINES {
            group.clear();
        }
        last_end = Some(whole.end());
        if group.len() <= CALLS_MAX {
            group.push(Call { name: found[1].to_owned(), arguments: parameters(&found[2]) });
        }
    }
    group
}

/// The bodies of `<tool_call>` and `<answer>`, each up to its own closing tag, in order.
fn bodies(text: &str) -> Vec<(bool, &str)> {
    const TAGS: [(&str, &str, bool); 2] = [("<tool_call>", "</tool_call>", true), ("<answer>", "</answer>", false)];
    let mut bodies = Vec::new();
    let mut at = 0;
    // A tag whose closing tag never comes is passed over, as a pattern with a back reference would.
    let mut never_closed = [false; 2];
    while bodies.len() <= CALLS_MAX {
        let next = (0..2)
            .filter(|&tag| !never_closed[tag])
            .filter_map(|tag| text[at..].find(TAGS[tag].0).map(|offset| (at + offset, tag)))
            .min();
        let Some((start, tag)) = next else { break };
        let (open, close, is_call) = TAGS[tag];
        let body = start + open.len();
        match text[body..].find(close) {
            Some(length) => {
                bodies.push((is_call, trim(&text[body..body + length])));
                at = body + length + close.len();
            }
            None => never_closed[tag] = true,
        }
    }
    bodies
}

fn from_body((is_call, body): (bool, &str)) -> Option<(String, Map<String, Value>)> {
    if !is_call {
        let answer = Map::from_iter([("answer".to_owned(), Value::from(body))]);
        return Some(("finish".to_owned(), answer));
    }
    let Value::Object(mut map) = loose_value(without_fence(body))? else { return None };
    let name = json::text_of(&map.remove("name")?).unwrap_or_else(|| "None".to_owned());
    match map.remove("arguments") {
        Some(Value::Object(arguments)) => Some((name, arguments)),
        _ => Some((name, Map::new())),
    }
}

/// Native arguments that are no object count as none, like those of a JSON body.
fn object(text: &str) -> Map<String, Value> {
    match loose_value(text) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn without_fence(body: &str) -> &str {
    if body.len() < 6 || !body.starts_with("```") || !body.ends_with("```") {
        return body;
    }
    let inner = &body[3..body.len() - 3];
    trim(inner.strip_prefix("json").unwrap_or(inner))
}

/// JSON, else a Python literal, else the same of the text from the first `{` to the last `}`.
fn loose_value(text: &str) -> Option<Value> {
    let either = |text: &str| json::parse(text).ok().or_else(|| literal(text));
    either(text).or_else(|| {
        let (start, end) = (text.find('{')?, text.rfind('}')?);
        either(text.get(start..=end)?)
    })
}

/// One call a query and one call an address: what JSON tools take as lists.
fn aligned(calls: impl Iterator<Item = (String, Map<String, Value>)>) -> Vec<Call> {
    let mut aligned = Vec::new();
    for (name, arguments) in calls {
        match name.as_str() {
            "search" => {
                let queries = elements(arguments.get("query"));
                let topk = (JSON_TOPK_SHARED / (queries.len() + 1)).max(JSON_TOPK_MIN).to_string();
                for query in queries.into_iter().take(CALLS_MAX + 1) {
                    aligned.push(Call::new("search", [("query", query), ("topk", topk.clone())]));
                }
            }
            "visit" => {
                for url in elements(arguments.get("url")).into_iter().take(CALLS_MAX + 1) {
                    aligned.push(Call::new("open_page", [("url", url)]));
                }
            }
            _ => {
                let texts = arguments.iter().filter_map(|(key, value)| Some((key.clone(), json::text_of(value)?)));
                aligned.push(Call { name: name.clone(), arguments: texts.collect() });
            }
        }
        if aligned.len() > CALLS_MAX {
            break;
        }
    }
    aligned
}

/// What Python's `for` gives: a list's elements, a dict's keys, and a string's characters one by one.
fn elements(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => items.iter().map(|item| json::text_of(item).unwrap_or_default()).collect(),
        Some(Value::Object(map)) => map.keys().cloned().collect(),
        Some(Value::String(text)) => text.chars().map(String::from).collect(),
        _ => Vec::new(),
    }
}
