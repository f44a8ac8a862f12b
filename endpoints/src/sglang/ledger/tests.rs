//! What the ledger keeps, and when it must not.

use super::*;
use proptest::prelude::*;

const END: u32 = 1;
const START: u32 = 2;
const LINE: u32 = 3;

/// A ChatML-like template over characters: `<start>role⏎content<end>⏎`, generation prompt at the end;
/// consecutive tool messages share one turn, and `é` is one id or two by its place.
struct Template;

impl PromptEncoder for Template {
    fn encode(&self, messages: &[Arc<Message>]) -> Result<Vec<u32>, Failure> {
        let mut ids = Vec::new();
        for (place, message) in messages.iter().enumerate() {
            let after_tool = place > 0 && messages[place - 1].role == Role::Tool;
            if !(message.role == Role::Tool && after_tool) {
                ids.extend([START, 10 + message.role as u32, LINE]);
            }
            ids.extend(message.content.chars().map(|c| 100 + c as u32));
            if messages.get(place + 1).is_none_or(|next| !(next.role == Role::Tool && message.role == Role::Tool)) {
                ids.extend([END, LINE]);
            }
        }
        ids.extend([START, 12, LINE]);
        Ok(ids)
    }

    fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        Ok(ids.iter().filter(|id| **id >= 100).filter_map(|id| char::from_u32(id - 100)).collect())
    }
}

fn say(role: Role, text: &str) -> Arc<Message> {
    Arc::new(Message::new(role, text))
}

fn session(question: &str) -> Session {
    let episode = EpisodeKey { round: 0, question: question.into() };
    Session { episode, scope: Scope::Worker(0), turn: 0 }
}

fn plan(ledger: &mut TokenLedger, messages: &[Arc<Message>]) -> PromptPlan {
    PromptPlan::new(ledger.past(&session("q")).as_deref(), messages, &Template).unwrap()
}

/// The first turn: the model answered `text` with `completion`, which need not be its encoding.
fn first_turn(text: &str, completion: &[u32]) -> (TokenLedger, Vec<Arc<Message>>, Vec<u32>) {
    let mut ledger = TokenLedger::new(LedgerLimits::default());
    let messages = vec![say(Role::System, "s"), say(Role::User, "u")];
    let first = plan(&mut ledger, &messages);
    assert_eq!(first.reuse, Reuse::First);
    ledger.commit(&session("q"), &messages, &first.ids, text, completion);
    (ledger, messages, first.ids)
}

#[test]
fn a_later_turn_keeps_the_exact_ids_and_encodes_only_what_is_new() {
    // The ids 900 and 901 are no encoding of "ab": encoding again would lose them.
    let (mut ledger, mut messages, prompt) = first_turn("ab", &[900, 901, END]);
    messages.extend([say(Role::Assistant, "ab"), say(Role::User, "o")]);
    let next = plan(&mut ledger, &messages);
    let expected = [&prompt[..], &[900, 901, END, LINE, START, 11, LINE, 211, END, LINE, START, 12, LINE]].concat();
    assert_eq!((next.ids, next.reuse), (expected, Reuse::Extended { kept: prompt.len() + 3 }));
}

#[test]
fn an_answer_cut_by_its_length_gets_its_end_of_turn() {
    let (mut ledger, mut messages, prompt) = first_turn("ab", &[900, 901]);
    messages.extend([say(Role::Assistant, "ab"), say(Role::User, "o")]);
    assert_eq!(plan(&mut ledger, &messages).ids[prompt.len()..][..5], [900, 901, END, LINE, START]);
}

#[test]
fn consecutive_tool_messages_are_rendered_as_in_the_whole_conversation() {
    let encoded: Vec<u32> = "ab".chars().map(|c| 100 + c as u32).chain([END]).collect();
    let (mut ledger, mut messages, _) = first_turn("ab", &encoded);
    messages.extend([say(Role::Assistant, "ab"), say(Role::Tool, "t"), say(Role::Tool, "u")]);
    assert_eq!(plan(&mut ledger, &messages).ids, Template.encode(&messages).unwrap());
}

#[test]
fn the_same_turn_asked_again_gets_the_same_ids_and_poisons_nothing() {
    let (mut ledger, mut messages, prompt) = first_turn("ab", &[900, END]);
    let again = plan(&mut ledger, &messages);
    assert_eq!((again.ids, again.reuse), (prompt.clone(), Reuse::Repeated));
    // It is answered otherwise this time; the conversation goes on from the new answer.
    ledger.commit(&session("q"), &messages, &prompt, "c", &[902, END]);
    messages.extend([say(Role::Assistant, "c"), say(Role::User, "o")]);
    assert_eq!(plan(&mut ledger, &messages).ids[..=prompt.len()], [&prompt[..], &[902]].concat());
}

