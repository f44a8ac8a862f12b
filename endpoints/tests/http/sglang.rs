//! SGLang's `/generate` over sockets: ids in, ids out, and aborts.

use crate::support::{Server, Step, answer, config, json_answer, request, stream, stream_head};
use legwork_endpoints::config::{EndpointConfig, Kind};
use legwork_endpoints::{Endpoint, PromptEncoder, Shared, build};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{FinishReason, GenerateRequest, Session};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::message::{Message, Role};
use serde_json::{Value, json};
use std::sync::Arc;

/// Letters as their code; 1 ends a turn.
struct Letters;

impl PromptEncoder for Letters {
    fn encode(&self, messages: &[Arc<Message>]) -> Result<Vec<u32>, Failure> {
        Ok(messages.iter().flat_map(|message| message.content.chars().map(u32::from).chain([1])).collect())
    }
    fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        Ok(ids.iter().filter_map(|id| char::from_u32(*id)).filter(|c| c.is_ascii_graphic()).collect())
    }
}

fn sglang(server: &Server) -> EndpointConfig {
    let mut config = EndpointConfig { kind: Kind::Sglang, ..config(server) };
    config.url = legwork_endpoints::BaseUrl::new(server.url(""));
    config
}

fn endpoint(config: &EndpointConfig) -> Arc<dyn Endpoint> {
    build("worker", config, &Shared::default(), Some(Arc::new(Letters))).unwrap()
}

fn made(seen: &Value, ids: &[u32], reason: Value) -> Value {
    let prompt = seen["input_ids"].as_array().unwrap().len();
    json!({"text": "not looked at", "output_ids": ids, "meta_info": {"id": seen["rid"], "prompt_tokens": prompt,
        "cached_tokens": 1, "completion_tokens": ids.len(), "finish_reason": reason,
        "output_token_logprobs": ids.iter().map(|id| json!([-0.25, id, null])).collect::<Vec<_>>()}})
}

fn stop() -> Value {
    json!({"type": "stop", "matched": 1})
}

fn turn(messages: &[(Role, &str)], turn: u32) -> GenerateRequest {
    let episode = EpisodeKey { round: 0, question: "q".into() };
    GenerateRequest {
        session: Some(Session { episode, scope: Scope::Worker(0), turn }),
        messages: messages.iter().map(|(role, text)| Arc::new(Message::new(*role, *text))).collect(),
        ..request("")
    }
}

#[tokio::test]
async fn ids_go_in_and_come_out_and_later_turns_send_the_very_same() {
    // The model says "hi" with ids that its own encoder would not give: 'h', 9, 'i'.
    let server = Server::start(|_, seen| json_answer(200, &made(&seen.body, &[104, 9, 105, 1], stop()))).await;
    let mut config = sglang(&server);
    config.logprobs = true;
    let endpoint = endpoint(&config);
    let first = endpoint.generate(turn(&[(Role::User, "ab")], 0)).await.unwrap();
    assert_eq!((first.text.as_str(), first.finish), ("hi", FinishReason::Stop));
    let ids = first.ids.unwrap();
    assert_eq!((ids.prompt, ids.completion, ids.logprobs), (vec![97, 98, 1], vec![104, 9, 105, 1], vec![-0.25; 4]));
    let conversation = [(Role::User, "ab"), (Role::Assistant, "hi"), (Role::User, "c")];
    endpoint.generate(turn(&conversation, 1)).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[1].body["input_ids"], json!([97, 98, 1, 104, 9, 105, 1, 99, 1]));
    assert_eq!(seen[0].path, "/generate");
    assert_eq!(seen[0].body["sampling_params"]["top_k"], -1, "said outright");
    let rids: Vec<_> = seen.iter().map(|seen| seen.body["rid"].as_str().unwrap().to_owned()).collect();
    assert!(rids[0] != rids[1] && rids[0].len() == rids[1].len(), "no id is another's prefix: {rids:?}");
    assert_eq!(endpoint.tally().reencoded, 0);
    // A history with other text is encoded anew, and counted.
    endpoint.generate(turn(&[(Role::User, "zz"), (Role::Assistant, "hi"), (Role::User, "c")], 2)).await.unwrap();
    assert_eq!(endpoint.tally().reencoded, 1);
}

