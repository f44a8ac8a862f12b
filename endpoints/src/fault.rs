//! What went wrong in one try, before it is decided whether there is another; and how an error answer,
//! whatever its shape, becomes one.

use crate::json;
use crate::retry::classify;
use crate::secret::Redactor;
use legwork_protocol::failure::FailureKind;
use serde_json::Value;

/// The longest detail of a failure, in characters.
const DETAIL_MAX_CHARS: usize = 500;
/// Error codes under 429 that no waiting cures.
const SPENT_CODES: [&str; 2] = ["insufficient_quota", "billing_hard_limit_reached"];

/// What went wrong in one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind that it would end the call with.
    pub kind: FailureKind,
    /// What was expected, what came, what to do.
    pub detail: String,
    /// Whether another try can succeed.
    pub again: bool,
    /// Whether the server says that it has too much to do.
    pub overload: bool,
    /// The server's `Retry-After`, as it wrote it.
    pub retry_after: Option<String>,
}

impl Fault {
    /// A fault.
    pub fn new(kind: FailureKind, again: bool, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), again, overload: false, retry_after: None }
    }

    /// An answer that arrived whole and is not what the protocol promises: another try gives the same.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(FailureKind::BadResponse, false, detail)
    }

    /// An answer that was broken off: another try may give it whole.
    pub(crate) fn cut(detail: impl Into<String>) -> Self {
        Self::new(FailureKind::BadResponse, true, detail)
    }

    pub(crate) fn truncated(detail: impl Into<String>) -> Self {
        Self::new(FailureKind::TruncatedStream, true, detail)
    }

    /// The fault as it may leave the crate: free of keys first, and then short, since a key that was cut
    /// is no longer recognised.
    pub(crate) fn tidied(mut self, redactor: &Redactor) -> Self {
        self.detail = shorten(&redactor.clean(&self.detail));
        self
    }

    /// A status other than 2xx, with its body.
    pub(crate) fn from_status(status: u16, body: &[u8]) -> Self {
        let value = json::parse(body).ok();
        let said = value.as_ref().and_then(message_of).unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
        let code = value.as_ref().and_then(|value| code_of(value).as_str().map(str::to_owned));
        let (kind, again) = match code.as_deref() {
            Some(code) if status == 429 && SPENT_CODES.contains(&code) => (FailureKind::Refused, false),
            _ => classify(status),
        };
        let mut fault = Self::new(kind, again, format!("status {status}{}: {}", cure(status), one_line(&said)));
        fault.overload = matches!(status, 429 | 503 | 529);
        fault.retry_after = value.as_ref().and_then(retry_info);
        fault
    }

    /// An error body under 200, or an error event in a stream. Its own code, where it is a status, says
    /// whether another try can succeed (routers pass an upstream's 429 on in this way).
    pub(crate) fn from_error_body(value: &Value) -> Self {
        let said = one_line(&message_of(value).unwrap_or_else(|| value.to_string()));
        let status = code_of(value);
        let status = status.as_u64().or_else(|| status.as_str()?.parse().ok());
        match status.and_then(|status| u16::try_from(status).ok()).filter(|status| (400..600).contains(status)) {
            Some(status) => {
                let (kind, again) = classify(status);
                let mut fault = Self::new(kind, again, format!("an error body under 200, code {status}: {said}"));
                fault.overload = matches!(status, 429 | 503 | 529);
                fault.retry_after = retry_info(value);
                fault
            }
            None => Self::bad(format!("a completion was expected, an error body came under 200: {said}")),
        }
    }
}

