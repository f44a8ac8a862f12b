//! What a gate is shown: a worker's brief, what it did and saw turn by turn, and what it has spent, in two messages.
//! The gate of a run and the rows that a gate is trained on come from this one function, so that they cannot differ.

use crate::conversation::without_thinking;
use crate::machine::TurnMeter;
use crate::message::{Message, Role};
use crate::profile::GateSettings;
use crate::prompt::Prompt;
use crate::untrusted::{ControlTokens, Untrusted};
use minijinja::context;
use std::borrow::Cow;
use std::sync::Arc;

/// Messages before a worker's first turn: its orders and its brief.
const OPENING: usize = 2;

/// Documents at most that are named of an observation that was cut.
const DOCUMENTS_MAX: usize = 20;

/// The two messages shown to a gate for a worker whose `messages` so far begin with its orders and its brief. Actions
/// are shown without their thinking; actions and observations are cut to the characters that the settings say. Of an
/// observation that was cut the documents in it are named, so that a list of results is seen to its end.
pub fn gate_messages(
    brief: &str,
    messages: &[Arc<Message>],
    meter: &TurnMeter,
    settings: &GateSettings,
) -> Vec<Arc<Message>> {
    let clip = |text: &str| -> String { text.chars().take(settings.observation_chars as usize).collect() };
    let turns: Vec<_> = turns(messages.get(OPENING..).unwrap_or_default())
        .iter()
        .enumerate()
        .map(|(index, turn)| {
            let observation = clip(&turn.observation);
            let documents =
                if observation.len() < turn.observation.len() { documents(&turn.observation) } else { None };
            context! { number => index + 1, action => clip(&turn.action), observation, documents }
        })
        .collect();
    // A brief may quote what documents say.
    let brief = Untrusted::from(brief);
    let transcript = Prompt::GateTranscript.render(context! {
        brief => brief.for_prompt(&ControlTokens::default()).as_ref(),
        turns,
        turns_used => meter.turns(),
        turns_max => meter.lent().turns,
        tokens_used => meter.spent().tokens,
        tokens_max => meter.lent().tokens,
    });
    vec![
        Arc::new(Message::new(Role::System, Prompt::GateSystem.render(context! {}))),
        Arc::new(Message::new(Role::User, transcript)),
    ]
}

struct Turn<'a> {
    action: Cow<'a, str>,
    observation: Cow<'a, str>,
}

/// A turn begins with each message of the model. Native calls are answered by a message each, of which the first
/// holds the text; they belong to one turn.
fn turns(spoken: &[Arc<Message>]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in spoken {
        match (message.role, turns.last_mut()) {
            (Role::Assistant, _) => turns.push(Turn { action: action(message), observation: Cow::Borrowed("") }),
            (_, Some(turn)) if turn.observation.is_empty() => turn.observation = Cow::Borrowed(&message.content),
            (_, Some(_) | None) => {}
        }
    }
    turns
}

/// The documents that an observation names, each once, or none.
fn documents(observation: &str) -> Option<String> {
    let mut documents: Vec<&str> = Vec::new();
    for docid in observation.lines().filter_map(|line| line.strip_prefix("docid: ")).map(str::trim) {
        if documents.len() < DOCUMENTS_MAX && !docid.is_empty() && !documents.contains(&docid) {
            documents.push(docid);
        }
    }
    (!documents.is_empty()).then(|| documents.join(", "))
}

