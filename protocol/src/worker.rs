//! The worker's machine: a brief and a lease in, turns of calls and observations, a report out. It decides
//! everything that a worker decides and carries nothing out; the same events give the same effects, always.

use crate::budget::Amount;
use crate::call::Reading;
use crate::conversation::Conversation;
use crate::environment::{Environment, Finish, Lookup, Observed};
use crate::failure::Failure;
use crate::gate::{GateDecision, GateNotes, GateSaid};
use crate::generation::Completion;
use crate::id::DocId;
use crate::machine::{TurnCall, TurnLimits, TurnMeter};
use crate::message::{Message, Role};
use crate::profile::{GateMode, Profile};
use crate::prompt::Prompt;
use crate::untrusted::{ControlTokens, Untrusted};
use minijinja::context;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a coordinator asks of a worker, and what it lends for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Brief {
    /// What to find out; the worker sees nothing else.
    pub text: String,
    /// What the worker may spend.
    pub lease: Amount,
}

/// What happens to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerEvent {
    /// The coordinator asks. Token counts are of the prompts as the machine renders them.
    Briefed {
        /// The brief.
        brief: Brief,
        /// Tokens of the two opening messages.
        prompt_tokens: u64,
        /// Tokens of the message that asks to wrap up.
        wrap_up_tokens: u64,
    },
    /// The model answered.
    Generated {
        /// Its answer.
        completion: Completion,
        /// New tokens, by the worker's own tokenizer.
        tokens: u64,
    },
    /// The model did not answer.
    GenerationFailed {
        /// Why.
        failure: Failure,
        /// Time being served, in milliseconds.
        served_ms: u64,
    },
    /// The calls of the last turn were carried out.
    Observed {
        /// What they came to.
        observed: Observed,
        /// Tokens of the observation, by the worker's own tokenizer.
        tokens: u64,
        /// Time that the retriever took, in milliseconds.
        served_ms: u64,
    },
    /// The gate spoke.
    GateSaid(GateSaid),
    /// Somebody asked for it to stop.
    Cancelled,
}

/// What a worker wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerEffect {
    /// Ask the model with the conversation.
    Generate(TurnCall),
    /// Carry out the lookups of the pending calls and observe.
    Observe(Vec<Lookup>),
    /// Ask the gate.
    AskGate,
    /// Report to the coordinator. Nothing follows.
    Report(Box<WorkerReport>),
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    /// It finished by itself.
    Finished,
    /// A part of its budget ran out.
    Exhausted,
    /// Its budget ran out without a single call that could be read.
    Malformed,
    /// Something outside it failed.
    Failed(Failure),
    /// It was stopped.
    Cancelled,
}

/// What a worker returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// How it ended.
    pub status: ReportStatus,
    /// Its answer, if it gave one; blank where the profile blanks it.
    pub answer: Option<String>,
    /// Its explanation, if it gave one.
    pub explanation: Option<String>,
    /// 0 to 100, if it said.
    pub confidence: Option<f64>,
    /// What it spent of its lease.
    pub spent: Amount,
    /// Searches made.
    pub searches: u32,
    /// Pages opened.
    pub opens: u32,
    /// Turns without a call that could be read.
    pub malformed_turns: u32,
    /// Calls that repeated an earlier one word for word.
    pub repeated_calls: u32,
    /// Search answers given by a part of the retriever only.
    pub degraded_searches: u32,
    /// Documents that searches showed, in order of first sight.
    pub retrieved: Vec<DocId>,
    /// Documents opened, in order.
    pub opened: Vec<DocId>,
    /// What the gate said, if it was asked.
    pub gate: GateNotes,
    /// Serving time of each turn, in milliseconds.
    pub turn_served_ms: Vec<u64>,
}

