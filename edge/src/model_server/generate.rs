//! SGLang's `POST /generate`: text or token ids, one prompt or a batch, with the very ids and log-probabilities. Its answer
//! is written next door. Facts of the form: SGLang's `GenerateReqInput` and `SamplingParams` (v0.5).

pub(super) mod answer;

use super::completions::prompts;
use super::config::GenerateEvents;
use super::fields::{Fields, at_most, wrong};
use super::model::{Prompt, TextAsk};
use super::refused::Refused;
use super::running::RID_MAX_BYTES;
use super::sampling::{Bounds, likeliest, seed_of, sglang};
use answer::{Item, Style};
use serde_json::Value;

/// New tokens where a request does not say, as SGLang's.
const MAX_TOKENS_DEFAULT: u32 = 128;
/// What a prompt may bring beside text and is not read here.
const NOT_READ: [&str; 6] = ["image_data", "video_data", "audio_data", "input_embeds", "lora_path", "session_params"];
/// Fields that change nothing here.
const HARMLESS: &[&str] = &[
    "log_metrics",
    "priority",
    "modalities",
    "custom_logit_processor",
    "return_hidden_states",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "data_parallel_rank",
    "background",
    "model",
    "extra_key",
    "routing_key",
];

/// A request as read.
pub(super) struct GenerateRequest {
    /// For each prompt its choices, in order.
    pub(super) asks: Vec<TextAsk>,
    /// For each of `asks`, what its answer tells.
    pub(super) items: Vec<Item>,
    pub(super) style: Style,
    pub(super) streams: bool,
}

/// Reads a body. `rid` is the request's id where it gives none.
pub(super) fn read(mut fields: Fields, bounds: Bounds<'_>, rid: &str) -> Result<GenerateRequest, Refused> {
    let most = bounds.config.choices_max;
    for name in NOT_READ {
        fields.not_offered(name, "prompts are text or token ids")?;
    }
    fields.not_offered("return_hidden_states", "token ids and log-probabilities can be had")?;
    fields.not_offered("custom_logit_processor", "use `logit_bias` in `sampling_params`")?;
    let (prompts, is_batch) = prompts_of(&mut fields, bounds)?;
    let count = prompts.len();
    let params = each(&mut fields, "sampling_params", count)?;
    let rids = each(&mut fields, "rid", count)?;
    let return_logprob = each(&mut fields, "return_logprob", count)?;
    let starts = each(&mut fields, "logprob_start_len", count)?;
    let tops = each(&mut fields, "top_logprobs_num", count)?;
    fields.not_offered("token_ids_logprob", "use `top_logprobs_num`")?;
    let with_text = fields.flag("return_text_in_logprobs")?.unwrap_or(false);
    let streams = fields.flag("stream")?.unwrap_or(false);
    fields.ignore_rest(HARMLESS);
    let (mut asks, mut items) = (Vec::new(), Vec::new());
    let mut is_one = !is_batch;
    for (place, prompt) in prompts.into_iter().enumerate() {
        let path = format!("sampling_params{}", if is_batch { format!("[{place}]") } else { String::new() });
        let (mut sampling, n) = match params[place].clone() {
            None => sglang(&mut Fields::of(&path, Value::Object(Default::default()))?, bounds, MAX_TOKENS_DEFAULT)?,
            Some(value) => {
                let mut fields = Fields::of(&path, value)?;
                let read = sglang(&mut fields, bounds, MAX_TOKENS_DEFAULT)?;
                fields.ignore_rest(&["spaces_between_special_tokens", "stream_interval", "custom_params"]);
                read
            }
        };
        let scores = scores(&return_logprob[place], &starts[place], &tops[place], bounds)?;
        sampling.logprobs = scores.map(|(_, top)| top);
        if sampling.max_tokens == Some(0) && scores.is_none_or(|(start, _)| start.is_none()) {
            return Err(Refused::asked(
                format!("{path}.max_new_tokens"),
                "`max_new_tokens` may be 0 only with `return_logprob` and a `logprob_start_len` from 0: nothing would be made",
            ));
        }
        at_most("prompts times n", asks.len() + n as usize, most)?;
        is_one &= n == 1;
        let rid = rid_of(rids[place].as_ref(), rid, is_batch.then_some(place))?;
        for choice in 0..n {
            let mut ask = TextAsk {
                prompt: prompt.clone(),
                sampling: sampling.clone(),
                score_from: scores.and_then(|(start, _)| start),
                rid: rid.clone(),
            };
            ask.sampling.seed = ask.sampling.seed.map(|seed| seed_of(seed, choice));
            items.push(Item::new(rid.clone(), scores.is_some(), scores.is_some_and(|(_, top)| top > 0), with_text));
            asks.push(ask);
        }
    }
    let style = Style { streams, is_one, is_new: bounds.config.generate_events == GenerateEvents::New };
    Ok(GenerateRequest { asks, items, style, streams })
}

fn prompts_of(fields: &mut Fields, bounds: Bounds<'_>) -> Result<(Vec<Prompt>, bool), Refused> {
    let (text, ids) = (fields.take("text"), fields.take("input_ids"));
    let (path, value) = match (text, ids) {
        (Some(text), None) => ("text", text),
        (None, Some(ids)) => ("input_ids", ids),
        (None, None) => return Err(Refused::asked("text", "`text` or `input_ids` was expected, neither came")),
        (Some(_), Some(_)) => {
            return Err(Refused::asked("input_ids", "`text` or `input_ids` was expected, both came: leave one out"));
        }
    };
    let is_batch = match (&value, path) {
        (Value::Array(list), "text") => !list.is_empty(),
        (Value::Array(list), _) => list.first().is_some_and(Value::is_array),
        _ => false,
    };
    let is_right = |prompt: &Prompt| matches!(prompt, Prompt::Text(_)) == (path == "text");
    let read = prompts(path, Some(value.clone()), bounds.config.choices_max, bounds.vocabulary)?;
    if read.iter().all(is_right) {
        return Ok((read, is_batch));
    }
    let expected =
        if path == "text" { "a string or a list of strings" } else { "token ids or a list of lists of them" };
    Err(wrong(path, expected, &value))
}

