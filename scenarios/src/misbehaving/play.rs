//! One request's treatment, byte by byte: what each misbehaviour writes, and how the connection is left behind. A mark
//! is made when the deed is done, not when it is planned.

use super::behaviour::{Misbehaviour, RetryAfter};
use super::marks::Marks;
use super::reply::{self, END, Events, NOW_EPOCH_S, chunk, stream_head};
use super::server::Door;
use legwork_protocol::generation::Completion;
use serde_json::json;
use std::io;
use std::time::UNIX_EPOCH;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Duration, sleep, timeout};

/// The longest silence that is kept, in milliseconds.
pub const HANG_MAX_MS: u64 = 600_000;
/// The longest body that is sent, in bytes.
pub const HUGE_MAX_BYTES: u64 = 1 << 30;
/// Bytes of what has no end, at most: headers and comments.
pub const ENDLESS_MAX_BYTES: usize = 8 << 20;
/// Seconds of the absurd `Retry-After`.
const ABSURD_S: u64 = 99_999_999_999;
/// Bytes of one piece of a huge body.
const HUGE_PIECE_BYTES: usize = 64 * 1024;

const EVENTS: &str = "text/event-stream";

/// What stands around one request.
pub(super) struct Scene<'a> {
    pub(super) socket: &'a mut TcpStream,
    pub(super) marks: &'a Marks,
    pub(super) door: &'a watch::Sender<Door>,
    /// Clients that left while they were kept waiting.
    pub(super) left: &'a watch::Sender<u64>,
    /// The request's number, from 0.
    pub(super) number: u64,
    /// The path that was asked for.
    pub(super) path: &'a str,
    /// A stream was asked for.
    pub(super) stream: bool,
    /// The reply of the endpoint behind; blank where the misbehaviour needs none.
    pub(super) said: Completion,
    /// The reply that was given before this one.
    pub(super) before: Option<(u64, Completion)>,
}

/// How a connection is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The next request may come on it.
    Open,
    /// It is shut down in order.
    Closed,
    /// It is reset.
    Reset,
}

