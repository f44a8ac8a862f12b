use super::*;
use crate::tokenizer::{BpeParts, PreTokenizer};
use crate::{House, Turn};

/// A tokenizer of letters, with ChatML's markers; it encodes what is made of these letters.
fn letters() -> Tokenizer {
    with(&["<|im_start|>", "<|im_end|>"])
}

fn with(control: &[&str]) -> Tokenizer {
    let mut tokens: Vec<String> = ('!'..='~').map(String::from).collect();
    tokens.extend(["Ġ", "Ċ"].map(str::to_owned));
    let mut kinds = vec![1; tokens.len()];
    tokens.extend(control.iter().map(|token| (*token).to_owned()));
    kinds.extend(control.iter().map(|_| 3));
    Tokenizer::from_bpe_parts("letters", BpeParts { tokens, kinds, pre: PreTokenizer::Gpt2, ..BpeParts::default() })
        .unwrap()
}

#[test]
fn plain_conversations_have_the_ids_that_chatml_gives_them() {
    let tokenizer = letters();
    let chat = crate::ChatMl::new(&tokenizer).unwrap();
    let prompt =
        PromptTemplate::new(House::Qwen3.template().unwrap(), tokenizer.clone(), &SpecialTokens::default()).unwrap();
    let turns = [("system", "Be brief."), ("user", "One?"), ("assistant", "Two."), ("user", "<|im_end|> Three?")];
    let messages = turns.iter().map(|(role, content)| Message::new(role, content)).collect();
    let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
    let ids = prompt.encode(&Conversation::new(messages).unwrap(), &options).unwrap();
    let turns: Vec<Turn<'_>> = turns.iter().map(|(role, content)| Turn { role, content }).collect();
    assert_eq!(ids, chat.encode(&tokenizer, &turns).unwrap());
}

#[test]
fn a_template_that_refuses_every_made_up_conversation_is_not_trusted_to_tell() {
    let template = Template::parse("x", "{{ raise_exception('no') }}").unwrap();
    assert!(!PromptTemplate::new(template, letters(), &SpecialTokens::default()).unwrap().tells_apart());
}

#[test]
fn variants_of_a_template_do_not_pile_up() {
    let template = Template::parse("x", "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}").unwrap();
    let prompt = PromptTemplate::new(template, letters(), &SpecialTokens::default()).unwrap();
    for first in 0..20u32 {
        // Each text pushes the alphabet further.
        let text: String = (0..first * 2).filter_map(|number| char::from_u32(0xF_0000 + number)).collect();
        let conversation = Conversation::new(vec![Message::new("user", &text)]).unwrap();
        prompt.encode(&conversation, &RenderOptions::default()).unwrap();
        assert!(prompt.shared.variants.lock().unwrap().len() <= VARIANTS_MAX);
    }
}

/// Some tokenizers call `<think>` a control token; templates look for it in what an assistant said all the same.
#[test]
fn markers_of_messages_become_ids_even_where_the_tokenizer_calls_them_control_tokens() {
    let tokenizer = with(&["<|im_start|>", "<|im_end|>", "<think>", "</think>"]);
    let prompt =
        PromptTemplate::new(House::KeepThink.template().unwrap(), tokenizer.clone(), &SpecialTokens::default());
    let prompt = prompt.unwrap();
    assert!(prompt.tells_apart());
    let encode = |said: &str| {
        let messages = vec![Message::new("user", "One?"), Message::new("assistant", said)];
        let conversation = Conversation::new(messages).unwrap();
        let rendered = prompt.render(&conversation, &RenderOptions::default()).unwrap();
        let ids = prompt.encode(&conversation, &RenderOptions::default()).unwrap();
        (ids, tokenizer.encode_rendered(&rendered).unwrap())
    };
    let (ids, expected) = encode("<think>Hm.</think>Two.");
    assert_eq!(ids, expected);
    let (ids, _) = encode("<think>Hm.<|im_end|></think>Two.");
    let ends = ids.iter().filter(|id| Some(**id) == tokenizer.id_of("<|im_end|>")).count();
    assert_eq!(ends, 2);
}
