//! Carries what models say to whoever asked: as one body, or as server-sent events while it is said. A client that leaves,
//! an abort and the end of the time all drop the models' answers; each has its own end.
//!
//! It refuses to know how an answer is written: a [`Form`] does that.

use super::door::Full;
use super::meter::Meter;
use super::model::{ChatAsk, Finish, Said, Speaking, TextAsk, TextModel};
use super::moment;
use super::refused::Refused;
use super::routes::State;
use super::running::Ticket;
use actix_web::HttpResponse;
use actix_web::web::{self, Bytes};
use futures::future::{Either, join_all, select, try_join_all};
use futures::stream::{self, BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use legwork_protocol::generation::Usage;
use serde_json::Value;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinHandle;

/// Events that wait for a slow client at most; a model that is ahead of them waits too.
const EVENTS_MAX: usize = 64;
/// After how long whoever found the queue full may come back, in seconds.
const RETRY_AFTER_S: u32 = 1;
/// What ends a stream that went well.
const DONE: &str = "[DONE]";

/// How an answer is written.
pub(super) trait Form: Send + 'static {
    /// All choices are about to be said; their prompts, in order.
    fn open(&mut self, prompts: &[Prompted], events: &mut Vec<String>);

    /// A choice said something.
    fn take(&mut self, choice: usize, said: Said, events: &mut Vec<String>);

    /// All is said.
    fn close(&mut self, events: &mut Vec<String>);

    /// The whole answer, where it is not streamed.
    fn whole(self: Box<Self>) -> Value;
}

/// What a form may want to know of a prompt.
pub(super) struct Prompted {
    pub(super) ids: Arc<[u32]>,
    pub(super) in_thought: bool,
    /// The text, where it is to be echoed.
    pub(super) echo: Option<String>,
}

/// One answer that is asked for.
pub(super) enum Ask {
    Chat(ChatAsk),
    Text { ask: TextAsk, echo: bool },
}

/// A request: answers by one model in one form.
pub(super) struct Job {
    pub(super) model: Arc<dyn TextModel>,
    pub(super) asks: Vec<Ask>,
    pub(super) form: Box<dyn Form>,
    pub(super) streams: bool,
}

/// Answers a job. Dropped, or when its body is dropped, it stops the models.
pub(super) async fn answer(state: &web::Data<State>, job: Job) -> HttpResponse {
    let carrier = Carrier::new(state, &job);
    if job.streams { streamed(state, carrier, job).await } else { whole(state, carrier, job).await }
}

async fn whole(state: &web::Data<State>, carrier: Carrier, job: Job) -> HttpResponse {
    let limit = carrier.limit;
    let task = async move {
        let carried = tokio::time::timeout(limit, carrier.carry(job, None)).await;
        carried.unwrap_or_else(|_| Err(late(limit)))
    };
    let mut task = Stopping::spawn(state, task);
    match (&mut task.task).await.unwrap_or_else(|_| Err(panicked())) {
        Ok(body) => HttpResponse::Ok().json(body),
        Err(refused) => refused.response(),
    }
}

async fn streamed(state: &web::Data<State>, carrier: Carrier, job: Job) -> HttpResponse {
    let (events, received) = mpsc::channel(EVENTS_MAX);
    let (began, begun) = oneshot::channel();
    let limit = carrier.limit;
    let task = async move {
        let mut line = Line { events, began: Some(began) };
        let carried = tokio::time::timeout(limit, carrier.carry(job, Some(&mut line))).await;
        match carried.unwrap_or_else(|_| Err(late(limit))) {
            Ok(_) => {}
            Err(refused) => match line.began.take() {
                // Nothing is sent yet: the status can say it.
                Some(began) => drop(began.send(Err(refused))),
                None => line.tell_last(&refused),
            },
        }
    };
    let task = Stopping::spawn(state, task);
    match begun.await.unwrap_or_else(|_| Err(panicked())) {
        Err(refused) => refused.response(),
        Ok(()) => HttpResponse::Ok()
            .content_type("text/event-stream; charset=utf-8")
            .insert_header(("cache-control", "no-cache"))
            // Proxies would gather events.
            .insert_header(("x-accel-buffering", "no"))
            .streaming(body(received, task)),
    }
}

