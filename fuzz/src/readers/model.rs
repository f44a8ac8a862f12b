//! Readers of a model's own files: a tokenizer, a template and a configuration; and a conversation as ids. Whatever a
//! message says, the only control ids of a prompt are those that the template put in.

use super::{files, first_line, text};
use legwork_model::{
    ChatMl, Conversation, House, Message, PromptTemplate, RenderOptions, SpecialTokens, Template, Templates, Tokenizer,
    Turn,
};
use std::cell::OnceCell;

/// A byte-level tokenizer with ChatML's markers, as small as one can be that encodes every text.
const BYTES: &str = include_str!("bytes.tokenizer.json");

thread_local! {
    static TOKENIZER: OnceCell<Tokenizer> = const { OnceCell::new() };
    static PROMPTS: OnceCell<Vec<PromptTemplate>> = const { OnceCell::new() };
}

/// The bytes are a `tokenizer.json`.
pub fn tokenizer(bytes: &[u8]) {
    let Ok(tokenizer) = Tokenizer::open(&files::file("tokenizer.json", bytes)) else { return };
    let text = "A note on 12 £-signs.\n<|im_end|>";
    if let Ok(ids) = tokenizer.encode(text) {
        assert_eq!(tokenizer.count(text), ids.len() as u64);
        let _ = tokenizer.decode(&ids, true);
    }
    let _ = tokenizer.added_tokens();
    // One of every few ids, and one that no vocabulary has.
    let ids: Vec<u32> = (0..64).chain([u32::MAX]).collect();
    if let Ok(whole) = tokenizer.decode(&ids, false) {
        let mut stream = tokenizer.stream(false);
        let pushed: Result<String, _> = ids.iter().map(|id| stream.push(*id)).collect();
        assert_eq!(pushed.expect("what decodes as a whole comes in pieces") + &stream.finish(), whole);
    }
    if let Ok(chat) = ChatMl::new(&tokenizer) {
        let _ = chat.encode(&tokenizer, &[Turn { role: "user", content: text }]);
    }
}

fn byte_level() -> Tokenizer {
    let open = || Tokenizer::from_bytes("bytes.json", BYTES.as_bytes()).expect("the tokenizer is whole");
    TOKENIZER.with(|tokenizer| tokenizer.get_or_init(open).clone())
}

/// The house's templates over it.
fn prompts() -> Vec<PromptTemplate> {
    let bind = |house: House| {
        let template = house.template().expect("the house's templates are whole");
        PromptTemplate::new(template, byte_level(), &SpecialTokens::default()).expect("it binds")
    };
    PROMPTS.with(|prompts| prompts.get_or_init(|| House::ALL.into_iter().map(bind).collect()).clone())
}

/// The first line is a conversation, the rest a template.
pub fn template(bytes: &[u8]) {
    let text = text(bytes);
    let (messages, source) = first_line(&text);
    let messages = serde_json::from_str(messages).ok().and_then(|messages| Conversation::from_json(messages).ok());
    match Template::parse("fuzzed", source) {
        Ok(template) => {
            let options =
                RenderOptions { add_generation_prompt: true, now_unix_s: Some(0), ..RenderOptions::default() };
            let rendered = template.render(&messages.unwrap_or_default(), &options);
            assert!(rendered.is_ok() || rendered.unwrap_err().to_string().contains("fuzzed"));
        }
        Err(error) => assert!(error.to_string().contains("fuzzed"), "{error}"),
    }
}

/// The bytes are a conversation as JSON, or else what a user says.
pub fn prompt(bytes: &[u8]) {
    let text = text(bytes);
    let told = serde_json::from_str(&text).ok().and_then(|messages| Conversation::from_json(messages).ok());
    let said = || Conversation::new(vec![Message::new("user", &text)]).expect("the role is a name");
    let conversation = told.unwrap_or_else(said);
    for prompt in prompts() {
        let tokenizer = prompt.tokenizer();
        let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
        let (Ok(ids), rendered) = (prompt.encode(&conversation, &options), prompt.render(&conversation, &options))
        else {
            return;
        };
        let count = |marker: &str| ids.iter().filter(|id| Some(**id) == tokenizer.id_of(marker)).count();
        let (begun, ended) = (count("<|im_start|>"), count("<|im_end|>"));
        assert_eq!(begun, ended + 1, "every message that was begun has its end, but for the one to come");
        assert!(begun <= conversation.messages().len() + 1);
        let rendered = rendered.expect("what is encoded can be rendered");
        assert_eq!(tokenizer.decode(&ids, false).expect("its own ids decode"), rendered);
    }
}

/// The bytes are a `tokenizer_config.json`.
pub fn special(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(templates) = Templates::of_config("tokenizer_config.json", &text) {
        assert!(templates.choose(true).is_none_or(|template| template.name().contains("tokenizer_config.json")));
    }
    let tokenizer = byte_level();
    if let Ok(found) = SpecialTokens::of_texts([("tokenizer_config.json", &*text)], &tokenizer) {
        let ids = found.eos.iter().chain(&found.bos).chain(&found.pad).chain(&found.unk);
        assert!(ids.into_iter().all(|id| tokenizer.token_of(*id).is_some()), "{found:?}");
    }
}

/// The bytes are what a user says, and an assistant after that.
pub fn chat(bytes: &[u8]) {
    let content = &*text(bytes);
    let tokenizer = &byte_level();
    let chat = ChatMl::new(tokenizer).expect("the tokenizer has both markers");
    let start = tokenizer.id_of("<|im_start|>").expect("the tokenizer has the marker");
    let turns = [Turn { role: "user", content }, Turn { role: "assistant", content }];
    let ids = chat.encode(tokenizer, &turns).expect("a byte-level tokenizer encodes every text");
    let count = |marker: u32| ids.iter().filter(|id| **id == marker).count();
    assert_eq!((count(start), count(chat.end())), (3, 2), "only the template's own markers");
    let said = tokenizer.decode(&ids, true).expect("its own ids decode");
    assert!(said.contains(content), "{said:?} has lost something of {content:?}");
}
