//! `legwork serve model` under way, and HTTP to it by bytes on a socket, so that nothing of ours is between the program and the
//! wire. One server is shared by all tests that run at the same time.

use super::model;
use crate::program::{End, Place, Running};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// A read that takes longer hangs.
const HANG: Duration = Duration::from_secs(60);
/// Between two looks at a number of the server.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So many looks at most.
const LOOKS_MAX: u32 = 3_000;
/// Tokens of a sequence at most.
pub(super) const CONTEXT: u32 = 1024;

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

/// A server under way; it ends when it is dropped.
pub(super) struct Server {
    pub(super) running: Running,
    address: String,
    _place: Place,
}

/// An answer as it came.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Server {
    /// Starts one of its own, if the model is there.
    pub(super) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// Starts one of its own with flags.
    pub(super) fn start_with(flags: &[&str]) -> Option<Self> {
        let place = Place::new();
        let context = CONTEXT.to_string();
        let listen = ["--listen", "127.0.0.1:0", "--context", &context, "--cache-mib", "512", "--alias", "small"];
        let running = place.start(&[&["serve", "model", model()?][..], &listen, flags].concat());
        running.must_say("Ctrl-C ends it");
        let said = running.said();
        let (_, rest) = said.split_once("http://").unwrap();
        let address = rest.split(';').next().unwrap().to_owned();
        Some(Self { running, address, _place: place })
    }

    /// The one that other tests ask too.
    pub(super) fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Some(server);
        }
        let server = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&server);
        Some(server)
    }

    /// Waits until it has ended by itself.
    pub(super) fn end(self) -> End {
        self.running.end()
    }

    /// The address for a configuration, such as `http://127.0.0.1:1234/v1`.
    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Sends a request; its answer has not been read.
    pub(super) fn begin(&self, path: &str, body: &Value) -> TcpStream {
        let body = body.to_string();
        self.send(&format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len()), &body)
    }

    /// Sends a head and a body as they are.
    pub(super) fn send(&self, head: &str, body: &str) -> TcpStream {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        write!(socket, "{head}host: localhost\r\nconnection: close\r\n\r\n{body}").unwrap();
        socket
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        Answer::read(self.send(&format!("GET {path} HTTP/1.1\r\n"), ""))
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::read(self.begin(path, body))
    }

    /// The JSON of an answer that must be 200.
    #[track_caller]
    pub(super) fn ok(&self, path: &str, body: Value) -> Value {
        let answer = self.post(path, &body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.json()
    }

    /// The events of a stream that must end well.
    #[track_caller]
    pub(super) fn stream(&self, path: &str, mut body: Value) -> Vec<Value> {
        body["stream"] = json!(true);
        self.post(path, &body).events()
    }

    /// A number of `/metrics`.
    #[track_caller]
    pub(super) fn metric(&self, name: &str) -> f64 {
        let page = self.get("/metrics").body;
        let is_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let line = page.lines().find(is_it).unwrap_or_else(|| panic!("{name} is not in {page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until a number of `/metrics` `is_right`.
    #[track_caller]
    pub(super) fn until(&self, name: &str, is_right: impl Fn(f64) -> bool) {
        assert!(comes_about(|| is_right(self.metric(name))), "{name} stayed {}", self.metric(name));
    }
}

/// Whether something comes about by itself.
pub(super) fn comes_about(is: impl Fn() -> bool) -> bool {
    (0..LOOKS_MAX).any(|_| {
        let is = is();
        if !is {
            std::thread::sleep(LOOK_EVERY);
        }
        is
    })
}

impl Answer {
    /// Reads until the server closes.
    pub(super) fn read(mut socket: TcpStream) -> Self {
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).unwrap();
        Self::of(&bytes)
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        let text = std::str::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        Self { status, body: if is_chunked { joined(body) } else { body.to_owned() } }
    }

    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The events of a stream, which must end well.
    #[track_caller]
    pub(super) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        let mut events: Vec<&str> = self.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        assert_eq!(events.pop(), Some("[DONE]"), "{self:?}");
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

/// The body of chunks.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            break;
        }
        body.push_str(&rest[..length]);
        chunks = &rest[length + 2..];
    }
    body
}
