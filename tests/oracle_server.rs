//! An OpenAI-compatible server around the oracle, asked by real processes: what each of them asks is counted apart, so
//! that a test can tell what was asked twice. Its answers can be held back, so that a test knows who is in the middle
//! of a turn. Bytes by hand, so that nothing of ours is between the program and the wire.

use crate::program::Place;
use legwork_endpoints::Endpoint;
use legwork_protocol::call::Grammar;
use legwork_protocol::generation::{GenerateRequest, Route, Sampling};
use legwork_protocol::message::{Message, Role};
use legwork_protocol::question::Question;
use legwork_scenarios::mocks::{OracleModel, Skill};
use legwork_worlds::{World, archive, plain};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::Duration;

/// What the server takes for an answer.
const LATENCY: Duration = Duration::from_millis(3);
/// Of the documents that no question needs, one in so many is in the corpus: enough to be searched among.
const FILLER_EVERY: usize = 8;
/// Looks of whoever waits for requests that may never come.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// So many looks at most without a request.
const LOOKS_MAX: u32 = 20_000;

static WORLD: LazyLock<World> = LazyLock::new(|| archive::generate(archive::DEFAULT_SEED).unwrap().world);

/// The server; it ends with the test's process.
pub(crate) struct OracleServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    model: OracleModel,
    state: Mutex<State>,
    more: Condvar,
}

/// How often each request was made in each case, and from which request on answers are held back.
#[derive(Default)]
struct State {
    cases: BTreeMap<String, BTreeMap<u64, u32>>,
    held_from: Option<u32>,
}

impl State {
    fn all(&self, case: &str) -> u32 {
        self.cases.get(case).map_or(0, |asked| asked.values().sum())
    }
}

impl OracleServer {
    /// Starts a server that answers at once, or nearly.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let questions: Vec<Arc<Question>> = WORLD.test.iter().cloned().map(Arc::new).collect();
        let model = OracleModel::new("server", Grammar::Strict, Skill::TRAINED, Duration::ZERO, &questions);
        let shared = Arc::new(Shared { model, state: Mutex::default(), more: Condvar::new() });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || drop(serve(stream, &shared)));
            }
        });
        Self { address, shared }
    }

    /// Writes a world of so many questions and the configuration `CASE.toml`, by which this server is asked as `case`.
    pub(crate) fn furnish(&self, place: &Place, case: &str, questions: usize) {
        if !place.path("world").exists() {
            write_world(place, questions);
        }
        let text = format!(
            "profile = \"archive-mock\"\n[world]\nkind = \"plain\"\nquestions = \"world/questions.jsonl\"\ncorpus = \"world/corpus.jsonl\"\n\
             [run]\nresamples = 300\n[index]\nthreads = 1\n\
             [models.worker]\nkind = \"openai\"\nurl = \"http://{}/{case}/v1\"\nmodel = \"oracle\"\nstream = false\n",
            self.address
        );
        place.write(&format!("{case}.toml"), &text);
    }

    /// Requests of a case so far, and how many of them repeated an earlier one.
    pub(crate) fn asked(&self, case: &str) -> (u32, u32) {
        let state = self.shared.state.lock().unwrap();
        let distinct = state.cases.get(case).map_or(0, BTreeMap::len);
        (state.all(case), state.all(case) - u32::try_from(distinct).unwrap())
    }

    /// What was asked in a case, however often.
    pub(crate) fn distinct(&self, case: &str) -> BTreeSet<u64> {
        let state = self.shared.state.lock().unwrap();
        state.cases.get(case).map(|asked| asked.keys().copied().collect()).unwrap_or_default()
    }

    /// Waits until so many requests have come in a case, or `is_over`; tells whether they have come.
    pub(crate) fn wait_for(&self, case: &str, requests: u32, is_over: impl Fn() -> bool) -> bool {
        let mut state = self.shared.state.lock().unwrap();
        for _ in 0..LOOKS_MAX {
            if state.all(case) >= requests {
                return true;
            }
            if is_over() {
                return false;
            }
            state = self.shared.more.wait_timeout(state, LOOK_EVERY).unwrap().0;
        }
        panic!("{case}: {requests} requests were expected, {} have come", state.all(case));
    }

    /// Holds back the answers to a case's requests from this one on, counted from 1.
    pub(crate) fn hold_from(&self, request: u32) {
        self.shared.state.lock().unwrap().held_from = Some(request);
    }

    /// Answers whoever was held back, and everybody after.
    pub(crate) fn release(&self) {
        self.shared.state.lock().unwrap().held_from = None;
        self.shared.more.notify_all();
    }
}

impl Shared {
    /// Counts a request; returns when it may be answered.
    fn take(&self, case: &str, body: &serde_json::Value) {
        let mut state = self.state.lock().unwrap();
        *state.cases.entry(case.to_owned()).or_default().entry(digest(body)).or_default() += 1;
        let number = state.all(case);
        self.more.notify_all();
        let is_held = |state: &mut State| state.held_from.is_some_and(|first| number >= first);
        drop(self.more.wait_while(state, is_held).unwrap());
        std::thread::sleep(LATENCY);
    }
}

/// The first questions, the documents that they need, and some that nobody needs.
fn write_world(place: &Place, questions: usize) {
    // Every tier has its share.
    let every = WORLD.test.len() / questions;
    let chosen: Vec<Question> = WORLD.test.iter().step_by(every).take(questions).cloned().collect();
    let needed: HashSet<_> =
        chosen.iter().flat_map(|question| question.gold.iter().chain(&question.evidence)).collect();
    let documents: Vec<_> = WORLD
        .documents
        .iter()
        .enumerate()
        .filter(|(number, document)| number.is_multiple_of(FILLER_EVERY) || needed.contains(&document.docid))
        .map(|(_, document)| document.clone())
        .collect();
    let mut bytes = Vec::new();
    std::fs::create_dir(place.path("world")).unwrap();
    plain::write_questions(&chosen, &mut bytes).unwrap();
    std::fs::write(place.path("world/questions.jsonl"), &bytes).unwrap();
    bytes.clear();
    plain::write_corpus(&documents, &mut bytes).unwrap();
    std::fs::write(place.path("world/corpus.jsonl"), &bytes).unwrap();
}

fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let (mut length, mut case) = (0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            // `POST /CASE/v1/chat/completions HTTP/1.1` comes first.
            if let Some(path) = line.strip_prefix("POST /") {
                case = path.split('/').next().unwrap_or_default().to_owned();
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        shared.take(&case, &body);
        let answer = answer(&shared.model, &body);
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
