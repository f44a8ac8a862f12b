//! `legwork ledger export`: a run in the forms that other tools read.

use super::report::folder;
use super::{Ended, VerbError, output};
use crate::export::{Episodes, Format, GateRows, Options, export};
use crate::runs::OpenRun;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Writes a run for other tools.
#[derive(Debug, Args)]
#[command(
    after_help = "Formats: trajectories, token-ids, gate, browsecomp-plus (a folder), foldagent, trec, inspect, csv
Example:
  legwork ledger export trajectories runs/mine --out sft.jsonl --split train
  legwork ledger export gate runs/mine --out gate.jsonl --split train --repeat-hard 2"
)]
pub(super) struct ExportArgs {
    /// The format.
    format: Format,
    /// The run's folder; the last one if absent.
    run: Option<PathBuf>,
    /// The file, or for browsecomp-plus the folder, to write.
    #[arg(long)]
    out: PathBuf,
    /// Chat and token rows of all ended episodes, not only of correct ones.
    #[arg(long)]
    all: bool,
    /// Keep workers that concluded wrongly in an episode that was right, their last report out of the loss.
    #[arg(long)]
    process_rows: bool,
    /// Keep only so many turns of each conversation in chat rows: with 1, how each was begun.
    #[arg(long, value_name = "TURNS")]
    first_turns: Option<NonZeroU32>,
    /// One round only, from 0.
    #[arg(long)]
    round: Option<u32>,
    /// The part of the question set that the run was made over, for the rows' lineage.
    #[arg(long)]
    split: Option<String>,
    /// Of gate rows: draws the wording of each reason.
    #[arg(long, default_value_t = GateRows::default().seed)]
    seed: u64,
    /// Of gate rows: times that each hard one is written.
    #[arg(long, default_value_t = GateRows::default().repeat_hard)]
    repeat_hard: u32,
    /// Replace a file that is there.
    #[arg(long)]
    overwrite: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ExportArgs) -> Result<Ended, VerbError> {
    let run = OpenRun::open(&folder(args.run.as_deref())?)?;
    let options = Options {
        episodes: if args.all { Episodes::All } else { Episodes::Correct },
        process_rows: args.process_rows,
        first_turns: args.first_turns,
        round: args.round,
        split: args.split.clone(),
        overwrite: args.overwrite,
        gate: GateRows { seed: args.seed, repeat_hard: args.repeat_hard },
    };
    let summary = export(&run.reader, args.format, &args.out, &options)?;
    if args.json {
        output::print_json(&serde_json::json!({
            "format": summary.format.name(), "out": summary.out, "planned": summary.planned, "ended": summary.ended,
            "written": summary.written, "kinds": summary.kinds, "left_out": summary.left_out, "holds_plain_text": summary.holds_plain_text,
        }));
        return Ok(Ended::Done);
    }
    output::print(&format!(
        "{}: {} written of {} ended and {} planned episodes",
        summary.out.display(),
        summary.written,
        summary.ended,
        summary.planned
    ));
    summary.kinds.iter().for_each(|(kind, count)| output::print(&format!("  {count}: {kind}")));
    summary.left_out.iter().for_each(|(why, count)| output::print(&format!("  left out: {count} ({why})")));
    if summary.holds_plain_text {
        output::note("it holds questions and answers as plain text: do not publish it if they are of a test set");
    }
    Ok(Ended::Done)
}
