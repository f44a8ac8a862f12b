//! What a server can do wrong with one request, as data: written in TOML as `"reset_in_body"` or as
//! `{ single_bytes = { pause_ms = 1 } }`. It refuses to know bytes.

use serde::{Deserialize, Serialize};

/// What a server does with one request. Those that speak of a stream answer with one whether it was asked for or not;
/// those that speak of a body answer whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Misbehaviour {
    /// Nothing wrong: the reply of the endpoint behind. It fills the gaps of a written plan.
    Fine,
    /// 429.
    RateLimited {
        /// What it says of when to come back.
        #[serde(default)]
        retry_after: RetryAfter,
    },
    /// 500 with an error in JSON.
    ServerError,
    /// 502 with a page of HTML, as a proxy in front of a dead server gives it.
    BadGatewayPage,
    /// 503 with an error in JSON.
    Unavailable,
    /// The connection is reset unanswered, and whoever knocks within this time is refused by the system.
    DoorClosed {
        /// How long, in milliseconds.
        for_ms: u64,
    },
    /// A reset in the middle of the headers.
    ResetInHeaders,
    /// A reset in the middle of a stream.
    ResetInBody,
    /// Silence instead of an answer, until the client leaves.
    HangBeforeHeaders,
    /// Silence in the middle of a stream, until the client leaves.
    HangInStream,
    /// A stream that ends properly before its finish reason and its `[DONE]`.
    CutBeforeDone,
    /// A stream that ends inside a character of several bytes.
    CutInCharacter,
    /// A stream that ends inside the JSON of an event.
    CutInJson,
    /// A body that is no JSON.
    GarbageJson,
    /// A message whose `content` is null, with nothing beside it.
    NullContent,
    /// A message whose `content` is an empty text.
    EmptyText,
    /// `choices` that are empty.
    NoChoices,
    /// A good JSON reply that says to be a page of HTML.
    JsonAsPage,
    /// A good stream that says to be JSON.
    StreamAsJson,
    /// A body that does not end before this many bytes.
    HugeBody {
        /// Its length.
        bytes: u64,
    },
    /// Headers without end.
    EndlessHeader,
    /// A good reply, a byte at a time.
    SingleBytes {
        /// Between two bytes, in milliseconds.
        pause_ms: u64,
    },
    /// A stream of keep-alive comments and nothing else, as routers send them while a model does not come.
    EndlessComments {
        /// Between two comments, in milliseconds.
        pause_ms: u64,
    },
    /// A stream whose every piece of text comes twice. No client can tell.
    RepeatedChunks,
    /// The reply that another request got before, under that one's id. No client can tell.
    OtherReply,
    /// A tool call whose arguments are cut JSON.
    BrokenToolCall,
    /// An error body under status 200, as routers pass on what happened behind them.
    #[serde(rename = "error_under_200")]
    ErrorUnder200 {
        /// The status that the error names.
        #[serde(default)]
        code: Option<u16>,
    },
    /// A redirect to the very address that was asked.
    RedirectLoop,
}

/// What a 429 says of when to come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// Nothing.
    #[default]
    None,
    /// In so many seconds.
    Seconds(u64),
    /// At an HTTP date, so many seconds after the date that the server says it is.
    DateIn(u64),
    /// In more seconds than anybody lives.
    Absurd,
}

