//! Which replica a request goes to. Requests of one session go where its pages are; a new session goes to the replica with
//! the fewest requests, and so does a request of no session. Where sessions are is a table and not a hash, since a hash knows
//! no load. Pure: how the replicas stand comes in.

use legwork_engine::SessionId;
use std::collections::{BTreeMap, HashMap};

/// Sessions whose replica is remembered; beyond it the one that was silent for longest is forgotten.
const SESSIONS_MAX: usize = 16_384;

/// How a replica stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It takes requests, and so many of its own have not ended.
    Up { asked: usize },
    /// It is made anew, or hangs: what it is given waits.
    Late { asked: usize },
    /// It is gone for good.
    Gone,
}

/// Where sessions are.
pub(super) struct Routing {
    homes: HashMap<SessionId, Home>,
    /// Sessions by when they last asked.
    by_turn: BTreeMap<u64, SessionId>,
    turn: u64,
    /// Sessions of each replica.
    sessions: Vec<usize>,
    sessions_max: usize,
}

#[derive(Clone, Copy)]
struct Home {
    replica: usize,
    turn: u64,
}

impl Routing {
    pub(super) fn new(replicas: usize) -> Self {
        Self::with_limit(replicas, SESSIONS_MAX)
    }

    fn with_limit(replicas: usize, sessions_max: usize) -> Self {
        let sessions = vec![0; replicas];
        Self { homes: HashMap::new(), by_turn: BTreeMap::new(), turn: 0, sessions, sessions_max }
    }

    /// The replica for a request; none if all are gone. A session leaves a replica that is late for one that is up, and stays
    /// there: the pages of a replica that failed are lost anyway.
    pub(super) fn choose(&mut self, session: Option<SessionId>, standings: &[Standing]) -> Option<usize> {
        let known = session.and_then(|session| self.homes.get(&session)).map(|home| home.replica);
        let others_up = standings.iter().any(|standing| matches!(standing, Standing::Up { .. }));
        let stays = known.filter(|replica| match standings[*replica] {
            Standing::Up { .. } => true,
            Standing::Late { .. } => !others_up,
            Standing::Gone => false,
        });
        let replica = match stays {
            Some(replica) => replica,
            None => self.least_busy(standings)?,
        };
        if let Some(session) = session {
            self.settle(session, replica);
        }
        Some(replica)
    }

    /// Who is up before who is late; then by requests, by sessions, by number.
    fn least_busy(&self, standings: &[Standing]) -> Option<usize> {
        let rank = |(replica, standing): (usize, &Standing)| match standing {
            Standing::Up { asked } => Some((false, *asked, self.sessions[replica], replica)),
            Standing::Late { asked } => Some((true, *asked, self.sessions[replica], replica)),
            Standing::Gone => None,
        };
        standings.iter().enumerate().filter_map(rank).min().map(|(.., replica)| replica)
    }

    fn settle(&mut self, session: SessionId, replica: usize) {
        self.forget(session);
        if self.homes.len() >= self.sessions_max
            && let Some((_, oldest)) = self.by_turn.first_key_value()
        {
            self.forget(*oldest);
        }
        self.turn += 1;
        self.homes.insert(session, Home { replica, turn: self.turn });
        self.by_turn.insert(self.turn, session);
        self.sessions[replica] += 1;
    }

    fn forget(&mut self, session: SessionId) {
        if let Some(home) = self.homes.remove(&session) {
            self.by_turn.remove(&home.turn);
            self.sessions[home.replica] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Standing::{Gone, Late, Up};

    fn up(asked: usize) -> Standing {
        Up { asked }
    }

    #[test]
    fn new_sessions_spread_and_known_ones_stay() {
        let mut routing = Routing::new(2);
        let idle = [up(0), up(0)];
        let homes: Vec<_> = (0..4).map(|name| routing.choose(Some(SessionId(name)), &idle)).collect();
        assert_eq!(homes, [Some(0), Some(1), Some(0), Some(1)], "at equal load by sessions, then by number");
        assert_eq!(routing.choose(Some(SessionId(0)), &[up(9), up(0)]), Some(0), "its pages are there");
        assert_eq!(routing.choose(Some(SessionId(9)), &[up(3), up(2)]), Some(1));
        assert_eq!(routing.choose(None, &[up(3), up(2)]), Some(1));
        assert_eq!(routing.choose(None, &[up(2), up(2)]), Some(0), "of no session: it has fewer");
    }

    #[test]
    fn a_session_leaves_who_is_late_only_if_another_is_up() {
        let mut routing = Routing::new(2);
        let session = Some(SessionId(1));
        assert_eq!(routing.choose(session, &[up(0), up(0)]), Some(0));
        let both_late = [Late { asked: 5 }, Late { asked: 0 }];
        assert_eq!(routing.choose(session, &both_late), Some(0), "nobody is better");
        assert_eq!(routing.choose(None, &both_late), Some(1));
        assert_eq!(routing.choose(session, &[Late { asked: 0 }, up(7)]), Some(1));
        assert_eq!(routing.choose(session, &[up(0), up(7)]), Some(1), "its pages are where it went");
        assert_eq!(routing.choose(session, &[Late { asked: 0 }, Gone]), Some(0));
        assert_eq!(routing.choose(session, &[Gone, Gone]), None);
        assert_eq!(routing.choose(None, &[Gone, Gone]), None);
    }

    proptest::proptest! {
        #[test]
        fn the_table_is_bounded_and_nobody_goes_to_who_is_gone(
            asks in proptest::collection::vec((0..12_u128, proptest::collection::vec(0..4_usize, 3)), 1..200)
        ) {
            let mut routing = Routing::with_limit(3, 5);
            let mut homes: BTreeMap<u128, usize> = BTreeMap::new();
            for (name, stand) in asks {
                let standings: Vec<_> = stand.iter().map(|n| match n { 0 => Gone, 1 => Late { asked: 1 }, n => up(*n) }).collect();
                let known = routing.homes.get(&SessionId(name)).map(|home| home.replica);
                let chosen = routing.choose(Some(SessionId(name)), &standings);
                match chosen {
                    None => assert!(standings.iter().all(|standing| *standing == Gone)),
                    Some(chosen) => {
                        assert!(standings[chosen] != Gone);
                        if let Some(known) = known.filter(|known| matches!(standings[*known], Up { .. })) {
                            assert_eq!((chosen, homes[&name]), (known, known), "a session stays");
                        }
                        homes.insert(name, chosen);
                    }
                }
                assert!(routing.homes.len() <= 5 && routing.homes.len() == routing.by_turn.len());
                let counted = |replica| routing.homes.values().filter(|home| home.replica == replica).count();
                assert!((0..3).all(|replica| routing.sessions[replica] == counted(replica)));
            }
        }
    }
}
