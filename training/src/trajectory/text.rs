//! A row of plain text: a document as it stands, to learn a language from. Every token but the first is in the loss. The fields
//! are those of a corpus, so that a corpus is a file of such rows.

use super::Metadata;
use crate::jsonl::{Fault, Row};
use serde::{Deserialize, Serialize};

/// A row of plain text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextRow {
    /// The document's id; not learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub docid: Option<String>,
    /// Its title, which is learned as a line before the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its address; not learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The text.
    pub text: String,
    /// Where the row comes from.
    #[serde(default)]
    pub metadata: Metadata,
}

impl TextRow {
    /// What is learned of it.
    pub fn learned(&self) -> String {
        match self.title.as_deref() {
            Some(title) if !title.is_empty() => format!("{title}\n{}", self.text),
            _ => self.text.clone(),
        }
    }
}

impl Row for TextRow {
    const WHAT: &'static str = "a row of plain text {text, title?, docid?, url?, metadata?}";

    fn check(&self) -> Result<(), Fault> {
        if self.text.trim().is_empty() {
            return Err(Fault::new("text", "is empty: leave the row out"));
        }
        Ok(())
    }
}
