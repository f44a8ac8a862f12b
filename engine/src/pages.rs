//! The pages of one cache: which are free, which are held and how often, which full ones are known by name. It refuses to
//! know requests, sessions and what a page holds.
//!
//! A page is free; or held by one request that writes it, and has no name yet; or full and named, never written again, and
//! held by any number of requests, kept by sessions, or cached until its room is needed.

use crate::chain::Key;
use std::collections::{BTreeSet, HashMap};

/// The pages of one cache.
#[derive(Debug)]
pub(crate) struct Pages {
    pages: Vec<Page>,
    free: Vec<u32>,
    named: HashMap<Key, u32>,
    /// Named pages that nobody holds or keeps, by when they were last let go. A page is let go after those that follow it,
    /// so it stays longer, and what is cached always has its beginning cached.
    idle: BTreeSet<(u64, u32)>,
    clock: u64,
    held: usize,
    pinned: usize,
    evictions: u64,
}

#[derive(Debug, Default)]
struct Page {
    /// Requests that hold it.
    holders: u32,
    /// Sessions that keep it.
    pins: u32,
    /// Whether it is full, and never written again; with or without a name.
    full: bool,
    name: Option<Name>,
    idle_since: u64,
}

/// What a full page is known by, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) key: Key,
    pub(crate) parent: Key,
    pub(crate) tokens: Box<[u32]>,
}

/// What became of naming a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// It has the name now.
    Now,
    /// This other page has it and holds the same.
    Same(u32),
    /// Another page has the name and holds something else, so this one stays without.
    Taken,
}

impl Pages {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            pages: (0..count).map(|_| Page::default()).collect(),
            free: (0..count as u32).rev().collect(),
            named: HashMap::new(),
            idle: BTreeSet::new(),
            clock: 0,
            held: 0,
            pinned: 0,
            evictions: 0,
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Pages that requests hold; all others can be had.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Pages that sessions keep, held by requests or not.
    pub(crate) fn pinned(&self) -> usize {
        self.pinned
    }

    pub(crate) fn cached(&self) -> usize {
        self.idle.len()
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }

    pub(crate) fn is_held(&self, page: u32) -> bool {
        self.pages[page as usize].holders > 0
    }

    pub(crate) fn name(&self, page: u32) -> Option<&Name> {
        self.pages[page as usize].name.as_ref()
    }

    /// The page that holds these tokens after that parent. The key leads to it, the tokens prove it.
    pub(crate) fn find(&self, key: Key, parent: Key, tokens: &[u32]) -> Option<u32> {
        let page = *self.named.get(&key)?;
        let name = self.name(page)?;
        (name.parent == parent && *name.tokens == *tokens).then_some(page)
    }

