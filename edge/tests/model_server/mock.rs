//! A model for tests that says of itself that it is none: it says what its prompt tells it to say, a byte a token, and
//! misbehaves on request. It counts who still listens.

// The example uses other parts of it than the tests.
#![allow(dead_code)]

use futures::future::{BoxFuture, pending, ready};
use futures::stream::{self, StreamExt};
use legwork_edge::model_server::{
    Candidate, ChatAsk, Embedded, Finish, Gauge, Matched, ModelCard, Prompt, Refused, Said, Sampling, Speaking, Spoken,
    TextAsk, TextModel, Tokenizable,
};
use legwork_protocol::generation::Usage;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Ids below this are bytes; this one ends a turn.
pub(crate) const END: u32 = 256;
/// Ids are below this.
pub(crate) const VOCABULARY: u32 = 300;
/// Tokens that fit.
pub(crate) const CONTEXT: u32 = 2000;
/// The length of its vectors.
pub(crate) const DIMENSIONS: usize = 4;
/// Tokens that it claims to have cached of every prompt, where there are so many.
pub(crate) const CACHED: u32 = 2;

/// The model. A prompt whose last message, or whole text, begins with one of these words does what it says:
///
/// `say:…` says the rest; `seed` says its seed; `wait` says `a` and then nothing; `stall` does not even begin; `busy`,
/// `long` and `fail` refuse; `break` fails after `a`; `cut` ends after `a` without an end; `panic` and `shock` panic
/// before and after `a`. Anything else is answered by `You said: …`.
pub(crate) struct Mock {
    live: watch::Sender<usize>,
    seen: Mutex<Vec<Seen>>,
}

/// What it was asked.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Chat(ChatAsk),
    Text(TextAsk),
}

impl Seen {
    pub(crate) fn sampling(&self) -> &Sampling {
        match self {
            Seen::Chat(ask) => &ask.sampling,
            Seen::Text(ask) => &ask.sampling,
        }
    }
}

/// One that somebody listens to.
struct Live(watch::Sender<usize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.send_modify(|live| *live -= 1);
    }
}

impl Default for Mock {
    fn default() -> Self {
        Self { live: watch::channel(0).0, seen: Mutex::default() }
    }
}

impl Mock {
    pub(crate) fn live(&self) -> watch::Receiver<usize> {
        self.live.subscribe()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn enter(&self) -> Live {
        self.live.send_modify(|live| *live += 1);
        Live(self.live.clone())
    }

    fn saw(&self, seen: Seen) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    }
}

impl TextModel for Mock {
    fn card(&self) -> ModelCard {
        ModelCard {
            id: "mock/a".into(),
            aliases: vec!["default".into()],
            context_tokens: CONTEXT,
            vocabulary: VOCABULARY,
            created_s: 1_700_000_000,
            owned_by: "tests".into(),
            speaks: true,
            embedding_dimensions: Some(DIMENSIONS),
        }
    }

    fn chat(&self, ask: ChatAsk) -> BoxFuture<'_, Result<Speaking, Refused>> {
        self.saw(Seen::Chat(ask.clone()));
        let text = ask.messages.last().map(|message| message.content.clone()).unwrap_or_default();
        let mut ids: Vec<u32> = Vec::new();
        for message in &ask.messages {
            ids.extend(message.content.bytes().map(u32::from));
            ids.push(END);
        }
        let in_thought = ask.template.get("in_thought").is_some_and(|flag| flag == true);
        Box::pin(speak(self.enter(), text, ids, ask.sampling, None, in_thought))
    }

    fn complete(&self, ask: TextAsk) -> BoxFuture<'_, Result<Speaking, Refused>> {
        self.saw(Seen::Text(ask.clone()));
        let ids = match &ask.prompt {
            Prompt::Text(text) => text.bytes().map(u32::from).collect(),
            Prompt::Ids(ids) => ids.clone(),
        };
        let text = text_of(&ids);
        Box::pin(speak(self.enter(), text, ids, ask.sampling, ask.score_from, false))
    }

    fn embed(&self, prompts: Vec<Prompt>) -> BoxFuture<'_, Result<Embedded, Refused>> {
        let live = self.enter();
        Box::pin(async move {
            let mut embedded = Embedded::default();
            for prompt in prompts {
                let bytes: Vec<u8> = match prompt {
                    Prompt::Text(text) => text.into_bytes(),
                    Prompt::Ids(ids) => ids.into_iter().map(|id| (id % 256) as u8).collect(),
                };
                match bytes.as_slice() {
                    b"wait" => pending().await,
                    b"fail" => return Err(Refused::failed("the embedder is gone")),
                    _ => {}
                }
                let first = bytes.first().copied().map_or(0.0, f32::from);
                embedded.vectors.push(vec![bytes.len() as f32, first / 256.0, 0.5, -1.0]);
                embedded.prompt_tokens += bytes.len() as u64;
            }
            drop(live);
            Ok(embedded)
        })
    }

    fn tokenize(&self, what: Tokenizable) -> BoxFuture<'_, Result<Vec<u32>, Refused>> {
        let text = match what {
            Tokenizable::Text { text, .. } => text,
            Tokenizable::Chat(ask) => ask.messages.iter().map(|message| message.content.as_str()).collect(),
        };
        Box::pin(ready(Ok(text.bytes().map(u32::from).collect())))
    }

    fn detokenize(&self, ids: Vec<u32>) -> BoxFuture<'_, Result<String, Refused>> {
        Box::pin(ready(Ok(text_of(&ids))))
    }

    fn gauges(&self) -> Vec<Gauge> {
        let value = *self.live.borrow() as f64;
        let of = |device: Option<&str>| Gauge {
            name: "sequences",
            help: "Answers under way.",
            value,
            device: device.map(str::to_owned),
        };
        vec![of(None), of(Some("cuda:1"))]
    }
}

