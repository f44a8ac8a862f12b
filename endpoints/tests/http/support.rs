//! A scripted HTTP server over raw sockets: which bytes, in which pieces, when (by gate, never by sleep),
//! and how the connection ends.

use legwork_endpoints::config::{EndpointConfig, Kind};
use legwork_endpoints::{Endpoint, RetryPolicy, Shared, build};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, GenerateRequest, Route, Sampling};
use legwork_protocol::message::{Message, Role};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// One request as the server read it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// One thing that the server does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Writes and flushes.
    Send(Vec<u8>),
    /// Waits until the gate is open.
    Gate(watch::Receiver<bool>),
    /// Resets the connection.
    Reset,
    /// Says nothing until the client closes.
    Silence,
    /// Reads the next request on the same connection.
    Next,
}

pub(crate) type Script = Vec<Step>;

/// A running server; it ends with the test's runtime.
pub(crate) struct Server {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Requests read so far.
    arrived: watch::Receiver<usize>,
    /// Connections that the client closed during a `Silence`.
    closed: watch::Receiver<usize>,
    /// Connections accepted.
    connected: Arc<AtomicUsize>,
}

impl Server {
    /// Serves: `handler` is told the request's number from 0 and what it was.
    pub(crate) async fn start(handler: impl Fn(usize, &Seen) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (arrivals, arrived) = watch::channel(0);
        let (closures, closed) = watch::channel(0);
        let (handler, record) = (Arc::new(handler), seen.clone());
        let connected: Arc<AtomicUsize> = Arc::default();
        let connections = connected.clone();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let (handler, record) = (handler.clone(), record.clone());
                let (arrivals, closures) = (arrivals.clone(), closures.clone());
                tokio::spawn(async move {
                    while serve(&mut socket, &*handler, &record, &arrivals, &closures).await.is_some() {}
                });
            }
        });
        Self { address, seen, arrived, closed, connected }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }

    pub(crate) async fn arrivals(&self, count: usize) {
        self.arrived.clone().wait_for(|arrived| *arrived >= count).await.unwrap();
    }

    pub(crate) async fn closures(&self, count: usize) {
        self.closed.clone().wait_for(|closed| *closed >= count).await.unwrap();
    }
}

/// Serves one request; something if the connection is to be read again.
async fn serve(
    socket: &mut TcpStream,
    handler: &(dyn Fn(usize, &Seen) -> Script + Send + Sync),
    record: &Mutex<Vec<Seen>>,
    arrivals: &watch::Sender<usize>,
    closures: &watch::Sender<usize>,
) -> Option<()> {
    let request = read_request(socket).await?;
    let number = {
        let mut record = record.lock().unwrap();
        record.push(request.clone());
        record.len() - 1
    };
    let script = handler(number, &request);
    arrivals.send_modify(|arrived| *arrived += 1);
    for step in script {
        match step {
            Step::Send(bytes) => {
                if socket.write_all(&bytes).await.is_err() || socket.flush().await.is_err() {
                    return None;
                }
                tokio::task::yield_now().await;
            }
            Step::Gate(mut gate) => drop(gate.wait_for(|open| *open).await),
            Step::Reset => {
                socket.set_zero_linger().unwrap();
                return None;
            }
            Step::Silence => {
                let mut byte = [0];
                while socket.read(&mut byte).await.is_ok_and(|read| read > 0) {}
                closures.send_modify(|closed| *closed += 1);
                return None;
            }
            Step::Next => return Some(()),
        }
    }
    let _gone = socket.shutdown().await;
    None
}

async fn read_request(socket: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok())
        .unwrap_or(0);
    while bytes.len() < end + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let path = head.split_whitespace().nth(1)?.to_owned();
    let body = serde_json::from_slice(&bytes[end..]).unwrap_or(Value::Null);
    Some(Seen { path, head, body })
}

/// A whole answer; `headers` are lines without line ends.
pub(crate) fn answer(status: u16, headers: &[&str], body: impl AsRef<[u8]>) -> Script {
    let body = body.as_ref();
    let mut bytes =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n", body.len()).into_bytes();
    for header in headers {
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    vec![Step::Send(bytes)]
}

pub(crate) fn json_answer(status: u16, body: &Value) -> Script {
    answer(status, &["content-type: application/json"], body.to_string())
}

/// The head of a stream whose pieces are [`chunk`]s.
pub(crate) fn stream_head() -> Step {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    Step::Send(head.into())
}

/// One piece of a chunked body.
pub(crate) fn chunk(bytes: impl AsRef<[u8]>) -> Step {
    let bytes = bytes.as_ref();
    let mut piece = format!("{:x}\r\n", bytes.len()).into_bytes();
    piece.extend_from_slice(bytes);
    piece.extend_from_slice(b"\r\n");
    Step::Send(piece)
}

/// The end of a chunked body.
pub(crate) fn end() -> Step {
    Step::Send(b"0\r\n\r\n".to_vec())
}

/// A stream in these pieces, ended properly.
pub(crate) fn stream(pieces: &[&[u8]]) -> Script {
    let mut script = vec![stream_head()];
    script.extend(pieces.iter().filter(|piece| !piece.is_empty()).map(chunk));
    script.push(end());
    script
}

/// A frame of the OpenAI kind with this text.
pub(crate) fn delta(text: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}))
}

/// The frame that ends an answer.
pub(crate) fn finish(reason: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

pub(crate) fn completion(text: &str) -> Value {
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
           "usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}})
}

pub(crate) fn request(text: &str) -> GenerateRequest {
    GenerateRequest {
        route: Route::Worker,
        session: None,
        messages: vec![Arc::new(Message::new(Role::User, text))],
        tools: None,
        sampling: Sampling { max_tokens: 16, temperature: 0.0, top_p: 1.0, top_k: None, seed: None, stop: vec![] },
        timeout_ms: 60_000,
    }
}

/// An OpenAI endpoint at this server: no backoff, so that no test sleeps.
pub(crate) fn config(server: &Server) -> EndpointConfig {
    let mut config = EndpointConfig::new(Kind::Openai, server.url("/v1"), "m");
    config.retries = RetryPolicy { tries_max: 3, base_ms: 0, cap_ms: 0 };
    config
}

pub(crate) fn endpoint(config: &EndpointConfig) -> Arc<dyn Endpoint> {
    build("worker", config, &Shared::default(), None).unwrap()
}

/// One call to a server that answers every request by `script`, with a single try.
pub(crate) async fn once(script: Script) -> Result<Completion, Failure> {
    let server = Server::start(move |_, _| script.clone()).await;
    let mut config = config(&server);
    config.retries.tries_max = 1;
    endpoint(&config).generate(request("hi")).await
}
