//! The coordinator that was written out beforehand: which briefs it gives for which question, and how it
//! answers. A mock in tests, and the frozen coordinator of the embedded world. Read from TOML.

use super::direct::from_report;
use super::{AnswerEnd, Coordinator, CoordinatorEffect, CoordinatorEvent, FinalAnswer, WorkersPurse, answer_text};
use crate::budget::Amount;
use crate::profile::Profile;
use crate::question::Question;
use crate::worker::WorkerReport;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Lines for questions; the first step that fits a question is taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// In order of preference.
    #[serde(default, rename = "step")]
    pub steps: Vec<ScriptStep>,
}

/// What to do for the questions that it fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptStep {
    /// Only this question; any if absent.
    #[serde(default)]
    pub question: Option<String>,
    /// Only questions of this tier; any if absent.
    #[serde(default)]
    pub tier: Option<String>,
    /// Rounds of briefs, one after another; `{question}` stands for the question's text and `{answer}` for the
    /// answer of the last report.
    pub briefs: Vec<Vec<String>>,
    /// A fixed final answer; without it, the last report that has an answer gives it.
    #[serde(default)]
    pub answer: Option<String>,
}

impl Default for ScriptStep {
    fn default() -> Self {
        Self { question: None, tier: None, briefs: vec![vec!["{question}".to_owned()]], answer: None }
    }
}

impl Script {
    /// The first step that fits, or the plain one: the question as the only brief.
    pub fn step_for(&self, question: &Question) -> ScriptStep {
        let fits = |step: &&ScriptStep| {
            step.question.as_deref().is_none_or(|id| id == question.id.as_str())
                && step.tier.as_deref().is_none_or(|tier| tier == question.tier)
        };
        self.steps.iter().find(fits).cloned().unwrap_or_default()
    }
}

/// A coordinator that follows its script.
#[derive(Debug)]
pub struct Scripted {
    step: ScriptStep,
    purse: WorkersPurse,
    question: String,
    next: usize,
    best: Option<WorkerReport>,
    ended: bool,
}

impl Scripted {
    /// A coordinator that follows `step`.
    pub fn new(profile: Arc<Profile>, step: ScriptStep) -> Self {
        Self { step, purse: WorkersPurse::new(&profile), question: String::new(), next: 0, best: None, ended: false }
    }

    fn take(&mut self, event: &CoordinatorEvent) -> Option<CoordinatorEffect> {
        match event {
            CoordinatorEvent::Asked { question, .. } => {
                self.question = question.clone();
                self.go_on()
            }
            CoordinatorEvent::Reported { reports, .. } => {
                self.purse.take_back(reports);
                let answered = |report: &&WorkerReport| report.answer.as_deref().is_some_and(|a| !a.trim().is_empty());
                if let Some(report) = reports.iter().rev().find(answered).or(reports.last()) {
                    self.best = Some(report.clone());
                }
                self.go_on()
            }
            CoordinatorEvent::Cancelled => Some(CoordinatorEffect::Answer(Box::new(FinalAnswer::without_answer(
                AnswerEnd::Cancelled,
                Amount::default(),
            )))),
            CoordinatorEvent::Generated { .. }
            | CoordinatorEvent::GenerationFailed { .. }
            | CoordinatorEvent::Observed { .. } => None,
        }
    }

    fn go_on(&mut self) -> Option<CoordinatorEffect> {
        let last = self.best.as_ref().and_then(|report| report.answer.as_deref()).unwrap_or_default();
        if let Some(texts) = self.step.briefs.get(self.next) {
            self.next += 1;
            let fill = |text: &String| text.replace("{question}", &self.question).replace("{answer}", last);
            let (briefs, _refused) = self.purse.lend(texts.iter().map(fill).collect());
            if !briefs.is_empty() {
                return Some(CoordinatorEffect::Delegate(briefs));
            }
        }
        Some(CoordinatorEffect::Answer(Box::new(self.answer())))
    }

    fn answer(&self) -> FinalAnswer {
        if let Some(answer) = &self.step.answer {
            return FinalAnswer {
                answer: Some(answer.clone()),
                text: answer_text(answer, None, None),
                ..FinalAnswer::without_answer(AnswerEnd::Answered, Amount::default())
            };
        }
        match &self.best {
            Some(report) => from_report(report),
            None => FinalAnswer::without_answer(AnswerEnd::NoAnswer, Amount::default()),
        }
    }
}

impl Coordinator for Scripted {
    fn apply(&mut self, event: &CoordinatorEvent) -> Option<CoordinatorEffect> {
        if self.ended {
            return None;
        }
        let effect = self.take(event);
        self.ended = matches!(effect, Some(CoordinatorEffect::Answer(_)));
        effect
    }

    fn opening(&self, _question: &str) -> Vec<String> {
        Vec::new()
    }

    fn report_text(&self, _reports: &[WorkerReport]) -> String {
        String::new()
    }
}
