//! Gates: a model that always says CONTINUE, for the real gate to ask; and in the place of the real one an actor that
//! always says the same, and one that follows a rule, such as knowing when STOP is due and being right so often.

use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_actors::cast::{SharedRole, role};
use legwork_actors::gate::GateMsg;
use legwork_actors::stage::Stage;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::failure::Failure;
use legwork_protocol::gate::{GateDecision, GateSaid};
use legwork_protocol::generation::{Completion, FinishReason, GenerateRequest, Session, Usage};
use legwork_protocol::id::QuestionId;
use legwork_protocol::message::Message;
use legwork_protocol::question::Question;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A gate's model that says CONTINUE.
#[derive(Clone, Copy, Debug, Default)]
pub struct MockGateModel;

impl Endpoint for MockGateModel {
    fn name(&self) -> &str {
        "mock: patient gate"
    }

    fn generate(&self, _request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        let text = "<function=gate>\n<parameter=decision>CONTINUE</parameter>\n</function>".to_owned();
        let usage = Usage { completion_tokens: 12, ..Usage::default() };
        let said = Completion { text, finish: FinishReason::Stop, usage, attempts: 1, ..Completion::default() };
        futures::future::ready(Ok(said)).boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// A gate that always says the same.
#[derive(Clone, Copy, Debug)]
pub struct ConstantGate(pub GateDecision);

impl ConstantGate {
    /// The role that it plays: `cast.gate = ConstantGate(…).role()`.
    pub fn role(self) -> SharedRole<GateMsg> {
        role("mock: constant gate", move |_stage: Arc<Stage>| (self, ()))
    }
}

impl Actor for ConstantGate {
    type Msg = GateMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<GateMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<GateMsg>,
        message: GateMsg,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let GateMsg::Ask { reply, .. } = message;
        reply.send(GateSaid { decision: self.0, ..GateSaid::unreadable() });
        Ok(())
    }
}

/// New tokens that a gate that knows is taken to need for a decision.
pub const GATE_TOKENS: u64 = 90;

type Rule = dyn Fn(&Session, &[Arc<Message>]) -> GateSaid + Send + Sync;

/// A gate that follows a rule.
#[derive(Clone)]
pub struct MockGate {
    rule: Arc<Rule>,
}

impl MockGate {
    /// A gate that says what `rule` says of a moment and of what it is shown.
    pub fn new(rule: impl Fn(&Session, &[Arc<Message>]) -> GateSaid + Send + Sync + 'static) -> Self {
        Self { rule: Arc::new(rule) }
    }

    /// A gate that knows the questions: it sees STOP as due once a document that holds the answer has been opened, and
    /// says what it sees in `rate` of the moments, the opposite in the others, by a seeded draw for each moment.
    pub fn knowing(questions: &[Question], rate: f64, seed: u64) -> Self {
        let questions: BTreeMap<QuestionId, Question> =
            questions.iter().map(|question| (question.id.clone(), question.clone())).collect();
        Self::new(move |session, messages| {
            let Some(question) = questions.get(&session.episode.question) else { return GateSaid::unreadable() };
            let transcript = messages.last().map(|message| message.content.as_str()).unwrap_or_default();
            let due = opened_in(transcript).any(|docid| question.gold.iter().any(|gold| gold.as_str() == docid));
            let moment = format!("{seed}/{}/{}/{}", session.episode, session.scope, session.turn);
            let mut draw = ChaCha8Rng::from_seed(*blake3::hash(moment.as_bytes()).as_bytes());
            let is_right = draw.random::<f64>() < rate;
            let decision = if due == is_right { GateDecision::Stop } else { GateDecision::Continue };
            let answer = question.answers.first().filter(|_| decision == GateDecision::Stop).cloned();
            GateSaid { decision, answer, evidence: None, next: None, tokens: GATE_TOKENS }
        })
    }

    /// The role that it plays: `cast.gate = MockGate::knowing(…).role()`.
    pub fn role(self) -> SharedRole<GateMsg> {
        role("mock: gate by a rule", move |_stage: Arc<Stage>| (self.clone(), ()))
    }
}

/// The documents that a transcript shows as opened.
fn opened_in(transcript: &str) -> impl Iterator<Item = &str> {
    let pages = transcript.split("[Opened Page Content]").skip(1);
    pages.filter_map(|page| page.lines().find_map(|line| line.strip_prefix("docid: "))).map(str::trim)
}

impl Actor for MockGate {
    type Msg = GateMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<GateMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<GateMsg>,
        message: GateMsg,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let GateMsg::Ask { session, messages, reply } = message;
        reply.send((self.rule)(&session, &messages));
        Ok(())
    }
}
