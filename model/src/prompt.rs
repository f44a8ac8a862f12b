//! A conversation as token ids by a chat template, such that whatever messages say, the only control ids are those that
//! the template itself wrote. For conversations that spell none out, the ids are those of transformers'
//! `apply_chat_template`. It refuses to cut a conversation to length.

mod aliases;
mod foreign;

use crate::conversation::{Conversation, Message};
use crate::error::ModelError;
use crate::special::SpecialTokens;
use crate::template::{RenderOptions, Template};
use crate::tokenizer::Tokenizer;
use aliases::{Aliases, Alphabet};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Compiled variants of a template that are kept. All but hostile conversations need one.
const VARIANTS_MAX: usize = 4;

/// A template bound to a tokenizer.
///
/// In the template's source each control token is replaced by one private-use character that no string of the conversation
/// holds; so in the rendering such a character is the template's, and a control token's text is somebody else's. What
/// templates do with contents (`split`, `startswith`, `in`) they do with the real ones. Three limits:
///
/// - Markers that are no control tokens (Qwen3's `<think>`, `<tool_call>`) become their ids wherever they stand, as in
///   transformers: the string rules of templates need them. A tokenizer that calls these six control tokens is treated alike.
/// - A template that puts control tokens together from parts (`'<|' + role + '|>'`) cannot be told apart from its messages.
///   This is found when it is bound, with made-up messages; then a conversation that spells a control token out, or
///   begins or ends a text with a piece of one, is refused instead ([`ModelError::ControlToken`]).
/// - A template that computes with its control tokens' text (its length, say) computes with one character.
#[derive(Clone)]
pub struct PromptTemplate {
    shared: Arc<Shared>,
}

struct Shared {
    template: Template,
    tokenizer: Tokenizer,
    tokens: Vec<(&'static str, String)>,
    aliases: Aliases,
    /// The template writes every control token whole.
    whole: bool,
    variants: Mutex<BTreeMap<Alphabet, Template>>,
}

impl PromptTemplate {
    /// Binds a template to a tokenizer; `special` says what the template finds under `bos_token` and the like.
    ///
    /// # Errors
    /// A template that does not parse once its control tokens are replaced.
    pub fn new(template: Template, tokenizer: Tokenizer, special: &SpecialTokens) -> Result<Self, ModelError> {
        let aliases = Aliases::of(tokenizer.added());
        let tokens = special.names(&tokenizer);
        let mut shared = Shared { template, tokenizer, tokens, aliases, whole: true, variants: Mutex::default() };
        shared.whole = shared.writes_whole_tokens()?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The template.
    pub fn template(&self) -> &Template {
        &self.shared.template
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.shared.tokenizer
    }

    /// Whether messages may spell control tokens out: if not, such a conversation is refused.
    pub fn tells_apart(&self) -> bool {
        self.shared.whole
    }

    /// The ids of a conversation.
    ///
    /// # Errors
    /// A template that refuses the conversation; a text that the tokenizer refuses; control tokens in messages where the
    /// template cannot tell them from its own.
    pub fn encode(&self, conversation: &Conversation, options: &RenderOptions) -> Result<Vec<u32>, ModelError> {
        let shared = &self.shared;
        if shared.whole {
            return shared.by_aliases(conversation, options);
        }
        foreign::refuse_spelled(conversation, options, shared.aliases.tokens())?;
        shared.as_rendered(conversation, options)
    }

    /// The text of a conversation, with the special tokens' names given.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn render(&self, conversation: &Conversation, options: &RenderOptions) -> Result<String, ModelError> {
        self.shared.template.render(conversation, &self.shared.told(options, |token| token.to_owned()))
    }
}

impl Shared {
    /// Options with the names of special tokens, unless the caller named some.
    fn told(&self, options: &RenderOptions, write: impl Fn(&str) -> String) -> RenderOptions {
        let tokens = if options.tokens.is_empty() { &self.tokens } else { &options.tokens };
        RenderOptions { tokens: tokens.iter().map(|(name, token)| (*name, write(token))).collect(), ..options.clone() }
    }

