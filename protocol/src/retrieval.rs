//! What a worker asks of a retriever and what comes back, whatever stands behind it.

use crate::id::DocId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One document found, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The document.
    pub docid: DocId,
    /// Its address, where the corpus has one.
    #[serde(default)]
    pub url: Option<String>,
    /// Its title, where the corpus has one.
    #[serde(default)]
    pub title: Option<String>,
    /// The text from which a snippet is cut.
    pub text: Arc<str>,
    /// Higher is better; only comparable within one answer.
    pub score: f64,
}

/// A whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// The document.
    pub docid: DocId,
    /// Its address, where the corpus has one.
    #[serde(default)]
    pub url: Option<String>,
    /// Its title, where the corpus has one.
    #[serde(default)]
    pub title: Option<String>,
    /// The whole text.
    pub text: Arc<str>,
}

/// What to open.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageRef {
    /// By document id.
    DocId(DocId),
    /// By address.
    Url(String),
}

/// A retriever's answer to a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchAnswer {
    /// Best first.
    pub hits: Vec<Hit>,
    /// Set when a part of the retriever was down and the rest answered alone.
    #[serde(default)]
    pub degraded: bool,
    /// Time being served, in milliseconds.
    #[serde(default)]
    pub served_ms: u64,
}
