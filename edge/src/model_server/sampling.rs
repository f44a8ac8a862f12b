//! Reads how to draw, in OpenAI's words with the extras that vLLM and SGLang take, and in those of SGLang's `/generate`.

use super::config::ModelServerConfig;
use super::fields::{Fields, at_most, ids, shown, whole, wrong};
use super::model::Sampling;
use super::refused::Refused;
use serde_json::Value;
use std::collections::BTreeMap;

/// The hottest that may be asked for, as OpenAI's.
const TEMPERATURE_MAX: f32 = 2.0;
/// The largest penalty either way, as OpenAI's.
const PENALTY_MAX: f32 = 2.0;
/// The largest bias either way, as OpenAI's.
const BIAS_MAX: f32 = 100.0;
/// Bytes of one stop string at most.
const STOP_MAX_BYTES: usize = 1024;
/// The most new tokens that a request may name; the context is smaller.
const MAX_TOKENS_MAX: u32 = 1 << 24;
/// What constrains an answer and cannot be had here.
const CONSTRAINTS: [&str; 9] = [
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "json_schema",
    "regex",
    "ebnf",
    "structural_tag",
];

/// What a reader needs to know to check numbers.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'a> {
    pub(super) config: &'a ModelServerConfig,
    pub(super) vocabulary: u32,
}

/// Reads all of [`Sampling`] but its log-probabilities, whose form differs between routes.
pub(super) fn openai(fields: &mut Fields, bounds: Bounds<'_>, max_tokens_least: u32) -> Result<Sampling, Refused> {
    let limit = fields.count("max_tokens", max_tokens_least..=MAX_TOKENS_MAX)?;
    let completion = fields.count("max_completion_tokens", max_tokens_least..=MAX_TOKENS_MAX)?;
    let mut sampling = shared(fields, bounds)?;
    sampling.max_tokens = completion.or(limit);
    sampling.seed = fields.whole("seed", i64::MIN..=i64::MAX)?.map(i64::cast_unsigned);
    sampling.keep_stop = fields.flag("include_stop_str_in_output")?.unwrap_or(false);
    response_format(fields)?;
    fields.not_offered("use_beam_search", "leave it out and set `temperature` to 0")?;
    fields.not_offered(
        "prompt_logprobs",
        "ask /v1/completions with `echo` and `logprobs`, or /generate with `logprob_start_len`",
    )?;
    check_lengths(fields, sampling)
}

/// Reads SGLang's `sampling_params`, and its `n`.
pub(super) fn sglang(fields: &mut Fields, bounds: Bounds<'_>, default: u32) -> Result<(Sampling, u32), Refused> {
    let limit = fields.count("max_new_tokens", 0..=MAX_TOKENS_MAX)?;
    let mut sampling = shared(fields, bounds)?;
    sampling.max_tokens = Some(limit.unwrap_or(default));
    sampling.min_tokens = fields.count("min_new_tokens", 0..=MAX_TOKENS_MAX)?.unwrap_or(0);
    sampling.seed = fields.whole("sampling_seed", i64::MIN..=i64::MAX)?.map(i64::cast_unsigned);
    sampling.keep_stop = fields.flag("no_stop_trim")?.unwrap_or(false);
    fields.not_offered("stop_regex", "use `stop`, whose strings are taken as they are")?;
    let choices_max = u32::try_from(bounds.config.choices_max).unwrap_or(u32::MAX);
    let n = fields.count("n", 1..=choices_max)?.unwrap_or(1);
    Ok((check_lengths(fields, sampling)?, n))
}

