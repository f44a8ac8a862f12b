//! Writes answers of the completions route, whole or in chunks, with log-probabilities in the older form: parallel lists,
//! the prompt's before the answer's where it is echoed.

use super::super::model::{Said, Spoken};
use super::super::pump::{Form, Prompted};
use super::super::stamp::{Stamp, Total, logprob, reason, stop_reason, token_text};
use serde_json::{Map, Value, json};

/// What was asked of the answer's form.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Style {
    pub(super) streams: bool,
    pub(super) include_usage: bool,
    pub(super) logprobs: bool,
    pub(super) echo: bool,
    pub(super) token_ids: bool,
    /// Choices of each prompt.
    pub(super) per_prompt: usize,
    pub(super) stop_ids: Vec<u32>,
}

/// The answer of one request.
pub(in super::super) struct TextForm {
    stamp: Stamp,
    style: Style,
    choices: Vec<Choice>,
    total: Total,
}

#[derive(Default)]
struct Choice {
    text: String,
    lists: Lists,
    /// Characters of all tokens told, for `text_offset`.
    offset: usize,
    ids: Vec<u32>,
    prompt_ids: Value,
    end: Option<(&'static str, Value)>,
}

#[derive(Default)]
struct Lists {
    tokens: Vec<Value>,
    logprobs: Vec<Value>,
    top: Vec<Value>,
    offsets: Vec<usize>,
}

impl TextForm {
    pub(in super::super) fn new(stamp: Stamp, style: Style, choices: usize) -> Self {
        let choices = (0..choices).map(|_| Choice::default()).collect();
        Self { stamp, style, choices, total: Total::default() }
    }

    fn body(&self, choices: Value) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("id".into(), json!(self.stamp.id));
        body.insert("object".into(), json!("text_completion"));
        body.insert("created".into(), json!(self.stamp.created_s));
        body.insert("model".into(), json!(self.stamp.model));
        body.insert("choices".into(), choices);
        if self.style.streams && self.style.include_usage {
            body.insert("usage".into(), Value::Null);
        }
        body
    }

    fn send(&mut self, index: usize, events: &mut Vec<String>) {
        let choice = self.choices[index].wire(index, &self.style);
        events.push(Value::Object(self.body(json!([choice]))).to_string());
    }
}

impl Form for TextForm {
    fn open(&mut self, prompts: &[Prompted], events: &mut Vec<String>) {
        for (index, prompt) in prompts.iter().enumerate() {
            let choice = &mut self.choices[index];
            if self.style.token_ids {
                choice.prompt_ids = json!(&*prompt.ids);
            }
            choice.text.extend(prompt.echo.iter().map(String::as_str));
            // Where the prompt's log-probabilities are still to come, its text goes with them.
            if self.style.streams && !choice.text.is_empty() && !self.style.logprobs {
                self.send(index, events);
            }
        }
    }

    fn take(&mut self, index: usize, said: Said, events: &mut Vec<String>) {
        let choice = &mut self.choices[index];
        match said {
            Said::Scored(tokens) => {
                if self.style.logprobs && self.style.echo {
                    choice.score(&tokens);
                }
            }
            Said::Piece { text, tokens } => {
                choice.text.push_str(&text);
                if self.style.logprobs {
                    choice.score(&tokens);
                }
                if self.style.token_ids {
                    choice.ids.extend(tokens.iter().map(|token| token.id));
                }
                if self.style.streams && !choice.text.is_empty() {
                    self.send(index, events);
                }
            }
            Said::End { finish, usage } => {
                choice.end = Some((reason(&finish), stop_reason(&finish, &self.style.stop_ids)));
                self.total.add(&usage, index.is_multiple_of(self.style.per_prompt.max(1)));
                if self.style.streams {
                    self.send(index, events);
                }
            }
        }
    }

    fn close(&mut self, events: &mut Vec<String>) {
        if self.style.include_usage {
            let mut chunk = self.body(json!([]));
            chunk.insert("usage".into(), self.total.json());
            events.push(Value::Object(chunk).to_string());
        }
    }

    fn whole(mut self: Box<Self>) -> Value {
        let style = std::mem::take(&mut self.style);
        let choices: Vec<Value> =
            self.choices.iter_mut().enumerate().map(|(index, choice)| choice.wire(index, &style)).collect();
        let mut body = self.body(json!(choices));
        body.insert("usage".into(), self.total.json());
        Value::Object(body)
    }
}

impl Choice {
    fn score(&mut self, tokens: &[Spoken]) {
        for token in tokens {
            let text = token_text(&token.bytes);
            let mut top: Map<String, Value> =
                token.top.iter().map(|other| (token_text(&other.bytes), json!(logprob(other.logprob)))).collect();
            if let Some(value) = token.logprob {
                top.entry(text.clone()).or_insert(json!(logprob(value)));
            }
            // The first token of a prompt has nothing before it.
            self.lists.logprobs.push(token.logprob.map_or(Value::Null, |value| json!(logprob(value))));
            self.lists.top.push(if token.logprob.is_some() { Value::Object(top) } else { Value::Null });
            self.lists.offsets.push(self.offset);
            self.offset += text.chars().count();
            self.lists.tokens.push(Value::String(text));
        }
    }

    /// What is told and not yet sent.
    fn wire(&mut self, index: usize, style: &Style) -> Value {
        let Lists { tokens, logprobs, top, offsets } = std::mem::take(&mut self.lists);
        let logprobs = match style.logprobs {
            true => json!({"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": top, "text_offset": offsets}),
            false => Value::Null,
        };
        let (reason, stop) = match &self.end {
            Some((reason, stop)) => (json!(reason), stop.clone()),
            None => (Value::Null, Value::Null),
        };
        let text = std::mem::take(&mut self.text);
        let mut wire =
            json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason, "stop_reason": stop});
        if style.token_ids {
            wire["prompt_token_ids"] = std::mem::take(&mut self.prompt_ids);
            wire["token_ids"] = json!(std::mem::take(&mut self.ids));
        }
        wire
    }
}
