//! The hub over HTTP: which commit a revision is, which files it has, and the bytes of one from some place on. Redirects are
//! followed here, so that the token goes to the hub and to nobody else, and pauses that the hub asks for are kept.
//!
//! It refuses to know the disk.

use crate::error::FetchError;
use crate::reference::{Reference, RepositoryKind};
use crate::settings::{Patience, Settings};
use crate::verify::{Expected, is_hex};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;
use std::time::Duration;

/// Files of a repository at most.
const FILES_MAX: usize = 100_000;
/// Pages of a listing at most.
const PAGES_MAX: usize = 1_000;
/// Bytes of one answer of the API at most.
const ANSWER_MAX_BYTES: usize = 32 << 20;
/// Bytes of a refusal that are read.
const REFUSAL_MAX_BYTES: usize = 4 << 10;
/// Characters of a refusal that a message shows.
const REFUSAL_SHOWN: usize = 200;
/// Redirects that are followed.
const HOPS_MAX: usize = 8;
/// Bytes of a path in a repository at most.
const PATH_MAX_BYTES: usize = 512;
/// Folders of a path in a repository at most.
const PATH_MAX_PARTS: usize = 16;

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteFile {
    /// With `/`, each part plain.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) expected: Expected,
}

/// A client of one hub.
pub(crate) struct Hub {
    client: Client,
    endpoint: Url,
    credential: Option<HeaderValue>,
    pub(crate) patience: Patience,
}

/// Why a try failed.
pub(crate) enum Failed {
    /// Trying again may help; perhaps after a pause that the hub named, in milliseconds.
    Passing { detail: String, wait_ms: Option<u64>, unreachable: bool },
    /// It will not.
    Lasting(FetchError),
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    oid: String,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

impl Hub {
    pub(crate) fn new(settings: &Settings) -> Result<Self, FetchError> {
        let patience = settings.patience;
        let mut builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_millis(patience.connect_timeout_ms))
            .read_timeout(Duration::from_millis(patience.idle_timeout_ms))
            .user_agent(concat!("legwork/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&settings.endpoint) {
            builder = builder.no_proxy();
        }
        let wrong = |name, expected, got| FetchError::Setting { name, expected, got };
        let client = builder.build().map_err(|error| wrong("the HTTP client", "one that starts", chain(error)))?;
        let bearer = |token: &crate::Token| HeaderValue::from_str(&format!("Bearer {}", token.expose()));
        let credential = settings.token.as_ref().map(bearer).transpose();
        let mut credential =
            credential.map_err(|_| wrong("HF_TOKEN", "a token of plain characters", "others".to_owned()))?;
        if let Some(value) = &mut credential {
            value.set_sensitive(true);
        }
        Ok(Self { client, endpoint: settings.endpoint.clone(), credential, patience })
    }

    pub(crate) fn with_token(&self) -> bool {
        self.credential.is_some()
    }

    /// The commit that a revision is.
    pub(crate) async fn commit(&self, of: &Reference) -> Result<String, Failed> {
        let url = self.api(of, "revision", of.revision());
        let (found, _): (Revision, _) = self.json(&url, &of.to_string(), of).await?;
        if is_hex(&found.sha, 40) {
            return Ok(found.sha);
        }
        let detail = format!("expected a commit, got {:?}", shortened(&found.sha));
        Err(Failed::Lasting(FetchError::Answer { what: of.to_string(), detail }))
    }

