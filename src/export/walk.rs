//! The walk over a run: each planned episode with its record, final answer and conversations, rebuilt by feeding its
//! events to fresh machines. An episode whose events now lead elsewhere stops the walk.

use super::{ExportError, Options, Summary};
use legwork_actors::ledger::{History, LedgerReader, Manifest, StoredEvent, replay_episode};
use legwork_protocol::call::Call;
use legwork_protocol::coordinator::{CoordinatorEffect, CoordinatorEvent, FinalAnswer, coordinator};
use legwork_protocol::episode::EpisodeEvent;
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::generation::Completion;
use legwork_protocol::id::{EpisodeKey, QuestionId, Scope};
use legwork_protocol::message::Message;
use legwork_protocol::profile::Profile;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use legwork_protocol::worker::{Worker, WorkerEffect, WorkerEvent, WorkerReport};
use std::collections::HashMap;
use std::sync::Arc;

/// A run, open for the walk.
pub(super) struct Walk<'a> {
    reader: &'a LedgerReader,
    pub(super) manifest: Manifest,
    profile: Arc<Profile>,
    /// The profile with all thinking kept: what the model wrote is what is exported, whatever it was shown again.
    thinking: Arc<Profile>,
    questions: HashMap<QuestionId, Arc<Question>>,
    keys: Vec<EpisodeKey>,
    /// Whether the walk goes over several rounds.
    pub(super) several_rounds: bool,
}

/// One planned episode.
pub(super) struct EpisodeView {
    pub(super) key: EpisodeKey,
    pub(super) question: Arc<Question>,
    /// How it ended, if it has.
    pub(super) record: Option<EpisodeRecord>,
    /// What was given to the grader.
    pub(super) answer: Option<FinalAnswer>,
    /// When its first and last event were recorded, in milliseconds since the Unix epoch.
    pub(super) times_ms: Option<(u64, u64)>,
    history: History,
}

/// The conversation of one machine.
pub(super) struct Talk<'a> {
    pub(super) scope: Scope,
    pub(super) messages: Vec<Arc<Message>>,
    /// What the model answered, in order; each is one of the assistant messages.
    pub(super) turns: Vec<Turn<'a>>,
    /// A worker's report, if it came to one.
    pub(super) report: Option<WorkerReport>,
}

/// One answer of a model and the calls in it.
pub(super) struct Turn<'a> {
    pub(super) completion: &'a Completion,
    pub(super) calls: Vec<Call>,
}

impl<'a> Walk<'a> {
    /// Reads what stays in memory: manifest, questions and plan.
    pub(super) fn begin(reader: &'a LedgerReader, options: &Options) -> Result<Self, ExportError> {
        let manifest = reader.manifest()?;
        let rounds = manifest.rounds;
        if let Some(round) = options.round.filter(|round| *round >= rounds) {
            return Err(ExportError::NoRound { round, rounds });
        }
        let questions = reader.questions()?.into_iter().map(|question| (question.id.clone(), Arc::new(question)));
        let mut keys = reader.planned()?;
        keys.retain(|key| options.round.is_none_or(|round| key.round == round));
        let mut thinking = manifest.profile.clone();
        thinking.worker.keep_thinking = true;
        thinking.coordinator.keep_reasoning = true;
        Ok(Self {
            reader,
            profile: Arc::new(manifest.profile.clone()),
            thinking: Arc::new(thinking),
            questions: questions.collect(),
            keys,
            several_rounds: rounds > 1 && options.round.is_none(),
            manifest,
        })
    }

