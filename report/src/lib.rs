//! Statistics, tables and plots over finished episodes: one run summed up, two runs compared pair by
//! pair, two gradings of one run set side by side; each as text, Markdown, JSON or one HTML file.
//!
//! It knows `EpisodeRecord`s and the plan they were to fulfil. It refuses to know ledgers, actors,
//! terminals, files and time: records, labels and seeds come in as arguments, strings go out.

pub mod agreement;
pub mod compare;
pub mod divergence;
pub mod document;
pub mod error;
pub mod number;
pub mod plan;
pub mod provenance;
pub mod render;
pub mod statistics;
pub mod summary;

pub use agreement::{Agreement, Grading, agreement};
pub use compare::{CompareOptions, Comparison, Run, compare};
pub use divergence::Divergences;
pub use error::ReportError;
pub use plan::{Plan, PlannedEpisode};
pub use provenance::{Digest, Provenance};
pub use render::{Charset, Format, Reportable, render};
pub use summary::{Summary, SummaryOptions, summarise};
