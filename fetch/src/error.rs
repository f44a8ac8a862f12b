//! What can go wrong on the way from the hub to the disk. No message holds a token or a signed address.

use std::path::PathBuf;

/// What can go wrong on the way from the hub to the disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// A reference that is none.
    #[error("expected {expected}, got {got:?}; write hf:OWNER/NAME, hf:OWNER/NAME@REVISION or hf:datasets/OWNER/NAME")]
    Reference {
        /// What it must be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
    /// A setting that is none.
    #[error("expected {expected} for `{name}`, got {got}; mend it or leave it out")]
    Setting {
        /// The variable.
        name: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
    /// The hub has no such thing, or shows it to nobody without a token.
    #[error("the hub has no {what}; check the spelling{}", if *with_token { "" } else { ", or set HF_TOKEN if it is private" })]
    NotFound {
        /// The repository, the revision or the file.
        what: String,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// A gated repository, or a token that does not open it.
    #[error("the hub does not give {what} away (HTTP {status}): {detail}; accept its licence at {page} and set HF_TOKEN to a token of that account{}", if *with_token { " (the one that is set does not open it)" } else { "" })]
    Gated {
        /// The repository.
        what: String,
        /// 401 or 403.
        status: u16,
        /// What the hub said.
        detail: String,
        /// The page to go to.
        page: String,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// Not in the cache, and no network to get it by.
    #[error("{what} is not whole in the cache {}, and {why}; missing: {}", cache.display(), missing.join(", "))]
    NotCached {
        /// The repository with its revision.
        what: String,
        /// The cache.
        cache: PathBuf,
        /// Why the hub was not asked, or did not answer.
        why: String,
        /// What is missing.
        missing: Vec<String>,
    },
    /// The hub, or the place it points to, did not answer, however often it was asked.
    #[error("{what} cannot be fetched after {tries} tries: {detail}; try again later, what is here already is kept")]
    Unreachable {
        /// What was asked for.
        what: String,
        /// How often.
        tries: u32,
        /// The last failure.
        detail: String,
    },
    /// The hub wants a longer pause than is waited.
    #[error(
        "the hub wants a pause of {wait_s} s before {what}, which is more than {most_s} s; try again later or set HF_TOKEN"
    )]
    Busy {
        /// What was asked for.
        what: String,
        /// The pause.
        wait_s: u64,
        /// The longest that is waited.
        most_s: u64,
    },
    /// The hub refused, or answered with what cannot be used.
    #[error("the hub's answer about {what} cannot be used: {detail}; try again, or name another revision")]
    Answer {
        /// What was asked for.
        what: String,
        /// Why.
        detail: String,
    },
    /// Bytes that are not those of the file.
    #[error("expected {file} with the digest {expected}, got {got}; it was thrown away, fetch again")]
    Digest {
        /// The file.
        file: String,
        /// As the hub says it.
        expected: String,
        /// Of what came.
        got: String,
    },
    /// Nothing of it is wanted, or too much could be.
    #[error("{detail}")]
    Choice {
        /// What is there, and how to choose.
        detail: String,
    },
    /// A pickle, which can run code when it is read.
    #[error("{file} is a pickle, which can run code when it is read; choose safetensors or GGUF, or another revision")]
    Pickle {
        /// The file.
        file: String,
    },
    /// Too little room.
    #[error("expected {need} bytes free at {}, got {free}; make room, or set HF_HOME to a larger disk", path.display())]
    Disk {
        /// The cache.
        path: PathBuf,
        /// Bytes to come, and a margin.
        need: u64,
        /// Bytes free.
        free: u64,
    },
    /// Another process is at the same file.
    #[error("another process is fetching {file} ({}); wait for it", lock.display())]
    Locked {
        /// The file.
        file: String,
        /// The lock.
        lock: PathBuf,
    },
    /// The disk refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl FetchError {
    /// For `map_err` on what the disk refuses.
    pub(crate) fn io(doing: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| FetchError::Io { doing, path, source }
    }
}
