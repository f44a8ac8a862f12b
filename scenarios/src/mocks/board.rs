//! A board that writes down what it is told, in the place of the real one.

use legwork_actors::board::{BoardMsg, Snapshot};
use legwork_actors::cast::{SharedRole, role};
use legwork_actors::stage::Stage;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::{Arc, Mutex, PoisonError};

/// A board that keeps every message as text. Clones share it.
#[derive(Clone, Default)]
pub struct RecordingBoard {
    told: Arc<Mutex<Vec<String>>>,
}

impl RecordingBoard {
    /// What it was told, in order.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The role that it plays: `cast.board = board.role()`.
    pub fn role(&self) -> SharedRole<BoardMsg> {
        let mock = self.clone();
        role("mock: recording board", move |_stage: Arc<Stage>| (mock.clone(), ()))
    }
}

impl Actor for RecordingBoard {
    type Msg = BoardMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<BoardMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<BoardMsg>,
        message: BoardMsg,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        match message {
            BoardMsg::Look(reply) => reply.send(Snapshot::default()),
            told => self.told.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{told:?}")),
        }
        Ok(())
    }
}
