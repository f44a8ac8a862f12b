//! Inference: one door to every model. It routes a request by the part that the model plays to an endpoint (or
//! whatever answers like one) and lets it run beside the mailbox; an asker who goes away cancels the call.
//! Limits on concurrency and rate are the endpoint's own.

use crate::address::Reply;
use crate::stage::Stage;
use legwork_endpoints::Endpoint;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{Completion, GenerateRequest, Route};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What inference is asked.
#[derive(Debug)]
pub enum InferenceMsg {
    /// Let a model go on with a conversation. Owes: its completion, or why there is none.
    Generate(Box<GenerateRequest>, Reply<Result<Completion, Failure>>),
}

/// Which endpoint plays which part.
pub type Routes = BTreeMap<Route, Arc<dyn Endpoint>>;

/// The inference actor over endpoints.
pub struct Inference;

impl Actor for Inference {
    type Msg = InferenceMsg;
    type State = Routes;
    type Arguments = Routes;

    async fn pre_start(
        &self,
        _myself: ActorRef<InferenceMsg>,
        routes: Routes,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(routes)
    }

    async fn handle(
        &self,
        _myself: ActorRef<InferenceMsg>,
        message: InferenceMsg,
        routes: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let InferenceMsg::Generate(request, mut reply) = message;
        let Some(endpoint) = routes.get(&request.route).map(Arc::clone) else {
            let detail = format!("no model plays the {}; give it one under [models.{0}]", request.route);
            reply.send(Err(Failure::new(FailureKind::Misconfigured, detail)));
            return Ok(());
        };
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = reply.abandoned() => {}
                answer = endpoint.generate(*request) => reply.send(answer),
            }
        });
        Ok(())
    }
}

impl Stage {
    /// Asks inference. A dead or silent actor is a named failure.
    pub async fn generate(&self, request: GenerateRequest) -> Result<Completion, Failure> {
        let lost_after = self.reply_lost_after();
        self.inference.ask(lost_after, |reply| InferenceMsg::Generate(Box::new(request), reply)).await?
    }
}
