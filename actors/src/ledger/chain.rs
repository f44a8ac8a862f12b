//! The chain over a run's records: each link is a digest over the one before and the record, the first over the
//! manifest. Whoever changes, drops or adds a record breaks it from there on.

use legwork_protocol::id::Scope;

/// A digest over everything up to a record.
pub type Link = [u8; 32];

/// The chain as far as it goes.
#[derive(Clone, Debug)]
pub struct Chain {
    last: Link,
}

impl Chain {
    /// The chain's beginning: the manifest's text.
    pub fn over_manifest(manifest: &str) -> Self {
        Self { last: *blake3::hash(manifest.as_bytes()).as_bytes() }
    }

    /// A chain that goes on after `last`.
    pub fn after(last: Link) -> Self {
        Self { last }
    }

    /// The last link.
    pub fn last(&self) -> Link {
        self.last
    }

    /// Adds a record and returns its link.
    pub fn add(
        &mut self,
        episode: i64,
        scope: Scope,
        seq: u32,
        at_ms: u64,
        body: &[u8],
        effect: Option<&[u8]>,
    ) -> Link {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.last);
        hasher.update(&episode.to_le_bytes());
        hasher.update(&scope_code(scope).to_le_bytes());
        hasher.update(&seq.to_le_bytes());
        hasher.update(&at_ms.to_le_bytes());
        hasher.update(&(body.len() as u64).to_le_bytes());
        hasher.update(body);
        hasher.update(effect.unwrap_or_default());
        self.last = *hasher.finalize().as_bytes();
        self.last
    }
}

/// A scope as a number: episode 0, coordinator 1, worker n 2 + n.
pub(super) fn scope_code(scope: Scope) -> i64 {
    match scope {
        Scope::Episode => 0,
        Scope::Coordinator => 1,
        Scope::Worker(index) => 2 + i64::from(index),
    }
}

/// The scope of a number, if it is one.
pub(super) fn scope_of(code: i64) -> Option<Scope> {
    match code {
        0 => Some(Scope::Episode),
        1 => Some(Scope::Coordinator),
        code => u32::try_from(code - 2).ok().map(Scope::Worker),
    }
}
