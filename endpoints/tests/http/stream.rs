//! Streams: every way to split, cut and end one.

use crate::support::{Server, Step, chunk, config, delta, end, endpoint, finish, once, request, stream, stream_head};
use legwork_protocol::failure::FailureKind;
use legwork_protocol::generation::{FinishReason, Usage};

const DONE: &str = "data: [DONE]\n\n";

fn whole_stream() -> String {
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;
    format!(": ping\r\n\r\n{}{}{}{usage}\n\n{DONE}", delta("na\u{ef}ve "), delta("\u{1f600}"), finish("stop"))
}

#[tokio::test]
async fn every_two_way_split_of_a_stream_gives_the_same_completion() {
    let text = whole_stream();
    let bytes = text.clone().into_bytes();
    let server = Server::start(move |number, _| {
        let (head, tail) = bytes.split_at(number % bytes.len());
        stream(&[head, tail])
    })
    .await;
    let endpoint = endpoint(&config(&server));
    for at in 0..text.len() {
        let got = endpoint.generate(request("hi")).await.unwrap();
        assert_eq!((got.text.as_str(), got.attempts), ("na\u{ef}ve \u{1f600}", 1), "split at byte {at}");
        assert_eq!(got.usage, Usage { prompt_tokens: 5, cached_tokens: 0, completion_tokens: 2 });
    }
}

#[tokio::test]
async fn a_stream_byte_by_byte_is_read() {
    let text = whole_stream();
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(once(stream(&pieces)).await.unwrap().text, "na\u{ef}ve \u{1f600}");
}

#[tokio::test]
async fn a_stream_that_ends_at_its_finish_reason_is_whole_without_done() {
    for reason in ["length", "stop"] {
        let text = format!("{}{}", delta("cut he"), finish(reason));
        let got = once(stream(&[text.as_bytes()])).await.unwrap();
        let expected = if reason == "length" { FinishReason::Length } else { FinishReason::Stop };
        assert_eq!((got.text.as_str(), got.finish), ("cut he", expected));
    }
    let no_blank_line = format!("{}{}", delta("a"), finish("stop").trim_end());
    assert_eq!(once(stream(&[no_blank_line.as_bytes()])).await.unwrap().text, "a");
}

#[tokio::test]
async fn a_stream_that_ends_before_its_finish_reason_is_truncated_and_tried_again() {
    let cut = stream(&[delta("half an ans").as_bytes()]);
    let done_too_soon = stream(&[delta("half an ans").as_bytes(), DONE.as_bytes()]);
    let inside_a_frame = stream(&[delta("a").as_bytes(), &delta("b").as_bytes()[..30]]);
    let nothing = stream(&[]);
    for script in [cut, done_too_soon, inside_a_frame, nothing] {
        let server = Server::start(move |_, _| script.clone()).await;
        let failure = endpoint(&config(&server)).generate(request("hi")).await.unwrap_err();
        assert_eq!((failure.kind, failure.attempts), (FailureKind::TruncatedStream, 3), "{failure}");
    }
}

#[tokio::test]
async fn a_reset_in_the_middle_is_tried_again_and_leaves_nothing_of_the_first_try() {
    let server = Server::start(|number, _| match number {
        0 => vec![stream_head(), chunk(delta("wrong ")), Step::Reset],
        _ => stream(&[delta("right").as_bytes(), finish("stop").as_bytes(), DONE.as_bytes()]),
    })
    .await;
    let endpoint = endpoint(&config(&server));
    let got = endpoint.generate(request("hi")).await.unwrap();
    assert_eq!((got.text.as_str(), got.attempts), ("right", 2));
    assert_eq!(endpoint.tally().retries, 1);
    let failure = once(vec![stream_head(), chunk(delta("a")), Step::Reset]).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unreachable, "{failure}");
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_finish_reason_loses_nothing() {
    // The chunked body is not ended: for the client the connection broke.
    let got = once(vec![stream_head(), chunk(delta("all")), chunk(finish("stop"))]).await.unwrap();
    assert_eq!((got.text.as_str(), got.attempts), ("all", 1));
}

#[tokio::test]
async fn errors_within_a_stream_are_named() {
    let event = "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n";
    let failure = once(stream(&[delta("a").as_bytes(), event.as_bytes()])).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::ServerError);
    assert!(failure.detail.contains("out of memory"));
    let bare = "{\"error\":\"out of memory\"}\n";
    let failure = once(stream(&[bare.as_bytes()])).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::TruncatedStream);
    assert!(failure.detail.contains("out of memory"), "{failure}");
    let failure = once(stream(&[b"data: {not json}\n\n"])).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::BadResponse);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_falls_silent_times_out_by_the_idle_limit() {
    let failure = once(vec![stream_head(), chunk(delta("a")), Step::Silence]).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert!(failure.detail.contains("idle_timeout_ms") || failure.detail.contains("caller's limit"), "{failure}");
}

#[tokio::test]
async fn an_answer_told_to_its_end_counts_though_the_server_never_hangs_up() {
    let script = vec![stream_head(), chunk(delta("all")), chunk(finish("stop")), chunk(DONE), Step::Silence];
    assert_eq!(once(script).await.unwrap().text, "all");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_after_its_finish_reason_loses_nothing() {
    let got = once(vec![stream_head(), chunk(delta("all")), chunk(finish("stop")), Step::Silence]).await.unwrap();
    assert!(got.text == "all" && got.served_ms < 60_000, "{got:?}");
}

#[tokio::test]
async fn a_streamed_answer_leaves_its_connection_for_the_next_call() {
    let server = Server::start(|_, _| {
        vec![stream_head(), chunk(delta("x")), chunk(finish("stop")), chunk(DONE), end(), Step::Next]
    })
    .await;
    let endpoint = endpoint(&config(&server));
    for _ in 0..5 {
        endpoint.generate(request("hi")).await.unwrap();
    }
    assert_eq!((server.seen().len(), server.connections()), (5, 1));
}
