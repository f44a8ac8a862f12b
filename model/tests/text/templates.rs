//! The house's templates on several hundred conversations against the published template and its variants, and templates
//! of real models against transformers. `goldens/make_template_goldens.py` says how the expected texts were made.

use crate::fixtures::{fixture, golden, qwen3, smollm2};
use legwork_model::{Conversation, House, PromptTemplate, RenderOptions, SpecialTokens, Template, Templates};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

struct Case {
    conversation: Conversation,
    options: RenderOptions,
    line: Value,
}

fn cases() -> Vec<Case> {
    let lines = golden("templates.jsonl");
    let case = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let told = |name: &str| line["options"].get(name).and_then(Value::as_bool);
        let options = RenderOptions {
            add_generation_prompt: told("add_generation_prompt").unwrap(),
            enable_thinking: told("enable_thinking"),
            clear_thinking: told("clear_thinking"),
            tools: Some(line["tools"].clone()).filter(|tools| !tools.is_null()),
            ..RenderOptions::default()
        };
        Case { conversation: Conversation::from_json(line["messages"].clone()).unwrap(), options, line }
    };
    lines.lines().map(case).collect()
}

#[track_caller]
fn renders_all(house: House) {
    let template = house.template().unwrap();
    let mut differing = Vec::new();
    let cases = cases();
    assert!(cases.len() >= 300);
    for (index, case) in cases.iter().enumerate() {
        let expected = case.line.get(house.name()).unwrap_or(&case.line["qwen3"]).as_str().unwrap();
        let got = template.render(&case.conversation, &case.options).unwrap();
        if got != expected {
            differing.push(format!("{index}: {}\nexpected {expected:?}\n     got {got:?}", case.line["messages"]));
        }
    }
    assert!(differing.is_empty(), "{} differ, the first:\n{}", differing.len(), differing[0]);
}

#[test]
fn qwen3_renders_as_published() {
    renders_all(House::Qwen3);
}

#[test]
fn qwen3_fixed_always_has_thinking_behind_the_last_question() {
    renders_all(House::Qwen3Fixed);
}

#[test]
fn keep_think_keeps_all_thinking() {
    renders_all(House::KeepThink);
}

#[test]
fn the_published_template_itself_renders_as_transformers_renders_it() {
    let Some(folder) = fixture("qwen3") else { return };
    let templates = Templates::of_folder(&folder).unwrap();
    let template = templates.choose(false).unwrap();
    for (index, case) in cases().iter().enumerate() {
        let filled = case.conversation.messages().iter().map(|message| {
            let content = message.fields().get("content").filter(|content| !content.is_null());
            message.clone().with("content", content.cloned().unwrap_or(json!("")))
        });
        let filled = Conversation::new(filled.collect()).unwrap();
        let got = template.render(&filled, &case.options).unwrap();
        assert_eq!(got, case.line["qwen3"].as_str().unwrap(), "conversation {index}");
    }
}

#[test]
fn prompts_have_the_ids_of_apply_chat_template() {
    let Some(tokenizer) = qwen3() else { return };
    let prompt =
        PromptTemplate::new(House::Qwen3.template().unwrap(), tokenizer.clone(), &SpecialTokens::default()).unwrap();
    assert!(prompt.tells_apart());
    let mut hashed = 0;
    for (index, case) in cases().iter().enumerate() {
        let ids = prompt.encode(&case.conversation, &case.options).unwrap();
        let mut hash = Sha256::new();
        ids.iter().for_each(|id| hash.update(id.to_le_bytes()));
        let hex: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            case.line["ids"].as_str().unwrap(),
            "conversation {index}: {:?}",
            tokenizer.decode(&ids, false)
        );
        hashed += 1;
    }
    println!("{hashed} conversations have transformers' ids");
}

#[test]
fn smollm2s_template_renders_as_transformers_renders_it() {
    let Some((tokenizer, source)) = smollm2() else { return };
    let template = Template::parse("SmolLM2", &source).unwrap();
    let goldens: Vec<Value> = serde_json::from_str(&golden("smollm2_template.json")).unwrap();
    let prompt = PromptTemplate::new(template.clone(), tokenizer.clone(), &SpecialTokens::default()).unwrap();
    for golden in goldens {
        let conversation = Conversation::from_json(golden["messages"].clone()).unwrap();
        let add_generation_prompt = golden["add_generation_prompt"].as_bool().unwrap();
        let options = RenderOptions { add_generation_prompt, ..RenderOptions::default() };
        let text = template.render(&conversation, &options).unwrap();
        assert_eq!(text, golden["text"].as_str().unwrap());
        let ids = prompt.encode(&conversation, &options).unwrap();
        assert_eq!(ids, tokenizer.encode_rendered(&text).unwrap());
    }
}

/// Templates that a model folder brings are read by their files, and so are the ids that end a text.
#[test]
fn qwen3s_folder_says_which_ids_begin_and_end_a_text() {
    let (Some(folder), Some(tokenizer)) = (fixture("qwen3"), qwen3()) else { return };
    let found = SpecialTokens::of_folder(&folder, &tokenizer).unwrap();
    assert_eq!((found.bos, found.eos.as_slice(), found.pad), (None, [151_645].as_slice(), Some(151_643)));
    let names = found.names(&tokenizer);
    assert_eq!(names[0], ("eos_token", "<|im_end|>".to_owned()));
}
