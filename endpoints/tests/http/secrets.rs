//! No key in any failure, log line or debug text, whatever the server writes.

use crate::support::{Server, Step, answer, chunk, config, json_answer, request, stream, stream_head};
use legwork_endpoints::config::{EndpointConfig, Kind};
use legwork_endpoints::{BaseUrl, Shared, build, build_embedder};
use serde_json::json;
use std::io::Write;
use std::sync::{Arc, Mutex};

const KEY: &str = "sk-legwork-0123456789-abcdefghijklmnopqrstuvwxyz+/=";
const IN_URL: &str = "url-secret-9876543210";

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

/// Everything that a server could write back of what it was sent.
fn indiscretions() -> Vec<Vec<Step>> {
    let long = format!("{}{KEY} {IN_URL}", "x".repeat(490));
    let told = format!("bad key {KEY} at http://h/?key={IN_URL}");
    let page = format!("<html>{told}</html>");
    vec![
        answer(401, &[], &told),
        answer(400, &[], &long),
        json_answer(400, &json!({"error": {"message": long}})),
        json_answer(429, &json!({"error": {"message": told}})),
        json_answer(200, &json!({"error": {"message": told}})),
        json_answer(200, &json!({"surprise": told})),
        answer(200, &["content-type: text/html"], &page),
        answer(200, &[], &told),
        answer(302, &[&format!("location: http://u:{KEY}@h/?key={IN_URL}")], ""),
        stream(&[told.as_bytes(), b"\n"]),
        stream(&[format!("data: {told}\n\n").as_bytes()]),
        stream(&[format!("data: {}\n\n", json!({"error": told})).as_bytes()]),
        vec![stream_head(), chunk(format!(": {told}")), Step::Reset],
        vec![Step::Send(format!("HTTP/1.1 {told}\r\n\r\n").into())],
        vec![Step::Reset],
    ]
}

fn keyed(kind: Kind, server: &Server, key: &std::path::Path) -> EndpointConfig {
    let mut config = EndpointConfig { kind, ..config(server) };
    config.url = BaseUrl::new(server.url(&format!("/?key={IN_URL}")));
    config.key_file = Some(key.to_owned());
    config
}

struct One;

impl legwork_endpoints::PromptEncoder for One {
    fn encode(
        &self,
        _: &[Arc<legwork_protocol::message::Message>],
    ) -> Result<Vec<u32>, legwork_protocol::failure::Failure> {
        Ok(vec![1])
    }
    fn decode(&self, _: &[u32]) -> Result<String, legwork_protocol::failure::Failure> {
        Ok("x".into())
    }
}

#[tokio::test]
async fn no_failure_log_or_debug_text_holds_the_key() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut key = tempfile::NamedTempFile::new().unwrap();
    key.write_all(KEY.as_bytes()).unwrap();

    let mut told = String::new();
    let mut failures = 0;
    for script in indiscretions() {
        for kind in [Kind::Openai, Kind::Sglang, Kind::Gemini] {
            let script = script.clone();
            let server = Server::start(move |_, _| script.clone()).await;
            let config = keyed(kind, &server, key.path());
            told.push_str(&format!("{config:?} {}", serde_json::to_string(&config).unwrap()));
            let endpoint = build("w", &config, &Shared::default(), Some(Arc::new(One))).unwrap();
            let failure = endpoint.generate(request("hi")).await.unwrap_err();
            told.push_str(&format!("{failure} {failure:?} {}\n", serde_json::to_string(&failure).unwrap()));
            failures += 1;
            if kind == Kind::Openai {
                let embedder = build_embedder("e", &config, &Shared::default()).unwrap();
                told.push_str(&embedder.embed(vec!["a".into()]).await.unwrap_err().to_string());
            }
            let head = &server.seen()[0].head;
            assert!(head.contains(KEY) && head.contains(IN_URL), "the server does get them: {head}");
        }
    }
    told.push_str(&String::from_utf8(lines.0.lock().unwrap().clone()).unwrap());
    assert!(failures == indiscretions().len() * 3 && told.contains("[key]") && told.contains("attempts"));
    for secret in [KEY, IN_URL] {
        // Not even the start of one, as a cut would leave it.
        let start = &secret[..12];
        let around = told.find(start).map(|at| told[at.saturating_sub(200)..].chars().take(400).collect::<String>());
        assert_eq!(around, None);
    }
}
