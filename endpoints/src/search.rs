//! A client of FoldAgent's search server: `POST /search`, `POST /open`, `GET /health`. Its protocol answers an unknown
//! document with status 200 and a sentence in place of the text; here that is "no such document".
//!
//! It refuses to know what a query is for and how a page is shown.

mod config;
pub(crate) mod reply;
#[cfg(test)]
mod tests;

pub use config::SearchConfig;

use crate::error::EndpointError;
use crate::fault::{Fault, one_line, shorten};
use crate::http::join;
use crate::retry::classify;
use crate::secret::{BaseUrl, Redactor, Secret};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::retrieval::{Page, PageRef, SearchAnswer};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};
use std::error::Error as _;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How much of an error's body is read, in bytes.
const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;

/// A client of one search server.
///
/// Dropping a future drops its request and returns its permit.
pub struct SearchClient {
    name: String,
    url: BaseUrl,
    client: Client,
    search: Url,
    open: Url,
    health: Url,
    key: Option<Secret>,
    redactor: Redactor,
    permits: Semaphore,
    timeout: Duration,
    attempts_max: u32,
    backoff: Duration,
    body_max_bytes: usize,
}

impl SearchClient {
    /// A client by this configuration; nothing is sent yet.
    ///
    /// # Errors
    /// Where the configuration asks for what cannot be: the error names the field and the cure.
    pub fn new(name: &str, config: &SearchConfig) -> Result<Self, EndpointError> {
        let checked = config.check(name)?;
        let mut builder = Client::builder()
            .http1_only()
            // A redirected POST turns into a GET, and a key must not travel to another host.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_millis(config.connect_timeout_ms))
            .pool_max_idle_per_host(config.concurrency)
            .user_agent(concat!("legwork/", env!("CARGO_PKG_VERSION")));
        if config::is_loopback(&checked.url) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| EndpointError::Client {
            name: name.to_owned(),
            reason: shorten(&checked.redactor.clean(&chain(&error))),
        })?;
        Ok(Self {
            name: name.to_owned(),
            url: config.url.clone(),
            client,
            search: join(&checked.url, "/search"),
            open: join(&checked.url, "/open"),
            health: join(&checked.url, "/health"),
            key: checked.key,
            redactor: checked.redactor,
            permits: Semaphore::new(config.concurrency),
            timeout: Duration::from_millis(config.timeout_ms),
            attempts_max: config.attempts_max,
            backoff: Duration::from_millis(config.backoff_ms),
            body_max_bytes: config.body_max_bytes,
        })
    }

    /// The name that the configuration gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is; printed with its secrets masked.
    pub fn url(&self) -> &BaseUrl {
        &self.url
    }

    /// The best `k` documents, best first. A document that the server ranked and could not fetch is left out and
    /// the answer is marked as degraded. `served_ms` is the time of the last try, waiting for a permit excluded.
    ///
    /// # Errors
    /// A failure of a named kind with what was expected, what came and the cure; never a key.
    pub async fn search(&self, query: &str, k: u32) -> Result<SearchAnswer, Failure> {
        let (value, served_ms) = self.post(&self.search, &json!({"query": query, "k": k}), reply::hits).await?;
        let (mut hits, degraded) = value;
        hits.truncate(k as usize);
        Ok(SearchAnswer { hits, degraded, served_ms })
    }

    /// One document, or none if the server knows no such document or answers with another one.
    ///
    /// # Errors
    /// As [`SearchClient::search`].
    pub async fn open(&self, page: &PageRef) -> Result<Option<Page>, Failure> {
        let body = match page {
            PageRef::DocId(docid) => json!({"docid": docid}),
            PageRef::Url(url) => json!({"url": url}),
        };
        let (found, _) = self.post(&self.open, &body, |value| reply::page(page, value)).await?;
        Ok(found)
    }

    /// Asks once whether the server is up, without another try.
    ///
    /// # Errors
    /// As [`SearchClient::search`].
    pub async fn health(&self) -> Result<(), Failure> {
        match self.attempt(self.client.get(self.health.clone())).await {
            Ok(_) => Ok(()),
            Err(fault) => Err(self.failure(fault, 1)),
        }
    }

    /// Asks until there is an answer or the tries are used up; waits `backoff` times the number of tries between.
    async fn post<T>(
        &self,
        url: &Url,
        body: &Value,
        read: impl Fn(Value) -> Result<T, String>,
    ) -> Result<(T, u64), Failure> {
        let body = body.to_string();
        let mut attempt = 1;
        loop {
            let permit = self.permits.acquire().await.expect("the semaphore is never closed");
            let began = Instant::now();
            let request = self.client.post(url.clone()).header("content-type", "application/json").body(body.clone());
            let answer = self.attempt(request).await.and_then(|value| read(value).map_err(Fault::bad));
            drop(permit);
            match answer {
                Ok(answer) => {
                    let served_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                    return Ok((answer, served_ms));
                }
                Err(fault) if fault.again && attempt < self.attempts_max => {
                    tracing::debug!(
                        server = self.name,
                        attempt,
                        detail = self.redactor.clean(&fault.detail),
                        "search is tried again"
                    );
                    tokio::time::sleep(self.backoff * attempt).await;
                    attempt += 1;
                }
                Err(fault) => return Err(self.failure(fault, attempt)),
            }
        }
    }

    async fn attempt(&self, mut request: RequestBuilder) -> Result<Value, Fault> {
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let waited = tokio::time::timeout(self.timeout, self.exchange(request)).await;
        waited.unwrap_or_else(|_| {
            let ms = self.timeout.as_millis();
            Err(Fault::new(FailureKind::TimedOut, true, format!("no whole answer within {ms} ms (`timeout_ms`)")))
        })
    }

    async fn exchange(&self, request: RequestBuilder) -> Result<Value, Fault> {
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status().as_u16();
        let limit = if status == 200 { self.body_max_bytes } else { ERROR_BODY_MAX_BYTES };
        let mut body = Vec::new();
        // What a header claims is neither believed nor allocated.
        while let Some(piece) = response.chunk().await.map_err(broken)? {
            body.extend_from_slice(&piece);
            if body.len() > limit {
                if status != 200 {
                    break;
                }
                return Err(Fault::bad(format!("the answer is larger than {limit} bytes (`body_max_bytes`)")));
            }
        }
        if status == 200 {
            return reply::json(&body);
        }
        let (kind, again) = classify(status);
        let said = Fault::from_status(status, &body).detail;
        let cure = match status {
            503 => "its queue is full: lower `concurrency` or run more of it",
            408 => "it gave up on the query after its own limit: lower `concurrency` or run more of it",
            401 | 403 => "it wants another token: see `key_env` and `key_file`",
            404 | 405 => "it has no such route: give the search server's root as `url`",
            _ => "see its own log",
        };
        Err(Fault::new(kind, again, format!("{cure} (status {status}: {})", said_by(&said))))
    }

    fn failure(&self, fault: Fault, attempts: u32) -> Failure {
        let fault = fault.tidied(&self.redactor);
        let detail = format!("search server `{}` at {}: {}", self.name, self.url, fault.detail);
        Failure { kind: fault.kind, detail, attempts }
    }
}

/// What a server said, without the status and the cure for models that stand before it.
fn said_by(detail: &str) -> &str {
    detail.split_once(": ").map_or(detail, |(_, said)| said)
}

fn broken(error: reqwest::Error) -> Fault {
    let error = error.without_url();
    let (what, again) = match () {
        () if error.is_builder() => ("the request cannot be built", false),
        () if error.is_connect() && error.is_timeout() => ("no connection in time (`connect_timeout_ms`)", true),
        () if error.is_connect() => ("no connection: is the server up and `url` right?", true),
        () => ("the connection broke before the answer was whole", true),
    };
    Fault::new(FailureKind::Unreachable, again, format!("{what} ({})", chain(&error)))
}

/// An error and its causes, on one line.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    one_line(&text)
}
