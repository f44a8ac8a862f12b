//! A row as ids and which of them are in the loss, by the rules of Miles' masks: each message is rendered by itself and its ids
//! are joined, so that every answer keeps its thinking and no turn changes an earlier one. Rows of ids are taken as they are, texts whole.
//! It refuses to cut a row, and to know files of rows.

mod many;
mod model;
mod shown;
#[cfg(test)]
mod tests;

pub(crate) use model::hex;
#[cfg(test)]
pub(crate) use model::sha256;
pub use model::{EncoderSettings, TemplateChoice, TextDigests};
pub use shown::ShownToken;

use crate::error::{Place, TrainingError};
use crate::rows::{AnyRow, BadKind, RowError};
use crate::sample::Sample;
use crate::trajectory::{ChatMessage, ChatRow, IdRow, TextRow};
use legwork_model::{Conversation, Message, ModelError, PromptTemplate, RenderOptions};
use legwork_protocol::message::Role;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What ends a text in Qwen's and GPT-2's vocabularies.
const END_OF_TEXT: &str = "<|endoftext|>";

/// How messages are rendered one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskKind {
    /// Miles' `qwen3`: the first message before a stand-in of a user, every later one behind it, and the stand-in cut away.
    #[default]
    Qwen3,
    /// Miles' `qwen`, its default: every message alone. Without a user's turn before it, Qwen3's published template drops the
    /// thinking of an answer, which is then neither read nor learned.
    Qwen,
}

impl MaskKind {
    /// What it is called in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qwen3 => "qwen3",
            Self::Qwen => "qwen",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Qwen3, Self::Qwen].into_iter().find(|one| one.name() == name)
    }
}

/// What a row may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowLimits {
    /// Tokens of a row at most; a longer one is bad, never cut.
    pub length_max: usize,
    /// Rows of the model's embedding: each id is below.
    pub vocabulary: usize,
}

/// Makes samples of rows.
#[derive(Clone, Debug)]
pub struct Encoder {
    prompts: PromptTemplate,
    kind: MaskKind,
    limits: RowLimits,
    frame: Frame,
}

/// What the template writes around a message, found out once with a stand-in.
#[derive(Clone, Debug)]
struct Frame {
    /// A user's turn that opens a conversation, with whatever the template puts before it.
    opening: Vec<u32>,
    /// The same turn behind another.
    turn: Vec<u32>,
    /// What opens an answer: Qwen3's three tokens `<|im_start|>`, `assistant` and a line feed.
    header: Vec<u32>,
}

impl Encoder {
    /// An encoder by a template that is bound to its tokenizer.
    ///
    /// # Errors
    /// A template that renders one user turn behind another as something else than the same turn again, or that opens an
    /// answer by changing what stands before it: messages cannot be told apart then.
    pub fn new(prompts: PromptTemplate, kind: MaskKind, limits: RowLimits) -> Result<Self, TrainingError> {
        let frame = Frame::of(&prompts)?;
        Ok(Self { prompts, kind, limits, frame })
    }

    /// The template with its tokenizer.
    pub fn prompts(&self) -> &PromptTemplate {
        &self.prompts
    }

    /// How messages are rendered.
    pub fn kind(&self) -> MaskKind {
        self.kind
    }

    /// What a row may be.
    pub fn limits(&self) -> RowLimits {
        self.limits
    }

    /// The sample of a row; `place` is where the row stands.
    ///
    /// # Errors
    /// A bad row: a conversation that the template refuses, nothing in the loss, too many tokens, an id that the model has no
    /// row for.
    pub fn encode(&self, row: &AnyRow, place: &Place) -> Result<Sample, RowError> {
        match row {
            AnyRow::Chat(row) => self.encode_chat(row, place),
            AnyRow::Ids(row) => self.encode_ids(row, place),
            AnyRow::Text(row) => self.encode_text(row, place),
        }
    }

