//! `legwork fetch`: models and data sets from the Hugging Face hub, resumed, checked, and found again without a network.

use super::{Ended, VerbError, output};
use crate::terminal::progress;
use clap::Args;
use legwork_fetch::{Fetcher, Progress, Settings, Wanted};

/// Fetches from the Hugging Face hub.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork fetch hf:Qwen/Qwen3-4B
  legwork fetch hf:Qwen/Qwen3-4B@main --offline             only what is in the cache
  legwork fetch hf:datasets/Tevatron/browsecomp-plus --include '*.parquet'

The folder that it prints is what --model takes. HF_TOKEN, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE mean what they do for
huggingface_hub.")]
pub struct FetchArgs {
    /// `hf:OWNER/NAME`, `hf:OWNER/NAME@REVISION` or `hf:datasets/OWNER/NAME`.
    reference: String,
    /// Patterns of paths to fetch instead of what a model needs; may be given often.
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Patterns of paths to leave out; may be given often.
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Ask nobody; use what is in the cache.
    #[arg(long)]
    offline: bool,
    /// Read and check files that are in the cache already.
    #[arg(long)]
    verify: bool,
    /// The result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &FetchArgs) -> Result<Ended, VerbError> {
    let reference = args.reference.parse()?;
    let mut settings = Settings::of_variables(&|name| std::env::var(name).ok())?;
    settings.offline |= args.offline;
    let wanted = Wanted { include: args.include.clone(), exclude: args.exclude.clone(), verify_cached: args.verify };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let bar = progress::bytes("fetching", Some(0), !args.json);
    let mut told = |step: Progress<'_>| match step {
        Progress::Chosen { total_bytes, cached_bytes, .. } => {
            bar.set_length(total_bytes);
            bar.set_position(cached_bytes);
        }
        Progress::Placed { bytes, cached: false, .. } => bar.inc(bytes),
        _ => {}
    };
    let fetched = runtime.block_on(Fetcher::new(settings)?.fetch(&reference, &wanted, &mut told))?;
    bar.finish_and_clear();
    if args.json {
        let files: Vec<_> = fetched.files.iter().map(|file| file.path.clone()).collect();
        let told = serde_json::json!({"folder": fetched.folder, "commit": fetched.commit, "files": files});
        output::print(&format!("{told:#}"));
    } else {
        output::print(&fetched.folder.display().to_string());
    }
    Ok(Ended::Done)
}
