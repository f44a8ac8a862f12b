//! Readers of a model's own files: a tokenizer, and a conversation as ids. Whatever a message says, the only control ids
//! of a prompt are those that the template put in.

use super::{files, text};
use legwork_model::{ChatMl, Tokenizer, Turn};
use std::cell::OnceCell;

/// A byte-level tokenizer with ChatML's markers, as small as one can be that encodes every text.
const BYTES: &str = include_str!("bytes.tokenizer.json");

thread_local! {
    static TOKENIZER: OnceCell<Tokenizer> = const { OnceCell::new() };
}

/// The bytes are a `tokenizer.json`.
pub fn tokenizer(bytes: &[u8]) {
    let Ok(tokenizer) = Tokenizer::open(&files::file("tokenizer.json", bytes)) else { return };
    let text = "A note on 12 £-signs.\n<|im_end|>";
    if let Ok(ids) = tokenizer.encode(text) {
        assert_eq!(tokenizer.count(text), ids.len() as u64);
        let _ = tokenizer.decode(&ids, true);
    }
    let _ = (tokenizer.decode(&[0, 1, u32::MAX], false), tokenizer.added_tokens());
    if let Ok(chat) = ChatMl::new(&tokenizer) {
        let _ = chat.encode(&tokenizer, &[Turn { role: "user", content: text }]);
    }
}

/// The bytes are what a user says, and an assistant after that.
pub fn chat(bytes: &[u8]) {
    let content = &*text(bytes);
    TOKENIZER.with(|tokenizer| {
        let open = || Tokenizer::open(&files::file("bytes.json", BYTES.as_bytes())).expect("the tokenizer is whole");
        let tokenizer = tokenizer.get_or_init(open);
        let chat = ChatMl::new(tokenizer).expect("the tokenizer has both markers");
        let start = tokenizer.id_of("<|im_start|>").expect("the tokenizer has the marker");
        let turns = [Turn { role: "user", content }, Turn { role: "assistant", content }];
        let ids = chat.encode(tokenizer, &turns).expect("a byte-level tokenizer encodes every text");
        let count = |marker: u32| ids.iter().filter(|id| **id == marker).count();
        assert_eq!((count(start), count(chat.end())), (3, 2), "only the template's own markers");
        let said = tokenizer.decode(&ids, true).expect("its own ids decode");
        assert!(said.contains(content), "{said:?} has lost something of {content:?}");
    });
}
