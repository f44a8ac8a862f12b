//! `/generate` as bytes: the request, and the answer whole or in events.

use super::abort::Watch;
use crate::call::Reader;
use crate::config::EndpointConfig;
use crate::fault::{Fault, is_error_body, one_line};
use crate::json::{self, count, number};
use crate::openai::request::sealed;
use legwork_protocol::failure::FailureKind;
use legwork_protocol::generation::{FinishReason, GenerateRequest, Usage};
use serde_json::{Map, Value, json};

pub(crate) fn body(config: &EndpointConfig, request: &GenerateRequest, ids: &[u32], rid: &str) -> Vec<u8> {
    let sampling = &request.sampling;
    let mut draw = Map::new();
    draw.insert("max_new_tokens".into(), json!(sampling.max_tokens));
    draw.insert("temperature".into(), number(sampling.temperature));
    draw.insert("top_p".into(), number(sampling.top_p));
    // Said outright: a server may take a default from the model's generation_config.
    draw.insert("top_k".into(), json!(sampling.top_k.map_or(-1, i64::from)));
    if let Some(seed) = sampling.seed {
        draw.insert("sampling_seed".into(), json!(seed >> 1));
    }
    if !sampling.stop.is_empty() {
        draw.insert("stop".into(), json!(sampling.stop));
    }
    for field in &config.omit {
        draw.shift_remove(field);
    }
    let mut body = Map::new();
    body.insert("rid".into(), json!(rid));
    body.insert("input_ids".into(), json!(ids));
    body.insert("sampling_params".into(), Value::Object(draw));
    body.insert("return_logprob".into(), json!(config.logprobs));
    body.insert("stream".into(), json!(config.stream));
    sealed(config, body)
}

/// What the server made.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Generated {
    pub(crate) ids: Vec<u32>,
    pub(crate) logprobs: Vec<f32>,
    pub(crate) finish: FinishReason,
    pub(crate) usage: Usage,
    stop: Stop,
}

/// What the answer stopped at.
#[derive(Debug, Default, PartialEq)]
enum Stop {
    #[default]
    Nothing,
    Token(u32),
    Text(String),
}

impl Generated {
    /// The ids that carry text: without the token that ended the turn.
    pub(crate) fn spoken(&self) -> &[u32] {
        match (&self.stop, self.ids.split_last()) {
            (Stop::Token(token), Some((last, spoken))) if last == token => spoken,
            _ => &self.ids,
        }
    }

    /// The text before the stop string, which ids cannot be cut at.
    pub(crate) fn up_to_stop(&self, mut text: String) -> String {
        if let Stop::Text(stop) = &self.stop
            && let Some(at) = text.rfind(stop.as_str())
        {
            text.truncate(at);
        }
        text
    }
}

/// Reads one answer to a prompt of known length. Dropped before the answer is whole, it has the server
/// abort the request.
pub(crate) struct GenerateReader {
    prompt_tokens: usize,
    logprobs: bool,
    watch: Option<Watch>,
    out: Generated,
    done: bool,
}

impl GenerateReader {
    pub(crate) fn new(prompt_tokens: usize, logprobs: bool, watch: Option<Watch>) -> Self {
        Self { prompt_tokens, logprobs, watch, out: Generated::default(), done: false }
    }

    fn disarm(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.disarm();
        }
    }

    fn take(&mut self, body: &[u8]) -> Result<(), Fault> {
        let value = json::parse(body).map_err(|error| {
            let told = one_line(&String::from_utf8_lossy(body));
            Fault::cut(format!("a JSON answer was expected, it cannot be read ({error}): {told}"))
        })?;
        if is_error_body(&value) {
            return Err(Fault::from_error_body(&value));
        }
        let Some(meta) = value.get("meta_info").filter(|meta| meta.is_object()) else {
            let told = one_line(&value.to_string());
            return Err(Fault::bad(format!("`meta_info` was expected, it is not there: {told}")));
        };
        self.out.usage = Usage {
            prompt_tokens: count(meta.get("prompt_tokens")),
            cached_tokens: count(meta.get("cached_tokens")),
            completion_tokens: count(meta.get("completion_tokens")),
        };
        let triples = read_logprobs(meta.get("output_token_logprobs"))?;
        let ids = match value.get("output_ids") {
            Some(Value::Array(ids)) => ids.iter().map(read_id).collect::<Result<_, _>>()?,
            // Older servers give ids beside the log-probabilities only.
            _ => triples.iter().map(|(id, _)| *id).collect::<Vec<u32>>(),
        };
        let made = self.out.usage.completion_tokens as usize;
        join(&mut self.out.ids, ids, made);
        if self.logprobs {
            join(&mut self.out.logprobs, triples.into_iter().map(|(_, logprob)| logprob).collect(), made);
        }
        self.take_finish(meta.get("finish_reason").unwrap_or(&Value::Null))
    }

    fn take_finish(&mut self, reason: &Value) -> Result<(), Fault> {
        let kind = reason.get("type").and_then(Value::as_str).or_else(|| reason.as_str());
        self.out.finish = match kind {
            None => return Ok(()),
            Some("stop") => FinishReason::Stop,
            Some("length") => FinishReason::Length,
            Some("abort") => {
                self.disarm();
                return Err(aborted(reason));
            }
            Some(_) => FinishReason::Other,
        };
        self.out.stop = match reason.get("matched") {
            Some(Value::String(text)) if !text.is_empty() => Stop::Text(text.clone()),
            Some(Value::Number(token)) => {
                token.as_u64().and_then(|t| u32::try_from(t).ok()).map_or(Stop::Nothing, Stop::Token)
            }
            _ => Stop::Nothing,
        };
        self.done = true;
        self.disarm();
        Ok(())
    }
}

