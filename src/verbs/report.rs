//! `legwork report`: the report of a run, printed and written beside it.

use super::{Ended, VerbError, output};
use crate::runs::{OpenRun, latest};
use clap::Args;
use legwork_report::{Charset, Format, render};
use std::path::{Path, PathBuf};

/// Prints and writes the report of a run.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  legwork report runs/20260102-030405-archive")]
pub struct ReportArgs {
    /// The run's folder; the last one if absent.
    run: Option<PathBuf>,
    /// As JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// As Markdown.
    #[arg(long)]
    markdown: bool,
    /// Resamples of the bootstrap.
    #[arg(long, default_value_t = 10_000)]
    resamples: u32,
    /// Only print; write no files.
    #[arg(long)]
    print_only: bool,
}

pub(super) fn run(args: &ReportArgs) -> Result<Ended, VerbError> {
    let folder = folder(args.run.as_deref())?;
    let run = OpenRun::open(&folder)?;
    let summary = run.summary(args.resamples)?;
    let format = match (args.json, args.markdown) {
        (true, _) => Format::Json,
        (_, true) => Format::Markdown,
        _ => Format::Text(Charset::Unicode),
    };
    let provenance = [run.provenance(format!("{} on {}", run.manifest.profile.name, run.manifest.world))];
    // Printed first: that needs no place to write to.
    output::print(&render(&summary, &provenance, format)?);
    if !args.print_only {
        let written = run.write_reports(&summary).map_err(|error| format!("{error}; --print-only writes no files"))?;
        written.iter().for_each(|path| output::note(&format!("wrote {}", path.display())));
    }
    Ok(Ended::Done)
}

/// The folder named, or the last run of `runs`.
pub(super) fn folder(named: Option<&Path>) -> Result<PathBuf, VerbError> {
    match named {
        Some(folder) => Ok(folder.to_path_buf()),
        None => Ok(latest(Path::new("runs"))?),
    }
}
