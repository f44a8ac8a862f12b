//! Each message with faults put in the way of the reply that it owes.

use super::interposed;
use crate::desk::Desk;
use crate::fault::Link;
use legwork_actors::board::BoardMsg;
use legwork_actors::gate::GateMsg;
use legwork_actors::grader::GraderMsg;
use legwork_actors::inference::InferenceMsg;
use legwork_actors::retriever::RetrieverMsg;
use std::sync::Arc;

/// No witness of a reply.
fn unseen<T>() -> Option<fn(&T)> {
    None
}

/// A message whose reply can be tampered with.
pub(super) trait Interpose {
    /// The message with the desk in the way of its reply.
    fn interpose(self, desk: &Arc<Desk>) -> Self;
}

impl Interpose for InferenceMsg {
    fn interpose(self, desk: &Arc<Desk>) -> Self {
        let InferenceMsg::Generate(request, reply) = self;
        InferenceMsg::Generate(request, interposed(reply, Link::Inference, desk, unseen()))
    }
}

impl Interpose for RetrieverMsg {
    fn interpose(self, desk: &Arc<Desk>) -> Self {
        match self {
            RetrieverMsg::Search(query, k, reply) => {
                RetrieverMsg::Search(query, k, interposed(reply, Link::Retriever, desk, unseen()))
            }
            RetrieverMsg::Open(page, reply) => {
                RetrieverMsg::Open(page, interposed(reply, Link::Retriever, desk, unseen()))
            }
        }
    }
}

impl Interpose for GraderMsg {
    fn interpose(self, desk: &Arc<Desk>) -> Self {
        let GraderMsg::Grade(grading, reply) = self;
        GraderMsg::Grade(grading, interposed(reply, Link::Grader, desk, unseen()))
    }
}

impl Interpose for GateMsg {
    fn interpose(self, desk: &Arc<Desk>) -> Self {
        let GateMsg::Ask { session, messages, reply } = self;
        GateMsg::Ask { session, messages, reply: interposed(reply, Link::Gate, desk, unseen()) }
    }
}

impl Interpose for BoardMsg {
    fn interpose(self, _desk: &Arc<Desk>) -> Self {
        self
    }
}
