//! Requests that misbehave: whatever comes, there is an answer in the one shape of errors, and the server lives.

use crate::wire::{Answer, Running, post};
use legwork_edge::model_server::ModelServerConfig;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

const PATHS: [&str; 7] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/generate",
    "/abort_request",
    "/tokenize",
    "/detokenize",
];
/// Fields that some route reads.
const FIELDS: [&str; 44] = [
    "model",
    "messages",
    "prompt",
    "input",
    "text",
    "input_ids",
    "sampling_params",
    "rid",
    "stream",
    "stream_options",
    "n",
    "best_of",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "stop",
    "stop_token_ids",
    "seed",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "presence_penalty",
    "response_format",
    "tools",
    "tool_choice",
    "chat_template_kwargs",
    "enable_thinking",
    "echo",
    "suffix",
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "encoding_format",
    "dimensions",
    "tokens",
    "abort_all",
    "role",
    "content",
    "type",
    "function",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        (-3i64..4).prop_map(|number| json!(number)),
        ".{0,12}".prop_map(Value::String),
        prop::sample::select(vec![
            "user",
            "assistant",
            "text",
            "auto",
            "none",
            "say:a",
            "function",
            "base64",
            "mock/a"
        ])
        .prop_map(|word| json!(word)),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((prop::sample::select(FIELDS.to_vec()), inner), 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

/// A right request with some fields replaced.
fn any_request() -> impl Strategy<Value = Value> {
    let right = json!({"messages": [{"role": "user", "content": "say:a"}], "prompt": "say:a", "input": "a", "text": "say:a",
        "tokens": [1], "rid": "r", "max_tokens": 3});
    prop::collection::vec((prop::sample::select(FIELDS.to_vec()), any_json()), 0..4).prop_map(move |fields| {
        let mut body = right.clone();
        for (name, value) in fields {
            body[name] = value;
        }
        body
    })
}

fn check(what: &str, answer: &Answer) {
    match answer.status {
        200 => {}
        400 | 404 | 413 => drop(answer.error()),
        other => panic!("{what}: status {other}: {answer:?}"),
    }
}

#[tokio::test]
async fn any_body_has_an_answer() {
    let server = Running::start(ModelServerConfig::default());
    let mut runner = TestRunner::deterministic();
    let bodies = prop_oneof![any_json(), any_request(), any_request(), any_request()];
    for _ in 0..150 {
        let body = bodies.new_tree(&mut runner).unwrap().current();
        for path in PATHS {
            check(&format!("{path} {body}"), &server.post(path, &body).await);
        }
    }
    server.live(0).await;
}

#[tokio::test]
async fn what_is_not_json_is_refused_with_line_and_column() {
    let server = Running::start(ModelServerConfig { body_max_bytes: 2000, ..ModelServerConfig::default() });
    let deep = "[".repeat(1500);
    let huge = format!("{{\"prompt\":\"{}\"}}", "x".repeat(3000));
    for (status, said, body) in [
        (400, "EOF while parsing a string at line 2 column", "{\n\"prompt\": \"a"),
        (400, "line 1 column", ""),
        (400, "line 1 column 128", deep.as_str()),
        (400, "half of a surrogate pair", r#"{"prompt":"\ud83d "}"#),
        (400, "number out of range", r#"{"prompt":1e999}"#),
        (400, "must be a JSON object, got a list", "[]"),
        (413, "larger than 2000 bytes", huge.as_str()),
    ] {
        for path in PATHS {
            let answer = server.post(path, body).await;
            assert_eq!(answer.status, status, "{answer:?}");
            assert!(answer.error().contains(said), "{said}: {answer:?}");
        }
    }
    let claims =
        "POST /generate HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 99999999999\r\n\r\n{";
    assert_eq!(server.raw(claims).await.status, 413, "refused by its claim, before anything is read");
    assert_eq!(server.raw(b"\xff\x00 nonsense\r\n\r\n").await.status, 400);
    let not_utf8 = [post("/generate", "xx").replace("xx", "").as_bytes(), b"\xff\xfe"].concat();
    assert_eq!(server.raw(not_utf8).await.status, 400);
}

#[tokio::test]
async fn unknown_routes_and_methods_are_told_what_there_is() {
    let server = Running::start(ModelServerConfig::default());
    for path in ["/", "/v1", "/v1/chat", "/v1/responses", "/%00", "/..%2f..%2fetc/passwd"] {
        let answer = server.get(path).await;
        assert_eq!(
            (answer.status, answer.error().contains("there is POST /v1/chat/completions")),
            (404, true),
            "{answer:?}"
        );
    }
    for path in PATHS {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.error().contains("takes POST only")), (405, true), "{answer:?}");
        assert!(answer.head.contains("allow: post"), "{}", answer.head);
    }
    for path in ["/v1/models", "/health", "/metrics"] {
        assert_eq!(server.post(path, "{}").await.status, 405);
    }
    let page = server.get("/metrics").await.body;
    assert!(page.contains("{route=\"other\",status=\"404\"} 6\n"), "unknown routes count as one: {page}");
}

#[tokio::test]
async fn limits_are_told_by_their_numbers() {
    let config = ModelServerConfig { choices_max: 2, inputs_max: 2, messages_max: 2, ..ModelServerConfig::default() };
    let server = Running::start(config);
    let message = json!({"role": "user", "content": "a"});
    for (path, body, said) in [
        (PATHS[0], json!({"messages": [message, message, message]}), "`messages` may have at most 2 entries, got 3"),
        (PATHS[0], json!({"messages": [message], "n": 3}), "`n` must be a whole number from 1 to 2, got 3"),
        (PATHS[1], json!({"prompt": ["a", "b"], "n": 2}), "`prompt times n` may have at most 2 entries, got 4"),
        (PATHS[2], json!({"input": ["a", "b", "c"]}), "`input` may have at most 2 entries, got 3"),
        (PATHS[3], json!({"text": ["a", "b", "c"]}), "`text` may have at most 2 entries, got 3"),
    ] {
        let answer = server.post(path, &body).await;
        assert_eq!((answer.status, answer.error().as_str()), (400, said));
    }
}
