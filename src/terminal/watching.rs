//! The loop behind a watched run: it asks the board, passes requests on to the run and lets a screen show the rest.
//! A board that is slow or gone costs a number on the screen, a screen that is gone costs the view, never the run.

use super::rates::{Pace, Rates};
use super::screen::{Screen, Silent};
use super::stopping::{Request, Stopping, TERMINATED_GRACE};
use super::view::View;
use super::{LOOK_LOST_AFTER, WatchOptions};
use legwork_actors::address::Address;
use legwork_actors::board::{BoardMsg, Snapshot};
use legwork_actors::run::{RunEnd, RunMsg};
use legwork_protocol::failure::{Failure, FailureKind};
use ractor::ActorRef;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};

/// When nothing is shown the loop wakes this seldom, only to be the same loop.
const SILENT_EVERY: Duration = Duration::from_secs(3_600);
/// The last look, after the run is over: the board may have left with it.
const LAST_LOOK_LOST_AFTER: Duration = Duration::from_millis(200);

/// All that watching takes.
pub(crate) struct Watching {
    pub(crate) board: Address<BoardMsg>,
    pub(crate) run: ActorRef<RunMsg>,
    pub(crate) over: oneshot::Receiver<RunEnd>,
    pub(crate) options: WatchOptions,
    pub(crate) signals: mpsc::Receiver<Request>,
    pub(crate) screen: Box<dyn Screen>,
}

/// A look that is under way.
type Look = Pin<Box<dyn Future<Output = Result<Snapshot, Failure>> + Send>>;

/// Watches until the run is over or nobody waits for it any more.
pub(crate) async fn attend(watching: Watching) -> RunEnd {
    let Watching { board, run, mut over, options, mut signals, screen } = watching;
    let mut seen = Seen::new(options, screen);
    seen.on_screen(|screen, view| screen.begin(view));
    let mut ticks = tokio::time::interval(seen.screen.every().unwrap_or(SILENT_EVERY));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut look: Option<Look> = None;
    let end = loop {
        tokio::select! {
            biased;
            end = &mut over => break end.unwrap_or_else(|_| lost()),
            Some(request) = signals.recv() => seen.asked(&run, request),
            () = reached(seen.patience_until) => seen.asked(&run, Request::Terminate),
            answer = answered(&mut look) => {
                look = None;
                seen.news(answer);
            }
            _ = ticks.tick() => {
                seen.asked_by_key(&run);
                if look.is_none() && seen.screen.every().is_some() {
                    look = Some(Box::pin(board.ask(LOOK_LOST_AFTER, BoardMsg::Look)));
                }
            }
        }
        if seen.stopping == Stopping::GivenUp {
            break given_up();
        }
    };
    let mut is_news = false;
    if seen.screen.every().is_some()
        && let Ok(snapshot) = board.ask(LAST_LOOK_LOST_AFTER, BoardMsg::Look).await
    {
        seen.take(snapshot);
        is_news = true;
    }
    seen.on_screen(|screen, view| screen.end(view, &end, is_news));
    end
}

/// What has been seen so far, and where it is shown.
struct Seen {
    options: WatchOptions,
    screen: Box<dyn Screen>,
    snapshot: Snapshot,
    pace: Pace,
    rates: Rates,
    stopping: Stopping,
    /// When a run that drains because of SIGTERM is stopped.
    patience_until: Option<Instant>,
    news_at: Instant,
}

impl Seen {
    fn new(options: WatchOptions, screen: Box<dyn Screen>) -> Self {
        Self {
            options,
            screen,
            snapshot: Snapshot::default(),
            pace: Pace::default(),
            rates: Rates::default(),
            stopping: Stopping::No,
            patience_until: None,
            news_at: Instant::now(),
        }
    }

    fn take(&mut self, snapshot: Snapshot) {
        self.rates = self.pace.take(&snapshot);
        self.snapshot = snapshot;
        self.news_at = Instant::now();
    }

    fn news(&mut self, answer: Result<Snapshot, Failure>) {
        let is_news = answer.is_ok();
        if let Ok(snapshot) = answer {
            self.take(snapshot);
        }
        self.on_screen(|screen, view| screen.show(view, is_news));
    }

    fn asked_by_key(&mut self, run: &ActorRef<RunMsg>) {
        match self.screen.requests() {
            Ok(requests) => (0..requests).for_each(|_| self.asked(run, Request::Interrupt)),
            Err(error) => self.screen_failed(&error),
        }
    }

    fn asked(&mut self, run: &ActorRef<RunMsg>, request: Request) {
        self.stopping = self.stopping.next();
        let is_drained_for_the_system = (self.stopping, request) == (Stopping::Draining, Request::Terminate);
        self.patience_until = is_drained_for_the_system.then(|| Instant::now() + TERMINATED_GRACE);
        let message = match self.stopping {
            Stopping::Draining => Some(RunMsg::Drain),
            Stopping::AtOnce => Some(RunMsg::Stop),
            Stopping::No | Stopping::GivenUp => None,
        };
        if let Some(message) = message {
            // A run that is gone has paid `over` already, or never will, and the loop hears of both.
            let _run_is_over = run.cast(message);
        }
        let says = self.stopping.says_to(request);
        self.on_screen(|screen, view| screen.say(says).and_then(|()| screen.show(view, false)));
    }

    fn on_screen(&mut self, show: impl FnOnce(&mut dyn Screen, &View<'_>) -> io::Result<()>) {
        let view = View {
            snapshot: &self.snapshot,
            rates: &self.rates,
            options: &self.options,
            stopping: self.stopping,
            silent_ms: u64::try_from(self.news_at.elapsed().as_millis()).unwrap_or(u64::MAX),
            logs: super::logs::last(super::view::LOG_LINES_MAX),
        };
        if let Err(error) = show(self.screen.as_mut(), &view) {
            self.screen_failed(&error);
        }
    }

    /// A terminal that was closed is no reason to end a run of hours.
    fn screen_failed(&mut self, error: &io::Error) {
        self.screen = Box::new(Silent);
        tracing::warn!(%error, "the terminal is gone: the run goes on unwatched");
    }
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn answered(look: &mut Option<Look>) -> Result<Snapshot, Failure> {
    match look {
        Some(look) => look.await,
        None => std::future::pending().await,
    }
}

fn lost() -> RunEnd {
    let detail = "expected the run to say how it ended, got nothing: its actor is dead; resume the run, \
                  what was acknowledged is in its ledger";
    RunEnd::Failed(Failure::new(FailureKind::ActorDied, detail))
}

fn given_up() -> RunEnd {
    let detail = "left at the third request without waiting for the ledger to close; resume the run, \
                  what was acknowledged is in its ledger";
    RunEnd::Failed(Failure::new(FailureKind::Cancelled, detail))
}

#[cfg(test)]
mod tests;
