//! The STOP gate: asks its model whether a worker should stop. What cannot be read or does not come in time is no
//! STOP.

use crate::address::Reply;
use crate::stage::Stage;
use legwork_protocol::gate::GateSaid;
use legwork_protocol::generation::{GenerateRequest, Route, Sampling, Session};
use legwork_protocol::message::Message;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;

/// What a gate is asked.
#[derive(Debug)]
pub enum GateMsg {
    /// Should this worker stop? Owes: what it says.
    Ask {
        /// The worker's conversation identity, for the draw's seed.
        session: Session,
        /// What it is shown.
        messages: Vec<Arc<Message>>,
        /// The reply owed.
        reply: Reply<GateSaid>,
    },
}

/// The gate that asks a model.
pub struct Gate;

impl Actor for Gate {
    type Msg = GateMsg;
    type State = Arc<Stage>;
    type Arguments = Arc<Stage>;

    async fn pre_start(
        &self,
        _myself: ActorRef<GateMsg>,
        stage: Arc<Stage>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(stage)
    }

    async fn handle(
        &self,
        _myself: ActorRef<GateMsg>,
        message: GateMsg,
        stage: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let GateMsg::Ask { session, messages, mut reply } = message;
        let stage = Arc::clone(stage);
        tokio::spawn(async move {
            let settings = &stage.profile.gate;
            let seed = stage.draw_seed(&session.episode, session.scope, session.turn, 0);
            let request = GenerateRequest {
                route: Route::Gate,
                session: Some(session),
                messages,
                tools: None,
                sampling: Sampling {
                    max_tokens: settings.tokens_max,
                    temperature: 0.0,
                    top_p: 1.0,
                    top_k: None,
                    seed: Some(seed),
                    stop: Vec::new(),
                },
                timeout_ms: settings.timeout_ms,
            };
            tokio::select! {
                biased;
                () = reply.abandoned() => {}
                answer = stage.generate(request) => reply.send(match answer {
                    Ok(completion) => GateSaid::read(&completion.text, u64::from(completion.usage.completion_tokens)),
                    Err(_failure) => GateSaid::unreadable(),
                }),
            }
        });
        Ok(())
    }
}
