//! The postman between an episode's child and the episode: what the child tells is passed on, lost, told late, told
//! twice, or overtaken by what it tells next.

use super::OVERTAKEN_AFTER;
use crate::desk::{Desk, Occasion};
use crate::fault::{Harm, Link};
use futures::FutureExt;
use legwork_actors::episode::EpisodeMsg;
use legwork_actors::errand::Errand;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Postman {
    pub(super) desk: Arc<Desk>,
    pub(super) link: Link,
}

/// Where a postman goes, and what is late.
pub(super) struct Round {
    home: ActorRef<EpisodeMsg>,
    late: Vec<Errand>,
}

impl Actor for Postman {
    type Msg = EpisodeMsg;
    type State = Round;
    type Arguments = ActorRef<EpisodeMsg>;

    async fn pre_start(
        &self,
        _myself: ActorRef<EpisodeMsg>,
        home: ActorRef<EpisodeMsg>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(Round { home, late: Vec::new() })
    }

    async fn handle(
        &self,
        _myself: ActorRef<EpisodeMsg>,
        message: EpisodeMsg,
        round: &mut Round,
    ) -> Result<(), ActorProcessingErr> {
        let home = &round.home;
        let mut after = Duration::ZERO;
        for fault in self.desk.strike(Occasion::Reply(self.link)) {
            match fault.harm {
                Harm::Lose(_) => return Ok(()),
                Harm::Delay(_) => after = Duration::from_millis(fault.ms),
                Harm::Reorder(_) => after = OVERTAKEN_AFTER.max(Duration::from_millis(fault.ms)),
                Harm::Duplicate(_) => {
                    if let Some(again) = copy(&message) {
                        let _episode_has_gone = home.cast(again);
                    }
                }
                _ => {}
            }
        }
        if after.is_zero() {
            let _episode_has_gone = home.cast(message);
        } else {
            let late = tokio::time::sleep(after).map(|()| Some(message));
            round.late.push(Errand::run(home.clone(), late, EpisodeMsg::ErrandFailed));
        }
        Ok(())
    }
}

/// What can be told twice.
fn copy(message: &EpisodeMsg) -> Option<EpisodeMsg> {
    match message {
        EpisodeMsg::Decided(decision) => Some(EpisodeMsg::Decided(decision.clone())),
        EpisodeMsg::WorkerReported { worker, report } => {
            Some(EpisodeMsg::WorkerReported { worker: *worker, report: report.clone() })
        }
        _ => None,
    }
}
