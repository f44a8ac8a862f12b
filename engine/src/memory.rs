//! All that remembers: the pages of the cache, what paused sessions keep of them, and host memory behind. When a page is
//! needed, it comes from the free ones, then from the longest idle cached one, then from the session that has been away
//! longest, whose pages are copied to host memory first. It refuses to know requests.

use crate::chain::{Key, ROOT, chain};
use crate::gauges::Gauges;
use crate::host::Host;
use crate::limits::EngineLimits;
use crate::pages::{Name, Named, Pages};
use crate::request::SessionId;
use crate::sessions::Sessions;
use legwork_kernels::PAGE_TOKENS;
use legwork_model::Forward;
use std::collections::BTreeSet;

/// All that remembers.
#[derive(Debug)]
pub(crate) struct Memory {
    pages: Pages,
    sessions: Sessions,
    host: Host,
    shares: bool,
    pinned_max: usize,
    sessions_max: usize,
    offloaded: u64,
    failed_copies: u64,
}

impl Memory {
    pub(crate) fn new(pages: usize, limits: &EngineLimits) -> Self {
        Self {
            pages: Pages::new(pages),
            sessions: Sessions::default(),
            host: Host::new(limits.host_bytes_max),
            shares: limits.prefix_cache,
            pinned_max: limits.pinned_pages_max,
            sessions_max: limits.sessions_max,
            offloaded: 0,
            failed_copies: 0,
        }
    }

    /// Pages in all.
    pub(crate) fn total(&self) -> usize {
        self.pages.total()
    }

    /// Pages that no request holds: all of them can be had.
    pub(crate) fn available(&self) -> usize {
        self.pages.total() - self.pages.held()
    }

    /// Whether a request holds this page, which then does not count as available.
    pub(crate) fn is_held(&self, page: u32) -> bool {
        self.pages.is_held(page)
    }

    /// Extends the names of full pages to all full pages of these tokens.
    pub(crate) fn name_all(&self, tokens: &[u32], keys: &mut Vec<Key>) {
        if !self.shares {
            return;
        }
        let mut parent = keys.last().copied().unwrap_or(ROOT);
        for page in tokens.chunks_exact(PAGE_TOKENS).skip(keys.len()) {
            parent = chain(parent, page);
            keys.push(parent);
        }
    }

    /// The page of the cache with these tokens; not held yet.
    pub(crate) fn find(&self, key: Key, parent: Key, tokens: &[u32]) -> Option<u32> {
        self.pages.find(key, parent, tokens)
    }

    /// One request more holds a page.
    pub(crate) fn hold(&mut self, page: u32) {
        self.pages.hold(page);
    }

    /// A page to write to.
    pub(crate) fn take(&mut self, model: &mut impl Forward) -> Option<u32> {
        loop {
            if let Some(page) = self.pages.take() {
                return Some(page);
            }
            let away = self.sessions.longest_away(|page| !self.pages.is_held(page))?;
            self.send_away(away, model);
        }
    }

    /// A page with these tokens from host memory, held by one request; `None` when it is not there or cannot be brought
    /// back.
    pub(crate) fn restore(&mut self, model: &mut impl Forward, key: Key, parent: Key, tokens: &[u32]) -> Option<u32> {
        self.host.find(key, parent, tokens)?;
        let page = self.take(model)?;
        // Taking the page may have sent others to host memory, and this one out of it.
        let loaded = self.host.find(key, parent, tokens).map(|bytes| model.load_pages(&[page], bytes));
        if let Some(Err(_)) = loaded {
            self.failed_copies += 1;
            self.host.drop_page(key);
        }
        let name = Name { key, parent, tokens: tokens.into() };
        match loaded {
            Some(Ok(())) if self.pages.give_name(page, name) == Named::Now => Some(page),
            _ => {
                self.pages.let_go(page);
                None
            }
        }
    }

    /// Names a page that has become full; gives the page that the request holds instead, when it was known already.
    pub(crate) fn share(&mut self, page: u32, key: Key, parent: Key, tokens: &[u32]) -> u32 {
        match self.pages.give_name(page, Name { key, parent, tokens: tokens.into() }) {
            Named::Same(known) if known != page => {
                self.pages.hold(known);
                self.pages.let_go(page);
                known
            }
            _ => page,
        }
    }

