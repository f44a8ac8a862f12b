//! FoldAgent's single mind: it searches itself and may branch into a sub-task that inherits its whole history;
//! the main line sees only what the branch returns. Behaviour as in FoldAgent (commit cc09646): inherited history
//! counts against a branch, tools and what was seen are shared, a branch cannot finish or branch, and one that
//! runs out is asked for a summary.

use super::{
    AnswerEnd, Coordinator, CoordinatorEffect, CoordinatorEvent, FinalAnswer, OwnLookups, answer_text, own_lease,
    own_limits,
};
use crate::call::{Reading, last_function};
use crate::conversation::{Conversation, without_thinking};
use crate::environment::{Environment, Finish, Observed};
use crate::generation::Completion;
use crate::machine::TurnMeter;
use crate::message::{Message, Role};
use crate::profile::Profile;
use crate::prompt::Prompt;
use crate::worker::WorkerReport;
use minijinja::context;
use std::sync::Arc;

/// The longest summary of a branch that did not return, in tokens.
const SUMMARY_TOKENS_MAX: u64 = 4096;
/// What a branch leaves of the budget, in tokens.
const BRANCH_KEEPS: u64 = 512;

/// A mind that branches and returns.
#[derive(Debug)]
pub struct Fold {
    profile: Arc<Profile>,
    main: Conversation,
    branch: Option<Branch>,
    environment: Environment,
    meter: TurnMeter,
    reading: Reading,
    branches: u32,
    malformed_turns: u32,
    lookups: OwnLookups,
    ended: bool,
}

#[derive(Debug)]
struct Branch {
    conversation: Conversation,
    summing_up: bool,
}

impl Fold {
    /// A mind that has not been asked.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self {
            main: Conversation::default(),
            branch: None,
            environment: Environment::new(profile.tools.clone()),
            meter: TurnMeter::new(own_lease(&profile), own_limits(&profile)),
            reading: Reading::default(),
            branches: 0,
            malformed_turns: 0,
            lookups: OwnLookups::default(),
            ended: false,
            profile,
        }
    }

    fn generated(&mut self, completion: &Completion, tokens: u64) -> Option<CoordinatorEffect> {
        self.meter.answered(tokens, completion.served_ms);
        let keep = self.profile.coordinator.keep_reasoning;
        self.here().push_completion(completion, tokens, keep);
        if self.branch.is_some() { self.branch_said(completion) } else { self.main_said(completion) }
    }

    fn main_said(&mut self, completion: &Completion) -> Option<CoordinatorEffect> {
        if let Some(call) = last_function(&completion.text).filter(|call| call.name == "branch") {
            if self.branches >= self.profile.coordinator.briefs_max {
                let briefs_max = self.profile.coordinator.briefs_max;
                return self.tell(Prompt::FoldLimit.render(context! { briefs_max }));
            }
            self.branches += 1;
            let description = call.argument("description").unwrap_or_default();
            let prompt = call.argument("prompt").unwrap_or_default();
            let text = Prompt::FoldBranch.render(context! { description, prompt });
            self.branch = Some(Branch { conversation: self.main.clone(), summing_up: false });
            return self.tell(text);
        }
        self.act(completion)
    }

    fn branch_said(&mut self, completion: &Completion) -> Option<CoordinatorEffect> {
        let text = completion.text.as_str();
        let summing_up = self.branch.as_ref().is_some_and(|branch| branch.summing_up);
        if summing_up || text.contains("<function=return>") {
            let returned = last_function(text).filter(|call| call.name == "return");
            let message = returned.as_ref().and_then(|call| call.argument("message"));
            let message = message.unwrap_or_else(|| without_thinking(text)).trim().to_owned();
            self.branch = None;
            return self.tell(Prompt::FoldReturned.render(context! { message }));
        }
        if text.contains("<function=finish>") || text.contains("<function=branch>") {
            return self.tell(Prompt::FoldBranchRefusal.render(context! {}));
        }
        self.act(completion)
    }

    fn act(&mut self, completion: &Completion) -> Option<CoordinatorEffect> {
        self.reading = self.profile.grammar.read(&completion.text, &completion.tool_calls);
        let lookups = self.environment.plan(&self.reading);
        if lookups.is_empty() {
            let observed = self.environment.observe(&self.reading, &[]);
            if observed.finish.is_some() {
                return self.end(AnswerEnd::Answered, observed.finish);
            }
        }
        Some(CoordinatorEffect::Observe(lookups))
    }

    fn observed(&mut self, observed: &Observed, tokens: u64, served_ms: u64) -> Option<CoordinatorEffect> {
        self.environment.absorb(&self.reading, observed);
        self.malformed_turns += u32::from(observed.malformed);
        self.lookups.repeated_calls = self.lookups.repeated_calls.saturating_add(observed.repeated);
        self.lookups.degraded_searches = self.lookups.degraded_searches.saturating_add(observed.degraded);
        self.lookups.retrieved.extend(observed.shown.iter().cloned());
        self.lookups.opened.extend(observed.opened.iter().cloned());
        if observed.finish.is_some() && self.branch.is_none() {
            return self.end(AnswerEnd::Answered, observed.finish.clone());
        }
        let mut text = observed.text.clone();
        if self.branch.is_some() {
            text.push('\n');
            text.push_str(&Prompt::FoldBranchReminder.render(context! {}));
        }
        self.here().push_answer(text, tokens);
        self.meter.charge(tokens, served_ms);
        self.next_turn()
    }

    /// Appends a notice of ours to the line of work in hand; a quarter of its bytes stands for its tokens.
    fn tell(&mut self, text: String) -> Option<CoordinatorEffect> {
        let tokens = (text.len() as u64).div_ceil(4);
        self.here().push_answer(text, tokens);
        self.meter.charge(tokens, 0);
        self.next_turn()
    }

    fn next_turn(&mut self) -> Option<CoordinatorEffect> {
        if self.branch.as_ref().is_some_and(|branch| !branch.summing_up) && !self.branch_has_room() {
            if let Some(branch) = &mut self.branch {
                branch.summing_up = true;
            }
            return self.tell(Prompt::FoldBranchSummary.render(context! {}));
        }
        let conversation = self.branch.as_ref().map_or(&self.main, |branch| &branch.conversation);
        match self.meter.next(conversation, 0, 0) {
            Some(call) => Some(CoordinatorEffect::Generate(call)),
            None => self.end(AnswerEnd::Exhausted, None),
        }
    }

    /// A branch goes on while its inherited history and its own steps leave room in the budget.
    fn branch_has_room(&self) -> bool {
        let held = self.branch.as_ref().map_or(0, |branch| branch.conversation.tokens());
        let budget = self.profile.coordinator.budget_tokens;
        let left = self.meter.left();
        held.saturating_add(BRANCH_KEEPS) < budget && left.tokens > SUMMARY_TOKENS_MAX.min(budget / 8) && left.turns > 1
    }

    fn here(&mut self) -> &mut Conversation {
        match &mut self.branch {
            Some(branch) => &mut branch.conversation,
            None => &mut self.main,
        }
    }

    fn end(&mut self, end: AnswerEnd, finish: Option<Finish>) -> Option<CoordinatorEffect> {
        self.ended = true;
        let answer = finish.as_ref().map(|finish| finish.answer.trim()).filter(|answer| !answer.is_empty());
        let end = if end == AnswerEnd::Answered && answer.is_none() { AnswerEnd::NoAnswer } else { end };
        let mut last = FinalAnswer::without_answer(end, self.meter.spent());
        last.malformed_turns = self.malformed_turns;
        last.turn_served_ms = self.meter.served_ms().to_vec();
        last.lookups = std::mem::take(&mut self.lookups);
        last.lookups.searches = self.environment.searches();
        last.lookups.opens = self.environment.opens();
        if let (Some(answer), Some(finish)) = (answer, &finish) {
            last.confidence = finish.confidence;
            last.text = answer_text(answer, finish.explanation.as_deref(), finish.confidence);
            last.answer = Some(answer.to_owned());
        }
        Some(CoordinatorEffect::Answer(Box::new(last)))
    }
}

