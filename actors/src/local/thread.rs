//! The door to one engine's own thread: bounded, open as long as the engine lives or is made anew, and with a window through
//! which others see how the engine stands. It refuses to know what is asked, and what the thread does.

mod life;

use super::maker::Make;
use super::opening::LocalError;
use super::routing::Standing;
use crate::clock::Clock;
use legwork_engine::{Drawn, Gauges, Reason, Refusal, Request, Usage};
use legwork_model::ModelLimits;
use life::Life;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc as plain};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Commands that wait at the door while a step is computed.
const DOOR_MAX: usize = 4_096;
/// While no step is computed.
const NO_STEP: u64 = u64::MAX;

/// What an asker hears.
#[derive(Debug)]
pub enum Heard {
    /// More of the answer.
    Tokens {
        /// What was drawn.
        tokens: Vec<Drawn>,
        /// Text that is certain.
        text: String,
    },
    /// The end.
    Done {
        /// Why.
        reason: Reason,
        /// What it took.
        usage: Usage,
    },
    /// It was not taken in.
    Refused(Refusal),
}

pub(super) type Speaker = mpsc::UnboundedSender<Heard>;

/// A request, and whom its answer is told.
pub(super) struct Command {
    pub(super) request: Box<Request>,
    pub(super) speaker: Speaker,
}

/// Whoever is answered counts as one who asked, however the answer ends.
struct Asker {
    speaker: Speaker,
    counted: Counted,
}

struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.asked.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The door to an engine's thread. The thread ends when the door is dropped.
pub(super) struct EngineThread {
    name: String,
    door: mpsc::Sender<(Box<Request>, Asker)>,
    shared: Arc<Shared>,
    step_max_ms: u64,
}

/// An engine that is being made for the first time.
pub(super) struct Starting {
    thread: EngineThread,
    made: plain::Receiver<Result<ModelLimits, LocalError>>,
}

/// What others may know of the engine.
struct Shared {
    seen: Mutex<Seen>,
    /// Requests that have come and not ended.
    asked: AtomicUsize,
    /// When the step that is computed began, or [`NO_STEP`].
    step_began_ms: AtomicU64,
}

struct Seen {
    gauges: Gauges,
    state: State,
    restarts: u64,
}

enum State {
    Up,
    /// It is made anew, and why.
    Making(String),
    /// It is not made again, and why.
    Dead(String),
}

impl EngineThread {
    /// Starts a thread that makes its engine; a step of more than `step_max_ms` is taken for one that hangs.
    pub(super) fn start(name: String, make: Make, step_max_ms: u64, clock: Clock) -> Result<Starting, LocalError> {
        let (door, commands) = mpsc::channel(DOOR_MAX);
        let seen = Seen { gauges: Gauges::default(), state: State::Up, restarts: 0 };
        let shared = Arc::new(Shared {
            seen: Mutex::new(seen),
            asked: AtomicUsize::new(0),
            step_began_ms: AtomicU64::new(NO_STEP),
        });
        let life = Life::new(name.clone(), make, commands, Arc::clone(&shared), clock);
        let (told, made) = plain::sync_channel(1);
        let builder = std::thread::Builder::new().name(format!("engine {name}"));
        builder.spawn(move || life.begin(&told)).map_err(|error| LocalError::Thread(error.to_string()))?;
        Ok(Starting { thread: Self { name, door, shared, step_max_ms }, made })
    }

    /// Where it computes.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Takes a request in. A command that comes back met an engine that is gone.
    pub(super) fn submit(&self, command: Command) -> Result<Result<(), Refusal>, Command> {
        let Command { request, speaker } = command;
        self.shared.asked.fetch_add(1, Ordering::Relaxed);
        let asker = Asker { speaker, counted: Counted(Arc::clone(&self.shared)) };
        match self.door.try_send((request, asker)) {
            Ok(()) => Ok(Ok(())),
            Err(TrySendError::Full(_)) => Ok(Err(Refusal::QueueFull { waiting: DOOR_MAX, waiting_max: DOOR_MAX })),
            Err(TrySendError::Closed((request, asker))) => Err(Command { request, speaker: asker.speaker.clone() }),
        }
    }

    pub(super) fn gauges(&self) -> Gauges {
        self.shared.seen().gauges
    }

    /// Times that it was made anew.
    pub(super) fn restarts(&self) -> u64 {
        self.shared.seen().restarts
    }

    /// Whether it answers, at a time.
    pub(super) fn health(&self, now_ms: u64) -> Result<(), String> {
        match &self.shared.seen().state {
            State::Dead(why) => return Err(why.clone()),
            State::Making(why) => return Err(format!("{why}; the engine is being made anew")),
            State::Up => {}
        }
        let began_ms = self.shared.step_began_ms.load(Ordering::Relaxed);
        let took_ms = now_ms.saturating_sub(began_ms);
        if began_ms != NO_STEP && took_ms > self.step_max_ms {
            let (name, most) = (&self.name, self.step_max_ms);
            return Err(format!("a step of the engine on {name} has run for {took_ms} ms, expected at most {most} ms"));
        }
        Ok(())
    }

    /// How it stands, at a time.
    pub(super) fn standing(&self, now_ms: u64) -> Standing {
        let asked = self.shared.asked.load(Ordering::Relaxed);
        let gone = self.door.is_closed() || matches!(self.shared.seen().state, State::Dead(_));
        match self.health(now_ms) {
            _ if gone => Standing::Gone,
            Ok(()) => Standing::Up { asked },
            Err(_) => Standing::Late { asked },
        }
    }
}

impl Starting {
    /// Waits for the engine.
    pub(super) fn wait(self) -> Result<(EngineThread, ModelLimits), LocalError> {
        let made =
            self.made.recv().unwrap_or_else(|_| Err(LocalError::Thread("it panicked over the model".to_owned())));
        Ok((self.thread, made?))
    }
}

impl Shared {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asker {
    /// Says its last word, to whoever no longer counts then; whoever has gone away needs none.
    fn hear_last(self, heard: Heard) {
        let Self { speaker, counted } = self;
        drop(counted);
        let _ = speaker.send(heard);
    }

    /// Says that its request is lost.
    fn fail(self, why: &str) {
        self.hear_last(Heard::Done { reason: Reason::Failed(why.to_owned()), usage: Usage::default() });
    }
}

#[cfg(test)]
mod tests;
