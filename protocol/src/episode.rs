//! The episode's machine: one question from asking to verdict. It decides who is asked next and how the
//! episode ends; every end is one [`Outcome`], and nothing is left out of the record.

use crate::budget::Amount;
use crate::coordinator::{AnswerEnd, FinalAnswer};
use crate::failure::{Failure, FailureKind};
use crate::gate::{GateTally, Hindsight};
use crate::id::EpisodeKey;
use crate::outcome::{GradedBy, Outcome, Verdict};
use crate::question::Question;
use crate::record::EpisodeRecord;
use crate::worker::{Brief, ReportStatus, WorkerReport};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// What happens to an episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpisodeEvent {
    /// The run admits it.
    Admitted,
    /// The coordinator wants workers.
    Delegated(Vec<Brief>),
    /// The coordinator ended.
    Answered(Box<FinalAnswer>),
    /// A worker reported.
    Reported {
        /// The worker, from 0 over the episode.
        worker: u32,
        /// Its report.
        report: Box<WorkerReport>,
    },
    /// The grader spoke.
    Graded(Verdict),
    /// An actor of the episode died more often than its restart budget allows.
    ActorLost(Failure),
    /// Somebody asked for it to stop.
    Cancelled,
}

/// What an episode wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpisodeEffect {
    /// Ask the coordinator.
    Ask,
    /// Start workers: their numbers and briefs.
    Start(Vec<(u32, Brief)>),
    /// Give the coordinator the reports of its last delegation, in the order of its briefs.
    Tell(Vec<WorkerReport>),
    /// Have the answer graded.
    Grade(Box<FinalAnswer>),
    /// The end. Nothing follows.
    End(Box<EpisodeRecord>),
}

/// The machine of one episode.
#[derive(Debug)]
pub struct Episode {
    key: EpisodeKey,
    question: Arc<Question>,
    workers: u32,
    /// The workers of the delegation under way, in the order of its briefs, and what each has reported.
    owed: Vec<(u32, Option<Box<WorkerReport>>)>,
    reports: Vec<WorkerReport>,
    answer: Option<FinalAnswer>,
    ended: bool,
}

impl Episode {
    /// An episode that has not been admitted.
    pub fn new(key: EpisodeKey, question: Arc<Question>) -> Self {
        Self { key, question, workers: 0, owed: Vec::new(), reports: Vec::new(), answer: None, ended: false }
    }

    /// The question and round.
    pub fn key(&self) -> &EpisodeKey {
        &self.key
    }

    /// Whether the end was reached.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Whether the coordinator has ended.
    pub fn is_answered(&self) -> bool {
        self.answer.is_some()
    }

