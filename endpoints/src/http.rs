//! The one module that sends: a client for one endpoint, a request out, an answer in pieces. Every text
//! that leaves it is free of keys.
//!
//! It refuses to know what bodies mean.

use crate::config::{Checked, EndpointConfig};
use crate::error::EndpointError;
use crate::fault::{Fault, one_line, shorten};
use crate::secret::{Redactor, Secret};
use legwork_protocol::failure::FailureKind;
use reqwest::header::{self, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use std::error::Error as _;
use std::time::Duration;

/// How much of an error's body is read, in bytes.
const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;

/// How the key is sent.
#[derive(Clone, Copy)]
pub(crate) enum Scheme {
    /// `Authorization: Bearer …`.
    Bearer,
    /// `x-goog-api-key: …`.
    Goog,
}

/// A client for one endpoint.
pub(crate) struct Http {
    client: Client,
    credential: Option<(HeaderName, HeaderValue)>,
    redactor: Redactor,
    body_max_bytes: usize,
    idle: Duration,
}

/// One request, ready to be sent.
pub(crate) struct Ask {
    pub(crate) url: Url,
    pub(crate) body: Vec<u8>,
}

/// An answer whose status is 2xx, not yet read.
pub(crate) struct Answer {
    response: Response,
    /// Whether it is a stream of events.
    pub(crate) events: bool,
    /// Whether it says to be a page for people.
    pub(crate) html: bool,
    taken: usize,
    limit: usize,
    idle: Duration,
}

/// What stopped a try, and when the server thought it was.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) fault: Fault,
    pub(crate) date: Option<String>,
    /// Whether the server holds nothing of the request: it was never reached, or refused by a status.
    pub(crate) at_the_door: bool,
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self { fault, date: None, at_the_door: false }
    }
}

