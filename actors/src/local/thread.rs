//! One engine's own thread: it makes the engine, takes requests from a bounded door, steps the engine while there is work, sleeps
//! while there is none, and gives each asker what is its own. An engine that panics, or whose device fails, is made anew
//! within a restart budget; those whom it served hear of it, and of whom nothing was drawn yet waits for the next engine.
//!
//! It refuses to know what is asked, and how an engine is made.

use super::gauges;
use super::maker::{Local, Make};
use super::opening::LocalError;
use super::routing::Standing;
use crate::clock::Clock;
use crate::supervision::{RestartBudget, RestartLimit};
use legwork_engine::{Drawn, Gauges, Output, Reason, Refusal, Request, RequestId, StepReport, Usage};
use legwork_model::{Forward, ModelLimits};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc as plain};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Commands that wait at the door while a step is computed.
const DOOR_MAX: usize = 4_096;
/// An engine that dies more often than this is not made again.
const RESTARTS: RestartLimit = RestartLimit { restarts_max: 5, window_ms: 600_000 };
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

/// Why an engine is made anew.
#[derive(Clone, Debug)]
enum Lost {
    Panic,
    Device(String),
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
        let life = Life {
            name: name.clone(),
            make,
            commands,
            shared: Arc::clone(&shared),
            clock,
            askers: BTreeMap::new(),
            budget: RestartBudget::new(RESTARTS),
            past: Gauges::default(),
        };
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
        let made = self.made.recv().unwrap_or_else(|_| Err(LocalError::Thread("it panicked over the model".to_owned())));
        Ok((self.thread, made?))
    }
}

impl Shared {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lost {
    /// Of a step: what became of the engine, if it can be used no more.
    fn of<E>(stepped: &Result<StepReport, E>) -> Option<Self> {
        match stepped {
            Err(_) => Some(Lost::Panic),
            Ok(report) if report.device_failed => Some(Lost::Device(report.failure.clone().unwrap_or_default())),
            Ok(_) => None,
        }
    }

    /// What those hear whose requests are lost with it.
    fn told(&self) -> String {
        match self {
            Lost::Panic => "the engine panicked; its requests are lost, ask again".to_owned(),
            Lost::Device(failure) => format!("{failure}: what the engine held is lost, ask again"),
        }
    }
}

struct Life {
    name: String,
    make: Make,
    commands: mpsc::Receiver<(Box<Request>, Asker)>,
    shared: Arc<Shared>,
    clock: Clock,
    askers: BTreeMap<RequestId, Asker>,
    budget: RestartBudget,
    /// What engines before this one have counted.
    past: Gauges,
}

impl Life {
    fn begin(mut self, told: &plain::SyncSender<Result<ModelLimits, LocalError>>) {
        match (self.make)() {
            Ok(engine) => {
                self.show(&engine);
                // Whoever waited no longer has dropped the door, which ends the life below.
                let _ = told.send(Ok(engine.model().limits()));
                self.live(engine);
            }
            Err(error) => drop(told.send(Err(error))),
        }
    }

    fn live(mut self, mut engine: Local) {
        let mut outputs = Vec::new();
        loop {
            if self.askers.is_empty() {
                let Some((request, asker)) = self.commands.blocking_recv() else { return };
                self.carry_out(&mut engine, *request, asker);
            }
            while let Ok((request, asker)) = self.commands.try_recv() {
                self.carry_out(&mut engine, *request, asker);
            }
            for (id, asker) in &self.askers {
                if asker.speaker.is_closed() {
                    engine.cancel(*id);
                }
            }
            let now_ms = self.clock.elapsed_ms();
            self.shared.step_began_ms.store(now_ms, Ordering::Relaxed);
            let stepped = catch_unwind(AssertUnwindSafe(|| engine.step(now_ms, &mut outputs)));
            self.shared.step_began_ms.store(NO_STEP, Ordering::Relaxed);
            if let Ok(report) = &stepped
                && let Some(failure) = &report.failure
            {
                tracing::error!(device = %self.name, %failure, "a step of the model failed");
            }
            if stepped.is_ok() {
                // Whoever hears an answer finds it counted.
                self.show(&engine);
            }
            let lost = Lost::of(&stepped);
            if let Some(lost) = &lost {
                // Whoever hears that it failed finds the engine being made anew.
                self.shared.seen().state = State::Making(lost.told());
            }
            for output in outputs.drain(..) {
                self.give(output);
            }
            if let Some(lost) = lost {
                let Some(next) = self.next_engine(engine, &lost) else { return };
                engine = next;
            }
        }
    }

