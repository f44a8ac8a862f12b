//! How answers end that do not end well: clients that leave, time that is over, models that fail, queues that are full.

use crate::wire::{Answer, Running, post};
use legwork_edge::model_server::ModelServerConfig;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

const CHAT: &str = "/v1/chat/completions";

fn chat(text: &str, stream: bool) -> Value {
    json!({"messages": [{"role": "user", "content": text}], "stream": stream})
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_answer_on_every_route() {
    let server = Running::start(ModelServerConfig::default());
    let asks = [
        (CHAT, chat("wait", false)),
        (CHAT, chat("wait", true)),
        (CHAT, chat("stall", true)),
        ("/v1/completions", json!({"prompt": "wait"})),
        ("/v1/completions", json!({"prompt": "wait", "stream": true})),
        ("/generate", json!({"text": "wait"})),
        ("/generate", json!({"text": "wait", "stream": true})),
        ("/v1/embeddings", json!({"input": "wait"})),
    ];
    for (path, body) in asks {
        let mut socket = server.connect(post(path, &body.to_string())).await;
        server.live(1).await;
        if body["stream"] == true && body["messages"][0]["content"] != "stall" {
            // The stream has really begun.
            socket.read_exact(&mut [0; 12]).await.unwrap();
        }
        drop(socket);
        server.live(0).await;
    }
    let page = server.get("/metrics").await.body;
    assert!(page.contains("legwork_server_disconnected_total 8\n"), "{page}");
    assert!(page.contains("legwork_server_in_flight 0\n"), "{page}");
}

#[tokio::test]
async fn each_choice_of_a_client_that_leaves_is_cancelled() {
    let server = Running::start(ModelServerConfig::default());
    let socket =
        server.connect(post("/v1/completions", &json!({"prompt": ["wait", "wait"], "n": 2}).to_string())).await;
    server.live(4).await;
    drop(socket);
    server.live(0).await;
}

#[tokio::test]
async fn refusals_of_the_model_have_their_status_whether_streamed_or_not() {
    let server = Running::start(ModelServerConfig::default());
    for (text, status, code, said) in [
        ("busy", 429, "rate_limit_exceeded", "the engine's queue is full"),
        ("long", 400, "context_length_exceeded", "maximum context length is 2000 tokens"),
        ("fail", 503, "model_failed", "the device is gone"),
        ("panic", 503, "model_failed", "the model panicked"),
    ] {
        for streams in [false, true] {
            let answer = server.post(CHAT, chat(text, streams)).await;
            assert_eq!((answer.status, &answer.json()["error"]["code"]), (status, &json!(code)), "{answer:?}");
            assert!(answer.error().contains(said), "{answer:?}");
            assert_eq!(answer.head.contains("retry-after: 7"), text == "busy", "{}", answer.head);
        }
    }
    server.live(0).await;
}

#[tokio::test]
async fn a_failure_amid_a_stream_is_an_error_event_and_nothing_is_done() {
    let server = Running::start(ModelServerConfig::default());
    for (text, said) in
        [("break", "the device went away"), ("cut", "broke off without an end"), ("shock", "the model panicked")]
    {
        for (path, ask) in [(CHAT, chat(text, true)), ("/generate", json!({ "text": text }))] {
            let (events, is_done) = server.stream(path, ask).await;
            let error = &events.last().unwrap()["error"];
            assert!(error["message"].as_str().unwrap().contains(said) && !is_done, "{events:?}");
            assert_eq!((&error["type"], &error["code"]), (&json!("server_error"), &json!("model_failed")));
            assert!(events.len() > 1, "what was said before is told");
        }
        let whole = server.post(CHAT, chat(text, false)).await;
        assert!(whole.status == 503 && whole.error().contains(said), "{whole:?}");
    }
    assert_eq!(server.post(CHAT, chat("say:a", false)).await.status, 200, "the server lives");
}

#[tokio::test]
async fn an_answer_beyond_its_time_is_408_or_ends_its_stream_in_an_error() {
    let server = Running::start(ModelServerConfig { timeout_ms: 30, ..ModelServerConfig::default() });
    for text in ["wait", "stall"] {
        let answer = server.post(CHAT, chat(text, false)).await;
        assert_eq!((answer.status, answer.error().contains("no end within 30 ms")), (408, true), "{answer:?}");
    }
    let answer = server.post(CHAT, chat("stall", true)).await;
    assert_eq!(answer.status, 408, "a stream that has not begun can still say it by its status");
    let (events, is_done) = server.stream(CHAT, chat("wait", true)).await;
    assert_eq!((&events.last().unwrap()["error"]["code"], is_done), (&json!("timeout"), false));
    let answer = server.post("/v1/embeddings", json!({"input": "wait"})).await;
    assert_eq!(answer.status, 408);
    server.live(0).await;
}

#[tokio::test]
async fn a_full_queue_is_429_with_a_time_to_come_back() {
    let server = Running::start(ModelServerConfig { concurrency: 1, queue_max: 0, ..ModelServerConfig::default() });
    let inside = server.connect(post(CHAT, &chat("wait", true).to_string())).await;
    server.live(1).await;
    for (path, body) in [
        (CHAT, chat("say:a", false)),
        (CHAT, chat("say:a", true)),
        ("/v1/completions", json!({"prompt": "a"})),
        ("/generate", json!({"text": "a"})),
        ("/v1/embeddings", json!({"input": "a"})),
    ] {
        let answer = server.post(path, body).await;
        assert_eq!((answer.status, answer.error().contains("0 requests wait already")), (429, true), "{answer:?}");
        assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
    }
    drop(inside);
    server.live(0).await;
    // The place returns just after the last word; whoever asks until then is sent away as before.
    while server.post(CHAT, chat("say:a", false)).await.status != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_waits_is_answered_when_a_place_is_free() {
    let server = Running::start(ModelServerConfig { concurrency: 1, queue_max: 1, ..ModelServerConfig::default() });
    let inside = server.connect(post(CHAT, &chat("wait", false).to_string())).await;
    server.live(1).await;
    let waiting = server.connect(post(CHAT, &chat("say:later", false).to_string())).await;
    while !server.get("/metrics").await.body.contains("legwork_server_waiting 1\n") {}
    drop(inside);
    let answer = Answer::read(waiting).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "later");
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_its_answer_no_longer_than_its_time() {
    let server = Running::start(ModelServerConfig { timeout_ms: 300, ..ModelServerConfig::default() });
    // The events of this answer are some ten million bytes: more than sockets hold.
    let ask = json!({"text": format!("say:{}", "x".repeat(1900)), "stream": true, "sampling_params": {"max_new_tokens": 1900}});
    let unread = server.connect(post("/generate", &ask.to_string())).await;
    server.live(1).await;
    server.live(0).await;
    let page = server.get("/metrics").await.body;
    assert!(page.contains("legwork_server_answer_seconds_count 0\n"), "it was given up, not told to its end: {page}");
    drop(unread);
}

#[tokio::test]
async fn heads_and_bodies_that_take_too_long_are_told_so() {
    let server = Running::start(ModelServerConfig { head_timeout_ms: 30, ..ModelServerConfig::default() });
    assert_eq!(server.raw("POST /generate HTTP/1.1\r\nhost: loc").await.status, 408);
    let server = Running::start(ModelServerConfig { body_timeout_ms: 30, ..ModelServerConfig::default() });
    let answer = server.raw("POST /generate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{").await;
    assert_eq!((answer.status, answer.error().contains("took longer than 30 ms")), (408, true), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_is_stopped_cancels_what_is_under_way() {
    let server = Running::start(ModelServerConfig::default());
    let socket = server.connect(post(CHAT, &chat("wait", true).to_string())).await;
    server.live(1).await;
    server.stop().await;
    server.live(0).await;
    let answer = Answer::read(socket).await;
    assert!(!answer.body.contains("[DONE]"), "{answer:?}");
}

#[tokio::test]
async fn many_at_once_each_get_their_own_answer() {
    let server = Running::start(ModelServerConfig { concurrency: 20, ..ModelServerConfig::default() });
    let asks = (0..200).map(|number| server.post(CHAT, chat(&format!("say:{number}"), number % 2 == 0)));
    for (number, answer) in futures::future::join_all(asks).await.into_iter().enumerate() {
        let events = answer.events();
        let events: Vec<Value> = events.iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
        let streamed: String =
            events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
        let whole = answer.json();
        let said = whole["choices"][0]["message"]["content"].as_str().unwrap_or(&streamed);
        assert_eq!(said, number.to_string());
    }
}
