//! The prompts: text files of our own wording, filled in by minijinja with strict names. A digest of all of
//! them goes into a run's manifest. Nothing here decides anything.

use minijinja::{Environment, UndefinedBehavior};
use std::sync::LazyLock;

macro_rules! prompts {
    ($($(#[$doc:meta])* $variant:ident = $file:literal),* $(,)?) => {
        /// Every prompt of the house.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Prompt { $($(#[$doc])* $variant),* }

        impl Prompt {
            /// Every prompt, in order.
            pub const ALL: &'static [Prompt] = &[$(Prompt::$variant),*];

            /// The file's name.
            pub fn name(self) -> &'static str {
                match self { $(Prompt::$variant => $file),* }
            }

            /// The file's text, with its placeholders.
            pub fn source(self) -> &'static str {
                match self { $(Prompt::$variant => include_str!(concat!("../prompts/", $file))),* }
            }
        }
    };
}

prompts! {
    /// A worker's standing orders.
    WorkerSystem = "worker_system.txt",
    /// A worker's brief.
    WorkerBrief = "worker_brief.txt",
    /// A worker's last turn.
    WorkerWrapUp = "worker_wrap_up.txt",
    /// A coordinator's standing orders.
    CoordinatorSystem = "coordinator_system.txt",
    /// The question, to a coordinator.
    CoordinatorQuestion = "coordinator_question.txt",
    /// Reports, to a coordinator.
    CoordinatorReports = "coordinator_reports.txt",
    /// A coordinator's turn had no call.
    CoordinatorNoCall = "coordinator_no_call.txt",
    /// A coordinator's last turn.
    CoordinatorLastTurn = "coordinator_last_turn.txt",
    /// Standing orders of the folding mind.
    FoldSystem = "fold_system.txt",
    /// A branch begins.
    FoldBranch = "fold_branch.txt",
    /// After each observation in a branch.
    FoldBranchReminder = "fold_branch_reminder.txt",
    /// A branch tried to finish or to branch.
    FoldBranchRefusal = "fold_branch_refusal.txt",
    /// A branch must sum up.
    FoldBranchSummary = "fold_branch_summary.txt",
    /// What the main line sees of a branch.
    FoldReturned = "fold_returned.txt",
    /// No more branches.
    FoldLimit = "fold_limit.txt",
    /// A gate's standing orders.
    GateSystem = "gate_system.txt",
    /// What a gate is shown.
    GateTranscript = "gate_transcript.txt",
    /// A judge with FoldAgent's fields.
    JudgeFoldagent = "judge_foldagent.txt",
    /// A judge with BrowseComp-Plus' fields.
    JudgeBrowsecomp = "judge_browsecomp.txt",
}

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    for prompt in Prompt::ALL {
        environment
            .add_template(prompt.name(), prompt.source())
            .expect("every prompt file parses: a test renders each of them");
    }
    environment
});

impl Prompt {
    /// The prompt with its placeholders filled in, without the file's last newline.
    ///
    /// # Panics
    /// If `values` lacks a placeholder: the callers are all in this crate and each is tested.
    pub fn render(self, values: minijinja::Value) -> String {
        let template = ENVIRONMENT.get_template(self.name()).expect("all prompts were added");
        let mut text = template.render(values).expect("every caller gives every placeholder");
        text.truncate(text.trim_end().len());
        text
    }
}

/// A digest over the names and texts of all prompts, in hexadecimal.
pub fn prompts_digest() -> String {
    let mut hasher = blake3::Hasher::new();
    for prompt in Prompt::ALL {
        for part in [prompt.name(), prompt.source()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prompt_parses_and_is_not_empty() {
        for prompt in Prompt::ALL {
            assert!(ENVIRONMENT.get_template(prompt.name()).is_ok(), "{}", prompt.name());
            assert!(prompt.source().trim().len() >= 10, "{}", prompt.name());
        }
    }

    #[test]
    fn values_are_put_in_as_they_are() {
        let text = Prompt::WorkerBrief.render(minijinja::context! { brief => "a <b> & {{ c }}" });
        assert_eq!(text, "Brief:\na <b> & {{ c }}");
    }
}