impl Reader for GenerateReader {
    type Out = Generated;

    fn event(&mut self, data: &str) -> Result<(), Fault> {
        self.take(data.as_bytes())
    }

    fn complete(&self) -> bool {
        self.done
    }

    fn finish(self) -> Result<Generated, Fault> {
        if !self.done {
            return Err(Fault::truncated("the stream said that it was done and gave no finish reason"));
        }
        let Usage { prompt_tokens, completion_tokens, .. } = self.out.usage;
        if prompt_tokens as usize != self.prompt_tokens {
            let sent = self.prompt_tokens;
            let detail =
                format!("a prompt of {sent} ids was sent and the server read {prompt_tokens}: it changes prompts");
            return Err(Fault::bad(detail));
        }
        let made = completion_tokens as usize;
        if self.out.ids.len() != made {
            let got = self.out.ids.len();
            return Err(Fault::bad(format!("{made} output ids were expected (`completion_tokens`), {got} came")));
        }
        if self.logprobs && self.out.logprobs.len() != made {
            let got = self.out.logprobs.len();
            return Err(Fault::bad(format!("{made} log-probabilities were expected, {got} came")));
        }
        if made == 0 {
            return Err(Fault::new(FailureKind::EmptyCompletion, false, "an answer without a token"));
        }
        Ok(self.out)
    }

    fn whole(mut self, body: &[u8]) -> Result<Generated, Fault> {
        self.take(body)?;
        if !self.done {
            return Err(Fault::bad("a finish reason was expected in `meta_info`, there is none"));
        }
        self.finish()
    }

    fn refused(mut self) {
        self.disarm();
    }

    fn tokens(out: &Generated) -> Option<u64> {
        Some(u64::from(out.usage.prompt_tokens) + u64::from(out.usage.completion_tokens))
    }
}

/// Events give everything made so far, or (`incremental_streaming_output`) what is new. The count of
/// tokens made tells which: a list that is as long as the count is the whole.
fn join<T>(so_far: &mut Vec<T>, came: Vec<T>, made: usize) {
    if came.len() == made {
        *so_far = came;
    } else {
        so_far.extend(came);
    }
}

fn read_id(value: &Value) -> Result<u32, Fault> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| {
        Fault::bad(format!("token ids were expected in `output_ids`, {} came", one_line(&value.to_string())))
    })
}

/// Triples of log-probability, id and text.
fn read_logprobs(value: Option<&Value>) -> Result<Vec<(u32, f32)>, Fault> {
    let triples = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let read = |triple: &Value| {
        let logprob = triple.get(0).and_then(Value::as_f64).map(|logprob| logprob as f32);
        let logprob = logprob.filter(|logprob| logprob.is_finite());
        match (logprob, triple.get(1).map(read_id)) {
            (Some(logprob), Some(id)) => Ok((id?, logprob)),
            _ => {
                let told = one_line(&triple.to_string());
                Err(Fault::bad(format!("a log-probability and an id were expected, {told} came")))
            }
        }
    };
    triples.iter().map(read).collect()
}

