//! `legwork fork`: begins a new run from a turn of an old one, with another coordinator model. Everything before the
//! cut is copied event by event and costs nothing; everything after it is asked anew.

use super::eval::{Place, ViewFlags, evaluate, name_by_time};
use super::{ConfigFlags, Ended, VerbError, resolve};
use crate::config::Settings;
use crate::runs::OpenRun;
use clap::Args;
use legwork_actors::ledger::{History, replay_episode};
use legwork_protocol::coordinator::CoordinatorEvent;
use legwork_protocol::episode::EpisodeEvent;
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::id::{EpisodeKey, Scope};
use std::path::PathBuf;
use std::sync::Arc;

/// Begins a new run from a turn of an old one.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  legwork fork runs/mine --turn 1 -c other.toml
keeps the question, the first turn's briefs and their reports, and asks the coordinator of other.toml from there on")]
pub struct ForkArgs {
    /// The run to fork.
    from: PathBuf,
    /// The coordinator's turn to begin with, from 0: earlier ones are kept. For a coordinator without a model a turn is
    /// a round of briefs.
    #[arg(long)]
    turn: u32,
    /// The new run's folder; named by time and profile if absent.
    #[arg(long, value_name = "FOLDER")]
    run: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlags,
    #[command(flatten)]
    view: ViewFlags,
}

/// What is taken over from an old run.
pub(super) struct Cut {
    /// Where it comes from, for the manifest.
    pub(super) from: String,
    /// The events kept of each episode.
    pub(super) kept: Vec<(EpisodeKey, History)>,
}

pub(super) fn run(args: ForkArgs) -> Result<Ended, VerbError> {
    let settings = Settings::read(&resolve(&args.config, Vec::new())?)?;
    let old = OpenRun::open(&args.from)?;
    let cut = cut(&old, &settings, args.turn)?;
    drop(old);
    let folder = args.run.unwrap_or_else(|| settings.run.folder.join(name_by_time(&settings.profile.name)));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(evaluate(&settings, Place::Fork(folder, cut), &[], args.view))
}

fn cut(old: &OpenRun, settings: &Settings, turn: u32) -> Result<Cut, VerbError> {
    let (_, link) = old.reader.verify_chain()?;
    let profile = Arc::new(settings.profile.clone());
    let mut kept = Vec::new();
    for key in old.reader.planned()? {
        let history = cut_at(&old.reader.history(&key)?, turn);
        let Some(question) = old.questions.iter().find(|question| question.id == key.question) else { continue };
        let question = Arc::new(question.clone());
        // The new profile's machines must agree with what is kept, or they would go on from a state of their own.
        let replayed = replay_episode(&profile, old.manifest.script.as_ref(), &question, &key, &history);
        if let Some(difference) = replayed.difference {
            return Err(format!("the kept events do not fit this configuration: {difference}; only the coordinator's model may differ in a fork").into());
        }
        kept.push((key, history));
    }
    Ok(Cut { from: format!("{} at link {} before turn {turn}", old.manifest.run, &link[..16]), kept })
}

/// The events before the coordinator's `turn`: of its own, of the episode, and of the workers it had sent out by then.
fn cut_at(history: &History, turn: u32) -> History {
    let coordinator = events_of(history, Scope::Coordinator);
    let is_turn =
        |recorded: &&RecordedEvent| matches!(&recorded.event, Event::Coordinator(CoordinatorEvent::Generated { .. }));
    let has_model = coordinator.iter().any(|recorded| is_turn(&recorded));
    let begins_turn = |recorded: &RecordedEvent| match &recorded.event {
        Event::Coordinator(CoordinatorEvent::Generated { .. }) => has_model,
        Event::Coordinator(CoordinatorEvent::Reported { .. }) => !has_model,
        _ => false,
    };
    let mut turns = 0;
    let own: Vec<RecordedEvent> = coordinator
        .iter()
        .take_while(|recorded| {
            let begins = begins_turn(recorded);
            let within = !(begins && turns == turn);
            turns += u32::from(begins);
            within
        })
        .cloned()
        .collect();
    let told = own
        .iter()
        .filter(|recorded| matches!(&recorded.event, Event::Coordinator(CoordinatorEvent::Reported { .. })))
        .count();
    let mut cut = History::new();
    let (mut delegations, mut workers) = (0, 0);
    let mut of_episode = Vec::new();
    for recorded in events_of(history, Scope::Episode) {
        match &recorded.event {
            Event::Episode(EpisodeEvent::Delegated(briefs)) => {
                delegations += 1;
                if delegations > told {
                    break;
                }
                workers += u32::try_from(briefs.len()).unwrap_or(u32::MAX);
            }
            Event::Episode(EpisodeEvent::Admitted | EpisodeEvent::Reported { .. }) => {}
            _ => break,
        }
        of_episode.push(recorded.clone());
    }
    for worker in 0..workers {
        cut.insert(Scope::Worker(worker), events_of(history, Scope::Worker(worker)).to_vec());
    }
    cut.insert(Scope::Episode, of_episode);
    cut.insert(Scope::Coordinator, own);
    cut.retain(|_, events| !events.is_empty());
    cut
}

fn events_of(history: &History, scope: Scope) -> &[RecordedEvent] {
    history.get(&scope).map(Vec::as_slice).unwrap_or_default()
}