impl WorkerReport {
    /// The report as a coordinator reads it.
    pub fn text(&self) -> String {
        let mut text = match &self.answer {
            Some(answer) if !answer.trim().is_empty() => format!("Answer: {}", answer.trim()),
            _ => "No answer.".to_owned(),
        };
        if let Some(confidence) = self.confidence {
            text.push_str(&format!("\nConfidence: {confidence}"));
        }
        if let Some(explanation) = self.explanation.as_deref().map(str::trim).filter(|e| !e.is_empty()) {
            text.push('\n');
            text.push_str(explanation);
        }
        text
    }

    /// The status in a word.
    pub fn status_name(&self) -> &'static str {
        match self.status {
            ReportStatus::Finished => "finished",
            ReportStatus::Exhausted => "ran out of budget",
            ReportStatus::Malformed => "wrote no call that could be read",
            ReportStatus::Failed(_) => "failed",
            ReportStatus::Cancelled => "was stopped",
        }
    }
}

/// What every worker of a profile is told, rendered once: many hundreds of conversations begin with the same message.
#[derive(Clone, Debug)]
pub struct StandingOrders {
    profile: Arc<Profile>,
    system: Arc<Message>,
    wrap_up: Arc<Message>,
}

impl StandingOrders {
    /// The orders of a profile.
    pub fn new(profile: Arc<Profile>) -> Self {
        let system = Prompt::WorkerSystem.render(context! {
            entries_default => profile.tools.entries_default,
            turns_max => profile.worker.turns_max,
            budget_tokens => profile.worker.budget_tokens,
        });
        let wrap_up = Prompt::WorkerWrapUp.render(context! {});
        Self {
            profile,
            system: Arc::new(Message::new(Role::System, system)),
            wrap_up: Arc::new(Message::new(Role::User, wrap_up)),
        }
    }

    /// The first message of every worker.
    pub fn system_text(&self) -> &str {
        &self.system.content
    }

    /// The message that asks to wrap up.
    pub fn wrap_up_text(&self) -> &str {
        &self.wrap_up.content
    }

    /// A worker's second message. A brief may quote what documents say, so no control string is left in it: the strict
    /// reader mends broken tags within values, and a coordinator may hand on what a report quoted.
    pub fn brief_text(brief: &str) -> String {
        let brief = Untrusted::from(brief).for_prompt(&ControlTokens::default()).into_owned();
        Prompt::WorkerBrief.render(context! { brief })
    }
}

/// The machine of one worker.
#[derive(Clone, Debug)]
pub struct Worker {
    orders: Arc<StandingOrders>,
    brief: Option<Brief>,
    conversation: Conversation,
    environment: Environment,
    meter: TurnMeter,
    reading: Reading,
    wrapping_up: bool,
    wrap_up_tokens: u64,
    malformed_turns: u32,
    repeated_calls: u32,
    degraded_searches: u32,
    retrieved: Vec<DocId>,
    opened: Vec<DocId>,
    gate: GateNotes,
    /// It wraps up because the gate said so.
    obeying: bool,
    ended: bool,
}

