//! Shapes of answers, as issues of other harnesses report them.

use super::*;
use legwork_protocol::message::ToolCall;
use proptest::prelude::*;
use serde_json::json;

fn whole(body: Value) -> Result<Completion, Fault> {
    ChatReader::default().whole(body.to_string().as_bytes())
}

fn message(message: Value) -> Result<Completion, Fault> {
    whole(json!({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}))
}

fn stream(events: &[Value]) -> Result<Completion, Fault> {
    let mut reader = ChatReader::default();
    for event in events {
        reader.event(&event.to_string())?;
    }
    reader.finish()
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "finish_reason": null, "delta": delta}]})
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "finish_reason": reason, "delta": {}}]})
}

#[test]
fn null_content_with_reasoning_is_a_completion_with_empty_text() {
    for field in ["reasoning_content", "reasoning"] {
        let completion = message(json!({"role": "assistant", "content": null, field: "the answer is 4"})).unwrap();
        assert_eq!((completion.text.as_str(), completion.reasoning.as_deref()), ("", Some("the answer is 4")));
    }
}

#[test]
fn an_answer_with_nothing_in_it_is_an_empty_completion_and_not_tried_again() {
    for content in [json!(null), json!(""), json!([])] {
        let fault = message(json!({"content": content, "reasoning_content": ""})).unwrap_err();
        assert_eq!((fault.kind, fault.again), (FailureKind::EmptyCompletion, false));
    }
    let spent = json!({"usage": {"completion_tokens": 64},
        "choices": [{"finish_reason": "length", "message": {"content": ""}}]});
    assert!(whole(spent).unwrap_err().detail.contains("64 tokens were made and none shown"));
}

#[test]
fn reasoning_as_a_list_of_objects_is_read_as_its_text() {
    let details = json!([{"type": "reasoning.text", "text": "first"}, {"type": "reasoning.summary", "summary": "then"},
                         {"type": "reasoning.encrypted", "data": "zzz"}]);
    for field in ["reasoning", "reasoning_content", "reasoning_details"] {
        let completion = message(json!({"content": "x", field: details})).unwrap();
        assert_eq!(completion.reasoning.as_deref(), Some("first\nthen"), "{field}");
    }
    let parts =
        json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "4"}]);
    let completion = message(json!({"content": parts})).unwrap();
    assert_eq!((completion.text.as_str(), completion.reasoning.as_deref()), ("4", Some("hm")));
}

#[test]
fn reasoning_given_twice_is_counted_once() {
    let completion = message(json!({"content": "x", "reasoning": "hm", "reasoning_content": "hm"})).unwrap();
    assert_eq!(completion.reasoning.as_deref(), Some("hm"));
}

#[test]
fn an_error_body_under_200_and_empty_choices_are_bad_responses() {
    for (body, word) in [
        (json!({"error": {"message": "model is loading"}}), "model is loading"),
        (json!({"error": "model is loading", "choices": [{"message": {"content": "x"}}]}), "model is loading"),
        (json!({"choices": []}), "`choices` is empty"),
        (json!({"object": "chat.completion"}), "there are none"),
    ] {
        let fault = whole(body).unwrap_err();
        assert_eq!((fault.kind, fault.again), (FailureKind::BadResponse, false));
        assert!(fault.detail.contains(word), "{}", fault.detail);
    }
    let ok = json!({"error": null, "choices": [{"finish_reason": "stop", "message": {"content": "x"}}]});
    assert_eq!(whole(ok).unwrap().text, "x");
}

#[test]
fn tool_calls_are_read_as_sent_even_where_their_arguments_are_cut() {
    let calls = json!([{"id": "a", "function": {"name": "search", "arguments": "{\"q\": \"a"}},
                       {"function": {"name": "open", "arguments": {"id": 1}}}]);
    let completion = message(json!({"content": null, "tool_calls": calls})).unwrap();
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    assert_eq!(completion.tool_calls, [call("a", "search", "{\"q\": \"a"), call("call_1", "open", "{\"id\":1}")]);
}

#[test]
fn a_tool_call_without_a_name_and_too_many_calls_are_refused() {
    assert!(message(json!({"tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]})).is_err());
    let many: Vec<_> = (0..300).map(|n| json!({"id": n.to_string(), "function": {"name": "f"}})).collect();
    assert!(message(json!({"tool_calls": many})).unwrap_err().detail.contains("at most 256"));
}

#[test]
fn streamed_fragments_of_calls_are_merged_by_index() {
    let completion = stream(&[
        delta(json!({"role": "assistant", "content": null})),
        delta(json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "open", "arguments": ""}}]})),
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "search", "arguments": "{\"q\""}}]})),
        delta(json!({"tool_calls": [{"index": 0, "id": "", "function": {"name": "search", "arguments": ":1}"}},
                                    {"index": 1, "id": "another", "function": {"arguments": "{}"}}]})),
        end("tool_calls"),
    ])
    .unwrap();
    let told: Vec<_> = completion.tool_calls.iter().map(|c| (&*c.id, &*c.name, &*c.arguments)).collect();
    assert_eq!(told, [("a", "search", "{\"q\":1}"), ("b", "open", "{}")]);
    assert_eq!(completion.finish, FinishReason::ToolCalls);
}