impl Http {
    pub(crate) fn new(
        name: &str,
        config: &EndpointConfig,
        checked: &Checked,
        scheme: Scheme,
    ) -> Result<Self, EndpointError> {
        let mut builder = Client::builder()
            // One request a connection: over HTTP/2 a server's stream limit, often 100, would queue
            // requests out of sight and make `concurrency` a lie.
            .http1_only()
            // A redirected POST turns into a GET, and a key must not travel to another host.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_millis(config.connect_timeout_ms))
            .pool_max_idle_per_host(config.concurrency)
            .user_agent(concat!("legwork/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&checked.url) {
            builder = builder.no_proxy();
        }
        let client = builder
            .build()
            .map_err(|error| EndpointError::Client { name: name.to_owned(), reason: shorten(&chain(&error)) })?;
        let credential = checked.key.as_ref().map(|key| credential(name, config, key, scheme)).transpose()?;
        if credential.is_some() && checked.url.scheme() == "http" && !is_loopback(&checked.url) {
            tracing::warn!(endpoint = name, "the key travels unencrypted: use https");
        }
        Ok(Self {
            client,
            credential,
            redactor: checked.redactor.clone(),
            body_max_bytes: config.body_max_bytes,
            idle: Duration::from_millis(config.idle_timeout_ms),
        })
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Sends; any status but 2xx is a fault, whose body has been read.
    pub(crate) async fn send(&self, ask: Ask) -> Result<Answer, Stopped> {
        let mut request = self.client.post(ask.url).header(header::CONTENT_TYPE, "application/json");
        if let Some((name, value)) = &self.credential {
            request = request.header(name, value);
        }
        let response = request.body(ask.body).send().await.map_err(|error| {
            let at_the_door = error.is_connect() || error.is_builder();
            Stopped { fault: broken(error), date: None, at_the_door }
        })?;
        let status = response.status().as_u16();
        let headers = response.headers();
        let date = text_of(headers, header::DATE);
        let kind = text_of(headers, header::CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let retry_after = text_of(headers, header::RETRY_AFTER);
        let location = text_of(headers, header::LOCATION);
        let answer = Answer {
            events: kind.starts_with("text/event-stream"),
            html: kind.starts_with("text/html"),
            response,
            taken: 0,
            limit: self.body_max_bytes,
            idle: self.idle,
        };
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let body = answer.start(ERROR_BODY_MAX_BYTES).await;
        let mut fault = match location.filter(|_| (300..400).contains(&status)) {
            Some(target) => Fault::new(
                FailureKind::Refused,
                false,
                format!("status {status}: the server is at {}: set `url` to that", one_line(&target)),
            ),
            None => Fault::from_status(status, &body),
        };
        fault.retry_after = retry_after.or(fault.retry_after);
        Err(Stopped { fault, date, at_the_door: true })
    }
}

impl Answer {
    /// The next piece; none at the end. It is waited for by `patience`, or by the configured time.
    pub(crate) async fn piece(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<Option<impl AsRef<[u8]> + use<>>, Fault> {
        let patience = patience.unwrap_or(self.idle);
        let waited = tokio::time::timeout(patience, self.response.chunk()).await.map_err(|_| {
            let idle_ms = patience.as_millis();
            let detail = format!("nothing came for {idle_ms} ms in the middle of an answer (`idle_timeout_ms`)");
            Fault::new(FailureKind::TimedOut, true, detail)
        })?;
        let piece = waited.map_err(broken)?;
        self.taken += piece.as_ref().map_or(0, |piece| piece.len());
        if self.taken > self.limit {
            return Err(Fault::bad(format!("the answer is larger than {} bytes (`body_max_bytes`)", self.limit)));
        }
        Ok(piece)
    }

    /// The whole body. What a header claims is neither believed nor allocated.
    pub(crate) async fn whole(mut self) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece(None).await? {
            body.extend_from_slice(piece.as_ref());
        }
        Ok(body)
    }

    /// The body's start, or what came of it before it broke off.
    async fn start(mut self, most: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < most {
            match self.piece(None).await {
                Ok(Some(piece)) => body.extend_from_slice(piece.as_ref()),
                Ok(None) | Err(_) => break,
            }
        }
        body
    }
}

fn credential(
    name: &str,
    config: &EndpointConfig,
    key: &Secret,
    scheme: Scheme,
) -> Result<(HeaderName, HeaderValue), EndpointError> {
    let (header, text) = match scheme {
        Scheme::Bearer => (header::AUTHORIZATION, format!("Bearer {}", key.expose())),
        Scheme::Goog => (HeaderName::from_static("x-goog-api-key"), key.expose().to_owned()),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| EndpointError::KeyUnfit {
        name: name.to_owned(),
        origin: config.key_env.clone().unwrap_or_else(|| "the key file".to_owned()),
        problem: "not fit for a header",
    })?;
    value.set_sensitive(true);
    Ok((header, value))
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

fn text_of(headers: &header::HeaderMap, name: HeaderName) -> Option<String> {
    Some(String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `base` with `route` behind its path, unless it is there already; the query stays.
pub(crate) fn join(base: &Url, route: &str) -> Url {
    let mut url = base.clone();
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with(route) {
        url.set_path(&format!("{path}{route}"));
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_put_behind_the_base_once_and_before_the_query() {
        let joined = |base: &str| join(&Url::parse(base).unwrap(), "/chat/completions").to_string();
        assert_eq!(joined("http://h/v1"), "http://h/v1/chat/completions");
        assert_eq!(joined("http://h/v1/"), "http://h/v1/chat/completions");
        assert_eq!(joined("http://h/v1/chat/completions"), "http://h/v1/chat/completions");
        assert_eq!(joined("http://h?key=a"), "http://h/chat/completions?key=a");
    }

    #[test]
    fn loopback_is_recognised_in_every_spelling() {
        for (url, expected) in [
            ("http://127.0.0.9", true),
            ("http://[::1]:8", true),
            ("http://localhost", true),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
