//! `legwork config show`: the resolved configuration, and where each value came from.

use super::{ConfigFlags, Ended, VerbError, output, resolve};
use crate::config::Settings;
use clap::{Args, Subcommand};

/// Shows the configuration.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the resolved configuration and where each value came from.
    #[command(after_help = "Example:\n  legwork config show -p card --set worker.turns_max=20")]
    Show {
        #[command(flatten)]
        config: ConfigFlags,
        /// As JSON, without origins.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(args: &ConfigArgs) -> Result<Ended, VerbError> {
    let What::Show { config, json } = &args.what;
    let resolved = resolve(config, Vec::new())?;
    // Shown only if it can be used, and never with a key in it: an endpoint with one is refused here.
    let settings = Settings::read(&resolved)?;
    for (route, model) in &settings.models {
        if let crate::config::ModelSettings::Endpoint(endpoint) = model {
            endpoint.validate(&format!("models.{route}"))?;
        }
    }
    if *json {
        output::print_json(&resolved.table);
    } else {
        output::print(&resolved.to_text());
    }
    Ok(Ended::Done)
}
