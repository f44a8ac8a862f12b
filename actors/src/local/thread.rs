//! The engine's own thread: it takes requests from a bounded door, steps the engine while there is work, sleeps while there
//! is none, and gives each asker what is its own. An engine that panics is made anew from its files within a restart budget;
//! those whom it served hear of it.
//!
//! It refuses to know what is asked.

use super::opening::{self, LocalError, LocalSettings};
use crate::clock::Clock;
use crate::supervision::{RestartBudget, RestartLimit};
use legwork_engine::{Decode, Drawn, Engine, Gauges, Output, Reason, Refusal, Request, RequestId, Speech, Usage};
use legwork_kernels::Cpu;
use legwork_model::{Decoder, DecoderSettings, Forward, ModelFiles, ModelLimits, StreamDecoder, Tokenizer};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Commands that wait at the door while a step is computed.
const DOOR_MAX: usize = 4_096;
/// An engine that dies more often than this is not made again.
const RESTARTS: RestartLimit = RestartLimit { restarts_max: 5, window_ms: 600_000 };

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

type Speaker = mpsc::UnboundedSender<Heard>;

/// A request, and whom its answer is told.
struct Command(Box<Request>, Speaker);

/// The door to an engine's thread. The thread ends when the door is dropped.
pub(super) struct EngineThread {
    door: mpsc::Sender<Command>,
    seen: Arc<Mutex<Seen>>,
}

/// What others may know of the engine.
#[derive(Default)]
struct Seen {
    gauges: Gauges,
    dead: Option<String>,
}

type Local = Engine<Decoder<Cpu>>;

impl EngineThread {
    pub(super) fn start(
        path: &Path,
        settings: &LocalSettings,
        tokenizer: &Tokenizer,
        clock: Clock,
    ) -> Result<(Self, ModelLimits), LocalError> {
        let maker = Maker { path: path.to_path_buf(), settings: settings.clone(), tokenizer: tokenizer.clone() };
        let engine = maker.make()?;
        let limits = engine.model().limits();
        let (door, commands) = mpsc::channel(DOOR_MAX);
        let seen = Arc::new(Mutex::new(Seen { gauges: engine.gauges(), dead: None }));
        let life = Life {
            maker,
            commands,
            seen: Arc::clone(&seen),
            clock,
            speakers: BTreeMap::new(),
            budget: RestartBudget::new(RESTARTS),
        };
        let builder = std::thread::Builder::new().name("engine".to_owned());
        builder.spawn(move || life.live(engine)).map_err(|error| LocalError::Thread(error.to_string()))?;
        Ok((Self { door, seen }, limits))
    }

    pub(super) fn submit(&self, request: Request, speaker: Speaker) -> Result<(), Refusal> {
        match self.door.try_send(Command(Box::new(request), speaker)) {
            Err(TrySendError::Full(_)) => Err(Refusal::QueueFull { waiting: DOOR_MAX, waiting_max: DOOR_MAX }),
            // The speaker went with the command: the asker hears the end without a word, since asking again is of no use.
            Ok(()) | Err(TrySendError::Closed(_)) => Ok(()),
        }
    }

    pub(super) fn gauges(&self) -> Gauges {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).gauges
    }

    pub(super) fn health(&self) -> Result<(), String> {
        match &self.seen.lock().unwrap_or_else(PoisonError::into_inner).dead {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }
}

/// Makes the engine from its files, the first time and after a death.
struct Maker {
    path: PathBuf,
    settings: LocalSettings,
    tokenizer: Tokenizer,
}

impl Maker {
    fn make(&self) -> Result<Local, LocalError> {
        let mut files = ModelFiles::open(&self.path)?;
        let config = files.decoder()?.clone();
        let settings = DecoderSettings {
            pages: opening::pages(&config, &self.settings)?,
            rows_max: self.settings.step_rows,
            context_max: self.settings.context,
        };
        let model = Decoder::load(Cpu::new(), &config, &mut files.weights, settings)?;
        let speech: Arc<dyn Speech> = Arc::new(Spoken(self.tokenizer.clone()));
        Ok(Engine::new(model, Some(speech), opening::engine_limits(&self.settings))?)
    }
}

struct Life {
    maker: Maker,
    commands: mpsc::Receiver<Command>,
    seen: Arc<Mutex<Seen>>,
    clock: Clock,
    speakers: BTreeMap<RequestId, Speaker>,
    budget: RestartBudget,
}

