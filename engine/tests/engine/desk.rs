//! Who steps an engine and checks it: after each step that every page is accounted for and outputs make sense, and at the
//! end that each request gave exactly what it must, as computed without an engine.

use crate::paper::{Bytes, Kind, Paper, Sight, byte};
use legwork_engine::{
    Engine, EngineLimits, Output, Reason, Refusal, Request, RequestId, Sampling, Scratch, Seen, SessionId, StepReport,
    Usage, sample,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Desk {
    pub(crate) engine: Engine<Paper>,
    pub(crate) paper: Paper,
    pub(crate) now_ms: u64,
    pub(crate) asked: BTreeMap<RequestId, Request>,
    pub(crate) got: BTreeMap<RequestId, Got>,
    out: Vec<Output>,
}

/// What a request gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Got {
    pub(crate) tokens: Vec<u32>,
    pub(crate) text: String,
    pub(crate) done: Option<(Reason, Usage)>,
}

/// A prompt and greedy drawing of so many tokens.
pub(crate) fn ask(id: u64, prompt: Vec<u32>, max_new: usize) -> Request {
    let sampling = Sampling { max_new, temperature: 0.0, ..Sampling::default() };
    Request { id: RequestId(id), prompt, sampling, deadline_ms: None, session: None }
}

/// The same within a session.
pub(crate) fn ask_in(session: u128, id: u64, prompt: Vec<u32>, max_new: usize) -> Request {
    Request { session: Some(SessionId(session)), ..ask(id, prompt, max_new) }
}

pub(crate) fn limits() -> EngineLimits {
    EngineLimits { running_max: 8, step_rows: 128, ..EngineLimits::default() }
}

impl Desk {
    pub(crate) fn new(pages: usize, limits: EngineLimits) -> Self {
        Self::of(Paper::new(pages, 4_096, 4_096, Kind::Hash), limits)
    }

    pub(crate) fn of(paper: Paper, limits: EngineLimits) -> Self {
        let engine = Engine::new(paper.clone(), Some(Arc::new(Bytes)), limits).unwrap();
        Self { engine, paper, now_ms: 0, asked: BTreeMap::new(), got: BTreeMap::new(), out: Vec::new() }
    }

    pub(crate) fn submit(&mut self, request: Request) -> Result<(), Refusal> {
        self.engine.submit(request.clone(), self.now_ms)?;
        self.got.insert(request.id, Got::default());
        self.asked.insert(request.id, request);
        Ok(())
    }

    /// One step, and all that must hold after any step.
    pub(crate) fn step(&mut self) -> StepReport {
        self.out.clear();
        let report = self.engine.step(self.now_ms, &mut self.out);
        for output in self.out.drain(..) {
            match output {
                Output::Tokens { id, tokens, text } => {
                    let got = self.got.get_mut(&id).expect("of a request that was taken in");
                    assert!(got.done.is_none(), "{id:?} goes on after its end");
                    assert!(tokens.len() <= 1 && !(tokens.is_empty() && text.is_empty()));
                    got.tokens.extend(tokens.iter().map(|drawn| drawn.id));
                    got.text.push_str(&text);
                }
                Output::Done { id, reason, usage } => {
                    let got = self.got.get_mut(&id).expect("of a request that was taken in");
                    assert_eq!(usage.completion, got.tokens.len());
                    assert!(usage.cached <= usage.prompt && got.done.is_none(), "{id:?} ends twice or {usage:?}");
                    got.done = Some((reason, usage));
                }
            }
        }
        self.check();
        report
    }

    pub(crate) fn check(&self) {
        self.engine.audit().unwrap();
        let gauges = self.engine.gauges();
        let sum = gauges.pages_free + gauges.pages_held + gauges.pages_cached + gauges.pages_pinned;
        assert_eq!(sum, gauges.pages);
    }

    /// Steps until nothing is left; at most `steps`.
    pub(crate) fn drain(&mut self, steps: usize) -> usize {
        for step in 0..steps {
            if self.step().is_idle() {
                return step + 1;
            }
        }
        panic!("not done after {steps} steps: {:?}", self.engine.gauges());
    }

    /// All done, each with what it must give.
    pub(crate) fn assert_right(&self) {
        let kind = self.paper.0.borrow().kind;
        for (id, request) in &self.asked {
            let got = &self.got[id];
            let (reason, usage) = got.done.as_ref().unwrap_or_else(|| panic!("{id:?} never ended"));
            assert_eq!(usage.prompt, request.prompt.len());
            match reason {
                Reason::Cancelled | Reason::Deadline | Reason::Failed(_) => {
                    let right = expected(request, kind, got.tokens.len());
                    assert_eq!(got.tokens, right.tokens, "{id:?}");
                    assert_eq!(got.text, right.text, "{id:?}");
                }
                _ => {
                    let right = expected(request, kind, request.sampling.max_new);
                    assert_eq!((&got.tokens, &got.text), (&right.tokens, &right.text), "{request:?}");
                    assert_eq!(Some(reason), right.done.as_ref().map(|done| &done.0), "{id:?}");
                }
            }
        }
    }

    pub(crate) fn tokens_of(&self, id: u64) -> &[u32] {
        &self.got[&RequestId(id)].tokens
    }

    pub(crate) fn usage_of(&self, id: u64) -> Usage {
        self.got[&RequestId(id)].done.clone().expect("it has ended").1
    }

    pub(crate) fn reason_of(&self, id: u64) -> Reason {
        self.got[&RequestId(id)].done.clone().expect("it has ended").0
    }

    /// Submits, drains, and gives what came.
    pub(crate) fn answer(&mut self, request: Request) -> Vec<u32> {
        let id = request.id;
        self.submit(request).unwrap();
        self.drain(10_000);
        self.got[&id].tokens.clone()
    }
}

/// What a request gives, alone and without pages, after at most so many tokens.
pub(crate) fn expected(request: &Request, kind: Kind, most: usize) -> Got {
    let rules = &request.sampling;
    let mut sight = Sight::nothing();
    request.prompt.iter().for_each(|token| sight.see(*token));
    let mut seen = Seen::new(&request.prompt, rules);
    let (mut tokens, mut bytes) = (Vec::new(), Vec::new());
    while tokens.len() < most {
        let drawn = sample(&sight.logits(kind), rules, &seen, tokens.len() as u64, &mut Scratch::default()).unwrap();
        tokens.push(drawn.id);
        if !rules.ignore_stop_ids && rules.stop_ids.contains(&drawn.id) {
            return done(tokens, &bytes, Reason::Stop(drawn.id));
        }
        seen.draw(drawn.id, rules);
        sight.see(drawn.id);
        bytes.push(byte(drawn.id));
        // A character that is not whole yet is no text.
        let text = whole_characters(&bytes);
        if let Some(stop) = rules.stop.iter().filter(|stop| text.ends_with(*stop)).max_by_key(|stop| stop.len()) {
            let text = text[..text.len() - stop.len()].to_owned();
            return Got { tokens, text, done: Some((Reason::StopString(stop.clone()), Usage::default())) };
        }
    }
    done(tokens, &bytes, Reason::Length)
}

fn done(tokens: Vec<u32>, bytes: &[u8], reason: Reason) -> Got {
    Got { tokens, text: String::from_utf8_lossy(bytes).into_owned(), done: Some((reason, Usage::default())) }
}

fn whole_characters(bytes: &[u8]) -> String {
    let open = usize::from(bytes.last() == Some(&0xC3));
    String::from_utf8_lossy(&bytes[..bytes.len() - open]).into_owned()
}
