//! A server of the mock model, and raw HTTP to it.

use crate::mock::Mock;
use actix_web::dev::ServerHandle;
use legwork_edge::model_server::{ModelServerConfig, bind};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A test that waits so long hangs.
const HANG: Duration = Duration::from_secs(30);

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) mock: Arc<Mock>,
    handle: ServerHandle,
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Running {
    pub(crate) fn start(config: ModelServerConfig) -> Self {
        let mock = Arc::new(Mock::default());
        let config = ModelServerConfig { listen: "127.0.0.1:0".parse().unwrap(), threads: 1, ..config };
        let server = bind(&config, vec![Arc::clone(&mock) as Arc<_>]).unwrap();
        let (address, handle) = (server.address(), server.handle());
        tokio::spawn(server.run());
        Self { address, mock, handle }
    }

    pub(crate) async fn stop(&self) {
        self.handle.stop(false).await;
    }

    /// Until so many answers are under way.
    pub(crate) async fn live(&self, count: usize) {
        let mut live = self.mock.live();
        let waited = tokio::time::timeout(HANG, live.wait_for(|live| *live == count)).await;
        waited.unwrap_or_else(|_| panic!("{count} answers under way never came")).unwrap();
    }

    pub(crate) async fn connect(&self, request: impl AsRef<[u8]>) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let _closed_early = socket.write_all(request.as_ref()).await;
        socket
    }

    /// Sends bytes and reads the answer until the server closes.
    pub(crate) async fn raw(&self, request: impl AsRef<[u8]>) -> Answer {
        Answer::read(self.connect(request).await).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.raw(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl ToString) -> Answer {
        self.raw(post(path, &body.to_string())).await
    }

    /// The JSON of an answer that must be 200.
    pub(crate) async fn ok(&self, path: &str, body: Value) -> Value {
        let answer = self.post(path, &body).await;
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.json()
    }

    /// The events of a stream, and whether it ended as one that went well.
    pub(crate) async fn stream(&self, path: &str, mut body: Value) -> (Vec<Value>, bool) {
        body["stream"] = true.into();
        let answer = self.post(path, &body).await;
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        assert!(answer.head.contains("content-type: text/event-stream"), "{}", answer.head);
        let mut events = answer.events();
        let is_done = events.last().is_some_and(|last| last == "[DONE]");
        if is_done {
            events.pop();
        }
        (events.iter().map(|event| serde_json::from_str(event).unwrap()).collect(), is_done)
    }
}

pub(crate) fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

impl Answer {
    pub(crate) async fn read(mut socket: TcpStream) -> Self {
        let mut bytes = Vec::new();
        let _reset = socket.read_to_end(&mut bytes).await;
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { joined(body) } else { body.to_owned() };
        Self { status, head: head.to_lowercase(), body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    /// The message of an error in OpenAI's shape.
    pub(crate) fn error(&self) -> String {
        let error = &self.json()["error"];
        for field in ["message", "type"] {
            assert!(error[field].is_string(), "{self:?}");
        }
        for field in ["param", "code"] {
            assert!(error[field].is_string() || error.get(field) == Some(&Value::Null), "{self:?}");
        }
        error["message"].as_str().unwrap().to_owned()
    }
}

/// The body of chunks.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        let Some(chunk) = rest.get(..length).filter(|chunk| !chunk.is_empty()) else { break };
        body.push_str(chunk);
        chunks = rest[length..].trim_start_matches("\r\n");
    }
    body
}
