//! `legwork doctor`: what this machine and a configuration have and lack, before a run finds out.

use super::{ConfigFlags, Ended, VerbError, output, resolve};
use crate::config::{EmbedderSettings, ModelSettings, Settings, WorldSettings};
use crate::doctor::{DoctorInputs, EndpointInput, FileInput, KeySource, examine, is_fit, json, text};
use clap::Args;
use legwork_endpoints::EndpointConfig;
use std::path::Path;

/// Looks at this machine and a configuration.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  legwork doctor -c run.toml")]
pub struct DoctorArgs {
    #[command(flatten)]
    config: ConfigFlags,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &DoctorArgs) -> Result<Ended, VerbError> {
    let settings = Settings::read(&resolve(&args.config, Vec::new())?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let findings = runtime.block_on(examine(inputs(&settings)));
    if args.json {
        output::print(&json(&findings));
    } else {
        output::print(&text(&findings));
    }
    Ok(if is_fit(&findings) { Ended::Done } else { Ended::Refused })
}

fn inputs(settings: &Settings) -> DoctorInputs {
    let mut endpoints: Vec<EndpointInput> = settings
        .models
        .iter()
        .filter_map(|(route, model)| match model {
            ModelSettings::Endpoint(config) => Some(endpoint(format!("models.{route}"), config)),
            ModelSettings::Mock(_) | ModelSettings::Local(_) => None,
        })
        .collect();
    if let Some(EmbedderSettings::Endpoint(config)) = &settings.embedder {
        endpoints.push(endpoint("embedder".to_owned(), config));
    }
    endpoints.extend(settings.index.qdrant.as_ref().map(|server| EndpointInput {
        name: "index.qdrant".to_owned(),
        url: server.url.clone(),
        key: server.key_env.clone().map(KeySource::Env),
    }));
    let tokenizer = |name: &str, path: &Option<std::path::PathBuf>| {
        path.clone().map(|path| FileInput { name: format!("tokenizers.{name}"), path })
    };
    // An embedded model is where it is written to; one that cannot be is told under its own name.
    let place =
        |path: &Path| crate::assemble::placed(path, &settings.index.cache).unwrap_or_else(|_| path.to_path_buf());
    let tokenizers =
        [tokenizer("worker", &settings.tokenizers.worker), tokenizer("coordinator", &settings.tokenizers.coordinator)];
    DoctorInputs {
        runs_folder: settings.run.folder.clone(),
        concurrency: settings.run.limits.concurrency,
        has_gpu_code: cfg!(feature = "cuda"),
        endpoints,
        tokenizers: tokenizers.into_iter().flatten().collect(),
        models: settings
            .models
            .iter()
            .filter_map(|(route, model)| match model {
                ModelSettings::Local(of) => Some(FileInput { name: format!("models.{route}"), path: place(&of.local) }),
                ModelSettings::Mock(_) | ModelSettings::Endpoint(_) => None,
            })
            .collect(),
        index: settings.index.folder.clone(),
        corpus: corpus(&settings.world),
    }
}

fn endpoint(name: String, config: &EndpointConfig) -> EndpointInput {
    let key = match (&config.key_env, &config.key_file) {
        (Some(variable), _) => Some(KeySource::Env(variable.clone())),
        (None, Some(path)) => Some(KeySource::File(path.clone())),
        (None, None) => None,
    };
    EndpointInput { name, url: config.url.to_string(), key }
}

/// The corpus file of a world, where it names one.
fn corpus(world: &WorldSettings) -> Option<std::path::PathBuf> {
    match world {
        WorldSettings::Archive { .. } => None,
        WorldSettings::Multihop { path, .. } => Some(path.join("corpus.jsonl")),
        WorldSettings::BrowsecompPlus { corpus, .. } => Some(corpus.clone()),
        WorldSettings::Foldagent { corpus, .. } | WorldSettings::Plain { corpus, .. } => corpus.clone(),
    }
}
