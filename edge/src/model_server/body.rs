//! Reads a request's body: within its size and its time, as a JSON object.

use super::fields::{Fields, wrong};
use super::refused::Refused;
use super::routes::State;
use super::running::RID_MAX_BYTES;
use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, web};
use serde_json::Value;

/// The id that a request gives itself.
pub(super) fn rid(fields: &mut Fields) -> Result<Option<String>, Refused> {
    match fields.take("rid") {
        None => Ok(None),
        Some(Value::String(rid)) if (1..=RID_MAX_BYTES).contains(&rid.len()) => Ok(Some(rid)),
        Some(other) => Err(wrong(&fields.path("rid"), &format!("a string of 1 to {RID_MAX_BYTES} bytes"), &other)),
    }
}

/// Reads a whole body before anything is taken for it. A body that claims to be too large is refused unread; no other
/// claim is believed or allocated.
pub(super) async fn read(state: &State, head: &HttpRequest, body: web::Payload) -> Result<Fields, Refused> {
    let limit = state.config.body_max_bytes;
    let too_large = || {
        let detail =
            format!("the body is larger than {limit} bytes; send less, or have the server's `body_max_bytes` raised");
        Refused::http(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let claimed =
        head.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if claimed.is_some_and(|claimed| claimed > limit as u64) {
        return Err(too_large());
    }
    let body = match tokio::time::timeout(state.config.body_timeout(), body.to_bytes_limited(limit)).await {
        Ok(Ok(Ok(body))) => body,
        Ok(Ok(Err(error))) => {
            return Err(Refused::http(StatusCode::BAD_REQUEST, format!("the body broke off: {error}; send it whole")));
        }
        Ok(Err(_)) => return Err(too_large()),
        Err(_) => {
            let detail = format!("the body took longer than {} ms; send it faster", state.config.body_timeout_ms);
            return Err(Refused::http(StatusCode::REQUEST_TIMEOUT, detail));
        }
    };
    let value = serde_json::from_slice(&body).map_err(|error| {
        // serde_json names a lone surrogate by where it noticed.
        let half = if error.to_string().contains("hex escape") { " (half of a surrogate pair is no text)" } else { "" };
        Refused::http(StatusCode::BAD_REQUEST, format!("the body must be JSON, it cannot be read: {error}{half}"))
    })?;
    Fields::of_body(value)
}
