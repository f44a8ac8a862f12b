//! `legwork replay`: feeds a run's events to fresh machines. No model is called and nothing is looked up; the machines
//! must want what they wanted then, and the records must come out the same.

use super::report::folder;
use super::{Ended, VerbError, output};
use crate::runs::OpenRun;
use clap::Args;
use legwork_actors::ledger::{FirstDifference, replay_episode};
use legwork_protocol::id::{EpisodeKey, QuestionId};
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Feeds a run's events to fresh machines.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  legwork replay runs/20260102-030405-archive")]
pub struct ReplayArgs {
    /// The run's folder; the last one if absent.
    run: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// What a replay found.
#[derive(Debug, Default, Serialize)]
struct Replayed {
    episodes: u64,
    events: u64,
    ended: u64,
    model_calls: u64,
    differences: Vec<FirstDifference>,
    records_that_differ: Vec<EpisodeKey>,
}

pub(super) fn run(args: &ReplayArgs) -> Result<Ended, VerbError> {
    let run = OpenRun::open(&folder(args.run.as_deref())?)?;
    let replayed = replay(&run)?;
    if args.json {
        output::print_json(&replayed);
    } else {
        output::print(&format!(
            "replayed {} events of {} episodes ({} ended); model calls: {}",
            replayed.events, replayed.episodes, replayed.ended, replayed.model_calls
        ));
        replayed.differences.iter().for_each(|difference| output::print(&format!("differs: {difference}")));
        replayed.records_that_differ.iter().for_each(|key| output::print(&format!("record differs: {key}")));
    }
    let same = replayed.differences.is_empty() && replayed.records_that_differ.is_empty();
    Ok(if same { Ended::Done } else { Ended::Refused })
}

fn replay(run: &OpenRun) -> Result<Replayed, VerbError> {
    let profile = Arc::new(run.manifest.profile.clone());
    let questions: HashMap<&QuestionId, Arc<Question>> =
        run.questions.iter().map(|question| (&question.id, Arc::new(question.clone()))).collect();
    let records: HashMap<&EpisodeKey, &EpisodeRecord> =
        run.records.iter().map(|record| (&record.key, record)).collect();
    let mut replayed = Replayed::default();
    for key in run.reader.planned()? {
        let history = run.reader.history(&key)?;
        let Some(question) = questions.get(&key.question).filter(|_| !history.is_empty()) else { continue };
        let episode = replay_episode(&profile, run.manifest.script.as_ref(), question, &key, &history);
        replayed.episodes += 1;
        replayed.events += episode.events;
        replayed.ended += u64::from(episode.record.is_some());
        replayed.differences.extend(episode.difference);
        if records.get(&key).copied() != episode.record.as_ref() {
            replayed.records_that_differ.push(key);
        }
    }
    Ok(replayed)
}
