//! `legwork verify`: checks a copied run offline. Every record is chained to the one before and the first to the
//! manifest, so a changed, dropped or added record shows.

use super::report::folder;
use super::{Ended, VerbError, output};
use crate::runs::OpenRun;
use clap::Args;
use std::path::PathBuf;

/// Checks a copied run offline.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  legwork verify runs/20260102-030405-archive")]
pub struct VerifyArgs {
    /// The run's folder; the last one if absent.
    run: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &VerifyArgs) -> Result<Ended, VerbError> {
    let run = OpenRun::open(&folder(args.run.as_deref())?)?;
    let (events, last) = run.reader.verify_chain()?;
    let accepted = run.reader.accepted()?;
    if args.json {
        output::print_json(&serde_json::json!({
            "run": run.manifest.run, "events": events, "last_link": last, "records": run.records.len(),
            "accepted_differences": accepted, "inputs": run.manifest.inputs,
        }));
        return Ok(Ended::Done);
    }
    output::print(&format!("{}: the chain over {events} events holds; last link {last}", run.manifest.run));
    accepted.iter().for_each(|difference| output::print(&format!("accepted on resume: {difference}")));
    run.manifest.inputs.iter().for_each(|(name, digest)| output::print(&format!("  {name}: {digest}")));
    Ok(Ended::Done)
}
