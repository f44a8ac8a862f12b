//! Readers of what servers answer and of what clients ask of ours: an answer that is taken says something, a failure is
//! short and on one line, and how a stream was cut into pieces changes nothing.

use super::{first_line, text};
use legwork_edge::search_server::{OpenRequest, SearchRequest};
use legwork_endpoints::recorded::{Wire, read_body, read_embeddings, read_hits, read_page, read_refusal, read_stream};
use legwork_endpoints::retry::{RETRY_AFTER_MAX_MS, retry_after_ms};
use legwork_endpoints::sse::{Decoder, Event, EventTooLong};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::Completion;
use legwork_protocol::id::DocId;
use legwork_protocol::retrieval::PageRef;
use std::time::{Duration, SystemTime};

/// Characters of a failure's detail at most, the mark of a cut included.
const DETAIL_MAX_CHARS: usize = 501;
/// Tool calls of one answer at most.
const TOOL_CALLS_MAX: usize = 256;
/// A limit for events that inputs can reach.
const EVENT_LIMIT: usize = 64;

pub fn openai(bytes: &[u8]) {
    completion(read_body(Wire::Openai, bytes));
}

pub fn openai_stream(bytes: &[u8]) {
    stream(Wire::Openai, bytes);
}

pub fn gemini(bytes: &[u8]) {
    completion(read_body(Wire::Gemini, bytes));
    stream(Wire::Gemini, bytes);
}

pub fn sglang(bytes: &[u8]) {
    for logprobs in [false, true] {
        let wire = Wire::Sglang { prompt_tokens: 3, logprobs };
        for read in [read_body(wire, bytes), read_stream(wire, [bytes])] {
            let Some(read) = taken(read) else { continue };
            let ids = read.ids.expect("an answer of ids has ids");
            assert_eq!(ids.completion.len(), read.usage.completion_tokens as usize);
            assert_eq!(ids.logprobs.len(), if logprobs { ids.completion.len() } else { 0 });
            assert!(ids.logprobs.iter().all(|logprob| logprob.is_finite()));
        }
        assert_eq!(read_stream(wire, [bytes]), read_stream(wire, bytes.chunks(1)));
    }
}

pub fn embeddings(bytes: &[u8]) {
    for texts in 0..4 {
        let Some(vectors) = taken(read_embeddings(texts, bytes)) else { continue };
        assert_eq!(vectors.len(), texts);
        assert!(vectors.iter().all(|vector| !vector.is_empty() && vector.iter().all(|number| number.is_finite())));
    }
}

pub fn search(bytes: &[u8]) {
    if let Some((hits, _)) = taken(read_hits(bytes)) {
        assert!(hits.iter().all(|hit| hit.score.is_finite()));
    }
    let asked = DocId::new("12");
    if let Some(Some(page)) = taken(read_page(&PageRef::DocId(asked.clone()), bytes)) {
        assert_eq!(page.docid, asked, "another page than was asked for");
    }
    taken(read_page(&PageRef::Url("http://host/".to_owned()), bytes));
}

/// The first line is the status.
pub fn refusal(bytes: &[u8]) {
    let text = text(bytes);
    let (status, body) = first_line(&text);
    let failure = read_refusal(status.trim().parse().unwrap_or(503), body.as_bytes());
    is_tidy(&failure);
}

pub fn retry_after(bytes: &[u8]) {
    let text = text(bytes);
    for now in [SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)] {
        assert!(retry_after_ms(&text, now).is_none_or(|wait_ms| wait_ms <= RETRY_AFTER_MAX_MS));
    }
}

/// Server-sent events, without and with a limit that is reached.
pub fn events(bytes: &[u8]) {
    let whole = decoded(usize::MAX >> 1, [bytes]).expect("no event is so long");
    let at = bytes.first().map_or(0, |byte| usize::from(*byte) % (bytes.len() + 1));
    let (head, tail) = bytes.split_at(at);
    assert_eq!(decoded(usize::MAX >> 1, [head, tail]).as_ref(), Ok(&whole));
    assert_eq!(decoded(usize::MAX >> 1, bytes.chunks(1)).as_ref(), Ok(&whole));
    if let Ok(events) = decoded(EVENT_LIMIT, bytes.chunks(7)) {
        // Replaced bytes grow to three.
        assert!(events.iter().all(|event| event.data.len() <= 3 * EVENT_LIMIT));
    }
}

/// A body of our own search server.
pub fn asked_search(bytes: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<SearchRequest>(bytes) {
        assert!(!format!("{request:?}").is_empty());
    }
    if let Ok(request) = serde_json::from_slice::<OpenRequest>(bytes) {
        match request.page() {
            Some(PageRef::DocId(docid)) => assert!(!docid.as_str().is_empty()),
            Some(PageRef::Url(url)) => assert!(!url.is_empty()),
            None => {}
        }
    }
}

fn decoded<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Event>, EventTooLong> {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(decoder.push(piece)?);
    }
    events.extend(decoder.finish());
    Ok(events)
}

fn stream(wire: Wire, bytes: &[u8]) {
    let whole = read_stream(wire, [bytes]);
    assert_eq!(read_stream(wire, bytes.chunks(1)), whole, "a stream read otherwise in pieces of one byte");
    assert_eq!(read_stream(wire, bytes.chunks(3)), whole, "a stream read otherwise in pieces of three bytes");
    completion(whole);
}

fn completion(read: Result<Completion, Failure>) {
    let Some(completion) = taken(read) else { return };
    let says = !completion.text.is_empty() || !completion.tool_calls.is_empty() || completion.reasoning.is_some();
    assert!(says, "an answer that says nothing");
    assert!(completion.tool_calls.len() <= TOOL_CALLS_MAX);
    assert!(completion.tool_calls.iter().all(|call| !call.name.is_empty() && !call.id.is_empty()));
    assert!(completion.reasoning.is_none_or(|reasoning| !reasoning.is_empty()));
    assert!(completion.ids.is_none_or(|ids| !ids.completion.is_empty()));
}

fn taken<T>(read: Result<T, Failure>) -> Option<T> {
    read.inspect_err(is_tidy).ok()
}

fn is_tidy(failure: &Failure) {
    let detail = &failure.detail;
    assert!(!detail.is_empty() && detail.chars().count() <= DETAIL_MAX_CHARS, "{detail}");
    assert!(!detail.chars().any(char::is_control), "{detail:?}");
}
