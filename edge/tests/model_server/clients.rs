//! Our own clients against our own server: what one writes the other reads.

use crate::mock::{CACHED, END};
use crate::wire::Running;
use legwork_edge::model_server::{GenerateEvents, ModelServerConfig, Reasoning, Token};
use legwork_endpoints::{
    Api, Endpoint, EndpointConfig, Kind, PromptEncoder, RetryPolicy, Shared, build, build_embedder,
};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{FinishReason, GenerateRequest, Route, Sampling, Usage};
use legwork_protocol::message::{Message, Role};
use serde_json::json;
use std::sync::Arc;

/// Bytes as ids.
struct Bytes;

impl PromptEncoder for Bytes {
    fn encode(&self, messages: &[Arc<Message>]) -> Result<Vec<u32>, Failure> {
        Ok(messages.iter().flat_map(|message| message.content.bytes()).map(u32::from).collect())
    }
    fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        let bytes: Vec<u8> = ids.iter().filter_map(|id| u8::try_from(*id).ok()).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn config(server: &Running, kind: Kind, path: &str) -> EndpointConfig {
    let mut config = EndpointConfig::new(kind, format!("http://{}{path}", server.address), "mock/a");
    config.retries = RetryPolicy { tries_max: 1, base_ms: 0, cap_ms: 0 };
    config
}

fn endpoint(config: &EndpointConfig) -> Arc<dyn Endpoint> {
    build("ours", config, &Shared::default(), Some(Arc::new(Bytes))).unwrap()
}

fn request(text: &str) -> GenerateRequest {
    GenerateRequest {
        route: Route::Worker,
        session: None,
        messages: vec![Arc::new(Message::new(Role::User, text))],
        tools: None,
        sampling: Sampling {
            max_tokens: 64,
            temperature: 1.0,
            top_p: 0.95,
            top_k: None,
            seed: Some(9),
            stop: vec!["!".into()],
        },
        timeout_ms: 60_000,
    }
}

#[tokio::test]
async fn chat_and_completions_are_read_whole_and_streamed() {
    let server = Running::start(ModelServerConfig::default());
    for api in [Api::Chat, Api::Completions] {
        for stream in [true, false] {
            let config = EndpointConfig { api, stream, ..config(&server, Kind::Openai, "/v1") };
            let got = endpoint(&config).generate(request("say:héllo! and more")).await.unwrap();
            assert_eq!((got.text.as_str(), got.finish), ("héllo", FinishReason::Stop), "{api:?} {stream}");
            let prompt_tokens = "say:héllo! and more".len() as u32 + u32::from(api == Api::Chat);
            assert_eq!(got.usage, Usage { prompt_tokens, cached_tokens: CACHED, completion_tokens: 7 });
        }
    }
    let sampling = server.mock.seen().remove(0).sampling().clone();
    assert_eq!((sampling.max_tokens, sampling.top_p, sampling.stop), (Some(64), Some(0.95), vec!["!".into()]));
    assert_eq!(sampling.seed, Some(4), "our clients send half of it");
}

#[tokio::test]
async fn thoughts_calls_and_ids_are_understood() {
    let server = Running::start(ModelServerConfig { reasoning: Reasoning::Split, ..ModelServerConfig::default() });
    let mut config = EndpointConfig { native_tools: true, ..config(&server, Kind::Openai, "/v1") };
    config.extra = serde_json::from_value(json!({"return_token_ids": true})).unwrap();
    let text = "say:<think>\nhm\n</think>\n\n<tool_call>{\"name\": \"f\", \"arguments\": {\"q\": 1}}</tool_call>";
    for stream in [true, false] {
        let tools = Some(Arc::new(json!([{"type": "function", "function": {"name": "f"}}])));
        let endpoint = endpoint(&EndpointConfig { stream, ..config.clone() });
        let got = endpoint.generate(GenerateRequest { tools, ..request(text) }).await.unwrap();
        assert_eq!(
            (got.finish, got.reasoning.as_deref()),
            (FinishReason::Length, Some("hm")),
            "64 tokens are not enough"
        );
        let ids = got.ids.unwrap();
        assert_eq!((ids.prompt.len(), ids.completion.len()), (text.len() + 1, 64));
        let mut longer = request(text);
        longer.sampling.max_tokens = 200;
        longer.tools = Some(Arc::new(json!([{"type": "function", "function": {"name": "f"}}])));
        let got = endpoint.generate(longer).await.unwrap();
        assert_eq!((got.finish, got.tool_calls[0].arguments.as_str()), (FinishReason::ToolCalls, "{\"q\":1}"));
    }
}

#[tokio::test]
async fn ids_go_in_and_come_out_by_sglangs_protocol() {
    for generate_events in [GenerateEvents::Whole, GenerateEvents::New] {
        let server = Running::start(ModelServerConfig { generate_events, ..ModelServerConfig::default() });
        for stream in [true, false] {
            let config = EndpointConfig { stream, logprobs: true, ..config(&server, Kind::Sglang, "") };
            let got = endpoint(&config).generate(request("say:hi")).await.unwrap();
            let ids = got.ids.unwrap();
            assert_eq!((got.text.as_str(), got.finish), ("hi", FinishReason::Stop));
            assert_eq!((ids.completion, ids.logprobs), (vec![104, 105, END], vec![-0.25; 3]));
            assert_eq!(got.usage, Usage { prompt_tokens: 6, cached_tokens: CACHED, completion_tokens: 3 });
            let stopped = endpoint(&config).generate(request("say:hi! more")).await.unwrap();
            assert_eq!(stopped.text, "hi", "the ids of a stop string are told and its text is not");
        }
    }
}

#[tokio::test]
async fn a_dropped_call_ends_on_the_server() {
    let server = Running::start(ModelServerConfig::default());
    for (kind, path) in [(Kind::Openai, "/v1"), (Kind::Sglang, "")] {
        let endpoint = endpoint(&config(&server, kind, path));
        let call = tokio::spawn(async move { endpoint.generate(request("wait")).await });
        server.live(1).await;
        call.abort();
        server.live(0).await;
    }
}

#[tokio::test]
async fn failures_are_told_by_their_kind() {
    let server = Running::start(ModelServerConfig { timeout_ms: 2000, ..ModelServerConfig::default() });
    let endpoint = endpoint(&config(&server, Kind::Openai, "/v1"));
    for (text, kind, said) in [
        ("busy", FailureKind::RateLimited, "the engine's queue is full"),
        ("long", FailureKind::Refused, "maximum context length is 2000 tokens"),
        ("fail", FailureKind::ServerError, "the device is gone"),
        ("break", FailureKind::BadResponse, "the device went away"),
    ] {
        let failure = endpoint.generate(request(text)).await.unwrap_err();
        assert!(failure.detail.contains(said), "{failure}");
        assert_eq!(failure.kind, kind, "{failure}");
    }
    let token = Some(Token::new("0123456789abcdef"));
    let closed = Running::start(ModelServerConfig { token, ..ModelServerConfig::default() });
    let failure =
        super::clients::endpoint(&config(&closed, Kind::Openai, "/v1")).generate(request("say:a")).await.unwrap_err();
    assert!(failure.kind == FailureKind::Refused && failure.detail.contains("bearer token is needed"), "{failure}");
}

#[tokio::test]
async fn our_embedder_gets_its_vectors() {
    let server = Running::start(ModelServerConfig::default());
    let mut config = config(&server, Kind::Openai, "/v1");
    config.embed_batch = 2;
    let embedder = build_embedder("ours", &config, &Shared::default()).unwrap();
    let vectors = embedder.embed(vec!["a".into(), "bb".into(), "ccc".into()]).await.unwrap();
    assert_eq!(vectors.iter().map(|vector| vector[0]).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
}
