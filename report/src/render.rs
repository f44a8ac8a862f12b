//! From a report to bytes that somebody reads: text, Markdown, JSON, HTML. All four come from the same
//! structs. Refuses to know where the bytes go.

pub mod html;
pub mod json;
pub mod markdown;
pub mod text;
pub mod visible;

use crate::agreement::Agreement;
use crate::compare::Comparison;
use crate::divergence::Divergences;
use crate::document::{Document, of_agreement, of_comparison, of_divergence, of_summary};
use crate::error::ReportError;
use crate::provenance::Provenance;
use crate::summary::Summary;
use serde::Serialize;

/// Sections of a brief.
const BRIEF_SECTIONS: usize = 2;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for a terminal.
    Text(Charset),
    /// The facts and the first two sections of [`Format::Text`]: what one looks for when a run has ended.
    Brief(Charset),
    /// GitHub's dialect.
    Markdown,
    /// One object; its shape is [`json::Envelope`].
    Json,
    /// One self-contained file.
    Html,
}

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Anything printable.
    Unicode,
    /// Bytes 32 to 126 and line feeds only.
    Ascii,
}

/// What can be rendered.
pub trait Reportable: Serialize {
    /// What JSON calls it.
    const KIND: &'static str;

    /// Its layout for people.
    fn document(&self, provenance: &[Provenance]) -> Document;
}

impl Reportable for Summary {
    const KIND: &'static str = "summary";

    fn document(&self, provenance: &[Provenance]) -> Document {
        of_summary::document(self, provenance)
    }
}

impl Reportable for Comparison {
    const KIND: &'static str = "comparison";

    fn document(&self, provenance: &[Provenance]) -> Document {
        of_comparison::document(self, provenance)
    }
}

impl Reportable for Agreement {
    const KIND: &'static str = "agreement";

    fn document(&self, provenance: &[Provenance]) -> Document {
        of_agreement::document(self, provenance)
    }
}

impl Reportable for Divergences {
    const KIND: &'static str = "divergences";

    fn document(&self, provenance: &[Provenance]) -> Document {
        of_divergence::document(self, provenance)
    }
}

/// Renders a report about the runs of `provenance`: one for a summary or an agreement, for
/// a comparison the two in its order.
pub fn render<R: Reportable>(report: &R, provenance: &[Provenance], format: Format) -> Result<String, ReportError> {
    match format {
        Format::Text(charset) => Ok(text::render(&report.document(provenance), charset)),
        Format::Brief(charset) => {
            let mut document = report.document(provenance);
            document.sections.truncate(BRIEF_SECTIONS);
            Ok(text::render(&document, charset))
        }
        Format::Markdown => Ok(markdown::render(&report.document(provenance))),
        Format::Json => json::render(report, provenance),
        Format::Html => Ok(html::render(&report.document(provenance))),
    }
}