    fn show(&self, engine: &Local) {
        self.shared.seen().gauges = gauges::sum(&self.past, &engine.gauges());
    }

    fn carry_out(&mut self, engine: &mut Local, request: Request, asker: Asker) {
        let id = request.id;
        match engine.submit(request, self.clock.elapsed_ms()) {
            Ok(()) => drop(self.askers.insert(id, asker)),
            Err(refusal) => asker.hear_last(Heard::Refused(refusal)),
        }
    }

    fn give(&mut self, output: Output) {
        match output {
            Output::Tokens { id, tokens, text } => {
                if let Some(asker) = self.askers.get(&id) {
                    let _ = asker.speaker.send(Heard::Tokens { tokens, text });
                }
            }
            Output::Done { id, reason, usage } => {
                if let Some(asker) = self.askers.remove(&id) {
                    asker.hear_last(Heard::Done { reason, usage });
                }
            }
        }
    }

    /// Buries an engine and makes the next one while the budget lasts. After a panic everybody hears of it, since the engine
    /// cannot be asked who was in the step; after the device failed those of whom nothing was drawn wait for the next engine.
    fn next_engine(&mut self, mut engine: Local, lost: &Lost) -> Option<Local> {
        let undrawn = match lost {
            Lost::Panic => Vec::new(),
            Lost::Device(_) => engine.take_undrawn(),
        };
        let mut kept: Vec<(Request, Asker)> = Vec::new();
        for request in undrawn {
            kept.extend(self.askers.remove(&request.id).map(|asker| (request, asker)));
        }
        self.past = gauges::sum(&self.past, &gauges::counted(&engine.gauges()));
        self.past.accepted = self.past.accepted.saturating_sub(kept.len() as u64);
        self.past.failed += self.askers.len() as u64;
        self.shared.seen().gauges = self.past;
        // What it holds is given back before the next one asks for as much. A device that failed may make this panic, too.
        if catch_unwind(AssertUnwindSafe(|| drop(engine))).is_err() {
            tracing::warn!(device = %self.name, "the engine panicked while it was dropped");
        }
        for (_, asker) in std::mem::take(&mut self.askers) {
            asker.fail(&lost.told());
        }
        match self.make_anew(lost) {
            Ok(mut engine) => {
                for (request, asker) in kept {
                    self.carry_out(&mut engine, request, asker);
                }
                self.show(&engine);
                Some(engine)
            }
            Err(dead) => {
                self.die(kept, dead);
                None
            }
        }
    }

    /// Tries again as long as the budget lasts; each try takes from it.
    fn make_anew(&mut self, lost: &Lost) -> Result<Local, String> {
        let mut last = lost.told();
        while self.budget.take(self.clock.elapsed_ms()) {
            match catch_unwind(AssertUnwindSafe(&mut self.make)) {
                Ok(Ok(engine)) => {
                    let mut seen = self.shared.seen();
                    seen.state = State::Up;
                    seen.restarts += 1;
                    tracing::warn!(device = %self.name, after = %lost.told(), "the engine was made anew");
                    return Ok(engine);
                }
                Ok(Err(error)) => last = format!("the engine could not be made anew: {error}"),
                Err(_) => last = "the engine panicked while it was made anew".to_owned(),
            }
            tracing::error!(device = %self.name, why = %last, "the engine is not there");
        }
        let RestartLimit { restarts_max, window_ms } = RESTARTS;
        let name = &self.name;
        Err(format!("the engine on {name} died more than {restarts_max} times in {window_ms} ms, last of: {last}"))
    }

    /// The end for good: whoever still waits hears why, and nobody is let in any more.
    fn die(&mut self, kept: Vec<(Request, Asker)>, dead: String) {
        tracing::error!(device = %self.name, %dead, "the engine is gone");
        self.shared.seen().state = State::Dead(dead.clone());
        self.commands.close();
        for (_, asker) in kept {
            asker.fail(&dead);
        }
        while let Ok((_, asker)) = self.commands.try_recv() {
            asker.fail(&dead);
        }
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
