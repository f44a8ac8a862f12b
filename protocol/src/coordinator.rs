//! The coordinator's machines: a question in, briefs and reports in between, a final answer out. Four minds
//! share one trait; whoever drives them cannot tell which it is. They see reports and never documents (but
//! for `fold`, which is FoldAgent's single mind and searches itself).

mod direct;
mod fold;
mod model;
mod purse;
mod scripted;

use crate::budget::Amount;
use crate::call::Reading;
use crate::conversation::Conversation;
use crate::environment::{Environment, Lookup, Observed};
use crate::failure::Failure;
use crate::generation::Completion;
use crate::machine::{TurnCall, TurnLimits};
use crate::profile::{CoordinatorKind, Profile};
use crate::question::Question;
use crate::worker::{Brief, WorkerReport};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use direct::Direct;
pub use fold::Fold;
pub use model::ModelCoordinator;
pub use purse::WorkersPurse;
pub use scripted::{Script, ScriptStep, Scripted};

/// What happens to a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorEvent {
    /// The episode asks.
    Asked {
        /// The question's text.
        question: String,
        /// Tokens of the two opening messages, as [`Coordinator::opening`] gives them.
        prompt_tokens: u64,
    },
    /// The model answered.
    Generated {
        /// Its answer.
        completion: Completion,
        /// New tokens, by the coordinator's tokenizer or the server's count.
        tokens: u64,
    },
    /// The model did not answer.
    GenerationFailed {
        /// Why.
        failure: Failure,
        /// Time being served, in milliseconds.
        served_ms: u64,
    },
    /// The calls of the last turn were carried out (`fold` only).
    Observed {
        /// What they came to.
        observed: Observed,
        /// Tokens of the observation.
        tokens: u64,
        /// Time that the retriever took, in milliseconds.
        served_ms: u64,
    },
    /// All workers of the last delegation have reported, in the order of its briefs.
    Reported {
        /// Their reports.
        reports: Vec<WorkerReport>,
        /// Tokens of the message that tells of them, as [`Coordinator::report_text`] gives it.
        tokens: u64,
    },
    /// Somebody asked for it to stop.
    Cancelled,
}

/// What a coordinator wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorEffect {
    /// Ask the model with the conversation.
    Generate(TurnCall),
    /// Carry out the lookups of the pending calls and observe (`fold` only).
    Observe(Vec<Lookup>),
    /// Let workers work; their reports are owed in this order.
    Delegate(Vec<Brief>),
    /// The end. Nothing follows.
    Answer(Box<FinalAnswer>),
}

/// Why a coordinator ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerEnd {
    /// It answered.
    Answered,
    /// It ended without an answer.
    NoAnswer,
    /// A budget ran out, its own or (for `direct`) its worker's.
    Exhausted,
    /// Its turns ran out without a single call that could be read.
    Malformed,
    /// Something outside it failed.
    Failed(Failure),
    /// It was stopped.
    Cancelled,
}

/// What a coordinator ends with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinalAnswer {
    /// Why it ended.
    pub end: AnswerEnd,
    /// The answer in short.
    pub answer: Option<String>,
    /// The answer as the grader's judge is shown it: answer, confidence and explanation.
    pub text: String,
    /// 0 to 100, if it said.
    pub confidence: Option<f64>,
    /// What it spent on itself.
    pub spent: Amount,
    /// Turns without a call that could be read.
    pub malformed_turns: u32,
    /// Serving time of each turn, in milliseconds.
    pub turn_served_ms: Vec<u64>,
    /// What it looked up itself (`fold` only).
    pub lookups: OwnLookups,
}

/// What a mind that searches itself has looked up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnLookups {
    /// Searches made.
    pub searches: u32,
    /// Pages opened.
    pub opens: u32,
    /// Calls that repeated an earlier one word for word.
    pub repeated_calls: u32,
    /// Search answers given by a part of the retriever only.
    pub degraded_searches: u32,
    /// Documents that searches showed, in order of first sight.
    pub retrieved: Vec<crate::id::DocId>,
    /// Documents opened, in order.
    pub opened: Vec<crate::id::DocId>,
}

impl FinalAnswer {
    /// An end without an answer.
    pub fn without_answer(end: AnswerEnd, spent: Amount) -> Self {
        Self {
            end,
            answer: None,
            text: String::new(),
            confidence: None,
            spent,
            malformed_turns: 0,
            turn_served_ms: Vec::new(),
            lookups: OwnLookups::default(),
        }
    }
}

/// A mind that coordinates one episode.
pub trait Coordinator: Send {
    /// Takes an event in; says what to do next. Events after the answer change nothing.
    fn apply(&mut self, event: &CoordinatorEvent) -> Option<CoordinatorEffect>;

    /// The opening messages for a question, whose tokens `Asked` tells. Empty for a mind without a model.
    fn opening(&self, question: &str) -> Vec<String>;

    /// The message that will tell of these reports, whose tokens `Reported` tells. Empty for a mind without a
    /// model.
    fn report_text(&self, reports: &[WorkerReport]) -> String;

    /// The conversation to send with [`CoordinatorEffect::Generate`].
    fn conversation(&self) -> Option<&Conversation> {
        None
    }

    /// Tools and pending calls for [`CoordinatorEffect::Observe`].
    fn tools(&self) -> Option<(&Environment, &Reading)> {
        None
    }
}

/// The mind that the profile names. `scripted` takes its lines for this question from `script`.
pub fn coordinator(profile: &Arc<Profile>, question: &Question, script: Option<&Script>) -> Box<dyn Coordinator> {
    let profile = Arc::clone(profile);
    match profile.coordinator.kind {
        CoordinatorKind::Model => Box::new(ModelCoordinator::new(profile)),
        CoordinatorKind::Direct => Box::new(Direct::new(profile)),
        CoordinatorKind::Fold => Box::new(Fold::new(profile)),
        CoordinatorKind::Scripted => {
            let step = script.map(|script| script.step_for(question)).unwrap_or_default();
            Box::new(Scripted::new(profile, step))
        }
    }
}

pub(crate) fn own_lease(profile: &Profile) -> Amount {
    let settings = &profile.coordinator;
    Amount {
        tokens: settings.budget_tokens,
        turns: settings.turns_max,
        served_ms: settings.served_max_ms,
        micros: settings.micros_max.unwrap_or(u64::MAX),
    }
}

pub(crate) fn own_limits(profile: &Profile) -> TurnLimits {
    let settings = &profile.coordinator;
    TurnLimits {
        tokens_max: settings.turn_tokens_max,
        tokens_min: settings.turn_tokens_min,
        timeout_ms: settings.turn_timeout_ms,
        attempts_max: settings.turn_attempts_max,
        prices: settings.prices,
    }
}

/// Answer, confidence and explanation as one text, for a judge.
pub(crate) fn answer_text(answer: &str, explanation: Option<&str>, confidence: Option<f64>) -> String {
    let mut text = String::new();
    if let Some(explanation) = explanation.map(str::trim).filter(|e| !e.is_empty()) {
        text.push_str(&format!("Explanation: {explanation}\n"));
    }
    text.push_str(&format!("Exact Answer: {}", answer.trim()));
    if let Some(confidence) = confidence {
        text.push_str(&format!("\nConfidence: {confidence}%"));
    }
    text
}
