//! The ids of each conversation as the server used and made them, so that a later turn sends exactly
//! these and encodes only what is new. Decoding and encoding again drifts: the ids differ, the prefix
//! cache is missed, and training sees other tokens than were drawn.
//!
//! Pure. It refuses to know tokenizers and templates: the seam between turns is found by rendering.

use crate::PromptEncoder;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::Session;
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::message::{Message, Role};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How much a ledger keeps; beyond it the conversation that was used longest ago is forgotten, and its
/// next turn is encoded anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLimits {
    /// Conversations.
    pub sessions: usize,
    /// Ids of all conversations together.
    pub ids: usize,
}

impl Default for LedgerLimits {
    fn default() -> Self {
        Self { sessions: 8192, ids: 64 * 1024 * 1024 }
    }
}

/// The last turn of a conversation.
#[derive(Debug)]
pub struct Past {
    messages: Vec<Arc<Message>>,
    prompt: Vec<u32>,
    text: String,
    completion: Vec<u32>,
}

impl Past {
    fn ids(&self) -> usize {
        self.prompt.len() + self.completion.len()
    }
}

/// How a prompt's ids came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The conversation's first turn that the ledger knows of.
    First,
    /// The last turn again, with its very ids: a retry of the caller's.
    Repeated,
    /// The earlier ids as they were, and only the new messages encoded.
    Extended {
        /// Ids taken over.
        kept: usize,
    },
    /// Encoded as a whole, since the history is not the last turn and its answer as they were
    /// (reasoning stripped, a message changed or removed).
    Edited,
    /// Encoded as a whole, since the template shows no seam between an answer and what follows.
    Seamless,
}

impl Reuse {
    /// Whether a known conversation was encoded as a whole.
    pub fn is_reencoded(self) -> bool {
        matches!(self, Reuse::Edited | Reuse::Seamless)
    }
}

/// The ids to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPlan {
    /// The whole prompt.
    pub ids: Vec<u32>,
    /// Where they are from.
    pub reuse: Reuse,
}

impl PromptPlan {
    /// A prompt without a past.
    ///
    /// # Errors
    /// The encoder's, and `Misconfigured` where it gives no ids.
    pub fn fresh(messages: &[Arc<Message>], encoder: &dyn PromptEncoder) -> Result<Self, Failure> {
        Self::encoded(messages, encoder, Reuse::First)
    }

    /// A prompt that goes on from `past` where it can.
    ///
    /// # Errors
    /// As [`PromptPlan::fresh`].
    pub fn new(past: Option<&Past>, messages: &[Arc<Message>], encoder: &dyn PromptEncoder) -> Result<Self, Failure> {
        let Some(past) = past else { return Self::fresh(messages, encoder) };
        let Some(rest) = messages.strip_prefix_of(&past.messages) else {
            return Self::encoded(messages, encoder, Reuse::Edited);
        };
        match rest {
            [] => Ok(Self { ids: past.prompt.clone(), reuse: Reuse::Repeated }),
            [answer, new @ ..] if is_answer(answer, past) && !new.is_empty() => match seam(new, encoder)? {
                None => Self::encoded(messages, encoder, Reuse::Seamless),
                Some(seam) => Ok(Self::extended(past, &seam)),
            },
            _ => Self::encoded(messages, encoder, Reuse::Edited),
        }
    }

    fn encoded(messages: &[Arc<Message>], encoder: &dyn PromptEncoder, reuse: Reuse) -> Result<Self, Failure> {
        let ids = encoder.encode(messages)?;
        if ids.is_empty() {
            let detail = "a prompt of at least one id was expected, the encoder gave none: check the chat template";
            return Err(Failure { kind: FailureKind::Misconfigured, detail: detail.to_owned(), attempts: 0 });
        }
        Ok(Self { ids, reuse })
    }

    /// The end of turn is in the completion if the model drew it, and missing if it was cut short.
    fn extended(past: &Past, seam: &[u32]) -> Self {
        let kept = past.ids();
        let mut ids = Vec::with_capacity(kept + seam.len());
        ids.extend_from_slice(&past.prompt);
        ids.extend_from_slice(&past.completion);
        let drawn = usize::from(ids.last() == seam.first());
        ids.extend_from_slice(&seam[drawn..]);
        Self { ids, reuse: Reuse::Extended { kept } }
    }
}