/// A field that holds for all prompts, or is a list with an entry for each.
fn each(fields: &mut Fields, name: &str, count: usize) -> Result<Vec<Option<Value>>, Refused> {
    match fields.take(name) {
        Some(Value::Array(list)) => {
            if list.len() != count {
                let detail = format!("`{name}` must have one entry a prompt, {count}, got {}", list.len());
                return Err(Refused::asked(name, detail));
            }
            Ok(list.into_iter().map(|value| Some(value).filter(|value| !value.is_null())).collect())
        }
        value => Ok(vec![value; count]),
    }
}

/// From where the prompt is scored, and how many of the likeliest are told; none where nothing is.
fn scores(
    flag: &Option<Value>,
    start: &Option<Value>,
    top: &Option<Value>,
    bounds: Bounds<'_>,
) -> Result<Option<(Option<usize>, u32)>, Refused> {
    let is_wanted = match flag {
        None => false,
        Some(Value::Bool(flag)) => *flag,
        Some(other) => return Err(wrong("return_logprob", "true or false", other)),
    };
    let top = match top {
        None => 0,
        Some(top) => likeliest("top_logprobs_num", top, bounds.config.logprobs_max)?,
    };
    let start = match start {
        None => None,
        Some(start) => match start.as_i64() {
            // -1 is how SGLang writes "not of the prompt".
            Some(-1) => None,
            Some(from @ 0..) => usize::try_from(from).ok(),
            _ => return Err(wrong("logprob_start_len", "-1 or a place in the prompt", start)),
        },
    };
    Ok(is_wanted.then_some((start, top)))
}

fn rid_of(given: Option<&Value>, own: &str, place: Option<usize>) -> Result<String, Refused> {
    match given {
        None => Ok(place.map_or_else(|| own.to_owned(), |place| format!("{own}-{place}"))),
        Some(Value::String(rid)) if (1..=RID_MAX_BYTES).contains(&rid.len()) => Ok(rid.clone()),
        Some(other) => Err(wrong("rid", &format!("a string of 1 to {RID_MAX_BYTES} bytes"), other)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::ModelServerConfig;
    use super::*;
    use serde_json::json;

    fn request(body: Value) -> Result<GenerateRequest, Refused> {
        let config = ModelServerConfig { choices_max: 6, ..ModelServerConfig::default() };
        read(Fields::of_body(body)?, Bounds { config: &config, vocabulary: 100 }, "own")
    }

    #[test]
    fn one_prompt_and_a_batch_are_told_apart() {
        for (body, count, is_one) in [
            (json!({"text": "a"}), 1, true),
            (json!({"input_ids": [1, 2]}), 1, true),
            (json!({"text": ["a"]}), 1, false),
            (json!({"input_ids": [[1], [2]]}), 2, false),
            (json!({"text": "a", "sampling_params": {"n": 2}}), 2, false),
        ] {
            let read = request(body.clone()).unwrap();
            assert_eq!((read.asks.len(), read.style.is_one), (count, is_one), "{body}");
        }
    }

    #[test]
    fn a_batch_may_say_each_thing_for_each_prompt() {
        let read = request(json!({"text": ["a", "b"], "rid": ["x", "y"], "return_logprob": [true, false],
            "logprob_start_len": [0, -1], "sampling_params": [{"max_new_tokens": 1}, {"max_new_tokens": 2}]}))
        .unwrap();
        let told: Vec<_> = read
            .asks
            .iter()
            .map(|ask| (ask.rid.as_str(), ask.score_from, ask.sampling.logprobs, ask.sampling.max_tokens))
            .collect();
        assert_eq!(told, [("x", Some(0), Some(0), Some(1)), ("y", None, None, Some(2))]);
        let own = request(json!({"text": ["a", "b"]})).unwrap();
        assert_eq!((own.asks[1].rid.as_str(), own.asks[1].sampling.max_tokens), ("own-1", Some(128)));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (body, said) in [
            (json!({}), "`text` or `input_ids` was expected, neither came"),
            (json!({"text": "a", "input_ids": [1]}), "both came"),
            (json!({"text": [1]}), "`text` must be a string or a list of strings, got a list of 1"),
            (json!({"input_ids": "a"}), "`input_ids` must be token ids"),
            (json!({"input_ids": [100]}), "`input_ids[0]` must be a token id below 100"),
            (json!({"text": "a", "sampling_params": {"temperature": -1}}), "`sampling_params.temperature`"),
            (json!({"text": ["a"], "sampling_params": [{"top_p": 2}]}), "`sampling_params[0].top_p`"),
            (json!({"text": ["a", "b"], "rid": ["x"]}), "`rid` must have one entry a prompt, 2, got 1"),
            (json!({"text": "a", "rid": ""}), "`rid` must be a string of 1 to 256 bytes"),
            (json!({"text": "a", "sampling_params": {"regex": "x"}}), "`sampling_params.regex` is not offered here"),
            (json!({"text": "a", "image_data": "x"}), "`image_data` is not offered here"),
            (json!({"text": "a", "sampling_params": {"max_new_tokens": 0}}), "nothing would be made"),
            (json!({"text": "a", "logprob_start_len": -2}), "`logprob_start_len` must be -1 or a place"),
        ] {
            let told = request(body.clone()).err().unwrap().to_string();
            assert!(told.contains(said), "{body}: {told}");
        }
    }
}
