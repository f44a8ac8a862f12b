//! Why there is no answer, and how that is told: OpenAI's error shape, `{"error": {message, type, param, code}}`, under the
//! status that clients know what to do with.

use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderValue};
use actix_web::http::{Method, StatusCode};
use serde_json::{Value, json};

/// Why there is no answer. The text goes to whoever asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The request asks for what cannot be: status 400.
    #[error("{detail}")]
    Asked {
        /// The field, as `messages[0].content`.
        param: Option<String>,
        /// What was expected, what came, the cure.
        detail: String,
    },
    /// Prompt and answer do not fit: status 400, code `context_length_exceeded`.
    // Clients that read no codes know it by "maximum context length is".
    #[error(
        "this model's maximum context length is {context_tokens} tokens: the prompt has {prompt_tokens} and {max_tokens} new ones are \
         asked for; shorten the prompt or ask for fewer"
    )]
    TooLong {
        /// Tokens of the prompt.
        prompt_tokens: u64,
        /// New tokens asked for, at least 1.
        max_tokens: u64,
        /// What fits.
        context_tokens: u64,
    },
    /// It is not offered here: status 400, code `unsupported`.
    #[error("{detail}")]
    Unsupported {
        /// The field, where one field asks for it.
        param: Option<String>,
        /// What it is, and the cure.
        detail: String,
    },
    /// No such model: status 404.
    #[error("there is no model {name:?} here; served are: {served}")]
    NoModel {
        /// The name that came.
        name: String,
        /// The names that there are.
        served: String,
    },
    /// Too much at once: status 429 with `Retry-After`.
    #[error("{detail}")]
    Busy {
        /// How long to wait, in seconds.
        retry_after_s: u32,
        /// What is full.
        detail: String,
    },
    /// It took longer than it may: status 408.
    #[error("{detail}")]
    Late {
        /// How long that was, and the cure.
        detail: String,
    },
    /// The model failed: status 503.
    #[error("{detail}")]
    Failed {
        /// What happened.
        detail: String,
    },
    /// Anything else of HTTP: a body too large, a route that is not there.
    #[error("{detail}")]
    Http {
        /// The status.
        status: u16,
        /// The cure.
        detail: String,
    },
}

impl Refused {
    /// A field that cannot be as it is.
    pub fn asked(param: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Asked { param: Some(param.into()), detail: detail.into() }
    }

    /// What is not offered.
    pub fn unsupported(detail: impl Into<String>) -> Self {
        Self::Unsupported { param: None, detail: detail.into() }
    }

    /// A model that failed.
    pub fn failed(detail: impl Into<String>) -> Self {
        Self::Failed { detail: detail.into() }
    }

    pub(super) fn http(status: StatusCode, detail: impl Into<String>) -> Self {
        Self::Http { status: status.as_u16(), detail: detail.into() }
    }

    /// The status of an answer that says this.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Asked { .. } | Self::TooLong { .. } | Self::Unsupported { .. } => StatusCode::BAD_REQUEST,
            Self::NoModel { .. } => StatusCode::NOT_FOUND,
            Self::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Late { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Failed { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Http { status, .. } => StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// The body, and the event of a stream that had begun.
    pub(super) fn body(&self) -> Value {
        let status = self.status();
        let kind = match status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        let (param, code) = match self {
            Self::Asked { param, .. } => (param.clone(), Some("invalid_value")),
            Self::TooLong { .. } => (Some("messages".to_owned()), Some("context_length_exceeded")),
            Self::Unsupported { param, .. } => (param.clone(), Some("unsupported")),
            Self::NoModel { .. } => (Some("model".to_owned()), Some("model_not_found")),
            Self::Busy { .. } => (None, Some("rate_limit_exceeded")),
            Self::Late { .. } => (None, Some("timeout")),
            Self::Failed { .. } => (None, Some("model_failed")),
            Self::Http { status: 401, .. } => (None, Some("invalid_api_key")),
            Self::Http { .. } => (None, None),
        };
        json!({"error": {"message": self.to_string(), "type": kind, "param": param, "code": code}})
    }

    pub(super) fn response(&self) -> HttpResponse {
        let mut answer = HttpResponse::build(self.status()).json(self.body());
        if let Self::Busy { retry_after_s, .. } = self {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(*retry_after_s));
        }
        answer
    }

    /// The answer to a method that a route does not take.
    pub(super) fn method(expected: &Method) -> HttpResponse {
        let refused = Self::http(StatusCode::METHOD_NOT_ALLOWED, format!("this route takes {expected} only"));
        let mut answer = refused.response();
        answer.headers_mut().insert(
            header::ALLOW,
            HeaderValue::from_str(expected.as_str()).unwrap_or(HeaderValue::from_static("GET, POST")),
        );
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_openais_shape_and_names_the_field() {
        let refused = Refused::asked("top_p", "`top_p` must be above 0");
        assert_eq!(refused.status(), 400);
        assert_eq!(
            refused.body(),
            json!({"error": {"message": "`top_p` must be above 0", "type": "invalid_request_error", "param": "top_p",
                             "code": "invalid_value"}})
        );
        let long = Refused::TooLong { prompt_tokens: 9, max_tokens: 2, context_tokens: 10 };
        assert_eq!(long.body()["error"]["code"], "context_length_exceeded");
    }

    #[test]
    fn whoever_is_turned_away_is_told_when_to_come_back() {
        let answer = Refused::Busy { retry_after_s: 3, detail: "full".into() }.response();
        assert_eq!(
            (answer.status().as_u16(), answer.headers().get("retry-after").unwrap().as_bytes()),
            (429, &b"3"[..])
        );
    }
}