trait StripPrefixOf {
    fn strip_prefix_of(&self, head: &[Arc<Message>]) -> Option<&[Arc<Message>]>;
}

impl StripPrefixOf for [Arc<Message>] {
    fn strip_prefix_of(&self, head: &[Arc<Message>]) -> Option<&[Arc<Message>]> {
        let (start, rest) = self.split_at_checked(head.len())?;
        let same = start.iter().zip(head).all(|(a, b)| Arc::ptr_eq(a, b) || a == b);
        same.then_some(rest)
    }
}

fn is_answer(message: &Message, past: &Past) -> bool {
    message.role == Role::Assistant
        && message.content == past.text
        && message.reasoning.is_none()
        && message.tool_calls.is_empty()
}

/// The ids from the end of an answer to the end of the prompt: end of turn, the new messages, the next
/// generation prompt. Two conversations that differ in the answer alone are rendered; what they have in
/// common at the end is the seam. Consecutive tool messages are thus rendered together, as in a whole
/// conversation.
fn seam(new: &[Arc<Message>], encoder: &dyn PromptEncoder) -> Result<Option<Vec<u32>>, Failure> {
    let render = |answer: &str| {
        let mut messages =
            vec![Arc::new(Message::new(Role::User, "0")), Arc::new(Message::new(Role::Assistant, answer))];
        messages.extend_from_slice(new);
        encoder.encode(&messages)
    };
    let (one, other) = (render("A")?, render("7")?);
    let common = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    // Equal to the last id means that the template does not show the answer at all.
    let shown = common < one.len() && common < other.len();
    Ok((common > 0 && shown).then(|| one[one.len() - common..].to_vec()))
}

/// Conversations and the ids of their last turns.
#[derive(Debug)]
pub struct TokenLedger {
    limits: LedgerLimits,
    sessions: BTreeMap<(EpisodeKey, Scope), (u64, Arc<Past>)>,
    by_age: BTreeMap<u64, (EpisodeKey, Scope)>,
    ids: usize,
    clock: u64,
}

impl TokenLedger {
    /// An empty ledger.
    pub fn new(limits: LedgerLimits) -> Self {
        Self { limits, sessions: BTreeMap::new(), by_age: BTreeMap::new(), ids: 0, clock: 0 }
    }

    /// The last turn of a conversation, for [`PromptPlan::new`].
    pub fn past(&mut self, session: &Session) -> Option<Arc<Past>> {
        let key = key(session);
        let past = self.sessions.get(&key)?.1.clone();
        self.touch(key);
        Some(past)
    }

    /// Records a turn that has been answered. Only answers are recorded: a call that failed or was
    /// refused leaves the past as it was, so that it can be made again.
    pub fn commit(
        &mut self,
        session: &Session,
        messages: &[Arc<Message>],
        prompt: &[u32],
        text: &str,
        completion: &[u32],
    ) {
        let key = key(session);
        self.forget(&key);
        let past = Past {
            messages: messages.to_vec(),
            prompt: prompt.to_vec(),
            text: text.to_owned(),
            completion: completion.to_vec(),
        };
        if past.ids() > self.limits.ids || self.limits.sessions == 0 {
            return;
        }
        while self.sessions.len() >= self.limits.sessions || self.ids + past.ids() > self.limits.ids {
            let Some(oldest) = self.by_age.first_key_value().map(|(_, key)| key.clone()) else { break };
            self.forget(&oldest);
        }
        self.ids += past.ids();
        self.clock += 1;
        self.by_age.insert(self.clock, key.clone());
        self.sessions.insert(key, (self.clock, Arc::new(past)));
    }

    /// Conversations known.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    fn touch(&mut self, key: (EpisodeKey, Scope)) {
        self.clock += 1;
        if let Some((age, _)) = self.sessions.get_mut(&key) {
            self.by_age.remove(age);
            *age = self.clock;
            self.by_age.insert(self.clock, key);
        }
    }

    fn forget(&mut self, key: &(EpisodeKey, Scope)) {
        if let Some((age, past)) = self.sessions.remove(key) {
            self.by_age.remove(&age);
            self.ids -= past.ids();
        }
    }
}

fn key(session: &Session) -> (EpisodeKey, Scope) {
    (session.episode.clone(), session.scope)
}

#[cfg(test)]
mod tests;