#[tokio::test]
async fn a_stream_of_ids_is_read_and_a_cut_one_is_truncated() {
    let server = Server::start(|number, seen| {
        let event = |ids: &[u32], reason| format!("data: {}\n\n", made(&seen.body, ids, reason));
        let (first, last) = (event(&[104], Value::Null), event(&[104, 105, 1], stop()));
        match number {
            0 => stream(&[first.as_bytes(), last.as_bytes(), b"data: [DONE]\n\n"]),
            _ => stream(&[first.as_bytes()]),
        }
    })
    .await;
    let endpoint = endpoint(&sglang(&server));
    assert_eq!(endpoint.generate(request("ab")).await.unwrap().text, "hi");
    let failure = endpoint.generate(request("ab")).await.unwrap_err();
    assert_eq!((failure.kind, failure.attempts), (FailureKind::TruncatedStream, 3));
}

/// Cancels a call under way at a server that answers `/abort_request` by `status`; what the server saw.
async fn cancelled(status: u16) -> (Arc<dyn Endpoint>, Server) {
    let server = Server::start(move |_, seen| match seen.path.as_str() {
        "/generate" => vec![Step::Silence],
        _ => answer(status, &[], ""),
    })
    .await;
    let endpoint = endpoint(&sglang(&server));
    let call = tokio::spawn({
        let endpoint = endpoint.clone();
        async move { endpoint.generate(request("ab")).await }
    });
    server.arrivals(1).await;
    call.abort();
    server.arrivals(2).await;
    server.closures(1).await;
    (endpoint, server)
}

/// Lets the abort's task read its answer.
async fn until(endpoint: &Arc<dyn Endpoint>, told: impl Fn(&legwork_endpoints::Tally) -> bool) {
    while !told(&endpoint.tally()) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_call_is_aborted_by_its_own_id() {
    let (endpoint, server) = cancelled(200).await;
    let seen = server.seen();
    assert_eq!(seen[1].path, "/abort_request");
    assert_eq!(seen[1].body, json!({"rid": seen[0].body["rid"]}));
    until(&endpoint, |tally| tally.aborts_sent == 1).await;
}

#[tokio::test]
async fn a_server_without_the_abort_route_is_tolerated_and_recorded() {
    let (endpoint, server) = cancelled(404).await;
    until(&endpoint, |tally| tally.aborts_unsupported == 1).await;
    let call = tokio::spawn({
        let endpoint = endpoint.clone();
        async move { endpoint.generate(request("ab")).await }
    });
    server.arrivals(3).await;
    call.abort();
    until(&endpoint, |tally| tally.aborts_unsupported == 2).await;
    assert_eq!(server.seen().len(), 3, "it is not asked again for what it does not have");
}

#[tokio::test]
async fn each_try_has_its_own_id_and_one_that_broke_off_is_aborted() {
    let server = Server::start(|number, seen| match (seen.path.as_str(), number) {
        ("/abort_request", _) => answer(200, &[], ""),
        (_, 0) => vec![stream_head(), Step::Reset],
        _ => json_answer(200, &made(&seen.body, &[104, 1], stop())),
    })
    .await;
    let endpoint = endpoint(&sglang(&server));
    assert_eq!(endpoint.generate(request("ab")).await.unwrap().attempts, 2);
    until(&endpoint, |tally| tally.aborts_sent == 1).await;
    let seen = server.seen();
    let rids = |path: &str| -> Vec<Value> {
        seen.iter().filter(|seen| seen.path == path).map(|seen| seen.body["rid"].clone()).collect()
    };
    let (asked, aborted) = (rids("/generate"), rids("/abort_request"));
    assert!(asked.len() == 2 && asked[0] != asked[1], "{asked:?}");
    assert_eq!(aborted, asked[..1]);
}

#[tokio::test]
async fn an_answered_call_and_a_refused_one_need_no_abort() {
    let server = Server::start(|number, seen| match number {
        0 => json_answer(200, &made(&seen.body, &[104, 1], stop())),
        _ => json_answer(400, &json!({"error": {"message": "too long"}})),
    })
    .await;
    let endpoint = endpoint(&sglang(&server));
    endpoint.generate(request("ab")).await.unwrap();
    assert_eq!(endpoint.generate(request("ab")).await.unwrap_err().kind, FailureKind::Refused);
    let tally = endpoint.tally();
    assert_eq!((tally.aborts_sent, tally.aborts_failed, tally.aborts_unsupported), (0, 0, 0));
    assert_eq!(server.seen().len(), 2);
}
