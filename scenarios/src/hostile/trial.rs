//! One episode played by hand: the machines of coordinator and worker, as the actors drive them, with neither actors nor
//! a ledger, and everything that was said, read and shown kept for whoever judges it. It knows no attack.

use legwork_actors::retriever::Library;
use legwork_endpoints::Endpoint;
use legwork_protocol::call::{Call, last_function};
use legwork_protocol::coordinator::{
    Coordinator, CoordinatorEffect, CoordinatorEvent, FinalAnswer, coordinator as mind_of,
};
use legwork_protocol::environment::{Environment, Lookup, LookupAnswer};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::gate::GateSaid;
use legwork_protocol::generation::{Completion, GenerateRequest, Route, Sampling, Session};
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::machine::TurnCall;
use legwork_protocol::message::{Message, Role};
use legwork_protocol::profile::Profile;
use legwork_protocol::question::Question;
use legwork_protocol::tokens::TokenCounter;
use legwork_protocol::untrusted::ControlTokens;
use legwork_protocol::worker::{Brief, StandingOrders, Worker, WorkerEffect, WorkerEvent, WorkerReport};
use std::sync::Arc;

/// Effects carried out for one machine at most: machines end by their budgets long before.
const STEPS_MAX: usize = 10_000;

/// What a trial is played with.
#[derive(Clone)]
pub struct Trial {
    /// Every constant of the experiment.
    pub profile: Arc<Profile>,
    /// The worker's model.
    pub worker: Arc<dyn Endpoint>,
    /// The coordinator's model; never asked by coordinators that are none.
    pub coordinator: Arc<dyn Endpoint>,
    /// What may not stand in a page's text within a prompt.
    pub control: ControlTokens,
    /// Counts tokens.
    pub counter: Arc<dyn TokenCounter>,
    /// Where every draw comes from.
    pub seed: u64,
}

/// What happened in a trial.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The end.
    pub answer: Option<FinalAnswer>,
    /// Every call that was read from a model's turn, in order.
    pub calls: Vec<Call>,
    /// What models said.
    pub said: Vec<String>,
    /// Every observation, as a model was shown it.
    pub observations: Vec<String>,
    /// Reports, as a coordinator was shown them.
    pub reports: Vec<String>,
    /// System prompts.
    pub prompts: Vec<String>,
    /// Whole conversations, each at its end.
    pub conversations: Vec<Vec<Arc<Message>>>,
    /// What failed.
    pub failures: Vec<Failure>,
}

impl Trial {
    /// Plays one question.
    pub async fn play(&self, question: &Question, library: &dyn Library) -> Trace {
        let mut trace = Trace::default();
        let mut mind = mind_of(&self.profile, question, None);
        let opening = mind.opening(&question.text);
        let prompt_tokens = opening.iter().map(|text| self.counter.count(text)).sum();
        let mut event = CoordinatorEvent::Asked { question: question.text.clone(), prompt_tokens };
        for _ in 0..STEPS_MAX {
            let effect = mind.apply(&event);
            if let CoordinatorEvent::Generated { completion, .. } = &event {
                self.note_calls(mind.as_ref(), completion, &mut trace);
            }
            event = match effect {
                None => break,
                Some(CoordinatorEffect::Answer(answer)) => {
                    trace.answer = Some(*answer);
                    break;
                }
                Some(CoordinatorEffect::Generate(call)) => {
                    let messages = mind.conversation().map(|talk| talk.messages().to_vec()).unwrap_or_default();
                    let request = self.request(Route::Coordinator, question, messages, &call);
                    self.mind_generated(self.coordinator.generate(request).await, call.timeout_ms, &mut trace)
                }
                Some(CoordinatorEffect::Observe(lookups)) => {
                    let Some((environment, reading)) = mind.tools() else { break };
                    let environment = environment.clone().with_control_tokens(self.control.clone());
                    let answers = look_up(library, &lookups).await;
                    let observed = environment.observe(reading, &answers);
                    trace.observations.push(observed.text.clone());
                    let tokens = self.counter.count(&observed.text);
                    CoordinatorEvent::Observed { observed, tokens, served_ms: 0 }
                }
                Some(CoordinatorEffect::Delegate(briefs)) => {
                    let mut reports = Vec::new();
                    for brief in briefs {
                        reports.extend(Box::pin(self.work(question, brief, library, &mut trace)).await);
                    }
                    let text = mind.report_text(&reports);
                    let tokens = self.counter.count(&text);
                    trace.reports.push(text);
                    CoordinatorEvent::Reported { reports, tokens }
                }
            };
        }
        keep_conversation(mind.conversation().map(|talk| talk.messages()).unwrap_or_default(), &mut trace);
        trace
    }

    fn mind_generated(
        &self,
        said: Result<Completion, Failure>,
        timeout_ms: u64,
        trace: &mut Trace,
    ) -> CoordinatorEvent {
        match said {
            Ok(completion) => {
                trace.said.push(completion.text.clone());
                CoordinatorEvent::Generated { tokens: self.tokens(&completion), completion }
            }
            Err(failure) => {
                let served_ms = if failure.kind == FailureKind::TimedOut { timeout_ms } else { 0 };
                trace.failures.push(failure.clone());
                CoordinatorEvent::GenerationFailed { failure, served_ms }
            }
        }
    }

