//! Whatever messages say, the only control ids of a prompt are the template's own; and where messages spell none out, the
//! ids are those of the rendered text with control tokens recognised, which is what transformers makes of it.

use crate::fixtures::qwen3;
use crate::streams::bytes;
use crate::strings::{Dice, string};
use legwork_model::{Conversation, House, Message, PromptTemplate, RenderOptions, SpecialTokens, Template, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

const HOSTILE: [&str; 14] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|pad|>",
    "<|im_",
    "end|>",
    "<",
    "|im_end|>",
    "<|im_end|",
    ">",
    "\u{F0000}",
    "\u{F0001}x\u{F0002}",
    "<think>",
    "</think>",
    "plain",
];

fn bound(source: &str) -> PromptTemplate {
    PromptTemplate::new(Template::parse("made up", source).unwrap(), bytes(), &SpecialTokens::default()).unwrap()
}

/// The house's templates over bytes. All of them tell messages from their own control tokens.
static PROMPTS: LazyLock<BTreeMap<House, PromptTemplate>> = LazyLock::new(|| {
    let bind =
        |house: House| PromptTemplate::new(house.template().unwrap(), bytes(), &SpecialTokens::default()).unwrap();
    let bound: BTreeMap<House, PromptTemplate> = House::ALL.into_iter().map(|house| (house, bind(house))).collect();
    assert!(bound.values().all(PromptTemplate::tells_apart));
    bound
});

/// Writes parts of a content side by side.
static SIDE_BY_SIDE: LazyLock<PromptTemplate> = LazyLock::new(|| {
    bound(
        "{% for m in messages %}<|im_start|>{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}\
         {% endfor %}{% endif %}<|im_end|>{% endfor %}",
    )
});

/// Takes words out of a content.
static TAKES_OUT: LazyLock<PromptTemplate> = LazyLock::new(|| {
    bound("{% for m in messages %}<|im_start|>{{ m.content.replace('plain', '') }}<|im_end|>{% endfor %}")
});

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&HOSTILE[..]), 0..6).prop_map(|parts| parts.concat())
}

fn message() -> impl Strategy<Value = Message> {
    let roles = prop::sample::select(vec!["system", "user", "assistant", "tool", "observer"]);
    (roles, text(), prop::option::of(text()), prop::option::of((text(), text()))).prop_map(
        |(role, content, thought, call)| {
            let mut message = Message::new(role, &content);
            if let Some(thought) = thought {
                message = message.with("reasoning_content", json!(thought));
            }
            if let Some((name, argument)) = call {
                message =
                    message.with("tool_calls", json!([{"name": name, "arguments": {argument.clone(): argument}}]));
            }
            message
        },
    )
}

/// How many messages Qwen's templates open: a head, one for each but the first system message, one for each row of tools.
fn opened(messages: &[Message], with_tools: bool) -> usize {
    let head = with_tools || messages[0].role() == "system";
    let opens = |index: &usize| match messages[*index].role() {
        "user" | "assistant" => true,
        "system" => *index > 0,
        "tool" => *index == 0 || messages[index - 1].role() != "tool",
        _ => false,
    };
    usize::from(head) + (0..messages.len()).filter(opens).count()
}

fn count(tokenizer: &Tokenizer, ids: &[u32], token: &str) -> usize {
    let id = tokenizer.id_of(token).unwrap();
    ids.iter().filter(|one| **one == id).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_messages_open_and_end_nothing(
        messages in prop::collection::vec(message(), 1..6),
        tool in prop::option::of(text()),
        add_generation_prompt in any::<bool>(),
    ) {
        for house in House::ALL {
            let prompt = &PROMPTS[&house];
            let tools = tool.as_ref().map(|tool| json!([{"name": tool, tool: [tool]}]));
            let opened = opened(&messages, tools.is_some());
            let options = RenderOptions { add_generation_prompt, tools, ..RenderOptions::default() };
            let conversation = Conversation::new(messages.clone()).unwrap();
            let ids = prompt.encode(&conversation, &options).unwrap();
            let count = |token: &str| count(prompt.tokenizer(), &ids, token);
            let generation = usize::from(add_generation_prompt);
            prop_assert_eq!([count("<|im_start|>"), count("<|im_end|>"), count("<|pad|>")], [opened + generation, opened, 0]);
            // Nothing is lost or changed by it.
            let rendered = prompt.render(&conversation, &options).unwrap();
            prop_assert_eq!(bytes().decode(&ids, false).unwrap(), rendered.clone());
            if rendered.matches("<|im_start|>").count() == opened + generation && !rendered.contains("<|pad|>")
                && rendered.matches("<|im_end|>").count() == opened
            {
                prop_assert_eq!(ids, bytes().encode_rendered(&rendered).unwrap());
            }
        }
    }

    #[test]
    fn parts_and_cuts_cannot_be_joined_into_a_control_token(parts in prop::collection::vec(text(), 1..5)) {
        let listed: Value = parts.iter().map(|part| json!({"type": "text", "text": part})).collect();
        let listed = Conversation::from_json(json!([{"role": "user", "content": listed}])).unwrap();
        let joined = Conversation::new(vec![Message::new("user", &parts.join("plain"))]).unwrap();
        for (prompt, conversation) in [(&*SIDE_BY_SIDE, listed), (&*TAKES_OUT, joined)] {
            prop_assert!(prompt.tells_apart());
            let ids = prompt.encode(&conversation, &RenderOptions::default()).unwrap();
            let count = |token: &str| count(prompt.tokenizer(), &ids, token);
            prop_assert_eq!([count("<|im_start|>"), count("<|im_end|>"), count("<|pad|>")], [1, 1, 0]);
        }
    }
}

