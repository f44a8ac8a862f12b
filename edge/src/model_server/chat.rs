//! `POST /v1/chat/completions`: reads the body into what a model is asked. Its answer is written next door.

pub(super) mod answer;
mod messages;

use super::config::Reasoning;
use super::fields::{Fields, wrong};
use super::model::{ChatAsk, ModelCard};
use super::refused::Refused;
use super::sampling::{Bounds, likeliest, openai, seed_of};
use answer::Style;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Fields that change nothing here; others that are left alone are logged by name.
pub(super) const HARMLESS: &[&str] = &[
    "user",
    "store",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prediction",
    "verbosity",
    "priority",
    "add_special_tokens",
    "spaces_between_special_tokens",
];

/// A request as read.
pub(super) struct ChatRequest {
    /// One for each choice.
    pub(super) asks: Vec<ChatAsk>,
    pub(super) style: Style,
    pub(super) streams: bool,
}

/// Reads a body. `rid` is the request's id where it gives none.
pub(super) fn read(mut fields: Fields, bounds: Bounds<'_>, rid: &str) -> Result<ChatRequest, Refused> {
    let config = bounds.config;
    let mut sampling = openai(&mut fields, bounds, 1)?;
    let choices_max = u32::try_from(config.choices_max).unwrap_or(u32::MAX);
    let n = fields.count("n", 1..=choices_max)?.unwrap_or(1);
    let wants_logprobs = fields.flag("logprobs")?.unwrap_or(false);
    let top =
        fields.take("top_logprobs").map(|top| likeliest("top_logprobs", &top, config.logprobs_max)).transpose()?;
    if let (false, Some(1..)) = (wants_logprobs, top) {
        return Err(Refused::asked(
            "top_logprobs",
            "`top_logprobs` needs `logprobs` to be true: set it, or leave both out",
        ));
    }
    sampling.logprobs = wants_logprobs.then(|| top.unwrap_or(0));
    let (tools, offers_tools) = tools(&mut fields, config.tools_max)?;
    let template = template(&mut fields)?;
    let continue_final = continue_final(&mut fields)?;
    let is_split = fields.flag("separate_reasoning")?.unwrap_or(config.reasoning == Reasoning::Split);
    let (streams, include_usage) = streaming(&mut fields)?;
    let style = Style {
        streams,
        include_usage,
        logprobs: wants_logprobs,
        token_ids: fields.flag("return_token_ids")?.unwrap_or(false),
        tools: offers_tools,
        one_call: fields.flag("parallel_tool_calls")? == Some(false),
        is_split,
        stop_ids: sampling.stop_token_ids.clone(),
    };
    not_offered(&mut fields)?;
    let rid = super::body::rid(&mut fields)?.unwrap_or_else(|| rid.to_owned());
    let messages = messages::read(&mut fields, config.messages_max)?;
    fields.ignore_rest(HARMLESS);
    let ask = ChatAsk { messages, tools, template, continue_final, sampling, rid };
    let asks = (0..n).map(|choice| {
        let mut ask = ask.clone();
        ask.sampling.seed = ask.sampling.seed.map(|seed| seed_of(seed, choice));
        ask
    });
    Ok(ChatRequest { asks: asks.collect(), style, streams })
}

/// A conversation that is not to be answered, for `/tokenize`.
pub(super) fn read_conversation(fields: &mut Fields, bounds: Bounds<'_>, rid: &str) -> Result<ChatAsk, Refused> {
    let (tools, _) = tools(fields, bounds.config.tools_max)?;
    let (template, continue_final) = (template(fields)?, continue_final(fields)?);
    let messages = messages::read(fields, bounds.config.messages_max)?;
    Ok(ChatAsk { messages, tools, template, continue_final, sampling: Default::default(), rid: rid.to_owned() })
}

/// `stream`, and whether the usage comes at its end.
pub(super) fn streaming(fields: &mut Fields) -> Result<(bool, bool), Refused> {
    let streams = fields.flag("stream")?.unwrap_or(false);
    let Some(options) = fields.take("stream_options") else { return Ok((streams, false)) };
    let mut options = Fields::of("stream_options", options)?;
    let include_usage = options.flag("include_usage")?.unwrap_or(false);
    options.ignore_rest(&["include_obfuscation", "continuous_usage_stats"]);
    Ok((streams, streams && include_usage))
}

