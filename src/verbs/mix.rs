//! `legwork mix`: rows of a core and of a gate, balanced by their tokens in the loss, into one file with a manifest.

use super::mask::{RowFlags, encoding, note_bad};
use super::{Ended, VerbError, output};
use clap::Args;
use legwork_training::mix::{self, MixInputs, MixManifest, PartManifest, Recipe};
use legwork_training::rows::{RowSource, Sieve};
use std::path::PathBuf;

/// Mixes rows.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  legwork mix --core core.jsonl --repeat 3 --gate gate.jsonl --seed 42 --model models/Qwen3-4B --out mixes/mine

The core's rows come --repeat times; gate rows are drawn in shuffled passes until they have as many tokens in the loss. The
folder gets mix.jsonl, the rows as they were, and mix.json, which says what is in it and how to make it again.")]
pub struct MixArgs {
    /// Rows that are repeated; may be given often. file@[a:b] is a slice.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    core: Vec<RowSource>,
    /// How often each of them comes.
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Rows that are drawn until the tokens balance; may be given often.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    gate: Vec<RowSource>,
    /// The seed of every shuffle.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Rows of a slot in training, for the shares of the gradient.
    #[arg(long, default_value_t = 32, value_parser = batch)]
    batch: usize,
    #[command(flatten)]
    flags: RowFlags,
    /// The folder to write.
    #[arg(long)]
    out: PathBuf,
    /// As JSON: the manifest.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &MixArgs) -> Result<Ended, VerbError> {
    let (encoder, digests) = args.flags.encoder()?;
    let inputs = MixInputs { core: &args.core, gate: &args.gate, encoder: &encoder, digests: &digests };
    let recipe = Recipe { repeat: args.repeat, seed: args.seed, batch: args.batch };
    let mut sieve = Sieve::new(args.flags.bad_rows);
    let bar = encoding(!args.json);
    let mixed = mix::write(&inputs, &recipe, &mut sieve, &args.out, &mut |rows| bar.set_position(rows));
    bar.finish_and_clear();
    let manifest = mixed?;
    if args.json {
        output::print_json(&manifest);
    } else {
        output::print(&told(args, &manifest));
        note_bad(&manifest.bad);
    }
    Ok(Ended::Done)
}

fn told(args: &MixArgs, manifest: &MixManifest) -> String {
    let part = |name: &str, part: &PartManifest| {
        format!(
            "{name}: {} rows ({} of {}), {} tokens in the loss of {}; of the gradient {:.1} % by token, {:.1} % by sample; in {:.1} % of \
             slots none",
            part.rows,
            part.distinct_rows,
            part.source_rows,
            part.supervised_tokens,
            part.tokens,
            100.0 * part.gradient.by_token,
            100.0 * part.gradient.by_sample,
            100.0 * part.gradient.slots_without,
        )
    };
    format!(
        "{}: {} rows, {} slots of {} and {} rows beyond\n{}\n{}\ngap {} of {} tokens, {} passes over the gate\nsha256 {}",
        args.out.join(&manifest.output.file).display(),
        manifest.output.rows,
        manifest.slots,
        manifest.recipe.batch,
        manifest.rows_beyond_slots,
        part("core", &manifest.core),
        part("gate", &manifest.gate),
        manifest.gap_tokens,
        manifest.target_tokens,
        manifest.passes,
        manifest.output.sha256,
    )
}

fn batch(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| "expected a whole number from 1".to_owned())
}
