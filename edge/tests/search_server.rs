//! The search server as others meet it: our client over real sockets, and raw HTTP that misbehaves.

// The helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_actors::retriever::{Library, ServerLibrary};
use legwork_edge::search_server::{SearchServerConfig, Token, bind};
use legwork_endpoints::search::{SearchClient, SearchConfig};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::DocId;
use legwork_protocol::retrieval::{Hit, Page, PageRef, SearchAnswer};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Three pages; some queries misbehave.
struct Shelf {
    entered: watch::Sender<u32>,
    open: watch::Receiver<bool>,
}

fn page(docid: &str) -> Page {
    let text: Arc<str> = Arc::from(format!("{docid} two\n\nthree four five six"));
    Page { docid: DocId::from(docid), url: Some(format!("http://{docid}")), title: None, text }
}

impl Library for Shelf {
    fn name(&self) -> &str {
        "a test's shelf"
    }

    fn search(&self, query: String, k: u32) -> BoxFuture<'_, Result<SearchAnswer, Failure>> {
        async move {
            self.entered.send_modify(|entered| *entered += 1);
            match query.as_str() {
                "wait" => drop(self.open.clone().wait_for(|open| *open).await),
                "fail" => return Err(Failure::new(FailureKind::Retrieval, "the index is gone")),
                "panic" => panic!("a test's panic"),
                _ => {}
            }
            let hit = |(place, docid): (usize, &str)| {
                let Page { docid, url, title, text } = page(docid);
                Hit { docid, url, title, text, score: 1.0 / (place + 1) as f64 }
            };
            let hits = ["a", "b", "c"].into_iter().enumerate().take(k as usize).map(hit).collect();
            Ok(SearchAnswer { hits, degraded: query == "degraded", served_ms: 0 })
        }
        .boxed()
    }

    fn open(&self, asked: PageRef) -> BoxFuture<'_, Result<Option<Page>, Failure>> {
        let found = ["a", "b", "c"].into_iter().map(page).find(|page| match &asked {
            PageRef::DocId(docid) => *docid == page.docid,
            PageRef::Url(url) => page.url.as_ref() == Some(url),
        });
        futures::future::ready(Ok(found)).boxed()
    }
}

struct Running {
    address: SocketAddr,
    entered: watch::Receiver<u32>,
    /// Opens the gate of "wait".
    gate: watch::Sender<bool>,
}

impl Running {
    fn start(config: SearchServerConfig) -> Self {
        let (entered, entries) = watch::channel(0);
        let (gate, open) = watch::channel(false);
        let config = SearchServerConfig { listen: "127.0.0.1:0".parse().unwrap(), threads: 1, ..config };
        let server = bind(&config, Arc::new(Shelf { entered, open })).unwrap();
        let address = server.address();
        tokio::spawn(server.run());
        Self { address, entered: entries, gate }
    }

    fn client(&self) -> SearchClient {
        let config = SearchConfig { attempts_max: 1, ..SearchConfig::new(format!("http://{}", self.address)) };
        SearchClient::new("ours", &config).unwrap()
    }

    async fn entries(&self, count: u32) {
        self.entered.clone().wait_for(|entered| *entered >= count).await.unwrap();
    }