/// Whether a JSON answer is an error whatever its status: it has an `error` that says something.
pub(crate) fn is_error_body(value: &Value) -> bool {
    match value.get("error") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

/// A server's text on one line, of any length: a fault is shortened once it is free of keys.
pub(crate) fn one_line(text: &str) -> String {
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.is_empty() { "(nothing)".to_owned() } else { line }
}

/// The start of a text.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(DETAIL_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The text of an error in the shapes that servers use: OpenAI's and Gemini's `error.message`, a plain
/// `error`, `message`, or FastAPI's `detail`.
fn message_of(value: &Value) -> Option<String> {
    let error = value.get("error").unwrap_or(value);
    for candidate in [error.get("message"), Some(error), value.get("message"), value.get("detail")] {
        match candidate {
            Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
            Some(detail @ Value::Array(items)) if !items.is_empty() => return Some(detail.to_string()),
            _ => {}
        }
    }
    None
}

fn code_of(value: &Value) -> &Value {
    value.get("error").and_then(|error| error.get("code")).or_else(|| value.get("code")).unwrap_or(&Value::Null)
}

/// Gemini says how long to wait in the body: `error.details[].retryDelay` as `"34s"`.
fn retry_info(value: &Value) -> Option<String> {
    let details = value.get("error")?.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Some(delay.strip_suffix('s')?.to_owned())
}

fn cure(status: u16) -> &'static str {
    match status {
        401 | 403 => " (check the key that `key_env` or `key_file` names)",
        404 => " (check `url` and `model`)",
        400 | 413 | 422 => {
            " (the request or its length does not suit this server: see `extra`, `omit` and the budgets)"
        }
        429 => " (lower `concurrency`, or set `requests_per_minute` or `tokens_per_minute` to what the server allows)",
        501 | 505 => " (the server does not offer this route)",
        502 | 504 => " (a gateway answered for the server behind it: is that one up and fast enough?)",
        500..=599 => " (see the server's own log; if it is overloaded, lower `concurrency`)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use serde_json::json;

    #[test]
    fn error_texts_are_found_in_every_shape() {
        for body in [
            json!({"error": {"message": "too hot", "code": 429}}),
            json!({"error": "too hot"}),
            json!({"message": "too hot"}),
            json!({"detail": "too hot"}),
        ] {
            let fault = Fault::from_status(503, body.to_string().as_bytes());
            assert!(
                fault.detail.starts_with("status 503 (see the server's own log") && fault.detail.ends_with(": too hot"),
                "{}",
                fault.detail
            );
            assert!(fault.overload && fault.again);
        }
        assert!(Fault::from_status(422, br#"{"detail":[{"loc":["x"]}]}"#).detail.contains("loc"));
    }

    #[test]
    fn a_page_of_html_is_quoted_short_and_on_one_line() {
        let page = format!("<html>\n<body>{}</body>", "x".repeat(10_000));
        let fault = Fault::from_status(502, page.as_bytes()).tidied(&Redactor::default());
        assert!(
            fault.detail.chars().count() <= DETAIL_MAX_CHARS + 1 && !fault.detail.contains('\n'),
            "{}",
            fault.detail
        );
    }

    #[test]
    fn a_key_at_the_cut_of_a_long_text_is_masked_whole() {
        let redactor = Redactor::new([Secret::new("sk-0123456789")]);
        for length in 470..500 {
            let fault = Fault::bad(format!("{}sk-0123456789", "x".repeat(length))).tidied(&redactor);
            assert!(!fault.detail.contains("sk-"), "{length}");
        }
    }

    #[test]
    fn a_spent_quota_is_not_waited_for() {
        let fault = Fault::from_status(429, br#"{"error":{"message":"pay","code":"insufficient_quota"}}"#);
        assert_eq!((fault.kind, fault.again), (FailureKind::Refused, false));
    }

    #[test]
    fn an_error_under_200_is_judged_by_its_own_code() {
        let upstream = Fault::from_error_body(&json!({"error": {"message": "busy", "code": 429}}));
        assert_eq!((upstream.kind, upstream.again), (FailureKind::RateLimited, true));
        let plain = Fault::from_error_body(&json!({"error": {"message": "no such thing"}}));
        assert_eq!((plain.kind, plain.again), (FailureKind::BadResponse, false));
    }

    #[test]
    fn geminis_retry_delay_is_read_from_the_body() {
        let body = json!({"error": {"code": 429, "details": [{"@type": "x"}, {"retryDelay": "34.5s"}]}});
        assert_eq!(Fault::from_status(429, body.to_string().as_bytes()).retry_after.as_deref(), Some("34.5"));
    }
}
