//! Whatever JSON comes, every reader reads it or refuses it by name, and what it reads keeps the limits.

use super::config::ModelServerConfig;
use super::fields::Fields;
use super::model::{ModelCard, Prompt, Sampling};
use super::refused::Refused;
use super::sampling::Bounds;
use super::{chat, completions, embeddings, generate};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const VOCABULARY: u32 = 50;
const CHOICES_MAX: usize = 4;

/// Values that a field may have or nearly have.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-2i64..60).prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!(number)),
        any::<u64>().prop_map(|number| json!(number)),
        (-3.0f64..3.0).prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,6}".prop_map(Value::String),
        prop::sample::select(vec!["user", "tool", "text", "function", "auto", "base64", "float", "7"])
            .prop_map(|word| json!(word)),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((any_name(), inner), 0..5).prop_map(object),
        ]
    })
}

fn any_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "messages",
        "role",
        "content",
        "type",
        "text",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "tools",
        "tool_choice",
        "prompt",
        "input",
        "input_ids",
        "sampling_params",
        "max_new_tokens",
        "rid",
        "n",
        "best_of",
        "stream",
        "stream_options",
        "include_usage",
        "max_tokens",
        "min_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop",
        "stop_token_ids",
        "seed",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "return_logprob",
        "logprob_start_len",
        "top_logprobs_num",
        "echo",
        "dimensions",
        "7",
        "encoding_format",
        "chat_template_kwargs",
        "enable_thinking",
        "response_format",
        "continue_final_message",
    ])
}

fn object(fields: Vec<(&'static str, Value)>) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// A right request over which some fields are laid.
fn any_body() -> impl Strategy<Value = Value> {
    (any::<bool>(), prop::collection::vec((any_name(), any_value()), 0..5)).prop_map(|(right, fields)| {
        let mut body = match right {
            true => json!({"messages": [{"role": "user", "content": "a"}], "prompt": "a", "input": "a", "text": "a"}),
            false => json!({}),
        };
        for (name, value) in fields {
            body[name] = value;
        }
        body
    })
}

fn keeps_limits(sampling: &Sampling) -> bool {
    let ids_fit = sampling.stop_token_ids.iter().chain(sampling.logit_bias.keys()).all(|id| *id < VOCABULARY);
    let lists_fit = sampling.stop.len() <= 16 && sampling.stop_token_ids.len() <= 16;
    let numbers = [sampling.temperature, sampling.top_p, sampling.min_p, sampling.repetition_penalty];
    let are_finite = numbers.into_iter().flatten().chain(sampling.logit_bias.values().copied()).all(f32::is_finite);
    ids_fit && lists_fit && are_finite && sampling.logprobs.is_none_or(|top| top <= 20)
}

fn is_right(prompt: &Prompt) -> bool {
    match prompt {
        Prompt::Text(text) => !text.is_empty(),
        Prompt::Ids(ids) => !ids.is_empty() && ids.iter().all(|id| *id < VOCABULARY),
    }
}

/// What was read, or none where it was refused in words.
fn read<T>(outcome: Result<T, Refused>) -> Option<T> {
    outcome.map_err(|refused| assert!(refused.status().as_u16() == 400 && refused.to_string().len() > 10)).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_reader_reads_or_refuses_by_name_and_keeps_the_limits(body in any_body()) {
        let config = ModelServerConfig { choices_max: CHOICES_MAX, inputs_max: CHOICES_MAX, ..ModelServerConfig::default() };
        let bounds = Bounds { config: &config, vocabulary: VOCABULARY };
        let card = ModelCard { embedding_dimensions: Some(3), vocabulary: VOCABULARY, ..ModelCard::default() };
        let fields = || Fields::of_body(body.clone()).unwrap();
        if let Some(asked) = read(chat::read(fields(), bounds, "r")) {
            prop_assert!((1..=CHOICES_MAX).contains(&asked.asks.len()));
            prop_assert!(asked.asks.iter().all(|ask| keeps_limits(&ask.sampling) && !ask.messages.is_empty()));
        }
        if let Some(asked) = read(completions::read(fields(), bounds, "r")) {
            prop_assert!((1..=CHOICES_MAX).contains(&asked.asks.len()));
            prop_assert!(asked.asks.iter().all(|ask| keeps_limits(&ask.sampling) && is_right(&ask.prompt)));
        }
        if let Some(asked) = read(generate::read(fields(), bounds, "r")) {
            prop_assert!((1..=CHOICES_MAX).contains(&asked.asks.len()) && asked.asks.len() == asked.items.len());
            prop_assert!(asked.asks.iter().all(|ask| keeps_limits(&ask.sampling) && is_right(&ask.prompt)));
        }
        if let Some(asked) = read(embeddings::read(fields(), bounds, &card)) {
            prop_assert!((1..=CHOICES_MAX).contains(&asked.prompts.len()) && asked.prompts.iter().all(is_right));
        }
    }
}
