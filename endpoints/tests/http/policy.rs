//! Retries, limits, cancellation: what surrounds a call.

use crate::support::{Server, Step, answer, completion, config, endpoint, json_answer, request};
use futures::future::join_all;
use legwork_endpoints::{RetryPolicy, Shared, build};
use legwork_protocol::failure::FailureKind;
use serde_json::json;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::watch;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_requests_are_really_in_flight_at_once() {
    let (gate, open) = watch::channel(false);
    let server =
        Server::start(move |_, _| [vec![Step::Gate(open.clone())], json_answer(200, &completion("x"))].concat()).await;
    let mut config = config(&server);
    config.concurrency = 500;
    let endpoint = endpoint(&config);
    let calls: Vec<_> = (0..600)
        .map(|_| {
            let endpoint = endpoint.clone();
            tokio::spawn(async move { endpoint.generate(request("hi")).await })
        })
        .collect();
    // No answer has been given: five hundred sockets hold one request each, and no more.
    server.arrivals(500).await;
    assert_eq!(endpoint.tally().in_flight, 500);
    gate.send(true).unwrap();
    for call in join_all(calls).await {
        call.unwrap().unwrap();
    }
    let tally = endpoint.tally();
    assert_eq!((tally.in_flight_most, tally.answered, tally.in_flight, server.seen().len()), (500, 600, 0, 600));
}

#[tokio::test]
async fn statuses_that_pass_are_tried_again_within_the_tries() {
    let server = Server::start(|number, _| match number {
        0 => answer(429, &[], ""),
        1 => json_answer(503, &json!({"error": {"message": "loading"}})),
        _ => json_answer(200, &completion("x")),
    })
    .await;
    assert_eq!(endpoint(&config(&server)).generate(request("hi")).await.unwrap().attempts, 3);
    for (status, kind) in [
        (408, FailureKind::TimedOut),
        (429, FailureKind::RateLimited),
        (500, FailureKind::ServerError),
        (529, FailureKind::ServerError),
    ] {
        let server = Server::start(move |_, _| answer(status, &[], "busy")).await;
        let failure = endpoint(&config(&server)).generate(request("hi")).await.unwrap_err();
        assert_eq!((failure.kind, failure.attempts), (kind, 3), "{status}");
    }
}

#[tokio::test]
async fn retry_after_is_honoured_as_seconds_as_a_date_and_from_a_body_and_capped() {
    let date = |seconds: u64| httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds));
    for (headers, body, wait) in [
        (vec!["retry-after: 61".to_owned()], "", "61000 ms"),
        (vec![format!("retry-after: {}", date(75)), format!("date: {}", date(0))], "", "75000 ms"),
        (vec!["retry-after: 86400".to_owned()], "", "120000 ms"),
        (vec![], r#"{"error":{"code":429,"details":[{"retryDelay":"62s"}]}}"#, "62000 ms"),
        // Without a Date of the server's, the caller's wall clock counts: it says second 10 here.
        (vec![format!("retry-after: {}", date(75))], "", "65000 ms"),
    ] {
        let server = Server::start(move |_, _| {
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            answer(429, &headers, body)
        })
        .await;
        let shared = Shared::with(10, || UNIX_EPOCH + Duration::from_secs(1_700_000_010), || 0);
        let endpoint = build("w", &config(&server), &shared, None).unwrap();
        // The call's minute is too short for the wait: it ends at once and says why.
        let failure = endpoint.generate(request("hi")).await.unwrap_err();
        assert_eq!((failure.kind, failure.attempts), (FailureKind::RateLimited, 1));
        assert!(failure.detail.contains(wait), "{failure}");
        assert_eq!(shared.purse.left(), 10, "a retry that is not made is not paid");
    }
}

#[tokio::test]
async fn a_retry_after_of_zero_is_tried_again_at_once() {
    let server = Server::start(|number, _| match number {
        0 => answer(429, &["retry-after: 0"], ""),
        _ => json_answer(200, &completion("x")),
    })
    .await;
    let mut config = config(&server);
    config.retries = RetryPolicy { tries_max: 2, base_ms: 0, cap_ms: 86_400_000 };
    assert_eq!(endpoint(&config).generate(request("hi")).await.unwrap().attempts, 2);
}

