//! The worker's tools as a pure unit: calls in, lookups out; answers in, an observation out.
//! It knows what search, open_page and finish say to a model and keeps what the model has seen; it
//! refuses to know who answers a lookup, how long that takes, and whether an answer is right.

#[cfg(test)]
mod golden;
mod notice;
mod observe;
mod step;
#[cfg(test)]
mod tests;
mod words;

pub use step::LOOKUPS_MAX;
pub use words::PAGE_CHARS_MAX;

use crate::call::{Call, Reading};
use crate::failure::Failure;
use crate::id::DocId;
use crate::profile::{ToolSettings, ToolStyle};
use crate::retrieval::{Page, PageRef, SearchAnswer};
use crate::untrusted::ControlTokens;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use step::steps;

/// What must be asked of a retriever before a turn can be observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lookup {
    /// Documents for a query.
    Search {
        /// The query as the model wrote it.
        query: String,
        /// Hits to ask for.
        k: u32,
    },
    /// One document.
    Open(PageRef),
}

/// The answer to one lookup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupAnswer {
    /// To a search.
    Found(SearchAnswer),
    /// To an open; none if there is no such document.
    Page(Option<Page>),
    /// The retriever failed.
    Failed(Failure),
}

/// What the worker ended with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    /// The answer; blank where the settings blank it.
    pub answer: String,
    /// The report beside it.
    #[serde(default)]
    pub explanation: Option<String>,
    /// 0 to 100, as the worker said.
    #[serde(default)]
    pub confidence: Option<f64>,
}

/// What one turn's calls came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The observation, as the model reads it.
    pub text: String,
    /// Documents that a search showed for the first time, in order.
    pub shown: Vec<DocId>,
    /// Documents opened, in order.
    pub opened: Vec<DocId>,
    /// All documents that searches showed this time, in order.
    pub listed: Vec<DocId>,
    /// Searches answered.
    pub searches: u32,
    /// Pages opened.
    pub opens: u32,
    /// Search answers given by a part of the retriever only.
    pub degraded: u32,
    /// The end, if this turn brought it.
    pub finish: Option<Finish>,
    /// The turn held no call that could be read.
    pub malformed: bool,
    /// Calls that repeat an earlier one word for word.
    pub repeated: u32,
    /// A finish was refused because nothing had been searched.
    #[serde(default)]
    pub finish_refused: bool,
}

/// The tools of one worker and what it has seen through them.
#[derive(Clone, Debug)]
pub struct Environment {
    settings: ToolSettings,
    control: ControlTokens,
    label: Option<String>,
    seen: BTreeSet<DocId>,
    made: BTreeSet<CallDigest>,
    search_calls: u32,
    searches: u32,
    opens: u32,
    finish_refused: bool,
}

/// A digest of a call, by which a repetition is noticed without keeping the call.
type CallDigest = [u8; 16];

impl Environment {
    /// Tools that have shown nothing yet.
    pub fn new(settings: ToolSettings) -> Self {
        Self {
            settings,
            control: ControlTokens::default(),
            label: None,
            seen: BTreeSet::new(),
            made: BTreeSet::new(),
            search_calls: 0,
            searches: 0,
            opens: 0,
            finish_refused: false,
        }
    }

    /// With the control strings of the very model that will read the observations.
    pub fn with_control_tokens(mut self, control: ControlTokens) -> Self {
        self.control = control;
        self
    }

    /// With the gold answer, which FoldAgent's environment knows: it refuses a finish without a search only
    /// if the answer is right, and asks for each `<qN>` of a label that has several.
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// What to look up for these calls, in order. Nothing follows a finish.
    pub fn plan(&self, reading: &Reading) -> Vec<Lookup> {
        steps(&self.settings, reading).iter().filter_map(|step| step.lookup(self.settings.server_k)).collect()
    }

    /// What the model reads, given the answers to [`Environment::plan`] in its order. Lookups without an
    /// answer count as not carried out.
    pub fn observe(&self, reading: &Reading, answers: &[LookupAnswer]) -> Observed {
        observe::observe(self, reading, answers)
    }

    /// Takes an observation into account.
    pub fn absorb(&mut self, reading: &Reading, observed: &Observed) {
        self.seen.extend(observed.listed.iter().cloned());
        if self.settings.style == ToolStyle::Plain {
            self.seen.extend(observed.opened.iter().cloned());
        }
        self.made.extend(reading.calls.iter().filter(|call| call.name != "finish").map(digest));
        let calls = steps(&self.settings, reading).iter().filter(|step| step.is_search()).count();
        self.search_calls = self.search_calls.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
        self.searches = self.searches.saturating_add(observed.searches);
        self.opens = self.opens.saturating_add(observed.opens);
        self.finish_refused |= observed.finish_refused;
    }

    /// Searches answered so far.
    pub fn searches(&self) -> u32 {
        self.searches
    }

    /// Pages opened so far.
    pub fn opens(&self) -> u32 {
        self.opens
    }

    /// Documents seen so far: shown by a search or, in the plain style, opened.
    pub fn seen(&self) -> impl Iterator<Item = &DocId> {
        self.seen.iter()
    }

    /// The settings in force.
    pub fn settings(&self) -> &ToolSettings {
        &self.settings
    }
}

fn digest(call: &Call) -> CallDigest {
    let mut hasher = blake3::Hasher::new();
    let parts = call.arguments.iter().flat_map(|(key, value)| [key, value]);
    for part in std::iter::once(&call.name).chain(parts) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut digest = CallDigest::default();
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}