    /// The sample of a chat row.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_chat(&self, row: &ChatRow, place: &Place) -> Result<Sample, RowError> {
        let (mut ids, mut supervised) = (Vec::new(), Vec::new());
        for (at, message) in row.messages.iter().enumerate() {
            let own = self.message(row, at).map_err(|why| {
                RowError::of_field(
                    BadKind::Template,
                    place,
                    &format!("messages[{at}]"),
                    format!("cannot be rendered: {why}"),
                )
            })?;
            // An answer that opens the row may have the template's head before it, with the tools; that is not learned.
            let header = self.header_at(&own).filter(|_| message.is_supervised());
            let learned_from = header.map_or(own.len(), |at| at + self.frame.header.len());
            supervised.extend((0..own.len()).map(|at| at >= learned_from));
            ids.extend(own);
            if ids.len() > self.limits.length_max {
                // The rest is counted only as far as the first message that is too much.
                return Err(self.too_long(place, &format!("messages[..={at}]"), ids.len()));
            }
        }
        let source = row.metadata.source.clone().unwrap_or_default();
        self.checked(Sample { ids, supervised, place: place.clone(), source }, "messages")
    }

    /// The sample of a token row: the very ids that were used and made, and what its spans say of the loss.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_ids(&self, row: &IdRow, place: &Place) -> Result<Sample, RowError> {
        if row.ids() > self.limits.length_max {
            return Err(self.too_long(place, "spans", row.ids()));
        }
        let mut ids = row.prompt_ids.clone();
        let mut supervised = vec![false; ids.len()];
        for span in &row.spans {
            ids.extend_from_slice(&span.ids);
            supervised.resize(ids.len(), !span.masked);
        }
        let source = row.metadata.source.clone().unwrap_or_default();
        self.checked(Sample { ids, supervised, place: place.clone(), source }, "spans")
    }

    /// The sample of a text: its tokens and, where the tokenizer has one, the token that ends a text, all in the loss but the
    /// first.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_text(&self, row: &TextRow, place: &Place) -> Result<Sample, RowError> {
        let tokenizer = self.prompts.tokenizer();
        let mut ids = tokenizer
            .encode(&row.learned())
            .map_err(|why| RowError::of_field(BadKind::Template, place, "text", format!("cannot be encoded: {why}")))?;
        ids.extend(tokenizer.id_of(END_OF_TEXT));
        if ids.len() > self.limits.length_max {
            return Err(self.too_long(place, "text", ids.len()));
        }
        let source = row.metadata.source.clone().unwrap_or_default();
        let supervised = vec![true; ids.len()];
        self.checked(Sample { ids, supervised, place: place.clone(), source }, "text")
    }

    fn checked(&self, mut sample: Sample, field: &str) -> Result<Sample, RowError> {
        if let Some(first) = sample.supervised.first_mut() {
            *first = false;
        }
        if sample.supervised() == 0 {
            let problem = "have nothing left in the loss: remove the row, nothing can be learned from it".to_owned();
            return Err(RowError::of_field(BadKind::NothingSupervised, &sample.place, field, problem));
        }
        let vocabulary = self.limits.vocabulary;
        if let Some((at, id)) = sample.ids.iter().enumerate().find(|(_, id)| **id as usize >= vocabulary) {
            let problem = format!(
                "has the id {id}, and the model has rows for {vocabulary} ids: train the model that the row was made for"
            );
            return Err(RowError::of_field(BadKind::UnknownId, &sample.place, &format!("token {at}"), problem));
        }
        Ok(sample)
    }

    fn too_long(&self, place: &Place, field: &str, tokens: usize) -> RowError {
        let problem = format!(
            "have {tokens} tokens, more than {}: rows are never cut, so raise the limit or leave the row out",
            self.limits.length_max
        );
        RowError::of_field(BadKind::TooLong, place, field, problem)
    }

    /// The ids of one message of a row.
    fn message(&self, row: &ChatRow, at: usize) -> Result<Vec<u32>, ModelError> {
        let message = model_message(&row.messages[at]);
        let tools = (at == 0 && !row.tools.is_empty()).then(|| Value::Array(row.tools.clone()));
        let options = RenderOptions { tools, ..RenderOptions::default() };
        let encode = |messages: Vec<Message>| self.prompts.encode(&Conversation::new(messages)?, &options);
        let ids = match (self.kind, at) {
            (MaskKind::Qwen3, 0) => {
                let mut ids = encode(vec![message, stand_in()])?;
                let cut = ids.len().checked_sub(self.frame.turn.len()).filter(|cut| ids[*cut..] == self.frame.turn);
                ids.truncate(cut.ok_or_else(|| self.untold("renders the first message as part of the next"))?);
                ids
            }
            (MaskKind::Qwen3, _) => {
                let ids = encode(vec![stand_in(), message])?;
                match ids.strip_prefix(self.frame.opening.as_slice()) {
                    Some(own) => own.to_vec(),
                    None => return Err(self.untold("changes a message by the next")),
                }
            }
            (MaskKind::Qwen, _) => {
                let ids = encode(vec![message])?;
                // What a template puts before a conversation without a system message stands before the first only.
                let before = &self.frame.opening[..self.frame.opening.len() - self.frame.turn.len()];
                let own = if at == 0 || row.messages[at].role == Role::System {
                    ids.as_slice()
                } else {
                    ids.strip_prefix(before).ok_or_else(|| self.untold("opens conversations in several ways"))?
                };
                own.to_vec()
            }
        };
        if row.messages[at].role == Role::Assistant && self.header_at(&ids).is_none() {
            return Err(self.untold("does not open an answer as it opens the next one"));
        }
        Ok(ids)
    }

    /// Where an answer's header begins. Its last token is not looked at: a line feed may be one with those behind it.
    fn header_at(&self, ids: &[u32]) -> Option<usize> {
        let header = self.frame.header.as_slice();
        let certain = &header[..header.len().saturating_sub(1).max(1)];
        ids.windows(header.len()).position(|part| part.starts_with(certain))
    }

    fn untold(&self, what: &str) -> ModelError {
        untold(&self.prompts, what)
    }
}