impl Coordinator for Fold {
    fn apply(&mut self, event: &CoordinatorEvent) -> Option<CoordinatorEffect> {
        if self.ended {
            return None;
        }
        match event {
            CoordinatorEvent::Asked { question, prompt_tokens } => {
                let mut opening = self.opening(question).into_iter();
                self.main.push(Message::new(Role::System, opening.next().unwrap_or_default()), 0);
                self.main.push(Message::new(Role::User, opening.next().unwrap_or_default()), *prompt_tokens);
                self.next_turn()
            }
            CoordinatorEvent::Generated { completion, tokens } => self.generated(completion, *tokens),
            CoordinatorEvent::GenerationFailed { failure, served_ms } => {
                if self.meter.failed(*served_ms) {
                    self.next_turn()
                } else {
                    self.end(AnswerEnd::Failed(failure.clone()), None)
                }
            }
            CoordinatorEvent::Observed { observed, tokens, served_ms } => self.observed(observed, *tokens, *served_ms),
            CoordinatorEvent::Reported { .. } => None,
            CoordinatorEvent::Cancelled => self.end(AnswerEnd::Cancelled, None),
        }
    }

    fn opening(&self, question: &str) -> Vec<String> {
        let briefs_max = self.profile.coordinator.briefs_max;
        vec![
            Prompt::FoldSystem.render(context! { briefs_max }),
            Prompt::CoordinatorQuestion.render(context! { question }),
        ]
    }

    fn report_text(&self, _reports: &[WorkerReport]) -> String {
        String::new()
    }

    fn conversation(&self) -> Option<&Conversation> {
        Some(self.branch.as_ref().map_or(&self.main, |branch| &branch.conversation))
    }

    fn tools(&self) -> Option<(&Environment, &Reading)> {
        Some((&self.environment, &self.reading))
    }
}
