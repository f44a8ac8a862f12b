//! Chat completions: the shapes of answers, whole and streamed.

use crate::mock::{CACHED, END};
use crate::wire::Running;
use legwork_edge::model_server::{ModelServerConfig, Reasoning};
use serde_json::{Value, json};

const PATH: &str = "/v1/chat/completions";

fn ask(text: &str, extra: Value) -> Value {
    let mut body = json!({"model": "mock/a", "messages": [{"role": "user", "content": text}]});
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])
}

/// What the deltas of a choice come to.
fn told(events: &[Value], index: u64, field: &str) -> String {
    let choices = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
    choices.filter(|choice| choice["index"] == index).filter_map(|choice| choice["delta"][field].as_str()).collect()
}

#[tokio::test]
async fn a_whole_answer_has_openais_shape() {
    let server = Running::start(ModelServerConfig::default());
    let body = server.ok(PATH, ask("say:héllo", json!({}))).await;
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(body["created"].as_u64().unwrap() > 1_700_000_000);
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("mock/a")));
    assert_eq!(
        body["choices"],
        json!([{"index": 0, "message": {"role": "assistant", "content": "héllo", "refusal": null}, "logprobs": null,
                "finish_reason": "stop", "stop_reason": null}])
    );
    let prompt = "say:héllo".len() + 1;
    assert_eq!(
        body["usage"],
        json!({"prompt_tokens": prompt, "completion_tokens": 7, "total_tokens": prompt + 7,
               "prompt_tokens_details": {"cached_tokens": CACHED}})
    );
}

#[tokio::test]
async fn a_stream_begins_with_the_role_and_ends_with_reason_usage_and_done() {
    let server = Running::start(ModelServerConfig::default());
    let extra = json!({"stream_options": {"include_usage": true}});
    let (events, is_done) = server.stream(PATH, ask("say:né", extra)).await;
    assert!(is_done);
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(told(&events, 0, "content"), "né");
    let [.., last, usage] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&last["choices"][0]["delta"], &last["choices"][0]["finish_reason"]), (&json!({}), &json!("stop")));
    assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(4)));
    for event in &events {
        assert_eq!((&event["object"], &event["id"]), (&json!("chat.completion.chunk"), &events[0]["id"]));
    }
    assert!(events[..events.len() - 1].iter().all(|event| event.get("usage") == Some(&Value::Null)));
    let (events, _) = server.stream(PATH, ask("say:x", json!({}))).await;
    assert!(events.iter().all(|event| event.get("usage").is_none()), "nobody asked for it");
}

#[tokio::test]
async fn length_and_stop_strings_are_told_and_stops_are_cut_off() {
    let server = Running::start(ModelServerConfig::default());
    let choice = |body: Value| body["choices"][0].clone();
    let cut = choice(server.ok(PATH, ask("say:abcdef", json!({"max_tokens": 3}))).await);
    assert_eq!((&cut["message"]["content"], &cut["finish_reason"]), (&json!("abc"), &json!("length")));
    let stopped = choice(server.ok(PATH, ask("say:abcdef", json!({"stop": ["x", "de"]}))).await);
    assert_eq!((&stopped["message"]["content"], &stopped["finish_reason"]), (&json!("abc"), &json!("stop")));
    assert_eq!(stopped["stop_reason"], "de");
    let own = choice(server.ok(PATH, ask("say:a", json!({"stop_token_ids": [END]}))).await);
    assert_eq!(own["stop_reason"], END);
}

#[tokio::test]
async fn several_choices_draw_with_seeds_of_their_own() {
    let server = Running::start(ModelServerConfig::default());
    let body = server.ok(PATH, ask("seed", json!({"n": 3, "seed": 7}))).await;
    let said: Vec<&str> =
        body["choices"].as_array().unwrap().iter().map(|c| c["message"]["content"].as_str().unwrap()).collect();
    assert_eq!((said.len(), said[0]), (3, "7"));
    assert!(said[1] != said[2] && said[1] != "7", "{said:?}");
    assert_eq!(body["usage"]["prompt_tokens"], 5, "one prompt counts once");
    assert_eq!(body["usage"]["completion_tokens"], said.iter().map(|text| text.len() + 1).sum::<usize>());
    let (events, _) = server.stream(PATH, ask("seed", json!({"n": 3, "seed": 7}))).await;
    let streamed: Vec<String> = (0..3).map(|index| told(&events, index, "content")).collect();
    assert_eq!(streamed, said, "whole and streamed are the same");
}

#[tokio::test]
async fn logprobs_have_the_chat_form_whole_and_streamed() {
    let server = Running::start(ModelServerConfig::default());
    let extra = json!({"logprobs": true, "top_logprobs": 2});
    let whole = server.ok(PATH, ask("say:é", extra.clone())).await["choices"][0]["logprobs"]["content"].clone();
    assert_eq!(whole.as_array().unwrap().len(), 3, "two bytes and the end");
    assert_eq!(
        whole[0],
        json!({"token": "bytes:\\xc3", "logprob": -0.25, "bytes": [0xc3], "top_logprobs": [
            {"token": "bytes:\\xc3", "logprob": -0.25, "bytes": [0xc3]},
            {"token": "bytes:\\xc4", "logprob": -1.25, "bytes": [0xc4]}]})
    );
    let (events, _) = server.stream(PATH, ask("say:é", extra)).await;
    let streamed: Vec<Value> = events
        .iter()
        .filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array().cloned())
        .flatten()
        .collect();
    assert_eq!(json!(streamed), whole, "none is lost where text lags behind its tokens");
}

