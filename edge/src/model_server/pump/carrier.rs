//! One request's answers: waits for a place, has a model begin each choice, and hands on what they say until all have
//! ended. It refuses to know tasks and HTTP.

use super::super::door::Full;
use super::super::meter::Meter;
use super::super::model::{Finish, Prompt, Said, Speaking, TextModel};
use super::super::moment;
use super::super::refused::Refused;
use super::super::routes::State;
use super::super::running::Ticket;
use super::{Ask, Job, Line, Prompted, full};
use actix_web::web;
use futures::future::{Either, join_all, select, try_join_all};
use futures::stream::{self, BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use legwork_protocol::generation::Usage;
use serde_json::Value;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// What ends a stream that went well.
const DONE: &str = "[DONE]";

/// What one request's task has in hand.
pub(super) struct Carrier {
    state: web::Data<State>,
    tickets: Vec<Ticket>,
    aborts: Vec<oneshot::Receiver<()>>,
    began: Instant,
    pub(super) limit: Duration,
}

/// What comes of one choice.
enum Heard {
    Said(Result<Said, Refused>),
    /// The stream is over.
    Over,
}

/// The choices that are under way.
type Choices = SelectAll<BoxStream<'static, (usize, Heard)>>;

impl Carrier {
    pub(super) fn new(state: &web::Data<State>, job: &Job) -> Self {
        let entries = job.asks.iter().map(|ask| {
            state.running.enter(match ask {
                Ask::Chat(ask) => &ask.rid,
                Ask::Text { ask, .. } => &ask.rid,
            })
        });
        let (tickets, aborts) = entries.unzip();
        let limit = Duration::from_millis(state.config.timeout_ms);
        Self { state: state.clone(), tickets, aborts, began: moment::now(), limit }
    }

    /// Waits for a place, has the models speak, and writes down what they say.
    pub(super) async fn carry(mut self, mut job: Job, mut line: Option<&mut Line>) -> Result<Value, Refused> {
        let count = job.asks.len();
        let place = self.enter(count).await?;
        let mut events = Vec::new();
        let (prompts, mut choices) = self.begin(&job.model, std::mem::take(&mut job.asks)).await?;
        job.form.open(&prompts, &mut events);
        if let Some(line) = &mut line {
            line.begin();
            line.send(&mut events).await?;
        }
        let mut ends = Ends::new(prompts, &self.state.meter, self.began);
        while ends.left > 0 {
            let Some((choice, heard)) = choices.next().await else { break };
            let Some(said) = ends.judge(choice, heard, &self.tickets)? else { continue };
            job.form.take(choice, said, &mut events);
            if let Some(line) = &mut line {
                line.send(&mut events).await?;
            }
        }
        // The place returns before the rest is written: a slow client holds a connection and nothing else.
        drop((choices, place));
        job.form.close(&mut events);
        self.state.meter.whole_answer(self.began.elapsed());
        let Some(line) = line else { return Ok(job.form.whole()) };
        events.push(DONE.to_owned());
        line.send(&mut events).await?;
        Ok(Value::Null)
    }

    /// Waits for a place; none is needed where all was aborted meanwhile.
    async fn enter(&mut self, count: usize) -> Result<Option<OwnedSemaphorePermit>, Refused> {
        let place = pin!(self.state.door.enter(count));
        match select(place, join_all(self.aborts.iter_mut())).await {
            Either::Left((Ok(place), _)) => Ok(Some(place)),
            Either::Left((Err(Full), _)) => Err(full(&self.state)),
            Either::Right(_) => Ok(None),
        }
    }

    async fn begin(&mut self, model: &Arc<dyn TextModel>, asks: Vec<Ask>) -> Result<(Vec<Prompted>, Choices), Refused> {
        let aborts = std::mem::take(&mut self.aborts);
        let aborts =
            aborts.into_iter().zip(&self.tickets).map(|(abort, ticket)| (!ticket.is_aborted()).then_some(abort));
        let starts = asks.into_iter().zip(aborts).map(|(ask, abort)| start(model, ask, abort));
        let started = try_join_all(starts).await?;
        let mut prompts = Vec::with_capacity(started.len());
        let mut choices = SelectAll::new();
        for (choice, (prompt, said)) in started.into_iter().enumerate() {
            prompts.push(prompt);
            let over = stream::once(std::future::ready(Heard::Over));
            choices.push(said.map(Heard::Said).chain(over).map(move |heard| (choice, heard)).boxed());
        }
        Ok((prompts, choices))
    }
}

type Saying = BoxStream<'static, Result<Said, Refused>>;

/// Has a model begin one answer; an abort ends it before or after it has begun. Without `abort` it was aborted already.
async fn start(
    model: &Arc<dyn TextModel>,
    ask: Ask,
    abort: Option<oneshot::Receiver<()>>,
) -> Result<(Prompted, Saying), Refused> {
    let nothing = || (Prompted { ids: Arc::from([]), in_thought: false, echo: None }, stream::empty().boxed());
    let Some(mut abort) = abort else { return Ok(nothing()) };
    let begin = async {
        match ask {
            Ask::Chat(ask) => Ok((model.chat(ask).await?, None)),
            Ask::Text { ask, echo: false } => Ok((model.complete(ask).await?, None)),
            Ask::Text { ask, echo: true } => {
                let echo = match &ask.prompt {
                    Prompt::Text(text) => text.clone(),
                    Prompt::Ids(ids) => model.detokenize(ids.clone()).await?,
                };
                Ok((model.complete(ask).await?, Some(echo)))
            }
        }
    };
    match select(&mut abort, begin.boxed()).await {
        Either::Left((Ok(()), _)) => Ok(nothing()),
        Either::Left((Err(_), begin)) => begin.await.map(|begun| spoken(begun, None)),
        Either::Right((begun, _)) => Ok(spoken(begun?, Some(abort))),
    }
}

fn spoken((speaking, echo): (Speaking, Option<String>), abort: Option<oneshot::Receiver<()>>) -> (Prompted, Saying) {
    let prompted = Prompted { ids: speaking.prompt_ids, in_thought: speaking.in_thought, echo };
    match abort {
        Some(abort) => (prompted, speaking.said.take_until(abort).boxed()),
        None => (prompted, speaking.said),
    }
}

/// Which choices have ended, and what they used.
struct Ends<'a> {
    prompts: Vec<Prompted>,
    /// Tokens said by each choice that has not ended.
    said: Vec<Option<u32>>,
    left: usize,
    meter: &'a Meter,
    began: Instant,
    is_first: bool,
}

