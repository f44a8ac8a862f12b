//! What an asker knows of an actor that dies while it is asked.

use super::{Address, Reply};
use legwork_protocol::failure::{Failure, FailureKind};
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorStatus};
use std::time::Duration;
use tokio::time::Instant;

const LOST_AFTER: Duration = Duration::from_secs(60);
/// Between a debt that is dropped and the death of who dropped it, as on a machine whose cores are elsewhere.
const DYING: Duration = Duration::from_millis(300);

struct Debtor;

#[derive(Debug)]
enum DebtorMsg {
    /// Drops the debt, then dies of it.
    Die(Reply<()>),
    /// Drops the debt and lives on.
    Forget(Reply<()>),
}

impl Actor for Debtor {
    type Msg = DebtorMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<DebtorMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<DebtorMsg>,
        message: DebtorMsg,
        _: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            DebtorMsg::Die(reply) => {
                drop(reply);
                tokio::time::sleep(DYING).await;
                Err("as told".into())
            }
            DebtorMsg::Forget(_dropped) => Ok(()),
        }
    }
}

async fn debtor() -> ActorRef<DebtorMsg> {
    Actor::spawn(None, Debtor, ()).await.unwrap().0
}

fn is_told_of_a_death(answer: &Result<(), Failure>) -> bool {
    matches!(answer, Err(failure) if failure.kind == FailureKind::ActorDied)
}

#[tokio::test(start_paused = true)]
async fn a_death_without_a_successor_is_told_at_once() {
    let ledger = Address::not_waited_for("ledger");
    ledger.point_at(debtor().await);
    let asked_at = Instant::now();
    assert!(is_told_of_a_death(&ledger.ask(LOST_AFTER, DebtorMsg::Die).await));
    assert_eq!(asked_at.elapsed(), Duration::ZERO);
    ledger.actor().unwrap().wait(None).await.unwrap();
    let again = ledger.ask(LOST_AFTER, DebtorMsg::Forget).await;
    assert_eq!(again.unwrap_err().detail, "ledger actor is dead");
}

#[tokio::test(start_paused = true)]
async fn who_is_told_of_a_death_finds_the_successor() {
    let retriever = Address::vacant("retriever");
    retriever.point_at(debtor().await);
    let first = retriever.actor().unwrap().get_id();
    let asked = retriever.ask(LOST_AFTER, DebtorMsg::Die);
    let supervisor = retriever.clone();
    tokio::spawn(async move {
        let dying = supervisor.actor().unwrap();
        dying.wait(None).await.unwrap();
        supervisor.point_at(debtor().await);
    });
    assert!(is_told_of_a_death(&asked.await));
    assert!(!retriever.is_at(first), "the successor is here before the failure is");
}

#[tokio::test(start_paused = true)]
async fn a_debt_forgotten_by_an_actor_that_lives_on_is_told_without_waiting_for_a_successor() {
    let grader = Address::vacant("grader");
    grader.point_at(debtor().await);
    let asked_at = Instant::now();
    assert!(is_told_of_a_death(&grader.ask(LOST_AFTER, DebtorMsg::Forget).await));
    assert!(asked_at.elapsed() <= super::DEATH_SEEN_WITHIN + Duration::from_millis(1));
    assert_eq!(grader.actor().unwrap().get_status(), ActorStatus::Running);
}
