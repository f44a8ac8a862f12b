//! Gates: a model that always says CONTINUE, for the real gate to ask, and an actor that always says the same, in the
//! place of the real one.

use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_actors::cast::{SharedRole, role};
use legwork_actors::gate::GateMsg;
use legwork_actors::stage::Stage;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::failure::Failure;
use legwork_protocol::gate::{GateDecision, GateSaid};
use legwork_protocol::generation::{Completion, FinishReason, GenerateRequest, Usage};
use ractor::{Actor, ActorProcessingErr, ActorRef};
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
