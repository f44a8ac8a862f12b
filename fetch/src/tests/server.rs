//! A server on this machine that answers GET requests as a function of what was asked, one a connection, and remembers them.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What was asked.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    /// Path and query.
    pub(super) path: String,
    headers: Vec<(String, String)>,
}

impl Ask {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// The connection ends after so many bytes of the body.
    pub(super) cut: Option<usize>,
}

impl Answer {
    pub(super) fn bytes(body: &[u8]) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.to_vec(), cut: None }
    }

    pub(super) fn redirect(target: &str) -> Self {
        Self { status: 302, headers: vec![("location".into(), target.into())], body: Vec::new(), cut: None }
    }

    pub(super) fn not_found() -> Self {
        Self { status: 404, ..Self::bytes(b"not here") }
    }
}

type Answering = dyn Fn(&Ask, &str) -> Answer + Send + Sync;

/// A running server.
pub(super) struct Hub {
    /// `http://127.0.0.1:PORT`.
    pub(super) address: String,
    asks: Arc<Mutex<Vec<Ask>>>,
}

impl Hub {
    pub(super) async fn start(answering: impl Fn(&Ask, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asks = Arc::new(Mutex::new(Vec::new()));
        let (seen, answering, own): (_, Arc<Answering>, _) = (Arc::clone(&asks), Arc::new(answering), address.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answering, own) = (Arc::clone(&seen), Arc::clone(&answering), own.clone());
                tokio::spawn(async move {
                    let _ = serve(stream, &seen, &*answering, &own).await;
                });
            }
        });
        Self { address, asks }
    }

    pub(super) fn asks(&self) -> Vec<Ask> {
        self.asks.lock().unwrap().clone()
    }

    pub(super) fn asked(&self) -> usize {
        self.asks().len()
    }
}

async fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Ask>>, answering: &Answering, own: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let ask = Ask { path, headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect() };
    seen.lock().unwrap().push(ask.clone());
    let answer = answering(&ask, own);
    let mut out =
        format!("HTTP/1.1 {} x\r\nconnection: close\r\ncontent-length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        out += &format!("{name}: {}\r\n", value.replace('\n', " "));
    }
    stream.write_all((out + "\r\n").as_bytes()).await?;
    let end = answer.cut.unwrap_or(answer.body.len()).min(answer.body.len());
    stream.write_all(&answer.body[..end]).await?;
    stream.flush().await
}
