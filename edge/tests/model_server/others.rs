//! The routes beside generation: embeddings, models, tokens, health, metrics; and who may ask.

use crate::mock::{CONTEXT, DIMENSIONS, Mock};
use crate::wire::Running;
use legwork_edge::model_server::{ModelServerConfig, Token, bind};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;

#[tokio::test]
async fn vectors_come_as_numbers_or_as_base64_for_every_form_of_input() {
    let server = Running::start(ModelServerConfig::default());
    let path = "/v1/embeddings";
    let body = server.ok(path, json!({"model": "mock/a", "input": ["ab", "c"], "dimensions": DIMENSIONS})).await;
    let first = json!([2.0, 97.0 / 256.0, 0.5, -1.0]);
    assert_eq!((&body["data"][0]["embedding"], &body["data"][1]["index"]), (&first, &json!(1)));
    assert_eq!(body["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
    for input in [json!("ab"), json!([97, 98]), json!([[97, 98]])] {
        let body = server.ok(path, json!({ "input": input })).await;
        assert_eq!(body["data"], json!([{"object": "embedding", "index": 0, "embedding": first}]));
    }
    let body = server.ok(path, json!({"input": "ab", "encoding_format": "base64"})).await;
    assert_eq!(body["data"][0]["embedding"], "AAAAQAAAwj4AAAA/AACAvw==");
    let answer = server.post(path, json!({"input": "fail"})).await;
    assert_eq!((answer.status, answer.error().as_str()), (503, "the embedder is gone"));
}

#[tokio::test]
async fn models_are_listed_and_told_one_by_one_slashes_and_all() {
    let server = Running::start(ModelServerConfig::default());
    let list = server.get("/v1/models").await.json();
    assert_eq!(
        (&list["object"], &list["data"][0]["id"], &list["data"][0]["created"]),
        (&json!("list"), &json!("mock/a"), &json!(1_700_000_000))
    );
    for name in ["mock/a", "mock%2Fa", "default"] {
        let answer = server.get(&format!("/v1/models/{name}")).await;
        assert_eq!((answer.status, &answer.json()["max_model_len"]), (200, &json!(CONTEXT)), "{name}: {answer:?}");
    }
    let answer = server.get("/v1/models/none").await;
    assert_eq!((answer.status, answer.error().contains("served are: mock/a")), (404, true));
    assert_eq!(server.get("/get_model_info").await.json()["model_path"], "mock/a");
}

#[tokio::test]
async fn texts_and_ids_are_turned_into_one_another() {
    let server = Running::start(ModelServerConfig::default());
    let body = server.ok("/tokenize", json!({"prompt": "hé"})).await;
    assert_eq!(body, json!({"count": 3, "max_model_len": CONTEXT, "tokens": [104, 195, 169]}));
    let body = server.ok("/tokenize", json!({"messages": [{"role": "user", "content": "a"}]})).await;
    assert_eq!(body["tokens"], json!([97]));
    assert_eq!(server.ok("/detokenize", json!({"tokens": [104, 195, 169]})).await, json!({"prompt": "hé"}));
    let answer = server.post("/detokenize", json!({"tokens": [300]})).await;
    assert!(answer.error().contains("`tokens[0]` must be a token id below 300"), "{answer:?}");
}

#[tokio::test]
async fn health_and_metrics_are_told() {
    let server = Running::start(ModelServerConfig::default());
    server.ok("/v1/completions", json!({"prompt": "say:a"})).await;
    assert_eq!(server.get("/health").await.json(), json!({"status": "healthy"}));
    assert_eq!(server.get("/health_generate").await.status, 200);
    let page = server.get("/metrics").await;
    assert!(page.head.contains("text/plain; version=0.0.4"), "{}", page.head);
    for line in [
        "legwork_server_requests_total{route=\"/v1/completions\",status=\"200\"} 1",
        "legwork_server_prompt_tokens_total 5",
        "legwork_server_completion_tokens_total 2",
        "legwork_server_first_piece_seconds_count 1",
        "# TYPE legwork_model_sequences gauge",
        "legwork_model_sequences{model=\"mock/a\"} 0",
        "legwork_model_sequences{model=\"mock/a\",device=\"cuda:1\"} 0",
    ] {
        assert!(page.body.lines().any(|told| told == line), "{line}\n{}", page.body);
    }
}

#[tokio::test]
async fn a_token_is_needed_where_one_is_set_and_local_names_where_none_is() {
    let token = Some(Token::new("0123456789abcdef"));
    let server = Running::start(ModelServerConfig { token, ..ModelServerConfig::default() });
    assert_eq!(server.get("/health").await.status, 200, "health is open");
    let ask = |path: &str, head: &str| {
        server.raw(format!("GET {path} HTTP/1.1\r\nhost: any.example\r\nconnection: close\r\n{head}\r\n"))
    };
    for head in ["", "authorization: Bearer 0123456789abcdeX\r\n", "authorization: 0123456789abcdef\r\n"] {
        for path in ["/v1/models", "/metrics"] {
            let answer = ask(path, head).await;
            assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &json!("invalid_api_key")));
            assert!(answer.error().contains("bearer token is needed"));
        }
    }
    assert_eq!(ask("/v1/models", "authorization: bearer 0123456789abcdef\r\n").await.status, 200);
    let open = Running::start(ModelServerConfig::default());
    let answer = open.raw("GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await;
    assert_eq!((answer.status, answer.error().contains("without a token only")), (403, true));
}

#[tokio::test]
async fn what_cannot_be_served_is_named_with_the_cure() {
    let refused = |listen: &str, models: usize| {
        let config =
            ModelServerConfig { listen: listen.parse::<SocketAddr>().unwrap(), ..ModelServerConfig::default() };
        let models = (0..models).map(|_| Arc::new(Mock::default()) as Arc<_>).collect();
        bind(&config, models).err().unwrap().to_string()
    };
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listening.local_addr().unwrap().to_string();
    assert!(refused("0.0.0.0:0", 1).contains("no token is set: set one, or listen on 127.0.0.1"));
    assert!(refused("127.0.0.1:0", 0).contains("at least one model was expected"));
    assert!(refused("127.0.0.1:0", 2).contains("two models are called \"mock/a\""));
    assert!(refused(&taken, 1).contains("stop what listens there or choose another port"));
}
