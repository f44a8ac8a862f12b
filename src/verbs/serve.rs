//! `legwork serve`: a corpus over FoldAgent's search protocol, for other harnesses; or a model over OpenAI's and SGLang's.

mod model;

use super::{ConfigFlags, Ended, VerbError, output, resolve};
use crate::assemble;
use crate::config::Settings;
use crate::terminal::{self, progress};
use clap::{Args, Subcommand};
use legwork_edge::search_server::{SearchServerConfig, Token, bind};
use std::net::SocketAddr;

/// Serves.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Serve the corpus of a configuration: POST /search and /open, GET /health and /stats.
    #[command(after_help = "Example:\n  legwork serve search -c run.toml --listen 127.0.0.1:8000")]
    Search {
        /// Where to listen. Others than this machine can ask only with a token.
        #[arg(long, default_value = "127.0.0.1:8000")]
        listen: SocketAddr,
        /// The environment variable that holds the bearer token.
        #[arg(long, value_name = "NAME")]
        token_env: Option<String>,
        #[command(flatten)]
        config: ConfigFlags,
    },
    /// Serve a model over OpenAI's and SGLang's protocols: /v1/chat/completions, /v1/completions, /v1/models, /generate,
    /// /health, /metrics.
    #[command(after_help = "Example:\n  legwork serve model models/SmolLM2-135M.gguf --listen 127.0.0.1:8001")]
    Model(model::ModelArgs),
}

/// The token that an environment variable holds.
fn token(name: Option<&str>) -> Result<Option<Token>, VerbError> {
    let Some(name) = name else { return Ok(None) };
    let token =
        std::env::var(name).map_err(|_| format!("--token-env names {name}, which is not set in the environment"))?;
    Ok(Some(Token::new(token)))
}

pub(super) fn run(args: &ServeArgs) -> Result<Ended, VerbError> {
    let (listen, token_env, config) = match &args.what {
        What::Search { listen, token_env, config } => (listen, token_env, config),
        What::Model(args) => return model::run(args),
    };
    let settings = Settings::read(&resolve(config, Vec::new())?)?;
    let token = token(token_env.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let world = assemble::load_world(&settings.world, &settings.run)?;
        let bar = progress::documents("indexing", true);
        let embedder = assemble::embedder(&settings)?;
        let parts =
            assemble::assemble_library(&settings, &world, embedder, &mut |step| progress::build_step(&bar, &step))
                .await?;
        bar.finish_and_clear();
        let server =
            bind(&SearchServerConfig { listen: *listen, token, ..SearchServerConfig::default() }, parts.library)?;
        output::note(&format!("serving {} at http://{}; Ctrl-C ends it", world.name, server.address()));
        let handle = server.handle();
        until_told(server.run(), || drop(handle.stop(true))).await
    })
}

/// Serves until a person or a scheduler ends it: told once, `stop` lets whoever is being answered have the rest; told twice,
/// nobody waits.
async fn until_told(serving: impl Future<Output = std::io::Result<()>>, stop: impl Fn()) -> Result<Ended, VerbError> {
    let mut signals = terminal::signals();
    let mut serving = std::pin::pin!(serving);
    let mut is_told = false;
    loop {
        tokio::select! {
            biased;
            ended = &mut serving => return Ok(ended.map(|()| Ended::Done)?),
            Some(_) = signals.recv() => {
                if is_told {
                    return Ok(Ended::Done);
                }
                is_told = true;
                output::note("ending: what is under way may still be answered; once more ends at once");
                stop();
            }
        }
    }
}
