//! `POST /v1/completions`: prompts as text or token ids, one or many, `n` answers to each. Its answer is written next door.

pub(super) mod answer;

use super::chat::{HARMLESS, streaming};
use super::fields::{Fields, at_most, ids, wrong};
use super::model::{Prompt, TextAsk};
use super::refused::Refused;
use super::sampling::{Bounds, likeliest, openai, seed_of};
use answer::Style;
use serde_json::Value;

/// New tokens where a request does not say, as OpenAI's.
const MAX_TOKENS_DEFAULT: u32 = 16;

/// A request as read.
pub(super) struct TextRequest {
    /// For each prompt its choices, in order.
    pub(super) asks: Vec<TextAsk>,
    pub(super) echo: bool,
    pub(super) style: Style,
    pub(super) streams: bool,
}

/// Reads a body. `rid` is the request's id where it gives none.
pub(super) fn read(mut fields: Fields, bounds: Bounds<'_>, rid: &str) -> Result<TextRequest, Refused> {
    let config = bounds.config;
    let echo = fields.flag("echo")?.unwrap_or(false);
    let mut sampling = openai(&mut fields, bounds, u32::from(!echo))?;
    sampling.max_tokens.get_or_insert(MAX_TOKENS_DEFAULT);
    // Some clients write the flag of the chat route.
    let top = match fields.take("logprobs") {
        None | Some(Value::Bool(false)) => None,
        Some(Value::Bool(true)) => Some(0),
        Some(top) => Some(likeliest("logprobs", &top, config.logprobs_max)?),
    };
    sampling.logprobs = top;
    let choices_max = u32::try_from(config.choices_max).unwrap_or(u32::MAX);
    let n = fields.count("n", 1..=choices_max)?.unwrap_or(1);
    if let Some(best_of) = fields.count("best_of", 1..=choices_max)?
        && best_of != n
    {
        let detail = format!(
            "`best_of` must be `n`, which is {n}, or left out, got {best_of}: choose among `n` answers on your side"
        );
        return Err(Refused::Unsupported { param: Some("best_of".to_owned()), detail });
    }
    fields.not_offered("suffix", "this model continues a text and does not fill gaps in one")?;
    let (streams, include_usage) = streaming(&mut fields)?;
    let prompts = prompts("prompt", fields.take("prompt"), config.choices_max, bounds.vocabulary)?;
    at_most("prompt times n", prompts.len() * n as usize, config.choices_max)?;
    let style = Style {
        streams,
        include_usage,
        logprobs: top.is_some(),
        echo,
        token_ids: fields.flag("return_token_ids")?.unwrap_or(false),
        per_prompt: n as usize,
        stop_ids: sampling.stop_token_ids.clone(),
    };
    let rid = super::body::rid(&mut fields)?.unwrap_or_else(|| rid.to_owned());
    fields.ignore_rest(HARMLESS);
    let score_from = (echo && top.is_some()).then_some(0);
    let mut asks = Vec::with_capacity(prompts.len() * n as usize);
    for prompt in prompts {
        for _ in 0..n {
            let mut ask = TextAsk { prompt: prompt.clone(), sampling: sampling.clone(), score_from, rid: rid.clone() };
            let choice = u32::try_from(asks.len()).unwrap_or(u32::MAX);
            ask.sampling.seed = ask.sampling.seed.map(|seed| seed_of(seed, choice));
            asks.push(ask);
        }
    }
    Ok(TextRequest { asks, echo, style, streams })
}

/// A text, a list of texts, token ids, or a list of lists of token ids.
pub(super) fn prompts(path: &str, value: Option<Value>, most: usize, vocabulary: u32) -> Result<Vec<Prompt>, Refused> {
    const EXPECTED: &str = "a string, a list of strings, a list of token ids, or a list of such lists";
    let list = match value.unwrap_or(Value::Null) {
        Value::String(text) => return Ok(vec![text_of(path, text)?]),
        Value::Array(list) if !list.is_empty() => list,
        other => return Err(wrong(path, EXPECTED, &other)),
    };
    if list.iter().all(Value::is_number) {
        return Ok(vec![Prompt::Ids(ids(path, &list, vocabulary)?)]);
    }
    at_most(path, list.len(), most)?;
    let one = |(place, value): (usize, Value)| {
        let path = format!("{path}[{place}]");
        match value {
            Value::String(text) => text_of(&path, text),
            Value::Array(list) if !list.is_empty() => Ok(Prompt::Ids(ids(&path, &list, vocabulary)?)),
            other => Err(wrong(&path, "a string or a list of token ids, not empty", &other)),
        }
    };
    list.into_iter().enumerate().map(one).collect()
}