impl Worker {
    /// A worker that has not been briefed.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self::under(Arc::new(StandingOrders::new(profile)))
    }

    /// A worker that has not been briefed, under orders that it shares with others.
    pub fn under(orders: Arc<StandingOrders>) -> Self {
        let environment = Environment::new(orders.profile.tools.clone());
        let meter = TurnMeter::new(Amount::default(), limits(&orders.profile));
        Self {
            orders,
            brief: None,
            conversation: Conversation::default(),
            environment,
            meter,
            reading: Reading::default(),
            wrapping_up: false,
            wrap_up_tokens: 0,
            malformed_turns: 0,
            repeated_calls: 0,
            degraded_searches: 0,
            retrieved: Vec::new(),
            opened: Vec::new(),
            gate: GateNotes::default(),
            obeying: false,
            ended: false,
        }
    }

    /// What a whole worker may spend by this profile, before the coordinator's purse is asked.
    pub fn full_lease(profile: &Profile) -> Amount {
        Amount {
            tokens: profile.worker.budget_tokens,
            turns: profile.worker.turns_max,
            served_ms: profile.worker.served_max_ms,
            micros: profile.worker.micros_max.unwrap_or(u64::MAX),
        }
    }

    /// The conversation to send with [`WorkerEffect::Generate`].
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The tools, to plan and observe with.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The calls to carry out with [`WorkerEffect::Observe`].
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The brief, once given.
    pub fn brief(&self) -> Option<&Brief> {
        self.brief.as_ref()
    }

    /// What was spent and what was lent.
    pub fn meter(&self) -> &TurnMeter {
        &self.meter
    }

    /// Takes an event in; says what to do next. Events after the report change nothing.
    pub fn apply(&mut self, event: &WorkerEvent) -> Option<WorkerEffect> {
        if self.ended {
            return None;
        }
        match event {
            WorkerEvent::Briefed { brief, prompt_tokens, wrap_up_tokens } => {
                self.briefed(brief, *prompt_tokens, *wrap_up_tokens)
            }
            WorkerEvent::Generated { completion, tokens } => self.generated(completion, *tokens),
            WorkerEvent::GenerationFailed { failure, served_ms } => self.generation_failed(failure, *served_ms),
            WorkerEvent::Observed { observed, tokens, served_ms } => self.observed(observed, *tokens, *served_ms),
            WorkerEvent::GateSaid(said) => self.gate_said(said),
            WorkerEvent::Cancelled => self.report(ReportStatus::Cancelled, None),
        }
    }

    fn briefed(&mut self, brief: &Brief, prompt_tokens: u64, wrap_up_tokens: u64) -> Option<WorkerEffect> {
        let user = StandingOrders::brief_text(&brief.text);
        self.conversation.push_shared(Arc::clone(&self.orders.system), 0);
        self.conversation.push(Message::new(Role::User, user), prompt_tokens);
        self.meter = TurnMeter::new(brief.lease, limits(&self.orders.profile));
        self.wrap_up_tokens = wrap_up_tokens;
        self.brief = Some(brief.clone());
        self.next_turn()
    }

    fn generated(&mut self, completion: &Completion, tokens: u64) -> Option<WorkerEffect> {
        self.meter.answered(tokens, completion.served_ms);
        self.conversation.push_completion(completion, tokens, self.orders.profile.worker.keep_thinking);
        self.reading = self.orders.profile.grammar.read(&completion.text, &completion.tool_calls);
        let lookups = self.environment.plan(&self.reading);
        if self.wrapping_up || lookups.is_empty() {
            let observed = self.environment.observe(&self.reading, &[]);
            if observed.finish.is_some() {
                return self.report(ReportStatus::Finished, observed.finish);
            }
        }
        if self.wrapping_up {
            return self.report(self.out_of_budget(), None);
        }
        Some(WorkerEffect::Observe(lookups))
    }

    fn generation_failed(&mut self, failure: &Failure, served_ms: u64) -> Option<WorkerEffect> {
        if !self.meter.failed(served_ms) {
            return self.report(ReportStatus::Failed(failure.clone()), None);
        }
        self.ask_again()
    }

    fn observed(&mut self, observed: &Observed, tokens: u64, served_ms: u64) -> Option<WorkerEffect> {
        self.environment.absorb(&self.reading, observed);
        self.malformed_turns += u32::from(observed.malformed);
        self.repeated_calls = self.repeated_calls.saturating_add(observed.repeated);
        self.degraded_searches = self.degraded_searches.saturating_add(observed.degraded);
        self.retrieved.extend(observed.shown.iter().cloned());
        self.opened.extend(observed.opened.iter().cloned());
        if observed.finish.is_some() {
            return self.report(ReportStatus::Finished, observed.finish.clone());
        }
        self.conversation.push_answer(observed.text.clone(), tokens);
        if !self.meter.charge(tokens, served_ms) {
            // The observation alone is more than was left: nothing can be asked after it.
            return self.report(self.out_of_budget(), None);
        }
        if self.orders.profile.gate.mode != GateMode::Off && !observed.malformed {
            self.gate.asked += 1;
            return Some(WorkerEffect::AskGate);
        }
        self.next_turn()
    }

    fn gate_said(&mut self, said: &GateSaid) -> Option<WorkerEffect> {
        self.gate.said(said, self.meter.turns(), self.opened.len(), self.meter.spent().tokens);
        if said.decision == GateDecision::Stop && self.orders.profile.gate.mode == GateMode::On {
            self.obeying = true;
            return self.wrap_up();
        }
        self.next_turn()
    }

    /// A plain turn if the budget holds one beside the wrap-up that is kept back, else the wrap-up.
    fn next_turn(&mut self) -> Option<WorkerEffect> {
        let (tokens, turns) = self.kept_back();
        match self.meter.next(&self.conversation, tokens, turns) {
            Some(call) => Some(WorkerEffect::Generate(call)),
            None => self.wrap_up(),
        }
    }

    fn wrap_up(&mut self) -> Option<WorkerEffect> {
        // A STOP that is obeyed brings the last turn also where none is kept back for the budget's end.
        let has_last_turn = self.orders.profile.worker.wrap_up_tokens > 0 || self.obeying;
        if !has_last_turn || self.meter.turns() == 0 {
            return self.report(self.out_of_budget(), None);
        }
        self.wrapping_up = true;
        if !self.meter.charge(self.wrap_up_tokens, 0) {
            return self.report(self.out_of_budget(), None);
        }
        self.conversation.push_shared(Arc::clone(&self.orders.wrap_up), self.wrap_up_tokens);
        self.ask_again()
    }

    /// The same turn once more, or the last one.
    fn ask_again(&mut self) -> Option<WorkerEffect> {
        let (tokens, turns) = if self.wrapping_up { (0, 0) } else { self.kept_back() };
        match self.meter.next(&self.conversation, tokens, turns) {
            Some(call) => Some(WorkerEffect::Generate(call)),
            None => self.report(self.out_of_budget(), None),
        }
    }

    fn kept_back(&self) -> (u64, u32) {
        match self.orders.profile.worker.wrap_up_tokens {
            0 => (0, 0),
            tokens => (self.wrap_up_tokens.saturating_add(u64::from(tokens)), 1),
        }
    }

    fn out_of_budget(&self) -> ReportStatus {
        let readable = self.environment.searches() > 0 || self.environment.opens() > 0;
        if !readable && self.malformed_turns > 0 { ReportStatus::Malformed } else { ReportStatus::Exhausted }
    }

    fn report(&mut self, status: ReportStatus, finish: Option<Finish>) -> Option<WorkerEffect> {
        self.ended = true;
        let spent = self.meter.spent();
        let mut gate = std::mem::take(&mut self.gate);
        gate.tokens_after_stop = gate.spent_at_stop().map_or(0, |at| spent.tokens.saturating_sub(at));
        gate.unspent_tokens = if self.obeying { self.meter.lent().tokens.saturating_sub(spent.tokens) } else { 0 };
        let (answer, explanation, confidence) = match finish {
            Some(finish) => (Some(finish.answer), finish.explanation, finish.confidence),
            None => (None, None, None),
        };
        Some(WorkerEffect::Report(Box::new(WorkerReport {
            status,
            answer,
            explanation,
            confidence,
            spent,
            searches: self.environment.searches(),
            opens: self.environment.opens(),
            malformed_turns: self.malformed_turns,
            repeated_calls: self.repeated_calls,
            degraded_searches: self.degraded_searches,
            retrieved: std::mem::take(&mut self.retrieved),
            opened: std::mem::take(&mut self.opened),
            gate,
            turn_served_ms: self.meter.served_ms().to_vec(),
        })))
    }
}

fn limits(profile: &Profile) -> TurnLimits {
    let worker = &profile.worker;
    TurnLimits {
        tokens_max: worker.turn_tokens_max,
        tokens_min: worker.turn_tokens_min,
        timeout_ms: worker.turn_timeout_ms,
        attempts_max: worker.turn_attempts_max,
        prices: worker.prices,
    }
}