#[tokio::test]
async fn calls_are_parsed_where_tools_are_offered() {
    let server = Running::start(ModelServerConfig::default());
    let said = "say:Look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"q\": \"é\"}}\n</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>";
    let body = server.ok(PATH, ask(said, json!({"tools": tools()}))).await;
    let choice = &body["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("tool_calls"), &json!("Look.")));
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["function"], json!({"name": "f", "arguments": "{\"q\":\"é\"}"}));
    assert!(calls[0]["id"] != calls[1]["id"] && calls[0]["type"] == "function");
    let (events, _) = server.stream(PATH, ask(said, json!({"tools": tools()}))).await;
    let deltas: Vec<Value> =
        events.iter().filter_map(|e| e["choices"][0]["delta"]["tool_calls"].get(0).cloned()).collect();
    assert_eq!((deltas.len(), &deltas[1]["index"], &deltas[1]["function"]["name"]), (2, &json!(1), &json!("g")));
    assert_eq!(told(&events, 0, "content"), "Look.");
    let one = server.ok(PATH, ask(said, json!({"tools": tools(), "parallel_tool_calls": false}))).await;
    assert_eq!(one["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_no_call_stays_text_and_so_do_calls_that_nobody_can_take() {
    let server = Running::start(ModelServerConfig::default());
    let broken = "<tool_call>{\"q\": \"a</tool_call> b";
    let body = server.ok(PATH, ask(&format!("say:{broken}"), json!({"tools": tools()}))).await;
    assert_eq!(
        (&body["choices"][0]["message"]["content"], &body["choices"][0]["finish_reason"]),
        (&json!(broken), &json!("stop"))
    );
    let call = "<tool_call>{\"name\":\"f\"}</tool_call>";
    let body = server.ok(PATH, ask(&format!("say:{call}"), json!({}))).await;
    assert_eq!(body["choices"][0]["message"]["content"], call);
    let only = server.ok(PATH, ask(&format!("say:{call}"), json!({"tools": tools()}))).await;
    assert_eq!(only["choices"][0]["message"]["content"], Value::Null);
}

#[tokio::test]
async fn thoughts_are_kept_or_split_as_configured_or_asked() {
    let said = "say:<think>\nhm\n</think>\n\nyes";
    let message = |body: Value| body["choices"][0]["message"].clone();
    let keeps = Running::start(ModelServerConfig::default());
    let kept = message(keeps.ok(PATH, ask(said, json!({}))).await);
    assert_eq!((&kept["content"], kept.get("reasoning_content")), (&json!("<think>\nhm\n</think>\n\nyes"), None));
    let asked = message(keeps.ok(PATH, ask(said, json!({"separate_reasoning": true}))).await);
    assert_eq!((&asked["content"], &asked["reasoning_content"]), (&json!("yes"), &json!("hm")));
    let splits = Running::start(ModelServerConfig { reasoning: Reasoning::Split, ..ModelServerConfig::default() });
    let (events, _) = splits.stream(PATH, ask(said, json!({}))).await;
    assert_eq!((told(&events, 0, "reasoning_content").as_str(), told(&events, 0, "content").as_str()), ("hm", "yes"));
    let within = json!({"chat_template_kwargs": {"in_thought": true}});
    let within = message(splits.ok(PATH, ask("say:hm\n</think>\n\nyes", within)).await);
    assert_eq!((&within["content"], &within["reasoning_content"]), (&json!("yes"), &json!("hm")));
}

#[tokio::test]
async fn a_call_within_a_thought_is_a_thought() {
    let server = Running::start(ModelServerConfig::default());
    let thought = "<think><tool_call>{\"name\":\"f\"}</tool_call></think>";
    let body = server.ok(PATH, ask(&format!("say:{thought}ok"), json!({"tools": tools()}))).await;
    assert_eq!(body["choices"][0]["message"]["content"], format!("{thought}ok"));
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn ids_are_told_where_asked_for() {
    let server = Running::start(ModelServerConfig::default());
    let body = server.ok(PATH, ask("say:a", json!({"return_token_ids": true}))).await;
    let prompt: Vec<u32> = "say:a".bytes().map(u32::from).chain([END]).collect();
    assert_eq!((&body["prompt_token_ids"], &body["choices"][0]["token_ids"]), (&json!(prompt), &json!([97, END])));
    let (events, _) = server.stream(PATH, ask("say:a", json!({"return_token_ids": true}))).await;
    assert_eq!(events[0]["prompt_token_ids"], json!(prompt));
    assert!(events[1..].iter().all(|event| event.get("prompt_token_ids").is_none()), "once");
    let streamed: Vec<Value> =
        events.iter().flat_map(|e| e["choices"][0]["token_ids"].as_array().unwrap().clone()).collect();
    assert_eq!(json!(streamed), json!([97, END]));
}

#[tokio::test]
async fn a_model_is_known_by_its_aliases_or_by_no_name() {
    let server = Running::start(ModelServerConfig::default());
    for model in [json!("mock/a"), json!("default"), json!(""), Value::Null] {
        let body = server.ok(PATH, ask("say:a", json!({ "model": model }))).await;
        assert_eq!(body["model"], "mock/a");
    }
    let answer = server.post(PATH, ask("say:a", json!({"model": "gpt-4"}))).await;
    assert_eq!((answer.status, answer.error().as_str()), (404, "there is no model \"gpt-4\" here; served are: mock/a"));
    assert_eq!(
        (&answer.json()["error"]["code"], &answer.json()["error"]["param"]),
        (&json!("model_not_found"), &json!("model"))
    );
}
