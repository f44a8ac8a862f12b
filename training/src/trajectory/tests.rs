use super::*;
use crate::jsonl::Row;
use legwork_protocol::message::{Message, Role, ToolCall};
use serde_json::{Value, json};

fn row(messages: Value) -> ChatRow {
    serde_json::from_value(json!({ "messages": messages })).unwrap()
}

fn fault(messages: Value) -> String {
    let fault = row(messages).check().unwrap_err();
    format!("{} {}", fault.field, fault.problem)
}

#[test]
fn only_unmasked_assistant_messages_are_in_the_loss() {
    let row = row(json!([
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "a", "step_loss_mask": 1},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
        {"role": "tool", "content": "o", "tool_call_id": "c"},
        {"role": "assistant", "content": "b", "step_loss_mask": 0},
    ]));
    row.check().unwrap();
    let supervised: Vec<bool> = (0..6).map(|place| row.is_supervised(place)).collect();
    assert_eq!(supervised, [false, true, true, false, false, false]);
    assert_eq!(row.supervised(), 2);
}

#[test]
fn marks_on_the_wrong_message_are_refused_with_their_place() {
    for (message, said) in [
        (
            json!({"role": "user", "content": "", "step_loss_mask": 1}),
            "messages[1].step_loss_mask belongs to assistant messages, this one is of user: remove it",
        ),
        (
            json!({"role": "assistant", "content": "", "step_loss_mask": 2}),
            "messages[1].step_loss_mask must be 0 or 1, got 2",
        ),
        (json!({"role": "user", "content": "", "reasoning_content": "r"}), "messages[1].reasoning_content belongs"),
        (json!({"role": "user", "content": "", "tool_call_id": "r"}), "messages[1].tool_call_id belongs to tool"),
        (
            json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 3}}]}),
            "messages[1].tool_calls[0].function.arguments must be an object",
        ),
    ] {
        let got = fault(json!([{"role": "assistant", "content": "a"}, message]));
        assert!(got.starts_with(said), "{got}");
    }
    assert!(fault(json!([])).starts_with("messages must hold 1 to 4096 messages, got 0"));
}

#[test]
fn a_misspelled_mask_is_refused_and_columns_of_others_are_kept() {
    let misspelled = json!({"messages": [{"role": "assistant", "content": "a", "step_los_mask": 0}]});
    let refused = serde_json::from_value::<ChatRow>(misspelled).unwrap_err().to_string();
    assert!(refused.contains("unknown field `step_los_mask`"), "{refused}");
    let foreign = json!({
        "messages": [{"role": "assistant", "content": "a"}],
        "metadata": {"split": "train", "teacher": "t"},
        "uid": 7
    });
    let row: ChatRow = serde_json::from_value(foreign.clone()).unwrap();
    assert_eq!(row.metadata.split.as_deref(), Some("train"));
    assert_eq!(serde_json::to_value(&row).unwrap(), foreign);
}

#[test]
fn tools_are_read_as_a_list_or_as_its_text() {
    let read = |tools: Value| {
        let row = json!({"messages": [{"role": "assistant", "content": "a"}], "tools": tools, "metadata": null});
        serde_json::from_value::<ChatRow>(row).map(|row| row.tools.len()).map_err(|error| error.to_string())
    };
    assert_eq!(read(json!([{"type": "function"}])), Ok(1));
    assert_eq!(read(json!("[{\"type\": \"function\"}]")), Ok(1));
    assert_eq!((read(json!(null)), read(json!(""))), (Ok(0), Ok(0)));
    assert!(read(json!("{")).unwrap_err().contains("holds no json list"));
    assert!(read(json!(3)).unwrap_err().contains("must be a list, got a number"));
}

#[test]
fn content_in_parts_is_refused_with_the_cure() {
    let parts = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}]});
    let refused = serde_json::from_value::<ChatRow>(parts).unwrap_err().to_string();
    assert!(refused.contains("join the text parts"), "{refused}");
}

#[test]
fn a_message_of_a_run_keeps_its_calls_even_where_they_were_cut() {
    let call = |arguments: &str| ToolCall { id: "c1".into(), name: "search".into(), arguments: arguments.into() };
    let tool_calls = vec![call(r#"{"q":"x"}"#), call(r#"{"q": "a"#)];
    let said = Message { reasoning: Some("r".into()), tool_calls, ..Message::new(Role::Assistant, "t") };
    let written = serde_json::to_value(ChatMessage::from(&said)).unwrap();
    assert_eq!(
        written,
        json!({
            "role": "assistant", "content": "t", "reasoning_content": "r",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": {"q": "x"}}},
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{\"q\": \"a"}},
            ]
        })
    );
}

fn span(why: Why) -> Span {
    let kind = if why == Why::Injected { SpanKind::Injected } else { SpanKind::Sampled };
    Span {
        actor: "worker/0".into(),
        turn: 0,
        kind,
        ids: vec![5, 6],
        logprobs: vec![],
        masked: why != Why::Sampled,
        why,
    }
}

#[test]
fn a_token_row_counts_what_is_in_the_loss() {
    let spans = vec![span(Why::Sampled), span(Why::Injected), span(Why::WrongConclusion)];
    let row = IdRow { prompt_ids: vec![1], spans, metadata: Metadata::default() };
    row.check().unwrap();
    assert_eq!((row.ids(), row.supervised()), (7, 2));
    let line = serde_json::to_string(&row).unwrap();
    assert!(line.contains(r#""kind":"injected","ids":[5,6],"masked":true,"why":"injected""#), "{line}");
    assert_eq!(serde_json::from_str::<IdRow>(&line).unwrap(), row);
}

#[test]
fn spans_that_contradict_themselves_are_refused() {
    let fault = |change: fn(&mut Span)| {
        let mut odd = span(Why::Sampled);
        change(&mut odd);
        let row = IdRow { prompt_ids: vec![1], spans: vec![span(Why::Sampled), odd], metadata: Metadata::default() };
        let fault = row.check().unwrap_err();
        format!("{} {}", fault.field, fault.problem)
    };
    assert!(fault(|span| span.ids.clear()).starts_with("spans[1].ids is empty"));
    assert!(fault(|span| span.masked = true).starts_with("spans[1].masked is true and `why` says otherwise"));
    assert!(fault(|span| span.kind = SpanKind::Injected).starts_with("spans[1].why does not fit"));
    assert!(fault(|span| span.logprobs = vec![-1.0]).starts_with("spans[1].logprobs must be one for each of 2 ids"));
    assert!(fault(|span| span.logprobs = vec![-1.0, f32::NAN]).starts_with("spans[1].logprobs must be finite"));
}