fn text_of(path: &str, text: String) -> Result<Prompt, Refused> {
    if text.is_empty() {
        return Err(wrong(path, "a text that is not empty", &Value::String(text)));
    }
    Ok(Prompt::Text(text))
}

#[cfg(test)]
mod tests {
    use super::super::config::ModelServerConfig;
    use super::*;
    use serde_json::json;

    fn request(body: Value) -> Result<TextRequest, Refused> {
        let config = ModelServerConfig { choices_max: 6, ..ModelServerConfig::default() };
        read(Fields::of_body(body)?, Bounds { config: &config, vocabulary: 100 }, "r")
    }

    #[test]
    fn every_form_of_a_prompt_is_read() {
        let text = |text: &str| Prompt::Text(text.into());
        for (prompt, expected) in [
            (json!("a"), vec![text("a")]),
            (json!(["a", "b"]), vec![text("a"), text("b")]),
            (json!([1, 2]), vec![Prompt::Ids(vec![1, 2])]),
            (json!([[1, 2], [3]]), vec![Prompt::Ids(vec![1, 2]), Prompt::Ids(vec![3])]),
            (json!(["a", [3]]), vec![text("a"), Prompt::Ids(vec![3])]),
        ] {
            assert_eq!(prompts("prompt", Some(prompt), 9, 100).unwrap(), expected);
        }
    }

    #[test]
    fn each_prompt_has_its_choices_and_each_choice_its_seed() {
        let asks = request(json!({"prompt": ["a", "b"], "n": 3, "seed": 5})).unwrap().asks;
        assert_eq!(asks.len(), 6);
        assert_eq!(asks[2].prompt, Prompt::Text("a".into()));
        assert_eq!((asks[0].sampling.seed, asks[0].sampling.max_tokens), (Some(5), Some(16)));
        let seeds: std::collections::BTreeSet<_> = asks.iter().map(|ask| ask.sampling.seed).collect();
        assert_eq!(seeds.len(), 6);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (body, said) in [
            (json!({}), "`prompt` must be a string, a list of strings"),
            (json!({"prompt": ""}), "`prompt` must be a text that is not empty"),
            (json!({"prompt": []}), "got a list of 0"),
            (json!({"prompt": ["a", 3]}), "`prompt[1]` must be a string or a list of token ids, not empty, got 3"),
            (json!({"prompt": [1, 100]}), "`prompt[1]` must be a token id below 100, got 100"),
            (json!({"prompt": [[1], [-1]]}), "`prompt[1][0]` must be a token id"),
            (json!({"prompt": ["a", "b"], "n": 4}), "at most 6 entries, got 8"),
            (json!({"prompt": "a", "n": 7}), "`n` must be a whole number from 1 to 6"),
            (json!({"prompt": "a", "max_tokens": 0}), "`max_tokens`"),
            (json!({"prompt": "a", "suffix": "b"}), "`suffix` is not offered here"),
            (json!({"prompt": "a", "best_of": 2}), "`best_of` must be `n`, which is 1"),
            (json!({"prompt": "a", "logprobs": 21}), "`logprobs` must be a whole number from 0 to 20"),
        ] {
            let told = request(body.clone()).err().unwrap().to_string();
            assert!(told.contains(said), "{body}: {told}");
        }
        let scored = request(json!({"prompt": "a", "max_tokens": 0, "echo": true, "logprobs": 1})).unwrap();
        assert_eq!((scored.asks[0].score_from, scored.asks[0].sampling.max_tokens), (Some(0), Some(0)));
    }
}