/// The seed of one of several choices: the first has the request's own, the others are spread by SplitMix64's finaliser
/// (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
pub(super) fn seed_of(seed: u64, choice: u32) -> u64 {
    if choice == 0 {
        return seed;
    }
    let mut mixed = seed.wrapping_add(u64::from(choice).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn shared(fields: &mut Fields, bounds: Bounds<'_>) -> Result<Sampling, Refused> {
    for name in CONSTRAINTS {
        fields
            .not_offered(name, "answers cannot be constrained; ask for the form in the prompt and check the answer")?;
    }
    // -1 and 0 are how servers write "all".
    let top_k = fields.whole("top_k", -1..=i64::from(u32::MAX))?;
    Ok(Sampling {
        min_tokens: fields.count("min_tokens", 0..=MAX_TOKENS_MAX)?.unwrap_or(0),
        temperature: fields.number("temperature", 0.0..=TEMPERATURE_MAX)?,
        top_p: fields.positive("top_p", 1.0)?,
        top_k: top_k.map(|k| u32::try_from(k).unwrap_or(0)),
        min_p: fields.number("min_p", 0.0..=1.0)?,
        repetition_penalty: fields.positive("repetition_penalty", PENALTY_MAX)?,
        presence_penalty: fields.number("presence_penalty", -PENALTY_MAX..=PENALTY_MAX)?.unwrap_or(0.0),
        frequency_penalty: fields.number("frequency_penalty", -PENALTY_MAX..=PENALTY_MAX)?.unwrap_or(0.0),
        logit_bias: logit_bias(fields, bounds)?,
        stop: stop(fields, bounds.config.stop_max)?,
        stop_token_ids: stop_ids(fields, bounds)?,
        ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
        show_special_tokens: !fields.flag("skip_special_tokens")?.unwrap_or(true),
        ..Sampling::default()
    })
}

fn check_lengths(fields: &Fields, sampling: Sampling) -> Result<Sampling, Refused> {
    match sampling.max_tokens {
        Some(most) if sampling.min_tokens > most => {
            let path = fields.path("min_tokens");
            let detail =
                format!("`{path}` must be at most the limit of new tokens, {most}, got {}", sampling.min_tokens);
            Err(Refused::asked(path, detail))
        }
        _ => Ok(sampling),
    }
}

/// One string, or a list of them.
fn stop(fields: &mut Fields, most: usize) -> Result<Vec<String>, Refused> {
    let path = fields.path("stop");
    let list = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(text @ Value::String(_)) => vec![text],
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong(&path, "a string or a list of strings", &other)),
    };
    at_most(&path, list.len(), most)?;
    let one = |(place, value): (usize, Value)| match value {
        Value::String(text) if !text.is_empty() && text.len() <= STOP_MAX_BYTES => Ok(text),
        other => Err(wrong(&format!("{path}[{place}]"), &format!("a string of 1 to {STOP_MAX_BYTES} bytes"), &other)),
    };
    list.into_iter().enumerate().map(one).collect()
}

fn stop_ids(fields: &mut Fields, bounds: Bounds<'_>) -> Result<Vec<u32>, Refused> {
    let path = fields.path("stop_token_ids");
    let list = fields.list("stop_token_ids", bounds.config.stop_max)?.unwrap_or_default();
    ids(&path, &list, bounds.vocabulary)
}

/// An object from token ids, as texts, to numbers.
fn logit_bias(fields: &mut Fields, bounds: Bounds<'_>) -> Result<BTreeMap<u32, f32>, Refused> {
    let path = fields.path("logit_bias");
    let object = fields.object("logit_bias")?.unwrap_or_default();
    at_most(&path, object.len(), bounds.config.logit_bias_max)?;
    let one = |(name, value): (&String, &Value)| {
        let id = name.parse().ok().filter(|id| *id < bounds.vocabulary).ok_or_else(|| {
            let (vocabulary, got) = (bounds.vocabulary, shown(&Value::String(name.clone())));
            Refused::asked(&path, format!("`{path}` must have token ids below {vocabulary} as its names, got {got}"))
        })?;
        match value.as_f64().map(|bias| bias as f32).filter(|bias| bias.abs() <= BIAS_MAX) {
            Some(bias) => Ok((id, bias)),
            None => Err(wrong(&format!("{path}.{id}"), &format!("a number from -{BIAS_MAX} to {BIAS_MAX}"), value)),
        }
    };
    object.iter().map(one).collect()
}

fn response_format(fields: &mut Fields) -> Result<(), Refused> {
    let path = fields.path("response_format");
    let Some(format) = fields.object("response_format")? else { return Ok(()) };
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(()),
        Some(kind @ ("json_object" | "json_schema")) => {
            let detail = format!(
                "`{path}` of type {kind} is not offered here, answers cannot be constrained: ask for JSON in the prompt and check the \
                 answer, or leave it out"
            );
            Err(Refused::Unsupported { param: Some(path), detail })
        }
        _ => Err(wrong(&format!("{path}.type"), "\"text\"", format.get("type").unwrap_or(&Value::Null))),
    }
}

