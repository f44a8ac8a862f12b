//! A chat template in Jinja, rendered as transformers renders it: the same options, Python's methods and Python's JSON.
//! What a template may do is bounded by fuel, which it pays for steps and for text; the clock is an argument.
//! It refuses to know token ids.

mod folder;
mod generation;
mod house;
mod python;
mod python_text;
mod time;

pub use folder::Templates;
pub use house::House;

use crate::conversation::Conversation;
use crate::error::ModelError;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, ErrorKind};
use std::sync::Arc;

/// The longest source, in bytes.
const SOURCE_MAX_BYTES: usize = 1024 * 1024;
/// What a rendering may cost: about a step, or 64 bytes of a text that is made on the way, each. The longest conversation that
/// is accepted costs a third of it, and a text of 10 MB a quarter; a hostile template makes 256 MB at most.
const FUEL: u64 = 4_000_000;
/// How deep templates may call themselves.
const DEPTH_MAX: usize = 100;

/// A chat template. A clone shares everything.
#[derive(Clone)]
pub struct Template {
    name: Arc<str>,
    source: Arc<str>,
    environment: Arc<Environment<'static>>,
}

/// What a template is told beside the messages.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// Open the next assistant message.
    pub add_generation_prompt: bool,
    /// `enable_thinking`; a template sees it only if it is said.
    pub enable_thinking: Option<bool>,
    /// `clear_thinking`; likewise.
    pub clear_thinking: Option<bool>,
    /// Tools as JSON, in the order of their keys.
    pub tools: Option<serde_json::Value>,
    /// Whatever else the template asks for. A name above wins over one here.
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// `bos_token`, `eos_token` and the like, from [`crate::SpecialTokens::names`].
    pub tokens: Vec<(&'static str, String)>,
    /// What `strftime_now` takes for now, in seconds since 1970, UTC. A template that asks without it is refused.
    pub now_unix_s: Option<i64>,
}

impl Template {
    /// Parses a source.
    ///
    /// # Errors
    /// A source that is too long or no template, with the line.
    pub fn parse(name: &str, source: &str) -> Result<Self, ModelError> {
        Self::with_fuel(name, source, FUEL)
    }

    fn with_fuel(name: &str, source: &str, fuel: u64) -> Result<Self, ModelError> {
        if source.len() > SOURCE_MAX_BYTES {
            let detail = format!("expected at most {SOURCE_MAX_BYTES} bytes, got {}", source.len());
            return Err(ModelError::Template { name: name.to_owned(), line: 0, detail });
        }
        let mut environment = python::environment();
        environment.set_fuel(Some(fuel));
        environment.set_recursion_limit(DEPTH_MAX);
        environment
            .add_template_owned(SOURCE, generation::without_tags(source))
            .map_err(|error| wrong(name, &error))?;
        Ok(Self { name: name.into(), source: source.into(), environment: Arc::new(environment) })
    }

    /// What it is called in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a conversation.
    ///
    /// # Errors
    /// A template that fails on the conversation or refuses it (`raise_exception`), with the line.
    pub fn render(&self, conversation: &Conversation, options: &RenderOptions) -> Result<String, ModelError> {
        let wrong = |error: minijinja::Error| wrong(&self.name, &error);
        let template = self.environment.get_template(SOURCE).map_err(wrong)?;
        template.render(context(conversation, options)).map_err(wrong)
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Template").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The one template of an environment.
const SOURCE: &str = "chat_template";

fn context(conversation: &Conversation, options: &RenderOptions) -> Value {
    let mut names: Vec<(String, Value)> =
        options.extra.iter().map(|(name, value)| (name.clone(), Value::from(Serde(value)))).collect();
    let mut say = |name: &str, value: Value| names.push((name.to_owned(), value));
    options.tokens.iter().for_each(|(name, token)| say(name, Value::from(token.as_str())));
    for (name, flag) in [("enable_thinking", options.enable_thinking), ("clear_thinking", options.clear_thinking)] {
        if let Some(flag) = flag {
            say(name, Value::from(flag));
        }
    }
    say("messages", Value::from(Serde(conversation.to_json())));
    say("tools", json_or_none(options.tools.as_ref()));
    say("documents", json_or_none(options.extra.get("documents")));
    say("add_generation_prompt", Value::from(options.add_generation_prompt));
    say(python::NOW, options.now_unix_s.map_or(Value::UNDEFINED, Value::from));
    Value::from_pairs(names)
}

fn json_or_none(value: Option<&serde_json::Value>) -> Value {
    value.map_or(Value::from(()), |value| Value::from(Serde(value)))
}

fn wrong(name: &str, error: &minijinja::Error) -> ModelError {
    let mut detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    if error.kind() == ErrorKind::OutOfFuel {
        detail =
            "the rendering took more steps than it may; give a shorter conversation or a plainer template".to_owned();
    }
    // An error that was raised further in says more than the line that was being rendered.
    let inner = std::iter::successors(std::error::Error::source(error), |error| error.source()).last();
    if let Some(inner) = inner {
        detail = format!("{detail}: {inner}");
    }
    ModelError::Template { name: name.to_owned(), line: error.line().unwrap_or(0), detail }
}

#[cfg(test)]
mod tests;
