//! Carries what models say to whoever asked: as one body, or as server-sent events while it is said. A client that leaves,
//! an abort and the end of the time all drop the models' answers; each has its own end.
//!
//! It refuses to know how an answer is written: a [`Form`] does that.

mod carrier;

use super::door::Full;
use super::model::{ChatAsk, Said, TextAsk, TextModel};
use super::refused::Refused;
use super::routes::State;
use actix_web::HttpResponse;
use actix_web::web::{self, Bytes};
use carrier::Carrier;
use futures::stream;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Events that wait for a slow client at most; a model that is ahead of them waits too.
const EVENTS_MAX: usize = 64;
/// After how long whoever found the queue full may come back, in seconds.
const RETRY_AFTER_S: u32 = 1;

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
