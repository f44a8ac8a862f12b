//! What can be saved of an engine whose device has failed: requests of which nothing was drawn yet are as good as new, and
//! another engine can take them in. It refuses to know why it failed.

use super::Engine;
use crate::request::Request;
use crate::sequence::Sequence;
use legwork_model::Forward;
use std::collections::VecDeque;

impl<M: Forward> Engine<M> {
    /// Takes out the requests of which nothing has been drawn, as they were submitted, those first that came first. They get no
    /// end here; whoever makes an engine anew gives them to it. Only the host's side is touched, so that it may be called after
    /// the device has failed.
    pub fn take_undrawn(&mut self) -> Vec<Request> {
        let mut undrawn: Vec<Sequence> = self.running.extract_if(.., |sequence| sequence.drawn() == 0).collect();
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (unbegun, begun): (VecDeque<Sequence>, _) = waiting.partition(|sequence| sequence.drawn() == 0);
        self.waiting = begun;
        undrawn.extend(unbegun);
        undrawn
            .into_iter()
            .map(|sequence| {
                self.memory.let_go(&sequence.pages);
                self.alive.remove(&sequence.id);
                let Sequence { id, tokens: prompt, sampling, deadline_ms, session, .. } = sequence;
                Request { id, prompt, sampling, deadline_ms, session }
            })
            .collect()
    }
}
