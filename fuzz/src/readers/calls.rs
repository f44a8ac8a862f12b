//! The two readers of calls: any text gives calls or a fault, never more calls than the limit, and what is rendered from
//! calls reads as the same calls, where the grammar can say them at all.

use super::text;
use legwork_protocol::call::{CALLS_MAX, Call, Grammar, Reading, last_function, last_part};
use legwork_protocol::message::ToolCall;

pub fn foldagent(bytes: &[u8]) {
    let text = text(bytes);
    let reading = Grammar::Foldagent.read(&text, &[]);
    holds(&reading);
    if let Some(call) = last_function(&text) {
        assert!(text.contains(&format!("<function={}>", call.name)), "a name that is not in the text: {call:?}");
    }
    assert!(text.ends_with(last_part(&text)), "the last part is no end of the text");
    // JSON bodies have values that the XML form cannot hold; what was read from XML, it can.
    let is_xml = !text.contains("<tool_call>") && !text.contains("<answer>");
    if is_xml && reading.calls.len() < CALLS_MAX {
        let rendered = Grammar::Foldagent.render(&reading.calls);
        assert_eq!(Grammar::Foldagent.read(&rendered, &[]).calls, reading.calls, "rendered: {rendered}");
    }
}

pub fn strict(bytes: &[u8]) {
    let text = text(bytes);
    let reading = Grammar::Strict.read(&text, &[]);
    holds(&reading);
    comes_back(&reading.calls);
}

/// Native calls: the bytes are the arguments that a server sent.
pub fn native(bytes: &[u8]) {
    let arguments = text(bytes);
    let (name, _) = super::first_line(&arguments);
    for name in ["search", "visit", "finish", name] {
        let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments: arguments.to_string() };
        holds(&Grammar::Foldagent.read("", std::slice::from_ref(&call)));
        let reading = Grammar::Strict.read("", std::slice::from_ref(&call));
        holds(&reading);
        comes_back(&reading.calls);
    }
}

fn holds(reading: &Reading) {
    assert!(reading.calls.len() <= CALLS_MAX, "{} calls", reading.calls.len());
    assert!(!reading.calls.is_empty() || reading.fault.is_some(), "neither a call nor a fault");
    if let Some(fault) = &reading.fault {
        assert!(!fault.to_string().is_empty());
    }
}

/// Names that the XML form can hold: what stands between `=` and `>` on one line, without quotes and spaces around.
fn can_be_written(call: &Call) -> bool {
    let plain = |name: &str| {
        let bare = name.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '“' | '”'));
        !name.is_empty() && bare == name && !name.contains(['<', '>', '\n'])
    };
    plain(&call.name) && call.arguments.iter().all(|(key, _)| plain(key))
}

fn comes_back(calls: &[Call]) {
    if calls.len() < CALLS_MAX && calls.iter().all(can_be_written) {
        let rendered = Grammar::Strict.render(calls);
        assert_eq!(Grammar::Strict.read(&rendered, &[]).calls, calls, "rendered: {rendered}");
    }
}