    /// Sends bytes and reads status and body until the server closes.
    async fn raw(&self, request: impl AsRef<[u8]>) -> (u16, Value) {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let _closed_early = socket.write_all(request.as_ref()).await;
        let mut answer = Vec::new();
        let _reset = socket.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let length = body.len();
        self.raw(format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await
    }
}

fn words(search_words: usize, open_words: usize) -> SearchServerConfig {
    SearchServerConfig { search_words, open_words, ..SearchServerConfig::default() }
}

#[tokio::test]
async fn our_client_finds_and_opens_by_our_server() {
    let server = Running::start(words(2, 3));
    let client = server.client();
    client.health().await.unwrap();
    let answer = client.search("q", 2).await.unwrap();
    let got: Vec<_> = answer.hits.iter().map(|hit| (hit.docid.as_str(), &*hit.text, hit.score)).collect();
    assert_eq!(got, [("a", "a two", 1.0), ("b", "b two", 0.5)]);
    assert!(!answer.degraded);
    assert!(client.search("degraded", 2).await.unwrap().degraded, "what is down behind us is told on");
    let opened = client.open(&PageRef::Url("http://c".into())).await.unwrap().unwrap();
    assert_eq!(
        (opened.docid.as_str(), opened.url.as_deref(), &*opened.text),
        ("c", Some("http://c"), "c two\n\nthree")
    );
    assert_eq!(client.open(&PageRef::DocId(DocId::from("d"))).await, Ok(None));
    assert_eq!(client.open(&PageRef::Url("http://d".into())).await, Ok(None));
}

#[tokio::test]
async fn the_envelope_is_foldagents() {
    let server = Running::start(words(1, 1));
    let (status, mut body) = server.post("/search", r#"{"query":"q","extra":[]}"#).await;
    assert!(body["took_ms"].take().is_number());
    let rows = ["a", "b", "c"].map(|id| json!({"docid": id, "url": format!("http://{id}"), "text": id}));
    let scores = [1.0, 0.5, 1.0 / 3.0];
    let rows: Vec<Value> = rows
        .into_iter()
        .zip(scores)
        .map(|(mut row, score)| {
            row["score"] = json!(score);
            row
        })
        .collect();
    assert_eq!((status, body), (200, json!({"results": rows, "took_ms": null})));
    let (status, body) = server.post("/open", r#"{"docid":"b","url":"ignored"}"#).await;
    assert_eq!((status, &body["results"]), (200, &json!([{"docid": "b", "url": "http://b", "text": "b"}])));
}

#[tokio::test]
async fn an_unknown_page_is_a_sentence_under_200() {
    let server = Running::start(SearchServerConfig::default());
    for (body, row) in [
        (r#"{"docid":"x"}"#, json!({"docid": "x", "url": null, "text": "Document not found for given docid."})),
        (r#"{"url":"u"}"#, json!({"docid": null, "url": "u", "text": "Missing docid and url, or url not indexed."})),
        ("{}", json!({"docid": null, "url": null, "text": "Missing docid and url, or url not indexed."})),
    ] {
        let (status, answer) = server.post("/open", body).await;
        assert_eq!((status, &answer["results"]), (200, &json!([row])));
    }
}

#[tokio::test]
async fn what_is_not_a_request_is_refused_with_the_cure() {
    let server = Running::start(SearchServerConfig { body_max_bytes: 100, ..SearchServerConfig::default() });
    let huge = format!(r#"{{"query":"{}"}}"#, "x".repeat(200));
    let close = "host: localhost\r\nconnection: close\r\n\r\n";
    for (status, said, answer) in [
        (400, "of the form {\"query\": text, \"k\": number}", server.post("/search", r#"{"query": "q"#).await),
        (400, "missing field `query`", server.post("/search", "{}").await),
        (400, "invalid value: integer `-1`", server.post("/search", r#"{"query":"q","k":-1}"#).await),
        (400, "surrogate", server.post("/search", r#"{"query":"\ud83d "}"#).await),
        (400, "{\"docid\": text}", server.post("/open", r#"{"docid":3}"#).await),
        (413, "larger than 100 bytes", server.post("/search", &huge).await),
        (404, "there is POST /search", server.post("/find", "{}").await),
        (405, "takes GET only", server.post("/health", "").await),
        (405, "takes POST only", server.raw(format!("GET /search HTTP/1.1\r\n{close}")).await),
        (
            403,
            "without a token only",
            server
                .raw("POST /search HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .await,
        ),
    ] {
        assert_eq!(answer.0, status, "{answer:?}");
        assert!(answer.1["detail"].as_str().is_some_and(|detail| detail.contains(said)), "{said}: {answer:?}");
    }
    let claims =
        "POST /search HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 99999999999\r\n\r\n{";
    assert_eq!(server.raw(claims).await.0, 413, "refused by its claim, before anything is read");
    assert_eq!(server.raw("\u{0}\u{1} nonsense\r\n\r\n").await.0, 400);
    assert_eq!(server.client().search("q", 1).await.unwrap().hits.len(), 1, "the server lives");
}

#[tokio::test]
async fn a_token_is_needed_where_one_is_set() {
    let token = Some(Token::new("0123456789abcdef"));
    let server = Running::start(SearchServerConfig { token, ..SearchServerConfig::default() });
    server.client().health().await.unwrap();
    let failure = server.client().search("q", 1).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.detail.contains("bearer token is needed"), "{failure}");
    let ask = |token: &str| {
        format!("GET /stats HTTP/1.1\r\nhost: any.example\r\nconnection: close\r\nauthorization: {token}\r\n\r\n")
    };
    assert_eq!(server.raw(ask("Bearer 0123456789abcdeX")).await.0, 401);
    assert_eq!(server.raw(ask("0123456789abcdef")).await.0, 401);
    assert_eq!(server.raw(ask("bearer 0123456789abcdef")).await.0, 200);
}

#[tokio::test]
async fn a_full_queue_is_503_and_those_inside_are_answered() {
    let server = Running::start(SearchServerConfig { concurrency: 1, queue_max: 0, ..SearchServerConfig::default() });
    let client = Arc::new(server.client());
    let inside = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.search("wait", 1).await }
    });
    server.entries(1).await;
    let failure = client.search("q", 1).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::ServerError);
    assert!(failure.detail.contains("queue is full") && failure.detail.contains("0 lookups wait already"), "{failure}");
    server.gate.send(true).unwrap();
    assert_eq!(inside.await.unwrap().unwrap().hits.len(), 1);
    let (_, stats) = server.raw("GET /stats HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    assert_eq!(
        (&stats["pending"], &stats["counts"]["refused_full"], &stats["counts"]["answered"]),
        (&json!(0), &json!(1), &json!(1))
    );
}

#[tokio::test]
async fn a_slow_client_holds_no_slot() {
    let server = Running::start(SearchServerConfig { concurrency: 1, queue_max: 0, ..SearchServerConfig::default() });
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"POST /search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n\r\n{\"query\":")
        .await
        .unwrap();
    assert_eq!(server.client().search("q", 1).await.unwrap().hits.len(), 1);
    drop(slow);
}

#[tokio::test]
async fn a_lookup_beyond_its_time_is_408_and_failures_are_told() {
    let hurried = Running::start(SearchServerConfig { timeout_ms: 20, ..SearchServerConfig::default() });
    let patient = Running::start(SearchServerConfig { concurrency: 1, ..SearchServerConfig::default() });
    for (server, query, kind, said) in [
        (&hurried, "wait", FailureKind::TimedOut, "no answer within 20 ms"),
        (&patient, "fail", FailureKind::ServerError, "retrieval: the index is gone"),
        (&patient, "panic", FailureKind::ServerError, "the lookup panicked"),
    ] {
        let failure = server.client().search(query, 1).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.detail.contains(said), "{failure}");
    }
    assert_eq!(patient.client().search("q", 1).await.unwrap().hits.len(), 1, "the one slot is back");
}

#[tokio::test]
async fn a_library_behind_our_server_is_a_library_again() {
    let server = Running::start(SearchServerConfig::default());
    let library = ServerLibrary::new(server.client());
    library.health().await.unwrap();
    assert_eq!(library.name(), format!("search server at http://{}", server.address));
    assert_eq!(library.search("q".into(), 3).await.unwrap().hits[2].docid.as_str(), "c");
    let opened = library.open(PageRef::DocId(DocId::from("b"))).await.unwrap().unwrap();
    assert_eq!(opened, page("b"), "nothing is lost on the way");
}

#[tokio::test]
async fn a_taken_port_and_an_open_address_are_named_with_the_cure() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (entered, _) = watch::channel(0);
    let (_, open) = watch::channel(false);
    let shelf: Arc<dyn Library> = Arc::new(Shelf { entered, open });
    let refused = |listen: SocketAddr| {
        let config = SearchServerConfig { listen, ..SearchServerConfig::default() };
        bind(&config, Arc::clone(&shelf)).err().unwrap().to_string()
    };
    assert!(refused(taken.local_addr().unwrap()).contains("stop what listens there or choose another port"));
    assert!(refused("0.0.0.0:0".parse().unwrap()).contains("no token is set: set one, or listen on 127.0.0.1"));
}
