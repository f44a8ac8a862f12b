//! The engine as its owner sees it: requests go in, each step gives out tokens, text and ends. It refuses to know how a
//! step is filled ([`plan`]) and what is done with its logits ([`compute`]).

mod compute;
mod plan;
mod recover;

use crate::error::{EngineError, Refusal};
use crate::gauges::{Gauges, StepReport};
use crate::limits::EngineLimits;
use crate::memory::Memory;
use crate::request::{Drawn, Output, Reason, Request, RequestId, SessionId};
use crate::sampler::Scratch;
use crate::sequence::{Sequence, pages_of};
use crate::speech::Speech;
use legwork_kernels::{Batch, DrawRules};
use legwork_model::{Forward, ModelLimits, Next};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Requests that share one model.
pub struct Engine<M> {
    model: M,
    model_limits: ModelLimits,
    limits: EngineLimits,
    /// Rows of a step at most.
    rows_max: usize,
    speech: Option<Arc<dyn Speech>>,
    memory: Memory,
    alive: BTreeSet<RequestId>,
    waiting: VecDeque<Sequence>,
    /// Those that run, in the order in which they began.
    running: Vec<Sequence>,
    /// Rows of each that runs in the coming step.
    rows: Vec<usize>,
    batch: Batch,
    /// How each wanted row is drawn from, where the model may do it.
    rules: Vec<Option<DrawRules>>,
    /// What became of each wanted row.
    next: Vec<Next>,
    /// Of the rows that the model did not draw from.
    logits: Vec<f32>,
    scratch: Scratch,
    /// What happened between steps, for the next one to give out.
    owed: Vec<Output>,
    counted: Gauges,
}