/// Whether a body names a model that is served, and which; none where it names none.
pub(super) fn model_name(fields: &mut Fields) -> Result<Option<String>, Refused> {
    Ok(fields.text("model")?.filter(|name| !name.is_empty()))
}

/// The refusal of a name that no model has.
pub(super) fn no_model(name: &str, cards: &[ModelCard]) -> Refused {
    let served: Vec<&str> = cards.iter().map(|card| card.id.as_str()).collect();
    Refused::NoModel { name: name.chars().take(200).collect(), served: served.join(", ") }
}

/// Tools for the template, and whether calls are to be looked for in the answer.
fn tools(fields: &mut Fields, most: usize) -> Result<(Option<Arc<Value>>, bool), Refused> {
    let list = fields.list("tools", most)?.unwrap_or_default();
    for (place, tool) in list.iter().enumerate() {
        let path = format!("tools[{place}]");
        match tool.get("type").and_then(Value::as_str) {
            Some("function") => {}
            _ => return Err(wrong(&format!("{path}.type"), "\"function\"", tool.get("type").unwrap_or(&Value::Null))),
        }
        let name = tool.get("function").and_then(|function| function.get("name")).unwrap_or(&Value::Null);
        if name.as_str().is_none_or(str::is_empty) {
            return Err(wrong(&format!("{path}.function.name"), "a function's name", name));
        }
    }
    let is_offered = match fields.take("tool_choice") {
        None => true,
        Some(Value::String(choice)) if choice == "auto" => true,
        Some(Value::String(choice)) if choice == "none" => false,
        Some(Value::String(choice)) if choice == "required" => return Err(forced("\"required\"")),
        Some(Value::Object(_)) => return Err(forced("of one function")),
        Some(other) => return Err(wrong("tool_choice", "\"auto\" or \"none\"", &other)),
    };
    if list.is_empty() || !is_offered {
        return Ok((None, false));
    }
    Ok((Some(Arc::new(Value::Array(list))), true))
}

fn forced(what: &str) -> Refused {
    let detail = format!(
        "`tool_choice` {what} is not offered here, a call cannot be forced: use \"auto\" and say in the prompt which tool is to be called"
    );
    Refused::Unsupported { param: Some("tool_choice".to_owned()), detail }
}

fn template(fields: &mut Fields) -> Result<Map<String, Value>, Refused> {
    let mut template = fields.object("chat_template_kwargs")?.unwrap_or_default();
    if let Some(enable) = fields.flag("enable_thinking")? {
        template.insert("enable_thinking".to_owned(), Value::Bool(enable));
    }
    if let Some(effort) = fields.text("reasoning_effort")? {
        template.entry("reasoning_effort").or_insert(Value::String(effort));
    }
    fields.not_offered(
        "chat_template",
        "the model's own template is used; give `chat_template_kwargs` for its settings",
    )?;
    fields.not_offered("documents", "put them into a message")?;
    Ok(template)
}

fn continue_final(fields: &mut Fields) -> Result<bool, Refused> {
    let continues = fields.flag("continue_final_message")?.unwrap_or(false);
    match (continues, fields.flag("add_generation_prompt")?) {
        (true, Some(true)) => Err(Refused::asked(
            "continue_final_message",
            "`continue_final_message` and `add_generation_prompt` exclude one another: leave one out",
        )),
        (false, Some(false)) => Err(Refused::asked(
            "add_generation_prompt",
            "`add_generation_prompt` may be false only with `continue_final_message`: an answer needs its beginning",
        )),
        (continues, _) => Ok(continues),
    }
}

fn not_offered(fields: &mut Fields) -> Result<(), Refused> {
    fields.not_offered("functions", "use `tools`")?;
    fields.not_offered("function_call", "use `tools` and `tool_choice`")?;
    fields.not_offered("audio", "answers are text")?;
    fields.not_offered("web_search_options", "offer a search tool in `tools`")?;
    fields.not_offered("moderation", "answers are not moderated")?;
    match fields.take("modalities") {
        None => Ok(()),
        Some(Value::Array(list)) if list.iter().all(|kind| kind == "text") => Ok(()),
        Some(other) => Err(wrong("modalities", "[\"text\"]", &other)),
    }
}

#[cfg(test)]
mod tests;
