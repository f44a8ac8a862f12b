//! The verbs, one file each. A verb returns how it ended; what went wrong is one line that says what to do.

mod audit;
mod compare;
mod config;
mod doctor;
mod embed;
mod eval;
mod export;
mod export_model;
mod fetch;
mod fork;
mod index;
mod init;
mod ledger;
mod mask;
mod mix;
mod output;
mod regrade;
mod replay;
mod report;
mod retrieve;
mod scenario;
mod serve;
mod train;
mod train_embedder;
mod verify;
mod world;

use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs, evaluates, trains and serves a research worker under a frozen coordinator.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100, after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 incomplete.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run episodes over a world and print the table.
    Eval(eval::EvalArgs),
    /// Compare two runs question by question.
    Compare(compare::CompareArgs),
    /// Print and write the report of a run.
    Report(report::ReportArgs),
    /// Feed a run's events to fresh machines; no model is called.
    Replay(replay::ReplayArgs),
    /// Begin a new run from a turn of an old one, with another coordinator.
    Fork(fork::ForkArgs),
    /// Grade a run's answers again with another judge, and say how far the two agree.
    Regrade(regrade::RegradeArgs),
    /// Build an index of a corpus.
    Index(index::IndexArgs),
    /// Search an index: one query, or a file of queries into a TREC run with measures.
    Retrieve(retrieve::RetrieveArgs),
    /// Give an index vectors, from an embeddings endpoint or a file.
    Embed(embed::EmbedArgs),
    /// Serve one model to the program that started this one, by its pipes.
    #[command(hide = true, name = legwork_actors::local::PROCESS_VERB)]
    ModelProcess,
    /// Fetch a model or a data set from the Hugging Face hub.
    Fetch(fetch::FetchArgs),
    /// Train a model on rows.
    Train(Box<train::TrainArgs>),
    /// Train a small decoder as an embedder, on queries and the documents that answer them.
    TrainEmbedder(train_embedder::TrainEmbedderArgs),
    /// Serve a corpus over FoldAgent's search protocol, or a model over OpenAI's and SGLang's.
    Serve(serve::ServeArgs),
    /// Check a copied run or an exported model offline, byte for byte.
    Verify(verify::VerifyArgs),
    /// Make a new small model to train, with a tokenizer learnt from texts.
    Init(init::InitArgs),
    /// Export a checkpoint of a training run as a Hugging Face folder.
    Export(export_model::ExportModelArgs),
    /// Look at what a row teaches: its tokens, and which of them are learned.
    Mask(mask::MaskArgs),
    /// Mix rows of two sources, balanced by their tokens in the loss.
    Mix(mix::MixArgs),
    /// Look for test questions in rows to train on.
    Audit(audit::AuditArgs),
    /// Work on a run's ledger: rebuild records, export.
    Ledger(ledger::LedgerArgs),
    /// Inject faults into whole runs: named scenarios, drawn ones, hostile documents.
    Scenario(scenario::ScenarioArgs),
    /// Write a world's corpus and questions as files.
    World(world::WorldArgs),
    /// Show the resolved configuration and where each value came from.
    Config(config::ConfigArgs),
    /// Look at this machine, the endpoints, keys (present or not), corpus and index.
    Doctor(doctor::DoctorArgs),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Where a configuration comes from.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConfigFlags {
    /// The profile: archive, archive-mock, card or foldagent.
    #[arg(long, short = 'p')]
    pub profile: Option<String>,
    /// A TOML file laid over the profile.
    #[arg(long, short = 'c')]
    pub config: Option<PathBuf>,
    /// One value laid on top, such as worker.turns_max=20; may be given often.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// How a verb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All of it.
    Done,
    /// Not all of it; what there is, is kept.
    Incomplete,
    /// It says no: a difference, a broken chain, a bad finding.
    Refused,
}

/// What a verb fails with.
pub type VerbError = Box<dyn std::error::Error + Send + Sync>;

/// Runs a verb.
pub fn run(cli: Cli) -> ExitCode {
    // Where faults are planned, warnings of them are no news.
    output::start_log(if matches!(cli.verb, Verb::Scenario(_)) { "off" } else { "warn" });
    let ended = match cli.verb {
        Verb::Eval(args) => eval::run(args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Fork(args) => fork::run(args),
        Verb::Regrade(args) => regrade::run(&args),
        Verb::Index(args) => index::run(&args),
        Verb::Retrieve(args) => retrieve::run(&args),
        Verb::Embed(args) => embed::run(&args),
        Verb::ModelProcess => model_process(),
        Verb::Fetch(args) => fetch::run(&args),
        Verb::Serve(args) => serve::run(&args),
        Verb::Train(args) => train::run(&args),
        Verb::TrainEmbedder(args) => train_embedder::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Init(args) => init::run(&args),
        Verb::Export(args) => export_model::run(&args),
        Verb::Mask(args) => mask::run(&args),
        Verb::Mix(args) => mix::run(&args),
        Verb::Audit(args) => audit::run(&args),
        Verb::Ledger(args) => ledger::run(&args),
        Verb::Scenario(args) => scenario::run(&args),
        Verb::World(args) => world::run(&args),
        Verb::Config(args) => config::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "legwork", &mut std::io::stdout());
            Ok(Ended::Done)
        }
    };
    match ended {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::Refused) => ExitCode::from(1),
        Ok(Ended::Incomplete) => ExitCode::from(3),
        Err(error) => {
            output::complain(error.as_ref());
            let usage = error.is::<crate::config::ConfigError>();
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

/// Serves a model to the program that started this one. Nothing else may write to its standard output.
fn model_process() -> Result<Ended, VerbError> {
    legwork_actors::local::serve_model_apart(std::io::stdin().lock(), std::io::stdout().lock())?;
    Ok(Ended::Done)
}

/// Resolves a configuration from its flags and those of a verb.
fn resolve(
    flags: &ConfigFlags,
    own: Vec<(&'static str, &'static str, toml::Value)>,
) -> Result<crate::config::Resolved, crate::config::ConfigError> {
    crate::config::resolve(&crate::config::Given {
        profile: flags.profile.clone(),
        file: flags.config.clone(),
        sets: flags.sets.clone(),
        flags: own,
    })
}