    /// Workers that still owe a report.
    pub fn owing(&self) -> impl Iterator<Item = u32> + '_ {
        self.owed.iter().filter(|(_, report)| report.is_none()).map(|(worker, _)| *worker)
    }

    /// Takes an event in; says what to do next. Events after the end change nothing.
    pub fn apply(&mut self, event: &EpisodeEvent) -> Option<EpisodeEffect> {
        if self.ended {
            return None;
        }
        match event {
            EpisodeEvent::Admitted => Some(EpisodeEffect::Ask),
            EpisodeEvent::Delegated(briefs) => self.delegated(briefs),
            EpisodeEvent::Answered(answer) => self.answered(answer),
            EpisodeEvent::Reported { worker, report } => self.reported(*worker, report),
            EpisodeEvent::Graded(verdict) => self.graded(verdict),
            EpisodeEvent::ActorLost(failure) => self.end(Outcome::Failed(failure.kind), None, Some(failure.clone())),
            EpisodeEvent::Cancelled => self.end(Outcome::Cancelled, None, None),
        }
    }

    fn delegated(&mut self, briefs: &[Brief]) -> Option<EpisodeEffect> {
        let first = self.workers;
        self.workers += u32::try_from(briefs.len()).unwrap_or(u32::MAX);
        let start: Vec<(u32, Brief)> = (first..self.workers).zip(briefs.iter().cloned()).collect();
        self.owed = start.iter().map(|(worker, _)| (*worker, None)).collect();
        Some(EpisodeEffect::Start(start))
    }

    fn reported(&mut self, worker: u32, report: &WorkerReport) -> Option<EpisodeEffect> {
        match self.owed.iter_mut().find(|(owing, _)| *owing == worker) {
            Some((_, place @ None)) => *place = Some(Box::new(report.clone())),
            // A second report of the same worker, or one that nobody waits for: the first stands.
            Some((_, Some(_))) | None => return None,
        }
        if self.owed.iter().any(|(_, report)| report.is_none()) {
            return None;
        }
        let reports: Vec<WorkerReport> = self.take_reports().collect();
        self.reports.extend(reports.iter().cloned());
        Some(EpisodeEffect::Tell(reports))
    }

    fn take_reports(&mut self) -> impl Iterator<Item = WorkerReport> + use<> {
        std::mem::take(&mut self.owed).into_iter().filter_map(|(_, report)| report.map(|report| *report))
    }

    fn answered(&mut self, answer: &FinalAnswer) -> Option<EpisodeEffect> {
        if self.is_answered() {
            // The first answer stands.
            return None;
        }
        self.answer = Some(answer.clone());
        match &answer.end {
            AnswerEnd::Answered => Some(EpisodeEffect::Grade(Box::new(answer.clone()))),
            AnswerEnd::NoAnswer => self.end(Outcome::NoAnswer, None, None),
            AnswerEnd::Exhausted => self.end(Outcome::Exhausted, None, None),
            AnswerEnd::Malformed => self.end(Outcome::Malformed, None, None),
            AnswerEnd::Failed(failure) => self.end(Outcome::Failed(failure.kind), None, Some(failure.clone())),
            AnswerEnd::Cancelled => self.end(Outcome::Cancelled, None, None),
        }
    }

    fn graded(&mut self, verdict: &Verdict) -> Option<EpisodeEffect> {
        let outcome = match (verdict.correct, verdict.how) {
            (_, GradedBy::Blank) => Outcome::NoAnswer,
            (Some(true), _) => Outcome::Correct,
            (Some(false), _) => Outcome::Wrong,
            (None, _) => Outcome::Ungraded,
        };
        self.end(outcome, Some(verdict.clone()), None)
    }

    fn end(&mut self, outcome: Outcome, verdict: Option<Verdict>, failure: Option<Failure>) -> Option<EpisodeEffect> {
        self.ended = true;
        let reported: Vec<WorkerReport> = self.take_reports().collect();
        self.reports.extend(reported);
        let failure = failure.or_else(|| {
            let kind = FailureKind::Cancelled;
            (outcome == Outcome::Cancelled).then(|| Failure::new(kind, "the run was stopped before its end"))
        });
        Some(EpisodeEffect::End(Box::new(self.record(outcome, verdict, failure))))
    }

    fn record(&self, outcome: Outcome, verdict: Option<Verdict>, failure: Option<Failure>) -> EpisodeRecord {
        let answer = self.answer.as_ref();
        let own = answer.map(|answer| &answer.lookups);
        let sum = |of: fn(&WorkerReport) -> u32| self.reports.iter().map(of).fold(0, u32::saturating_add);
        let mut seen = HashSet::new();
        let documents = |of: fn(&WorkerReport) -> &Vec<crate::id::DocId>| self.reports.iter().flat_map(of);
        let retrieved = documents(|r| &r.retrieved).chain(own.iter().flat_map(|own| &own.retrieved));
        let mut served: Vec<u64> = answer.map(|answer| answer.turn_served_ms.clone()).unwrap_or_default();
        served.extend(self.reports.iter().flat_map(|report| &report.turn_served_ms));
        EpisodeRecord {
            key: self.key.clone(),
            tier: self.question.tier.clone(),
            outcome,
            answer: answer.and_then(|answer| answer.answer.clone()),
            verdict,
            failure,
            coordinator_spent: answer.map(|answer| answer.spent).unwrap_or_default(),
            workers_spent: self.reports.iter().fold(Amount::default(), |sum, report| sum.plus(&report.spent)),
            workers: self.workers,
            workers_exhausted: sum(|report| u32::from(report.status == ReportStatus::Exhausted)),
            searches: sum(|report| report.searches).saturating_add(own.map_or(0, |own| own.searches)),
            opens: sum(|report| report.opens).saturating_add(own.map_or(0, |own| own.opens)),
            malformed_turns: sum(|report| report.malformed_turns)
                .saturating_add(answer.map_or(0, |answer| answer.malformed_turns)),
            repeated_calls: sum(|report| report.repeated_calls).saturating_add(own.map_or(0, |own| own.repeated_calls)),
            degraded_searches: sum(|report| report.degraded_searches)
                .saturating_add(own.map_or(0, |own| own.degraded_searches)),
            retrieved: retrieved.filter(|docid| seen.insert((*docid).clone())).cloned().collect(),
            opened: documents(|r| &r.opened).chain(own.iter().flat_map(|own| &own.opened)).cloned().collect(),
            gold: self.question.gold.clone(),
            evidence: self.question.evidence.clone(),
            gate: self.gate_tally(outcome),
            turn_served_ms: served,
        }
    }

    fn gate_tally(&self, outcome: Outcome) -> GateTally {
        let answer = self.answer.as_ref().and_then(|answer| answer.answer.as_deref());
        let after = Hindsight::new(&self.question, outcome, answer);
        let mut tally = GateTally::default();
        for report in &self.reports {
            tally.add(&report.gate, report.answer.as_deref(), &report.opened, report.spent.tokens, &after);
        }
        tally
    }
}
