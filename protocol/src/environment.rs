//! The worker's tools as a pure unit: calls in, lookups out; answers in, an observation out.
//! It knows what search, open_page and finish say to a model and keeps what the model has seen; it
//! refuses to know who answers a lookup, how long that takes, and whether an answer is right.

use crate::call::Reading;
use crate::failure::Failure;
use crate::id::DocId;
use crate::profile::ToolSettings;
use crate::retrieval::{Page, PageRef, SearchAnswer};
use serde::{Deserialize, Serialize};

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
}

impl Environment {
    /// Tools that have shown nothing yet.
    pub fn new(settings: ToolSettings) -> Self {
        Self { settings }
    }

    /// What to look up for these calls, in order.
    pub fn plan(&self, _reading: &Reading) -> Vec<Lookup> {
        Vec::new()
    }

    /// What the model reads, given the answers to [`Environment::plan`] in its order.
    pub fn observe(&self, _reading: &Reading, _answers: &[LookupAnswer]) -> Observed {
        Observed::default()
    }

    /// Takes an observation into account.
    pub fn absorb(&mut self, _reading: &Reading, _observed: &Observed) {}

    /// Searches answered so far.
    pub fn searches(&self) -> u32 {
        0
    }

    /// Pages opened so far.
    pub fn opens(&self) -> u32 {
        0
    }

    /// The settings in force.
    pub fn settings(&self) -> &ToolSettings {
        &self.settings
    }
}