    /// A request ends or is set back: it lets go of its pages.
    pub(crate) fn let_go(&mut self, pages: &[u32]) {
        pages.iter().rev().for_each(|page| self.pages.let_go(*page));
    }

    /// A session keeps the named ones at the beginning of these pages, and no others any more.
    pub(crate) fn keep(&mut self, session: SessionId, pages: &[u32], model: &mut impl Forward) {
        if !self.shares {
            return;
        }
        let named = pages.iter().take_while(|page| self.pages.name(**page).is_some()).copied().collect::<Vec<_>>();
        named.iter().for_each(|page| self.pages.pin(*page));
        let before = self.sessions.keep(session, named);
        before.iter().rev().for_each(|page| self.pages.unpin(*page));
        while self.pages.pinned() > self.pinned_max || self.sessions.len() > self.sessions_max {
            let Some(away) = self.sessions.longest_away(|_| true) else { break };
            self.send_away(away, model);
        }
    }

    /// A session has come back.
    pub(crate) fn touch(&mut self, session: SessionId) {
        self.sessions.touch(session);
    }

    /// A session will not come back.
    pub(crate) fn release(&mut self, session: SessionId) {
        let pages = self.sessions.keep(session, Vec::new());
        pages.iter().rev().for_each(|page| self.pages.unpin(*page));
        self.host.release(session);
    }

    /// Nobody finds these pages any more: they hold nothing that may be used.
    pub(crate) fn forget(&mut self, unusable: &BTreeSet<u32>) {
        for page in self.sessions.take_away(&|page| unusable.contains(&page)) {
            self.pages.unpin(page);
        }
        unusable.iter().for_each(|page| self.pages.forget(*page));
    }

    /// As [`Memory::forget`], and their copies in host memory are given up too, which may hold the same.
    pub(crate) fn forget_copies_too(&mut self, unusable: &BTreeSet<u32>) {
        for key in unusable.iter().filter_map(|page| self.pages.name(*page).map(|name| name.key)) {
            self.host.drop_page(key);
        }
        self.forget(unusable);
    }

    /// Nothing that is remembered may be used any more. No request may hold a page.
    pub(crate) fn forget_all(&mut self) {
        self.forget(&(0..self.pages.total() as u32).collect());
        self.host.clear();
    }

    /// Copies what a session keeps to host memory, the last page first so that the first is given up last, and leaves its
    /// pages to whoever needs them.
    fn send_away(&mut self, session: SessionId, model: &mut impl Forward) {
        let pages = self.sessions.keep(session, Vec::new());
        for page in pages.iter().rev() {
            let name = self.pages.name(*page).cloned();
            if let Some(name) = name.filter(|name| !self.host.is_off() && !self.host.claim(name, session)) {
                match model.save_pages(&[*page]) {
                    Ok(bytes) => self.offloaded += u64::from(self.host.put(name, bytes, session)),
                    Err(_) => self.failed_copies += 1,
                }
            }
            self.pages.unpin(*page);
        }
    }

    /// Adds what it knows.
    pub(crate) fn tell(&self, gauges: &mut Gauges) {
        gauges.pages = self.pages.total();
        gauges.pages_free = self.pages.free();
        gauges.pages_held = self.pages.held();
        gauges.pages_cached = self.pages.cached();
        gauges.pages_pinned = gauges.pages - gauges.pages_free - gauges.pages_held - gauges.pages_cached;
        gauges.sessions = self.sessions.len();
        gauges.host_bytes = self.host.bytes();
        gauges.evictions = self.pages.evictions();
        gauges.offloaded_pages = self.offloaded;
        gauges.host_evictions = self.host.evictions();
        gauges.failed_copies = self.failed_copies;
    }

    /// Whether everything is accounted for, given what each request holds.
    pub(crate) fn audit(&self, held: &[&[u32]]) -> Result<(), String> {
        self.pages.audit(held, &self.sessions.pages())?;
        self.host.audit()
    }
}
