//! A run in the formats of other tools: rows to train on, BrowseComp-Plus run files, FoldAgent's results, a TREC run,
//! an Inspect log, a table. Everything is rebuilt from the ledger's events by fresh machines, one episode at a time.
//!
//! It refuses to know how a run came about, and nothing of a question ever goes anywhere but into the file asked for.

mod browsecomp_plus;
mod file;
mod foldagent;
mod gate;
mod ids;
mod inspect;
mod lineage;
mod rows;
mod table;
#[cfg(test)]
mod tests;
mod trajectories;
mod trec;
mod walk;

pub(crate) use rows::{ExportedRow, rows_of};

use legwork_actors::ledger::{FirstDifference, LedgerError, LedgerReader};
use legwork_protocol::id::EpisodeKey;
use legwork_training::TrajectoryError;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use walk::Walk;

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Chat rows for supervised fine-tuning: JSONL, one row a worker that finished.
    Trajectories,
    /// Rows of the very token ids, where the server gave them: JSONL.
    TokenIds,
    /// Rows for a STOP gate, one for each moment at which it would be asked: JSONL.
    Gate,
    /// BrowseComp-Plus run files: a folder with one JSON file a planned question.
    BrowsecompPlus,
    /// FoldAgent's results: one JSON file.
    Foldagent,
    /// A TREC run of the documents that searches showed.
    Trec,
    /// An Inspect log: one JSON file.
    Inspect,
    /// A table of all episodes: CSV.
    Csv,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 8] = [
        Format::Trajectories,
        Format::TokenIds,
        Format::Gate,
        Format::BrowsecompPlus,
        Format::Foldagent,
        Format::Trec,
        Format::Inspect,
        Format::Csv,
    ];

    /// The name as it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Trajectories => "trajectories",
            Format::TokenIds => "token-ids",
            Format::Gate => "gate",
            Format::BrowsecompPlus => "browsecomp-plus",
            Format::Foldagent => "foldagent",
            Format::Trec => "trec",
            Format::Inspect => "inspect",
            Format::Csv => "csv",
        }
    }

    /// Whether questions, pages or answers stand in it as plain text: such a file of a test set must not be
    /// published.
    pub fn holds_plain_text(self) -> bool {
        !matches!(self, Format::Foldagent | Format::Trec | Format::TokenIds)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Self, ExportError> {
        Format::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| ExportError::UnknownFormat {
            got: text.escape_debug().to_string(),
            known: Format::ALL.map(Format::name).join(", "),
        })
    }
}

/// Which episodes become rows to train on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Episodes {
    /// Those that were graded correct.
    #[default]
    Correct,
    /// All that have ended, whatever their outcome.
    All,
}

/// How to write it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which episodes become chat or token rows; all other formats hold all of them.
    pub episodes: Episodes,
    /// Keep workers that concluded wrongly in an episode that was right; their last report is out of the loss.
    pub process_rows: bool,
    /// Keep only so many turns of each conversation in chat rows, from the first; a conversation that is shorter is kept whole.
    pub first_turns: Option<NonZeroU32>,
    /// One round only; none takes all.
    pub round: Option<u32>,
    /// The part of the question set that the run was made over, for the rows' lineage.
    pub split: Option<String>,
    /// Replace a file that is there. A folder is never replaced.
    pub overwrite: bool,
    /// How rows for a gate are made.
    pub gate: GateRows,
}

/// Times at most that a hard row for a gate is written.
pub const REPEAT_HARD_MAX: u32 = 8;

/// How rows for a gate are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateRows {
    /// Draws the wording of each row's reason, and nothing else.
    pub seed: u64,
    /// Times that each hard row is written, 1 to [`REPEAT_HARD_MAX`].
    pub repeat_hard: u32,
}