/// The events as they come, and an error at the end where the task broke off.
fn body(
    events: mpsc::Receiver<Bytes>,
    task: Stopping<()>,
) -> impl futures::Stream<Item = Result<Bytes, Infallible>> + 'static {
    stream::unfold(Some((events, task)), |state| async move {
        let (mut events, mut task) = state?;
        match events.recv().await {
            Some(event) => Some((Ok(event), Some((events, task)))),
            None => match (&mut task.task).await {
                Ok(()) => None,
                Err(_) => Some((Ok(event(&panicked().body().to_string())), None)),
            },
        }
    })
}

fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// The line to a client that reads events.
struct Line {
    events: mpsc::Sender<Bytes>,
    began: Option<oneshot::Sender<Result<(), Refused>>>,
}

impl Line {
    fn begin(&mut self) {
        if let Some(began) = self.began.take() {
            // Whoever waited for it may have left; then the task is being stopped.
            let _ = began.send(Ok(()));
        }
    }

    async fn send(&self, events: &mut Vec<String>) -> Result<(), Refused> {
        for data in events.drain(..) {
            self.events.send(event(&data)).await.map_err(|_| Refused::failed("the client left"))?;
        }
        Ok(())
    }

    /// The last event; it is lost on a client that reads so slowly that there is no room for it.
    fn tell_last(&self, refused: &Refused) {
        let _ = self.events.try_send(event(&refused.body().to_string()));
    }
}

/// What one request's task has in hand.
struct Carrier {
    state: web::Data<State>,
    tickets: Vec<Ticket>,
    aborts: VecDeque<oneshot::Receiver<()>>,
    began: Instant,
    limit: Duration,
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
    fn new(state: &web::Data<State>, job: &Job) -> Self {
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
    async fn carry(mut self, mut job: Job, mut line: Option<&mut Line>) -> Result<Value, Refused> {
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
                    super::model::Prompt::Text(text) => text.clone(),
                    super::model::Prompt::Ids(ids) => model.detokenize(ids.clone()).await?,
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

/// Runs something that computes for one request on the caller's runtime, within the server's time.
pub(super) async fn once<T: Send + 'static>(
    state: &web::Data<State>,
    work: impl Future<Output = Result<T, Refused>> + Send + 'static,
) -> Result<T, Refused> {
    let (shared, limit) = (state.clone(), Duration::from_millis(state.config.timeout_ms));
    let task = async move {
        let timed = async {
            let place = shared.door.enter(1).await.map_err(|Full| full(&shared))?;
            let done = work.await;
            drop(place);
            done
        };
        tokio::time::timeout(limit, timed).await.unwrap_or_else(|_| Err(late(limit)))
    };
    let mut task = Stopping::spawn(state, task);
    (&mut task.task).await.unwrap_or_else(|_| Err(panicked()))
}

fn full(state: &State) -> Refused {
    let waiting = state.config.queue_max;
    Refused::Busy {
        retry_after_s: RETRY_AFTER_S,
        detail: format!("{waiting} requests wait already: come back later or with fewer at once"),
    }
}

fn late(limit: Duration) -> Refused {
    Refused::Late { detail: format!("no end within {} ms; ask for less, or with fewer at once", limit.as_millis()) }
}

fn panicked() -> Refused {
    Refused::failed("the model panicked; see the server's log")
}

/// A task that is stopped when nobody waits for it any more, which is counted.
struct Stopping<T> {
    task: JoinHandle<T>,
    state: web::Data<State>,
}

impl<T: Send + 'static> Stopping<T> {
    fn spawn(state: &web::Data<State>, task: impl Future<Output = T> + Send + 'static) -> Self {
        Self { task: state.runtime.spawn(task), state: state.clone() }
    }
}

impl<T> Drop for Stopping<T> {
    fn drop(&mut self) {
        if !self.task.is_finished() {
            self.state.meter.disconnected();
            self.task.abort();
        }
    }
}