    fn note_calls(&self, mind: &dyn Coordinator, completion: &Completion, trace: &mut Trace) {
        let reading = self.profile.grammar.read(&completion.text, &completion.tool_calls);
        // The folding mind looks for its branches and returns with a reader of its own.
        let own = mind.tools().and_then(|_| last_function(&completion.text));
        let own = own.filter(|call| matches!(call.name.as_str(), "branch" | "return") && !reading.calls.contains(call));
        trace.calls.extend(reading.calls.iter().cloned().chain(own));
    }

    async fn work(
        &self,
        question: &Question,
        brief: Brief,
        library: &dyn Library,
        trace: &mut Trace,
    ) -> Option<WorkerReport> {
        let orders = Arc::new(StandingOrders::new(Arc::clone(&self.profile)));
        let count = |text: &str| self.counter.count(text);
        let prompt_tokens = count(orders.system_text()) + count(&StandingOrders::brief_text(&brief.text));
        let wrap_up_tokens = count(orders.wrap_up_text());
        let mut worker = Worker::under(orders);
        let mut event = WorkerEvent::Briefed { brief, prompt_tokens, wrap_up_tokens };
        let mut report = None;
        for _ in 0..STEPS_MAX {
            let effect = worker.apply(&event);
            if matches!(event, WorkerEvent::Generated { .. }) {
                trace.calls.extend(worker.reading().calls.iter().cloned());
            }
            event = match effect {
                None => break,
                Some(WorkerEffect::Report(ended)) => {
                    report = Some(*ended);
                    break;
                }
                Some(WorkerEffect::AskGate) => WorkerEvent::GateSaid(GateSaid::unreadable()),
                Some(WorkerEffect::Generate(call)) => {
                    let messages = worker.conversation().messages().to_vec();
                    let request = self.request(Route::Worker, question, messages, &call);
                    self.worker_generated(self.worker.generate(request).await, call.timeout_ms, trace)
                }
                Some(WorkerEffect::Observe(lookups)) => {
                    let observed = observe(worker.environment(), &self.control, &worker, library, &lookups).await;
                    trace.observations.push(observed.text.clone());
                    let tokens = self.counter.count(&observed.text);
                    WorkerEvent::Observed { observed, tokens, served_ms: 0 }
                }
            };
        }
        keep_conversation(worker.conversation().messages(), trace);
        report
    }

    fn worker_generated(&self, said: Result<Completion, Failure>, timeout_ms: u64, trace: &mut Trace) -> WorkerEvent {
        match said {
            Ok(completion) => {
                trace.said.push(completion.text.clone());
                WorkerEvent::Generated { tokens: self.tokens(&completion), completion }
            }
            Err(failure) => {
                let served_ms = if failure.kind == FailureKind::TimedOut { timeout_ms } else { 0 };
                trace.failures.push(failure.clone());
                WorkerEvent::GenerationFailed { failure, served_ms }
            }
        }
    }

    fn tokens(&self, completion: &Completion) -> u64 {
        match completion.usage.completion_tokens {
            0 => self.counter.count(&completion.text),
            tokens => u64::from(tokens),
        }
    }

    fn request(
        &self,
        route: Route,
        question: &Question,
        messages: Vec<Arc<Message>>,
        call: &TurnCall,
    ) -> GenerateRequest {
        let (scope, temperature, top_p, top_k) = match route {
            Route::Coordinator => {
                let settings = &self.profile.coordinator;
                (Scope::Coordinator, settings.temperature, settings.top_p, settings.top_k)
            }
            _ => {
                let settings = &self.profile.worker;
                (Scope::Worker(0), settings.temperature, settings.top_p, settings.top_k)
            }
        };
        let episode = EpisodeKey { round: 0, question: question.id.clone() };
        // Servers take seeds as signed 64-bit numbers at most.
        let seed = self.seed.wrapping_add(u64::from(call.turn) << 8).wrapping_add(u64::from(call.attempt)) >> 1;
        GenerateRequest {
            route,
            session: Some(Session { episode, scope, turn: call.turn }),
            messages,
            tools: None,
            sampling: Sampling {
                max_tokens: call.max_tokens,
                temperature,
                top_p,
                top_k,
                seed: Some(seed),
                stop: Vec::new(),
            },
            timeout_ms: call.timeout_ms,
        }
    }
}

async fn observe(
    environment: &Environment,
    control: &ControlTokens,
    worker: &Worker,
    library: &dyn Library,
    lookups: &[Lookup],
) -> legwork_protocol::environment::Observed {
    let answers = look_up(library, lookups).await;
    environment.clone().with_control_tokens(control.clone()).observe(worker.reading(), &answers)
}

async fn look_up(library: &dyn Library, lookups: &[Lookup]) -> Vec<LookupAnswer> {
    let mut answers = Vec::with_capacity(lookups.len());
    for lookup in lookups {
        let answer = match lookup {
            Lookup::Search { query, k } => library.search(query.clone(), *k).await.map(LookupAnswer::Found),
            Lookup::Open(page) => library.open(page.clone()).await.map(LookupAnswer::Page),
        };
        answers.push(answer.unwrap_or_else(LookupAnswer::Failed));
    }
    answers
}

fn keep_conversation(messages: &[Arc<Message>], trace: &mut Trace) {
    if messages.is_empty() {
        return;
    }
    let system = messages.iter().filter(|message| message.role == Role::System);
    trace.prompts.extend(system.map(|message| message.content.clone()));
    trace.conversations.push(messages.to_vec());
}
