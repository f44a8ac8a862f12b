//! Plays small runs into a ledger: real machines, completions written out beforehand, no actor.

use legwork_actors::ledger::{Append, LedgerReader, Manifest, Store};
use legwork_protocol::call::{Call, Grammar};
use legwork_protocol::coordinator::{Coordinator, CoordinatorEffect, CoordinatorEvent, coordinator};
use legwork_protocol::environment::{Lookup, LookupAnswer};
use legwork_protocol::episode::{Episode, EpisodeEffect, EpisodeEvent};
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::{Completion, TokenIds, Usage};
use legwork_protocol::grading::exact_match;
use legwork_protocol::id::{DocId, EpisodeKey, Scope};
use legwork_protocol::machine::{Digest, effect_digest};
use legwork_protocol::outcome::{GradedBy, Verdict};
use legwork_protocol::profile::{CoordinatorKind, ExactRule, Profile};
use legwork_protocol::question::Question;
use legwork_protocol::retrieval::{Hit, Page, PageRef, SearchAnswer};
use legwork_protocol::worker::{Brief, Worker, WorkerEffect, WorkerEvent, WorkerReport};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

/// What the models of an episode say.
#[derive(Clone, Default)]
pub(super) struct Lines {
    /// The coordinator's turns.
    pub(super) coordinator: Vec<Completion>,
    /// Each worker's turns. A turn that is missing is a failure of the endpoint.
    pub(super) workers: Vec<Vec<Completion>>,
}

/// A run whose n-th episode follows the n-th lines; episodes beyond them never begin.
pub(super) fn play(
    folder: &Path,
    kind: CoordinatorKind,
    rounds: u32,
    questions: &[Question],
    lines: &[Lines],
) -> LedgerReader {
    let mut profile: Profile = toml::from_str(include_str!("../../profiles/archive-mock.toml")).unwrap();
    profile.coordinator.kind = kind;
    profile.worker.turn_attempts_max = 1;
    let manifest = Manifest {
        run: "a test's run".into(),
        began_epoch_ms: 1_796_028_911_042,
        legwork: "0.1.0".into(),
        world: "toy".into(),
        profile: profile.clone(),
        seed: 7,
        rounds,
        questions: u32::try_from(questions.len()).unwrap(),
        mock: true,
        inputs: BTreeMap::from([("models.worker".to_owned(), "mock lines".to_owned())]),
        script: None,
        forked_from: None,
    };
    let mut store = Store::create(folder, &manifest, questions).unwrap();
    let keys = (0..rounds).flat_map(|round| questions.iter().map(move |question| (round, question)));
    for ((round, question), lines) in keys.zip(lines) {
        let key = EpisodeKey { round, question: question.id.clone() };
        let stage = Stage { profile: Arc::new(profile.clone()), store: &mut store, key, seqs: BTreeMap::new() };
        stage.episode(question, lines.clone());
    }
    drop(store);
    LedgerReader::open(folder).unwrap()
}

pub(super) fn question(id: &str, tier: &str) -> Question {
    Question {
        id: id.into(),
        text: format!("Which answer has {id}?"),
        answers: vec!["Ada Lovelace".into()],
        tier: tier.into(),
        gold: vec!["d1".into()],
        evidence: vec!["d1".into(), "d9".into()],
        decomposition: Vec::new(),
    }
}

pub(super) fn says(think: &str, call: Call) -> Completion {
    let text = format!("<think>\n{think}\n</think>\n\n{}", Grammar::Strict.render(&[call]));
    let usage = Usage { prompt_tokens: 50, cached_tokens: 10, completion_tokens: 5 };
    Completion { text, usage, served_ms: 20, attempts: 1, ..Completion::default() }
}

pub(super) fn searches(query: &str) -> Completion {
    says("look", Call::new("search", [("query", query)]))
}

pub(super) fn finishes(answer: &str) -> Completion {
    says("done", Call::new("finish", [("answer", answer), ("explanation", "as read, \"there\""), ("confidence", "90")]))
}

pub(super) fn with_ids(completion: Completion, prompt: &[u32], new: &[u32]) -> Completion {
    let logprobs = vec![-0.5; new.len()];
    let ids = TokenIds { prompt: prompt.to_vec(), completion: new.to_vec(), logprobs };
    Completion { ids: Some(ids), ..completion }
}

struct Stage<'a> {
    profile: Arc<Profile>,
    store: &'a mut Store,
    key: EpisodeKey,
    seqs: BTreeMap<Scope, u32>,
}