#[test]
fn a_template_that_builds_control_tokens_from_parts_is_found_and_refuses_what_it_cannot_tell_apart() {
    let prompt = bound(
        "{% for m in messages %}{{ '<|im_' + 'start|>' + m.role + '\\n' + m.content + '<|im_end|>' }}{% endfor %}",
    );
    assert!(!prompt.tells_apart());
    let encode = |content: &str| {
        let conversation = Conversation::new(vec![Message::new("user", content)]).unwrap();
        let rendered = prompt.render(&conversation, &RenderOptions::default()).unwrap();
        prompt
            .encode(&conversation, &RenderOptions::default())
            .map(|ids| (ids, bytes().encode_rendered(&rendered).unwrap()))
    };
    for ordinary in ["hi", "> quoted", "a < b", "", "user"] {
        let (ids, expected) = encode(ordinary).unwrap();
        assert_eq!(ids, expected);
    }
    for hostile in ["<|im_end|>", "a <|im_start|> b", "<|im_", "end|>", "|im_end|"] {
        let error = encode(hostile).unwrap_err().to_string();
        assert!(error.contains("a user message holds the control token"), "{error}");
    }
}

#[test]
fn special_tokens_by_name_become_ids_and_their_texts_in_messages_do_not() {
    let special = SpecialTokens { bos: bytes().id_of("<|pad|>"), ..SpecialTokens::default() };
    let template =
        Template::parse("made up", "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ bos_token }}{% endfor %}");
    let prompt = PromptTemplate::new(template.unwrap(), bytes(), &special).unwrap();
    let conversation = Conversation::new(vec![Message::new("user", "<|pad|>")]).unwrap();
    let ids = prompt.encode(&conversation, &RenderOptions::default()).unwrap();
    assert_eq!(count(&bytes(), &ids, "<|pad|>"), 2);
    assert_eq!(bytes().decode(&ids, false).unwrap(), "<|pad|><|pad|><|pad|>");
}

#[test]
fn a_conversation_that_uses_every_private_character_is_refused_by_name() {
    let all: String = ('\u{F0000}'..='\u{FFFFD}').chain('\u{100000}'..='\u{10FFFD}').collect();
    let prompt = bound("{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}");
    let conversation = Conversation::new(vec![Message::new("user", &all)]).unwrap();
    let error = prompt.encode(&conversation, &RenderOptions::default()).unwrap_err().to_string();
    assert!(error.contains("every private-use character"), "{error}");
    let most: String = all.chars().filter(|one| *one < '\u{10FF00}').collect();
    let conversation = Conversation::new(vec![Message::new("user", &most)]).unwrap();
    let ids = prompt.encode(&conversation, &RenderOptions::default()).unwrap();
    assert_eq!(bytes().decode(&ids, false).unwrap(), format!("<|im_start|>{most}"));
}

#[test]
fn qwen3_prompts_of_random_and_hostile_strings_hold_the_templates_control_ids_only() {
    let Some(tokenizer) = qwen3() else { return };
    let prompt =
        PromptTemplate::new(House::KeepThink.template().unwrap(), tokenizer.clone(), &SpecialTokens::default())
            .unwrap();
    let control: Vec<u32> = tokenizer.added().iter().filter(|token| token.special).map(|token| token.id).collect();
    let mut dice = Dice::new(4);
    for index in 0..300 {
        let roles = ["user", "assistant", "tool", "user"];
        let messages: Vec<Message> =
            (0..1 + dice.below(4)).map(|at| Message::new(roles[at as usize], &string(77, index * 4 + at))).collect();
        let opened = opened(&messages, false);
        let conversation = Conversation::new(messages).unwrap();
        let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
        let ids = prompt.encode(&conversation, &options).unwrap();
        let controls = ids.iter().filter(|id| control.contains(id)).count();
        assert_eq!(controls, opened * 2 + 1, "conversation {index}");
    }
}
