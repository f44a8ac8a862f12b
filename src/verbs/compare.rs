//! `legwork compare`: two runs question by question, or token by token.

mod tokens;

use super::{Ended, VerbError, output};
use crate::runs::{OpenRun, RunError};
use clap::Args;
use legwork_report::number::Finite;
use legwork_report::{Charset, CompareOptions, Format, Provenance, Reportable, Run, compare, render};
use std::path::PathBuf;

/// Compares two runs question by question.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork compare runs/base runs/sft --html compare.html
  legwork compare runs/processor runs/card --tokens --model models/worker

--tokens shows where the conversations of one model part, in two runs that differ by the device, say, or by how much runs at once.
Where both draw greedily (worker.temperature = 0), a token may differ only if the model was of two minds there: --model asks it
again on the processor, and shows how far the tokens that were drawn are behind its likeliest.")]
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
    /// Where the two runs' tokens part, in place of how their questions end.
    #[arg(long)]
    tokens: bool,
    /// The runs' model in this process, asked again on the processor where they part.
    #[arg(long, value_name = "PATH", requires = "tokens")]
    model: Option<PathBuf>,
    /// Up to how many nats behind the likeliest token both tokens make a parting a tie. Else twice the largest distance of
    /// probabilities where the two runs agree.
    #[arg(long, value_name = "NATS", requires = "tokens", value_parser = nats)]
    tie: Option<Finite>,
    /// Seed of the bootstrap.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Resamples of the bootstrap.
    #[arg(long, default_value_t = 10_000)]
    resamples: u32,
}

pub(super) fn run(args: &CompareArgs) -> Result<Ended, VerbError> {
    let (before, after) = (OpenRun::open(&args.before)?, OpenRun::open(&args.after)?);
    let provenance = [before.provenance(before.manifest.run.clone()), after.provenance(after.manifest.run.clone())];
    if args.tokens {
        let found = tokens::divergences(&before, &after, args.model.as_deref(), args.tie)?;
        return show(args, &found, &provenance);
    }
    let (plan_before, plan_after) = (before.plan()?, after.plan()?);
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
    show(args, &comparison, &provenance)
}

fn show<R: Reportable>(args: &CompareArgs, report: &R, provenance: &[Provenance]) -> Result<Ended, VerbError> {
    if let Some(path) = &args.html {
        let page = render(report, provenance, Format::Html)?;
        std::fs::write(path, page).map_err(|source| RunError::Io { path: path.clone(), source })?;
        output::note(&format!("wrote {}", path.display()));
    }
    let format = match (args.json, args.markdown) {
        (true, _) => Format::Json,
        (_, true) => Format::Markdown,
        _ => Format::Text(Charset::Unicode),
    };
    output::print(&render(report, provenance, format)?);
    Ok(Ended::Done)
}

fn nats(text: &str) -> Result<Finite, String> {
    let nats = text.parse().ok().filter(|nats| *nats >= 0.0).and_then(Finite::new);
    nats.ok_or_else(|| "expected a number from 0".to_owned())
}
