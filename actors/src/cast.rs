//! The cast: who plays each role of a run. Every role is a factory of actors that take that role's messages, so a
//! mock takes the place of the real actor in one line, and neither side can tell.

mod real;

pub use real::real_cast;

use crate::board::BoardMsg;
use crate::coordinator::{CoordinatorArgs, CoordinatorMsg};
use crate::gate::GateMsg;
use crate::grader::GraderMsg;
use crate::inference::InferenceMsg;
use crate::ledger::LedgerMsg;
use crate::retriever::RetrieverMsg;
use crate::stage::Stage;
use crate::worker::{WorkerArgs, WorkerMsg};
use futures::FutureExt;
use futures::future::BoxFuture;
use ractor::{Actor, ActorCell, ActorRef, Message, SpawnErr};
use std::sync::Arc;

/// A factory of actors for one role. `A` is what each of them is given when it starts.
pub trait Role<A, M: Message>: Send + Sync {
    /// Who plays it, for the manifest.
    fn player(&self) -> &str;

    /// Whether one may be let go of while it waits, to be started again from the ledger when it is needed. Whoever
    /// keeps what its events do not tell may not.
    fn may_rest(&self) -> bool {
        false
    }

    /// Starts one, linked to its supervisor.
    fn start(&self, args: A, supervisor: ActorCell) -> BoxFuture<'static, Result<ActorRef<M>, SpawnErr>>;
}

struct Player<F> {
    name: String,
    may_rest: bool,
    make: F,
}

impl<A, H, F> Role<A, H::Msg> for Player<F>
where
    A: Send + 'static,
    H: Actor,
    F: Fn(A) -> (H, H::Arguments) + Send + Sync,
{
    fn player(&self) -> &str {
        &self.name
    }

    fn may_rest(&self) -> bool {
        self.may_rest
    }

    fn start(&self, args: A, supervisor: ActorCell) -> BoxFuture<'static, Result<ActorRef<H::Msg>, SpawnErr>> {
        let (handler, arguments) = (self.make)(args);
        async move {
            let (actor, _join) = Actor::spawn_linked(None, handler, arguments, supervisor).await?;
            Ok(actor)
        }
        .boxed()
    }
}

/// A role played by the actors that `make` makes.
pub fn role<A, H>(
    name: impl Into<String>,
    make: impl Fn(A) -> (H, H::Arguments) + Send + Sync + 'static,
) -> Arc<dyn Role<A, H::Msg>>
where
    A: Send + 'static,
    H: Actor,
{
    Arc::new(Player { name: name.into(), may_rest: false, make })
}

/// As [`role`], for actors that are all that their events tell.
pub fn resting_role<A, H>(
    name: impl Into<String>,
    make: impl Fn(A) -> (H, H::Arguments) + Send + Sync + 'static,
) -> Arc<dyn Role<A, H::Msg>>
where
    A: Send + 'static,
    H: Actor,
{
    Arc::new(Player { name: name.into(), may_rest: true, make })
}

/// A role that many episodes share; it is given the stage.
pub type SharedRole<M> = Arc<dyn Role<Arc<Stage>, M>>;

/// Who plays each role.
#[derive(Clone)]
pub struct Cast {
    /// One for each episode.
    pub coordinator: Arc<dyn Role<CoordinatorArgs, CoordinatorMsg>>,
    /// One for each brief.
    pub worker: Arc<dyn Role<WorkerArgs, WorkerMsg>>,
    /// Shared.
    pub retriever: SharedRole<RetrieverMsg>,
    /// Shared.
    pub grader: SharedRole<GraderMsg>,
    /// Shared.
    pub gate: SharedRole<GateMsg>,
    /// Shared.
    pub inference: SharedRole<InferenceMsg>,
    /// Shared.
    pub ledger: SharedRole<LedgerMsg>,
    /// Shared.
    pub board: SharedRole<BoardMsg>,
}