/// A limit of the likeliest tokens told, 0 to the server's most.
pub(super) fn likeliest(path: &str, value: &Value, most: u32) -> Result<u32, Refused> {
    let number = whole(value).and_then(|number| u32::try_from(number).ok()).filter(|number| *number <= most);
    number.ok_or_else(|| wrong(path, &format!("a whole number from 0 to {most}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Result<Sampling, Refused> {
        let config = ModelServerConfig { stop_max: 2, ..ModelServerConfig::default() };
        openai(&mut Fields::of_body(body).unwrap(), Bounds { config: &config, vocabulary: 100 }, 1)
    }

    #[test]
    fn extras_of_other_servers_are_read() {
        let sampling =
            read(json!({"max_completion_tokens": 5, "max_tokens": 9, "temperature": 0, "top_k": -1, "min_p": 0.1,
            "repetition_penalty": 1.1, "stop": "x", "stop_token_ids": [7], "ignore_eos": true, "seed": -1,
            "logit_bias": {"3": -100, "1": 2.5}, "response_format": {"type": "text"}, "skip_special_tokens": false}))
            .unwrap();
        assert_eq!((sampling.max_tokens, sampling.temperature, sampling.top_k), (Some(5), Some(0.0), Some(0)));
        assert_eq!((sampling.min_p, sampling.repetition_penalty), (Some(0.1), Some(1.1)));
        assert_eq!((sampling.stop, sampling.stop_token_ids, sampling.ignore_eos), (vec!["x".into()], vec![7], true));
        assert_eq!(sampling.logit_bias, BTreeMap::from([(1, 2.5), (3, -100.0)]));
        assert_eq!((sampling.seed, sampling.show_special_tokens), (Some(u64::MAX), true));
        let nothing = read(json!({})).unwrap();
        assert_eq!(nothing, Sampling::default(), "what is not said is left to the model");
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        for (body, said) in [
            (json!({"temperature": 2.1}), "`temperature` must be a number from 0 to 2, got 2.1"),
            (json!({"temperature": "hot"}), "got \"hot\""),
            (json!({"top_p": 0}), "`top_p` must be a number above 0 and at most 1, got 0"),
            (json!({"top_k": -2}), "`top_k`"),
            (json!({"max_tokens": 0}), "`max_tokens` must be a whole number from 1 to"),
            (json!({"max_tokens": 1e300}), "`max_tokens`"),
            (json!({"stop": ["a", "b", "c"]}), "`stop` may have at most 2 entries, got 3"),
            (json!({"stop": [""]}), "`stop[0]` must be a string of 1 to 1024 bytes, got \"\""),
            (json!({"stop": 3}), "`stop` must be a string or a list of strings, got 3"),
            (json!({"stop_token_ids": [100]}), "`stop_token_ids[0]` must be a token id below 100"),
            (json!({"logit_bias": {"x": 1}}), "token ids below 100 as its names, got \"x\""),
            (json!({"logit_bias": {"1": 101}}), "`logit_bias.1` must be a number from -100 to 100, got 101"),
            (json!({"presence_penalty": -3}), "`presence_penalty`"),
            (
                json!({"min_tokens": 5, "max_tokens": 4}),
                "`min_tokens` must be at most the limit of new tokens, 4, got 5",
            ),
            (json!({"response_format": {"type": "json_object"}}), "json_object is not offered"),
            (json!({"response_format": {}}), "`response_format.type` must be \"text\""),
            (json!({"guided_json": {}}), "`guided_json` is not offered here"),
        ] {
            let told = read(body.clone()).unwrap_err().to_string();
            assert!(told.contains(said), "{body}: {told}");
        }
    }

    #[test]
    fn choices_draw_with_seeds_of_their_own() {
        let seeds: std::collections::BTreeSet<u64> = (0..128).map(|choice| seed_of(7, choice)).collect();
        assert_eq!((seeds.len(), seed_of(7, 0)), (128, 7));
        assert_ne!(seed_of(7, 1), seed_of(8, 1));
    }
}