#[tokio::test]
async fn the_purse_of_retries_is_shared_by_all_endpoints_of_a_run() {
    let server = Server::start(|_, _| answer(500, &[], "")).await;
    let shared = Shared::new(3);
    let one = build("one", &config(&server), &shared, None).unwrap();
    let other = build("other", &config(&server), &shared, None).unwrap();
    assert_eq!(one.generate(request("hi")).await.unwrap_err().kind, FailureKind::ServerError);
    let failure = other.generate(request("hi")).await.unwrap_err();
    assert_eq!((failure.kind, failure.attempts), (FailureKind::RetriesSpent, 2));
    assert!(failure.detail.contains("status 500"), "the cause is told: {failure}");
    assert_eq!(server.seen().len(), 3 + 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_a_timeout_and_never_a_success() {
    let server = Server::start(|_, _| vec![Step::Silence]).await;
    let mut config = config(&server);
    config.timeout_ms = 20_000;
    let endpoint = endpoint(&config);
    let failure = endpoint.generate(request("hi")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut, "{failure}");
    let tally = endpoint.tally();
    assert_eq!((tally.answered, tally.failed, tally.in_flight), (0, 1, 0));
}

#[tokio::test]
async fn dropping_a_call_drops_its_request_and_returns_its_permit() {
    let server = Server::start(|number, _| match number {
        0 => vec![Step::Silence],
        _ => json_answer(200, &completion("x")),
    })
    .await;
    let mut config = config(&server);
    config.concurrency = 1;
    let endpoint = endpoint(&config);
    let call = tokio::spawn({
        let endpoint = endpoint.clone();
        async move { endpoint.generate(request("hi")).await }
    });
    server.arrivals(1).await;
    call.abort();
    server.closures(1).await;
    assert_eq!(endpoint.generate(request("hi")).await.unwrap().text, "x", "the one permit is back");
    assert_eq!(endpoint.tally().in_flight, 0);
}

#[tokio::test]
async fn waiting_for_a_permit_counts_as_queued_and_not_as_served() {
    let gates = [watch::channel(false), watch::channel(false)];
    let open = [gates[0].1.clone(), gates[1].1.clone()];
    let server = Server::start(move |number, _| {
        [vec![Step::Gate(open[number].clone())], json_answer(200, &completion("x"))].concat()
    })
    .await;
    let mut config = config(&server);
    (config.concurrency, config.retries.tries_max) = (1, 1);
    let endpoint = endpoint(&config);
    let call = || {
        let endpoint = endpoint.clone();
        // Its limit of sixty seconds is shorter than the second call's wait at the door.
        tokio::spawn(async move { endpoint.generate(request("hi")).await })
    };
    let first = call();
    server.arrivals(1).await;
    let second = call();
    tokio::task::yield_now().await;
    jump(90).await;
    assert_eq!(first.await.unwrap().unwrap_err().kind, FailureKind::TimedOut, "it was served all that time");
    server.arrivals(2).await;
    jump(5).await;
    gates[1].0.send(true).unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(second.queued_ms >= 90_000 && (5_000..60_000).contains(&second.served_ms), "{second:?}");
}

async fn jump(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test(start_paused = true)]
async fn the_rate_of_tokens_is_corrected_by_what_the_server_counted() {
    let server = Server::start(|_, _| {
        let mut answer = completion("x");
        answer["usage"] = json!({"prompt_tokens": 600, "completion_tokens": 60});
        json_answer(200, &answer)
    })
    .await;
    let mut config = config(&server);
    config.tokens_per_minute = Some(600);
    let endpoint = endpoint(&config);
    assert_eq!(endpoint.generate(request("hi")).await.unwrap().queued_ms, 0);
    // 660 tokens at ten a second, less a burst of sixty, and the next call's own burst.
    let second = endpoint.generate(request("hi")).await.unwrap();
    assert!((60_000..=66_000).contains(&second.queued_ms), "{second:?}");
}

#[tokio::test]
async fn overload_halves_an_adaptive_door_and_the_run_goes_on() {
    let server = Server::start(|number, _| match number {
        0 => answer(503, &[], ""),
        _ => json_answer(200, &completion("x")),
    })
    .await;
    let mut config = config(&server);
    (config.concurrency, config.adaptive) = (4, true);
    let endpoint = endpoint(&config);
    let calls = (0..20).map(|_| endpoint.generate(request("hi")));
    assert!(join_all(calls).await.into_iter().all(|result| result.is_ok()));
    assert!(endpoint.tally().in_flight_most <= 4);
}