fn text_of(ids: &[u32]) -> String {
    let bytes: Vec<u8> = ids.iter().filter_map(|id| u8::try_from(*id).ok()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn speak(
    live: Live,
    text: String,
    ids: Vec<u32>,
    sampling: Sampling,
    score_from: Option<usize>,
    in_thought: bool,
) -> Result<Speaking, Refused> {
    let max_tokens = u64::from(sampling.max_tokens.unwrap_or(1));
    let prompt_tokens = ids.len() as u64;
    let word = text.split(' ').next().unwrap_or_default();
    match word {
        "busy" => return Err(Refused::Busy { retry_after_s: 7, detail: "the engine's queue is full".into() }),
        "long" => return Err(Refused::TooLong { prompt_tokens, max_tokens, context_tokens: u64::from(CONTEXT) }),
        "fail" => return Err(Refused::failed("the device is gone")),
        "panic" => panic!("a test's panic"),
        "stall" => pending().await,
        _ => {}
    }
    let answer = match text.strip_prefix("say:") {
        Some(rest) => rest.to_owned(),
        None if word == "seed" => json!(sampling.seed).to_string(),
        None if matches!(word, "wait" | "break" | "cut" | "shock") => "a".to_owned(),
        None => format!("You said: {text}"),
    };
    let mut said = Vec::new();
    if let Some(from) = score_from {
        let scored = ids.iter().enumerate().skip(from).map(|(place, id)| {
            let token = token(*id, &sampling);
            if place == 0 { Spoken { logprob: None, top: Vec::new(), ..token } } else { token }
        });
        said.push(Ok(Said::Scored(scored.collect())));
    }
    let (pieces, finish) = pieces(&answer, &sampling);
    let completion_tokens = pieces.len() as u32;
    said.extend(pieces.into_iter().map(Ok));
    let usage =
        Usage { prompt_tokens: ids.len() as u32, cached_tokens: CACHED.min(ids.len() as u32), completion_tokens };
    let word = word.to_owned();
    match word.as_str() {
        "wait" | "cut" | "shock" => drop(said.pop()),
        "break" => {
            said.pop();
            said.push(Err(Refused::failed("the device went away")));
        }
        _ => said.push(Ok(Said::End { finish, usage })),
    }
    let tail = stream::once(async move {
        match word.as_str() {
            "wait" => pending::<()>().await,
            "shock" => panic!("a test's panic amid an answer"),
            _ => {}
        }
    });
    let said = stream::iter(said).chain(tail.filter_map(|()| ready(None))).inspect(move |_| {
        let _listened_to = &live;
    });
    Ok(Speaking { prompt_ids: Arc::from(ids), in_thought, said: said.boxed() })
}

/// The answer a byte a piece, and why it ends.
fn pieces(answer: &str, sampling: &Sampling) -> (Vec<Said>, Finish) {
    let stop = sampling.stop.iter().filter_map(|stop| Some((answer.find(stop.as_str())?, stop))).min();
    let (text_end, tokens_end) = match stop {
        Some((at, stop)) if sampling.keep_stop => (at + stop.len(), at + stop.len()),
        Some((at, stop)) => (at, at + stop.len()),
        None => (answer.len(), answer.len()),
    };
    let mut tokens: Vec<u32> = answer.as_bytes()[..tokens_end].iter().copied().map(u32::from).collect();
    let mut finish = match stop {
        Some((_, stop)) => Finish::Stop { matched: Some(Matched::Text(stop.clone())) },
        None => {
            tokens.push(END);
            Finish::Stop { matched: Some(Matched::Token(END)) }
        }
    };
    let most = sampling.max_tokens.unwrap_or(CONTEXT) as usize;
    if tokens.len() > most {
        tokens.truncate(most);
        finish = Finish::Length;
    }
    let mut told = 0;
    let piece = |(place, id): (usize, &u32)| {
        let end = (place + 1).min(text_end);
        let mut text = String::new();
        // Half a character waits for its other half.
        if answer.is_char_boundary(end) && end > told {
            text.push_str(&answer[told..end]);
            told = end;
        }
        Said::Piece { text, tokens: vec![token(*id, sampling)] }
    };
    (tokens.iter().enumerate().map(piece).collect(), finish)
}

fn token(id: u32, sampling: &Sampling) -> Spoken {
    let bytes = |id: u32| u8::try_from(id).map_or_else(|_| b"<end>".to_vec(), |byte| vec![byte]);
    let Some(count) = sampling.logprobs else { return Spoken { id, ..Spoken::default() } };
    let top = (0..count).map(|place| {
        let id = (id + place) % END;
        Candidate { id, bytes: bytes(id), logprob: -0.25 - place as f32 }
    });
    Spoken { id, bytes: bytes(id), logprob: Some(-0.25), top: top.collect() }
}
