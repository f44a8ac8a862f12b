//! `legwork export`: a checkpoint of a training run as a Hugging Face folder. Runs in other tools' forms are
//! `legwork ledger export`.

use super::init::Kind;
use super::{Ended, VerbError, output};
use clap::Args;
use legwork_training::checkpoint;
use legwork_training::export::{Export, SHARD_BYTES_MAX};
use std::path::PathBuf;

/// Exports a checkpoint as a Hugging Face folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork export runs/sft/checkpoints/step-00001366 --original models/Qwen3-4B --out models/worker
  legwork verify models/worker --against models/Qwen3-4B

Rows that pad the vocabulary are left out; tokenizer, chat template and generation defaults are the original's, byte for byte.")]
pub struct ExportModelArgs {
    /// The checkpoint's folder.
    checkpoint: PathBuf,
    /// The folder of the model that training began from.
    #[arg(long, value_name = "FOLDER")]
    original: PathBuf,
    /// The folder to make.
    #[arg(long)]
    out: PathBuf,
    /// The kind of number; the original's if absent.
    #[arg(long, value_enum)]
    dtype: Option<Kind>,
    /// Bytes of a file of weights at most.
    #[arg(long, default_value_t = SHARD_BYTES_MAX)]
    shard_bytes_max: u64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ExportModelArgs) -> Result<Ended, VerbError> {
    let checkpoint = checkpoint::open(&args.checkpoint)?;
    let mut export = Export::of_checkpoint(&checkpoint, &args.original, &args.out)?;
    export.kind = args.dtype.map(Into::into);
    export.shard_bytes_max = args.shard_bytes_max;
    let made = export.write(checkpoint.tensors()?)?;
    let manifest = &made.manifest;
    let removed =
        manifest.tensors.iter().filter_map(|tensor| tensor.removed.as_ref()).map(|removed| removed.rows).max();
    if args.json {
        output::print_json(&serde_json::json!({
            "folder": made.folder, "step": manifest.source.step, "dtype": manifest.dtype.name(),
            "tensors": manifest.tensors.len(), "shards": made.shards, "bytes": made.bytes,
            "vocabulary": manifest.vocabulary, "removed_rows": removed.unwrap_or(0), "copied": manifest.original.copied,
        }));
    } else {
        output::print(&format!(
            "{}: step {}, {} tensors of {} in {} files of {} bytes; {} rows of padding left out",
            made.folder.display(),
            manifest.source.step,
            manifest.tensors.len(),
            manifest.dtype.name(),
            made.shards,
            made.bytes,
            removed.unwrap_or(0)
        ));
    }
    if !manifest.original.copied.contains_key("tokenizer.json") {
        output::note(&format!("{} has no tokenizer.json, so the export has none", args.original.display()));
    }
    Ok(Ended::Done)
}
