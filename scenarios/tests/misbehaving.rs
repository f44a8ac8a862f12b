//! Every misbehaviour against a real client of `endpoints`, configured as a user would: the failure's kind and words,
//! recovery by trying again, permits and tallies, cancellation, and keys that stay secret. In the end a whole run of
//! thirty questions over a server that misbehaves three times in ten.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/actors_run.rs"]
mod actors_run;

use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_actors::run::RunEnd;
use legwork_endpoints::{Endpoint, EndpointConfig, Shared, Tally, build};
use legwork_protocol::call::{Grammar, ReadFault};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{Completion, GenerateRequest, Route, Sampling, Usage};
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::message::{Message, Role};
use legwork_protocol::outcome::Outcome;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use legwork_protocol::retrieval::Page;
use legwork_scenarios::misbehaving::{MisbehavingServer, Misbehaviour, RetryAfter, ServerPlan};
use legwork_scenarios::mocks::{GoldLibrary, OracleModel, Skill};
use legwork_worlds::archive;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

const KEY: &str = "sk-misbehaving-0123456789-abcdefghijklmnop";
const TEXT: &str = "na\u{ef}ve \u{1f600}: the answer that the model behind the server gives, longer than one event";

/// The model behind the server.
struct Says;

impl Endpoint for Says {
    fn name(&self) -> &str {
        "says the same"
    }

