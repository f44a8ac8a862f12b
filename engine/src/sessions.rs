//! Which pages paused sessions keep, and which session has been away longest. It refuses to know what keeping means.

use crate::request::SessionId;
use std::collections::BTreeMap;

/// Paused sessions and their pages, each from the first of its sequence to the last.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    kept: BTreeMap<SessionId, Session>,
    clock: u64,
}

#[derive(Debug)]
struct Session {
    pages: Vec<u32>,
    used: u64,
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Replaces what a session keeps and gives what it kept before.
    pub(crate) fn keep(&mut self, session: SessionId, pages: Vec<u32>) -> Vec<u32> {
        self.clock += 1;
        let before = match pages.is_empty() {
            true => self.kept.remove(&session),
            false => self.kept.insert(session, Session { pages, used: self.clock }),
        };
        before.map(|before| before.pages).unwrap_or_default()
    }

    /// A session has come back.
    pub(crate) fn touch(&mut self, session: SessionId) {
        self.clock += 1;
        if let Some(kept) = self.kept.get_mut(&session) {
            kept.used = self.clock;
        }
    }

    /// The session that has been away longest, of those with a page that suits.
    pub(crate) fn longest_away(&self, suits: impl Fn(u32) -> bool) -> Option<SessionId> {
        let suiting = self.kept.iter().filter(|(_, kept)| kept.pages.iter().any(|page| suits(*page)));
        suiting.min_by_key(|(_, kept)| kept.used).map(|(session, _)| *session)
    }

    /// Takes pages away from all sessions that keep them; each page comes once for each session that kept it.
    pub(crate) fn take_away(&mut self, unwanted: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let mut taken = Vec::new();
        for kept in self.kept.values_mut() {
            let (gone, stay) = kept.pages.iter().partition(|page| unwanted(**page));
            kept.pages = stay;
            taken.extend::<Vec<u32>>(gone);
        }
        self.kept.retain(|_, kept| !kept.pages.is_empty());
        taken
    }

    /// What each keeps.
    pub(crate) fn pages(&self) -> Vec<&[u32]> {
        self.kept.values().map(|kept| kept.pages.as_slice()).collect()
    }
}