    fn as_rendered(&self, conversation: &Conversation, options: &RenderOptions) -> Result<Vec<u32>, ModelError> {
        let text = self.template.render(conversation, &self.told(options, |token| token.to_owned()))?;
        self.tokenizer.encode_rendered(&text)
    }

    fn by_aliases(&self, conversation: &Conversation, options: &RenderOptions) -> Result<Vec<u32>, ModelError> {
        let mut used = foreign::private_characters(conversation, options);
        used.extend(foreign::private_in(self.template.source()));
        let alphabet = self.aliases.alphabet(&used).ok_or_else(|| ModelError::ControlToken {
            role: "conversation's".to_owned(),
            token: "every private-use character".to_owned(),
        })?;
        let template = self.variant(alphabet)?;
        let text = template.render(conversation, &self.told(options, |token| self.aliases.write(token, alphabet)))?;
        self.tokenizer.encode_pieces(&self.aliases.pieces(&text, alphabet))
    }

    /// The template with its control tokens in an alphabet.
    fn variant(&self, alphabet: Alphabet) -> Result<Template, ModelError> {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(template) = variants.get(&alphabet) {
            return Ok(template.clone());
        }
        let template = Template::parse(self.template.name(), &self.aliases.write(self.template.source(), alphabet))?;
        if variants.len() >= VARIANTS_MAX {
            // The first alphabet is the ordinary one.
            variants.pop_last();
        }
        variants.insert(alphabet, template.clone());
        Ok(template)
    }

    /// Whether made-up conversations, which spell nothing out, become the same ids either way. Conversations that the
    /// template refuses say nothing; if it refuses all of them it is not trusted to tell.
    fn writes_whole_tokens(&self) -> Result<bool, ModelError> {
        self.variant(Alphabet::default())?;
        let mut asked = false;
        for (messages, tools) in made_up() {
            let conversation = Conversation::new(messages)?;
            for add_generation_prompt in [true, false] {
                let now_unix_s = Some(0);
                let options = RenderOptions {
                    add_generation_prompt,
                    tools: tools.clone(),
                    now_unix_s,
                    ..RenderOptions::default()
                };
                let Ok(plain) = self.as_rendered(&conversation, &options) else { continue };
                asked = true;
                if self.by_aliases(&conversation, &options).ok() != Some(plain) {
                    return Ok(false);
                }
            }
        }
        Ok(asked)
    }
}

impl std::fmt::Debug for PromptTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shared = &self.shared;
        let mut shown = f.debug_struct("PromptTemplate");
        shown.field("template", &shared.template.name()).field("tokenizer", &shared.tokenizer.name());
        shown.field("tells_apart", &shared.whole).finish_non_exhaustive()
    }
}

/// Conversations in which every part of a template speaks, from the richest down to the plainest.
fn made_up() -> Vec<(Vec<Message>, Option<serde_json::Value>)> {
    let (system, user) = (Message::new("system", "Be brief."), Message::new("user", "One?"));
    let (answer, tool) = (Message::new("assistant", "Two."), Message::new("tool", "Three."));
    let parameters = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    let function = json!({"name": "search", "description": "Searches.", "parameters": parameters});
    let call =
        json!([{"id": "call00001", "type": "function", "function": {"name": "search", "arguments": {"query": "x"}}}]);
    let calls = Message::new("assistant", "").with("tool_calls", call);
    let tools = Some(json!([{"type": "function", "function": function}]));
    let thinks = Message::new("assistant", "Four.").with("reasoning_content", json!("Five."));
    let long =
        vec![user.clone(), answer.clone(), user.clone(), calls, tool.with("tool_call_id", json!("call00001")), thinks];
    let with_system = |messages: &[Message]| [std::slice::from_ref(&system), messages].concat();
    let short = vec![user.clone(), answer.clone(), user.clone()];
    vec![
        (with_system(&long), tools.clone()),
        (long, tools),
        (with_system(&short), None),
        (short, None),
        (vec![user.clone(), answer], None),
        (vec![user], None),
    ]
}

#[cfg(test)]
mod tests;
