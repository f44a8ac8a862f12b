//! What the checkers know of a run that the run does not tell about itself: which appends were acknowledged, how many
//! episodes were inside at once, which calls of models are under way, and which turns were asked more than once.

use legwork_actors::ledger::Append;
use legwork_protocol::generation::{GenerateRequest, Route};
use legwork_protocol::id::{EpisodeKey, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An append that was acknowledged, or is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The episode.
    pub episode: EpisodeKey,
    /// The machine within it.
    pub scope: Scope,
    /// Place within the scope.
    pub seq: u32,
    /// Digest of the body.
    pub body: [u8; 32],
    /// The episode ends with it.
    pub ends: bool,
}

/// A turn, by who asks whom.
type Turn = (Route, EpisodeKey, Scope, u32);

#[derive(Clone, Copy, Default)]
struct Asked {
    times: u32,
    tokens_max: u32,
}

#[derive(Default)]
struct Seen {
    acknowledged: Vec<Acknowledged>,
    inside: BTreeSet<EpisodeKey>,
    inside_most: usize,
    calls_under_way: i64,
    calls: u64,
    asked: BTreeMap<Turn, Asked>,
    asked_of_judge: u64,
}

/// The probe.
#[derive(Default)]
pub struct Probe {
    seen: Mutex<Seen>,
}

impl Probe {
    /// A probe that has seen nothing.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// An append is on its way to the ledger.
    pub fn appended(&self, append: &Append) -> Acknowledged {
        let mut seen = self.seen();
        if append.finished.is_none() {
            seen.inside.insert(append.episode.clone());
            seen.inside_most = seen.inside_most.max(seen.inside.len());
        }
        Acknowledged {
            episode: append.episode.clone(),
            scope: append.scope,
            seq: append.seq,
            body: *blake3::hash(&append.body).as_bytes(),
            ends: append.finished.is_some(),
        }
    }

    /// It was acknowledged as durable.
    pub fn acknowledged(&self, append: Acknowledged) {
        let mut seen = self.seen();
        if append.ends {
            seen.inside.remove(&append.episode);
        }
        seen.acknowledged.push(append);
    }

    /// A new life: whoever was inside is not.
    pub fn begins(&self) {
        self.seen().inside.clear();
    }

    /// A model is asked. The guard tells when the call is over, however it ends.
    pub fn asked(self: &Arc<Self>, request: &GenerateRequest) -> Call {
        let mut seen = self.seen();
        seen.calls += 1;
        seen.calls_under_way += 1;
        match &request.session {
            Some(session) => {
                let turn = (request.route, session.episode.clone(), session.scope, session.turn);
                let asked = seen.asked.entry(turn).or_default();
                asked.times += 1;
                asked.tokens_max = request.sampling.max_tokens;
            }
            None => seen.asked_of_judge += 1,
        }
        Call(Arc::clone(self))
    }

    /// All that was acknowledged, in order.
    pub fn all_acknowledged(&self) -> Vec<Acknowledged> {
        self.seen().acknowledged.clone()
    }

    /// The most episodes inside at once.
    pub fn inside_most(&self) -> usize {
        self.seen().inside_most
    }

    /// Calls of models under way.
    pub fn calls_under_way(&self) -> i64 {
        self.seen().calls_under_way
    }

    /// Calls of models so far.
    pub fn calls(&self) -> u64 {
        self.seen().calls
    }

    /// Calls beyond the first of each turn.
    pub fn asked_again(&self) -> u64 {
        self.seen().asked.values().map(|asked| u64::from(asked.times.saturating_sub(1))).sum()
    }

    /// The most new tokens that a worker's turn was given, when it was asked last.
    pub fn tokens_given(&self, episode: &EpisodeKey, scope: Scope, turn: u32) -> Option<u32> {
        let turn = (Route::Worker, episode.clone(), scope, turn);
        self.seen().asked.get(&turn).map(|asked| asked.tokens_max)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way; dropping it ends it.
pub struct Call(Arc<Probe>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.seen().calls_under_way -= 1;
    }
}
