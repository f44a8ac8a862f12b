//! Writes answers of `/generate`: text, ids and `meta_info`, whole or in events that hold all so far or what is new.

use super::super::model::{Candidate, Finish, Matched, Said, Spoken};
use super::super::pump::{Form, Prompted};
use super::super::stamp::{logprob, token_text};
use legwork_protocol::generation::Usage;
use serde_json::{Value, json};

/// What was asked of the answer's form.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Style {
    pub(super) streams: bool,
    /// Whether the answer is one object and no list.
    pub(super) is_one: bool,
    /// Whether events hold what is new.
    pub(super) is_new: bool,
}

/// The answer of one request.
pub(in super::super) struct GenerateForm {
    style: Style,
    items: Vec<Item>,
}

/// One prompt's answer.
#[derive(Default)]
pub(in super::super) struct Item {
    rid: String,
    logprobs: bool,
    top: bool,
    with_text: bool,
    prompt_tokens: usize,
    made: usize,
    text: String,
    ids: Vec<u32>,
    input: Vec<Value>,
    input_top: Vec<Value>,
    output: Vec<Value>,
    output_top: Vec<Value>,
    usage: Option<Usage>,
    finish: Value,
}

impl GenerateForm {
    pub(in super::super) fn new(style: Style, items: Vec<Item>) -> Self {
        Self { style, items }
    }

    fn send(&mut self, index: usize, events: &mut Vec<String>) {
        let mut wire = self.items[index].wire();
        if !self.style.is_one {
            wire["index"] = json!(index);
        }
        events.push(wire.to_string());
        if self.style.is_new {
            self.items[index].forget();
        }
    }
}

impl Form for GenerateForm {
    fn open(&mut self, prompts: &[Prompted], _: &mut Vec<String>) {
        for (item, prompt) in self.items.iter_mut().zip(prompts) {
            item.prompt_tokens = prompt.ids.len();
        }
    }

    fn take(&mut self, index: usize, said: Said, events: &mut Vec<String>) {
        let item = &mut self.items[index];
        match said {
            Said::Scored(tokens) => {
                if item.logprobs {
                    item.input.extend(tokens.iter().map(|token| triple(token, item.with_text)));
                }
                if item.top {
                    item.input_top.extend(tokens.iter().map(|token| top(token, item.with_text)));
                }
            }
            Said::Piece { text, tokens } => {
                item.text.push_str(&text);
                item.made += tokens.len();
                item.ids.extend(tokens.iter().map(|token| token.id));
                if item.logprobs {
                    item.output.extend(tokens.iter().map(|token| triple(token, item.with_text)));
                }
                if item.top {
                    item.output_top.extend(tokens.iter().map(|token| top(token, item.with_text)));
                }
                if self.style.streams {
                    self.send(index, events);
                }
            }
            Said::End { finish, usage } => {
                item.finish = finish_reason(&finish, &usage);
                item.usage = Some(usage);
                if self.style.streams {
                    self.send(index, events);
                }
            }
        }
    }

    fn close(&mut self, _: &mut Vec<String>) {}

    fn whole(self: Box<Self>) -> Value {
        let mut items: Vec<Value> = self.items.iter().map(Item::wire).collect();
        match (self.style.is_one, items.pop()) {
            (true, Some(item)) => item,
            (_, last) => {
                items.extend(last);
                Value::Array(items)
            }
        }
    }
}

impl Item {
    pub(super) fn new(rid: String, logprobs: bool, top: bool, with_text: bool) -> Self {
        Self { rid, logprobs, top, with_text, ..Self::default() }
    }

    fn wire(&self) -> Value {
        let usage = self.usage.unwrap_or_else(|| Usage {
            prompt_tokens: u32::try_from(self.prompt_tokens).unwrap_or(u32::MAX),
            cached_tokens: 0,
            completion_tokens: u32::try_from(self.made).unwrap_or(u32::MAX),
        });
        let mut meta = json!({
            "id": self.rid,
            "finish_reason": self.finish,
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
        });
        if self.logprobs {
            meta["input_token_logprobs"] = json!(self.input);
            meta["output_token_logprobs"] = json!(self.output);
        }
        if self.top {
            meta["input_top_logprobs"] = json!(self.input_top);
            meta["output_top_logprobs"] = json!(self.output_top);
        }
        json!({"text": self.text, "output_ids": self.ids, "meta_info": meta})
    }

    fn forget(&mut self) {
        self.text.clear();
        self.ids.clear();
        for list in [&mut self.input, &mut self.input_top, &mut self.output, &mut self.output_top] {
            list.clear();
        }
    }
}

/// Log-probability, id, and the text where it was asked for.
fn triple(token: &Spoken, with_text: bool) -> Value {
    json!([token.logprob.map(logprob), token.id, with_text.then(|| token_text(&token.bytes))])
}

/// The likeliest in a token's place as such triples; null for a token with nothing before it.
fn top(token: &Spoken, with_text: bool) -> Value {
    let one =
        |other: &Candidate| json!([logprob(other.logprob), other.id, with_text.then(|| token_text(&other.bytes))]);
    token.logprob.map_or(Value::Null, |_| token.top.iter().map(one).collect())
}

fn finish_reason(finish: &Finish, usage: &Usage) -> Value {
    match finish {
        Finish::Stop { matched: None } => json!({"type": "stop", "matched": null}),
        Finish::Stop { matched: Some(Matched::Token(id)) } => json!({"type": "stop", "matched": id}),
        Finish::Stop { matched: Some(Matched::Text(text)) } => json!({"type": "stop", "matched": text}),
        Finish::Length => json!({"type": "length", "length": usage.completion_tokens}),
        Finish::Aborted { detail } => json!({"type": "abort", "message": detail}),
    }
}
