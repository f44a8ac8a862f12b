//! Where a report's records come from, as its reader sees it: strings only. Refuses to know how a
//! digest is made or what a profile holds.

use serde::{Deserialize, Serialize};

/// Printed prominently in every format when a worker was a mock.
pub const MOCK_NOTICE: &str = "MOCK WORKER — these are not model scores";

/// The origin of one run's records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// What the report is called, or, of two runs, what this one is called.
    pub title: String,
    /// The run's id.
    pub run_id: String,
    /// The profile's name.
    pub profile: String,
    /// The manifest's digests, in its order.
    pub digests: Vec<Digest>,
    /// Whether a mock played the worker.
    pub mock: bool,
}

impl Provenance {
    /// The digest of that name.
    pub fn digest(&self, name: &str) -> Option<&str> {
        self.digests.iter().find(|digest| digest.name == name).map(|digest| digest.digest.as_str())
    }
}

/// A named digest of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// What was hashed, such as `corpus`.
    pub name: String,
    /// The hash as the manifest writes it.
    pub digest: String,
}

impl Digest {
    /// A digest of that name.
    pub fn new(name: impl Into<String>, digest: impl Into<String>) -> Self {
        Self { name: name.into(), digest: digest.into() }
    }
}
