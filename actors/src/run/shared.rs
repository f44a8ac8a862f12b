//! The shared actors of a run: started before the first episode, and again when they die. The run ends with its ledger, and with
//! any of them that dies too often.

use super::{RunEnd, RunMsg, RunState};
use crate::address::Address;
use crate::board::BoardMsg;
use crate::cast::{Role, SharedRole};
use crate::stage::Stage;
use legwork_protocol::failure::{Failure, FailureKind};
use ractor::{ActorCell, ActorId, ActorProcessingErr, ActorRef, Message};
use std::sync::Arc;

impl RunState {
    /// Restarts a shared actor within the budget of all of them, or ends the run.
    pub(super) async fn shared_died(&mut self, myself: &ActorRef<RunMsg>, id: ActorId, reason: String) {
        let stage = Arc::clone(&self.stage);
        let root = myself.get_cell();
        if stage.ledger.is_at(id) {
            let failure = Failure::new(FailureKind::Ledger, reason);
            return self.end(myself, RunEnd::Failed(failure)).await;
        }
        let (cast, now_ms) = (&stage.cast, stage.clock.elapsed_ms());
        // Whoever it was must be known before the budget is asked: an episode that has ended and left takes nothing of it.
        let budget = &mut self.shared_restarts;
        let (name, restarted) = if stage.inference.is_at(id) {
            ("inference", restart(budget.take(now_ms), &stage, &cast.inference, &stage.inference, &root).await)
        } else if stage.retriever.is_at(id) {
            ("retriever", restart(budget.take(now_ms), &stage, &cast.retriever, &stage.retriever, &root).await)
        } else if stage.grader.is_at(id) {
            ("grader", restart(budget.take(now_ms), &stage, &cast.grader, &stage.grader, &root).await)
        } else if stage.gate.is_at(id) {
            ("gate", restart(budget.take(now_ms), &stage, &cast.gate, &stage.gate, &root).await)
        } else if stage.board.is_at(id) {
            ("board", restart(budget.take(now_ms), &stage, &cast.board, &stage.board, &root).await)
        } else {
            return;
        };
        tracing::warn!(actor = name, %reason, restarted, "shared actor died");
        if name == "board" && restarted {
            // What it had counted is lost with it; how much there is to do is told again.
            stage.board.tell(BoardMsg::Began { planned: self.planned, ended: Vec::new() });
        }
        stage.board.tell(BoardMsg::Restarted(name));
        if !restarted {
            let failure =
                Failure::new(FailureKind::ActorDied, format!("the {name} actor died too often, last of: {reason}"));
            self.end(myself, RunEnd::Failed(failure)).await;
        }
    }
}

pub(super) async fn start_shared<M: Message>(
    stage: &Arc<Stage>,
    role: &SharedRole<M>,
    address: &Address<M>,
    root: &ActorCell,
) -> Result<(), ActorProcessingErr> {
    let actor = Role::start(role.as_ref(), Arc::clone(stage), root.clone()).await?;
    address.point_at(actor);
    Ok(())
}

async fn restart<M: Message>(
    within_budget: bool,
    stage: &Arc<Stage>,
    role: &SharedRole<M>,
    address: &Address<M>,
    root: &ActorCell,
) -> bool {
    within_budget && start_shared(stage, role, address, root).await.is_ok()
}
