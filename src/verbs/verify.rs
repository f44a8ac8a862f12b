//! `legwork verify`: checks a copied run, of episodes or of training, or an exported model offline. Every record of a run is
//! chained to the one before and the first to the manifest, so a changed, dropped or added record shows; every file and tensor
//! of a model has its digest.

use super::report::folder;
use super::train::CHECKPOINTS;
use super::{Ended, VerbError, output};
use crate::runs::OpenRun;
use clap::Args;
use legwork_actors::trainer::{MANIFEST, TrainingRecords, read_records};
use legwork_training::checkpoint;
use legwork_training::export::{is_export, verify, verify_against_checkpoint, verify_against_original};
use std::path::{Path, PathBuf};

/// Checks a copied run or an exported model offline.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork verify runs/20260102-030405-archive
  legwork verify runs/sft
  legwork verify models/worker --against models/Qwen3-4B --checkpoint runs/sft/checkpoints/step-00001366")]
pub struct VerifyArgs {
    /// The folder of a run or of an exported model; the last run if absent.
    run: Option<PathBuf>,
    /// Of a model: the original, whose tokenizer must be there byte for byte.
    #[arg(long, value_name = "FOLDER", requires = "run")]
    against: Option<PathBuf>,
    /// Of a model: the checkpoint, whose every row must be there, rounded.
    #[arg(long, value_name = "FOLDER", requires = "run")]
    checkpoint: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &VerifyArgs) -> Result<Ended, VerbError> {
    if let Some(model) = args.run.as_deref().filter(|folder| is_export(folder)) {
        return run_model(model, args);
    }
    if let (Some(folder), true) = (&args.run, args.against.is_some() || args.checkpoint.is_some()) {
        let folder = folder.display();
        return Err(format!(
            "{folder} is no exported model: it has no legwork.json; give the folder that `legwork export` made"
        )
        .into());
    }
    if let Some(run) = args.run.as_deref().filter(|folder| folder.join(MANIFEST).exists()) {
        return run_training(run, args);
    }
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

fn run_training(run: &Path, args: &VerifyArgs) -> Result<Ended, VerbError> {
    let TrainingRecords { manifest, records, last_link } = read_records(run)?;
    let root = run.join(CHECKPOINTS);
    let latest = checkpoint::latest(&root)?;
    let damaged: Vec<String> = latest.damaged.iter().map(|(_, why)| why.to_string()).collect();
    let step = latest.checkpoint.as_ref().map(|checkpoint| checkpoint.state().step);
    if args.json {
        output::print_json(&serde_json::json!({
            "run": manifest.run, "records": records.len(), "last_link": last_link, "checkpoint": step,
            "inputs": manifest.inputs, "findings": damaged,
        }));
    } else {
        let (count, name) = (records.len(), &manifest.run);
        output::print(&format!("{name}: the chain over {count} records holds; last link {last_link}"));
        match step {
            Some(step) => output::print(&format!("the checkpoint of step {step} is as it was written")),
            None => output::print(&format!("{} holds no checkpoint that is whole", root.display())),
        }
        damaged.iter().for_each(|finding| output::print(finding));
        manifest.inputs.iter().for_each(|(name, digest)| output::print(&format!("  {name}: {digest}")));
    }
    Ok(if damaged.is_empty() { Ended::Done } else { Ended::Refused })
}

fn run_model(model: &Path, args: &VerifyArgs) -> Result<Ended, VerbError> {
    let found = verify(model)?;
    let mut findings = found.findings;
    if let Some(original) = &args.against {
        findings.extend(verify_against_original(model, original)?);
    }
    // A folder that is damaged already may hold no tensors to compare.
    let is_whole = findings.is_empty();
    if let Some(folder) = args.checkpoint.as_ref().filter(|_| is_whole) {
        findings.extend(verify_against_checkpoint(model, &checkpoint::open(folder)?)?);
    }
    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    if args.json {
        output::print_json(&serde_json::json!({
            "model": model, "files": found.files, "bytes": found.bytes, "tensors": found.tensors, "findings": told,
            "source": found.manifest.as_ref().map(|manifest| &manifest.source),
        }));
    } else if told.is_empty() {
        let compared = [("the original", args.against.is_some()), ("the checkpoint", args.checkpoint.is_some())];
        let compared: Vec<&str> = compared.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name).collect();
        let with =
            if compared.is_empty() { String::new() } else { format!("; it agrees with {}", compared.join(" and ")) };
        output::print(&format!(
            "{}: {} files and {} tensors are as they were written{with}",
            model.display(),
            found.files,
            found.tensors
        ));
    } else {
        told.iter().for_each(|finding| output::print(finding));
    }
    if args.checkpoint.is_some() && !is_whole {
        output::note("the checkpoint was not compared, since the folder is damaged");
    }
    Ok(if told.is_empty() { Ended::Done } else { Ended::Refused })
}
