//! A model that several engines use one after the other, and that counts what its steps take and what they must take. It
//! refuses to know engines.

use crate::work::{Ceilings, Costs};
use legwork_kernels::{Batch, DrawRules, HostBytes, Ops};
use legwork_model::{Decoder, Forward, ModelError, ModelLimits, Next};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Seconds within steps of the model.
    pub(crate) model_s: f64,
    /// Of these, in steps of single new tokens only.
    pub(crate) decode_s: f64,
    /// Seconds that steps take at least, at the ceilings.
    pub(crate) least_s: f64,
    /// Of these, in steps of single new tokens only.
    pub(crate) decode_least_s: f64,
    pub(crate) steps: usize,
    pub(crate) decode_steps: usize,
    pub(crate) rows: usize,
    /// Sequences of all steps.
    pub(crate) spans: usize,
    /// Tokens that all sequences of all steps held.
    pub(crate) context: usize,
    /// Rows whose logits came to the host.
    pub(crate) on_host: usize,
    /// Seconds of copies to and from host memory.
    pub(crate) copies_s: f64,
}

/// A model that is watched.
pub(crate) struct Watched<B: Ops> {
    model: Rc<RefCell<Decoder<B>>>,
    costs: Costs,
    ceilings: Ceilings,
    seen: Rc<RefCell<Seen>>,
}

impl<B: Ops> Watched<B> {
    pub(crate) fn new(model: &Rc<RefCell<Decoder<B>>>, costs: Costs, ceilings: Ceilings) -> Self {
        Self { model: Rc::clone(model), costs, ceilings, seen: Rc::default() }
    }

    /// What is counted, and goes on being counted.
    pub(crate) fn seen(&self) -> Rc<RefCell<Seen>> {
        Rc::clone(&self.seen)
    }

    fn count(&self, batch: &Batch, began: Instant) {
        let (seconds, least) = (began.elapsed().as_secs_f64(), self.costs.least_s(batch, self.ceilings));
        let mut seen = self.seen.borrow_mut();
        seen.model_s += seconds;
        seen.least_s += least;
        seen.steps += 1;
        seen.rows += batch.rows();
        seen.spans += batch.spans.len();
        seen.context += batch.spans.iter().map(|span| span.past + span.rows).sum::<usize>();
        if batch.spans.iter().all(|span| span.rows == 1) {
            seen.decode_s += seconds;
            seen.decode_least_s += least;
            seen.decode_steps += 1;
        }
    }
}

impl<B: Ops> Forward for Watched<B> {
    fn limits(&self) -> ModelLimits {
        self.model.borrow().limits()
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        let began = Instant::now();
        let result = self.model.borrow_mut().forward(batch, logits);
        self.count(batch, began);
        result
    }

    fn forward_and_draw(
        &mut self,
        batch: &Batch,
        rules: &[Option<DrawRules>],
        next: &mut Vec<Next>,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let began = Instant::now();
        let result = self.model.borrow_mut().forward_and_draw(batch, rules, next, logits);
        self.count(batch, began);
        self.seen.borrow_mut().on_host += next.iter().filter(|next| matches!(next, Next::Logits(_))).count();
        result
    }

    fn save_pages(&mut self, pages: &[u32]) -> Result<HostBytes, ModelError> {
        let began = Instant::now();
        let result = self.model.borrow_mut().save_pages(pages);
        self.seen.borrow_mut().copies_s += began.elapsed().as_secs_f64();
        result
    }

    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError> {
        let began = Instant::now();
        let result = self.model.borrow_mut().load_pages(pages, bytes);
        self.seen.borrow_mut().copies_s += began.elapsed().as_secs_f64();
        result
    }
}