#[test]
fn fragments_without_an_index_belong_to_the_call_of_their_id_or_the_last() {
    let completion = stream(&[
        delta(json!({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "1"}}]})),
        delta(json!({"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": "2"}}]})),
        delta(json!({"tool_calls": [{"function": {"arguments": "3"}}]})),
        delta(json!({"tool_calls": [{"id": "a", "function": {"arguments": "4"}}]})),
        delta(json!({"tool_calls": [{"function": {"name": "h", "arguments": "5"}}, {"function": {"name": "h"}}]})),
        delta(json!({"tool_calls": [{"function": {"name": "", "arguments": "6"}}]})),
        end("tool_calls"),
    ])
    .unwrap();
    let told: Vec<_> = completion.tool_calls.iter().map(|c| (&*c.id, &*c.arguments)).collect();
    assert_eq!(told, [("a", "14"), ("b", "23"), ("call_2", "5"), ("call_3", "6")]);
}

#[test]
fn a_stream_is_put_together_with_its_usage_from_the_last_event() {
    let completion = stream(&[
        delta(json!({"reasoning_content": "h"})),
        delta(json!({"reasoning_content": "m"})),
        delta(json!({"content": "fo"})),
        delta(json!({"content": "ur"})),
        end("length"),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 8}}}),
    ])
    .unwrap();
    assert_eq!((completion.text.as_str(), completion.reasoning.as_deref()), ("four", Some("hm")));
    assert_eq!(completion.finish, FinishReason::Length);
    assert_eq!(completion.usage, Usage { prompt_tokens: 9, cached_tokens: 8, completion_tokens: 4 });
}

#[test]
fn an_error_event_and_an_aborted_answer_are_tried_again_where_they_may_pass() {
    let fault =
        stream(&[delta(json!({"content": "a"})), json!({"error": {"message": "cuda", "code": 503}})]).unwrap_err();
    assert_eq!((fault.kind, fault.again, fault.overload), (FailureKind::ServerError, true, true));
    let fault = stream(&[delta(json!({"content": "a"})), end("abort")]).unwrap_err();
    assert_eq!((fault.kind, fault.again), (FailureKind::ServerError, true));
}

#[test]
fn a_filtered_answer_is_kept_if_something_is_left_of_it() {
    let kept = stream(&[delta(json!({"content": "a"})), end("content_filter")]).unwrap();
    assert_eq!(kept.finish, FinishReason::ContentFilter);
    assert_eq!(stream(&[end("content_filter")]).unwrap_err().kind, FailureKind::Refused);
}

#[test]
fn a_text_completion_and_token_ids_are_read_where_the_server_gives_them() {
    let body = json!({"prompt_token_ids": [1, 2], "choices": [
        {"index": 0, "text": "hi", "finish_reason": "stop", "token_ids": [7, 8]}]});
    let completion = whole(body).unwrap();
    let ids = completion.ids.unwrap();
    assert_eq!((completion.text.as_str(), ids.prompt, ids.completion), ("hi", vec![1, 2], vec![7, 8]));
}

#[test]
fn lone_surrogates_a_bom_and_nul_do_not_lose_an_answer() {
    let body =
        b"\xef\xbb\xbf{\"choices\":[{\"finish_reason\":\"stop\",\"message\":{\"content\":\"a\\ud83d\\u0000b\"}}]}";
    assert_eq!(ChatReader::default().whole(body).unwrap().text, "a\u{fffd}\0b");
    let mut reader = ChatReader::default();
    for half in ["\\ud83d", "\\ude00"] {
        reader.event(&format!("{{\"choices\":[{{\"delta\":{{\"content\":\"{half}\"}}}}]}}")).unwrap();
    }
    reader.event(&end("stop").to_string()).unwrap();
    assert_eq!(reader.finish().unwrap().text, "\u{1f600}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        "choices|message|delta|content|text|tool_calls|function|name|arguments|index|id|usage|error|code|finish_reason",
        "reasoning|reasoning_content|type|prompt_tokens|token_ids",
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_body_panics(body in any_json(), bytes: Vec<u8>) {
        let _ = whole(body.clone());
        let _ = stream(&[body]);
        let _ = ChatReader::default().whole(&bytes);
    }

    #[test]
    fn a_cut_body_is_never_a_completion(at in 0_usize..110) {
        let body = r#"{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"the whole answer"}}]}"#;
        let cut = &body[..at.min(body.len() - 1)];
        let fault = ChatReader::default().whole(cut.as_bytes()).unwrap_err();
        prop_assert_eq!((fault.kind, fault.again), (FailureKind::BadResponse, true));
    }
}
