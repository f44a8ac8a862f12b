//! The proxy before a shared actor: it takes the real actor's messages, may panic, die or hang at one, and passes the
//! rest on. If the actor behind it dies, so does the proxy, and its supervisor restarts both.

use super::interposed as with_faults;
use super::interposed::Interpose;
use crate::desk::{Desk, Occasion};
use crate::fault::{Harm, Link, Player};
use crate::probe::Probe;
use legwork_actors::cast::{Role, SharedRole, role};
use legwork_actors::ledger::LedgerMsg;
use legwork_actors::stage::Stage;
use legwork_protocol::failure::Failure;
use ractor::{Actor, ActorProcessingErr, ActorRef, Message, SupervisionEvent};
use std::sync::Arc;
use std::time::Duration;

struct Proxy<M: Message> {
    role: SharedRole<M>,
    player: Player,
    desk: Arc<Desk>,
}

/// A role with a proxy before each of its actors.
pub(super) fn shared<M: Message + Interpose>(inner: SharedRole<M>, player: Player, desk: &Arc<Desk>) -> SharedRole<M> {
    let desk = Arc::clone(desk);
    role(inner.player().to_owned(), move |stage: Arc<Stage>| {
        (Proxy { role: Arc::clone(&inner), player, desk: Arc::clone(&desk) }, stage)
    })
}

impl<M: Message + Interpose> Actor for Proxy<M> {
    type Msg = M;
    type State = ActorRef<M>;
    type Arguments = Arc<Stage>;

    async fn pre_start(&self, myself: ActorRef<M>, stage: Arc<Stage>) -> Result<ActorRef<M>, ActorProcessingErr> {
        Ok(Role::start(self.role.as_ref(), stage, myself.get_cell()).await?)
    }

    async fn handle(&self, myself: ActorRef<M>, message: M, inner: &mut ActorRef<M>) -> Result<(), ActorProcessingErr> {
        for fault in self.desk.strike(Occasion::Message(self.player)) {
            match fault.harm {
                Harm::Panic(_) => panic!("a planned panic"),
                Harm::Kill(_) => {
                    myself.kill();
                    return Ok(());
                }
                Harm::Hang(_) => tokio::time::sleep(Duration::from_millis(fault.ms)).await,
                _ => {}
            }
        }
        inner.cast(message.interpose(&self.desk))?;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<M>,
        event: SupervisionEvent,
        _inner: &mut ActorRef<M>,
    ) -> Result<(), ActorProcessingErr> {
        follow(&myself, event)
    }
}

/// The ledger's proxy also shows the probe what was acknowledged.
struct LedgerProxy {
    role: SharedRole<LedgerMsg>,
    desk: Arc<Desk>,
    probe: Arc<Probe>,
}

/// The ledger's role with a proxy before it.
pub(super) fn ledger(inner: SharedRole<LedgerMsg>, desk: &Arc<Desk>, probe: &Arc<Probe>) -> SharedRole<LedgerMsg> {
    let (desk, probe) = (Arc::clone(desk), Arc::clone(probe));
    role(inner.player().to_owned(), move |stage: Arc<Stage>| {
        (LedgerProxy { role: Arc::clone(&inner), desk: Arc::clone(&desk), probe: Arc::clone(&probe) }, stage)
    })
}

impl Actor for LedgerProxy {
    type Msg = LedgerMsg;
    type State = ActorRef<LedgerMsg>;
    type Arguments = Arc<Stage>;

    async fn pre_start(
        &self,
        myself: ActorRef<LedgerMsg>,
        stage: Arc<Stage>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(Role::start(self.role.as_ref(), stage, myself.get_cell()).await?)
    }

    async fn handle(
        &self,
        _myself: ActorRef<LedgerMsg>,
        message: LedgerMsg,
        inner: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let message = match message {
            LedgerMsg::Append(append, reply) => {
                let acknowledged = self.probe.appended(&append);
                let (probe, desk) = (Arc::clone(&self.probe), Arc::clone(&self.desk));
                let witness = move |answer: &Result<(), Failure>| {
                    if answer.is_ok() {
                        let (episode, scope) = (acknowledged.episode.clone(), acknowledged.scope);
                        probe.acknowledged(acknowledged);
                        desk.durable(&episode, scope);
                    }
                };
                let reply = with_faults(reply, Link::Ledger, &self.desk, Some(witness));
                LedgerMsg::Append(append, reply)
            }
            other => other,
        };
        inner.cast(message)?;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<LedgerMsg>,
        event: SupervisionEvent,
        _inner: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        follow(&myself, event)
    }
}

/// Goes the way of the actor behind.
fn follow<M: Message>(myself: &ActorRef<M>, event: SupervisionEvent) -> Result<(), ActorProcessingErr> {
    match event {
        SupervisionEvent::ActorFailed(_, error) => Err(error),
        SupervisionEvent::ActorTerminated(..) => {
            myself.stop(None);
            Ok(())
        }
        SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => Ok(()),
    }
}