impl<'a> Ends<'a> {
    fn new(prompts: Vec<Prompted>, meter: &'a Meter, began: Instant) -> Self {
        let left = prompts.len();
        Self { prompts, said: vec![Some(0); left], left, meter, began, is_first: true }
    }

    /// What is to be written of what came; an answer that breaks off is a failure of the model.
    fn judge(&mut self, choice: usize, heard: Heard, tickets: &[Ticket]) -> Result<Option<Said>, Refused> {
        let Some(so_far) = &mut self.said[choice] else { return Ok(None) };
        let said = match heard {
            Heard::Said(said) => said?,
            Heard::Over if tickets[choice].is_aborted() => {
                self.meter.aborted();
                let prompt_tokens = u32::try_from(self.prompts[choice].ids.len()).unwrap_or(u32::MAX);
                let usage = Usage { prompt_tokens, cached_tokens: 0, completion_tokens: *so_far };
                Said::End { finish: Finish::Aborted { detail: "aborted by /abort_request".to_owned() }, usage }
            }
            Heard::Over => return Err(Refused::failed("the model's answer broke off without an end: ask again")),
        };
        match &said {
            Said::Scored(_) => {}
            Said::Piece { tokens, .. } => {
                *so_far = so_far.saturating_add(u32::try_from(tokens.len()).unwrap_or(u32::MAX));
                if std::mem::take(&mut self.is_first) {
                    self.meter.first_piece(self.began.elapsed());
                }
            }
            Said::End { usage, .. } => {
                self.said[choice] = None;
                self.left -= 1;
                self.meter.used(usage);
            }
        }
        Ok(Some(said))
    }
}
