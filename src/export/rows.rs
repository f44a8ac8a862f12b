//! Rows to train on of single episodes, as the exports of whole runs write them, for whoever follows a run while it goes on.
//! It refuses to know which episodes are asked for, and where rows go.

use super::walk::Walk;
use super::{ExportError, Format, Options, Summary, ids, trajectories};
use legwork_actors::ledger::LedgerReader;
use legwork_protocol::id::EpisodeKey;
use legwork_training::trajectory::{ChatRow, IdRow, Metadata};
use serde::Serialize;

/// A row as an export writes it: its JSON is the line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum ExportedRow {
    /// Messages.
    Chat(ChatRow),
    /// Token ids.
    Ids(IdRow),
}

impl ExportedRow {
    /// Where it comes from.
    pub(crate) fn metadata(&self) -> &Metadata {
        match self {
            Self::Chat(row) => &row.metadata,
            Self::Ids(row) => &row.metadata,
        }
    }
}

/// The rows of these episodes, in their order: of token ids if that is the summary's format, else of messages. What is
/// left out is counted.
///
/// # Errors
/// A run that cannot be read or replayed.
pub(crate) fn rows_of(
    reader: &LedgerReader,
    episodes: &[EpisodeKey],
    options: &Options,
    summary: &mut Summary,
) -> Result<Vec<ExportedRow>, ExportError> {
    let walk = Walk::begin(reader, options)?;
    let mut rows = Vec::new();
    for key in episodes {
        let episode = walk.episode(key)?;
        summary.ended += u64::from(episode.record.is_some());
        match summary.format {
            Format::TokenIds => ids::rows(&walk, &episode, options, summary, &mut |row| {
                rows.push(ExportedRow::Ids(row));
                Ok(())
            })?,
            _ => trajectories::rows(&walk, &episode, options, summary, &mut |row| {
                rows.push(ExportedRow::Chat(row));
                Ok(())
            })?,
        }
    }
    Ok(rows)
}
