//! Inference without any model: a rule from request to completion, in the place of the real actor.

use legwork_actors::cast::{SharedRole, role};
use legwork_actors::inference::InferenceMsg;
use legwork_actors::stage::Stage;
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, GenerateRequest};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;

type Rule = dyn Fn(&GenerateRequest) -> Result<Completion, Failure> + Send + Sync;

/// Answers every request by its rule, at once.
#[derive(Clone)]
pub struct MockInference {
    rule: Arc<Rule>,
}

impl MockInference {
    /// Inference by this rule.
    pub fn new(rule: impl Fn(&GenerateRequest) -> Result<Completion, Failure> + Send + Sync + 'static) -> Self {
        Self { rule: Arc::new(rule) }
    }

    /// The role that it plays: `cast.inference = mock.role()`.
    pub fn role(&self) -> SharedRole<InferenceMsg> {
        let mock = self.clone();
        role("mock: inference by a rule", move |_stage: Arc<Stage>| (mock.clone(), ()))
    }
}

impl Actor for MockInference {
    type Msg = InferenceMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<InferenceMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<InferenceMsg>,
        message: InferenceMsg,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let InferenceMsg::Generate(request, reply) = message;
        reply.send((self.rule)(&request));
        Ok(())
    }
}