impl Frame {
    fn of(prompts: &PromptTemplate) -> Result<Self, TrainingError> {
        let encode = |count: usize, add_generation_prompt: bool| -> Result<Vec<u32>, ModelError> {
            let options = RenderOptions { add_generation_prompt, ..RenderOptions::default() };
            prompts.encode(&Conversation::new(vec![stand_in(); count])?, &options)
        };
        let (one, two, asked) = (encode(1, false)?, encode(2, false)?, encode(1, true)?);
        let turn = two.strip_prefix(one.as_slice()).filter(|turn| !turn.is_empty() && one.ends_with(turn));
        let turn = turn.ok_or_else(|| untold(prompts, "renders a turn by those around it"))?.to_vec();
        let header = asked.strip_prefix(one.as_slice()).filter(|header| !header.is_empty());
        let header = header.ok_or_else(|| untold(prompts, "has nothing that opens an answer"))?.to_vec();
        Ok(Self { opening: one, turn, header })
    }
}

/// The user's turn that stands in for the rest of a conversation.
fn stand_in() -> Message {
    Message::new("user", "Stand-in.")
}

fn untold(prompts: &PromptTemplate, what: &str) -> ModelError {
    let detail = format!("the template {what}, so messages cannot be masked one by one; use keep_think or qwen3_fixed");
    ModelError::Template { name: prompts.template().name().to_owned(), line: 0, detail }
}

/// A message as a template sees it; what only training knows is left out.
fn model_message(message: &ChatMessage) -> Message {
    let mut made = Message::new(message.role.name(), &message.content);
    if let Some(reasoning) = &message.reasoning_content {
        made = made.with("reasoning_content", reasoning.as_str().into());
    }
    if !message.tool_calls.is_empty() {
        let calls = serde_json::to_value(&message.tool_calls).unwrap_or_default();
        made = made.with("tool_calls", calls);
    }
    for (field, value) in [("tool_call_id", &message.tool_call_id), ("name", &message.name)] {
        if let Some(value) = value {
            made = made.with(field, value.as_str().into());
        }
    }
    made
}
