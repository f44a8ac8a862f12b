//! Completions: prompts in every form, echo, log-probabilities in parallel lists.

use crate::mock::END;
use crate::wire::Running;
use legwork_edge::model_server::ModelServerConfig;
use serde_json::{Value, json};

const PATH: &str = "/v1/completions";

#[tokio::test]
async fn a_text_is_continued_whole_and_streamed() {
    let server = Running::start(ModelServerConfig::default());
    let body = server.ok(PATH, json!({"prompt": "say:héllo", "max_tokens": 4})).await;
    assert!(body["id"].as_str().unwrap().starts_with("cmpl-"));
    assert_eq!(body["object"], "text_completion");
    assert_eq!(
        body["choices"],
        json!([{"index": 0, "text": "hél", "logprobs": null, "finish_reason": "length", "stop_reason": null}])
    );
    let ask = json!({"prompt": "say:héllo", "max_tokens": 4, "stream_options": {"include_usage": true}});
    let (events, is_done) = server.stream(PATH, ask).await;
    let text: String = events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!((text.as_str(), is_done), ("hél", true));
    assert_eq!(events.last().unwrap()["usage"]["completion_tokens"], 4);
    assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn prompts_times_n_are_choices_in_order() {
    let server = Running::start(ModelServerConfig::default());
    let ids: Vec<u32> = "say:b".bytes().map(u32::from).collect();
    let body = server.ok(PATH, json!({"prompt": ["say:a", ids], "n": 2})).await;
    let told: Vec<(u64, &str)> = body["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| (choice["index"].as_u64().unwrap(), choice["text"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [(0, "a"), (1, "a"), (2, "b"), (3, "b")]);
    assert_eq!((&body["usage"]["prompt_tokens"], &body["usage"]["completion_tokens"]), (&json!(10), &json!(8)));
    let (events, _) = server.stream(PATH, json!({"prompt": ["say:a", "say:b"]})).await;
    let of = |index: u64| -> String {
        let choices = events.iter().map(|event| &event["choices"][0]).filter(|choice| choice["index"] == index);
        choices.filter_map(|choice| choice["text"].as_str()).collect()
    };
    assert_eq!((of(0).as_str(), of(1).as_str()), ("a", "b"));
}

#[tokio::test]
async fn an_echo_comes_before_the_answer_with_its_logprobs() {
    let server = Running::start(ModelServerConfig::default());
    let ids: Vec<u32> = "say:x".bytes().map(u32::from).collect();
    for prompt in [json!("say:x"), json!(ids)] {
        let ask = json!({"prompt": prompt, "echo": true, "logprobs": 1, "max_tokens": 1});
        let choice = server.ok(PATH, ask.clone()).await["choices"][0].clone();
        assert_eq!(choice["text"], "say:xx");
        let lists = &choice["logprobs"];
        assert_eq!(lists["tokens"], json!(["s", "a", "y", ":", "x", "x"]));
        assert_eq!(lists["token_logprobs"], json!([null, -0.25, -0.25, -0.25, -0.25, -0.25]));
        assert_eq!(lists["text_offset"], json!([0, 1, 2, 3, 4, 5]));
        assert_eq!((&lists["top_logprobs"][0], &lists["top_logprobs"][5]), (&Value::Null, &json!({"x": -0.25})));
        let (events, _) = server.stream(PATH, ask).await;
        let streamed = |field: &str| -> Vec<Value> {
            events
                .iter()
                .filter_map(|event| event["choices"][0]["logprobs"][field].as_array().cloned())
                .flatten()
                .collect()
        };
        assert_eq!(
            (json!(streamed("tokens")), json!(streamed("text_offset"))),
            (lists["tokens"].clone(), lists["text_offset"].clone())
        );
    }
    let plain = server.ok(PATH, json!({"prompt": "say:x", "echo": true, "max_tokens": 1})).await;
    assert_eq!(plain["choices"][0]["text"], "say:xx");
}

#[tokio::test]
async fn a_prompt_can_be_scored_without_an_answer() {
    let server = Running::start(ModelServerConfig::default());
    let ask = json!({"prompt": "ab", "echo": true, "logprobs": 0, "max_tokens": 0});
    let choice = server.ok(PATH, ask).await["choices"][0].clone();
    assert_eq!((&choice["text"], &choice["logprobs"]["tokens"]), (&json!("ab"), &json!(["a", "b"])));
    assert_eq!(choice["logprobs"]["top_logprobs"], json!([null, {"b": -0.25}]), "the drawn token is always told");
}

#[tokio::test]
async fn ids_are_told_where_asked_for() {
    let server = Running::start(ModelServerConfig::default());
    let body = server.ok(PATH, json!({"prompt": "say:a", "return_token_ids": true})).await;
    let prompt: Vec<u32> = "say:a".bytes().map(u32::from).collect();
    assert_eq!(body["choices"][0]["prompt_token_ids"], json!(prompt));
    assert_eq!(body["choices"][0]["token_ids"], json!([97, END]));
}