    fn generate(&self, _request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        let usage = Usage { prompt_tokens: 11, cached_tokens: 3, completion_tokens: 7 };
        futures::future::ready(Ok(Completion { text: TEXT.into(), usage, ..Completion::default() })).boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// A model that is never done.
struct Thinks;

impl Endpoint for Thinks {
    fn name(&self) -> &str {
        "thinks for ever"
    }

    fn generate(&self, _request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        futures::future::pending().boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// A client's configuration and the file with its key.
struct Client {
    config: EndpointConfig,
    _key: tempfile::NamedTempFile,
}

impl Client {
    /// Of a server, as a user writes it; `more` are further lines.
    fn of(server: &MisbehavingServer, more: &str) -> Self {
        let mut key = tempfile::NamedTempFile::new().unwrap();
        key.write_all(KEY.as_bytes()).unwrap();
        let url = server.url();
        let path = key.path().display();
        let text = format!(
            "kind = \"openai\"\nurl = \"{url}\"\nmodel = \"m\"\nkey_file = \"{path}\"\nconcurrency = 1\nbody_max_bytes = 65536\n{more}"
        );
        Self { config: toml::from_str(&text).unwrap(), _key: key }
    }

    fn build(&self) -> Arc<dyn Endpoint> {
        build("models.worker", &self.config, &Shared::default(), None).unwrap()
    }
}

/// Two tries at once, and time limits as short as the misbehaviour needs them.
fn hasty(deed: &Misbehaviour) -> &'static str {
    match deed {
        Misbehaviour::HangBeforeHeaders | Misbehaviour::EndlessComments { .. } => {
            "timeout_ms = 250\n[retries]\ntries_max = 2\nbase_ms = 0\ncap_ms = 0\n"
        }
        Misbehaviour::HangInStream => "idle_timeout_ms = 150\n[retries]\ntries_max = 2\nbase_ms = 0\ncap_ms = 0\n",
        _ => "[retries]\ntries_max = 2\nbase_ms = 0\ncap_ms = 0\n",
    }
}

fn patient(deed: &Misbehaviour) -> &'static str {
    match deed {
        Misbehaviour::HangBeforeHeaders | Misbehaviour::EndlessComments { .. } => {
            "timeout_ms = 60\n[retries]\ntries_max = 20\nbase_ms = 2\ncap_ms = 10\n"
        }
        Misbehaviour::HangInStream => "idle_timeout_ms = 40\n[retries]\ntries_max = 20\nbase_ms = 2\ncap_ms = 10\n",
        _ => "[retries]\ntries_max = 20\nbase_ms = 2\ncap_ms = 10\n",
    }
}

fn request() -> GenerateRequest {
    let sampling = Sampling { max_tokens: 16, temperature: 0.0, top_p: 1.0, top_k: None, seed: Some(4), stop: vec![] };
    let messages = vec![Arc::new(Message::new(Role::User, "hi"))];
    GenerateRequest { route: Route::Worker, session: None, messages, tools: None, sampling, timeout_ms: 60_000 }
}

/// Waits until the mark was made so often; a server may still be writing when its client has had enough.
async fn marked(server: &MisbehavingServer, name: &str, count: u64) {
    let waits = async {
        while server.marks().count(name) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let made = tokio::time::timeout(Duration::from_secs(20), waits).await;
    assert!(made.is_ok(), "expected {count} marks of {name}, got {:?}", server.marks().all());
}

/// How the client takes it: the failure's kind, words that name what to do or what the server said, and whether it
/// tries again; none where it is an answer.
fn expected(deed: &Misbehaviour) -> Option<(FailureKind, &'static str, bool)> {
    Some(match deed {
        Misbehaviour::RateLimited { retry_after: RetryAfter::Absurd } => {
            (FailureKind::RateLimited, "the next try would be in 120000 ms and the call has", false)
        }
        Misbehaviour::RateLimited { .. } => (FailureKind::RateLimited, "too many requests at once", true),
        Misbehaviour::ServerError => (FailureKind::ServerError, "the model's worker died", true),
        Misbehaviour::BadGatewayPage => (FailureKind::ServerError, "status 502", true),
        Misbehaviour::Unavailable => (FailureKind::ServerError, "the model is loading", true),
        Misbehaviour::DoorClosed { .. } => (FailureKind::Unreachable, "connection", true),
        Misbehaviour::ResetInHeaders | Misbehaviour::ResetInBody | Misbehaviour::EndlessHeader => {
            (FailureKind::Unreachable, "the connection broke before the answer was whole", true)
        }
        Misbehaviour::HangBeforeHeaders | Misbehaviour::EndlessComments { .. } => {
            (FailureKind::TimedOut, "within 250 ms (`timeout_ms`)", true)
        }
        Misbehaviour::HangInStream => (FailureKind::TimedOut, "(`idle_timeout_ms`)", true),
        Misbehaviour::CutBeforeDone | Misbehaviour::CutInCharacter | Misbehaviour::CutInJson => {
            (FailureKind::TruncatedStream, "ended before it gave a finish reason", true)
        }
        Misbehaviour::GarbageJson | Misbehaviour::StreamAsJson => {
            (FailureKind::BadResponse, "a JSON answer was expected, it cannot be read", true)
        }
        Misbehaviour::NullContent | Misbehaviour::EmptyText => (FailureKind::EmptyCompletion, "without text", false),
        Misbehaviour::NoChoices => (FailureKind::BadResponse, "one choice was expected", false),
        Misbehaviour::JsonAsPage => (FailureKind::BadResponse, "does `url` name the API's base?", false),
        Misbehaviour::HugeBody { .. } => {
            (FailureKind::BadResponse, "larger than 65536 bytes (`body_max_bytes`)", false)
        }
        Misbehaviour::ErrorUnder200 { code: None } => {
            (FailureKind::BadResponse, "a completion was expected, an error body came under 200", false)
        }
        Misbehaviour::ErrorUnder200 { code: Some(_) } => (FailureKind::ServerError, "code 503", true),
        Misbehaviour::RedirectLoop => (FailureKind::Refused, "set `url` to that", false),
        Misbehaviour::Fine
        | Misbehaviour::SingleBytes { .. }
        | Misbehaviour::RepeatedChunks
        | Misbehaviour::OtherReply
        | Misbehaviour::BrokenToolCall => return None,
    })
}

#[tokio::test]
async fn a_good_reply_is_the_endpoints_own_whole_or_streamed() {
    let server = MisbehavingServer::start(Arc::new(Says), ServerPlan::fine()).await.unwrap();
    for stream in ["stream = true\n", "stream = false\n"] {
        let client = Client::of(&server, stream);
        let endpoint = client.build();
        for _ in 0..3 {
            let got = endpoint.generate(request()).await.unwrap();
            assert_eq!((got.text.as_str(), got.attempts), (TEXT, 1));
            assert_eq!(got.usage, Usage { prompt_tokens: 11, cached_tokens: 3, completion_tokens: 7 });
        }
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|seen| seen.head_holds(KEY) && seen.path == "/v1/chat/completions"), "{seen:?}");
    assert_eq!((seen[0].stream, seen[5].stream), (true, false));
}

#[tokio::test]
async fn each_failure_has_its_kind_its_words_its_tries_and_gives_its_permit_back() {
    let mut marks = BTreeSet::new();
    for deed in Misbehaviour::gallery() {
        let Some((kind, word, again)) = expected(&deed) else { continue };
        let name = deed.name();
        let tries = if again { 2 } else { 1 };
        let steps = std::iter::repeat_n(deed.clone(), tries);
        let server = MisbehavingServer::start(Arc::new(Says), ServerPlan::then_fine(steps)).await.unwrap();
        let endpoint = Client::of(&server, hasty(&deed)).build();
        let failure = match &deed {
            // The second try may come before the system refuses it, or after.
            Misbehaviour::DoorClosed { .. } => {
                server.close_door().await;
                let failure = endpoint.generate(request()).await.unwrap_err();
                assert!(failure.detail.contains("is the server up and `url` right?"), "{failure}");
                server.open_door();
                failure
            }
            _ => endpoint.generate(request()).await.unwrap_err(),
        };
        assert_eq!((failure.kind, failure.attempts as usize), (kind, tries), "{name}: {failure}");
        assert!(failure.detail.contains(word), "{name}: {failure}");
        let tally = endpoint.tally();
        assert_eq!((tally.answered, tally.failed, tally.in_flight), (0, 1, 0), "{name}");
        assert_eq!((tally.requests, tally.retries), (tries as u64, tries as u64 - 1), "{name}");
        if !matches!(deed, Misbehaviour::DoorClosed { .. }) {
            // Where time ends a try, a busy machine may let it end before the server has heard of it.
            let timed = kind == FailureKind::TimedOut;
            marked(&server, name, if timed { 1 } else { tries as u64 }).await;
            // The one permit is back, and the next call is served.
            let got = endpoint.generate(request()).await.unwrap_or_else(|failure| panic!("{name}: {failure}"));
            assert_eq!(got.text, TEXT, "{name}");
        }
        marks.insert(name);
    }
    assert_eq!(marks.len(), Misbehaviour::gallery().len() - 4, "four are answers");
}

#[tokio::test]
async fn whatever_may_pass_is_recovered_by_the_next_try_and_leaves_nothing_behind() {
    for deed in Misbehaviour::gallery().into_iter().filter(Misbehaviour::is_recoverable) {
        let name = deed.name();
        let server = MisbehavingServer::start(Arc::new(Says), ServerPlan::then_fine([deed.clone()])).await.unwrap();
        let endpoint = Client::of(&server, patient(&deed)).build();
        let got = endpoint.generate(request()).await.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert_eq!(got.text, TEXT, "{name}");
        assert_eq!(got.usage.completion_tokens, 7, "{name}: the usage is that of the try that was answered");
        let at_least = if matches!(deed, Misbehaviour::SingleBytes { .. }) { 1 } else { 2 };
        assert!(got.attempts >= at_least, "{name}: {got:?}");
        let tally = endpoint.tally();
        assert_eq!((tally.answered, tally.failed, tally.in_flight), (1, 0, 0), "{name}");
        assert_eq!(tally.requests, u64::from(got.attempts), "{name}");
        marked(&server, name, 1).await;
    }
}

#[tokio::test]
async fn a_closed_door_is_refused_by_the_system_until_it_opens() {
    let server = MisbehavingServer::start(Arc::new(Says), ServerPlan::fine()).await.unwrap();
    server.close_door().await;
    let endpoint = Client::of(&server, "[retries]\ntries_max = 20\nbase_ms = 5\ncap_ms = 5\n").build();
    let call = tokio::spawn({
        let endpoint = Arc::clone(&endpoint);
        async move { endpoint.generate(request()).await }
    });
    while endpoint.tally().retries == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.seen().len(), 0, "nobody came in");
    server.open_door();
    assert_eq!(call.await.unwrap().unwrap().text, TEXT);
}

#[tokio::test]
async fn what_no_client_can_tell_is_taken_as_it_came() {
    let answer = |deed: Misbehaviour| async move {
        let server =
            MisbehavingServer::start(Arc::new(Says), ServerPlan::then_fine([Misbehaviour::Fine, deed])).await.unwrap();
        let endpoint = Client::of(&server, "").build();
        assert_eq!(endpoint.generate(request()).await.unwrap().text, TEXT);
        endpoint.generate(request()).await.unwrap()
    };
    assert_eq!(answer(Misbehaviour::SingleBytes { pause_ms: 0 }).await.text, TEXT);
    let twice = answer(Misbehaviour::RepeatedChunks).await.text;
    assert_eq!(twice.chars().count(), 2 * TEXT.chars().count(), "{twice}");
    assert_eq!(answer(Misbehaviour::OtherReply).await.text, TEXT, "the reply of the call before");
    let broken = answer(Misbehaviour::BrokenToolCall).await;
    assert_eq!(broken.tool_calls[0].arguments, "{\"query\": \"cut off in the mid");
    let reading = Grammar::Strict.read(&broken.text, &broken.tool_calls);
    assert!(reading.calls.is_empty() && matches!(reading.fault, Some(ReadFault::BadArguments { .. })), "{reading:?}");
}

#[tokio::test]
async fn a_client_that_gives_up_closes_its_connection_and_the_server_sees_it() {
    let cases: [(Arc<dyn Endpoint>, ServerPlan); 4] = [
        (Arc::new(Says), ServerPlan::then_fine([Misbehaviour::HangBeforeHeaders])),
        (Arc::new(Says), ServerPlan::then_fine([Misbehaviour::HangInStream])),
        (Arc::new(Says), ServerPlan::then_fine([Misbehaviour::EndlessComments { pause_ms: 1 }])),
        (Arc::new(Thinks), ServerPlan::fine()),
    ];
    for (model, plan) in cases {
        let server = MisbehavingServer::start(model, plan).await.unwrap();
        let endpoint = Client::of(&server, "").build();
        let call = tokio::spawn({
            let endpoint = Arc::clone(&endpoint);
            async move { endpoint.generate(request()).await }
        });
        server.arrivals(1).await;
        call.abort();
        server.departures(1).await;
        assert!(call.await.unwrap_err().is_cancelled());
        assert_eq!(endpoint.tally().in_flight, 0);
    }
}

#[tokio::test]
async fn a_dropped_server_is_gone_with_its_connections() {
    let server =
        MisbehavingServer::start(Arc::new(Says), ServerPlan::always(Misbehaviour::HangInStream)).await.unwrap();
    let endpoint = Client::of(&server, "[retries]\ntries_max = 1\nbase_ms = 0\ncap_ms = 0\n").build();
    let call = tokio::spawn({
        let endpoint = Arc::clone(&endpoint);
        async move { endpoint.generate(request()).await }
    });
    server.arrivals(1).await;
    drop(server);
    assert_eq!(call.await.unwrap().unwrap_err().kind, FailureKind::Unreachable);
    assert!(endpoint.generate(request()).await.unwrap_err().detail.contains("is the server up"));
}

#[tokio::test]
async fn requests_that_are_none_are_answered_by_name_and_do_not_count() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = MisbehavingServer::start(Arc::new(Says), ServerPlan::always(Misbehaviour::ServerError)).await.unwrap();
    for (request, status) in [
        ("GET / HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(), "404"),
        ("POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\ncontent-length: 1\r\n\r\n{".to_owned(), "400"),
        ("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n".to_owned(), "413"),
        ("POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(), "411"),
        (format!("POST / HTTP/1.1\r\nx: {}", "y".repeat(70_000)), "431"),
    ] {
        let mut socket = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        socket.read_exact(&mut start).await.unwrap();
        assert!(String::from_utf8_lossy(&start).ends_with(status), "{:?}", String::from_utf8_lossy(&start));
    }
    assert!(server.seen().is_empty() && server.marks().all().is_empty());
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_key_is_in_no_failure_no_debug_text_and_no_log() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut told = String::new();
    for deed in Misbehaviour::gallery() {
        let server = MisbehavingServer::start(Arc::new(Says), ServerPlan::always(deed.clone())).await.unwrap();
        let client = Client::of(&server, hasty(&deed));
        told.push_str(&format!("{:?} {}", client.config, serde_json::to_string(&client.config).unwrap()));
        match client.build().generate(request()).await {
            Ok(got) => told.push_str(&format!("{got:?}")),
            Err(failure) => {
                told.push_str(&format!("{failure} {failure:?} {}", serde_json::to_string(&failure).unwrap()));
            }
        }
        let seen = server.seen();
        assert!(seen[0].head_holds(KEY), "the server does get it");
        told.push_str(&format!("{server:?} {seen:?}"));
    }
    told.push_str(&String::from_utf8_lossy(&lines.0.lock().unwrap()));
    assert!(told.contains("retries") && told.len() > 10_000);
    // Not even the start of it, as a cut would leave it.
    assert_eq!(told.find(&KEY[..14]), None);
}

static ARCHIVE: LazyLock<archive::Archive> = LazyLock::new(|| archive::generate(archive::DEFAULT_SEED).unwrap());

/// What must not depend on how well the server behaves.
type Verdicts = BTreeMap<EpisodeKey, (Outcome, Option<String>, Option<bool>)>;

/// Runs these questions of the archive with this model in the worker's place.
async fn run(questions: &[Arc<Question>], model: Arc<dyn Endpoint>) -> (RunEnd, Verdicts) {
    let profile = toml::from_str(include_str!("../../src/profiles/archive-mock.toml")).unwrap();
    let pages = ARCHIVE.world.documents.iter().map(|document| Page {
        docid: document.docid.clone(),
        url: None,
        title: Some(document.title.clone()),
        text: Arc::from(document.text.as_str()),
    });
    let owned = questions.iter().map(|question| (**question).clone()).collect();
    let library = Arc::new(GoldLibrary::new(pages, owned));
    let routes = BTreeMap::from([(Route::Worker, model)]);
    let (end, records) = actors_run::run(profile, questions, routes, library).await;
    let verdict = |record: EpisodeRecord| {
        (record.key, (record.outcome, record.answer, record.verdict.and_then(|verdict| verdict.correct)))
    };
    (end, records.into_iter().map(verdict).collect())
}

#[tokio::test]
async fn thirty_questions_end_with_the_same_verdicts_although_three_requests_in_ten_meet_a_misbehaviour() {
    let questions: Vec<Arc<Question>> = ARCHIVE.world.test.iter().take(30).cloned().map(Arc::new).collect();
    let oracle: Arc<dyn Endpoint> =
        Arc::new(OracleModel::new("oracle", Grammar::Strict, Skill::PERFECT, Duration::ZERO, &questions));
    let (end, undisturbed) = run(&questions, Arc::clone(&oracle)).await;
    assert_eq!((end, undisturbed.len()), (RunEnd::Complete, 30));
    assert!(undisturbed.values().all(|(outcome, ..)| outcome.is_correct()), "{undisturbed:?}");
    let mut missing: BTreeSet<&str> =
        Misbehaviour::gallery().iter().filter(|deed| deed.is_recoverable()).map(Misbehaviour::name).collect();
    for seed in [1, 2, 3] {
        let plan = ServerPlan::mixed(seed, 30, Vec::new());
        let server = MisbehavingServer::start(Arc::clone(&oracle), plan).await.unwrap();
        let more = "timeout_ms = 200\nidle_timeout_ms = 80\n[retries]\ntries_max = 20\nbase_ms = 2\ncap_ms = 20\n";
        let mut client = Client::of(&server, more);
        client.config.concurrency = 30;
        client.config.body_max_bytes = 1 << 20;
        let endpoint = client.build();
        let (end, verdicts) = run(&questions, Arc::clone(&endpoint)).await;
        assert_eq!(end, RunEnd::Complete);
        assert_eq!(verdicts, undisturbed, "seed {seed}");
        let tally = endpoint.tally();
        assert_eq!((tally.failed, tally.in_flight), (0, 0), "seed {seed}: {tally:?}");
        assert!(tally.retries > 20, "seed {seed}: {tally:?}");
        missing.retain(|name| server.marks().count(name) == 0);
    }
    assert!(missing.is_empty(), "these never fired: {missing:?}");
}
