//! The grammar of calls.
use serde::{Deserialize, Serialize};
/// Which reader reads a model's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grammar {
    /// FoldAgent's two parsers, quirks included.
    Foldagent,
    /// Ours.
    Strict,
}
