//! What stands behind the server: a model that speaks, embeds, or both. These are the words in which it is asked and in
//! which it answers; the server refuses to know how anything is computed.

use super::refused::Refused;
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use legwork_protocol::generation::Usage;
use legwork_protocol::message::Message;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A model that answers.
///
/// Every future and every [`Speaking`] may be dropped at any time: nobody waits for it any more, and what it held must
/// return. They are polled on the runtime within which the server was bound, so whatever computes belongs on a thread
/// of its own.
pub trait TextModel: Send + Sync {
    /// Who this is; the same each time.
    fn card(&self) -> ModelCard;

    /// Continues a conversation.
    ///
    /// # Errors
    /// A refusal where this cannot be answered, best before the model is occupied: once it speaks, the status is sent.
    fn chat(&self, ask: ChatAsk) -> BoxFuture<'_, Result<Speaking, Refused>>;

    /// Continues a text or token ids.
    ///
    /// # Errors
    /// As [`TextModel::chat`].
    fn complete(&self, ask: TextAsk) -> BoxFuture<'_, Result<Speaking, Refused>>;

    /// One vector a prompt, in the prompts' order, each of [`ModelCard::embedding_dimensions`] numbers.
    ///
    /// # Errors
    /// A refusal; all or nothing.
    fn embed(&self, prompts: Vec<Prompt>) -> BoxFuture<'_, Result<Embedded, Refused>> {
        let _ = prompts;
        Box::pin(ready(Err(Refused::unsupported("this model does not embed: ask another one of /v1/models"))))
    }

    /// The ids of a text, or of a conversation as [`TextModel::chat`] would read it.
    ///
    /// # Errors
    /// A refusal, as for a model that does not offer it.
    fn tokenize(&self, what: Tokenizable) -> BoxFuture<'_, Result<Vec<u32>, Refused>> {
        let _ = what;
        Box::pin(ready(Err(Refused::unsupported("this model does not offer its tokenizer: tokenize on your side"))))
    }

    /// The text of ids, control tokens included.
    ///
    /// # Errors
    /// As [`TextModel::tokenize`].
    fn detokenize(&self, ids: Vec<u32>) -> BoxFuture<'_, Result<String, Refused>> {
        let _ = ids;
        Box::pin(ready(Err(Refused::unsupported("this model does not offer its tokenizer: detokenize on your side"))))
    }

    /// Whether it can answer now; `/health` tells what is wrong otherwise.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    /// Numbers for `/metrics`; cheap, since others may ask often.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}

/// Who a model is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelCard {
    /// The name that requests give.
    pub id: String,
    /// Other names that mean this model.
    pub aliases: Vec<String>,
    /// Tokens of prompt and answer together at most.
    pub context_tokens: u32,
    /// Token ids are below this.
    pub vocabulary: u32,
    /// When it was made or loaded, in seconds since 1970.
    pub created_s: u64,
    /// Whose it is.
    pub owned_by: String,
    /// Whether it speaks: chat, completions and `/generate` are for such models.
    pub speaks: bool,
    /// The length of its vectors; none where it does not embed.
    pub embedding_dimensions: Option<usize>,
}

impl ModelCard {
    /// Whether a request that gives `name` means this model.
    pub fn is_called(&self, name: &str) -> bool {
        self.id == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// A conversation to go on with.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatAsk {
    /// The messages, at least one.
    pub messages: Vec<Message>,
    /// The OpenAI `tools` list for the template; none where no tool is offered or `tool_choice` is `none`.
    pub tools: Option<Arc<Value>>,
    /// What the template gets beside messages and tools: `chat_template_kwargs`, `enable_thinking`, …
    pub template: Map<String, Value>,
    /// Whether the last message is to be gone on with instead of answered.
    pub continue_final: bool,
    /// How to draw.
    pub sampling: Sampling,
    /// The request's id, for logs.
    pub rid: String,
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// As text.
    Text(String),
    /// As token ids, all below [`ModelCard::vocabulary`]; they are not to be changed.
    Ids(Vec<u32>),
}

/// A text to go on with.
#[derive(Clone, Debug, PartialEq)]
pub struct TextAsk {
    /// The prompt, not empty.
    pub prompt: Prompt,
    /// How to draw. Here `max_tokens` may be 0 where [`TextAsk::score_from`] is given.
    pub sampling: Sampling,
    /// From which token of the prompt on log-probabilities are wanted: a [`Said::Scored`] comes first.
    pub score_from: Option<usize>,
    /// The request's id, for logs.
    pub rid: String,
}

/// What [`TextModel::tokenize`] reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Tokenizable {
    /// A text, with or without the tokens that the tokenizer adds by itself.
    Text {
        /// The text.
        text: String,
        /// Whether such tokens are added.
        add_special_tokens: bool,
    },
    /// A conversation.
    Chat(Box<ChatAsk>),
}

