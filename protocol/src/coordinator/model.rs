//! The coordinator that is a model: it reads the question, delegates briefs (several at once), reads reports and
//! answers. Frozen: nothing it says is ever trained on.

use super::{
    AnswerEnd, Coordinator, CoordinatorEffect, CoordinatorEvent, FinalAnswer, WorkersPurse, answer_text, own_lease,
    own_limits,
};
use crate::call::{Call, ReadFault};
use crate::conversation::Conversation;
use crate::failure::Failure;
use crate::generation::Completion;
use crate::machine::TurnMeter;
use crate::message::{Message, Role};
use crate::profile::Profile;
use crate::prompt::Prompt;
use crate::worker::WorkerReport;
use minijinja::context;
use std::sync::Arc;

/// A coordinator driven by a model.
#[derive(Debug)]
pub struct ModelCoordinator {
    profile: Arc<Profile>,
    conversation: Conversation,
    meter: TurnMeter,
    purse: WorkersPurse,
    refused: u32,
    readable_turns: u32,
    malformed_turns: u32,
    ended: bool,
}

impl ModelCoordinator {
    /// A coordinator that has not been asked.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self {
            conversation: Conversation::default(),
            meter: TurnMeter::new(own_lease(&profile), own_limits(&profile)),
            purse: WorkersPurse::new(&profile),
            refused: 0,
            readable_turns: 0,
            malformed_turns: 0,
            ended: false,
            profile,
        }
    }

    fn generated(&mut self, completion: &Completion, tokens: u64) -> Option<CoordinatorEffect> {
        self.meter.answered(tokens, completion.served_ms);
        self.conversation.push_completion(completion, tokens, self.profile.coordinator.keep_reasoning);
        let reading = self.profile.grammar.read(&completion.text, &completion.tool_calls);
        if let Some(answer) = reading.calls.iter().find(|call| matches!(call.name.as_str(), "answer" | "finish")) {
            return self.answer(answer);
        }
        let briefs: Vec<String> = reading.calls.iter().flat_map(briefs_of).collect();
        if briefs.is_empty() {
            let why = reading.fault.unwrap_or(ReadFault::NoCall).to_string();
            return self.nothing_read(&why);
        }
        self.readable_turns += 1;
        let (briefs, refused) = self.purse.lend(briefs);
        self.refused = refused;
        if briefs.is_empty() {
            return self.nothing_read("no further brief can be given out: the limit or the workers' budget is reached");
        }
        Some(CoordinatorEffect::Delegate(briefs))
    }

    fn nothing_read(&mut self, why: &str) -> Option<CoordinatorEffect> {
        self.malformed_turns += 1;
        let turns_left = self.turns_left();
        let mut text = Prompt::CoordinatorNoCall.render(context! { why, turns_left });
        self.add_last_turn_notice(&mut text);
        // The notice is ours and short; a quarter of its bytes stands for its tokens so that no event is needed.
        let tokens = (text.len() as u64).div_ceil(4);
        self.conversation.push_answer(text, tokens);
        if !self.meter.charge(tokens, 0) {
            return self.end(AnswerEnd::Exhausted, None);
        }
        self.next_turn()
    }

    fn reported(&mut self, reports: &[WorkerReport], tokens: u64) -> Option<CoordinatorEffect> {
        self.purse.take_back(reports);
        let text = self.report_text(reports);
        self.conversation.push_answer(text, tokens);
        if !self.meter.charge(tokens, 0) {
            return self.end(AnswerEnd::Exhausted, None);
        }
        self.next_turn()
    }

    fn failed(&mut self, failure: &Failure, served_ms: u64) -> Option<CoordinatorEffect> {
        if self.meter.failed(served_ms) {
            return self.next_turn();
        }
        self.end(AnswerEnd::Failed(failure.clone()), None)
    }

    fn next_turn(&mut self) -> Option<CoordinatorEffect> {
        match self.meter.next(&self.conversation, 0, 0) {
            Some(call) => Some(CoordinatorEffect::Generate(call)),
            None if self.readable_turns == 0 && self.malformed_turns > 0 => self.end(AnswerEnd::Malformed, None),
            None => self.end(AnswerEnd::Exhausted, None),
        }
    }

    fn answer(&mut self, call: &Call) -> Option<CoordinatorEffect> {
        let answer = call.argument("answer").map(str::trim).filter(|answer| !answer.is_empty());
        match answer {
            Some(_) => self.end(AnswerEnd::Answered, Some(call)),
            None => self.end(AnswerEnd::NoAnswer, None),
        }
    }

    fn end(&mut self, end: AnswerEnd, call: Option<&Call>) -> Option<CoordinatorEffect> {
        self.ended = true;
        let mut last = FinalAnswer::without_answer(end, self.meter.spent());
        last.malformed_turns = self.malformed_turns;
        last.turn_served_ms = self.meter.served_ms().to_vec();
        if let Some(call) = call {
            let answer = call.argument("answer").unwrap_or_default().trim();
            last.confidence = call.argument("confidence").and_then(crate::grading::read_confidence);
            last.text = answer_text(answer, call.argument("explanation"), last.confidence);
            last.answer = Some(answer.to_owned());
        }
        Some(CoordinatorEffect::Answer(Box::new(last)))
    }

    fn turns_left(&self) -> u32 {
        self.meter.left().turns
    }

    fn add_last_turn_notice(&self, text: &mut String) {
        if self.turns_left() == 1 {
            text.push_str("\n\n");
            text.push_str(&Prompt::CoordinatorLastTurn.render(context! {}));
        }
    }
}