impl Scene<'_> {
    /// Does it. An error is a client that left in the middle.
    pub(super) async fn play(mut self, deed: &Misbehaviour) -> io::Result<After> {
        let done = self.act(deed).await;
        if done.is_ok() || deed.outlives_its_client() {
            self.marks.make(deed.name());
        }
        done
    }

    async fn act(&mut self, deed: &Misbehaviour) -> io::Result<After> {
        match deed {
            Misbehaviour::Fine => self.fine().await,
            Misbehaviour::RateLimited { retry_after } => self.rate_limited(*retry_after).await,
            Misbehaviour::ServerError => self.whole(reply::error(500, "the model's worker died")).await,
            Misbehaviour::BadGatewayPage => self.bad_gateway().await,
            Misbehaviour::Unavailable => self.whole(reply::error(503, "the model is loading")).await,
            Misbehaviour::DoorClosed { for_ms } => {
                self.door.send_replace(Door::ClosedFor { ms: *for_ms });
                Ok(After::Reset)
            }
            Misbehaviour::ResetInHeaders => {
                self.send(b"HTTP/1.1 200 OK\r\ncontent-ty").await?;
                Ok(After::Reset)
            }
            Misbehaviour::ResetInBody => {
                self.begin_stream().await?;
                Ok(After::Reset)
            }
            Misbehaviour::HangBeforeHeaders => self.hang(deed).await,
            Misbehaviour::HangInStream => {
                self.begin_stream().await?;
                self.hang(deed).await
            }
            Misbehaviour::CutBeforeDone => self.stream(self.pieces(), EVENTS).await,
            Misbehaviour::CutInCharacter => {
                self.stream([self.pieces(), vec![cut_in_character()]].concat(), EVENTS).await
            }
            Misbehaviour::CutInJson => self.cut_in_json().await,
            Misbehaviour::GarbageJson => self.json_body(b"{\"choices\": [{\"message\": {\"content\": \"4\xff").await,
            Misbehaviour::NullContent => self.message(json!({"role": "assistant", "content": null})).await,
            Misbehaviour::EmptyText => self.message(json!({"role": "assistant", "content": ""})).await,
            Misbehaviour::NoChoices => self.whole(reply::json_reply(200, &json!({"id": "none", "choices": []}))).await,
            Misbehaviour::JsonAsPage => {
                let body = reply::completion(&self.id(), &self.said).to_string();
                self.whole(reply::whole(200, &["content-type: text/html".to_owned()], body.as_bytes())).await
            }
            Misbehaviour::StreamAsJson => {
                let Events { pieces, end } = self.events();
                self.stream([pieces, end].concat(), "application/json").await
            }
            Misbehaviour::HugeBody { bytes } => self.huge(*bytes).await,
            Misbehaviour::EndlessHeader => self.endless_header().await,
            Misbehaviour::SingleBytes { pause_ms } => self.single_bytes(*pause_ms).await,
            Misbehaviour::EndlessComments { pause_ms } => self.endless_comments(*pause_ms).await,
            Misbehaviour::RepeatedChunks => {
                let Events { pieces, end } = self.events();
                let twice = pieces.into_iter().flat_map(|piece| [piece.clone(), piece]).collect();
                self.stream([twice, end].concat(), EVENTS).await
            }
            Misbehaviour::OtherReply => self.other_reply().await,
            Misbehaviour::BrokenToolCall => self.broken_tool_call().await,
            Misbehaviour::ErrorUnder200 { code } => {
                let mut error = json!({"message": "the provider behind failed"});
                if let Some(code) = code {
                    error["code"] = json!(code);
                }
                self.whole(reply::json_reply(200, &json!({"error": error}))).await
            }
            Misbehaviour::RedirectLoop => {
                let location = format!("location: {}", self.path);
                self.whole(reply::whole(307, &[location], b"")).await
            }
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes).await?;
        self.socket.flush().await
    }

    async fn whole(&mut self, bytes: Vec<u8>) -> io::Result<After> {
        self.send(&bytes).await?;
        Ok(After::Open)
    }

    async fn json_body(&mut self, body: &[u8]) -> io::Result<After> {
        self.whole(reply::whole(200, &["content-type: application/json".to_owned()], body)).await
    }

    /// A stream in these pieces, ended as a body should be.
    async fn stream(&mut self, pieces: Vec<Vec<u8>>, content_type: &str) -> io::Result<After> {
        self.send(&stream_head(content_type)).await?;
        for piece in pieces {
            self.send(&chunk(&piece)).await?;
            // Each piece is a packet of its own, as far as that can be had.
            tokio::task::yield_now().await;
        }
        self.send(END).await?;
        Ok(After::Open)
    }

    fn id(&self) -> String {
        format!("chatcmpl-{}", self.number)
    }

    fn events(&self) -> Events {
        reply::events(&self.id(), &self.said)
    }

    fn pieces(&self) -> Vec<Vec<u8>> {
        self.events().pieces
    }

    /// The head of a stream and the first of its text.
    async fn begin_stream(&mut self) -> io::Result<()> {
        let begun: Vec<Vec<u8>> = self.pieces().into_iter().take(2).collect();
        self.send(&stream_head(EVENTS)).await?;
        for piece in begun {
            self.send(&chunk(&piece)).await?;
        }
        Ok(())
    }

    async fn fine(&mut self) -> io::Result<After> {
        if self.stream {
            let Events { pieces, end } = self.events();
            return self.stream([pieces, end].concat(), EVENTS).await;
        }
        let body = reply::completion(&self.id(), &self.said);
        self.whole(reply::json_reply(200, &body)).await
    }

    async fn rate_limited(&mut self, retry_after: RetryAfter) -> io::Result<After> {
        let date = |epoch_s: u64| httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(epoch_s));
        let mut headers = vec!["content-type: application/json".to_owned()];
        match retry_after {
            RetryAfter::None => {}
            RetryAfter::Seconds(seconds) => headers.push(format!("retry-after: {seconds}")),
            RetryAfter::Absurd => headers.push(format!("retry-after: {ABSURD_S}")),
            RetryAfter::DateIn(seconds) => {
                headers.push(format!("date: {}", date(NOW_EPOCH_S)));
                headers.push(format!("retry-after: {}", date(NOW_EPOCH_S + seconds)));
            }
        }
        let body = json!({"error": {"message": "too many requests at once", "code": 429}}).to_string();
        self.whole(reply::whole(429, &headers, body.as_bytes())).await
    }

    async fn bad_gateway(&mut self) -> io::Result<After> {
        let page = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><center><h1>502 Bad Gateway</h1>\
                    </center><script>alert(1)</script></body>\r\n</html>\r\n";
        self.whole(reply::whole(502, &["content-type: text/html".to_owned()], page.as_bytes())).await
    }

    async fn message(&mut self, message: serde_json::Value) -> io::Result<After> {
        let choices = json!([{"index": 0, "message": message, "finish_reason": "stop"}]);
        self.whole(reply::json_reply(200, &json!({"id": self.id(), "choices": choices}))).await
    }

    async fn cut_in_json(&mut self) -> io::Result<After> {
        let mut pieces = self.pieces();
        let whole = reply::event(&json!({"choices": [{"index": 0, "delta": {"content": "cut"}}]}));
        pieces.push(whole[..whole.len() / 2].to_vec());
        self.stream(pieces, EVENTS).await
    }

    /// Says nothing until the client leaves.
    async fn hang(&mut self, deed: &Misbehaviour) -> io::Result<After> {
        self.marks.make(deed.name());
        let mut rest = [0; 1024];
        let silence = async { while matches!(self.socket.read(&mut rest).await, Ok(read) if read > 0) {} };
        if timeout(Duration::from_millis(HANG_MAX_MS), silence).await.is_ok() {
            self.left.send_modify(|left| *left += 1);
        }
        // The mark was made when the silence began; an error keeps it from being made again.
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    async fn huge(&mut self, bytes: u64) -> io::Result<After> {
        let piece = chunk(&[b'x'; HUGE_PIECE_BYTES]);
        self.send(&stream_head("application/json")).await?;
        self.send(&chunk(b"{\"padding\": \"")).await?;
        let mut sent = 0;
        while sent < bytes.min(HUGE_MAX_BYTES) {
            self.send(&piece).await?;
            sent += HUGE_PIECE_BYTES as u64;
        }
        self.send(&chunk(b"\"}")).await?;
        self.send(END).await?;
        Ok(After::Closed)
    }

    async fn endless_header(&mut self) -> io::Result<After> {
        self.send(b"HTTP/1.1 200 OK\r\n").await?;
        let mut lines = 0_usize;
        let line = |number: usize| format!("x-filler-{number:08}: {}\r\n", "z".repeat(1000));
        while lines * line(0).len() < ENDLESS_MAX_BYTES {
            self.send(line(lines).as_bytes()).await?;
            lines += 1;
        }
        Ok(After::Closed)
    }

    async fn single_bytes(&mut self, pause_ms: u64) -> io::Result<After> {
        let bytes = if self.stream {
            let Events { pieces, end } = self.events();
            let body: Vec<u8> = pieces.iter().chain(&end).flat_map(|piece| chunk(piece)).collect();
            [stream_head(EVENTS), body, END.to_vec()].concat()
        } else {
            reply::json_reply(200, &reply::completion(&self.id(), &self.said))
        };
        for byte in bytes {
            self.send(&[byte]).await?;
            pause(pause_ms).await;
        }
        Ok(After::Open)
    }

    async fn endless_comments(&mut self, pause_ms: u64) -> io::Result<After> {
        let comment = chunk(b": the model is on its way\n\n");
        self.send(&stream_head(EVENTS)).await?;
        let mut sent = 0;
        while sent < ENDLESS_MAX_BYTES {
            if self.send(&comment).await.is_err() {
                self.left.send_modify(|left| *left += 1);
                break;
            }
            sent += comment.len();
            pause(pause_ms).await;
        }
        Ok(After::Closed)
    }

    async fn other_reply(&mut self) -> io::Result<After> {
        let nobody =
            || (u64::MAX, Completion { text: "the reply to somebody else".to_owned(), ..Completion::default() });
        let (number, said) = self.before.take().unwrap_or_else(nobody);
        (self.number, self.said) = (number, said);
        self.fine().await
    }

    async fn broken_tool_call(&mut self) -> io::Result<After> {
        let function = json!({"name": "search", "arguments": "{\"query\": \"cut off in the mid"});
        let call = json!({"id": "call_1", "type": "function", "function": function});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let choices = json!([{"index": 0, "message": message, "finish_reason": "tool_calls"}]);
        self.whole(reply::json_reply(200, &json!({"id": self.id(), "choices": choices}))).await
    }
}

impl Misbehaviour {
    /// Whether it is done although the client leaves before its end: leaving is a sane answer to it.
    fn outlives_its_client(&self) -> bool {
        matches!(self, Misbehaviour::HugeBody { .. } | Misbehaviour::EndlessHeader | Misbehaviour::SingleBytes { .. })
    }
}

/// An event whose last character lacks its second byte.
fn cut_in_character() -> Vec<u8> {
    let mut event = b"data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"caf".to_vec();
    event.push("é".as_bytes()[0]);
    event
}

async fn pause(pause_ms: u64) {
    if pause_ms == 0 {
        tokio::task::yield_now().await;
    } else {
        sleep(Duration::from_millis(pause_ms)).await;
    }
}
