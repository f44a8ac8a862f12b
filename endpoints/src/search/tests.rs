use super::*;
use legwork_protocol::id::DocId;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server whose n-th answer is the n-th of the script (its last, once that is used up), and what it was sent.
struct Stub {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

/// `None` says nothing until the client goes away.
type Answer = Option<(u16, String)>;

impl Stub {
    async fn start(script: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let record = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut number = 0;
            while let Ok((mut socket, _)) = listener.accept().await {
                let answer = script[number.min(script.len() - 1)].clone();
                number += 1;
                let record = Arc::clone(&record);
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !is_whole(&request) {
                        if socket.read_buf(&mut request).await.unwrap() == 0 {
                            return;
                        }
                    }
                    record.lock().unwrap().push(String::from_utf8(request).unwrap());
                    match answer {
                        Some((status, body)) => {
                            let head = format!(
                                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                                body.len()
                            );
                            let _gone = socket.write_all((head + &body).as_bytes()).await;
                        }
                        None => while socket.read(&mut [0]).await.is_ok_and(|read| read > 0) {},
                    }
                });
            }
        });
        Self { url, seen }
    }

    fn client(&self) -> SearchClient {
        SearchClient::new("corpus", &SearchConfig { backoff_ms: 0, ..SearchConfig::new(&self.url) }).unwrap()
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn results(rows: Value) -> Answer {
    Some((200, json!({"results": rows, "took_ms": 1.5}).to_string()))
}

async fn search(script: Vec<Answer>) -> Result<SearchAnswer, Failure> {
    Stub::start(script).await.client().search("q", 2).await
}

async fn open(page: PageRef, rows: Value) -> Option<Page> {
    Stub::start(vec![results(rows)]).await.client().open(&page).await.unwrap()
}

#[tokio::test]
async fn a_search_sends_query_and_k_and_reads_hits_in_order() {
    let rows = json!([
        {"docid": "01", "url": "http://a", "text": "one", "score": 0.5},
        {"docid": 7, "url": null, "text": "seven"},
        {"docid": "9", "url": "u", "text": "beyond k", "score": 0.1},
    ]);
    let stub = Stub::start(vec![results(rows)]).await;
    let answer = stub.client().search("who \u{1f600}", 2).await.unwrap();
    let got: Vec<_> =
        answer.hits.iter().map(|hit| (hit.docid.as_str(), hit.url.as_deref(), &*hit.text, hit.score)).collect();
    assert_eq!(got, [("01", Some("http://a"), "one", 0.5), ("7", None, "seven", 0.0)]);
    assert!(!answer.degraded);
    let request = &stub.seen()[0];
    assert!(request.starts_with("POST /search HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"query\":\"who 😀\",\"k\":2}"), "{request}");
}

#[tokio::test]
async fn a_document_that_the_server_cannot_fetch_is_left_out_and_said() {
    let rows = json!([
        {"docid": "1", "url": "ERROR", "text": "Fetch document error.", "score": 0.9},
        {"docid": "2", "url": "u", "text": "Fetch document error.", "score": 0.8},
    ]);
    let answer = search(vec![results(rows)]).await.unwrap();
    assert_eq!(answer.hits.iter().map(|hit| hit.docid.as_str()).collect::<Vec<_>>(), ["2"], "a page may say so too");
    assert!(answer.degraded);
}

#[tokio::test]
async fn an_unknown_or_another_page_is_no_page() {
    let docid = || PageRef::DocId(DocId::from("01"));
    let url = || PageRef::Url("http://a".into());
    let found = open(docid(), json!([{"docid": "01", "url": "http://a", "text": "t"}])).await.unwrap();
    assert_eq!((found.docid.as_str(), found.url.as_deref(), &*found.text), ("01", Some("http://a"), "t"));
    assert!(open(url(), json!([{"docid": "5", "url": "http://a", "text": "t"}])).await.is_some());
    for (page, row) in [
        (docid(), json!({"docid": "01", "url": null, "text": "Document not found for given docid."})),
        (docid(), json!({"docid": "1", "url": "http://a", "text": "another id's text"})),
        (url(), json!({"docid": null, "url": "http://a", "text": "Missing docid and url, or url not indexed."})),
        (url(), json!({"url": "http://a", "text": "no id at all"})),
    ] {
        assert_eq!(open(page, json!([row])).await, None, "{row}");
    }
    assert_eq!(open(docid(), json!([])).await, None);
}

#[tokio::test]
async fn what_may_pass_is_tried_three_times_and_named() {
    let full = || Some((503, json!({"detail": "Server overloaded"}).to_string()));
    let answer = search(vec![full(), Some((408, String::new())), results(json!([]))]).await.unwrap();
    assert_eq!(answer, SearchAnswer { served_ms: answer.served_ms, ..SearchAnswer::default() });
    for (status, kind, said) in [
        (503, FailureKind::ServerError, "its queue is full"),
        (408, FailureKind::TimedOut, "gave up on the query after its own limit"),
        (500, FailureKind::ServerError, "see its own log (status 500: Server overloaded)"),
    ] {
        let body = json!({"detail": "Server overloaded"}).to_string();
        let stub = Stub::start(vec![Some((status, body))]).await;
        let failure = stub.client().search("q", 2).await.unwrap_err();
        assert_eq!((failure.kind, failure.attempts, stub.seen().len()), (kind, 3, 3));
        assert!(
            failure.detail.contains(said) && failure.detail.contains("search server `corpus` at http://127."),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn what_cannot_pass_is_tried_once() {
    for (answer, kind, said) in [
        (Some((422, json!({"detail": [{"loc": ["k"]}]}).to_string())), FailureKind::Refused, "status 422"),
        (Some((404, "<html>".into())), FailureKind::Refused, "no such route"),
        (Some((200, "<html>hello".into())), FailureKind::BadResponse, "json was expected, got <html>hello"),
        (Some((200, "[]".into())), FailureKind::BadResponse, "an object with `results` was expected, got a list"),
        (Some((200, "{\"results\":3}".into())), FailureKind::BadResponse, "`results` must be a list, got a number"),
        (results(json!([{"docid": "1", "url": "u"}])), FailureKind::BadResponse, "`results[0]` has no `text`"),
        (results(json!([{"text": "t"}])), FailureKind::BadResponse, "`results[0]` of a search has no `docid`"),
        (
            results(json!([{"docid": [], "text": ""}])),
            FailureKind::BadResponse,
            "a `docid` that must be text, got a list",
        ),
    ] {
        let failure = search(vec![answer]).await.unwrap_err();
        assert_eq!((failure.kind, failure.attempts), (kind, 1), "{failure}");
        assert!(failure.detail.contains(said), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_a_timeout_after_all_tries() {
    let stub = Stub::start(vec![None]).await;
    let client =
        SearchClient::new("corpus", &SearchConfig { timeout_ms: 1000, ..SearchConfig::new(&stub.url) }).unwrap();
    let failure = client.open(&PageRef::DocId(DocId::from("1"))).await.unwrap_err();
    assert_eq!((failure.kind, failure.attempts), (FailureKind::TimedOut, 3));
    assert!(failure.detail.contains("no whole answer within 1000 ms (`timeout_ms`)"), "{failure}");
}

#[tokio::test]
async fn an_answer_beyond_its_limit_is_refused() {
    let stub = Stub::start(vec![results(json!([{"docid": "1", "text": "x".repeat(500)}]))]).await;
    let config = SearchConfig { body_max_bytes: 400, ..SearchConfig::new(&stub.url) };
    let failure = SearchClient::new("corpus", &config).unwrap().search("q", 1).await.unwrap_err();
    assert!(failure.detail.contains("larger than 400 bytes"), "{failure}");
}

#[tokio::test]
async fn health_is_asked_once_and_a_closed_port_is_unreachable() {
    let stub = Stub::start(vec![Some((200, "{\"status\":\"healthy\"}".into()))]).await;
    stub.client().health().await.unwrap();
    assert!(stub.seen()[0].starts_with("GET /health HTTP/1.1\r\n"));
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = SearchClient::new("corpus", &SearchConfig::new(format!("http://{free}"))).unwrap();
    let failure = client.health().await.unwrap_err();
    assert_eq!((failure.kind, failure.attempts), (FailureKind::Unreachable, 1), "{failure}");
}

#[tokio::test]
async fn a_token_is_sent_and_never_told() {
    let key = "tok-0123456789";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, key).unwrap();
    let stub = Stub::start(vec![Some((401, format!("bad token {key}")))]).await;
    let config = SearchConfig { key_file: Some(file), ..SearchConfig::new(&stub.url) };
    let failure = SearchClient::new("corpus", &config).unwrap().search("q", 1).await.unwrap_err();
    assert!(stub.seen()[0].contains("authorization: Bearer tok-0123456789\r\n"));
    assert!(failure.detail.contains("bad token [key]") && failure.detail.contains("key_env"), "{failure}");
}

#[test]
fn what_cannot_be_configured_is_refused_with_what_may_be() {
    let refusal = |config: SearchConfig| SearchClient::new("corpus", &config).err().unwrap().to_string();
    let base = || SearchConfig::new("http://h");
    assert!(refusal(SearchConfig { attempts_max: 0, ..base() }).contains("`attempts_max` must be 1 to 20, got 0"));
    assert!(refusal(SearchConfig { concurrency: 0, ..base() }).contains("`concurrency` must be 1 to 4096, got 0"));
    assert!(refusal(SearchConfig::new("h:8000")).contains("must start with http://"));
    let inline = SearchConfig { key: Some(Secret::new("k")), ..base() };
    assert!(refusal(inline).contains("holds a key inline"));
    assert!(toml::from_str::<SearchConfig>("url = 'http://h'\ntimout_ms = 3").is_err());
}

proptest::proptest! {
    #[test]
    fn no_json_panics(bytes: Vec<u8>, text in r#"([{}\[\],:]|"(results|docid|text|url|score)"|null|1e999|-0|"x"){0,40}"#) {
        for body in [bytes.as_slice(), text.as_bytes()] {
            if let Ok(value) = crate::json::parse(body) {
                let _ = reply::hits(value.clone());
                let _ = reply::page(&PageRef::DocId(DocId::from("x")), value);
            }
        }
    }
}
