//! SGLang's `/generate`, `/abort_request` and what its clients ask first.

use crate::mock::{CACHED, END};
use crate::wire::Running;
use legwork_edge::model_server::{GenerateEvents, ModelServerConfig};
use serde_json::{Value, json};

const PATH: &str = "/generate";

fn ids(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

#[tokio::test]
async fn ids_go_in_and_come_out_with_their_logprobs() {
    let server = Running::start(ModelServerConfig::default());
    let ask = json!({"input_ids": ids("say:hi"), "rid": "r1", "return_logprob": true, "top_logprobs_num": 1,
        "sampling_params": {"max_new_tokens": 9, "temperature": 0, "stop_token_ids": [END], "sampling_seed": 3}});
    let body = server.ok(PATH, ask).await;
    assert_eq!(
        body,
        json!({"text": "hi", "output_ids": [104, 105, END], "meta_info": {"id": "r1",
            "finish_reason": {"type": "stop", "matched": END}, "prompt_tokens": 6, "cached_tokens": CACHED, "completion_tokens": 3,
            "input_token_logprobs": [], "output_token_logprobs": [[-0.25, 104, null], [-0.25, 105, null], [-0.25, END, null]],
            "input_top_logprobs": [],
            "output_top_logprobs": [[[-0.25, 104, null]], [[-0.25, 105, null]], [[-0.25, 0, null]]]}})
    );
    assert_eq!(server.mock.seen()[0].sampling().seed, Some(3));
}

#[tokio::test]
async fn a_prompt_is_scored_from_where_it_is_asked() {
    let server = Running::start(ModelServerConfig::default());
    let ask = json!({"text": "abc", "return_logprob": true, "logprob_start_len": 1, "return_text_in_logprobs": true,
        "sampling_params": {"max_new_tokens": 0}});
    let body = server.ok(PATH, ask).await;
    assert_eq!(body["meta_info"]["input_token_logprobs"], json!([[-0.25, 98, "b"], [-0.25, 99, "c"]]));
    assert_eq!((&body["output_ids"], &body["meta_info"]["finish_reason"]["type"]), (&json!([]), &json!("length")));
}

#[tokio::test]
async fn a_batch_and_several_choices_are_lists() {
    let server = Running::start(ModelServerConfig::default());
    let batch = server.ok(PATH, json!({"text": ["say:a", "say:b"], "sampling_params": {"n": 2}})).await;
    let texts: Vec<&str> = batch.as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["a", "a", "b", "b"]);
    let one = server.ok(PATH, json!({"text": ["say:a"]})).await;
    assert_eq!(one[0]["meta_info"]["finish_reason"], json!({"type": "stop", "matched": END}));
}

#[tokio::test]
async fn events_hold_all_so_far_or_what_is_new() {
    for (generate_events, texts) in
        [(GenerateEvents::Whole, ["a", "ab", "ab", "ab"]), (GenerateEvents::New, ["a", "b", "", ""])]
    {
        let server = Running::start(ModelServerConfig { generate_events, ..ModelServerConfig::default() });
        let (events, is_done) = server.stream(PATH, json!({"text": "say:ab"})).await;
        let got: Vec<&str> = events.iter().map(|event| event["text"].as_str().unwrap()).collect();
        assert_eq!((got, is_done), (texts.to_vec(), true));
        let made: Vec<&Value> = events.iter().map(|event| &event["meta_info"]["completion_tokens"]).collect();
        assert_eq!(made, [1, 2, 3, 3]);
        assert_eq!(events[0]["meta_info"]["finish_reason"], Value::Null);
        assert_eq!(events[3]["meta_info"]["finish_reason"]["matched"], END);
    }
}

#[tokio::test]
async fn the_events_of_a_batch_say_whose_they_are() {
    let server = Running::start(ModelServerConfig::default());
    let (events, _) = server.stream(PATH, json!({"text": ["say:a", "say:b"]})).await;
    for (index, text) in [(0, "a"), (1, "b")] {
        let last = events.iter().rfind(|event| event["index"] == index).unwrap();
        assert_eq!((&last["text"], &last["meta_info"]["finish_reason"]["type"]), (&json!(text), &json!("stop")));
    }
}

#[tokio::test]
async fn an_abort_ends_every_answer_whose_id_begins_so() {
    let server = Running::start(ModelServerConfig::default());
    let waits = |rid: &str| server.post(PATH, json!({"text": "wait", "rid": rid}));
    let (first, second, kept, aborted) = tokio::join!(waits("job-1"), waits("job-12"), waits("other"), async {
        server.live(3).await;
        let aborted = server.ok("/abort_request", json!({"rid": "job-1"})).await;
        server.live(1).await;
        server.ok("/abort_request", json!({"abort_all": true})).await;
        aborted
    });
    assert_eq!(aborted, json!({"aborted": 2}));
    for answer in [first, second, kept] {
        let body = answer.json();
        assert_eq!(body["meta_info"]["finish_reason"]["type"], "abort", "{answer:?}");
        assert_eq!(
            (&body["text"], &body["meta_info"]["completion_tokens"]),
            (&json!("a"), &json!(1)),
            "what was made stays"
        );
    }
    assert_eq!(server.ok("/abort_request", json!({"rid": "gone"})).await, json!({"aborted": 0}));
    let answer = server.post("/abort_request", "{}").await;
    assert_eq!((answer.status, answer.error().contains("`rid` was expected")), (400, true));
}

#[tokio::test]
async fn an_answer_that_has_not_begun_can_be_aborted() {
    let server = Running::start(ModelServerConfig::default());
    let (answer, ()) = tokio::join!(server.post(PATH, json!({"text": "stall", "rid": "x"})), async {
        server.live(1).await;
        server.ok("/abort_request", json!({"rid": "x"})).await;
    });
    assert_eq!(answer.json()["meta_info"]["finish_reason"]["type"], "abort", "{answer:?}");
    server.live(0).await;
}

#[tokio::test]
async fn who_waits_for_a_place_can_be_aborted() {
    let server = Running::start(ModelServerConfig { concurrency: 1, ..ModelServerConfig::default() });
    let waits = |rid: &str| server.post(PATH, json!({"text": "wait", "rid": rid}));
    let (inside, waiting, ()) = tokio::join!(waits("a"), waits("b"), async {
        while !server.get("/metrics").await.body.contains("legwork_server_waiting 1\n") {}
        server.ok("/abort_request", json!({"rid": "b"})).await;
        while !server.get("/metrics").await.body.contains("legwork_server_waiting 0\n") {}
        assert_eq!(server.mock.seen().len(), 1, "it never reached the model");
        server.ok("/abort_request", json!({"rid": "a"})).await;
    });
    for answer in [inside, waiting] {
        assert_eq!(answer.json()["meta_info"]["finish_reason"]["type"], "abort", "{answer:?}");
    }
}

#[tokio::test]
async fn a_chat_stream_is_aborted_by_its_own_id() {
    let server = Running::start(ModelServerConfig::default());
    let ask = json!({"messages": [{"role": "user", "content": "wait"}], "rid": "chat"});
    let ((events, is_done), ()) = tokio::join!(server.stream("/v1/chat/completions", ask), async {
        server.live(1).await;
        server.ok("/abort_request", json!({"rid": "chat"})).await;
    });
    assert_eq!((&events.last().unwrap()["choices"][0]["finish_reason"], is_done), (&json!("abort"), true));
}
