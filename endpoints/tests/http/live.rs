//! Against a server that nobody here wrote, where one is running: set `LEGWORK_LIVE_OPENAI` to its base
//! URL (`http://127.0.0.1:8080/v1`), and `LEGWORK_LIVE_EMBED` for embeddings.

use crate::support::request;
use futures::future::join_all;
use legwork_endpoints::config::{EndpointConfig, Kind};
use legwork_endpoints::{Shared, build, build_embedder};
use legwork_protocol::generation::FinishReason;

fn live(variable: &str) -> Option<EndpointConfig> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        println!("skipped: {variable} names no server");
    }
    Some(EndpointConfig::new(Kind::Openai, url?, "any"))
}

#[tokio::test]
async fn a_real_server_answers_whole_and_streamed_with_the_same_text() {
    let Some(mut config) = live("LEGWORK_LIVE_OPENAI") else { return };
    let mut texts = Vec::new();
    for stream in [false, true] {
        config.stream = stream;
        let endpoint = build("live", &config, &Shared::default(), None).unwrap();
        let got = endpoint.generate(request("What is the capital of France?")).await.unwrap();
        println!("stream={stream}: {got:?}");
        assert!(got.usage.prompt_tokens > 0 && got.usage.completion_tokens > 0 && got.served_ms > 0);
        assert!(matches!(got.finish, FinishReason::Stop | FinishReason::Length));
        texts.push(got.text);
        let many = (0..4).map(|_| endpoint.generate(request("Name a colour.")));
        assert!(join_all(many).await.iter().all(Result::is_ok));
    }
    assert_eq!(texts[0], texts[1], "greedy draws agree");
}

#[tokio::test]
async fn a_real_server_embeds() {
    let Some(config) = live("LEGWORK_LIVE_EMBED") else { return };
    let embedder = build_embedder("live", &config, &Shared::default()).unwrap();
    let got = embedder.embed(["cat", "kitten", "carburettor"].map(str::to_owned).to_vec()).await.unwrap();
    println!("{} vectors of {}", got.len(), got[0].len());
    assert_eq!(got.len(), 3);
}
