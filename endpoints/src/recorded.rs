//! Reading answers that were recorded rather than just received, with the very readers of a call: to look into a captured
//! body, to check a server's answers offline, and for the fuzz targets, which reach every reader of this crate here.
//!
//! It sends nothing and refuses to know where the bytes come from.

use crate::call::Reader;
use crate::fault::Fault;
use crate::gemini::GeminiReader;
use crate::openai::answer::ChatReader;
use crate::openai::embed::EmbedReader;
use crate::search::reply;
use crate::secret::Redactor;
use crate::sglang::wire::{GenerateReader, Generated};
use crate::stream::{Stream, Told, read_whole};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, TokenIds};
use legwork_protocol::retrieval::{Hit, Page, PageRef};

/// The wire form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A chat or text completion of the OpenAI kind.
    Openai,
    /// SGLang's `/generate`. Its completion has ids and no text, which only a tokenizer can give.
    Sglang {
        /// Ids of the prompt that was sent; another number in the answer is a fault.
        prompt_tokens: usize,
        /// Whether log-probabilities were asked for.
        logprobs: bool,
    },
    /// Gemini's `generateContent`.
    Gemini,
}

/// Reads a whole body that came under a status of 2xx.
///
/// # Errors
/// The failure that a call would end with or be tried again for. No key is known here, so none is masked.
pub fn read_body(wire: Wire, body: &[u8]) -> Result<Completion, Failure> {
    let read = match wire {
        Wire::Openai => read_whole(ChatReader::default(), false, body),
        Wire::Gemini => read_whole(GeminiReader::default(), false, body),
        Wire::Sglang { prompt_tokens, logprobs } => {
            read_whole(GenerateReader::new(prompt_tokens, logprobs, None), false, body).map(completion)
        }
    };
    read.map_err(failure)
}

/// Reads a stream of server-sent events, in the pieces that it came in and up to the end of the connection.
///
/// # Errors
/// As [`read_body`].
pub fn read_stream<'a>(wire: Wire, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Completion, Failure> {
    let read = match wire {
        Wire::Openai => told(ChatReader::default(), pieces),
        Wire::Gemini => told(GeminiReader::default(), pieces),
        Wire::Sglang { prompt_tokens, logprobs } => {
            told(GenerateReader::new(prompt_tokens, logprobs, None), pieces).map(completion)
        }
    };
    read.map_err(failure)
}

/// Reads a body of `/embeddings` that answers so many texts.
///
/// # Errors
/// As [`read_body`].
pub fn read_embeddings(texts: usize, body: &[u8]) -> Result<Vec<Vec<f32>>, Failure> {
    read_whole(EmbedReader::of(texts), false, body).map_err(failure)
}

/// Reads a search server's answer to a search: hits, best first, and whether it is degraded.
///
/// # Errors
/// As [`read_body`].
pub fn read_hits(body: &[u8]) -> Result<(Vec<Hit>, bool), Failure> {
    reply::json(body).and_then(|value| reply::hits(value).map_err(Fault::bad)).map_err(failure)
}

/// Reads a search server's answer to an opened page; none where it says that there is no such page.
///
/// # Errors
/// As [`read_body`].
pub fn read_page(asked: &PageRef, body: &[u8]) -> Result<Option<Page>, Failure> {
    reply::json(body).and_then(|value| reply::page(asked, value).map_err(Fault::bad)).map_err(failure)
}

/// Reads a body that came under another status than 2xx.
pub fn read_refusal(status: u16, body: &[u8]) -> Failure {
    failure(Fault::from_status(status, body))
}

fn told<'a, R: Reader>(reader: R, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<R::Out, Fault> {
    let mut stream = Stream::new(reader);
    for piece in pieces {
        if stream.take(piece)? == Told::Done {
            return stream.finish();
        }
    }
    stream.end()
}

fn completion(made: Generated) -> Completion {
    let ids = TokenIds { prompt: Vec::new(), completion: made.ids, logprobs: made.logprobs };
    Completion { finish: made.finish, usage: made.usage, ids: Some(ids), attempts: 1, ..Completion::default() }
}

fn failure(fault: Fault) -> Failure {
    let fault = fault.tidied(&Redactor::default());
    Failure { kind: fault.kind, detail: fault.detail, attempts: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_protocol::failure::FailureKind;

    const BODY: &[u8] = br#"{"choices":[{"message":{"content":"four"},"finish_reason":"stop"}]}"#;

    #[test]
    fn a_recorded_body_and_a_recorded_stream_read_as_in_a_call() {
        assert_eq!(read_body(Wire::Openai, BODY).unwrap().text, "four");
        let stream: &[u8] = b"data: {\"choices\":[{\"delta\":{\"content\":\"fo\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"ur\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\nbehind the end";
        for at in 0..stream.len() {
            let (head, tail) = stream.split_at(at);
            assert_eq!(read_stream(Wire::Openai, [head, tail]).unwrap().text, "four", "split at byte {at}");
        }
        let cut = read_stream(Wire::Openai, [&stream[..60]]).unwrap_err();
        assert_eq!(cut.kind, FailureKind::TruncatedStream);
        assert_eq!(read_body(Wire::Openai, b"<html>").unwrap_err().kind, FailureKind::BadResponse);
    }

    #[test]
    fn an_answer_in_ids_has_no_text() {
        let body = br#"{"output_ids":[5],"meta_info":{"prompt_tokens":3,"completion_tokens":1,"finish_reason":{"type":"stop"}}}"#;
        let read = |prompt_tokens| read_body(Wire::Sglang { prompt_tokens, logprobs: false }, body);
        let said = read(3).unwrap();
        assert_eq!((said.text.as_str(), said.ids.unwrap().completion), ("", vec![5]));
        assert!(read(4).unwrap_err().detail.contains("a prompt of 4 ids was sent"));
    }
}