impl Misbehaviour {
    /// The name of its mark.
    pub fn name(&self) -> &'static str {
        match self {
            Misbehaviour::Fine => "fine",
            Misbehaviour::RateLimited { retry_after: RetryAfter::None } => "rate_limited",
            Misbehaviour::RateLimited { retry_after: RetryAfter::Seconds(_) } => "rate_limited_seconds",
            Misbehaviour::RateLimited { retry_after: RetryAfter::DateIn(_) } => "rate_limited_date",
            Misbehaviour::RateLimited { retry_after: RetryAfter::Absurd } => "rate_limited_absurd",
            Misbehaviour::ServerError => "server_error",
            Misbehaviour::BadGatewayPage => "bad_gateway_page",
            Misbehaviour::Unavailable => "unavailable",
            Misbehaviour::DoorClosed { .. } => "door_closed",
            Misbehaviour::ResetInHeaders => "reset_in_headers",
            Misbehaviour::ResetInBody => "reset_in_body",
            Misbehaviour::HangBeforeHeaders => "hang_before_headers",
            Misbehaviour::HangInStream => "hang_in_stream",
            Misbehaviour::CutBeforeDone => "cut_before_done",
            Misbehaviour::CutInCharacter => "cut_in_character",
            Misbehaviour::CutInJson => "cut_in_json",
            Misbehaviour::GarbageJson => "garbage_json",
            Misbehaviour::NullContent => "null_content",
            Misbehaviour::EmptyText => "empty_text",
            Misbehaviour::NoChoices => "no_choices",
            Misbehaviour::JsonAsPage => "json_as_page",
            Misbehaviour::StreamAsJson => "stream_as_json",
            Misbehaviour::HugeBody { .. } => "huge_body",
            Misbehaviour::EndlessHeader => "endless_header",
            Misbehaviour::SingleBytes { .. } => "single_bytes",
            Misbehaviour::EndlessComments { .. } => "endless_comments",
            Misbehaviour::RepeatedChunks => "repeated_chunks",
            Misbehaviour::OtherReply => "other_reply",
            Misbehaviour::BrokenToolCall => "broken_tool_call",
            Misbehaviour::ErrorUnder200 { code: None } => "error_under_200",
            Misbehaviour::ErrorUnder200 { code: Some(_) } => "error_under_200_with_code",
            Misbehaviour::RedirectLoop => "redirect_loop",
        }
    }

    /// One of each kind, with figures that cost a test no time.
    pub fn gallery() -> Vec<Misbehaviour> {
        let limited = |retry_after| Misbehaviour::RateLimited { retry_after };
        vec![
            limited(RetryAfter::None),
            limited(RetryAfter::Seconds(0)),
            limited(RetryAfter::DateIn(0)),
            limited(RetryAfter::Absurd),
            Misbehaviour::ServerError,
            Misbehaviour::BadGatewayPage,
            Misbehaviour::Unavailable,
            Misbehaviour::DoorClosed { for_ms: 3 },
            Misbehaviour::ResetInHeaders,
            Misbehaviour::ResetInBody,
            Misbehaviour::HangBeforeHeaders,
            Misbehaviour::HangInStream,
            Misbehaviour::CutBeforeDone,
            Misbehaviour::CutInCharacter,
            Misbehaviour::CutInJson,
            Misbehaviour::GarbageJson,
            Misbehaviour::NullContent,
            Misbehaviour::EmptyText,
            Misbehaviour::NoChoices,
            Misbehaviour::JsonAsPage,
            Misbehaviour::StreamAsJson,
            Misbehaviour::HugeBody { bytes: 1 << 20 },
            Misbehaviour::EndlessHeader,
            Misbehaviour::SingleBytes { pause_ms: 0 },
            Misbehaviour::EndlessComments { pause_ms: 2 },
            Misbehaviour::RepeatedChunks,
            Misbehaviour::OtherReply,
            Misbehaviour::BrokenToolCall,
            Misbehaviour::ErrorUnder200 { code: None },
            Misbehaviour::ErrorUnder200 { code: Some(503) },
            Misbehaviour::RedirectLoop,
        ]
    }

    /// Whether a client that tries again, and is served well then, has lost nothing but time.
    pub fn is_recoverable(&self) -> bool {
        match self {
            Misbehaviour::RateLimited { retry_after } => *retry_after != RetryAfter::Absurd,
            Misbehaviour::ErrorUnder200 { code } => code.is_some_and(|code| code == 429 || (500..600).contains(&code)),
            Misbehaviour::Fine
            | Misbehaviour::ServerError
            | Misbehaviour::BadGatewayPage
            | Misbehaviour::Unavailable
            | Misbehaviour::DoorClosed { .. }
            | Misbehaviour::ResetInHeaders
            | Misbehaviour::ResetInBody
            | Misbehaviour::HangBeforeHeaders
            | Misbehaviour::HangInStream
            | Misbehaviour::CutBeforeDone
            | Misbehaviour::CutInCharacter
            | Misbehaviour::CutInJson
            | Misbehaviour::GarbageJson
            | Misbehaviour::StreamAsJson
            | Misbehaviour::EndlessHeader
            | Misbehaviour::SingleBytes { .. }
            | Misbehaviour::EndlessComments { .. } => true,
            Misbehaviour::NullContent
            | Misbehaviour::EmptyText
            | Misbehaviour::NoChoices
            | Misbehaviour::JsonAsPage
            | Misbehaviour::HugeBody { .. }
            | Misbehaviour::RepeatedChunks
            | Misbehaviour::OtherReply
            | Misbehaviour::BrokenToolCall
            | Misbehaviour::RedirectLoop => false,
        }
    }

    /// Whether a reply of the endpoint behind is needed for it.
    pub(super) fn needs_reply(&self) -> bool {
        matches!(
            self,
            Misbehaviour::Fine
                | Misbehaviour::ResetInBody
                | Misbehaviour::HangInStream
                | Misbehaviour::CutBeforeDone
                | Misbehaviour::CutInCharacter
                | Misbehaviour::CutInJson
                | Misbehaviour::JsonAsPage
                | Misbehaviour::StreamAsJson
                | Misbehaviour::SingleBytes { .. }
                | Misbehaviour::RepeatedChunks
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_of_the_gallery_has_a_mark_of_its_own() {
        let names: BTreeSet<&str> = Misbehaviour::gallery().iter().map(Misbehaviour::name).collect();
        assert_eq!(names.len(), Misbehaviour::gallery().len());
        assert!(!names.contains("fine"));
    }
}