    /// A free page, held by one request from now on; without a free one the page that has been idle longest.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            let (_, page) = *self.idle.first()?;
            self.evictions += 1;
            self.forget(page);
        }
        let page = self.free.pop()?;
        self.pages[page as usize] = Page { holders: 1, ..Page::default() };
        self.held += 1;
        Some(page)
    }

    /// One request more holds a named page.
    pub(crate) fn hold(&mut self, page: u32) {
        let entry = &mut self.pages[page as usize];
        self.idle.remove(&(entry.idle_since, page));
        self.held += usize::from(entry.holders == 0);
        entry.holders += 1;
    }

    /// One request less holds it. Pages of a sequence are let go from the last to the first.
    pub(crate) fn let_go(&mut self, page: u32) {
        let entry = &mut self.pages[page as usize];
        entry.holders -= 1;
        self.held -= usize::from(entry.holders == 0);
        self.settle(page);
    }

    /// One session more keeps a named page.
    pub(crate) fn pin(&mut self, page: u32) {
        let entry = &mut self.pages[page as usize];
        self.idle.remove(&(entry.idle_since, page));
        self.pinned += usize::from(entry.pins == 0);
        entry.pins += 1;
    }

    /// One session less keeps it. In the order of [`Pages::let_go`].
    pub(crate) fn unpin(&mut self, page: u32) {
        let entry = &mut self.pages[page as usize];
        entry.pins -= 1;
        self.pinned -= usize::from(entry.pins == 0);
        self.settle(page);
    }

    /// Names a full page that one request holds.
    pub(crate) fn give_name(&mut self, page: u32, name: Name) -> Named {
        if let Some(known) = self.named.get(&name.key) {
            return match self.find(name.key, name.parent, &name.tokens) {
                Some(same) => Named::Same(same),
                None if *known == page => Named::Now,
                None => Named::Taken,
            };
        }
        self.named.insert(name.key, page);
        let entry = &mut self.pages[page as usize];
        (entry.name, entry.full) = (Some(name), true);
        Named::Now
    }

    /// Nobody finds this page any more; whoever holds it keeps it. No session may keep it.
    pub(crate) fn forget(&mut self, page: u32) {
        let entry = &mut self.pages[page as usize];
        self.idle.remove(&(entry.idle_since, page));
        if let Some(name) = entry.name.take() {
            self.named.remove(&name.key);
            if entry.holders == 0 {
                self.free.push(page);
            }
        }
    }

    /// Puts a page that nobody holds or keeps where it belongs.
    fn settle(&mut self, page: u32) {
        let entry = &mut self.pages[page as usize];
        if entry.holders > 0 || entry.pins > 0 {
            return;
        }
        if entry.name.is_none() {
            self.free.push(page);
            return;
        }
        self.clock += 1;
        entry.idle_since = self.clock;
        self.idle.insert((self.clock, page));
    }

    /// Counts everything anew, given what each request holds and each session keeps, and compares: each page in exactly
    /// one place, none lost, none twice, none written by two.
    pub(crate) fn audit(&self, held: &[&[u32]], kept: &[&[u32]]) -> Result<(), String> {
        let count = |lists: &[&[u32]]| {
            let mut counts = vec![0u32; self.pages.len()];
            lists.iter().flat_map(|list| list.iter()).for_each(|page| counts[*page as usize] += 1);
            counts
        };
        let (holders, pins) = (count(held), count(kept));
        let free: BTreeSet<u32> = self.free.iter().copied().collect();
        if free.len() != self.free.len() {
            return Err("a page is free twice".to_owned());
        }
        for (page, entry) in self.pages.iter().enumerate() {
            let (number, named) = (page as u32, entry.name.is_some());
            let told = |what: &str| Err(format!("page {page} {what}: {entry:?}"));
            if (entry.holders, entry.pins) != (holders[page], pins[page]) {
                return told(&format!("is held {} and kept {} times", holders[page], pins[page]));
            }
            if entry.holders > 1 && !entry.full {
                return told("is written by two");
            }
            if entry.pins > 0 && !named {
                return told("is kept without a name");
            }
            if named && entry.name.as_ref().and_then(|name| self.named.get(&name.key)) != Some(&number) {
                return told("is not found by its name");
            }
            let nobody = entry.holders == 0 && entry.pins == 0;
            let idle = self.idle.contains(&(entry.idle_since, number));
            if free.contains(&number) != (nobody && !named) || idle != (nobody && named) {
                return told(&format!("is free {} and idle {idle}", free.contains(&number)));
            }
        }
        let named = self.pages.iter().filter(|page| page.name.is_some()).count();
        let idle = self.pages.iter().filter(|page| page.name.is_some() && page.holders == 0 && page.pins == 0).count();
        let sums = (
            self.pages.iter().filter(|page| page.holders > 0).count(),
            self.pages.iter().filter(|page| page.pins > 0).count(),
        );
        if named != self.named.len() || idle != self.idle.len() || sums != (self.held, self.pinned) {
            return Err(format!(
                "{named} names, {idle} idle, {sums:?} held and pinned do not match what is kept of them"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