#[test]
fn a_call_that_failed_leaves_the_past_as_it_was() {
    let (mut ledger, mut messages, prompt) = first_turn("ab", &[900, END]);
    messages.extend([say(Role::Assistant, "ab"), say(Role::User, "o")]);
    let first_try = plan(&mut ledger, &messages);
    assert_eq!(plan(&mut ledger, &messages), first_try, "no commit came between");
    assert_eq!(plan(&mut ledger, &messages[..2]).ids, prompt, "the turn before can still be repeated");
}

#[test]
fn an_edited_history_is_encoded_as_a_whole() {
    let (mut ledger, messages, _) = first_turn("<think>x</think>ab", &[900, END]);
    let with = |more: Vec<Arc<Message>>| [messages.clone(), more].concat();
    for history in [
        with(vec![say(Role::Assistant, "ab"), say(Role::User, "o")]),
        with(vec![say(Role::User, "o")]),
        with(vec![say(Role::Assistant, "<think>x</think>ab")]),
        vec![say(Role::System, "other"), messages[1].clone()],
        vec![messages[0].clone()],
    ] {
        let next = plan(&mut ledger, &history);
        assert_eq!((next.ids, next.reuse), (Template.encode(&history).unwrap(), Reuse::Edited));
    }
}

#[test]
fn a_template_without_a_seam_is_encoded_as_a_whole() {
    struct Last;
    impl PromptEncoder for Last {
        fn encode(&self, messages: &[Arc<Message>]) -> Result<Vec<u32>, Failure> {
            Ok(vec![u32::try_from(messages.len()).unwrap()])
        }
        fn decode(&self, _: &[u32]) -> Result<String, Failure> {
            Ok(String::new())
        }
    }
    let (mut ledger, mut messages, _) = first_turn("ab", &[900, END]);
    messages.extend([say(Role::Assistant, "ab"), say(Role::User, "o")]);
    let past = ledger.past(&session("q"));
    assert_eq!(PromptPlan::new(past.as_deref(), &messages, &Last).unwrap().reuse, Reuse::Seamless);
}

#[test]
fn what_was_used_longest_ago_is_forgotten_first_and_the_sums_stay_right() {
    let mut ledger = TokenLedger::new(LedgerLimits { sessions: 2, ids: 10 });
    let commit = |ledger: &mut TokenLedger, name: &str, ids: usize| {
        ledger.commit(&session(name), &[say(Role::User, name)], &vec![5; ids], "x", &[6]);
    };
    commit(&mut ledger, "a", 2);
    commit(&mut ledger, "b", 2);
    assert!(ledger.past(&session("a")).is_some());
    commit(&mut ledger, "c", 2);
    assert!(ledger.past(&session("b")).is_none(), "a was used since");
    commit(&mut ledger, "d", 8);
    assert_eq!((ledger.len(), ledger.ids), (1, 9), "the ids of a and c made room");
    commit(&mut ledger, "d", 10);
    assert_eq!((ledger.len(), ledger.ids), (0, 0), "a conversation beyond all limits is not kept");
}

proptest! {
    #[test]
    fn where_ids_are_the_encoding_reuse_equals_encoding_the_whole(
        turns in proptest::collection::vec(("[a-c]{1,4}", proptest::collection::vec(("[x-z]{0,3}", any::<bool>()), 1..3)), 1..5),
    ) {
        let mut ledger = TokenLedger::new(LedgerLimits::default());
        let mut messages = vec![say(Role::User, "start")];
        for (answer, observations) in turns {
            let prompt = plan(&mut ledger, &messages);
            prop_assert_eq!(&prompt.ids, &Template.encode(&messages).unwrap());
            prop_assert!(!prompt.reuse.is_reencoded());
            let ids: Vec<u32> = answer.chars().map(|c| 100 + c as u32).chain([END]).collect();
            ledger.commit(&session("q"), &messages, &prompt.ids, &answer, &ids);
            messages.push(say(Role::Assistant, &answer));
            messages.extend(observations.into_iter().map(|(text, tool)| say(if tool { Role::Tool } else { Role::User }, &text)));
        }
    }
}