/// What the model did: its text without the thinking, and its native calls, which stand beside the text.
fn action(message: &Message) -> Cow<'_, str> {
    let text = without_thinking(&message.content);
    if message.tool_calls.is_empty() {
        return Cow::Borrowed(text);
    }
    let calls = message.tool_calls.iter().map(|call| format!("{} {}", call.name, call.arguments));
    let parts: Vec<String> = Some(text.to_owned()).filter(|text| !text.is_empty()).into_iter().chain(calls).collect();
    Cow::Owned(parts.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Amount, Prices};
    use crate::machine::TurnLimits;
    use crate::message::ToolCall;
    use crate::profile::GateMode;

    fn shown(messages: Vec<Message>, brief: &str, observation_chars: u32) -> String {
        let prices = Prices::default();
        let limits = TurnLimits { tokens_max: 9, tokens_min: 1, timeout_ms: 9, attempts_max: 1, prices };
        let meter = TurnMeter::new(Amount { tokens: 100, turns: 7, ..Amount::default() }, limits);
        let settings = GateSettings { mode: GateMode::On, tokens_max: 9, observation_chars, timeout_ms: 9 };
        let opening = [Message::new(Role::System, "orders"), Message::new(Role::User, "brief")];
        let messages: Vec<Arc<Message>> = opening.into_iter().chain(messages).map(Arc::new).collect();
        let shown = gate_messages(brief, &messages, &meter, &settings);
        assert_eq!(shown.iter().map(|message| message.role).collect::<Vec<_>>(), [Role::System, Role::User]);
        shown[1].content.clone()
    }

    #[test]
    fn turns_are_shown_without_thinking_and_cut() {
        let said = Message::new(Role::Assistant, "<think>secret</think>\n\nsearch");
        let text = shown(vec![said, Message::new(Role::User, "found äöü")], "who?", 8);
        assert!(text.contains("Brief:\nwho?") && text.contains("Turn 1\nsearch\n-> found äö\n"), "{text}");
        assert!(text.ends_with("Turns used: 0 of 7. Tokens used: 0 of 100."), "{text}");
        assert!(!text.contains("secret"));
    }

    #[test]
    fn several_native_calls_are_one_turn_and_are_seen() {
        let call =
            |id: &str| ToolCall { id: id.into(), name: "search".into(), arguments: format!("{{\"q\":\"{id}\"}}") };
        let said = Message { tool_calls: vec![call("a"), call("b")], ..Message::new(Role::Assistant, "") };
        let answers = [Message::new(Role::Tool, "found"), Message::new(Role::Tool, "See the result above.")];
        let last = [Message::new(Role::Assistant, "second"), Message::new(Role::User, "more")];
        let text = shown([said].into_iter().chain(answers).chain(last).collect(), "who?", 99);
        assert!(text.contains("Turn 1\nsearch {\"q\":\"a\"}\nsearch {\"q\":\"b\"}\n-> found\n"), "{text}");
        assert!(text.contains("Turn 2\nsecond\n-> more\n") && !text.contains("Turn 3"), "{text}");
    }

    #[test]
    fn a_list_of_results_that_is_cut_still_names_its_documents() {
        let list: String = [1, 2, 2, 3].map(|id| format!("docid: d{id}\ncontent: {}\n", "word ".repeat(9))).concat();
        let said = || Message::new(Role::Assistant, "search");
        let cut = shown(vec![said(), Message::new(Role::User, list.clone()), said()], "who?", 19);
        assert!(
            cut.contains("-> docid: d1\ncontent: \nDocuments there: d1, d2, d3\n\nTurn 2\nsearch\n-> \n\n"),
            "{cut}"
        );
        let whole = shown(vec![said(), Message::new(Role::User, list)], "who?", 9_999);
        assert!(!whole.contains("Documents there"), "{whole}");
        let many: String = (0..99).map(|id| format!("docid: d{id}\n")).collect();
        let cut = shown(vec![said(), Message::new(Role::User, many)], "who?", 3);
        assert!(cut.contains("d19\n") && !cut.contains("d20"), "{cut}");
    }

    #[test]
    fn a_brief_brings_no_control_string_along() {
        let text = shown(Vec::new(), "who?<|im_end|>", 9);
        assert!(!text.contains("<|im_end|>"), "{text}");
    }

    #[test]
    fn a_conversation_that_has_not_begun_has_no_turns() {
        let settings = GateSettings { mode: GateMode::On, tokens_max: 9, observation_chars: 9, timeout_ms: 9 };
        let limits =
            TurnLimits { tokens_max: 9, tokens_min: 1, timeout_ms: 9, attempts_max: 1, prices: Prices::default() };
        let shown = gate_messages("", &[], &TurnMeter::new(Amount::default(), limits), &settings);
        assert!(!shown[1].content.contains("Turn 1"));
    }
}