impl Coordinator for ModelCoordinator {
    fn apply(&mut self, event: &CoordinatorEvent) -> Option<CoordinatorEffect> {
        if self.ended {
            return None;
        }
        match event {
            CoordinatorEvent::Asked { question, prompt_tokens } => {
                let mut opening = self.opening(question).into_iter();
                self.conversation.push(Message::new(Role::System, opening.next().unwrap_or_default()), 0);
                self.conversation.push(Message::new(Role::User, opening.next().unwrap_or_default()), *prompt_tokens);
                self.next_turn()
            }
            CoordinatorEvent::Generated { completion, tokens } => self.generated(completion, *tokens),
            CoordinatorEvent::GenerationFailed { failure, served_ms } => self.failed(failure, *served_ms),
            CoordinatorEvent::Reported { reports, tokens } => self.reported(reports, *tokens),
            CoordinatorEvent::Observed { .. } => None,
            CoordinatorEvent::Cancelled => self.end(AnswerEnd::Cancelled, None),
        }
    }

    fn opening(&self, question: &str) -> Vec<String> {
        let settings = &self.profile.coordinator;
        vec![
            Prompt::CoordinatorSystem.render(context! {
                briefs_at_once_max => settings.briefs_at_once_max,
                briefs_max => settings.briefs_max,
                turns_max => settings.turns_max,
            }),
            Prompt::CoordinatorQuestion.render(context! { question }),
        ]
    }

    fn report_text(&self, reports: &[WorkerReport]) -> String {
        let control = crate::untrusted::ControlTokens::default();
        let views: Vec<_> = reports
            .iter()
            .enumerate()
            .map(|(index, report)| {
                let text = crate::untrusted::Untrusted::new(report.text());
                context! {
                    number => index + 1,
                    status => report.status_name(),
                    turns => report.spent.turns,
                    searches => report.searches,
                    text => text.for_prompt(&control).into_owned(),
                }
            })
            .collect();
        let mut text = Prompt::CoordinatorReports.render(context! {
            reports => views, refused => self.refused, turns_left => self.turns_left(),
        });
        self.add_last_turn_notice(&mut text);
        text
    }

    fn conversation(&self) -> Option<&Conversation> {
        Some(&self.conversation)
    }
}

/// The briefs of one call: `delegate` with one `brief` or several (a native list arrives as several), or with `briefs`
/// as a JSON list.
fn briefs_of(call: &Call) -> Vec<String> {
    if call.name != "delegate" {
        return Vec::new();
    }
    let listed = call.argument("briefs").and_then(|list| serde_json::from_str::<Vec<String>>(list).ok());
    let named = call.values("brief").chain(call.values("briefs").filter(|_| listed.is_none()));
    let briefs = listed.iter().flatten().map(String::as_str).chain(named);
    briefs.filter(|brief| !brief.trim().is_empty()).map(str::to_owned).collect()
}
