//! The coordinator that adds nothing: the question is the only brief and the report's answer the answer.
//! Scores under it are the worker's own.

use super::{AnswerEnd, Coordinator, CoordinatorEffect, CoordinatorEvent, FinalAnswer, WorkersPurse, answer_text};
use crate::budget::Amount;
use crate::profile::Profile;
use crate::worker::{ReportStatus, WorkerReport};
use std::sync::Arc;

/// Question in, brief out; report in, answer out.
#[derive(Debug)]
pub struct Direct {
    purse: WorkersPurse,
    ended: bool,
}

impl Direct {
    /// A direct coordinator.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self { purse: WorkersPurse::new(&profile), ended: false }
    }

    fn go_on(&mut self, event: &CoordinatorEvent) -> Option<CoordinatorEffect> {
        match event {
            CoordinatorEvent::Asked { question, .. } => {
                let (briefs, refused) = self.purse.lend(vec![question.clone()]);
                if refused > 0 {
                    return end(FinalAnswer::without_answer(AnswerEnd::Exhausted, Amount::default()));
                }
                Some(CoordinatorEffect::Delegate(briefs))
            }
            CoordinatorEvent::Reported { reports, .. } => end(from_report(reports.first()?)),
            CoordinatorEvent::Cancelled => end(FinalAnswer::without_answer(AnswerEnd::Cancelled, Amount::default())),
            CoordinatorEvent::Generated { .. }
            | CoordinatorEvent::GenerationFailed { .. }
            | CoordinatorEvent::Observed { .. } => None,
        }
    }
}

impl Coordinator for Direct {
    fn apply(&mut self, event: &CoordinatorEvent) -> Option<CoordinatorEffect> {
        if self.ended {
            return None;
        }
        let effect = self.go_on(event);
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

fn end(answer: FinalAnswer) -> Option<CoordinatorEffect> {
    Some(CoordinatorEffect::Answer(Box::new(answer)))
}

/// A worker's report, taken as the final answer.
pub(super) fn from_report(report: &WorkerReport) -> FinalAnswer {
    let answer = report.answer.as_deref().map(str::trim).filter(|answer| !answer.is_empty());
    let end = match (&report.status, answer) {
        (_, Some(_)) => AnswerEnd::Answered,
        (ReportStatus::Finished, None) => AnswerEnd::NoAnswer,
        (ReportStatus::Exhausted, None) => AnswerEnd::Exhausted,
        (ReportStatus::Malformed, None) => AnswerEnd::Malformed,
        (ReportStatus::Failed(failure), None) => AnswerEnd::Failed(failure.clone()),
        (ReportStatus::Cancelled, None) => AnswerEnd::Cancelled,
    };
    let text =
        answer.map(|answer| answer_text(answer, report.explanation.as_deref(), report.confidence)).unwrap_or_default();
    FinalAnswer {
        answer: answer.map(str::to_owned),
        text,
        confidence: report.confidence,
        ..FinalAnswer::without_answer(end, Amount::default())
    }
}