/// The server gave the request up: its status says whether another try can succeed.
fn aborted(reason: &Value) -> Fault {
    let status = count(reason.get("status_code"));
    let message = reason.get("message").and_then(Value::as_str).unwrap_or("without a message");
    let (kind, again) = match u16::try_from(status) {
        Ok(status @ 400..=599) => crate::retry::classify(status),
        _ => (FailureKind::ServerError, true),
    };
    let mut fault =
        Fault::new(kind, again, format!("the server aborted the request ({status}): {}", one_line(message)));
    fault.overload = matches!(status, 429 | 503 | 529);
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ids: &[u32], made: usize, reason: Value) -> String {
        let logprobs: Vec<_> = ids.iter().map(|id| json!([-0.5 - f64::from(*id), id, null])).collect();
        json!({"text": "…", "output_ids": ids, "meta_info": {"id": "r", "prompt_tokens": 3, "cached_tokens": 2,
            "completion_tokens": made, "finish_reason": reason, "output_token_logprobs": logprobs}})
        .to_string()
    }

    fn stop_at(token: u32) -> Value {
        json!({"type": "stop", "matched": token})
    }

    fn stream(events: &[String]) -> Result<Generated, Fault> {
        let mut reader = GenerateReader::new(3, true, None);
        for event in events {
            reader.event(event)?;
        }
        reader.finish()
    }

    #[test]
    fn whole_and_new_pieces_of_a_stream_give_the_same_ids() {
        let whole =
            stream(&[event(&[5], 1, Value::Null), event(&[5, 6], 2, Value::Null), event(&[5, 6, 9], 3, stop_at(9))]);
        let pieces = stream(&[event(&[5], 1, Value::Null), event(&[6], 2, Value::Null), event(&[9], 3, stop_at(9))]);
        let once = GenerateReader::new(3, true, None).whole(event(&[5, 6, 9], 3, stop_at(9)).as_bytes());
        let out = whole.unwrap();
        assert_eq!((&out, &out), (&pieces.unwrap(), &once.unwrap()));
        assert_eq!((&out.ids, &out.logprobs), (&vec![5, 6, 9], &vec![-5.5, -6.5, -9.5]));
        assert_eq!(out.usage, Usage { prompt_tokens: 3, cached_tokens: 2, completion_tokens: 3 });
        assert_eq!(out.spoken(), [5, 6], "the token that ends the turn carries no text");
    }

    #[test]
    fn a_stop_string_is_cut_from_the_text_and_its_ids_stay() {
        let out = stream(&[event(&[5, 6], 2, json!({"type": "stop", "matched": "END"}))]).unwrap();
        assert_eq!((out.spoken().len(), out.up_to_stop("abcEND".into()).as_str()), (2, "abc"));
    }

    #[test]
    fn ids_are_taken_from_the_logprobs_where_the_server_gives_no_others() {
        let mut old: Value = serde_json::from_str(&event(&[5, 6], 2, json!({"type": "length", "length": 2}))).unwrap();
        old.as_object_mut().unwrap().remove("output_ids");
        let out = GenerateReader::new(3, false, None).whole(old.to_string().as_bytes()).unwrap();
        assert_eq!((out.ids, out.logprobs.len(), out.finish), (vec![5, 6], 0, FinishReason::Length));
    }

    #[test]
    fn counts_that_do_not_agree_are_refused() {
        let lost = stream(&[event(&[5], 1, Value::Null), event(&[9], 3, stop_at(9))]).unwrap_err();
        assert!(lost.detail.contains("3 output ids were expected"), "{}", lost.detail);
        let longer = GenerateReader::new(4, true, None).whole(event(&[9], 1, stop_at(9)).as_bytes()).unwrap_err();
        assert!(longer.detail.contains("a prompt of 4 ids was sent and the server read 3"), "{}", longer.detail);
    }

    #[test]
    fn an_abort_by_the_server_is_judged_by_its_status() {
        for (status, kind, again) in [
            (503, FailureKind::ServerError, true),
            (400, FailureKind::Refused, false),
            (0, FailureKind::ServerError, true),
        ] {
            let reason = json!({"type": "abort", "message": "queue is full", "status_code": status});
            let fault = stream(&[event(&[], 0, reason)]).unwrap_err();
            assert_eq!((fault.kind, fault.again), (kind, again));
        }
    }

    #[test]
    fn odd_answers_are_named() {
        for body in [
            "{}",
            "[]",
            "{\"meta_info\":3}",
            "{\"meta_info\":{\"completion_tokens\":1},\"output_ids\":[-1]}",
            "{\"meta_info\":{\"completion_tokens\":1,\"output_token_logprobs\":[[null,1]]}}",
        ] {
            assert_eq!(
                GenerateReader::new(3, true, None).whole(body.as_bytes()).unwrap_err().kind,
                FailureKind::BadResponse,
                "{body}"
            );
        }
        assert!(!GenerateReader::new(3, true, None).complete());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, numbers in "[-0-9e.,\\[\\]]{0,30}") {
            let _ = GenerateReader::new(3, true, None).whole(&bytes);
            let _ = GenerateReader::new(3, true, None).whole(format!("{{\"meta_info\":{{}},\"output_ids\":[{numbers}]}}").as_bytes());
        }
    }
}