impl<M: Forward> Engine<M> {
    /// An engine with nothing to do. Without `speech` it gives out tokens and no text.
    ///
    /// # Errors
    /// Limits that do not go with the model's.
    pub fn new(model: M, speech: Option<Arc<dyn Speech>>, limits: EngineLimits) -> Result<Self, EngineError> {
        let model_limits = model.limits();
        let rows_max = limits.rows_with(&model_limits)?;
        Ok(Self {
            model,
            model_limits,
            rows_max,
            speech,
            memory: Memory::new(model_limits.pages, &limits),
            limits,
            alive: BTreeSet::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            rows: Vec::new(),
            batch: Batch::default(),
            rules: Vec::new(),
            next: Vec::new(),
            logits: Vec::new(),
            scratch: Scratch::default(),
            owed: Vec::new(),
            counted: Gauges::default(),
        })
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Takes a request in; it begins within a later step, in the order of submission.
    ///
    /// # Errors
    /// Why not, with the numbers; [`Refusal::is_busy`] tells whether another time may do.
    pub fn submit(&mut self, request: Request, now_ms: u64) -> Result<(), Refusal> {
        if let Err(refusal) = self.may_enter(&request, now_ms) {
            self.counted.refused += 1;
            return Err(refusal);
        }
        self.counted.accepted += 1;
        self.alive.insert(request.id);
        self.waiting.push_back(Sequence::new(request, self.speech.as_deref()));
        Ok(())
    }

    /// Ends a request now: its pages are free when this returns, and the next step gives out its end. Nothing happens when
    /// it has ended already.
    pub fn cancel(&mut self, id: RequestId) {
        let waiting = self.waiting.iter().position(|sequence| sequence.id == id);
        let sequence = match waiting {
            Some(at) => self.waiting.remove(at),
            None => self.running.iter().position(|sequence| sequence.id == id).map(|at| self.running.remove(at)),
        };
        if let Some(sequence) = sequence {
            let mut owed = std::mem::take(&mut self.owed);
            self.end(sequence, Reason::Cancelled, &mut owed);
            self.owed = owed;
        }
    }

    /// A session will not come back: nothing is kept for it any more. Its pages stay cached until their room is needed.
    pub fn release_session(&mut self, session: SessionId) {
        self.memory.release(session);
    }

    /// The model's weights have changed: nothing computed before may be used. Those that run go back to the queue, keep what
    /// they have drawn and go on from there.
    pub fn forget_computed(&mut self) {
        while self.set_back_youngest() {}
        self.memory.forget_all();
    }

    /// Does one step: ends what is past its deadline, begins what fits, computes one batch, draws, and gives out what became
    /// of it. It never fails as a whole: what cannot be computed ends as [`Reason::Failed`], and the report says why.
    pub fn step(&mut self, now_ms: u64, out: &mut Vec<Output>) -> StepReport {
        let before = out.len();
        out.append(&mut self.owed);
        self.expire(now_ms, out);
        let mut report = StepReport { admitted: self.admit(), ..StepReport::default() };
        self.plan(&mut report);
        if !self.batch.ids.is_empty() {
            self.compute(out, &mut report);
        }
        report.ended = out[before..].iter().filter(|output| matches!(output, Output::Done { .. })).count();
        (report.waiting, report.running) = (self.waiting.len(), self.running.len());
        report
    }

    /// Where things stand.
    pub fn gauges(&self) -> Gauges {
        let mut gauges = Gauges { waiting: self.waiting.len(), running: self.running.len(), ..self.counted };
        self.memory.tell(&mut gauges);
        gauges
    }

    /// Counts all pages anew, from what each request holds and each session keeps, and compares with what is kept of them.
    /// It takes time in the number of pages; soaks and tests call it after each step.
    ///
    /// # Errors
    /// What does not match: a fault of this crate.
    pub fn audit(&self) -> Result<(), String> {
        let held: Vec<&[u32]> = self.running.iter().map(|sequence| sequence.pages.as_slice()).collect();
        self.memory.audit(&held)?;
        match self.waiting.iter().find(|sequence| !sequence.pages.is_empty()) {
            Some(sequence) => Err(format!("{:?} waits and holds pages {:?}", sequence.id, sequence.pages)),
            None if self.alive.len() != self.waiting.len() + self.running.len() => {
                Err(format!("{} ids live, {} wait, {} run", self.alive.len(), self.waiting.len(), self.running.len()))
            }
            None => Ok(()),
        }
    }

    fn may_enter(&self, request: &Request, now_ms: u64) -> Result<(), Refusal> {
        let ModelLimits { vocabulary, context, .. } = self.model_limits;
        let Request { id, prompt, sampling, deadline_ms, .. } = request;
        if self.alive.contains(id) {
            return Err(Refusal::Duplicate(*id));
        }
        sampling.check(vocabulary)?;
        if !sampling.stop.is_empty() && self.speech.is_none() {
            return Err(Refusal::NoSpeech);
        }
        if prompt.is_empty() {
            return Err(Refusal::EmptyPrompt);
        }
        let (prompt_tokens, max_new) = (prompt.len(), sampling.max_new);
        if prompt_tokens.saturating_add(max_new) > context.saturating_add(1) {
            return Err(Refusal::TooLong { prompt: prompt_tokens, max_new, context });
        }
        let needed = pages_of(prompt_tokens + max_new - 1);
        if needed > self.memory.total() {
            return Err(Refusal::NeverFits { needed, pages: self.memory.total() });
        }
        if let Some(position) = prompt.iter().position(|id| *id as usize >= vocabulary) {
            return Err(Refusal::UnknownToken { id: prompt[position], position, vocabulary });
        }
        if let Some(deadline_ms) = deadline_ms.filter(|deadline| *deadline <= now_ms) {
            return Err(Refusal::DeadlinePassed { deadline_ms, now_ms });
        }
        let (waiting, waiting_max) = (self.waiting.len(), self.limits.waiting_max);
        if waiting >= waiting_max { Err(Refusal::QueueFull { waiting, waiting_max }) } else { Ok(()) }
    }

    /// Ends all whose time is over.
    fn expire(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let is_over = |sequence: &Sequence| sequence.deadline_ms.is_some_and(|deadline| deadline <= now_ms);
        let mut over: Vec<Sequence> = self.running.extract_if(.., |sequence| is_over(sequence)).collect();
        if self.waiting.iter().any(is_over) {
            let waiting = std::mem::take(&mut self.waiting);
            let (late, in_time): (VecDeque<_>, _) = waiting.into_iter().partition(is_over);
            self.waiting = in_time;
            over.extend(late);
        }
        for sequence in over {
            self.end(sequence, Reason::Deadline, out);
        }
    }

    /// The end of a request that neither waits nor runs any more: says it, and lets go of everything.
    fn end(&mut self, mut sequence: Sequence, reason: Reason, out: &mut Vec<Output>) {
        let (text, reason) = sequence.finish(reason);
        say(out, sequence.id, None, text);
        let is_turn = matches!(reason, Reason::Stop(_) | Reason::StopString(_) | Reason::Length);
        if let (true, Some(session)) = (is_turn, sequence.session) {
            self.memory.keep(session, &sequence.pages, &mut self.model);
        }
        self.memory.let_go(&sequence.pages);
        self.alive.remove(&sequence.id);
        match reason {
            Reason::Stop(_) | Reason::StopString(_) | Reason::Length => self.counted.finished += 1,
            Reason::Cancelled => self.counted.cancelled += 1,
            Reason::Deadline => self.counted.expired += 1,
            Reason::Failed(_) => self.counted.failed += 1,
        }
        out.push(Output::Done { id: sequence.id, reason, usage: sequence.usage() });
    }

    /// The request that began last goes back to the head of the queue without its pages; false when none runs.
    fn set_back_youngest(&mut self) -> bool {
        let Some(sequence) = self.running.pop() else { return false };
        self.set_back(sequence);
        true
    }

    fn set_back(&mut self, mut sequence: Sequence) {
        self.memory.let_go(&sequence.set_back());
        self.counted.preemptions += 1;
        self.waiting.push_front(sequence);
    }
}

/// Gives out a token, text, or both, together with what was given out just before.
fn say(out: &mut Vec<Output>, id: RequestId, drawn: Option<Drawn>, more: String) {
    if drawn.is_none() && more.is_empty() {
        return;
    }
    match out.last_mut() {
        Some(Output::Tokens { id: last, tokens, text }) if *last == id => {
            tokens.extend(drawn);
            text.push_str(&more);
        }
        _ => out.push(Output::Tokens { id, tokens: drawn.into_iter().collect(), text: more }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An owner makes it on one thread and steps it on another.
    #[test]
    fn an_engine_moves_between_threads_if_its_model_does() {
        fn moves<T: Send>() {}
        moves::<Engine<()>>();
    }
}
