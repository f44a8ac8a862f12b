//! What the doctor saw, as plain values: no key is among them, whatever was looked at.

use crate::terminal::WatchMode;
use std::path::PathBuf;

/// Everything that was seen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) processor: Processor,
    pub(crate) memory: Option<Memory>,
    pub(crate) open_files_max: Option<u64>,
    pub(crate) gpu: Gpu,
    pub(crate) runs: Folder,
    /// In the order of the inputs.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The variable that names a proxy, if one is set.
    pub(crate) proxy_variable: Option<&'static str>,
    /// For each tokenizer what it makes of a sample, or why it cannot be used.
    pub(crate) tokenizers: Vec<Result<u64, String>>,
    /// For each model in this process its shape, or why it cannot be opened.
    pub(crate) models: Vec<Result<String, String>>,
    pub(crate) index: Option<Result<IndexSeen, String>>,
    pub(crate) corpus: Option<Result<CorpusSeen, String>>,
    pub(crate) terminal: Terminal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    /// The architecture, such as `x86_64`.
    pub(crate) architecture: &'static str,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// Vector instructions that it has, of those that matter here.
    pub(crate) vector: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) total_bytes: u64,
    pub(crate) available_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gpu {
    /// Device files of NVIDIA.
    pub(crate) devices: usize,
    /// Names of the cards, where the driver tells them.
    pub(crate) names: Vec<String>,
    /// The driver's version, where it tells it.
    pub(crate) driver: Option<String>,
    /// The driver's library.
    pub(crate) libcuda: Option<PathBuf>,
    /// The run-time compiler.
    pub(crate) nvrtc: Option<PathBuf>,
    /// The library of matrix products.
    pub(crate) cublaslt: Option<PathBuf>,
    /// The library by which cards talk to each other.
    pub(crate) nccl: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    /// The folder itself or the nearest one above it that exists.
    pub(crate) nearest: PathBuf,
    /// Whether it exists itself.
    pub(crate) exists: bool,
    /// Why nothing can be written there, if so.
    pub(crate) refused: Option<String>,
    /// Room for this user.
    pub(crate) free_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `host:port`, or why the URL names none.
    pub(crate) address: Result<String, String>,
    pub(crate) is_encrypted: bool,
    pub(crate) is_loopback: bool,
    /// Milliseconds until a connection stood, or why none did.
    pub(crate) connected: Result<u64, String>,
    pub(crate) key: Key,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    NotWanted,
    Present,
    /// Present, in a file that others may read.
    PresentForAll,
    Missing(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexSeen {
    pub(crate) documents: u64,
    pub(crate) corpus_digest: String,
    /// Values of a vector and where they come from.
    pub(crate) vectors: Option<(usize, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CorpusSeen {
    pub(crate) bytes: u64,
    /// None if it was not taken: there is no index to compare it with.
    pub(crate) digest: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) mode: WatchMode,
    pub(crate) term: Option<String>,
    pub(crate) size: Option<(u16, u16)>,
    pub(crate) has_utf8: bool,
}
