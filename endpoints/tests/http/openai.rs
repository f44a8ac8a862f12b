//! Whole answers of OpenAI-compatible servers.

use crate::support::{Server, answer, completion, config, endpoint, json_answer, once, request};
use legwork_endpoints::config::Api;
use legwork_endpoints::{PromptEncoder, Shared, build};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{FinishReason, Usage};
use legwork_protocol::message::Message;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn a_whole_answer_is_a_completion_with_its_usage() {
    let server = Server::start(|_, _| json_answer(200, &completion("four"))).await;
    let mut config = config(&server);
    config.stream = false;
    let endpoint = endpoint(&config);
    let got = endpoint.generate(request("2+2?")).await.unwrap();
    assert_eq!((got.text.as_str(), got.finish, got.attempts), ("four", FinishReason::Stop, 1));
    assert_eq!(got.usage, Usage { prompt_tokens: 7, cached_tokens: 2, completion_tokens: 3 });
    let seen = &server.seen()[0];
    assert_eq!((seen.path.as_str(), &seen.body["stream"]), ("/v1/chat/completions", &json!(false)));
    assert!(seen.head.starts_with("POST ") && seen.head.contains("content-type: application/json"));
    let tally = endpoint.tally();
    assert_eq!((tally.requests, tally.answered, tally.failed, tally.in_flight), (1, 1, 0, 0));
}

#[tokio::test]
async fn a_server_that_does_not_stream_although_asked_is_read_all_the_same() {
    assert_eq!(once(json_answer(200, &completion("four"))).await.unwrap().text, "four");
}

#[tokio::test]
async fn null_content_with_reasoning_is_an_answer_and_is_not_tried_again() {
    let body = json!({"choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": null, "reasoning_content": "so it is 4"}}]});
    let server = Server::start(move |_, _| json_answer(200, &body)).await;
    let got = endpoint(&config(&server)).generate(request("hi")).await.unwrap();
    assert_eq!((got.text.as_str(), got.reasoning.as_deref()), ("", Some("so it is 4")));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn answers_that_are_no_completions_fail_by_name_at_once() {
    for (script, kind, word) in [
        (json_answer(200, &json!({"error": {"message": "boom"}})), FailureKind::BadResponse, "boom"),
        (json_answer(200, &json!({"choices": []})), FailureKind::BadResponse, "empty"),
        (json_answer(200, &completion("")), FailureKind::EmptyCompletion, "without text"),
        (answer(200, &["content-type: text/html"], "<html>Sign in</html>"), FailureKind::BadResponse, "HTML"),
        (answer(200, &[], "\n<!doctype html>"), FailureKind::BadResponse, "HTML"),
        (json_answer(400, &json!({"error": {"message": "context length"}})), FailureKind::Refused, "context length"),
        (json_answer(401, &json!({"error": "who"})), FailureKind::Refused, "key_env"),
        (json_answer(404, &json!({"detail": "Not Found"})), FailureKind::Refused, "`url`"),
        (answer(302, &["location: http://other/v1"], ""), FailureKind::Refused, "http://other/v1"),
    ] {
        let server = Server::start(move |_, _| script.clone()).await;
        let failure = endpoint(&config(&server)).generate(request("hi")).await.unwrap_err();
        assert_eq!((failure.kind, failure.attempts), (kind, 1), "{failure}");
        assert!(failure.detail.contains(word), "{failure}");
        assert_eq!(server.seen().len(), 1, "{failure}");
    }
}

#[tokio::test]
async fn cut_json_is_tried_again_and_then_a_bad_response() {
    let server = Server::start(|_, _| answer(200, &["content-type: application/json"], r#"{"choices":[{"mess"#)).await;
    let failure = endpoint(&config(&server)).generate(request("hi")).await.unwrap_err();
    assert_eq!((failure.kind, failure.attempts), (FailureKind::BadResponse, 3));
    let server = Server::start(|number, _| match number {
        0 => answer(200, &[], r#"{"choices":[{"mess"#),
        _ => json_answer(200, &completion("four")),
    })
    .await;
    let got = endpoint(&config(&server)).generate(request("hi")).await.unwrap();
    assert_eq!((got.text.as_str(), got.attempts), ("four", 2));
}

#[tokio::test]
async fn a_body_shorter_than_its_header_claims_is_a_broken_connection() {
    let mut script = answer(200, &[], "{}");
    script.clear();
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\nconnection: close\r\n\r\n{\"choices\":[";
    script.push(crate::support::Step::Send(head.into()));
    let failure = once(script).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unreachable, "{failure}");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_while_it_is_read() {
    let server = Server::start(|_, _| answer(200, &[], vec![b' '; 5000])).await;
    let mut config = config(&server);
    config.body_max_bytes = 4096;
    let failure = endpoint(&config).generate(request("hi")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::BadResponse);
    assert!(failure.detail.contains("4096"), "{failure}");
}

#[tokio::test]
async fn nobody_listening_is_unreachable_and_says_where_to_look() {
    let server = Server::start(|_, _| vec![]).await;
    let mut config = config(&server);
    // A port that is taken and does not listen: no other test can get it in the meantime.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    config.url = legwork_endpoints::BaseUrl::new(format!("http://127.0.0.1:{port}/v1"));
    let failure = endpoint(&config).generate(request("hi")).await.unwrap_err();
    assert_eq!((failure.kind, failure.attempts), (FailureKind::Unreachable, 3));
    assert!(failure.detail.contains("is the server up"), "{failure}");
}

struct Letters;

impl PromptEncoder for Letters {
    fn encode(&self, messages: &[Arc<Message>]) -> Result<Vec<u32>, Failure> {
        Ok(messages.iter().flat_map(|message| message.content.bytes()).map(u32::from).collect())
    }
    fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        Ok(ids.iter().filter_map(|id| char::from_u32(*id)).collect())
    }
}

#[tokio::test]
async fn the_completions_route_sends_ids_and_reads_text() {
    let server = Server::start(|_, _| {
        json_answer(200, &json!({"choices": [{"index": 0, "text": " four", "finish_reason": "length"}]}))
    })
    .await;
    let mut config = config(&server);
    config.api = Api::Completions;
    assert!(build("w", &config, &Shared::default(), None).is_err(), "ids need an encoder");
    let endpoint = build("w", &config, &Shared::default(), Some(Arc::new(Letters))).unwrap();
    let got = endpoint.generate(request("ab")).await.unwrap();
    assert_eq!((got.text.as_str(), got.finish), (" four", FinishReason::Length));
    let seen = &server.seen()[0];
    assert_eq!((seen.path.as_str(), &seen.body["prompt"]), ("/v1/completions", &json!([97, 98])));
}
