//! The engines behind one model: each on its own thread and device, with weights of its own. It sends requests to them by their
//! sessions and their load, and adds up what they count. It refuses to know where they compute.

use super::gauges;
use super::maker::Make;
use super::opening::LocalError;
use super::routing::{Routing, Standing};
use super::thread::{Command, EngineThread, Speaker, Starting};
use crate::clock::Clock;
use legwork_engine::{Gauges, Refusal, Request};
use legwork_model::ModelLimits;
use std::sync::{Mutex, PoisonError};

/// Engines.
pub(super) struct Replicas {
    threads: Vec<EngineThread>,
    routing: Mutex<Routing>,
    clock: Clock,
}

/// One of the engines behind a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// Where it computes.
    pub device: String,
    /// Where it stands.
    pub gauges: Gauges,
    /// Times that it was made anew.
    pub restarts: u64,
    /// Why it does not answer now, if it does not.
    pub trouble: Option<String>,
}

impl Replicas {
    /// Makes all engines, each on its thread, at the same time. Gives what bounds every one of them.
    pub(super) fn start(
        makers: Vec<(String, Make)>,
        step_max_ms: u64,
        clock: Clock,
    ) -> Result<(Self, ModelLimits), LocalError> {
        let start = |(name, make)| EngineThread::start(name, make, step_max_ms, clock);
        let starting: Vec<Starting> = makers.into_iter().map(start).collect::<Result<_, _>>()?;
        let started: Vec<(EngineThread, ModelLimits)> =
            starting.into_iter().map(Starting::wait).collect::<Result<_, _>>()?;
        let (threads, all): (Vec<_>, Vec<_>) = started.into_iter().unzip();
        let least = |one: ModelLimits, other: ModelLimits| ModelLimits {
            context: one.context.min(other.context),
            pages: one.pages.min(other.pages),
            ..one
        };
        let limits =
            all.into_iter().reduce(least).ok_or_else(|| LocalError::Thread("no device was named".to_owned()))?;
        Ok((Self { routing: Mutex::new(Routing::new(threads.len())), threads, clock }, limits))
    }

    /// Gives a request to a replica. Where all are gone the speaker is dropped: the asker hears the end without a word, since
    /// asking again is of no use.
    pub(super) fn submit(&self, request: Request, speaker: Speaker) -> Result<(), Refusal> {
        let now_ms = self.clock.elapsed_ms();
        let session = request.session;
        let mut command = Command { request: Box::new(request), speaker };
        let mut routing = self.routing.lock().unwrap_or_else(PoisonError::into_inner);
        // A replica that dies in between gives its command back, and stands as gone the next time.
        loop {
            let standings: Vec<Standing> = self.threads.iter().map(|thread| thread.standing(now_ms)).collect();
            let Some(replica) = routing.choose(session, &standings) else { return Ok(()) };
            match self.threads[replica].submit(command) {
                Ok(taken) => return taken,
                Err(back) => command = back,
            }
        }
    }

    /// All of them as one.
    pub(super) fn gauges(&self) -> Gauges {
        self.threads.iter().map(EngineThread::gauges).fold(Gauges::default(), |all, one| gauges::sum(&all, &one))
    }

    /// Each of them.
    pub(super) fn each(&self) -> Vec<Replica> {
        let now_ms = self.clock.elapsed_ms();
        let of = |thread: &EngineThread| Replica {
            device: thread.name().to_owned(),
            gauges: thread.gauges(),
            restarts: thread.restarts(),
            trouble: thread.health(now_ms).err(),
        };
        self.threads.iter().map(of).collect()
    }

    /// Whether any of them answers.
    pub(super) fn health(&self) -> Result<(), String> {
        self.health_at(self.clock.elapsed_ms())
    }

    fn health_at(&self, now_ms: u64) -> Result<(), String> {
        let told: Vec<Result<(), String>> = self.threads.iter().map(|thread| thread.health(now_ms)).collect();
        if told.iter().any(Result::is_ok) {
            return Ok(());
        }
        let why: Vec<String> = told.into_iter().filter_map(Result::err).collect();
        Err(why.join("; "))
    }
}

#[cfg(test)]
mod tests;