impl Life {
    fn live(mut self, mut engine: Local) {
        let mut outputs = Vec::new();
        loop {
            if self.speakers.is_empty() {
                let Some(command) = self.commands.blocking_recv() else { return };
                self.carry_out(&mut engine, command);
            }
            while let Ok(command) = self.commands.try_recv() {
                self.carry_out(&mut engine, command);
            }
            for (id, speaker) in &self.speakers {
                if speaker.is_closed() {
                    engine.cancel(*id);
                }
            }
            let now_ms = self.clock.elapsed_ms();
            let stepped = catch_unwind(AssertUnwindSafe(|| engine.step(now_ms, &mut outputs)));
            if let Ok(report) = &stepped
                && let Some(failure) = &report.failure
            {
                tracing::error!(%failure, "a step of the model failed");
            }
            if stepped.is_ok() {
                // Whoever hears an answer finds it counted.
                self.show(&engine);
            }
            for output in outputs.drain(..) {
                self.give(output);
            }
            if stepped.is_err() {
                let Some(next) = self.next_engine() else { return };
                engine = next;
                self.show(&engine);
            }
        }
    }

    fn show(&self, engine: &Local) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).gauges = engine.gauges();
    }

    fn carry_out(&mut self, engine: &mut Local, Command(request, speaker): Command) {
        let id = request.id;
        match engine.submit(*request, self.clock.elapsed_ms()) {
            Ok(()) => {
                self.speakers.insert(id, speaker);
            }
            // Whoever has gone away needs no word.
            Err(refusal) => drop(speaker.send(Heard::Refused(refusal))),
        }
    }

    fn give(&mut self, output: Output) {
        match output {
            Output::Tokens { id, tokens, text } => {
                if let Some(speaker) = self.speakers.get(&id) {
                    let _ = speaker.send(Heard::Tokens { tokens, text });
                }
            }
            Output::Done { id, reason, usage } => {
                if let Some(speaker) = self.speakers.remove(&id) {
                    let _ = speaker.send(Heard::Done { reason, usage });
                }
            }
        }
    }

    /// After a panic: everybody hears of it, and the engine is made anew while the budget lasts.
    fn next_engine(&mut self) -> Option<Local> {
        let why = "the engine panicked; its requests are lost, ask again";
        for (_, speaker) in std::mem::take(&mut self.speakers) {
            let _ = speaker.send(Heard::Done { reason: Reason::Failed(why.to_owned()), usage: Usage::default() });
        }
        let dead = match self.budget.take(self.clock.elapsed_ms()) {
            false => format!("the engine died more than {} times in {} ms", RESTARTS.restarts_max, RESTARTS.window_ms),
            true => match catch_unwind(AssertUnwindSafe(|| self.maker.make())) {
                Ok(Ok(engine)) => {
                    tracing::warn!("the engine panicked and was made anew");
                    return Some(engine);
                }
                Ok(Err(error)) => format!("the engine could not be made anew: {error}"),
                Err(_) => "the engine panicked while it was made anew".to_owned(),
            },
        };
        tracing::error!(%dead, "the engine is gone");
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).dead = Some(dead);
        None
    }
}

/// The tokenizer as the engine hears it: control tokens are no text.
struct Spoken(Tokenizer);

struct Hearing {
    decoder: Option<StreamDecoder>,
}

impl Speech for Spoken {
    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(Hearing { decoder: Some(self.0.stream(true)) })
    }
}

impl Decode for Hearing {
    fn push(&mut self, id: u32) -> String {
        // An id that the tokenizer does not know (padding rows of a vocabulary) has no text.
        self.decoder.as_mut().and_then(|decoder| decoder.push(id).ok()).unwrap_or_default()
    }

    fn finish(&mut self) -> String {
        self.decoder.take().map(StreamDecoder::finish).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_engine::Sampling;

    #[tokio::test]
    async fn of_an_engine_that_is_gone_nothing_is_heard_and_of_a_crowded_door_that_it_is() {
        let request = || {
            let sampling = Sampling::default();
            Request { id: RequestId(0), prompt: vec![1], sampling, deadline_ms: None, session: None }
        };
        let (door, commands) = mpsc::channel(1);
        let thread = EngineThread { door, seen: Arc::default() };
        let (speaker, _heard) = mpsc::unbounded_channel();
        assert_eq!(thread.submit(request(), speaker.clone()), Ok(()));
        assert!(matches!(thread.submit(request(), speaker), Err(Refusal::QueueFull { .. })));
        drop(commands);
        let (speaker, mut heard) = mpsc::unbounded_channel();
        assert_eq!(thread.submit(request(), speaker), Ok(()));
        assert!(heard.recv().await.is_none());
    }
}
