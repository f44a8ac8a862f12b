//! Fetching against a small server that plays the hub and its CDN, and answers as it is told.

mod server;

use crate::{FetchError, Fetched, Fetcher, Patience, Reference, Settings, Token, Wanted};
use server::{Answer, Ask, Hub};
use sha2::Digest;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The commit of the hub.
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Small files have git's digest, large ones a SHA-256.
const CONFIG: &[u8] = b"{\"model_type\": \"llama\"}\n";

fn weights() -> Vec<u8> {
    (0..200_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(&sha2::Sha256::digest(bytes))
}

fn git(bytes: &[u8]) -> String {
    hex(&sha1::Sha1::digest([format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat()))
}

fn small(path: &str, bytes: &[u8]) -> String {
    format!(r#"{{"type":"file","path":"{path}","size":{},"oid":"{}"}}"#, bytes.len(), git(bytes))
}

fn large(path: &str, bytes: usize, sha256: &str) -> String {
    let oid = "f".repeat(40);
    format!(
        r#"{{"type":"file","path":"{path}","size":{bytes},"oid":"{oid}","lfs":{{"oid":"{sha256}","size":{bytes},"pointerSize":134}}}}"#
    )
}

fn json(body: String) -> Answer {
    Answer {
        status: 200,
        headers: vec![("content-type".into(), "application/json".into())],
        body: body.into_bytes(),
        cut: None,
    }
}

/// Answers of a hub with a whole small model; none for what it does not know.
fn usual(ask: &Ask, cdn: &str) -> Option<Answer> {
    let commit = |path: &str| ask.path == format!("/a/b/resolve/{COMMIT}/{path}");
    Some(match ask.path.as_str() {
        "/api/models/a/b/revision/main" => json(format!(r#"{{"sha":"{COMMIT}"}}"#)),
        path if path.starts_with(&format!("/api/models/a/b/tree/{COMMIT}")) => {
            let weights = weights();
            let entries = [
                r#"{"type":"directory","path":"onnx","size":0,"oid":"0"}"#.to_owned(),
                small("config.json", CONFIG),
                large("model.safetensors", weights.len(), &sha256(&weights)),
            ];
            json(format!("[{}]", entries.join(",")))
        }
        _ if commit("config.json") => Answer::bytes(CONFIG),
        _ if commit("model.safetensors") => Answer::redirect(&format!("{cdn}/signed?signature=secret")),
        "/signed?signature=secret" => ranged(ask, &weights()),
        _ => return None,
    })
}

fn ranged(ask: &Ask, bytes: &[u8]) -> Answer {
    match ask.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok()) {
        None => Answer::bytes(bytes),
        Some(from) => Answer {
            status: 206,
            headers: vec![("content-range".into(), format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len()))],
            body: bytes[from..].to_vec(),
            cut: None,
        },
    }
}

struct Bench {
    hub: Hub,
    cdn: Hub,
    cache: tempfile::TempDir,
}

/// A hub and a CDN at two ports; `other` answers before the usual answers do.
async fn bench(other: impl Fn(&Ask) -> Option<Answer> + Send + Sync + 'static) -> Bench {
    let other = std::sync::Arc::new(other);
    let more = std::sync::Arc::clone(&other);
    let cdn = Hub::start(move |ask, _| other(ask).or_else(|| usual(ask, "")).unwrap_or_else(Answer::not_found)).await;
    let at_cdn = cdn.address.clone();
    let hub =
        Hub::start(move |ask, _| more(ask).or_else(|| usual(ask, &at_cdn)).unwrap_or_else(Answer::not_found)).await;
    Bench { hub, cdn, cache: tempfile::tempdir().unwrap() }
}

impl Bench {
    fn settings(&self) -> Settings {
        Settings {
            endpoint: self.hub.address.parse().unwrap(),
            cache: self.cache.path().to_path_buf(),
            token: Token::new("hf_secret"),
            offline: false,
            patience: Patience { first_wait_ms: 0, ..Patience::default() },
        }
    }

    async fn fetch(&self) -> Result<Fetched, FetchError> {
        self.fetch_with(self.settings(), &Wanted::default()).await.0
    }

    /// The result, and what was told.
    async fn fetch_with(&self, settings: Settings, wanted: &Wanted) -> (Result<Fetched, FetchError>, Vec<String>) {
        let mut told = Vec::new();
        let reference: Reference = "hf:a/b".parse().unwrap();
        let fetcher = Fetcher::new(settings).unwrap();
        let fetched = fetcher.fetch(&reference, wanted, &mut |progress| told.push(format!("{progress:?}"))).await;
        if let Err(error) = &fetched {
            let text = format!("{error} {error:?} {told:?}");
            assert!(!text.contains("hf_secret") && !text.contains("signature"), "{text}");
        }
        (fetched, told)
    }

    fn blobs(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.cache.path().join("models--a--b/blobs")).into_iter().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn partial(&self) -> std::path::PathBuf {
        self.cache.path().join(format!("models--a--b/blobs/{}.incomplete", sha256(&weights())))
    }
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

#[tokio::test]
async fn a_model_is_fetched_checked_and_laid_out_as_huggingface_hub_does() {
    let bench = bench(|_| None).await;
    let fetched = bench.fetch().await.unwrap();
    assert_eq!((fetched.commit.as_str(), fetched.online), (COMMIT, true));
    assert_eq!(fetched.folder, bench.cache.path().join("models--a--b/snapshots").join(COMMIT));
    assert_eq!(read(&fetched.folder, "config.json"), CONFIG);
    assert_eq!(read(&fetched.folder, "model.safetensors"), weights());
    assert_eq!(read(bench.cache.path(), "models--a--b/refs/main"), COMMIT.as_bytes());
    let mut names = [git(CONFIG), sha256(&weights())];
    names.sort();
    assert_eq!(bench.blobs(), names);
    #[cfg(unix)]
    {
        let target = std::fs::read_link(fetched.folder.join("config.json")).unwrap();
        assert_eq!(target, Path::new("../../blobs").join(git(CONFIG)));
    }
    let asked = bench.hub.asked();
    let again = bench.fetch().await.unwrap();
    assert!(again.files.iter().all(|file| file.cached));
    assert_eq!(bench.hub.asked() - asked, 2, "only what is there is asked, no bytes");
}

#[tokio::test]
async fn the_token_goes_to_the_hub_and_not_to_where_it_points() {
    let bench = bench(|_| None).await;
    bench.fetch().await.unwrap();
    let authorised = |hub: &Hub| hub.asks().iter().filter(|ask| ask.header("authorization").is_some()).count();
    assert_eq!(authorised(&bench.hub), bench.hub.asked());
    assert_eq!((authorised(&bench.cdn), bench.cdn.asked()), (0, 1));
    assert_eq!(bench.hub.asks()[0].header("authorization").as_deref(), Some("Bearer hf_secret"));
}

#[tokio::test]
async fn a_cut_connection_is_taken_up_where_it_was_cut() {
    let tries = AtomicUsize::new(0);
    let bench = bench(move |ask| {
        let cut = ask.path.starts_with("/signed") && tries.fetch_add(1, Ordering::SeqCst) < 3;
        cut.then(|| Answer { cut: Some(200_000), ..ranged(ask, &weights()) })
    })
    .await;
    let (fetched, told) = bench.fetch_with(bench.settings(), &Wanted::default()).await;
    assert_eq!(read(&fetched.unwrap().folder, "model.safetensors"), weights());
    let ranges: Vec<Option<String>> = bench.cdn.asks().iter().map(|ask| ask.header("range")).collect();
    assert_eq!(ranges.len(), 4);
    assert_eq!(ranges[0], None);
    let from: Vec<usize> =
        ranges[1..].iter().map(|range| range.as_ref().unwrap()[6..].trim_end_matches('-').parse().unwrap()).collect();
    assert!(from.windows(2).all(|pair| pair[0] < pair[1]) && from[0] > 0, "{from:?}");
    assert_eq!(told.iter().filter(|line| line.starts_with("Waiting")).count(), 3);
}

#[tokio::test]
async fn what_an_earlier_run_left_is_taken_up() {
    let bench = bench(|_| None).await;
    std::fs::create_dir_all(bench.partial().parent().unwrap()).unwrap();
    std::fs::write(bench.partial(), &weights()[..300_000]).unwrap();
    let (fetched, told) = bench.fetch_with(bench.settings(), &Wanted::default()).await;
    assert_eq!(read(&fetched.unwrap().folder, "model.safetensors"), weights());
    assert_eq!(bench.cdn.asks()[0].header("range").as_deref(), Some("bytes=300000-"));
    let total = weights().len() + CONFIG.len();
    assert_eq!(told[0], format!("Chosen {{ files: 2, total_bytes: {total}, cached_bytes: 300000 }}"));
    assert!(!bench.partial().exists());
}

#[tokio::test]
async fn a_start_that_is_damaged_is_fetched_from_nothing() {
    let bench = bench(|_| None).await;
    std::fs::create_dir_all(bench.partial().parent().unwrap()).unwrap();
    std::fs::write(bench.partial(), [7; 300_000]).unwrap();
    let fetched = bench.fetch().await.unwrap();
    assert_eq!(read(&fetched.folder, "model.safetensors"), weights());
    let ranges: Vec<Option<String>> = bench.cdn.asks().iter().map(|ask| ask.header("range")).collect();
    assert_eq!(ranges, [Some("bytes=300000-".to_owned()), None]);
}

#[tokio::test]
async fn a_server_that_begins_anew_is_followed() {
    let bench = bench(|ask| ask.path.starts_with("/signed").then(|| Answer::bytes(&weights()))).await;
    std::fs::create_dir_all(bench.partial().parent().unwrap()).unwrap();
    std::fs::write(bench.partial(), &weights()[..300_000]).unwrap();
    let fetched = bench.fetch().await.unwrap();
    assert_eq!(read(&fetched.folder, "model.safetensors"), weights());
}

#[tokio::test]
async fn bytes_of_another_digest_are_not_put_in_place() {
    let mut wrong = weights();
    wrong[400_000] ^= 1;
    let bench = bench(move |ask| ask.path.starts_with("/signed").then(|| Answer::bytes(&wrong))).await;
    let error = bench.fetch().await.unwrap_err().to_string();
    assert!(error.contains(&format!("expected model.safetensors with the digest {}", sha256(&weights()))), "{error}");
    assert_eq!(bench.blobs(), [git(CONFIG)]);
    let snapshot = bench.cache.path().join("models--a--b/snapshots").join(COMMIT);
    assert!(!snapshot.join("model.safetensors").exists() && !bench.partial().exists());
    assert!(!bench.cache.path().join("models--a--b/refs/main").exists(), "a revision leads to whole commits only");
}

#[tokio::test]
async fn more_bytes_than_said_are_not_put_in_place() {
    let bench = bench(|ask| ask.path.ends_with("config.json").then(|| Answer::bytes(&[CONFIG, b"x"].concat()))).await;
    let error = bench.fetch().await.unwrap_err().to_string();
    assert!(error.contains("config.json") && error.contains("got more bytes"), "{error}");
    assert!(bench.blobs().is_empty());
}

#[tokio::test]
async fn a_pause_that_the_hub_asks_for_is_kept_and_a_long_one_is_refused() {
    let tries = AtomicUsize::new(0);
    let limited = |wait: &str| Answer {
        status: 429,
        headers: vec![("retry-after".into(), wait.into())],
        body: vec![],
        cut: None,
    };
    let patient = bench(move |ask| {
        let first = ask.path.starts_with("/api") && tries.fetch_add(1, Ordering::SeqCst) == 0;
        first.then(|| limited("0"))
    })
    .await;
    let settings =
        Settings { patience: Patience { first_wait_ms: 60_000, ..Patience::default() }, ..patient.settings() };
    let (fetched, told) = patient.fetch_with(settings, &Wanted::default()).await;
    fetched.unwrap();
    assert!(told[0].contains("HTTP 429") && told[0].contains("wait_ms: 0"), "the hub's pause and not ours: {told:?}");
    let busy = bench(move |ask| ask.path.starts_with("/api").then(|| limited("3600"))).await;
    let error = busy.fetch().await.unwrap_err().to_string();
    assert!(error.contains("a pause of 3600 s before hf:a/b@main, which is more than 120 s"), "{error}");
    let down =
        bench(|ask| ask.path.starts_with("/api").then(|| Answer { status: 502, ..Answer::bytes(b"down") })).await;
    let error = down.fetch().await.unwrap_err().to_string();
    assert!(error.contains("after 5 tries: HTTP 502 Bad Gateway: down"), "{error}");
    assert_eq!(down.hub.asked(), 5);
}

#[tokio::test]
async fn what_is_not_there_or_not_given_away_is_told_apart() {
    let with = |status: u16, code: &'static str| {
        bench(move |ask| {
            let headers = vec![("x-error-code".into(), code.into()), ("x-error-message".into(), "no\nway".into())];
            let headers = if code.is_empty() { vec![] } else { headers };
            ask.path.starts_with("/api").then(|| Answer { status, headers, body: b"said no".to_vec(), cut: None })
        })
    };
    for (status, code, words) in [
        (404, "RepoNotFound", "the hub has no repository a/b; check the spelling"),
        (401, "RepoNotFound", "the hub has no repository a/b; check the spelling"),
        (404, "RevisionNotFound", "the hub has no revision \"main\" of a/b"),
        (404, "", "the hub has no hf:a/b@main"),
        (403, "GatedRepo", "does not give hf:a/b@main away (HTTP 403)"),
        (401, "", "(HTTP 401): said no; accept its licence at http://127.0.0.1"),
        (418, "", "HTTP 418 I'm a teapot: said no"),
    ] {
        let bench = with(status, code).await;
        let error = bench.fetch().await.unwrap_err().to_string();
        assert!(error.contains(words), "expected {words:?} in {error:?}");
        let anonymous = Settings { token: None, ..bench.settings() };
        let error = bench.fetch_with(anonymous, &Wanted::default()).await.0.unwrap_err().to_string();
        if status == 404 && !code.is_empty() {
            assert!(error.contains("set HF_TOKEN if it is private"), "{error}");
        }
    }
}

#[tokio::test]
async fn without_a_network_the_cache_is_used_where_it_is_whole() {
    let bench = bench(|_| None).await;
    let online = bench.fetch().await.unwrap();
    let asked = bench.hub.asked();
    let offline = Settings { offline: true, ..bench.settings() };
    let (fetched, told) = bench.fetch_with(offline.clone(), &Wanted::default()).await;
    let fetched = fetched.unwrap();
    assert_eq!((fetched.folder, fetched.online, fetched.files.len()), (online.folder.clone(), false, 2));
    assert!(told[0].starts_with("Offline"), "{told:?}");
    assert_eq!(bench.hub.asked(), asked);

    // An address where nobody listens.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = Settings { endpoint: format!("http://{nobody}").parse().unwrap(), ..bench.settings() };
    let (fetched, told) = bench.fetch_with(gone.clone(), &Wanted::default()).await;
    assert!(!fetched.unwrap().online && told[0].contains("cannot be reached"), "{told:?}");

    std::fs::remove_file(online.folder.join("model.safetensors")).unwrap();
    let index = r#"{"weight_map":{"w":"model-00001-of-00001.safetensors"}}"#;
    std::fs::write(online.folder.join("model.safetensors.index.json"), index).unwrap();
    let error = bench.fetch_with(offline.clone(), &Wanted::default()).await.0.unwrap_err().to_string();
    assert!(error.contains("the hub is not to be asked; missing: model-00001-of-00001.safetensors"), "{error}");
    let pattern = Wanted { include: vec!["*.gguf".to_owned()], ..Wanted::default() };
    let error = bench.fetch_with(offline, &pattern).await.0.unwrap_err().to_string();
    assert!(error.contains("missing: anything that matches \"*.gguf\""), "{error}");
    std::fs::remove_dir_all(bench.cache.path().join("models--a--b")).unwrap();
    let error = bench.fetch_with(gone, &Wanted::default()).await.0.unwrap_err().to_string();
    assert!(error.contains("cannot be reached") && error.contains("missing: every file"), "{error}");
}

#[tokio::test]
async fn a_damaged_file_of_the_cache_is_found_where_one_asks_for_it() {
    let bench = bench(|_| None).await;
    bench.fetch().await.unwrap();
    let blob = bench.cache.path().join("models--a--b/blobs").join(sha256(&weights()));
    let mut damaged = weights();
    damaged[0] ^= 1;
    std::fs::write(&blob, damaged).unwrap();
    let verify = Wanted { verify_cached: true, ..Wanted::default() };
    let fetched = bench.fetch_with(bench.settings(), &verify).await.0.unwrap();
    assert_eq!(fetched.files.iter().map(|file| file.cached).collect::<Vec<_>>(), [true, false]);
    assert_eq!(std::fs::read(&blob).unwrap(), weights());
}

#[tokio::test]
async fn a_listing_leads_nowhere_but_its_folder_and_is_checked() {
    for (listing, words) in [
        (format!("[{}]", small("../../x", b"x")), "expected paths inside the repository, got \"../../x\""),
        (format!("[{}]", small("/etc/passwd", b"x")), "expected paths inside the repository"),
        (format!("[{}]", large("model.safetensors", 4, "../../../x")), "expected a digest of \"model.safetensors\""),
        (format!("[{0},{0}]", small("config.json", CONFIG)), "expected each file once"),
        (format!("[{}]", large("model.safetensors", usize::MAX, &"0".repeat(64))), "bytes free at"),
        (format!("[{}]", small("pytorch_model.bin", b"x")), "pytorch_model.bin is a pickle"),
        ("{}".to_owned(), "expected JSON"),
        ("[".to_owned(), "expected JSON"),
    ] {
        let bench = bench(move |ask| ask.path.contains("/tree/").then(|| json(listing.clone()))).await;
        let error = bench.fetch().await.unwrap_err().to_string();
        assert!(error.contains(words), "expected {words:?} in {error:?}");
        assert!(!bench.cache.path().join("models--a--b/snapshots").exists());
    }
    let commit = bench(|ask| ask.path.contains("/revision/").then(|| json(r#"{"sha":"../../x"}"#.to_owned()))).await;
    assert!(commit.fetch().await.unwrap_err().to_string().contains("expected a commit, got \"../../x\""));
}

#[tokio::test]
async fn a_listing_of_several_pages_is_read_whole_and_stays_at_the_hub() {
    let paged = |target: &'static str| {
        bench(move |ask| {
            let weights = weights();
            if ask.path.ends_with("cursor=2") {
                return Some(json(format!("[{}]", large("model.safetensors", weights.len(), &sha256(&weights)))));
            }
            ask.path.contains("/tree/").then(|| {
                let mut first = json(format!("[{}]", small("config.json", CONFIG)));
                first.headers.push(("link".into(), format!("<{target}>; rel=\"next\"")));
                first
            })
        })
    };
    let bench = paged("/api/models/a/b/tree/x?cursor=2").await;
    assert_eq!(bench.fetch().await.unwrap().files.len(), 2);
    let bench = paged("http://127.0.0.1:1/x?cursor=2").await;
    assert!(bench.fetch().await.unwrap_err().to_string().contains("the next page at the hub, got one elsewhere"));
}

#[tokio::test]
async fn redirects_end_somewhere() {
    let bench = bench(|ask| ask.path.contains("/resolve/").then(|| Answer::redirect(&ask.path))).await;
    assert!(bench.fetch().await.unwrap_err().to_string().contains("at most 8 redirects"));
}

#[tokio::test]
async fn two_processes_do_not_write_one_file() {
    let bench = bench(|_| None).await;
    let cache = crate::cache::Cache::new(bench.cache.path(), &"hf:a/b".parse().unwrap());
    let expected = crate::verify::Expected::sha256(&sha256(&weights())).unwrap();
    let lock = cache.lock(&expected, "model.safetensors").unwrap();
    let error = bench.fetch().await.unwrap_err().to_string();
    assert!(error.contains("another process is fetching model.safetensors"), "{error}");
    drop(lock);
    assert!(bench.fetch().await.is_ok());
}
