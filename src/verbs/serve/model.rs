//! `legwork serve model`: a model in this process over OpenAI's and SGLang's protocols.

use super::super::{Ended, VerbError, output};
use super::{token, until_told};
use crate::assemble::{ServedEmbedder, ServedModel, for_machine};
use clap::{Args, ValueEnum};
use legwork_actors::clock::Clock;
use legwork_actors::local::{Device, LocalEmbedder, LocalModel, LocalSettings, TemplateChoice};
use legwork_edge::model_server::{ModelServerConfig, Reasoning, TextModel, bind};
use legwork_model::{EmbedSettings, ModelFiles, ModelShape};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Serves a model.
#[derive(Debug, Args)]
pub(super) struct ModelArgs {
    /// A Hugging Face folder, a GGUF file, or a folder with one.
    path: PathBuf,
    /// Where to listen. Others than this machine can ask only with a token.
    #[arg(long, default_value = "127.0.0.1:8001")]
    listen: SocketAddr,
    /// The environment variable that holds the bearer token.
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// Another name that requests may give; may be given often.
    #[arg(long = "alias", value_name = "NAME")]
    aliases: Vec<String>,
    /// Where it computes: cpu, cuda, cuda:1, cuda:0,1 (a replica on each), cuda:0+1 (cut over
    /// both) or cuda:all. An embedder computes on the processor.
    #[arg(long, default_value_t)]
    device: Device,
    /// Tokens of a sequence at most; the model's own context if that is less.
    #[arg(long, default_value_t = LocalSettings::default().context)]
    context: usize,
    /// Mebibytes of the key-value cache; else 2048 on the processor, and on a card what is free.
    #[arg(long)]
    cache_mib: Option<usize>,
    /// Requests that run at once.
    #[arg(long, default_value_t = LocalSettings::default().running_max)]
    running_max: usize,
    /// Requests that may wait; the next is answered with 429.
    #[arg(long, default_value_t = LocalSettings::default().waiting_max)]
    waiting_max: usize,
    /// Give the model a process of its own; on cards it always has one.
    #[arg(long)]
    apart: bool,
    /// The chat template.
    #[arg(long, value_enum, default_value_t = Template::Own)]
    template: Template,
    /// Give thoughts of chat answers apart, as `reasoning_content`.
    #[arg(long)]
    split_reasoning: bool,
    /// Where the seeds of requests without one begin.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Template {
    /// The model's own.
    Own,
    /// As published for Qwen3.
    Qwen3,
    /// Think blocks after the last query, always.
    Qwen3Fixed,
    /// Think blocks everywhere.
    KeepThink,
}

pub(super) fn run(args: &ModelArgs) -> Result<Ended, VerbError> {
    let settings = for_machine(LocalSettings {
        device: args.device.clone(),
        context: args.context,
        cache_mib: args.cache_mib,
        apart: args.apart.then_some(true),
        running_max: args.running_max,
        waiting_max: args.waiting_max,
        template: match args.template {
            Template::Own => TemplateChoice::Own,
            Template::Qwen3 => TemplateChoice::Qwen3,
            Template::Qwen3Fixed => TemplateChoice::Qwen3Fixed,
            Template::KeepThink => TemplateChoice::KeepThink,
        },
        ..LocalSettings::default()
    });
    let config = ModelServerConfig {
        listen: args.listen,
        token: token(args.token_env.as_deref())?,
        concurrency: args.running_max + args.waiting_max,
        reasoning: if args.split_reasoning { Reasoning::Split } else { Reasoning::Keep },
        ..ModelServerConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let clock = Clock::system();
        let files = ModelFiles::open(&args.path)?;
        // What says how its states become vectors is an embedder, a decoder too.
        let embeds = files.sentence.is_some() || matches!(files.shape, ModelShape::Encoder(_));
        drop(files);
        let (text, served): (String, Arc<dyn TextModel>) = if embeds {
            if args.device.is_cards() {
                return Err(
                    format!("{} embeds, which the processor does: leave --device out", args.path.display()).into()
                );
            }
            let embedder = LocalEmbedder::open(&args.path, EmbedSettings::default())?;
            let text = format!("{}: vectors of {} numbers", args.path.display(), embedder.dimension());
            (text, Arc::new(ServedEmbedder::new(embedder, args.aliases.clone(), &clock)))
        } else {
            let model = LocalModel::open(&args.path, settings, clock)?;
            let (limits, pages, device) = (model.limits(), model.gauges().pages, &args.device);
            let text = format!("{} on {device}: context {}, {pages} pages of cache", model.name(), limits.context);
            (text, Arc::new(ServedModel::new(model, args.aliases.clone(), &clock, args.seed)))
        };
        let server = bind(&config, vec![served])?;
        output::note(&format!("serving {text} at http://{}; Ctrl-C ends it", server.address()));
        let handle = server.handle();
        until_told(server.run(), || drop(handle.stop(true))).await
    })
}