    /// The files of a commit, in the order of their paths.
    pub(crate) async fn files(&self, of: &Reference, commit: &str) -> Result<Vec<RemoteFile>, Failed> {
        let what = format!("the files of {of}");
        let wrong = |detail: String| Failed::Lasting(FetchError::Answer { what: what.clone(), detail });
        let mut url = self.api(of, "tree", commit);
        url.query_pairs_mut().append_pair("recursive", "true");
        let mut found = Vec::new();
        for _ in 0..PAGES_MAX {
            let (entries, next): (Vec<Entry>, Option<Url>) = self.json(&url, &what, of).await?;
            for entry in entries.into_iter().filter(|entry| entry.kind == "file") {
                found.push(remote_file(entry).map_err(wrong)?);
            }
            if found.len() > FILES_MAX {
                return Err(wrong(format!("expected at most {FILES_MAX} files, got more")));
            }
            let Some(next) = next else {
                found.sort_by(|a: &RemoteFile, b| a.path.cmp(&b.path));
                if let Some(pair) = found.windows(2).find(|pair| pair[0].path == pair[1].path) {
                    return Err(wrong(format!("expected each file once, got {:?} twice", pair[0].path)));
                }
                return Ok(found);
            };
            if next.origin() != self.endpoint.origin() {
                return Err(wrong("expected the next page at the hub, got one elsewhere".to_owned()));
            }
            url = next;
        }
        Err(wrong(format!("expected at most {PAGES_MAX} pages, got more")))
    }

    /// The bytes of a file from a place on: where they begin, which is 0 where the server cannot begin elsewhere, and the
    /// answer that holds them.
    pub(crate) async fn bytes(
        &self,
        of: &Reference,
        commit: &str,
        file: &RemoteFile,
        from: u64,
    ) -> Result<(u64, Response), Failed> {
        let mut url = self.endpoint.clone();
        {
            let mut path = url.path_segments_mut().expect("an endpoint has a host");
            path.pop_if_empty();
            if of.kind() == RepositoryKind::Dataset {
                path.push("datasets");
            }
            path.extend(of.parts()).extend(["resolve", commit]).extend(file.path.split('/'));
        }
        let range = (from > 0).then(|| HeaderValue::from_str(&format!("bytes={from}-")).expect("digits are plain"));
        let response = self.get(url, range, &file.path, of).await?;
        let wrong = |detail: String| Failed::Lasting(FetchError::Answer { what: file.path.clone(), detail });
        match response.status() {
            StatusCode::OK => Ok((0, response)),
            StatusCode::PARTIAL_CONTENT => match begin_of(response.headers()) {
                Some(begin) if begin == from => Ok((from, response)),
                other => Err(wrong(format!("expected the bytes from {from}, got them from {other:?}"))),
            },
            status => Err(wrong(format!("expected HTTP 200 or 206, got {status}"))),
        }
    }

    fn api(&self, of: &Reference, what: &str, revision: &str) -> Url {
        let mut url = self.endpoint.clone();
        {
            let mut path = url.path_segments_mut().expect("an endpoint has a host");
            path.pop_if_empty();
            path.extend(["api", of.kind().plural()]).extend(of.parts()).extend([what, revision]);
        }
        url
    }

    /// A JSON answer that is not too large, and the page after it.
    async fn json<T: for<'de> Deserialize<'de>>(
        &self,
        url: &Url,
        what: &str,
        of: &Reference,
    ) -> Result<(T, Option<Url>), Failed> {
        let mut response = self.get(url.clone(), None, what, of).await?;
        let next = next_page(response.headers(), url);
        let body = body_of(&mut response, ANSWER_MAX_BYTES).await?;
        let wrong = |detail| Failed::Lasting(FetchError::Answer { what: what.to_owned(), detail });
        let body = body.ok_or_else(|| wrong(format!("expected at most {ANSWER_MAX_BYTES} bytes, got more")))?;
        let value = serde_json::from_slice(&body).map_err(|error| wrong(format!("expected JSON: {error}")))?;
        Ok((value, next))
    }

