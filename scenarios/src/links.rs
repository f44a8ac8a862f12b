//! What stands between actors so that faults can strike: a proxy before each shared actor, which may die, hang, and
//! hold replies up; and a postman before each episode, who may lose or repeat what its children tell it. Neither side
//! can tell.

mod interposed;
mod own;
mod postman;
mod proxy;

use crate::desk::{Desk, Occasion};
use crate::fault::{Harm, Link, Player};
use crate::probe::Probe;
use legwork_actors::address::{Reply, reply};
use legwork_actors::cast::Cast;
use std::sync::Arc;
use std::time::Duration;

/// Who is overtaken waits at most so long if nobody comes and the fault names no time.
pub(crate) const OVERTAKEN_AFTER: Duration = Duration::from_millis(200);

/// Puts a proxy or a postman before each role of a cast for which the desk has a fault in store.
pub fn interpose(cast: Cast, desk: &Arc<Desk>, probe: &Arc<Probe>) -> Cast {
    let needed = |player: Player, link: Option<Link>| {
        desk.watches(Occasion::Message(player)) || link.is_some_and(|link| desk.watches(Occasion::Reply(link)))
    };
    let told = desk.watches(Occasion::Reply(Link::Report))
        || desk.watches(Occasion::Durable(Player::Worker))
        || desk.watches(Occasion::Durable(Player::Episode));
    let decides = desk.watches(Occasion::Reply(Link::Decision))
        || desk.watches(Occasion::Durable(Player::Coordinator))
        || desk.watches(Occasion::Durable(Player::Episode));
    Cast {
        coordinator: if decides { own::coordinator(cast.coordinator, desk) } else { cast.coordinator },
        worker: if told { own::worker(cast.worker, desk) } else { cast.worker },
        retriever: if needed(Player::Retriever, Some(Link::Retriever)) {
            proxy::shared(cast.retriever, Player::Retriever, desk)
        } else {
            cast.retriever
        },
        grader: if needed(Player::Grader, Some(Link::Grader)) {
            proxy::shared(cast.grader, Player::Grader, desk)
        } else {
            cast.grader
        },
        gate: if needed(Player::Gate, Some(Link::Gate)) {
            proxy::shared(cast.gate, Player::Gate, desk)
        } else {
            cast.gate
        },
        inference: if needed(Player::Inference, Some(Link::Inference)) {
            proxy::shared(cast.inference, Player::Inference, desk)
        } else {
            cast.inference
        },
        // Always: the probe must see what was acknowledged.
        ledger: proxy::ledger(cast.ledger, desk, probe),
        board: if needed(Player::Board, None) { proxy::shared(cast.board, Player::Board, desk) } else { cast.board },
    }
}

/// Puts faults in the way of a reply that is owed. `witness`, if there is one, sees the answer first, and also if
/// nobody waits for it any more.
pub(crate) fn interposed<T, W>(mut owed_to: Reply<T>, link: Link, desk: &Arc<Desk>, witness: Option<W>) -> Reply<T>
where
    T: Send + 'static,
    W: FnOnce(&T) + Send + 'static,
{
    let (inner, mut owed) = reply();
    let desk = Arc::clone(desk);
    tokio::spawn(async move {
        let answer = tokio::select! {
            biased;
            () = owed_to.abandoned() => {
                // The asker has gone: dropping `owed` tells whoever works on the answer, unless somebody else looks.
                if let Some(witness) = witness
                    && let Ok(answer) = (&mut owed).await
                {
                    witness(&answer);
                }
                return;
            }
            answer = &mut owed => match answer {
                Ok(answer) => answer,
                Err(_nobody_answers) => return,
            },
        };
        if let Some(witness) = witness {
            witness(&answer);
        }
        for fault in desk.strike(Occasion::Reply(link)) {
            match fault.harm {
                Harm::Lose(_) => return owed_to.abandoned().await,
                Harm::Delay(_) | Harm::Reorder(_) => {
                    let takes = Duration::from_millis(fault.ms);
                    let late = async {
                        if matches!(fault.harm, Harm::Reorder(_)) {
                            desk.until_overtaken(link, OVERTAKEN_AFTER.max(takes)).await;
                        } else {
                            tokio::time::sleep(takes).await;
                        }
                    };
                    tokio::select! {
                        biased;
                        () = owed_to.abandoned() => return,
                        () = late => {}
                    }
                }
                _ => {}
            }
        }
        owed_to.send(answer);
        desk.passes(link);
    });
    inner
}
