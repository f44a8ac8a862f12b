//! `legwork ledger`: what is in a run, its records rebuilt from events, and exports for other tools.

use super::report::folder;
use super::{Ended, VerbError, output};
use crate::runs::OpenRun;
use clap::{Args, Subcommand};
use legwork_actors::ledger::{Store, replay_episode};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Works on a run's ledger.
#[derive(Debug, Args)]
pub struct LedgerArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Throw the records away and make them again from the events alone.
    #[command(after_help = "Example:\n  legwork ledger rebuild runs/mine")]
    Rebuild {
        /// The run's folder; the last one if absent.
        run: Option<PathBuf>,
    },
    /// Print the events of one episode.
    #[command(after_help = "Example:\n  legwork ledger events runs/mine --question q17")]
    Events {
        /// The run's folder; the last one if absent.
        run: Option<PathBuf>,
        /// The question's id.
        #[arg(long)]
        question: String,
        /// The round, from 0.
        #[arg(long, default_value_t = 0)]
        round: u32,
    },
    /// Write what other tools read.
    Export(super::export::ExportArgs),
}

pub(super) fn run(args: &LedgerArgs) -> Result<Ended, VerbError> {
    match &args.what {
        What::Rebuild { run } => rebuild(run.as_ref()),
        What::Events { run, question, round } => events(run.as_ref(), question, *round),
        What::Export(args) => super::export::run(args),
    }
}

fn rebuild(run: Option<&PathBuf>) -> Result<Ended, VerbError> {
    let folder = folder(run.map(PathBuf::as_path))?;
    let run = OpenRun::open(&folder)?;
    let profile = Arc::new(run.manifest.profile.clone());
    let questions: HashMap<_, _> =
        run.questions.iter().map(|question| (question.id.clone(), Arc::new(question.clone()))).collect();
    let mut records = Vec::new();
    for key in run.reader.planned()? {
        let Some(question) = questions.get(&key.question) else { continue };
        let history = run.reader.history(&key)?;
        let episode = replay_episode(&profile, run.manifest.script.as_ref(), question, &key, &history);
        if let Some(difference) = episode.difference {
            return Err(format!("{difference}; rebuild with the legwork that wrote the run").into());
        }
        records.extend(episode.record);
    }
    let same = records == run.records;
    drop(run);
    let mut store = Store::open(&folder)?;
    store.replace_records(&records)?;
    output::print(&format!(
        "rebuilt {} records from events; they {} those that were there",
        records.len(),
        if same { "equal" } else { "differ from" }
    ));
    Ok(Ended::Done)
}

fn events(run: Option<&PathBuf>, question: &str, round: u32) -> Result<Ended, VerbError> {
    let run = OpenRun::open(&folder(run.map(PathBuf::as_path))?)?;
    let key = legwork_protocol::id::EpisodeKey { round, question: question.into() };
    let events = run.reader.events(&key)?;
    if events.is_empty() {
        return Err(format!(
            "{key} has no events in {}; `legwork report --json` lists its episodes",
            run.folder.display()
        )
        .into());
    }
    for stored in events {
        let line = serde_json::json!({
            "at_ms": stored.at_ms, "scope": stored.scope.to_string(), "seq": stored.recorded.seq,
            "event": stored.recorded.event, "effect": stored.recorded.effect,
        });
        // JSON escapes control characters, so that no page can move the cursor.
        output::print(&line.to_string());
    }
    Ok(Ended::Done)
}
