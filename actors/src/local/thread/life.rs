//! What one engine's thread does: it makes the engine, takes requests from the door, steps the engine while there is work, sleeps
//! while there is none, and gives each asker what is its own. An engine that panics, or whose device fails, is made anew
//! within a restart budget; those whom it served hear of it, and of whom nothing was drawn yet waits for the next engine.
//!
//! It refuses to know how an engine is made, and who looks at it.

use super::{Asker, Heard, NO_STEP, Shared, State};
use crate::clock::Clock;
use crate::local::gauges;
use crate::local::maker::{Local, Make};
use crate::local::opening::LocalError;
use crate::supervision::{RestartBudget, RestartLimit};
use legwork_engine::{Gauges, Output, Request, RequestId, StepReport};
use legwork_model::{Forward, ModelLimits};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use tokio::sync::mpsc;

/// An engine that dies more often than this is not made again.
pub(super) const RESTARTS: RestartLimit = RestartLimit { restarts_max: 5, window_ms: 600_000 };

/// All that the thread has.
pub(super) struct Life {
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
    /// A life that has not begun.
    pub(super) fn new(
        name: String,
        make: Make,
        commands: mpsc::Receiver<(Box<Request>, Asker)>,
        shared: Arc<Shared>,
        clock: Clock,
    ) -> Self {
        let (budget, past) = (RestartBudget::new(RESTARTS), Gauges::default());
        Self { name, make, commands, shared, clock, askers: BTreeMap::new(), budget, past }
    }

    /// Makes the engine, says what bounds it, and serves until nobody can ask any more or the engine is gone for good.
    pub(super) fn begin(mut self, told: &SyncSender<Result<ModelLimits, LocalError>>) {
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

/// Why an engine is made anew.
#[derive(Clone, Debug)]
enum Lost {
    Panic,
    Device(String),
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
            Lost::Device(failure) => {
                format!("the engine's device failed and its requests are lost, ask again; it said: {failure}")
            }
        }
    }
}