    /// Asks, following redirects; any status but 2xx is a failure.
    async fn get(&self, url: Url, range: Option<HeaderValue>, what: &str, of: &Reference) -> Result<Response, Failed> {
        let wrong = |detail: String| Failed::Lasting(FetchError::Answer { what: what.to_owned(), detail });
        let mut url = url;
        for _ in 0..=HOPS_MAX {
            let mut request = self.client.get(url.clone());
            if let Some(credential) = self.credential.as_ref().filter(|_| url.origin() == self.endpoint.origin()) {
                request = request.header(header::AUTHORIZATION, credential.clone());
            }
            if let Some(range) = &range {
                request = request.header(header::RANGE, range.clone());
            }
            let response = request.send().await.map_err(passing)?;
            let status = response.status();
            if !status.is_redirection() {
                return if status.is_success() { Ok(response) } else { Err(self.refused(response, what, of).await) };
            }
            let target = text_of(response.headers(), header::LOCATION).and_then(|target| url.join(target).ok());
            let Some(target) = target.filter(|target| matches!(target.scheme(), "http" | "https")) else {
                return Err(wrong(format!("expected an address behind HTTP {status}, got none")));
            };
            if url.scheme() == "https" && target.scheme() == "http" {
                return Err(wrong("expected a redirect that stays encrypted, got one that does not".to_owned()));
            }
            url = target;
        }
        Err(wrong(format!("expected at most {HOPS_MAX} redirects, got more")))
    }

    async fn refused(&self, mut response: Response, what: &str, of: &Reference) -> Failed {
        let status = response.status();
        let headers = response.headers().clone();
        let code = text_of(&headers, reqwest::header::HeaderName::from_static("x-error-code")).unwrap_or_default();
        let body = body_of(&mut response, REFUSAL_MAX_BYTES).await.ok().flatten().unwrap_or_default();
        let said = text_of(&headers, reqwest::header::HeaderName::from_static("x-error-message"));
        let said = said.map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned);
        let detail = shortened(&said);
        let not_found = |what: String| Failed::Lasting(FetchError::NotFound { what, with_token: self.with_token() });
        match (status.as_u16(), code) {
            (429 | 503, _) => {
                let wait_ms = retry_after_ms(&headers);
                Failed::Passing { detail: format!("HTTP {status}"), wait_ms, unreachable: false }
            }
            (408 | 425 | 500 | 502 | 504, _) => {
                Failed::Passing { detail: format!("HTTP {status}: {detail}"), wait_ms: None, unreachable: false }
            }
            (_, "RepoNotFound") => not_found(format!("repository {}", of.id())),
            (_, "RevisionNotFound") => not_found(format!("revision {:?} of {}", of.revision(), of.id())),
            (404, _) => not_found(what.to_owned()),
            (status @ (401 | 403), _) => Failed::Lasting(FetchError::Gated {
                what: of.to_string(),
                status,
                detail,
                page: self.page(of),
                with_token: self.with_token(),
            }),
            _ => Failed::Lasting(FetchError::Answer {
                what: what.to_owned(),
                detail: format!("HTTP {status}: {detail}"),
            }),
        }
    }

    /// The page of a repository, for people.
    fn page(&self, of: &Reference) -> String {
        let kind = if of.kind() == RepositoryKind::Dataset { "/datasets" } else { "" };
        format!("{}{kind}/{}", self.endpoint.as_str().trim_end_matches('/'), of.id())
    }
}

fn is_loopback(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
}

/// What the network did, without an address: that of a CDN is signed.
pub(crate) fn passing(error: reqwest::Error) -> Failed {
    let unreachable = error.is_connect();
    Failed::Passing { detail: chain(error), wait_ms: None, unreachable }
}

fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    shortened(&text)
}

/// On one line, without control characters, and not too long.
fn shortened(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(REFUSAL_SHOWN).collect();
    line.trim().to_owned()
}

fn text_of(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// A body, or none where it is longer than allowed.
async fn body_of(response: &mut Response, max_bytes: usize) -> Result<Option<Vec<u8>>, Failed> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(passing)? {
        if body.len() + piece.len() > max_bytes {
            return Ok(None);
        }
        body.extend_from_slice(&piece);
    }
    Ok(Some(body))
}