impl Stage<'_> {
    fn record(&mut self, scope: Scope, event: impl Into<Event>, effect: Option<Digest>) {
        let seq = self.seqs.entry(scope).or_default();
        let recorded = RecordedEvent { seq: *seq, event: event.into(), effect };
        *seq += 1;
        let at_ms = 1_796_028_912_000 + u64::from(*seq);
        self.store.append(&[Box::new(Append::new(self.key.clone(), scope, at_ms, &recorded))]).unwrap();
    }

    fn episode(mut self, question: &Question, lines: Lines) {
        let question = Arc::new(question.clone());
        let mut machine = Episode::new(self.key.clone(), Arc::clone(&question));
        let mut mind = coordinator(&self.profile, &question, None);
        let (mut turns, mut workers) = (VecDeque::from(lines.coordinator), VecDeque::from(lines.workers));
        let mut event = EpisodeEvent::Admitted;
        loop {
            let effect = machine.apply(&event);
            self.record(Scope::Episode, event, effect.as_ref().map(effect_digest));
            event = match effect.expect("every event of this play has an effect") {
                EpisodeEffect::Ask => {
                    let asked = CoordinatorEvent::Asked { question: question.text.clone(), prompt_tokens: 30 };
                    self.coordinator(&mut *mind, asked, &mut turns)
                }
                EpisodeEffect::Start(start) => {
                    let mut reports: Vec<(u32, WorkerReport)> = start
                        .into_iter()
                        .map(|(worker, brief)| {
                            (worker, self.worker(worker, brief, workers.pop_front().unwrap_or_default()))
                        })
                        .collect();
                    let (worker, report) = reports.pop().unwrap();
                    for (worker, report) in reports {
                        let event = EpisodeEvent::Reported { worker, report: Box::new(report) };
                        assert!(machine.apply(&event).is_none());
                        self.record(Scope::Episode, event, None);
                    }
                    EpisodeEvent::Reported { worker, report: Box::new(report) }
                }
                EpisodeEffect::Tell(reports) => {
                    self.coordinator(&mut *mind, CoordinatorEvent::Reported { reports, tokens: 20 }, &mut turns)
                }
                EpisodeEffect::Grade(answer) => {
                    let said = answer.answer.unwrap_or_default();
                    let correct = Some(exact_match(ExactRule::Strict, &said, &question.answers));
                    let (how, confidence) = (GradedBy::ExactMatch, answer.confidence);
                    let verdict =
                        Verdict { correct, extracted: Some(said), confidence, how, judge_text: None, attempts: 0 };
                    EpisodeEvent::Graded(verdict)
                }
                EpisodeEffect::End(_) => return,
            };
        }
    }

    fn coordinator(
        &mut self,
        mind: &mut dyn Coordinator,
        event: CoordinatorEvent,
        turns: &mut VecDeque<Completion>,
    ) -> EpisodeEvent {
        let mut event = event;
        loop {
            let effect = mind.apply(&event);
            self.record(Scope::Coordinator, event, effect.as_ref().map(effect_digest));
            event = match effect.expect("every event of this play has an effect") {
                CoordinatorEffect::Generate(_) => {
                    CoordinatorEvent::Generated { completion: turns.pop_front().expect("a line"), tokens: 5 }
                }
                CoordinatorEffect::Delegate(briefs) => return EpisodeEvent::Delegated(briefs),
                CoordinatorEffect::Answer(answer) => return EpisodeEvent::Answered(answer),
                CoordinatorEffect::Observe(lookups) => {
                    let answers: Vec<LookupAnswer> = lookups.iter().map(look_up).collect();
                    let (environment, reading) = mind.tools().expect("a mind that looks up has tools");
                    let observed = environment.observe(reading, &answers);
                    CoordinatorEvent::Observed { observed, tokens: 15, served_ms: 2 }
                }
            };
        }
    }

    fn worker(&mut self, number: u32, brief: Brief, turns: Vec<Completion>) -> WorkerReport {
        let mut machine = Worker::new(Arc::clone(&self.profile));
        let mut turns = VecDeque::from(turns);
        let mut event = WorkerEvent::Briefed { brief, prompt_tokens: 40, wrap_up_tokens: 10 };
        loop {
            let effect = machine.apply(&event);
            self.record(Scope::Worker(number), event, effect.as_ref().map(effect_digest));
            event = match effect.expect("every event of this play has an effect") {
                WorkerEffect::Generate(_) => match turns.pop_front() {
                    Some(completion) => WorkerEvent::Generated { completion, tokens: 5 },
                    None => {
                        let failure = Failure::new(FailureKind::Unreachable, "no line is left");
                        WorkerEvent::GenerationFailed { failure, served_ms: 1 }
                    }
                },
                WorkerEffect::Observe(lookups) => {
                    let answers: Vec<LookupAnswer> = lookups.iter().map(look_up).collect();
                    let observed = machine.environment().observe(machine.reading(), &answers);
                    WorkerEvent::Observed { observed, tokens: 15, served_ms: 2 }
                }
                WorkerEffect::AskGate => panic!("the gate is off"),
                WorkerEffect::Report(report) => return *report,
            };
        }
    }
}

/// Two documents for every query, others for one that begins with `elsewhere`; every page is there.
fn look_up(lookup: &Lookup) -> LookupAnswer {
    let page = |docid: &DocId| Page {
        docid: docid.clone(),
        url: None,
        title: None,
        text: Arc::from(format!("the text of {docid}, \u{2028} with \"quotes\"")),
    };
    match lookup {
        Lookup::Search { query, .. } => {
            let hit = |docid: &str| {
                let Page { docid, url, title, text } = page(&docid.into());
                Hit { docid, url, title, text, score: 1.0 }
            };
            let found = if query.starts_with("elsewhere") { ["d3", "d4"] } else { ["d2", "d1"] };
            LookupAnswer::Found(SearchAnswer { hits: found.map(hit).to_vec(), degraded: false, served_ms: 1 })
        }
        Lookup::Open(PageRef::DocId(docid)) => LookupAnswer::Page(Some(page(docid))),
        Lookup::Open(PageRef::Url(_)) => LookupAnswer::Page(None),
    }
}
