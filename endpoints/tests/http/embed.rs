//! Embeddings over sockets: batches, order, dimensions.

use crate::support::{Server, config, json_answer};
use legwork_endpoints::{Shared, build_embedder};
use legwork_protocol::failure::FailureKind;
use serde_json::{Value, json};

/// Each text's vector is its length and its batch's size; given in reverse order.
fn vectors(body: &Value) -> Value {
    let texts = body["input"].as_array().unwrap();
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .rev()
        .map(|(index, text)| json!({"index": index, "embedding": [text.as_str().unwrap().len(), texts.len()]}))
        .collect();
    json!({"data": data})
}

#[tokio::test]
async fn texts_are_embedded_in_batches_and_in_their_order() {
    let server = Server::start(|_, seen| json_answer(200, &vectors(&seen.body))).await;
    let mut config = config(&server);
    (config.embed_batch, config.dimensions) = (2, Some(2));
    let embedder = build_embedder("e", &config, &Shared::default()).unwrap();
    let texts = ["a", "bb", "ccc", "dddd", "eeeee"].map(str::to_owned).to_vec();
    let got = embedder.embed(texts).await.unwrap();
    assert_eq!(got, [[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [4.0, 2.0], [5.0, 1.0]]);
    assert_eq!(server.seen().len(), 3);
    assert_eq!(server.seen()[0].path, "/v1/embeddings");
    assert_eq!(embedder.embed(vec![]).await.unwrap(), Vec::<Vec<f32>>::new());
}

#[tokio::test]
async fn vectors_of_another_length_are_refused() {
    let server = Server::start(|_, seen| json_answer(200, &vectors(&seen.body))).await;
    let mut config = config(&server);
    config.dimensions = Some(384);
    let embedder = build_embedder("e", &config, &Shared::default()).unwrap();
    let failure = embedder.embed(vec!["a".into()]).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::BadResponse);
    assert!(failure.detail.contains("384") && failure.detail.contains("one of 2"), "{failure}");
}

#[tokio::test]
async fn one_batch_that_fails_fails_the_call() {
    let server = Server::start(|number, seen| match number {
        1 => json_answer(400, &json!({"error": {"message": "too long"}})),
        _ => json_answer(200, &vectors(&seen.body)),
    })
    .await;
    let mut config = config(&server);
    config.embed_batch = 1;
    let embedder = build_embedder("e", &config, &Shared::default()).unwrap();
    let failure = embedder.embed(vec!["a".into(), "b".into(), "c".into()]).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused);
}