impl Default for GateRows {
    fn default() -> Self {
        Self { seed: 42, repeat_hard: 2 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            episodes: Episodes::Correct,
            process_rows: true,
            first_turns: None,
            round: None,
            split: None,
            overwrite: false,
            gate: GateRows::default(),
        }
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The format.
    pub format: Format,
    /// The file or folder.
    pub out: PathBuf,
    /// Episodes planned, of the round that was asked for.
    pub planned: u64,
    /// Of these, those that have ended.
    pub ended: u64,
    /// Rows, files, lines or samples written.
    pub written: u64,
    /// Of these, how many of which kind, where a format has kinds of rows; a row may be of several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<&'static str, u64>,
    /// What was left out, and how often, by why.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Whether questions, pages or answers stand in it as plain text.
    pub holds_plain_text: bool,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (out, ended, planned) = (self.out.display(), self.ended, self.planned);
        write!(f, "{}: {} written to {out} from {ended} of {planned} episodes", self.format, self.written)?;
        for (kind, count) in &self.kinds {
            write!(f, "\n  {count}: {kind}")?;
        }
        for (why, count) in &self.left_out {
            write!(f, "\n  left out {count}: {why}")?;
        }
        if self.holds_plain_text {
            f.write_str(
                "\n  it holds questions or answers as plain text: do not publish it where the set must stay unseen",
            )?;
        }
        Ok(())
    }
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A file of rows.
    #[error(transparent)]
    Rows(#[from] TrajectoryError),
    /// There is something in its place.
    #[error("{} is there already; name another place, or ask to overwrite a file", path.display())]
    Exists {
        /// The place.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("cannot write {}: {source}; check that its folder exists, may be written and has room", path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no such format.
    #[error("there is no format `{got}`; known are {known}")]
    UnknownFormat {
        /// What was asked for.
        got: String,
        /// All names.
        known: String,
    },
    /// A format that holds each question once.
    #[error("the run has {rounds} rounds and {format} holds each question once; choose one with --round")]
    Rounds {
        /// The format.
        format: Format,
        /// The run's rounds.
        rounds: u32,
    },
    /// There is no such round.
    #[error("there is no round {round}: the run has {rounds}, counted from 0")]
    NoRound {
        /// The round asked for.
        round: u32,
        /// The run's rounds.
        rounds: u32,
    },
    /// The events do not lead where they led.
    #[error("{difference}; export with legwork {legwork}, which wrote the run")]
    Differs {
        /// The first difference.
        difference: Box<FirstDifference>,
        /// The version that wrote the run.
        legwork: String,
    },
    /// An episode of a question that is not in the run.
    #[error("the run's plan names {key} and its question is not there; the ledger is damaged, restore it from a copy")]
    NoQuestion {
        /// The episode.
        key: EpisodeKey,
    },
    /// Hard rows that are to be written too often or not at all.
    #[error("hard rows are to be written {got} times; give --repeat-hard 1 to {REPEAT_HARD_MAX}")]
    Repeats {
        /// The times asked for.
        got: u32,
    },
    /// An id that the format cannot hold.
    #[error(
        "{what} `{id}` is blank or holds white space, which {format} takes for the end of a column; choose another format"
    )]
    UnfitId {
        /// The format.
        format: Format,
        /// What it is an id of.
        what: &'static str,
        /// The id.
        id: String,
    },
}

/// Writes a run in a format to `out`: a file, or for [`Format::BrowsecompPlus`] a folder. It appears when it is whole.
/// An Inspect log may be given a folder, and gets a name there by which Inspect's viewer finds it. Memory holds the
/// questions and one episode.
///
/// # Errors
/// A run that cannot be read or replayed, a place that is taken or cannot be written, or something that the format
/// cannot hold; nothing is left behind.
pub fn export(reader: &LedgerReader, format: Format, out: &Path, options: &Options) -> Result<Summary, ExportError> {
    let walk = Walk::begin(reader, options)?;
    let named_in_folder = (format == Format::Inspect && out.is_dir()).then(|| out.join(inspect::file_name(&walk)));
    let out = named_in_folder.as_deref().unwrap_or(out);
    let free = match format {
        Format::BrowsecompPlus => !out.exists() || file::is_empty_folder(out),
        _ => !out.exists() || (options.overwrite && out.is_file()),
    };
    if !free {
        return Err(ExportError::Exists { path: out.to_path_buf() });
    }
    let mut summary = Summary::new(format, out, walk.planned());
    match format {
        Format::Trajectories => trajectories::write(&walk, out, options, &mut summary)?,
        Format::TokenIds => ids::write(&walk, out, options, &mut summary)?,
        Format::Gate => gate::write(&walk, out, options, &mut summary)?,
        Format::BrowsecompPlus => browsecomp_plus::write(&walk, out, &mut summary)?,
        Format::Foldagent => foldagent::write(&walk, out, &mut summary)?,
        Format::Trec => trec::write(&walk, out, &mut summary)?,
        Format::Inspect => inspect::write(&walk, out, &mut summary)?,
        Format::Csv => table::write(&walk, out, &mut summary)?,
    }
    Ok(summary)
}

impl Summary {
    /// One of nothing yet.
    pub(crate) fn new(format: Format, out: &Path, planned: u64) -> Self {
        Self {
            format,
            out: out.to_path_buf(),
            planned,
            ended: 0,
            written: 0,
            kinds: BTreeMap::new(),
            left_out: BTreeMap::new(),
            holds_plain_text: format.holds_plain_text(),
        }
    }

    /// Counts something that was left out.
    fn left_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }
}
