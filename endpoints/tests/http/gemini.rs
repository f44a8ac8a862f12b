//! Gemini over sockets: route, key header, stream.

use crate::support::{Server, config, json_answer, request, stream};
use legwork_endpoints::config::{EndpointConfig, Kind};
use legwork_endpoints::{Shared, build};
use legwork_protocol::failure::FailureKind;
use serde_json::{Value, json};
use std::io::Write;

fn gemini(server: &Server, streamed: bool, key: &mut tempfile::NamedTempFile) -> EndpointConfig {
    key.write_all(b"AIza-test-key\n").unwrap();
    let mut config = EndpointConfig { kind: Kind::Gemini, model: "gemini-2.5-pro".into(), ..config(server) };
    config.url = legwork_endpoints::BaseUrl::new(server.url("/v1beta"));
    config.key_file = Some(key.path().to_owned());
    config.stream = streamed;
    config
}

fn candidate(text: &str, reason: Option<&str>) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": reason}],
           "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2}})
}

#[tokio::test]
async fn a_whole_answer_is_asked_for_with_the_key_in_its_header() {
    let server = Server::start(|_, _| json_answer(200, &candidate("four", Some("STOP")))).await;
    let mut key = tempfile::NamedTempFile::new().unwrap();
    let endpoint = build("g", &gemini(&server, false, &mut key), &Shared::default(), None).unwrap();
    assert_eq!(endpoint.generate(request("2+2?")).await.unwrap().text, "four");
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1beta/models/gemini-2.5-pro:generateContent");
    assert!(seen.head.to_ascii_lowercase().contains("x-goog-api-key: aiza-test-key"));
    assert_eq!(seen.body["contents"][0]["parts"][0]["text"], "2+2?");
}

#[tokio::test]
async fn a_stream_is_asked_for_as_events_and_ends_with_its_finish_reason() {
    let server = Server::start(|number, _| {
        let frame = |value: Value| format!("data: {value}\r\n\r\n");
        let first = frame(candidate("fo", None));
        match number {
            0 => stream(&[first.as_bytes(), frame(candidate("ur", Some("STOP"))).as_bytes()]),
            _ => stream(&[first.as_bytes()]),
        }
    })
    .await;
    let mut key = tempfile::NamedTempFile::new().unwrap();
    let endpoint = build("g", &gemini(&server, true, &mut key), &Shared::default(), None).unwrap();
    assert_eq!(endpoint.generate(request("2+2?")).await.unwrap().text, "four");
    assert_eq!(server.seen()[0].path, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    assert_eq!(endpoint.generate(request("2+2?")).await.unwrap_err().kind, FailureKind::TruncatedStream);
}

#[tokio::test]
async fn a_blocked_prompt_is_refused_and_not_tried_again() {
    let server = Server::start(|_, _| json_answer(200, &json!({"promptFeedback": {"blockReason": "SAFETY"}}))).await;
    let mut key = tempfile::NamedTempFile::new().unwrap();
    let endpoint = build("g", &gemini(&server, false, &mut key), &Shared::default(), None).unwrap();
    let failure = endpoint.generate(request("hi")).await.unwrap_err();
    assert_eq!((failure.kind, failure.attempts), (FailureKind::Refused, 1));
}