/// How to draw. None leaves it to the model's own default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// The most new tokens; none for all that the context has room for.
    pub max_tokens: Option<u32>,
    /// Until so many are drawn, nothing ends the answer.
    pub min_tokens: u32,
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// Nucleus mass, above 0 and at most 1.
    pub top_p: Option<f32>,
    /// Only the k likeliest; 0 for all.
    pub top_k: Option<u32>,
    /// Only tokens of at least this share of the likeliest one's probability, 0 to 1.
    pub min_p: Option<f32>,
    /// Divides logits of tokens seen, above 0; 1 changes nothing.
    pub repetition_penalty: Option<f32>,
    /// Taken from the logits of tokens that were drawn.
    pub presence_penalty: f32,
    /// Taken for each time that a token was drawn.
    pub frequency_penalty: f32,
    /// Added to logits by token id.
    pub logit_bias: BTreeMap<u32, f32>,
    /// None for a fresh one each time. Each of several choices has another.
    pub seed: Option<u64>,
    /// Strings that end the text and are cut off.
    pub stop: Vec<String>,
    /// Ids that end the text beside the model's own.
    pub stop_token_ids: Vec<u32>,
    /// Whether the model's own end is drawn like any token.
    pub ignore_eos: bool,
    /// Whether a stop string stays in the text.
    pub keep_stop: bool,
    /// Whether control tokens show in the text.
    pub show_special_tokens: bool,
    /// Log-probabilities of what is drawn, and of so many of the likeliest beside it.
    pub logprobs: Option<u32>,
}

/// A model that speaks. Dropped, it is silent at once.
pub struct Speaking {
    /// The prompt as the model reads it.
    pub prompt_ids: Arc<[u32]>,
    /// Whether the prompt ends within a thought, so that the answer begins inside one (a template that writes `<think>`).
    pub in_thought: bool,
    /// What is said, ended by [`Said::End`] or by a failure.
    pub said: BoxStream<'static, Result<Said, Refused>>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The prompt's tokens from [`TextAsk::score_from`] on, the very first of a prompt without a log-probability.
    Scored(Vec<Spoken>),
    /// Text and tokens that are new. Either may be empty: text lags behind its tokens where it may yet become a stop
    /// string or is half a character.
    Piece {
        /// The text, never to be taken back.
        text: String,
        /// The tokens, the one that ended the answer included.
        tokens: Vec<Spoken>,
    },
    /// The end; nothing comes after it.
    End {
        /// Why.
        finish: Finish,
        /// Tokens.
        usage: Usage,
    },
}

/// A token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spoken {
    /// Its id.
    pub id: u32,
    /// Its text, possibly half a character; may be empty where no log-probabilities were asked for.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability, where asked for.
    pub logprob: Option<f32>,
    /// The likeliest tokens in its place, the likeliest first.
    pub top: Vec<Candidate>,
}

/// What might have been drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability.
    pub logprob: f32,
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// By the model's own end or by something that was to stop it.
    Stop {
        /// What that was.
        matched: Option<Matched>,
    },
    /// The limit of new tokens, or the end of the context.
    Length,
    /// Somebody gave it up.
    Aborted {
        /// Why.
        detail: String,
    },
}

/// What ended an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matched {
    /// A token.
    Token(u32),
    /// A stop string.
    Text(String),
}

/// Vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// One a prompt.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all prompts together.
    pub prompt_tokens: u64,
}

/// One number of `/metrics`, under `legwork_model_<name>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// Its name in snake case, unit last; a counter's ends in `_total`.
    pub name: &'static str,
    /// What it says, in a line.
    pub help: &'static str,
    /// Its value.
    pub value: f64,
    /// The device that it is about, as the label `device`; none where it is about the whole model.
    pub device: Option<String>,
}
