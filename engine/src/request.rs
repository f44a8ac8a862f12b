//! What goes in and what comes out: requests of token ids, and drawn tokens, text and ends. It refuses to know how they are
//! computed, and who asks.

use crate::sampling::Sampling;

/// Names a request while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a conversation of several requests, whose pages are kept between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u128);

/// A prompt to go on from.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its name, unique among those that live.
    pub id: RequestId,
    /// Token ids, at least one.
    pub prompt: Vec<u32>,
    /// How to draw, and when to stop.
    pub sampling: Sampling,
    /// When its time is over, on the clock of `now_ms`.
    pub deadline_ms: Option<u64>,
    /// The conversation that it belongs to: its full pages are kept when it ends, until the next request of the session
    /// ends, [`crate::Engine::release_session`], or a limit.
    pub session: Option<SessionId>,
}

/// A token that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The token.
    pub id: u32,
    /// The natural logarithm of its probability by the model's own logits: before penalties and bias, at temperature 1,
    /// over the whole vocabulary. There when [`Sampling::logprobs`] asks.
    pub logprob: Option<f32>,
    /// The most probable tokens in the same terms, best first, equal ones by id; as many as [`Sampling::logprobs`] says.
    pub top: Vec<(u32, f32)>,
}

/// What a step gives out.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// More of a request.
    Tokens {
        /// Which request.
        id: RequestId,
        /// What was drawn, a stop token included; empty when only text was still owed.
        tokens: Vec<Drawn>,
        /// Text that is certain: pieces one behind the other are the whole text, never with a stop string, with anything
        /// behind one, or with the text of a stop token.
        text: String,
    },
    /// The last of a request, exactly once.
    Done {
        /// Which request.
        id: RequestId,
        /// Why it ended.
        reason: Reason,
        /// What it took.
        usage: Usage,
    },
}

/// Why a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// This stop token was drawn.
    Stop(u32),
    /// The text came to this stop string.
    StopString(String),
    /// `max_new` tokens were drawn.
    Length,
    /// It was cancelled.
    Cancelled,
    /// Its deadline passed.
    Deadline,
    /// It could not be computed, and why.
    Failed(String),
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the prompt.
    pub prompt: usize,
    /// Of these, found computed already.
    pub cached: usize,
    /// Drawn, a stop token included.
    pub completion: usize,
}