    /// Episodes planned.
    pub(super) fn planned(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Ids of the questions, in planned order.
    pub(super) fn question_ids(&self) -> impl Iterator<Item = &QuestionId> {
        let first = self.keys.first().map(|key| key.round);
        self.keys.iter().filter(move |key| Some(key.round) == first).map(|key| &key.question)
    }

    /// Each planned episode, in order; those that have ended are counted.
    pub(super) fn each(
        &self,
        summary: &mut Summary,
        mut take: impl FnMut(&EpisodeView, &mut Summary) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        for key in &self.keys {
            let episode = self.episode(key)?;
            summary.ended += u64::from(episode.record.is_some());
            take(&episode, summary)?;
        }
        Ok(())
    }

    /// One planned episode.
    pub(super) fn episode(&self, key: &EpisodeKey) -> Result<EpisodeView, ExportError> {
        let question = self.questions.get(&key.question).ok_or_else(|| ExportError::NoQuestion { key: key.clone() })?;
        let events = self.reader.events(key)?;
        let times_ms = events.first().map(|first| first.at_ms).zip(events.last().map(|last| last.at_ms));
        let ends = events.iter().rposition(|event| event.scope == Scope::Episode).map_or(0, |end| end + 1);
        let late: Vec<Scope> = events[ends..].iter().map(|event| event.scope).collect();
        let mut history = by_scope(events);
        let script = self.manifest.script.as_ref();
        let replayed = replay_episode(&self.profile, script, question, key, &history);
        if let Some(difference) = replayed.difference {
            let legwork = self.manifest.legwork.clone();
            return Err(ExportError::Differs { difference: Box::new(difference), legwork });
        }
        if replayed.record.is_some() {
            // What a worker still wrote behind the episode's end is in no export, or a row would depend on when it is made.
            for scope in late {
                history.get_mut(&scope).map(Vec::pop);
            }
            history.retain(|_, events| !events.is_empty());
        }
        let own = history.get(&Scope::Episode).into_iter().flatten();
        let answer = own.rev().find_map(|recorded| match &recorded.event {
            Event::Episode(EpisodeEvent::Answered(answer)) => Some((**answer).clone()),
            _ => None,
        });
        let question = Arc::clone(question);
        Ok(EpisodeView { key: key.clone(), question, record: replayed.record, answer, times_ms, history })
    }

    /// The conversations of an episode's workers, in order.
    pub(super) fn workers<'e>(&self, episode: &'e EpisodeView) -> impl Iterator<Item = Talk<'e>> {
        self.worker_events(episode).map(|(scope, events)| self.worker(scope, events))
    }

    /// The events of an episode's workers, in order.
    pub(super) fn worker_events<'e>(
        &self,
        episode: &'e EpisodeView,
    ) -> impl Iterator<Item = (Scope, &'e [RecordedEvent])> {
        let workers = episode.history.iter().filter(|(scope, _)| matches!(scope, Scope::Worker(_)));
        workers.map(|(scope, events)| (*scope, events.as_slice()))
    }

    /// The conversation of an episode's coordinator, if a model coordinates.
    pub(super) fn coordinator<'e>(&self, episode: &'e EpisodeView) -> Option<Talk<'e>> {
        let events = episode.history.get(&Scope::Coordinator)?;
        let mut machine = coordinator(&self.thinking, &episode.question, self.manifest.script.as_ref());
        let mut turns = Vec::new();
        for recorded in events {
            let Event::Coordinator(event) = &recorded.event else { continue };
            let effect = machine.apply(event);
            if let CoordinatorEvent::Generated { completion, .. } = event {
                // Only a turn that wants lookups has calls of its own to show; others leave those of an earlier one.
                let wants = matches!(effect, Some(CoordinatorEffect::Observe(_)));
                let tools = machine.tools().filter(|_| wants);
                turns.push(Turn {
                    completion,
                    calls: tools.map(|(_, reading)| reading.calls.clone()).unwrap_or_default(),
                });
            }
        }
        let messages = machine.conversation()?.messages().to_vec();
        Some(Talk { scope: Scope::Coordinator, messages, turns, report: None })
    }

    fn worker<'e>(&self, scope: Scope, events: &'e [RecordedEvent]) -> Talk<'e> {
        let mut machine = Worker::new(Arc::clone(&self.thinking));
        let mut turns = Vec::new();
        let mut report = None;
        for recorded in events {
            let Event::Worker(event) = &recorded.event else { continue };
            let effect = machine.apply(event);
            if let WorkerEvent::Generated { completion, .. } = event {
                turns.push(Turn { completion, calls: machine.reading().calls.clone() });
            }
            if let Some(WorkerEffect::Report(end)) = effect {
                report = Some(*end);
            }
        }
        Talk { scope, messages: machine.conversation().messages().to_vec(), turns, report }
    }

    /// What the manifest says of a route's model.
    pub(super) fn model(&self, route: &str) -> &str {
        self.manifest.inputs.get(&format!("models.{route}")).map_or("not recorded", String::as_str)
    }
}

impl EpisodeView {
    /// Whether it was graded correct.
    pub(super) fn is_correct(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.outcome.is_correct())
    }

    /// How it ended, in a word; an episode that has not ended says so.
    pub(super) fn outcome(&self) -> &'static str {
        self.record.as_ref().map_or("not ended", |record| record.outcome.name())
    }
}

fn by_scope(events: Vec<StoredEvent>) -> History {
    let mut history = History::new();
    for event in events {
        history.entry(event.scope).or_default().push(event.recorded);
    }
    history
}