/// The address behind `rel="next"` of a `Link` header.
fn next_page(headers: &HeaderMap, at: &Url) -> Option<Url> {
    let links = text_of(headers, header::LINK)?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (address, _) = next.trim().strip_prefix('<')?.split_once('>')?;
    at.join(address).ok()
}

/// Where the bytes of a part begin: `bytes 5-9/10` begins at 5.
fn begin_of(headers: &HeaderMap) -> Option<u64> {
    let range = text_of(headers, header::CONTENT_RANGE)?;
    range.strip_prefix("bytes ")?.split_once('-')?.0.trim().parse().ok()
}

/// The pause that a server asks for: seconds, or a date that is compared with the server's own clock.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = text_of(headers, header::RETRY_AFTER)?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let now = httpdate::parse_http_date(text_of(headers, header::DATE)?).ok()?;
    let wait = until.duration_since(now).unwrap_or_default();
    Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

fn remote_file(entry: Entry) -> Result<RemoteFile, String> {
    if !is_plain_path(&entry.path) {
        return Err(format!("expected paths inside the repository, got {:?}", shortened(&entry.path)));
    }
    let (bytes, expected) = match &entry.lfs {
        Some(lfs) => (lfs.size, Expected::sha256(&lfs.oid)),
        None => (entry.size, Expected::git_sha1(&entry.oid)),
    };
    let expected = expected.ok_or_else(|| format!("expected a digest of {:?}, got none", entry.path))?;
    Ok(RemoteFile { path: entry.path, bytes, expected })
}

/// Whether a path leads to one place below a folder, on every system.
pub(crate) fn is_plain_path(path: &str) -> bool {
    let part = |part: &str| {
        let hostile = |c: char| matches!(c, '\\' | ':') || c.is_control();
        !part.is_empty() && part != "." && part != ".." && !part.contains(hostile)
    };
    path.len() <= PATH_MAX_BYTES && path.split('/').count() <= PATH_MAX_PARTS && path.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn pauses_are_seconds_or_dates_of_the_servers_clock() {
        assert_eq!(retry_after_ms(&headers(&[("retry-after", "7")])), Some(7000));
        let date = [("date", "Mon, 30 Nov 2026 10:00:00 GMT"), ("retry-after", "Mon, 30 Nov 2026 10:00:09 GMT")];
        assert_eq!(retry_after_ms(&headers(&date)), Some(9000));
        let past = [("date", "Mon, 30 Nov 2026 10:00:00 GMT"), ("retry-after", "Mon, 30 Nov 2026 09:00:00 GMT")];
        assert_eq!(retry_after_ms(&headers(&past)), Some(0));
        assert_eq!(retry_after_ms(&headers(&[("retry-after", "soon")])), None);
        assert_eq!(retry_after_ms(&headers(&[("retry-after", &u64::MAX.to_string())])), Some(u64::MAX));
    }

    #[test]
    fn the_next_page_is_read_from_the_links() {
        let at = Url::parse("https://hub/api/models/a/b/tree/x").unwrap();
        let next = next_page(&headers(&[("link", "<https://hub/x?cursor=y>; rel=\"next\"")]), &at);
        assert_eq!(next.unwrap().as_str(), "https://hub/x?cursor=y");
        assert_eq!(next_page(&headers(&[("link", "<https://hub/x>; rel=\"prev\"")]), &at), None);
    }

    #[test]
    fn paths_that_lead_out_are_none() {
        for fine in ["a", "a/b.json", "..a/b", "1_Pooling/config.json"] {
            assert!(is_plain_path(fine), "{fine:?}");
        }
        for wrong in
            ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\\b", "c:/a", "a\nb", &"a/".repeat(20), &"a".repeat(600)]
        {
            assert!(!is_plain_path(wrong), "{wrong:?}");
        }
    }
}
