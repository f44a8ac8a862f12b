//! `legwork compare`: two runs question by question.

use super::{Ended, VerbError, output};
use crate::runs::{OpenRun, RunError};
use clap::Args;
use legwork_report::{Charset, CompareOptions, Format, Run, compare, render};
use std::path::PathBuf;

/// Compares two runs question by question.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  legwork compare runs/base runs/sft --html compare.html")]
pub struct CompareArgs {
    /// The run before.
    before: PathBuf,
    /// The run after.
    after: PathBuf,
    /// A difference between the two to accept, by name; may be given often.
    #[arg(long, value_name = "NAME")]
    accept: Vec<String>,
    /// As JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// As Markdown.
    #[arg(long)]
    markdown: bool,
    /// Also write one self-contained HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Seed of the bootstrap.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Resamples of the bootstrap.
    #[arg(long, default_value_t = 10_000)]
    resamples: u32,
}

pub(super) fn run(args: &CompareArgs) -> Result<Ended, VerbError> {
    let (before, after) = (OpenRun::open(&args.before)?, OpenRun::open(&args.after)?);
    let (plan_before, plan_after) = (before.plan()?, after.plan()?);
    let provenance = [before.provenance(before.manifest.run.clone()), after.provenance(after.manifest.run.clone())];
    let options = CompareOptions {
        accept: args.accept.iter().cloned().collect(),
        seed: args.seed,
        resamples: args.resamples,
        ..CompareOptions::default()
    };
    let comparison = compare(
        &Run { plan: &plan_before, records: &before.records, provenance: &provenance[0] },
        &Run { plan: &plan_after, records: &after.records, provenance: &provenance[1] },
        &options,
    )?;
    if let Some(path) = &args.html {
        let page = render(&comparison, &provenance, Format::Html)?;
        std::fs::write(path, page).map_err(|source| RunError::Io { path: path.clone(), source })?;
        output::note(&format!("wrote {}", path.display()));
    }
    let format = match (args.json, args.markdown) {
        (true, _) => Format::Json,
        (_, true) => Format::Markdown,
        _ => Format::Text(Charset::Unicode),
    };
    output::print(&render(&comparison, &provenance, format)?);
    Ok(Ended::Done)
}
