//! An OpenAI-compatible server around the oracle: what it is asked is counted, so that a test can tell what was asked
//! twice. Bytes by hand, so that nothing of ours is between the program and the wire.

use legwork_endpoints::Endpoint;
use legwork_protocol::call::Grammar;
use legwork_protocol::generation::{GenerateRequest, Route, Sampling};
use legwork_protocol::message::{Message, Role};
use legwork_protocol::question::Question;
use legwork_scenarios::mocks::{OracleModel, Skill};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The server; it ends with the test's process.
pub(crate) struct OracleServer {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    asked: Arc<Asked>,
}

/// How often each request was made, and who waits for how many.
#[derive(Default)]
struct Asked {
    counts: Mutex<HashMap<u64, u32>>,
    more: Condvar,
}

impl OracleServer {
    /// Starts a server that takes `latency` for each answer.
    pub(crate) fn start(questions: &[Arc<Question>], latency: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Asked::default());
        let model = Arc::new(OracleModel::new("server", Grammar::Strict, Skill::TRAINED, Duration::ZERO, questions));
        let counts = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (model, counts) = (Arc::clone(&model), Arc::clone(&counts));
                std::thread::spawn(move || drop(serve(stream, &model, &counts, latency)));
            }
        });
        Self { address, asked }
    }

    /// Requests so far, and how many of them repeated an earlier one.
    pub(crate) fn asked(&self) -> (u32, u32) {
        let asked = self.asked.counts.lock().unwrap();
        let all = asked.values().sum();
        (all, all - u32::try_from(asked.len()).unwrap())
    }

    /// Waits until so many requests have come; false if the patience ends first.
    pub(crate) fn wait_for(&self, requests: u32, patience: Duration) -> bool {
        let asked = self.asked.counts.lock().unwrap();
        let too_few = |counts: &mut HashMap<u64, u32>| counts.values().sum::<u32>() < requests;
        !self.asked.more.wait_timeout_while(asked, patience, too_few).unwrap().1.timed_out()
    }
}

fn serve(stream: TcpStream, model: &OracleModel, asked: &Asked, latency: Duration) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        *asked.counts.lock().unwrap().entry(digest(&body)).or_default() += 1;
        asked.more.notify_all();
        std::thread::sleep(latency);
        let answer = answer(model, &body);
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        )?;
    }
}

fn digest(body: &serde_json::Value) -> u64 {
    let text = format!("{}{}", body["messages"], body["seed"]);
    u64::from_le_bytes(blake3::hash(text.as_bytes()).as_bytes()[..8].try_into().unwrap())
}

fn answer(model: &OracleModel, body: &serde_json::Value) -> String {
    let message = |message: &serde_json::Value| {
        let role = match message["role"].as_str().unwrap() {
            "system" => Role::System,
            "assistant" => Role::Assistant,
            _ => Role::User,
        };
        Arc::new(Message::new(role, message["content"].as_str().unwrap_or_default()))
    };
    let request = GenerateRequest {
        route: Route::Worker,
        session: None,
        messages: body["messages"].as_array().unwrap().iter().map(message).collect(),
        tools: None,
        sampling: Sampling {
            max_tokens: 1024,
            temperature: 1.0,
            top_p: 1.0,
            top_k: None,
            seed: body["seed"].as_u64(),
            stop: Vec::new(),
        },
        timeout_ms: 1000,
    };
    let completion = futures::executor::block_on(model.generate(request)).unwrap();
    serde_json::json!({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": completion.text}}],
        "usage": {"prompt_tokens": completion.usage.prompt_tokens, "completion_tokens": completion.usage.completion_tokens},
    })
    .to_string()
}
